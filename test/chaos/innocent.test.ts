/**
 * Nobody else's process is ever signalled, whatever a store says: rows that name other processes, numbers below two, or
 * workers of other stores. All of it in a namespace of its own: what went wrong here would end everything on the machine.
 */

import { describe, expect, test } from "bun:test";
import process from "node:process";
import { BINARY, inSite, type Site } from "../support/process.ts";

const CONTAINED = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
const possible = Bun.spawnSync([...CONTAINED, "true"], { stderr: "ignore" }).exitCode === 0;
if (!possible) console.warn("SKIPPED: test/chaos/innocent.test.ts needs unshare --pid, which takes root");

const WITHIN_MS = 30_000;

/** Makes the row of job 1's attempt name another process: `node tamper.ts DB PID STARTED`. */
const TAMPER = `
import { Database } from "bun:sqlite";
const [db, pid, started] = process.argv.slice(2);
const database = new Database(db);
database.run("PRAGMA busy_timeout = 5000");
database.run("UPDATE attempts SET pid = ?, pid_started = ? WHERE job_id = 1", [Number(pid), Number(started)]);
`;

/** A dead worker's job, whose row names `$pid`; then `commands`. Answers what they said. */
async function afterTampering(site: Site, pid: string, commands: string): Promise<string> {
  await Bun.write(site.path("tamper.ts"), TAMPER);
  const lease = (words: string) => `${BINARY} ${words} --store ${site.location}`;
  const script = `
    ulimit -u 2000
    sleep 60 >/dev/null 2>&1 & bystander=$!
    setsid sleep 60 >/dev/null 2>&1 & leader=$!
    ${lease("enqueue")} --lease 2s --beat timer -- sh -c '[ $LEASE_ATTEMPT = 1 ] && exec sleep 60; true' >/dev/null
    ${lease("worker")} 2>worker.log & worker=$!
    until [ -n "$(${lease("inspect 1 --json")} | grep -o '"pid":[0-9]*')" ]; do sleep 0.05; done
    sleep 0.2
    kill -9 $worker; wait $worker 2>/dev/null
    pid=${pid}
    started=$(sed 's/.*) //' /proc/$pid/stat 2>/dev/null | cut -d' ' -f20)
    ${process.execPath} tamper.ts ${site.location} $pid \${started:-0}
    ${commands}
    kill -0 $bystander 2>/dev/null && echo bystander lives
    kill -0 $leader 2>/dev/null && echo leader lives
    exit 0
  `;
  const { stdout } = await site.spawn([...CONTAINED, "sh", "-c", script]).ended;
  return stdout;
}

const ROWS: [what: string, pid: string][] = [
  ["the first process of the system", "1"],
  ["a bystander", "$bystander"],
  ["a bystander that leads a group and a session", "$leader"],
  ["the number zero", "0"],
  ["a negative number", "-1"],
];

describe.each(ROWS)("a row that names %s", (_what, pid) => {
  const sweep = `${BINARY} watchdog --once --store`;
  test.skipIf(!possible)(
    "makes a sweep, or the job's next attempt, kill nobody",
    () =>
      inSite(async (site) => {
        const again = `${BINARY} worker --until-empty --store ${site.location} --no-sweep 2>&1`;
        const said = await afterTampering(site, pid, `${sweep} ${site.location} 2>&1; ${again}`);
        expect(said).toContain("bystander lives\nleader lives\n");
      }),
    WITHIN_MS,
  );
});

describe.each(ROWS.slice(0, 3))("a row that names %s", (_what, pid) => {
  test.skipIf(!possible)(
    "is damage: the job is set aside, doctor names it, and a person can have it run again",
    () =>
      inSite(async (site) => {
        const lease = (words: string) => `${BINARY} ${words} --store ${site.location}`;
        const again = `${lease("cancel 1")}; sleep 2; ${lease("watchdog --once --grace 0s")}; ${lease("retry 1")}; ${lease("worker --until-empty")}`;
        const commands = `${lease("watchdog --once")}; ${lease("doctor")}; echo STATE $(${lease("inspect 1 --json")} | grep -o '"state":"[a-z]*"'); ${again}`;
        const said = await afterTampering(site, pid, `exec 2>&1; ${commands}`);
        expect(said).toContain("job 1: could not be recovered: damaged: its row names");
        expect(said).toMatch(/the row of job 1 is damaged: it names .*, which is not the job's/);
        expect(said).toContain('STATE "state":"running"');
        expect(await site.job(1)).toMatchObject({ state: "completed", attempts: 2 });
        expect(said).toContain("bystander lives\nleader lives\n");
      }),
    WITHIN_MS,
  );
});
