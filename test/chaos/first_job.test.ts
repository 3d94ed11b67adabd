/** The way of a job through the compiled binary. */

import { describe, expect } from "bun:test";
import { scenario } from "../support/process.ts";

describe("a job through the compiled binary", () => {
  scenario(
    "enqueue prints only an id, the worker exits with 1, and inspect shows the one failed attempt",
    async (site) => {
      const queued = await site.run(["enqueue", "--retries", "0", "--", "sh", "-c", "echo hi; exit 3"]);
      expect({ ...queued, bytes: null }).toEqual({ code: 0, signal: null, stdout: "1\n", stderr: "", bytes: null });

      const worker = await site.worker("--until-empty").ended;
      expect(worker).toMatchObject({ code: 1, stdout: "" });

      const job = await site.job(1);
      expect(job).toMatchObject({
        state: "failed",
        exit_code: 3,
        cause: "exit",
        attempts: 1,
        token: 1,
        retries_left: 0,
      });
      expect(job.history).toHaveLength(1);
      expect(job.history[0]).toMatchObject({ attempt: 1, token: 1, cause: "exit", exit_code: 3, last_line: "hi" });
      expect((await site.run(["logs", "1"])).stdout).toBe("hi\n");
    },
  );

  scenario("a job that succeeds leaves its result, and the worker exits with 0", async (site) => {
    const id = await site.script([], 'echo hi; echo 42 > "$LEASE_OUTPUT"');
    expect(await site.worker("--until-empty").ended).toMatchObject({ code: 0, stdout: "" });
    expect(await site.job(id)).toMatchObject({ state: "completed", exit_code: 0, cause: "success", output: "42\n" });
  });

  scenario("a command that does not exist or can't be executed fails at once, with 127 and 126", async (site) => {
    await Bun.write(site.path("plain"), "not a program");
    const absent = await site.enqueue([], "no-such-command-anywhere");
    const plain = await site.enqueue([], site.path("plain"));
    expect((await site.worker("--until-empty").ended).code).toBe(1);
    expect(await site.job(absent)).toMatchObject({ state: "failed", cause: "not_found", exit_code: 127, attempts: 1 });
    expect(await site.job(plain)).toMatchObject({
      state: "failed",
      cause: "not_executable",
      exit_code: 126,
      attempts: 1,
    });
  });

  scenario("a worker's handler gets the words of the job behind its own, and the input on stdin", async (site) => {
    const id = await site.enqueue(["-q", "mail", "--input", "dear bob"], "bob@example.com");
    const { code } = await site.start(["worker", "-q", "mail", "--until-empty", "--", "sh", "-c", 'echo "$0: $(cat)"'])
      .ended;
    expect(code).toBe(0);
    expect((await site.run(["logs", String(id)])).stdout).toBe("bob@example.com: dear bob\n");
  });
});
