import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { platform } from "#platform";
import type { SpawnOptions, Stream } from "../../src/platform/platform.ts";

async function run(argv: string[], options: Partial<SpawnOptions> = {}) {
  const printed: Record<Stream, Buffer[]> = { stdout: [], stderr: [] };
  const child = await platform.spawn({
    argv,
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "" },
    input: null,
    pty: false,
    // Copied: the bytes are only valid during the call.
    onOutput: (stream, bytes) => {
      printed[stream].push(Buffer.from(bytes));
    },
    ...options,
  });
  const exit = await child.exited;
  await child.drained;
  return { pid: child.pid, exit, stdout: Buffer.concat(printed.stdout), stderr: Buffer.concat(printed.stderr) };
}

const failure = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => null,
    (error) => error,
  );

describe("a child", () => {
  test("has exactly the words, folder, environment and input that it was given", async () => {
    const { stdout, exit } = await run(
      ["sh", "-c", 'printf "%s|" "$@"; pwd; env | grep -c .; cat', "-", "a b", "", "*"],
      {
        cwd: "/usr",
        env: { PATH: process.env["PATH"] ?? "", ONLY: "this" },
        input: new TextEncoder().encode("input"),
      },
    );
    const [first, variables, input] = stdout.toString().split("\n");
    expect([first, input]).toEqual(["a b||*|/usr", "input"]);
    // PATH and ONLY; the shell adds PWD and the like.
    expect(Number(variables)).toBeLessThan(8);
    expect(exit).toEqual({ exit_code: 0, signal: null });
  });

  test("has its two streams told apart, byte for byte", async () => {
    const { stdout, stderr } = await run(["sh", "-c", String.raw`printf '\0\377out'; printf '\200err' >&2`]);
    expect([...stdout]).toEqual([0, 255, ...Buffer.from("out")]);
    expect([...stderr]).toEqual([128, ...Buffer.from("err")]);
  });

  test("leads a session of its own, so that its group can be signalled", async () => {
    const { pid, stdout } = await run(["sh", "-c", "ps -o pgid=,sid= -p $$"]);
    expect(stdout.toString().trim().split(/\s+/).map(Number)).toEqual([pid, pid]);
  });

  test("ends with its code or with the signal's name", async () => {
    expect((await run(["sh", "-c", "exit 7"])).exit).toEqual({ exit_code: 7, signal: null });
    expect((await run(["sh", "-c", "kill -TERM $$"])).exit).toEqual({ exit_code: null, signal: "SIGTERM" });
  });

  test("reads an empty input, or none, to its end at once", async () => {
    expect((await run(["wc", "-c"])).stdout.toString().trim()).toBe("0");
    expect((await run(["wc", "-c"], { input: new Uint8Array(0) })).stdout.toString().trim()).toBe("0");
  });

  test("may end without reading its input", async () => {
    expect((await run(["true"], { input: new Uint8Array(1024 * 1024) })).exit).toEqual({ exit_code: 0, signal: null });
  });

  test.each([
    ["that it ends with", "head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2"],
    ["that no pipe holds", "head -c 900000 /dev/zero; head -c 700000 /dev/zero >&2"],
    ["that comes late", "sleep 0.05; head -c 300000 /dev/zero; sleep 0.05; head -c 5 /dev/zero >&2"],
  ])("has everything read %s", async (_what, script) => {
    const wanted = [...script.matchAll(/head -c (\d+)/g)].map((match) => Number(match[1]));
    const { stdout, stderr } = await run(["sh", "-c", script]);
    expect([stdout.length, stderr.length]).toEqual(wanted);
  });

  test("has what it prints to both streams in order, also when it does so right away", async () => {
    const printed: string[] = [];
    const decoder = new TextDecoder();
    // As programs that take a moment to start.
    const script = "echo 1; perl -e 'print STDERR 2'; perl -e 'print 3'; perl -e 'print STDERR 4'";
    const onOutput = (_stream: Stream, bytes: Uint8Array) => void printed.push(decoder.decode(bytes).trim());
    await run(["sh", "-c", script], { onOutput });
    expect(printed).toEqual(["1", "2", "3", "4"]);
  });

  test("is read on behind its end while somebody else can print there", async () => {
    const { stdout } = await run(["sh", "-c", "(sleep 0.1; echo late) & echo early"]);
    expect(stdout.toString()).toBe("early\nlate\n");
  });

  test("is not waited for by its end when somebody prints there for ever", async () => {
    const heard = Promise.withResolvers<void>();
    const child = await platform.spawn({
      argv: ["sh", "-c", "yes & sleep 0.003"],
      cwd: "/",
      env: { PATH: process.env["PATH"] ?? "" },
      input: null,
      pty: false,
      onOutput: () => heard.resolve(),
    });
    await Promise.all([child.exited, heard.promise]);
    process.kill(-child.pid, "SIGKILL");
    await child.drained;
  });

  test.if(process.platform === "linux")("leaves no descriptor behind", async () => {
    const open = () => readdirSync("/proc/self/fd").length;
    await run(["true"]);
    const before = open();
    for (let i = 0; i < 20; i++) await run(["sh", "-c", i % 2 === 0 ? "echo x" : "sleep 0.02; echo x"]);
    expect(open()).toBeLessThanOrEqual(before + 2);
  });

  test("has a terminal on all three streams when it was given one", async () => {
    const script = "test -t 0 && test -t 1 && test -t 2 && echo yes; exit 3";
    const { stdout, exit } = await run(["sh", "-c", script], { pty: true });
    expect(stdout.toString().trim()).toBe("yes");
    expect(exit.exit_code).toBe(3);
  });
});

describe("a child that can't be started", () => {
  test.each([
    ["because there is no such program", ["no-such-program"], "/", "ENOENT"],
    ["because it may not be executed", ["/etc/passwd"], "/", "EACCES"],
    ["because its folder is gone", ["true"], "/no/such/folder", "ENOENT"],
  ])("%s, fails with the system's code", async (_why, argv, cwd, code) => {
    expect(await failure(run(argv, { cwd }))).toMatchObject({ code });
    expect(await failure(run(argv, { cwd, pty: true }))).toMatchObject({ code });
  });
});
