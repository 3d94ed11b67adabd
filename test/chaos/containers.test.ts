/** Containers and users of one machine, with its name and its boot but other eyes for its processes, on one store. */

import { describe, expect, test } from "bun:test";
import { chmodSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { isPossible, VIEWS } from "../support/namespaces.ts";
import { BINARY, inSite, isUnlocked, stamps, until, type Site } from "../support/process.ts";

const possible = (words: readonly string[]) => isPossible(words, "test/chaos/containers.test.ts");

/** The store is everybody's: what is tried here is who is taken for dead, not who is let in. */
function share(site: Site): void {
  for (const name of [".", ...readdirSync(site.folder)]) chmodSync(join(site.folder, name), 0o777);
}

const JOB = "echo go > go; until [ -e end ]; do echo beat; sleep 0.05; done";

describe.each(VIEWS)("a watchdog %s", (_what, words) => {
  test.skipIf(!possible(words))("takes no live worker for dead, and leaves its job alone", () =>
    inSite(async (site) => {
      const id = await site.script([], JOB);
      const worker = site.start(["worker", "--once", "--trust-store"]);
      await site.childOf(id);
      share(site);
      const sweep = [BINARY, "watchdog", "--once", "--json", "--trust-store", "--store", site.location];
      const { code, stdout, stderr } = await site.spawn([...words, ...sweep]).ended;
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      expect(JSON.parse(stdout)).toMatchObject({ expired_found: 0, orphans_killed: 0 });
      await Bun.write(site.path("end"), "");
      expect((await worker.ended).code).toBe(0);
      expect(await site.store.jobs([id])).toMatchObject([{ state: { name: "completed" }, token: 1 }]);
    }),
  );

  test.skipIf(!possible(words))("is not taken for dead itself when it is the worker", () =>
    inSite(async (site) => {
      const id = await site.script([], JOB);
      share(site);
      const worker = site.spawn([...words, BINARY, "worker", "--once", "--trust-store", "--store", site.location]);
      await site.childOf(id);
      const { code, stdout } = await site.run(["watchdog", "--once", "--json", "--trust-store"]);
      expect(code).toBe(0);
      expect(JSON.parse(stdout)).toMatchObject({ expired_found: 0, orphans_killed: 0 });
      await Bun.write(site.path("end"), "");
      expect((await worker.ended).code).toBe(0);
      expect(await site.store.jobs([id])).toMatchObject([{ state: { name: "completed" }, token: 1 }]);
    }),
  );
});

describe("a worker that died", () => {
  test(
    "is reported once, however many look for it and however often",
    () =>
      inSite(async (site) => {
        const id = await site.script([], "[ $LEASE_ATTEMPT = 2 ] || exec sleep 60");
        const worker = await site.workerReady();
        await site.childOf(id);
        const watchdogs = [1, 2, 3].map(() => site.start(["watchdog", "--every", "1s"]));
        await worker.end("SIGKILL");
        await site.reaches(id, "pending");
        await Bun.sleep(1_500);
        for (const watchdog of watchdogs) await watchdog.end("SIGTERM");
        expect(
          watchdogs
            .map(({ stderr }) => stderr)
            .join("")
            .match(/died without a word/g),
        ).toHaveLength(1);
      }),
    20_000,
  );
});

const CONTAINED = VIEWS[0]?.[1] ?? [];

describe("a worker that is frozen in one container", () => {
  test.skipIf(!possible(CONTAINED))(
    "has its job dead before the next holder in another begins",
    () =>
      inSite(async (site) => {
        const stamped = (event: string) => `echo "${event} $LEASE_TOKEN $(date +%s%N)" >> stamps`;
        const run = `${stamped("start")}; for i in $(seq 20); do echo; ${stamped("beat")}; sleep 0.1; done; ${stamped("end")}`;
        const id = await site.script(["--lease", "2s"], run);
        const started = () =>
          site.spawn([...CONTAINED, BINARY, "worker", "--once", "--poll", "100ms", "--store", site.location]);
        const first = started();
        await site.childOf(id);
        const pid = Number((await Bun.file(`/proc/${first.pid}/task/${first.pid}/children`).text()).trim());
        await until("it beats", () => site.lines("stamps").length > 4);
        await until("it is stopped without the lock", async () => {
          process.kill(pid, "SIGSTOP");
          await Bun.sleep(20);
          if (isUnlocked(site.location)) return true;
          process.kill(pid, "SIGCONT");
          return false;
        });
        const second = site.spawn([...CONTAINED, BINARY, "worker", "--store", site.location]);
        const watchdog = site.start(["watchdog", "--every", "1s", "--grace", "0s"]);
        await site.reaches(id, "completed", { within_ms: 20_000 });
        process.kill(pid, "SIGCONT");
        await watchdog.end("SIGTERM");
        second.signal("SIGKILL");
        await Promise.all([first.ended, second.ended]);
        const seen = stamps(site.lines("stamps"));
        const last = Math.max(...seen.filter(({ token }) => token === 1).map(({ at_ms }) => at_ms));
        const next = seen.find(({ token, event }) => token === 2 && event === "start")?.at_ms ?? Infinity;
        expect(next).toBeGreaterThan(last);
      }),
    30_000,
  );
});
