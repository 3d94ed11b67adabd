/** `lease enqueue --from`: many jobs at once, all or none. */

import { describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { environment, expectRefusal, LEASE, run, until, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

const lines = (...values: readonly unknown[]): string => values.map((value) => `${JSON.stringify(value)}\n`).join("");

/** Enqueues lines from a file; answers the ids that were printed. */
async function enqueue(place: Place, text: string | Uint8Array, ...args: string[]): Promise<number[]> {
  writeFileSync(join(place.folder, "jobs"), text);
  const answer = await place.lease("enqueue", "--from", "jobs", ...args);
  expect(answer).toMatchObject({ code: 0, stderr: "" });
  expect(answer.stdout).toMatch(/^(?:\d+\n)*$/);
  return answer.stdout.split("\n").slice(0, -1).map(Number);
}

async function expectRefused(place: Place, text: string | Uint8Array, message: string | RegExp, ...args: string[]) {
  writeFileSync(join(place.folder, "jobs"), text);
  const before = place.content();
  expectRefusal(await place.lease("enqueue", "--from", "jobs", ...args), 2, message);
  expect(place.content()).toEqual(before);
}

test("lines of text fill the places that GNU parallel has", async () => {
  const place = newPlace();
  const command = ["convert", "{}", "{.}.png", "{/}", "{//}", "{/.}", "{#}"];
  const stdin = "/pics/a.b.jpg\nc.jpg\n";
  await place.leaseWith({ stdin }, "enqueue", "--from", "-", "--lines", "--key", "{/.}", "--", ...command);
  expect(await place.inspect(1)).toMatchObject({
    argv: ["convert", "/pics/a.b.jpg", "/pics/a.b.png", "a.b.jpg", "/pics", "a.b", "1"],
    key: "a.b",
  });
  expect((await place.inspect(2)).argv).toEqual(["convert", "c.jpg", "c.png", "c.jpg", ".", "c", "2"]);
});

describe("lines of JSON", () => {
  test("make a job each, and print its id", async () => {
    const place = newPlace();
    expect(await enqueue(place, lines({ argv: ["echo", "1"] }, { shell: "echo 2 | cat" }))).toEqual([1, 2]);
    expect(await place.work()).toBe(0);
    expect([await place.log(1), await place.log(2)]).toEqual(["1\n", "2\n"]);
  });

  test("may say all that flags can say", async () => {
    const place = newPlace();
    mkdirSync(join(place.folder, "sub"));
    writeFileSync(join(place.folder, "letter"), "Dear Bob");
    await place.enqueue("--", "true");
    const all = {
      argv: ["cat"],
      queue: "mail",
      task: "t",
      key: "k",
      if_exists: "fail",
      priority: 7,
      input: "@letter",
      cwd: "sub",
      env: { A: "1,2", B: "" },
      retries: 5,
      backoff: "fixed:3s",
      retry_on: "lost",
      fatal_exit: [2, "64-78"],
      timeout: "1h",
      lease: "20m",
      beat: "manual",
      pty: true,
      delay: "1h30m",
      after: [1],
      after_any: "1",
      log_limit: "64k",
      output_limit: 4096,
    };
    const [id = 0] = await enqueue(place, lines(all));
    const job = await place.inspect(id);
    expect(job).toMatchObject({ state: "blocked", queue: "mail", task: "t", key: "k", priority: 7, input: "Dear Bob" });
    expect(job).toMatchObject({ argv: ["cat"], cwd: join(place.folder, "sub"), retries: 5 });
    expect(Date.parse(job.run_at) - Date.parse(job.created_at)).toBe(5_400_000);
    const page = (await place.lease("inspect", String(id))).stdout;
    expect(page).toMatch(/environment +A, B\n/);
    expect(/settings +(.*)/.exec(page)?.[1]?.split(" · ")).toEqual([
      "5 retries",
      "backoff 3s",
      "retried only when its worker is lost",
      "exit 2,64-78 not retried",
      "timeout 1h",
      "lease 20m",
      "beats by manual",
      "on a terminal (pty)",
      "log up to 64 KiB",
      "output up to 4 KiB",
    ]);
  });

  test("take what the flags say where they say nothing themselves", async () => {
    const place = newPlace();
    const text = lines({}, { argv: ["date"], queue: null }, { queue: "b", priority: 1, delay: "5m", env: { B: "2" } });
    const flags = ["-q", "a", "-p", "9", "--at", "2030-01-01 00:00", "--env", "A=1", "--lease", "auto"];
    const ids = await enqueue(place, text, ...flags, "--", "ls");
    const jobs = await Promise.all(ids.map((id) => place.inspect(id)));
    expect(jobs.map(({ argv, queue, priority }) => ({ argv, queue, priority }))).toEqual([
      { argv: ["ls"], queue: "a", priority: 9 },
      { argv: ["date"], queue: "a", priority: 9 },
      { argv: ["ls"], queue: "b", priority: 1 },
    ]);
    expect(jobs[0]?.run_at).toMatch(/^20(?:29-12-31|30-01-01)T/);
    expect(Date.parse(jobs[2]?.run_at ?? "") - Date.parse(jobs[2]?.created_at ?? "")).toBe(300_000);
    const page = (await place.lease("inspect", "3")).stdout;
    expect(page).toMatch(/environment +A, B\n/);
    expect(page).toContain("lease auto");
  });

  test("may be empty, end without a line end, in CR LF, and begin with a byte order mark", async () => {
    const place = newPlace();
    expect(await enqueue(place, '\uFEFF{"argv":["a"]}\r\n\n  \n{"argv":["b"]}')).toEqual([1, 2]);
    expect((await place.inspect(1)).argv).toEqual(["a"]);
  });

  test("that are none at all queue nothing, and say so", async () => {
    const answer = await newPlace().leaseWith({ stdin: "" }, "enqueue", "--from", "-");
    expect(answer).toEqual({ code: 0, stdout: "", stderr: "lease: stdin has no lines: nothing was queued\n" });
  });

  test("that are text lead to --lines", async () => {
    const answer = await newPlace().leaseWith({ stdin: "a.png\nb.png\n" }, "enqueue", "--from", "-");
    expectRefusal(answer, 2, "stdin:1: this is not JSON: ");
    expect(answer.stderr).toContain("; for a job per line of text, add --lines");
  });

  test("without a command say what would be one", async () => {
    const answer = await newPlace().leaseWith({ stdin: '{"argv":[]}' }, "enqueue", "--from", "-");
    expectRefusal(answer, 2, 'stdin:1: there is no command: give its words, "argv": ["echo", "hi"]');
  });

  test("keep every character, across any boundary of blocks", async () => {
    const place = newPlace();
    const words = Array.from({ length: 3_000 }, (_, index) => `${index}-${"ä€😀".repeat(index % 97)}`);
    await enqueue(place, lines(...words.map((word) => ({ argv: ["echo", word] }))));
    const rows = place.rows<{ argv: string }>("SELECT argv FROM jobs ORDER BY id");
    expect(rows.map(({ argv }) => (JSON.parse(argv) as string[])[1])).toEqual(words);
  });

  test("with keys follow if_exists, also among themselves, and print the id that answers", async () => {
    const place = newPlace();
    await place.enqueue("--key", "old", "--", "true");
    const text = lines({ argv: ["a"] }, { argv: ["b"], key: "old" }, { argv: ["c"], key: "new" }, { key: "new" });
    expect(await enqueue(place, text, "--", "d")).toEqual([2, 1, 3, 3]);
    const replaced = await enqueue(place, lines({ key: "old", if_exists: "replace" }), "--", "e");
    expect(replaced).toEqual([4]);
    expect(await place.inspect(1)).toMatchObject({ state: "cancelled" });
  });

  test("have their inputs, each its own", async () => {
    const place = newPlace();
    const count = 250;
    await enqueue(
      place,
      lines(...Array.from({ length: count }, (_, index) => ({ argv: ["cat"], input: `in ${index}` }))),
    );
    for (const id of [1, 100, 101, 250]) expect((await place.inspect(id)).input).toBe(`in ${id - 1}`);
    const [raw = 0] = await enqueue(place, lines({ argv: ["cat"], input: "@@home" }));
    expect((await place.inspect(raw)).input).toBe("@home");
  });
});

describe("a line that is wrong", () => {
  test.each<[what: string, line: string, message: string | RegExp]>([
    ["not JSON", "{argv: 1}", /^lease: jobs:2: this is not JSON: /],
    ["a list", '["echo"]', "jobs:2: a line is one JSON object"],
    ["an unknown name", '{"argv":["a"],"prority":1}', 'jobs:2: there is no name "prority"; did you mean priority?'],
    ["a name of JavaScript", '{"argv":["a"],"__proto__":{}}', 'jobs:2: there is no name "__proto__"'],
    ["no command", '{"queue":"a"}', "jobs:2: there is no command"],
    ["words that are none", '{"argv":["a",1]}', "jobs:2: argv must be a list of words"],
    ["half a character", String.raw`{"argv":["\ud800"]}`, "jobs:2: argv must be a list of words"],
    ["NUL in a word", String.raw`{"argv":["a","\u0000"]}`, "jobs:2: a command can't contain NUL"],
    ["NUL in an input", String.raw`{"argv":["a"],"input":"x\u0000"}`, "jobs:2: an input is text, and byte 1 of"],
    ["two commands", '{"argv":["a"],"shell":"b"}', "jobs:2: argv and shell both"],
    ["an empty shell line", '{"shell":" "}', "jobs:2: shell is empty"],
    ["two moments", '{"argv":["a"],"at":"18:30","delay":"1s"}', "jobs:2: at and delay both"],
    ["a time without a unit", '{"argv":["a"],"lease":30}', 'jobs:2: lease must be a time as text: "30s"'],
    ["a time that is none", '{"argv":["a"],"delay":"soon"}', 'jobs:2: delay "soon" is not a duration'],
    ["a moment that is none", '{"argv":["a"],"at":"soon"}', 'jobs:2: at "soon" is not a moment'],
    ["a choice that is none", '{"argv":["a"],"beat":"drum"}', "jobs:2: beat must be one of output, stdout"],
    ["a number that is none", '{"argv":["a"],"retries":1.5}', 'jobs:2: retries "1.5"'],
    ["variables that are none", '{"argv":["a"],"env":{"A":1}}', "jobs:2: env must be"],
    ["an id that is none", '{"argv":["a"],"after":["x"]}', 'jobs:2: after "x" is not a job id'],
    ["a job to wait for that is not there", '{"argv":["a"],"after":[99]}', "jobs:2: there is no job 99 to wait for"],
    ["a file that is not there", '{"argv":["a"],"input":"@nope"}', /^lease: jobs:2: input @nope can't be read/],
    ["a file that might not end", '{"argv":["a"],"input":"@/dev/zero"}', "input @/dev/zero is not a plain file"],
    ["what to do about no key", '{"argv":["a"],"if_exists":"fail"}', "jobs:2: if_exists says"],
    ["a name that is none", '{"argv":["a"],"queue":""}', 'jobs:2: queue "" is not a name'],
  ])("is named by its number, and nothing is queued: %s", async (_what, line, message) => {
    const place = newPlace();
    await place.enqueue("--", "true");
    await expectRefused(place, `{"argv":["true"]}\n${line}\n{"argv":["true"]}\n`, message);
  });

  test("takes back all that was written before it, however much", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const good = lines({ argv: ["true"] }).repeat(25_000);
    writeFileSync(join(place.folder, "jobs"), `${good}{"argv":[]}\n`);
    expectRefusal(await place.lease("enqueue", "--from", "jobs"), 2, "jobs:25001: there is no command");
    expect(place.rows("SELECT count(*) AS jobs FROM jobs")).toEqual([{ jobs: 1 }]);
    expect(await place.enqueue("--", "true")).toBe(2);
  });

  test("with a key that is taken fails with 1", async () => {
    const place = newPlace();
    await place.enqueue("--key", "k", "--", "true");
    writeFileSync(join(place.folder, "jobs"), lines({ argv: ["a"] }, { argv: ["a"], key: "k" }));
    const answer = await place.lease("enqueue", "--from", "jobs", "--if-exists", "fail");
    expectRefusal(answer, 1, /^lease: jobs:2: key k is taken by job 1 \(pending\)/);
    expect(place.rows("SELECT count(*) AS jobs FROM jobs")).toEqual([{ jobs: 1 }]);
  });

  test("does not make a store", async () => {
    const place = newPlace();
    writeFileSync(join(place.folder, "jobs"), "x\n");
    expectRefusal(await place.lease("enqueue", "--from", "jobs"), 2, "jobs:1:");
    expect(existsSync(place.store)).toBe(false);
  });

  test("that is not UTF-8 or endless is refused in either form", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const broken = Buffer.concat([Buffer.from("1\n2\n"), Buffer.from([0x61, 0xff]), Buffer.from("\n4\n")]);
    await expectRefused(place, broken, "jobs:3: this is not valid UTF-8", "--lines", "--", "echo");
    await expectRefused(place, "ok\n" + "x".repeat(17 * 2 ** 20), "jobs:2: this line is longer than 16 MiB", "--lines");
    await expectRefused(place, "ok\na\0b\n", "jobs:2: a command can't contain NUL", "--lines", "--", "echo");
  });
});

describe("lines of text", () => {
  const argvs = (place: Place) =>
    place.rows<{ argv: string }>("SELECT argv FROM jobs ORDER BY id").map(({ argv }) => JSON.parse(argv) as unknown);

  test("take the place of {} in the key, which would else be the same for all and leave one job of many", async () => {
    const place = newPlace();
    writeFileSync(join(place.folder, "jobs"), "a\nb\na\n");
    const from = ["enqueue", "--from", "jobs", "--lines", "--key"];
    expectRefusal(await place.lease(...from, "thumb", "--", "echo"), 2, "--key thumb can have one live job");
    expect(existsSync(place.store)).toBe(false);
    expect(await place.lease(...from, "thumb-{}", "--", "echo")).toEqual({ code: 0, stdout: "1\n2\n1\n", stderr: "" });
    expect(place.rows("SELECT key FROM jobs ORDER BY id")).toEqual([{ key: "thumb-a" }, { key: "thumb-b" }]);
  });

  test("take the place of {}, everywhere in the words", async () => {
    const place = newPlace();
    expect(await enqueue(place, "a b\n$1\n", "--lines", "--", "cp", "{}", "{}.bak-{}")).toEqual([1, 2]);
    expect(argvs(place)).toEqual([
      ["cp", "a b", "a b.bak-a b"],
      ["cp", "$1", "$1.bak-$1"],
    ]);
  });

  test("go behind the words where there is no {}, and are the words where there are none", async () => {
    const place = newPlace();
    await enqueue(place, "x\n", "--lines", "--", "echo", "-n");
    await enqueue(place, "bob@example.com\n", "--lines", "-q", "mail");
    expect(argvs(place)).toEqual([["echo", "-n", "x"], ["bob@example.com"]]);
  });

  test("are jobs when they are empty too, as with GNU parallel; the end of the file is not a line", async () => {
    const place = newPlace();
    await enqueue(place, "a\n\nb", "--lines", "--", "echo", "[{}]");
    expect(argvs(place)).toEqual([
      ["echo", "[a]"],
      ["echo", "[]"],
      ["echo", "[b]"],
    ]);
  });

  test("stay one word in a shell line, whatever is in them", async () => {
    const place = newPlace();
    const nasty = `it's "$HOME"; echo \`id\` > /dev/null & \\ *`;
    await enqueue(place, `${nasty}\n`, "--lines", "-c", "printf '%s' {} | cat");
    await enqueue(place, `${nasty}\n`, "--lines", "-c", "printf '[%s]'");
    await place.work();
    expect([await place.log(1), await place.log(2)]).toEqual([`${nasty}\n`, `[${nasty}]\n`]);
  });
});

describe("a source", () => {
  test("may be stdin, a redirected file or a pipe with a name", async () => {
    const place = newPlace();
    const piped = await place.leaseWith({ stdin: lines({ argv: ["a"] }) }, "enqueue", "--from", "-");
    expect(piped).toEqual({ code: 0, stdout: "1\n", stderr: "" });
    writeFileSync(join(place.folder, "jobs"), lines({ argv: ["b"] }));
    const script = `"$LEASE" enqueue --from - < jobs; mkfifo pipe; cat jobs > pipe & "$LEASE" enqueue --from pipe`;
    const others = await run(["sh", "-c", script], { cwd: place.folder, env: place.env });
    expect(others).toEqual({ code: 0, stdout: "2\n3\n", stderr: "" });
  });

  test("names stdin in what it complains about", async () => {
    const answer = await newPlace().leaseWith({ stdin: "x\n" }, "enqueue", "--from", "-");
    expectRefusal(answer, 2, "stdin:1: this is not JSON");
  });

  test("that is slow does not keep others from the store, and leaves nothing behind when it is interrupted", async () => {
    const place = newPlace();
    await place.enqueue("--", "true");
    const child = Bun.spawn([LEASE, "enqueue", "--from", "-"], {
      cwd: place.folder,
      env: environment(place.env),
      stdin: "pipe",
      stdout: "pipe",
      stderr: "pipe",
    });
    const line = lines({ argv: ["never"] });
    void child.stdin.write(line);
    await child.stdin.flush();
    const files = () =>
      readdirSync(`/proc/${child.pid}/fd`).flatMap((fd) => {
        try {
          return [readFileSync(`/proc/${child.pid}/fd/${fd}`, "utf8")];
        } catch {
          return [];
        }
      });
    await until(() => files().includes(line));
    expect(await place.enqueue("--", "true")).toBe(2);
    child.kill("SIGINT");
    expect(await child.exited).toBe(130);
    expect(Object.keys(place.content()).filter((name) => !name.startsWith("lease.db"))).toEqual([]);
    expect(place.rows("SELECT count(*) AS jobs FROM jobs")).toEqual([{ jobs: 2 }]);
  });

  test("that can't be read is refused", async () => {
    const place = newPlace();
    const refused = async (message: string | RegExp, ...args: string[]) =>
      expectRefusal(await place.lease("enqueue", ...args), 2, message);
    await refused(/--from missing can't be read: .*no such file/, "--from", "missing");
    await refused("--from . is a folder", "--from", ".");
    await refused("--lines of what?", "--lines", "--", "echo", "{}");
    await refused("can't both read stdin", "--from", "-", "--input", "-");
  });
});
