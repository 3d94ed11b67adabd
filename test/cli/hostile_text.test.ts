/** Text that is not ours never reaches a terminal raw, whatever view shows it: names, messages, results, logs, errors. */

import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { inSite, BINARY, until, type Site } from "../support/process.ts";

/** A new title, a cleared screen, a question that is answered into the input, the second set, a turned direction. */
const EVIL = "\u001b]0;owned\u0007\u001b[2J\u001b[6n\u009b31mred\u0090q\u202eold\b\r\nnext";

/** What no terminal may be told by anybody but us. */
const OBEYED =
  // oxlint-disable-next-line no-control-regex
  /\u001b\]|\u001b\[(?!\d*[;\d]*m|\?|H|J|K|2K|\d*[ABCDG]|\d*;\d*H)|\u001b\[6n|[\u0080-\u009f\u0007\u202e]|owned(?=\u0007)/u;

/** A page that is kept up to date clears the screen before it begins. */
const OBEYED_BESIDE_OURS = new RegExp(OBEYED.source.replace("|H|", "|2J|H|"), "u");

/** Everything that can be said about a job, a worker and a queue, written by somebody who means harm. */
async function craft(site: Site): Promise<void> {
  await site.script(
    ["--retries", "0"],
    `printf '${"\\033]0;owned\\007\\033[2J\\033[6n\\302\\2331mred\\b\\n"}'; lease checkpoint "$(printf '\\033[2J')"; exit 3`,
  );
  await site.script([], "true");
  await site.run(["worker", "--until-empty", "--name", "nice"]);
  await site.script([], "echo; sleep 60");
  const database = new Database(site.location);
  database.run("PRAGMA busy_timeout = 5000");
  database.run(
    "UPDATE jobs SET queue = ?1, task = ?1, key = id || ?1, argv = json_array(?1), cwd = ?1, message = ?1, error = ?1, output = ?1, reason = ?1, progress = 40",
    [EVIL],
  );
  database.run("UPDATE attempts SET worker = ?1, host = ?1, error = ?1, last_line = ?1", [EVIL]);
  database.run("UPDATE checkpoints SET text = ?1, task = ?1", [EVIL]);
  database.run("UPDATE workers SET name = ?1, host = ?1, version = ?1, queues = json_array(?1), task = ?1", [EVIL]);
  database.close();
}

/** Runs it at a terminal and answers all that it was told. */
async function atTerminal(site: Site, words: readonly string[], keys = ""): Promise<string> {
  let shown = "";
  const child = Bun.spawn([BINARY, ...words, "--store", site.location], {
    cwd: site.folder,
    env: { ...process.env, TERM: "xterm-256color", LEASE_TEST: "1" },
    terminal: { cols: 100, rows: 30, data: (_terminal, bytes) => void (shown += new TextDecoder().decode(bytes)) },
  });
  if (keys !== "") {
    await until("it shows something", () => shown.length > 100);
    child.terminal?.write(keys);
  }
  const late = setTimeout(() => child.kill("SIGKILL"), 5_000);
  await child.exited;
  clearTimeout(late);
  return shown;
}

const VIEWS: readonly (readonly string[])[] = [
  ["inspect"],
  ["inspect", "1"],
  ["inspect", "2"],
  ["inspect", "jobs"],
  ["inspect", "queues"],
  ["inspect", "workers"],
  ["inspect", "leases"],
  ["inspect", "checkpoints"],
  ["inspect", "--json"],
  ["inspect", "1", "--json"],
  ["inspect", "jobs", "--json"],
  ["inspect", "1", "--show-env"],
  ["logs", "1"],
  ["logs", "1", "--timestamps"],
  ["logs", "1", "2"],
  ["logs", "1", "--json"],
  ["wait", "1"],
  ["wait", "--task", EVIL, "--timeout", "200ms"],
  ["cancel", "3"],
  ["retry", "1"],
  ["pause", EVIL],
  ["resume", EVIL],
  ["doctor"],
  ["prune", "--older-than", "0s"],
  ["completions", "--query", "queues"],
  ["inspect", "jobs", "--queue", EVIL],
  ["inspect", EVIL],
  [EVIL],
  ["enqueue", `--${EVIL}`],
  ["enqueue", "--lease", EVIL, "--", "true"],
  ["worker", "--queue", EVIL, "--until-empty", "--max-jobs", "1"],
  ["watchdog", "--once"],
];

describe("at a terminal", () => {
  test(
    "no view passes on what somebody wrote to be obeyed",
    () =>
      inSite(async (site) => {
        await craft(site);
        const raw: string[] = [];
        let told = 0;
        for (const words of VIEWS) {
          const shown = await atTerminal(site, words);
          if (shown.includes("owned")) told += 1;
          const found = OBEYED.exec(shown);
          if (found !== null)
            raw.push(
              `${words.join(" ").slice(0, 40)}: ${JSON.stringify(shown.slice(Math.max(0, found.index - 40), found.index + 40))}`,
            );
        }
        expect(raw).toEqual([]);
        // It is there, only not as it was.
        expect(told).toBeGreaterThan(15);
      }),
    60_000,
  );

  test(
    "nor does one that is kept up to date",
    () =>
      inSite(async (site) => {
        await craft(site);
        for (const words of [
          ["inspect", "--watch"],
          ["inspect", "1", "--watch"],
          ["inspect", "jobs", "--watch"],
        ]) {
          expect(await atTerminal(site, words, "q")).not.toMatch(OBEYED_BESIDE_OURS);
        }
      }),
    30_000,
  );

  test("a state that is none is told as text, too", () =>
    inSite(async (site) => {
      await site.script([], "true");
      using database = new Database(site.location);
      database.run("PRAGMA ignore_check_constraints = ON");
      database.run("UPDATE jobs SET state = ?1", [EVIL]);
      for (const words of [
        ["cancel", "1"],
        ["retry", "1"],
      ]) {
        const shown = await atTerminal(site, words);
        expect(shown).toContain("owned");
        expect(shown).not.toMatch(OBEYED);
      }
      database.run("UPDATE jobs SET state = 'pending'");
    }));

  test("a log is raw when that is asked for, and in a pipe", () =>
    inSite(async (site) => {
      await site.script([], "printf '\\033]0;title\\007\\033[31mred\\033[0m\\n'");
      await site.run(["worker", "--until-empty"]);
      const printed = "\u001b]0;title\u0007\u001b[31mred\u001b[0m";
      expect(await atTerminal(site, ["logs", "1"])).toBe("\\x1b]0;title\\x07\u001b[31mred\u001b[0m\r\n");
      expect(await atTerminal(site, ["logs", "1", "--raw"])).toBe(`${printed}\r\n`);
      expect((await site.run(["logs", "1"])).stdout).toBe(`${printed}\n`);
    }));
});
