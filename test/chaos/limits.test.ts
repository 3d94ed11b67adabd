/** --memory, --pids and --cpus with the kernel's own controllers, and what an attempt took. */

import { describe, expect, test } from "bun:test";
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { ownFolder } from "../../src/platform/cgroup.ts";
import { limit } from "../../src/platform/cgroup_limits.ts";
import { BINARY, inSite, type Site } from "../support/process.ts";

const NONE = { memory_bytes: null, pids: null, cpus: null };

/** Whether a worker that is started here can have the limit; v2 is tried by the same words where it is there. */
function has(limits: Partial<typeof NONE | { memory_bytes: number; pids: number; cpus: number }>): boolean {
  try {
    limit(null, `lease-test-${process.pid}`, { ...NONE, ...limits }).remove();
    return true;
  } catch {
    return false;
  }
}

const can = { memory: has({ memory_bytes: 2 ** 26 }), pids: has({ pids: 50 }), cpus: has({ cpus: 1 }) };
for (const [name, possible] of Object.entries(can))
  if (!possible) console.warn(`SKIPPED: test/chaos/limits.test.ts needs a ${name} controller that we may use`);

const scenario = (needs: boolean, title: string, body: (site: Site) => Promise<void>) =>
  test.skipIf(!needs)(title, () => inSite(body), 20_000);

const EATS = `head -c 300000000 /dev/zero | tail -c 250000000 | wc -c`;

describe("a job with a limit", () => {
  scenario(can.memory, "of memory is killed when it takes more, and says why", async (site) => {
    const id = await site.script(["--memory", "64M", "--retries", "0"], `exec sh -c "${EATS}"`);
    await site.run(["worker", "--until-empty"]);
    const job = await site.job(id);
    // The shell outlives what is killed, and its pipe ends with whatever that leaves.
    const { memory_bytes } = job.history[0]!;
    expect(memory_bytes).toBeGreaterThan(2 ** 25);
    expect(memory_bytes).toBeLessThanOrEqual(2 ** 26);
    const direct = await site.enqueue(["--memory", "64M", "--retries", "0"], "tail", "/dev/zero");
    await site.run(["worker", "--until-empty"]);
    const died = { state: "failed", error: "killed by SIGKILL: out of memory, more than --memory allows" };
    expect(await site.job(direct)).toMatchObject(died);
  });

  scenario(can.memory, "of memory that it keeps runs as any other, and what it took is known", async (site) => {
    const id = await site.script(["--memory", "256M"], "head -c 20000000 /dev/zero | tail -c 15000000 | wc -c");
    await site.run(["worker", "--until-empty"]);
    const job = await site.job(id);
    expect(job).toMatchObject({ state: "completed", history: [{ last_line: "15000000", cause: "success" }] });
    expect(job.history[0]!.memory_bytes).toBeGreaterThan(1_000_000);
    const { stdout } = await site.run(["inspect", String(id)]);
    expect(stdout).toMatch(/MEMORY/);
    expect(stdout).toContain("memory up to 256 MiB");
  });

  scenario(can.pids, "of processes can't have more", async (site) => {
    const id = await site.script(
      ["--pids", "5", "--retries", "0"],
      "for i in 1 2 3 4 5 6 7 8 9; do sleep 1 & done; echo all",
    );
    await site.run(["worker", "--until-empty"]);
    expect((await site.run(["logs", String(id)])).stdout).toMatch(/fork|Resource temporarily unavailable/i);
  });

  scenario(can.cpus, "of processors takes no more of them", async (site) => {
    const spin = "i=0; end=$(($(date +%s%N) + 1000000000)); while [ $(date +%s%N) -lt $end ]; do i=$((i+1)); done";
    const id = await site.script(["--cpus", "0.2"], spin);
    await site.run(["worker", "--until-empty"]);
    const { cpu_ms } = (await site.job(id)).history[0]!;
    expect(cpu_ms).toBeGreaterThan(20);
    expect(cpu_ms).toBeLessThan(600);
  });

  scenario(
    can.memory && can.pids,
    "leaves no control group behind, and one that is not there is not_found",
    async (site) => {
      const [first, second] = ["memory", "pids"].map((controller) => ownFolder(controller) ?? "/nowhere");
      await site.enqueue(["--memory", "64M", "--pids", "9"], "true");
      const missing = await site.enqueue(["--memory", "64M"], "no-such-program");
      await site.run(["worker", "--until-empty"]);
      expect(await site.job(missing)).toMatchObject({ cause: "not_found", exit_code: 127 });
      for (const folder of [first!, second!].filter(existsSync))
        expect(
          readdirSync(folder).filter((name) => name.startsWith("lease-") && existsSync(join(folder, name))),
        ).toEqual([]);
    },
  );

  const WITHOUT = ["unshare", "--mount", "sh", "-c", 'umount -a -t cgroup,cgroup2 && exec "$@"', "sh"];
  const hides = Bun.spawnSync([...WITHOUT, "true"], { stderr: "ignore" }).exitCode === 0;
  scenario(hides, "that can't be had is not run without it, and says what to do", async (site) => {
    for (const [flag, value] of [
      ["--memory", "64M"],
      ["--pids", "9"],
      ["--cpus", "1"],
    ] as const) {
      const id = await site.script([flag, value, "--retries", "0"], "echo ran >> ran");
      const worker = site.spawn([...WITHOUT, BINARY, "worker", "--until-empty", "--store", site.location]);
      expect((await worker.ended).code).toBe(1);
      const job = await site.job(id);
      expect(job).toMatchObject({ state: "failed", cause: "not_executable", exit_code: 126 });
      expect(job.error).toStartWith(`${flag} can't be had here`);
      expect(job.error).toContain("systemd-run --user --scope -p Delegate=yes lease worker");
    }
    expect(site.lines("ran")).toEqual([]);
  });

  test.each([
    ["--memory", "0", "amount of memory"],
    ["--memory", "12k", "amount of memory"],
    ["--memory", "lots", "amount of memory"],
    ["--pids", "0", "whole number"],
    ["--cpus", "0", "number of processors"],
    ["--cpus", "-1", "number of processors"],
    ["--cpus", "2e9", "number of processors"],
  ])("%s %s is refused", (flag, value, why) =>
    inSite(async (site) => {
      const { code, stderr } = await site.run(["enqueue", `${flag}=${value}`, "--", "true"]);
      expect([code, stderr]).toEqual([2, expect.stringContaining(why)]);
    }),
  );
});

describe("what an attempt took", () => {
  scenario(true, "is shown with what held it together", async (site) => {
    const busy = await site.script([], "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done");
    const idle = await site.script([], "sleep 0.2");
    await site.run(["worker", "--until-empty"]);
    const [first, second] = [(await site.job(busy)).history[0]!, (await site.job(idle)).history[0]!];
    expect(first.cpu_ms).toBeGreaterThan(10);
    expect(second.cpu_ms).toBeLessThan(first.cpu_ms ?? 0);
    expect(["cgroup", "tree", "group"]).toContain(first.fence ?? "");
    const { stdout } = await site.run(["inspect", String(busy)]);
    expect(stdout).toMatch(/^fence {2,}(cgroup v2|process)/m);
    expect(stdout).toMatch(/CPU/);
  });
});
