/** `lease completions`: what the scripts offer, tried in the shells themselves, at a prompt where that is possible. */

import { Database } from "bun:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { COMMANDS } from "../../src/cli/commands.ts";
import { aliasesOf, flagName } from "../../src/cli/flags.ts";
import { environment, expectRefusal, LEASE, run, usePlaces, type Place } from "./lease.ts";

const newPlace = usePlaces();

/** A folder with jobs in its store, the scripts beside it, and lease on the PATH. */
async function prepared(): Promise<{ place: Place; env: Record<string, string> }> {
  const place = newPlace();
  mkdirSync(join(place.folder, "bin"));
  symlinkSync(LEASE, join(place.folder, "bin/lease"));
  writeFileSync(join(place.folder, "letter.txt"), "");
  await place.enqueue("-q", "mail", "-t", "nightly", "--", "./send.sh", "bob");
  await place.enqueue("-q", "my queue", "--", "true");
  await place.enqueue("-q", "a:b", "--", "true");
  await place.enqueue("-q", "mail", "-k", "release-7", "--", "true");
  await place.lease("cancel", "4");
  for (const shell of ["bash", "zsh", "fish"]) {
    const { stdout } = await place.lease("completions", shell);
    writeFileSync(join(place.folder, `lease.${shell}`), stdout);
  }
  const PATH = `${join(place.folder, "bin")}:${process.env["PATH"] ?? ""}`;
  return { place, env: environment({ ...place.env, PATH, TERM: "dumb" }) };
}

/** A shell at a prompt, in which a line is typed up to the cursor and completed. */
class Prompt {
  readonly #child: Bun.Subprocess;
  readonly #decoder = new TextDecoder();
  #said = "";
  #heard = () => {};

  private constructor(argv: readonly string[], place: Place, env: Record<string, string>) {
    this.#child = Bun.spawn([...argv], {
      cwd: place.folder,
      env: { ...env, PS1: "$ " },
      terminal: {
        cols: 200,
        rows: 50,
        data: (_terminal, bytes) => {
          this.#said += this.#decoder.decode(bytes, { stream: true });
          this.#heard();
        },
      },
    });
  }

  static async open(
    argv: readonly string[],
    setup: string,
    place: Place,
    env: Record<string, string>,
  ): Promise<Prompt> {
    const prompt = new Prompt(argv, place, env);
    // In two parts, so that what is echoed while it is typed is not taken for the answer.
    prompt.#type(`${setup}; echo rea""dy\n`);
    await prompt.#until(/ready\r?\n/);
    return prompt;
  }

  /** The line after a press of the tab key. */
  async complete(line: string): Promise<string> {
    this.#said = "";
    this.#type(`${line}\t\u0018\u0010`);
    const [, completed = ""] = await this.#until(/<<(.*)>>/);
    this.#type("\u0015");
    return completed;
  }

  /** Types it and presses return. */
  async run(line: string): Promise<void> {
    this.#said = "";
    this.#type(`${line}\n echo rea""dy\n`);
    await this.#until(/ready\r?\n/);
  }

  close(): void {
    this.#child.kill("SIGKILL");
  }

  #type(text: string): void {
    this.#child.terminal?.write(text);
  }

  async #until(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const found = pattern.exec(this.#said);
      if (found !== null) return found;
      await new Promise<void>((resolve) => {
        this.#heard = resolve;
      });
    }
  }
}

