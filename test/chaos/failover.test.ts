/** The primary dies, a standby is promoted, and the same workers go on with it: real servers, real replication. */

import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { LeaseError } from "../../src/core/errors.ts";
import { systemClock, systemRandom } from "../../src/platform/clock.ts";
import { openPostgres } from "../../src/store/postgres/open.ts";
import { newJob } from "../support/jobs.ts";
import { startPostgres, type Server, type Standby } from "../support/postgres.ts";
import { BINARY, Program, until } from "../support/process.ts";

setDefaultTimeout(60_000);

const clearing: (() => unknown)[] = [];
afterAll(async () => {
  for (const clear of clearing.toReversed()) await clear();
});

const open = (url: string) => openPostgres(url, { clock: systemClock, random: systemRandom, retry_limit_ms: 20_000 });

describe("several hosts in the URL", () => {
  let primary: Server;
  let standby: Standby;
  beforeAll(async () => {
    primary = await startPostgres();
    clearing.push(() => primary.stop());
    await (await open(primary.url)).close();
    standby = await primary.follow();
    clearing.push(() => standby.stop());
  });

  test("of which none takes writes is an error that says so", async () => {
    const only = `${standby.url}?target_session_attrs=read-write`;
    const error = await open(only).then(
      (store) => store.close(),
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(LeaseError);
    expect(error).toMatchObject({ code: "store_readonly", message: expect.stringContaining("it is a standby") });
    // To look at what is there, a standby does.
    const reader = await open(standby.url);
    expect(await reader.counts()).toEqual([]);
    await reader.close();
  });

  test("a promoted standby takes over without a restart of workers, and no job is lost or run twice", async () => {
    // The standby first: it is passed over while it is one.
    const url = `postgres://lease:secret@127.0.0.1:${standby.port},127.0.0.1:${primary.port}/postgres`;
    const folder = mkdtempSync(join(tmpdir(), "lease-failover-"));
    clearing.push(() => rmSync(folder, { recursive: true, force: true }));
    const store = await open(url);
    clearing.push(() => store.close());
    const argv = ["sh", "-c", 'echo "$LEASE_JOB_ID" >> ran; sleep 0.02'];
    const jobs = Array.from({ length: 300 }, () => newJob({ argv, cwd: folder }));
    const long = newJob({
      argv: ["sh", "-c", "echo long >> ran; for n in 1 2 3 4 5 6; do echo $n; sleep 0.5; done"],
      cwd: folder,
    });
    const ids = (await store.enqueue([long, ...jobs])).map(({ id }) => id);
    const programs = [1, 2].map(() => {
      const words = [BINARY, "worker", "--until-empty", "-j", "3", "--store", url, "--lease", "20s"];
      const program = new Program(words, {
        env: { ...(process.env as Record<string, string>), NO_COLOR: "1" },
        cwd: folder,
      });
      let over = false;
      void program.ended.then(() => (over = true));
      clearing.push(() => over || program.signal("SIGKILL"));
      return program;
    });
    const completed = async () => (await store.counts()).find(({ state }) => state === "completed")?.count ?? 0;
    await until("some are done", async () => (await completed()) >= 60, { within_ms: 30_000 });
    await primary.crash();
    await standby.promote();
    for (const program of programs) expect(await program.ended).toMatchObject({ code: 0 });
    const ended = await store.jobs(ids);
    expect(new Set(ended.map((job) => `${job?.state.name} after ${job?.token}`))).toEqual(
      new Set(["completed after 1"]),
    );
    const ran = readFileSync(join(folder, "ran"), "utf8").split("\n").filter(Boolean);
    expect(ran.toSorted()).toEqual(["long", ...ids.slice(1).map(String)].toSorted());
    // A new job, too.
    expect(await store.enqueue([newJob()])).toMatchObject([{ created: true }]);
  });
});
