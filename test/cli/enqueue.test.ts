/** What each flag of `lease enqueue` does, as `lease inspect` shows it or the job feels it. */

import { describe, expect, test } from "bun:test";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expectRefusal, LEASE, run, usePlaces } from "./lease.ts";

const newPlace = usePlaces();

const span_ms = (from: string, to: string): number => Date.parse(to) - Date.parse(from);

describe("the command of a job", () => {
  test("is exactly the words given, with no shell in between", async () => {
    const place = newPlace();
    const words = ["printf", "[%s]", "", "a b", "*", "$HOME", "--queue", "--", "-c", "ü\n", "'\"\\"];
    const ids = [await place.enqueue("--", ...words), await place.enqueue(...words)];
    for (const id of ids) expect((await place.inspect(id)).argv).toEqual(words);
    expect(await place.work()).toBe(0);
    const printed = words
      .slice(2)
      .map((word) => `[${word}]`)
      .join("");
    for (const id of ids) expect(await place.log(id)).toBe(`${printed}\n`);
  });

  test("may begin with a dash or two behind --", async () => {
    const place = newPlace();
    expect((await place.inspect(await place.enqueue("--", "--", "x"))).argv).toEqual(["--", "x"]);
    expect((await place.inspect(await place.enqueue("--", "-c", "x"))).argv).toEqual(["-c", "x"]);
  });

  test("is a shell line with -c, in all its spellings", async () => {
    const place = newPlace();
    const line = 'for n in 1 2; do echo "$n"; done | tac';
    for (const flags of [["-c", line], [`-c${line}`], ["--shell", line], [`--shell=${line}`]]) {
      expect((await place.inspect(await place.enqueue(...flags))).argv).toEqual(["sh", "-c", line]);
    }
    await place.work();
    expect(await place.log(1)).toBe("2\n1\n");
  });
});

describe("the names of a job", () => {
  test("are shown as they were given, in every spelling of the flags", async () => {
    const place = newPlace();
    const spellings = [
      ["--queue", "mail", "--task", "t 1", "--priority", "-5", "--key", "k/1"],
      ["--queue=mail", "--task=t 1", "--priority=-5", "--key=k/2"],
      ["-q", "mail", "-t", "t 1", "-p", "-5", "-k", "k/3"],
      ["-qmail", "-tt 1", "-p-5", "-kk/4"],
      ["-q=mail", "-t=t 1", "-p=-5", "-k=k/5"],
    ];
    for (const [index, flags] of spellings.entries()) {
      const job = await place.inspect(await place.enqueue(...flags, "--", "true"));
      expect(job).toMatchObject({ queue: "mail", task: "t 1", priority: -5, key: `k/${index + 1}` });
    }
  });

  test("are the default queue, no task, no key and priority 0 when none is given", async () => {
    const place = newPlace();
    const job = await place.inspect(await place.enqueue("--", "true"));
    expect(job).toMatchObject({ queue: "default", task: null, key: null, priority: 0, retries: 3, retries_left: 3 });
  });
});

describe("when a job runs", () => {
  test("--delay schedules it, to the millisecond, and no worker takes it before", async () => {
    const place = newPlace();
    const id = await place.enqueue("--delay", "1h30m", "--", "true");
    const job = await place.inspect(id);
    expect(job).toMatchObject({ state: "scheduled", attempts: 0 });
    expect(span_ms(job.created_at, job.run_at)).toBe(5_400_000);
    expect(job.reason).toMatch(/^due in 1h/);
    expect(await place.work()).toBe(0);
    expect(await place.inspect(id)).toMatchObject({ state: "scheduled", attempts: 0 });
    expect(await place.inspect(await place.enqueue("--delay", "0", "--", "true"))).toMatchObject({ state: "pending" });
  });

  test("--after waits for the success of others, lists and ranges of them", async () => {
    const place = newPlace();
    for (let n = 0; n < 3; n++) await place.enqueue("--", "true");
    const id = await place.enqueue("--after", "1,2-3", "--", "echo", "last");
    const again = await place.enqueue("--after", "1", "--after", "2", "--", "true");
    expect(await place.inspect(id)).toMatchObject({ state: "blocked", reason: expect.stringMatching(/^waits for/) });
    expect(await place.work()).toBe(0);
    expect(await place.inspect(id)).toMatchObject({ state: "completed" });
    expect(await place.inspect(again)).toMatchObject({ state: "completed" });
  });

  test("--after cancels it when what it waits for fails, --after-any runs it all the same", async () => {
    const place = newPlace();
    await place.enqueue("--retries", "0", "--", "false");
    const strict = await place.enqueue("--after", "1", "--", "true");
    const lenient = await place.enqueue("--after-any", "1", "--", "true");
    expect(await place.work()).toBe(1);
    const reason = "job 1, which it waits for, failed";
    expect(await place.inspect(strict)).toMatchObject({ state: "cancelled", attempts: 0, reason });
    expect(await place.inspect(lenient)).toMatchObject({ state: "completed" });
    // And so does one that comes too late.
    expect(await place.inspect(await place.enqueue("--after", "1", "--", "true"))).toMatchObject({
      state: "cancelled",
      reason,
    });
  });
});