/** Typed, and what must stand there after the tab key. */
const LINES: readonly (readonly [string, string])[] = [
  ["lease wat", "lease watchdog "],
  ["lease --color never wat", "lease --color never watchdog "],
  ["lease --color nev", "lease --color never "],
  ["lease help wor", "lease help worker "],
  ["lease completions fi", "lease completions fish "],
  ["lease worker --until", "lease worker --until-empty "],
  ["lease worker --no-sw", "lease worker --no-sweep "],
  ["lease worker --grace nev", "lease worker --grace never "],
  ["lease enqueue --beat ti", "lease enqueue --beat timer "],
  ["lease enqueue --beat=ti", "lease enqueue --beat=timer "],
  ["lease enqueue --queue ma", "lease enqueue --queue mail "],
  ["lease enqueue --queue=ma", "lease enqueue --queue=mail "],
  ["lease worker -q ma", "lease worker -q mail "],
  ["lease pause ma", "lease pause mail "],
  ["lease pause my", "lease pause my\\ queue "],
  ["lease pause a:", "lease pause a:b "],
  ["lease pause mail a", "lease pause mail a:b "],
  ["lease cancel --task ni", "lease cancel --task nightly "],
  ["lease logs -f 3", "lease logs -f 3 "],
  // Job 4 is over.
  ["lease logs 4", "lease logs 4 "],
  ["lease cancel 3", "lease cancel 3 "],
  ["lease cancel 4", "lease cancel 4"],
  ["lease kill 4", "lease kill 4"],
  ["lease edit 4", "lease edit 4"],
  ["lease retry ", "lease retry 4 "],
  ["lease inspect jobs --key re", "lease inspect jobs --key release-7 "],
  ["lease run -k rel", "lease run -k release-7 "],
  ["lease inspect jobs --status compl", "lease inspect jobs --status completed "],
  ["lease inspect jobs --status failed,compl", "lease inspect jobs --status failed,completed "],
  ["lease inspect jobs --status=failed,running,compl", "lease inspect jobs --status=failed,running,completed "],
  ["lease --config lett", "lease --config letter.txt "],
  ["lease --store=/none.db pause ma", "lease --store=/none.db pause ma"],
  ["lease --store /none.db pause ma", "lease --store /none.db pause ma"],
  ["lease enqueue -- mkfif", "lease enqueue -- mkfifo "],
  ["lease enqueue -q mail mkfif", "lease enqueue -q mail mkfifo "],
  ["lease enqueue -- cat lett", "lease enqueue -- cat letter.txt "],
  ["lease enqueue cat lett", "lease enqueue cat letter.txt "],
  ["lease enqueue --cwd bi", "lease enqueue --cwd bin/"],
  ["lease version x", "lease version x"],
];

/** Without start files of whoever runs the tests. */
const SHELLS = {
  bash: {
    argv: ["bash", "--norc", "--noprofile", "-i"],
    setup: `source ./lease.bash; bind -x '"\\C-x\\C-p": printf "<<%s>>\\n" "$READLINE_LINE"'`,
  },
  zsh: {
    argv: ["zsh", "-f", "-i"],
    setup:
      "autoload -U compinit; compinit -u -D; source ./lease.zsh; " +
      `shown() { print -r -- "<<$BUFFER>>" }; zle -N shown; bindkey '^X^P' shown`,
  },
} as const;

describe.each(["bash", "zsh"] as const)("at a prompt of %s", (shell) => {
  const missing = Bun.which(shell) === null;
  if (missing) console.warn(`SKIPPED: the completions for ${shell} are not tried, because there is no ${shell} here`);
  let prompt: Prompt | undefined;
  beforeAll(async () => {
    if (missing) return;
    const { place, env } = await prepared();
    const { argv, setup } = SHELLS[shell];
    prompt = await Prompt.open(argv, setup, place, env);
  });
  afterAll(() => prompt?.close());

  test.skipIf(missing).each(LINES)("%j becomes %j", async (typed, completed) => {
    expect(await prompt!.complete(typed)).toBe(completed);
  });

  test.skipIf(missing)("a file behind @ is completed", async () => {
    // bash quotes the @, which changes nothing about what lease gets.
    expect(await prompt!.complete("lease enqueue --input @lett")).toMatch(/ \\?@letter\.txt $/);
  });
});

describe("in fish", () => {
  const missing = Bun.which("fish") === null;
  if (missing) console.warn("SKIPPED: the completions for fish are not tried, because there is no fish here");
  let offered: (line: string) => Promise<string[]>;
  beforeAll(async () => {
    const { place, env } = await prepared();
    offered = async (line) => {
      const script = `source lease.fish; complete -C ${JSON.stringify(line)}`;
      const { stdout, stderr } = await run(["fish", "--no-config", "-c", script], { cwd: place.folder, env });
      expect(stderr).toBe("");
      return stdout.split("\n").filter((text) => text !== "");
    };
  });

  test.skipIf(missing).each(LINES)("%j is completed", async (typed, completed) => {
    const word = (line: string) =>
      line
        .trimEnd()
        .replace(/^.*[^\\] /, "")
        .replaceAll("\\", "");
    const words = (await offered(typed)).map((text) => text.split("\t")[0] ?? "");
    if (typed === completed) expect(words).toEqual([]);
    else expect(words).toContain(word(completed));
  });

  test.skipIf(missing)("each has its description", async () => {
    expect(await offered("lease wat")).toEqual(["watchdog\trecover jobs whose worker hangs or is gone"]);
    expect(await offered("lease logs ")).toContain("1\tpending ./send.sh bob");
  });
});

