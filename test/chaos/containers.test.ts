/** Containers and users of one machine, with its name and its boot but other eyes for its processes, on one store. */

import { describe, expect, test } from "bun:test";
import { chmodSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { BINARY, inSite, type Site } from "../support/process.ts";

const CONTAINED = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
/** Another user, to whom /proc shows only what is theirs. */
const HIDDEN = hidden("hidepid=2");
const SUBSET = hidden("hidepid=4,subset=pid");
/** The time since boot is another there, and so is the start of every process. */
const OTHER_TIME = ["unshare", "--time", "--fork", "--kill-child", "--boottime", "100000"];

function hidden(options: string): string[] {
  const mount = `mount -t proc -o ${options} proc /proc && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"`;
  return ["unshare", "--mount", "sh", "-c", mount, "sh"];
}

const possible = (words: readonly string[]): boolean => {
  const works = Bun.spawnSync([...words, "true"], { stderr: "ignore" }).exitCode === 0;
  if (!works)
    console.warn(`SKIPPED: test/chaos/containers.test.ts needs ${words.slice(0, 2).join(" ")}, which takes root`);
  return works;
};

/** The store is everybody's: what is tried here is who is taken for dead, not who is let in. */
function share(site: Site): void {
  for (const name of [".", ...readdirSync(site.folder)]) chmodSync(join(site.folder, name), 0o777);
}

const VIEWS: [what: string, words: string[]][] = [
  ["in another container", CONTAINED],
  ["to whom /proc hides other users' processes", HIDDEN],
  ["to whom /proc shows a part of itself", SUBSET],
  ["in another namespace of time", OTHER_TIME],
];

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