describe("what a job reads", () => {
  test("--input is its standard input, as text, from a file, or from ours", async () => {
    const place = newPlace();
    writeFileSync(join(place.folder, "letter"), "from a file\n");
    const ids = [
      await place.enqueue("--input", "as text", "--", "cat"),
      await place.enqueue("--input", "@letter", "--", "cat"),
      Number((await place.leaseWith({ stdin: "from stdin" }, "enqueue", "--input", "-", "--", "cat")).stdout),
      await place.enqueue("--input", "", "--", "wc", "-c"),
      await place.enqueue("--", "wc", "-c"),
    ];
    const inputs = await Promise.all(ids.map(async (id) => (await place.inspect(id)).input));
    expect(inputs).toEqual(["as text", "from a file\n", "from stdin", "", null]);
    await place.work("-j", "4");
    const logs = await Promise.all(ids.map((id) => place.log(id)));
    expect(logs).toEqual(["as text\n", "from a file\n", "from stdin\n", "0\n", "0\n"]);
  });

  test("any byte but NUL gets through: what is no UTF-8, and a whole megabyte", async () => {
    const place = newPlace();
    const every = Uint8Array.from({ length: 255 }, (_, byte) => byte + 1);
    const large = new Uint8Array(1024 * 1024).fill(7);
    for (const [name, bytes] of [
      ["every", every],
      ["large", large],
    ] as const) {
      writeFileSync(join(place.folder, name), bytes);
      await place.enqueue("--input", `@${name}`, "--", "sha256sum");
      await place.leaseWith({ stdin: bytes }, "enqueue", "--input", "-", "--", "sha256sum");
    }
    await place.work("-j", "2");
    for (const [id, bytes] of [every, every, large, large].entries()) {
      expect(await place.log(id + 1)).toStartWith(new Bun.CryptoHasher("sha256").update(bytes).digest("hex"));
    }
  });

  test("--env values may have commas, and --input text may begin with @", async () => {
    const place = newPlace();
    const flags = ["--env", String.raw`A=1\,2,B=3`, "--env", "C=x\\", "--input", "@@home"];
    const id = await place.enqueue(...flags, "-c", 'echo "$A $B $C $(cat)"');
    await place.work();
    expect(await place.log(id)).toBe("1,2 3 x\\ @home\n");
  });

  test("--env takes variables along, and shows their names but never their values", async () => {
    const place = newPlace();
    const enqueue = [
      "enqueue",
      "--env",
      "SECRET,GIVEN=b=c",
      "--env",
      "EMPTY=",
      "-c",
      'echo "$SECRET/$GIVEN/$EMPTY/$NOT"',
    ];
    expect(await place.leaseWith({ env: { SECRET: "hush", NOT: "x" } }, ...enqueue)).toMatchObject({ stdout: "1\n" });
    const shown = [await place.lease("inspect", "1"), await place.lease("inspect", "1", "--json")];
    expect(shown[0]?.stdout).toContain("SECRET, GIVEN, EMPTY");
    for (const { stdout } of shown) expect(stdout).not.toMatch(/hush|b=c/);
    await place.work();
    expect(await place.log(1)).toBe("hush/b=c//\n");
  });

  test("--cwd is where it runs, relative to here; without it, here", async () => {
    const place = newPlace();
    mkdirSync(join(place.folder, "below"));
    const ids = [
      await place.enqueue("--cwd", "below", "--", "pwd"),
      await place.enqueue("--cwd", "/", "--", "pwd"),
      await place.enqueue("--", "pwd"),
    ];
    const folders = [join(place.folder, "below"), "/", place.folder];
    expect(await Promise.all(ids.map(async (id) => (await place.inspect(id)).cwd))).toEqual(folders);
    await place.leaseWith({ cwd: "/usr" }, "worker", "--until-empty");
    expect(await Promise.all(ids.map((id) => place.log(id)))).toEqual(folders.map((folder) => `${folder}\n`));
  });

  test("a working folder that is gone is refused, by the runtime before we could", async () => {
    const place = newPlace();
    mkdirSync(join(place.folder, "gone"));
    const script = 'cd gone && rmdir ../gone && exec "$0" enqueue -- true';
    const answer = await run(["sh", "-c", script, LEASE], { cwd: place.folder, env: place.env });
    expect(answer).toEqual({
      code: expect.any(Number),
      stdout: "",
      stderr: expect.stringMatching(/^[^\n]*directory[^\n]*\n$/),
    });
    expect(answer.code).not.toBe(0);
    expect(place.content()).toEqual({});
  });
});