describe("what bash offers", () => {
  let offered: (...words: string[]) => Promise<string[]>;
  beforeAll(async () => {
    const { place, env } = await prepared();
    const script =
      'source ./lease.bash; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*"; _lease; printf "%s\\n" "${COMPREPLY[@]}"';
    offered = async (...words) => {
      const { stdout } = await run(["bash", "-uc", script, "bash", ...words], { cwd: place.folder, env });
      return stdout.split("\n").filter((text) => text !== "");
    };
  });

  test("is every command with its short names, and help", async () => {
    const names = Object.entries(COMMANDS).flatMap(([name, { short = {} }]) => [name, ...Object.keys(short)]);
    expect((await offered("lease", "")).toSorted()).toEqual([...names, "help"].toSorted());
  });

  test.each(Object.keys(COMMANDS))("behind %s is exactly the flags it has", async (name) => {
    const { flags } = await COMMANDS[name]!.load();
    const expected = Object.entries(flags).flatMap(([key, flag]) => {
      if (flag.hidden) return [];
      const negative =
        flag.type === "boolean" && flag.negativeDescription !== undefined ? [`--no-${flagName(key)}`] : [];
      const positive = flag.type === "boolean" && flag.default === true ? [] : [`--${flagName(key)}`];
      return [...positive, ...negative, ...aliasesOf(flag).map((alias) => `-${alias}`)];
    });
    expect((await offered("lease", name, "-")).toSorted()).toEqual(expected.toSorted());
  });

  test("behind a comma is every state, and what stands before it stays", async () => {
    const offers = await offered("lease", "inspect", "jobs", "--status", "failed,");
    expect(offers).toContain("failed,running");
    expect(offers.every((offer) => offer.startsWith("failed,"))).toBe(true);
  });

  test("is all names where nothing is typed yet", async () => {
    expect(await offered("lease", "pause", "")).toEqual(["a:b", "mail", "my\\ queue"]);
    expect(await offered("lease", "inspect", "")).toEqual(expect.arrayContaining(["3", "2", "1"]));
    expect(await offered("lease", "logs", "--stream", "")).toEqual(["stdout", "stderr", "both"]);
    expect(await offered("lease", "enqueue", "--priority", "")).toEqual([]);
  });
});

describe("the names that a script asks for", () => {
  const ask = (place: Place, kind: string, ...args: string[]) => place.lease("completions", "--query", kind, ...args);

  test("are those of the store, the newest ids first and with what they are", async () => {
    const { place } = await prepared();
    expect((await ask(place, "queues")).stdout).toBe("a:b\nmail\nmy queue\n");
    expect((await ask(place, "tasks")).stdout).toBe("nightly\n");
    expect((await ask(place, "ids")).stdout).toBe(
      "4\tcancelled true\n3\tpending true\n2\tpending true\n1\tpending ./send.sh bob\n",
    );
    expect((await ask(place, "live_ids")).stdout).toBe("3\tpending true\n2\tpending true\n1\tpending ./send.sh bob\n");
    expect((await ask(place, "finished_ids")).stdout).toBe("4\tcancelled true\n");
    expect((await ask(place, "keys")).stdout).toBe("release-7\n");
    // Also where only the settings file says which store that is.
    const config = join(place.folder, "named.toml");
    writeFileSync(config, 'store = "lease.db"', { mode: 0o600 });
    const args = ["completions", "--query", "tasks", "--config", config];
    expect((await run([LEASE, ...args], { env: { HOME: place.folder } })).stdout).toBe("nightly\n");
  });

  test("are none, without a word, whatever is wrong with the store", async () => {
    const place = newPlace();
    const nothing = { code: 0, stdout: "", stderr: "" };
    expect(await ask(place, "queues")).toEqual(nothing);
    expect(place.content()).toEqual({});
    expect(await ask(place, "ids", "--store", place.folder)).toEqual(nothing);
    expect(await ask(place, "ids", "--store", "nope://x")).toEqual(nothing);
    writeFileSync(place.store, "not a database".repeat(100), { mode: 0o600 });
    expect(await ask(place, "tasks")).toEqual(nothing);
    chmodSync(place.store, 0o666);
    expect(await ask(place, "tasks")).toEqual(nothing);
    writeFileSync(join(place.folder, "lease.toml"), "broken", { mode: 0o600 });
    const { code, stdout, stderr } = await run([LEASE, "completions", "--query", "ids"], { cwd: place.folder });
    expect({ code, stdout, stderr }).toEqual(nothing);
    expect(await place.lease("completions", "bash")).toMatchObject({ code: 0, stderr: "" });
  });

  test("hold nothing that a terminal would obey", async () => {
    const place = newPlace();
    await place.enqueue("-q", "nasty\u202e", "--", "echo", "\u001b[2J\n");
    expect((await ask(place, "queues")).stdout).toBe("");
    expect((await ask(place, "ids")).stdout).toMatch(/^1\tpending [ -~]+\n$/);
  });
});

