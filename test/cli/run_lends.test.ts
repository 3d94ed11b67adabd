/** What `lease run` lends to a job that it runs itself: standard input, and the size of the terminal. */

import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { environment, LEASE, run, usePlaces } from "./lease.ts";

const newPlace = usePlaces();

describe("a run lends the job", () => {
  const reader = ["sh", "-c", "wc -c"];

  test("its standard input where that is a pipe, or a file, to its last byte", async () => {
    const place = newPlace();
    const large = "x".repeat(3_000_000);
    const piped = await place.leaseWith({ stdin: large }, "run", "--", ...reader);
    expect(piped).toMatchObject({ code: 0, stdout: "3000000\n" });
    writeFileSync(join(place.folder, "in"), "12345");
    const { stdout } = await run(["sh", "-c", '"$LEASE" run -- wc -c < in'], { cwd: place.folder, env: place.env });
    expect(stdout).toBe("5\n");
  });

  test("and reads no more of it than the job does: the rest of a script stays", async () => {
    const place = newPlace();
    const script = '"$LEASE" run -- true\necho the rest\n';
    const { stdout } = await run(["sh"], { cwd: place.folder, env: place.env, stdin: script });
    expect(stdout).toBe("the rest\n");
  });

  test("the size of its terminal with --pty", async () => {
    const place = newPlace();
    let screen = "";
    const terminal = {
      cols: 77,
      rows: 33,
      data: (_: unknown, bytes: Uint8Array) => void (screen += Buffer.from(bytes)),
    };
    const env = { ...environment(), ...place.env };
    const child = Bun.spawn([LEASE, "run", "--pty", "--", "stty", "size"], { cwd: place.folder, env, terminal });
    expect(await child.exited).toBe(0);
    expect(screen).toContain("33 77");
  });
});