describe("how a job runs", () => {
  test("settings that differ from the usual are on its page, and no others", async () => {
    const place = newPlace();
    const flags: [string[], string][] = [
      [["--retries", "0"], "no retries"],
      [["--retries", "7"], "7 retries"],
      [["--backoff", "5s"], "backoff 5s ×2 to 10m"],
      [["--backoff", "5s..1h"], "backoff 5s ×2 to 1h"],
      [["--backoff", "fixed:30s"], "backoff 30s"],
      [["--backoff", "none"], "backoff none"],
      [["--retry-on", "lost"], "retried only when its worker is lost"],
      [["--fatal-exit", "2,64-78"], "exit 2,64-78 not retried"],
      [["--timeout", "90s"], "timeout 1m30s"],
      [["--lease", "20m"], "lease 20m"],
      [["--lease", "auto"], "lease auto"],
      [["--beat", "stdout"], "beats by stdout"],
      [["--beat", "timer"], "beats by timer"],
      [["--beat", "manual"], "beats by manual"],
      [["--pty"], "on a terminal (pty)"],
      [["--log-limit", "64k"], "log up to 64 KiB"],
      [["--output-limit", "2MiB"], "output up to 2 MiB"],
    ];
    const pages = await Promise.all(
      flags.map(async ([args]) => {
        const id = await place.enqueue(...args, "--", "true");
        return (await place.lease("inspect", String(id))).stdout;
      }),
    );
    const lines = pages.map((page) => /^settings +(.*)$/m.exec(page)?.[1]);
    expect(lines).toEqual(flags.map(([, text]) => expect.stringContaining(text)));
    expect(lines.filter((line) => line?.includes("·"))).toEqual([]);
    const usual = await place.lease("inspect", String(await place.enqueue("--", "true")));
    expect(usual.stdout).not.toContain("settings");
  });

  test("--retries and --backoff decide how often it runs, and when again", async () => {
    const place = newPlace();
    const twice = await place.enqueue("--retries", "1", "--backoff", "none", "--", "false");
    expect(await place.work()).toBe(1);
    expect(await place.inspect(twice)).toMatchObject({
      state: "failed",
      attempts: 2,
      retries: 1,
      retries_left: 0,
      history: [{ cause: "exit" }, { cause: "exit" }],
    });
    const later = await place.enqueue("--backoff", "fixed:1h", "--", "false");
    expect((await place.lease("worker", "--max-jobs", "1")).code).toBe(0);
    const job = await place.inspect(later);
    expect(job).toMatchObject({ state: "retrying", attempts: 1, retries_left: 2 });
    expect(span_ms(job.history[0] ? (job.started_at ?? "") : "", job.run_at) / 3_600_000).toBeWithin(0.79, 1.21);
    expect(job.reason).toMatch(/^retry 1 of 3 in /);
  });

  test("--fatal-exit and --retry-on lost end it at the first failure", async () => {
    const place = newPlace();
    const jobs = [
      await place.enqueue("--backoff", "none", "--fatal-exit", "2,64-78", "-c", "exit 65"),
      await place.enqueue("--backoff", "none", "--retry-on", "lost", "-c", "exit 1"),
      await place.enqueue("--backoff", "none", "--retries", "1", "--fatal-exit", "2,64-78", "-c", "exit 63"),
    ];
    expect(await place.work("-j", "3")).toBe(1);
    const attempts = await Promise.all(jobs.map(async (id) => (await place.inspect(id)).attempts));
    expect(attempts).toEqual([1, 1, 2]);
  });

  test("--output-limit cuts its result, never in the middle of a letter", async () => {
    const place = newPlace();
    await place.enqueue("--output-limit", "4", "-c", 'printf 123456 > "$LEASE_OUTPUT"');
    await place.enqueue("--output-limit", "3", "-c", 'printf "aaä" > "$LEASE_OUTPUT"');
    await place.work();
    expect(await place.inspect(1)).toMatchObject({ output: "1234" });
    expect((await place.inspect(2)).output).toBe("aa");
  });

  test("--pty gives it a terminal", async () => {
    const place = newPlace();
    await place.enqueue("--pty", "-c", "test -t 0 && test -t 1 && echo terminal");
    expect(await place.work()).toBe(0);
    expect((await place.log(1)).trim()).toBe("terminal");
  });
});