/** Names that would do something if a shell ever took them for a part of its own language. */
const HOSTILE = [
  "$(touch pwned)",
  "`touch pwned`",
  "x;touch pwned;",
  "'\"$(touch pwned)",
  "a|touch pwned",
  "a&&touch pwned",
  "$'\\n'touch pwned",
  "{a,$(touch pwned)}",
  "~/*?[$(touch pwned)]",
  "!touch pwned",
  "--store=$(touch pwned)",
  "%(touch pwned)",
  "(touch pwned)",
];

/** A store in which everything that has a name is called so, also what nobody could have enqueued. */
async function hostile(): Promise<{ place: Place; env: Record<string, string> }> {
  const { place, env } = await prepared();
  for (const name of HOSTILE)
    await place.lease("enqueue", `--queue=${name}`, `--task=${name}`, `--key=${name}`, "--", name);
  const database = new Database(place.store);
  database.run(
    "UPDATE jobs SET queue = queue || char(10) || 'touch pwned', task = task || char(10) || '$(touch pwned)' WHERE id = 1",
  );
  database.close();
  return { place, env };
}

const isUnharmed = ({ folder }: Place) => expect(existsSync(join(folder, "pwned"))).toBe(false);

describe.each(["bash", "zsh"] as const)("what %s is offered from a hostile store", (shell) => {
  test.skipIf(Bun.which(shell) === null)(
    "executes nothing, neither when it is completed nor when it is run",
    async () => {
      const { place, env } = await hostile();
      const { argv, setup } = SHELLS[shell];
      const prompt = await Prompt.open(argv, setup, place, env);
      try {
        const begun = ["", "$", "\\$", "'", '"', "x", "a", "{", "\\{", "~", "!", "\\!", "\\(", "(", "-", "%"];
        for (const command of ["pause", "cancel --task", "worker -q", "enqueue --queue=", "logs"]) {
          for (const typed of begun) {
            const completed = await prompt.complete(`lease ${command} ${typed}`);
            isUnharmed(place);
            if (command === "pause" && completed.includes("touch")) await prompt.run(completed);
          }
        }
      } finally {
        prompt.close();
      }
      isUnharmed(place);
    },
  );
});

test.skipIf(Bun.which("fish") === null)("what fish is offered from a hostile store executes nothing", async () => {
  const { place, env } = await hostile();
  for (const command of ["pause ", "cancel --task ", "worker -q ", "enqueue --queue=", "logs "]) {
    // As it would be inserted: fish escapes what it is offered.
    const script = `source lease.fish; for one in (complete -C "lease ${command}")
      set -l word (string split -f1 \t -- $one); eval "true "(string escape -- $word)
    end`;
    await run(["fish", "--no-config", "-c", script], { cwd: place.folder, env });
  }
  isUnharmed(place);
});

test("a shell that nobody knows is refused", async () => {
  const place = newPlace();
  expectRefusal(await place.lease("completions"), 2, "completions for which shell? Name one of bash, zsh, fish");
  expectRefusal(await place.lease("completions", "zhs"), 2, 'there are no completions for "zhs"; did you mean zsh?');
  expectRefusal(await place.lease("completions", "tcsh", "x"), 2, "takes one shell");
  expectRefusal(await place.lease("completions", "powershell"), 2, "there are bash, zsh, fish");
});
