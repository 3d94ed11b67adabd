/**
 * What others wrote, and nobody would: 110,000 inputs, and none ends in a stack, a hang, an exit code that is not that of
 * what was done wrong, or an answer that contradicts itself. `FUZZ_INPUTS=1000000` makes so many, `FUZZ_SEED` others.
 */

import { describe, expect, test } from "bun:test";
import { join } from "node:path";
import process from "node:process";
import { writeProof } from "../../scripts/proof/report.ts";
import { LeaseError } from "../../src/core/errors.ts";
import { Chance } from "../sim/chance.ts";
import { tryOne } from "./judge.ts";

const count = Number(process.env["FUZZ_INPUTS"] ?? 110_000);
const seed = Number(process.env["FUZZ_SEED"] ?? 1);
const WITHIN_MS = 60_000 + count * 3;

test(
  "everything that reads what others wrote answers, or refuses it in one line",
  async () => {
    const fuzz = Bun.spawn([process.execPath, join(import.meta.dir, "run.ts"), `${count}`, `${seed}`], {
      stdout: "pipe",
      stderr: "pipe",
      timeout: WITHIN_MS,
      killSignal: "SIGKILL",
    });
    const [stdout, stderr] = await Promise.all([fuzz.stdout.text(), fuzz.stderr.text(), fuzz.exited]);
    const lines = stdout.trim().split("\n");
    // Of one that hangs the last target is told.
    expect({ signal: fuzz.signalCode, at: fuzz.signalCode && stderr, found: lines.slice(0, -1) }).toEqual({
      signal: null,
      at: null,
      found: [],
    });
    const { inputs, refused, broken } = JSON.parse(lines.at(-1) ?? "{}") as Record<string, number>;
    expect(inputs).toBeGreaterThanOrEqual(count);
    writeProof("fuzz", {
      order: 60,
      title: "Garbage for everything that reads what others wrote",
      command: "bun test test/fuzz",
      counts: { "inputs tried": inputs ?? 0, "refused in one line": refused ?? 0 },
      violations: { "stacks, hangs or wrong exit codes": broken ?? 0 },
    });
  },
  WITHIN_MS + 5_000,
);

describe("an input is found fault with", () => {
  const ended = (go: () => unknown) => tryOne({ go: (_, told) => (told("x"), go()), codes: [2] }, new Chance(1));

  test("that ends in anything but an error of ours", async () => {
    const { problem } = await ended(() => (undefined as unknown as string).length);
    expect(problem).toStartWith('"x": TypeError');
  });

  test("that is refused with the code of something else", async () => {
    const fail = () => {
      throw new LeaseError("store_failed", "no");
    };
    expect((await ended(fail)).problem).toStartWith('"x": LeaseError: no');
  });

  test("but not one that is refused as it should be, or answered", async () => {
    const refuse = () => {
      throw new LeaseError("usage", "no");
    };
    expect(await ended(refuse)).toEqual({ problem: null, refused: true });
    expect(await ended(() => 7)).toEqual({ problem: null, refused: false });
  });
});