describe("where the store is", () => {
  test("goes by the flag, then LEASE_STORE, then XDG_STATE_HOME, then the home folder", async () => {
    const { folder } = newPlace();
    const all = {
      LEASE_STORE: join(folder, "env.db"),
      XDG_STATE_HOME: join(folder, "xdg"),
      HOME: join(folder, "home"),
    };
    const places: [Record<string, string>, string[], string][] = [
      [all, ["--store", join(folder, "flag.db")], "flag.db"],
      [all, [], "env.db"],
      [{ ...all, LEASE_STORE: "" }, [], "xdg/lease/lease.db"],
      [{ ...all, LEASE_STORE: "", XDG_STATE_HOME: "" }, [], "home/.local/state/lease/lease.db"],
      [{ ...all, LEASE_STORE: "", XDG_STATE_HOME: "relative" }, [], "home/.local/state/lease/lease.db"],
    ];
    for (const [env, args, path] of places) {
      expect(await run([LEASE, "enqueue", ...args, "--", "true"], { cwd: folder, env })).toMatchObject({ code: 0 });
      expect(await Bun.file(join(folder, path)).exists()).toBe(true);
    }
    const homeless = await run([LEASE, "enqueue", "--", "true"], { cwd: folder, env: { HOME: "" } });
    expectRefusal(homeless, 2, "HOME is not set: name the store with --store or LEASE_STORE");
  });

  test("a --config is refused instead of being ignored, as long as there is no such file to read", async () => {
    const answer = await newPlace().lease("enqueue", "--config", "no-such.toml", "--", "true");
    expectRefusal(answer, 2, "--config");
  });

  test("--array is a job per number, which each is told, all or none", async () => {
    const place = newPlace();
    const answer = await place.lease(
      "enqueue",
      "--array",
      "1-3,10-30:10",
      "--key",
      "k{}",
      "-c",
      "echo {} $LEASE_ARRAY_INDEX",
    );
    expect(answer).toMatchObject({ code: 0, stdout: "1\n2\n3\n4\n5\n6\n" });
    await place.work();
    expect([await place.log(1), await place.log(6)]).toEqual(["1 1\n", "30 30\n"]);
    expect((await place.inspect(5)).key).toBe("k20");
    expectRefusal(await place.lease("enqueue", "--array", "3-1", "--", "true"), 2, '--array "3-1" is not a range');
    expectRefusal(await place.lease("enqueue", "--array", "1-3", "--key", "k", "--", "true"), 2, "one per number");
    expectRefusal(await place.lease("enqueue", "--array", "1-3", "--from", "x", "--", "true"), 2, "--array and --from");
    expectRefusal(await place.lease("enqueue", "--array", "1-99999999", "--", "true"), 2, "too many");
  });

  test("and told to nobody, because stdout is closed, is not 0; into /dev/null it is", async () => {
    const { folder } = newPlace();
    const shell = (line: string) =>
      run(["sh", "-c", line], { cwd: folder, env: { LEASE_STORE: join(folder, "lease.db") } });
    for (const flags of ["", "", "--key k "]) {
      const closed = await shell(`${LEASE} enqueue ${flags}-- true >&-`);
      expect(closed).toMatchObject({
        code: 125,
        stderr: expect.stringContaining("stdout can't be written: it is closed"),
      });
    }
    expect((await shell(`${LEASE} enqueue -- true > /dev/null`)).code).toBe(0);
  });
});
