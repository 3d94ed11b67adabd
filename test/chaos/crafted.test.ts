/**
 * Stores that somebody crafted, or a disk damaged: every command ends, in time and with a line that says what is wrong;
 * nobody who has nothing to do with it is killed, and nothing of it is run that is not plainly right. `CRAFTED_STORES=2000`
 * makes so many instead of a few, `CRAFTED_SEED` others.
 */

import { expect, test } from "bun:test";
import { join } from "node:path";
import process from "node:process";

/** A signal to everybody must not leave it. */
const APART = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
const isPossible = Bun.spawnSync([...APART, "true"], { stderr: "ignore" }).exitCode === 0;
if (!isPossible) console.warn("SKIPPED: crafted stores need a pid namespace of their own (unshare as root)");

const count = Number(process.env["CRAFTED_STORES"] ?? 60);
const seed = Number(process.env["CRAFTED_SEED"] ?? 1);

test.skipIf(!isPossible)(
  "a crafted store ends in a clear line, and never in a stack, a hang, a stranger's death or a stranger's command",
  async () => {
    const fuzz = Bun.spawn(
      [...APART, process.execPath, join(import.meta.dir, "crafted/fuzz.ts"), `${count}`, `${seed}`],
      {
        stdout: "pipe",
        stderr: "pipe",
      },
    );
    const [stdout, stderr, code] = await Promise.all([fuzz.stdout.text(), fuzz.stderr.text(), fuzz.exited]);
    const lines = stdout.trim().split("\n");
    expect({ code, stderr, broken: lines.slice(0, -1) }).toEqual({ code: 0, stderr: "", broken: [] });
    expect(JSON.parse(lines.at(-1) ?? "{}")).toMatchObject({ stores: count, broken: 0 });
  },
  count * 5_000 + 60_000,
);
