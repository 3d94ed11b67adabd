/** Containers of one machine, with its name and its boot but pids of their own, on one store. */

import { describe, expect, test } from "bun:test";
import { BINARY, inSite } from "../support/process.ts";

const CONTAINED = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
const possible = Bun.spawnSync([...CONTAINED, "true"], { stderr: "ignore" }).exitCode === 0;
if (!possible) console.warn("SKIPPED: test/chaos/containers.test.ts needs a pid namespace, which takes root");

describe("a worker in a container", () => {
  test.skipIf(!possible)("is not taken for dead by those who can't see its processes, nor is its job touched", () =>
    inSite(async (site) => {
      const id = await site.script([], "echo go > go; until [ -e end ]; do echo beat; sleep 0.05; done");
      const worker = site.spawn([...CONTAINED, BINARY, "worker", "--once", "--store", site.location]);
      await site.childOf(id);
      const watchdog = [BINARY, "watchdog", "--once", "--json", "--store", site.location];
      for (const words of [watchdog, [...CONTAINED, ...watchdog]]) {
        const { code, stdout } = await site.spawn(words).ended;
        expect(code).toBe(0);
        expect(JSON.parse(stdout)).toMatchObject({ expired_found: 0, orphans_killed: 0 });
      }
      await Bun.write(site.path("end"), "");
      expect((await worker.ended).code).toBe(0);
      expect(await site.job(id)).toMatchObject({ state: "completed", attempts: 1 });
    }),
  );
});
