/** The main flow through the compiled binary, with the store in PostgreSQL: nothing but LEASE_STORE differs. */

import { describe, expect, test } from "bun:test";
import { usePostgresPlaces } from "./engines.ts";
import { expectRefusal, LEASE, run } from "./lease.ts";

const newStore = usePostgresPlaces();

describe("with a store in PostgreSQL", () => {
  test("jobs are enqueued, run, retried and inspected as ever", async () => {
    const place = await newStore();
    const good = await place.enqueue("--task", "build", "--", "echo", "späße");
    const flaky = await place.enqueue("--retries", "1", "--backoff", "10ms", "-c", "test $LEASE_ATTEMPT -ge 2");
    const bad = await place.enqueue("--retries", "0", "-c", "echo oh; exit 3");
    expect([good, flaky, bad]).toEqual([1, 2, 3]);
    expect(await place.work("-j", "2")).toBe(1);
    expect(await place.inspect(good)).toMatchObject({ state: "completed", task: "build", attempts: 1 });
    expect(await place.inspect(flaky)).toMatchObject({ state: "completed", attempts: 2 });
    const failed = await place.inspect(bad);
    expect(failed).toMatchObject({ state: "failed", exit_code: 3 });
    expect(failed.history.map(({ cause }) => cause)).toEqual(["exit"]);
    expect(failed.checkpoints.map(({ kind }) => kind)).toEqual(["error"]);
    expect(await place.log(good)).toBe("späße\n");
    expect((await place.lease("inspect")).stdout).toContain("default");
  });

  test("a job beats, leaves checkpoints and a result, and its next attempt reads the last one", async () => {
    const place = await newStore();
    const script = `
      "$LEASE" beat --progress 40 --message linking || exit 9
      echo "after \${LEASE_CHECKPOINT:-nothing}"
      "$LEASE" checkpoint "step $LEASE_ATTEMPT" || exit 9
      printf 'result\\0%s' "$LEASE_ATTEMPT" > "$LEASE_OUTPUT"
      test "$LEASE_ATTEMPT" -ge 2
    `;
    const id = await place.enqueue("--retries", "1", "--backoff", "10ms", "-c", script);
    expect(await place.work()).toBe(0);
    const job = await place.inspect(id);
    expect(job).toMatchObject({ state: "completed", progress: 40, message: "linking", output: "result\u00002" });
    expect(job.checkpoints.filter(({ kind }) => kind === "progress").map(({ text }) => text)).toEqual([
      "step 2",
      "step 1",
    ]);
    expect((await place.lease("logs", String(id), "--attempt", "1")).stdout).toBe("after nothing\n");
    expect(await place.log(id)).toBe("after step 1\n");
  });

  test("the way back to a job that was left does not show the password", async () => {
    const place = await newStore();
    const script = `
      "$LEASE" run --store "$LEASE_STORE" --remote --key k -- true & pid=$!
      until "$LEASE" inspect jobs --json 2>/dev/null | grep -q k; do :; done
      kill -TERM $pid; wait $pid
    `;
    const { code, stderr } = await run(["sh", "-c", script], { cwd: place.folder, env: place.env });
    expect({ code, stderr }).toEqual({
      code: 143,
      stderr: expect.stringMatching(/lease run --store '?postgres:.* --key k/),
    });
    expect(stderr).not.toContain("secret");
  });

  test("a waiting job is cancelled, a finished one retried, a queue paused and resumed", async () => {
    const place = await newStore();
    const id = await place.enqueue("--delay", "1h", "--", "true");
    expect(await place.lease("cancel", String(id))).toMatchObject({ code: 0 });
    expect((await place.inspect(id)).state).toBe("cancelled");
    expect(await place.lease("retry", String(id))).toMatchObject({ code: 0 });
    await place.lease("pause", "default");
    expect((await place.lease("inspect", String(id))).stdout).toContain("paused");
    await place.lease("resume", "default");
    expect(await place.work()).toBe(0);
    expect((await place.inspect(id)).state).toBe("completed");
  });

  test("a running job is cancelled by another process", async () => {
    const place = await newStore();
    const id = await place.enqueue("-c", 'echo started; "$LEASE" cancel "$LEASE_JOB_ID"; exec sleep 60');
    expect(await place.work()).toBe(0);
    expect((await place.inspect(id)).state).toBe("cancelled");
  });

  test("a dead worker's job is recovered by a watchdog at once", async () => {
    const place = await newStore();
    const id = await place.enqueue("-c", "kill -9 $PPID; sleep 60");
    expect((await place.lease("worker", "--no-sweep")).code).toBe("SIGKILL");
    expect((await place.inspect(id)).state).toBe("running");
    expect(await place.lease("watchdog", "--once")).toMatchObject({ code: 0 });
    const job = await place.inspect(id);
    expect(job.state).toBe("pending");
    expect(job.history.map(({ cause }) => cause)).toEqual(["lost"]);
  });

  test("jobs wait for others and share keys, whoever enqueues them at the same time", async () => {
    const place = await newStore();
    const parents = await Promise.all(Array.from({ length: 20 }, () => place.enqueue("--", "true")));
    const child = await place.enqueue("--after", parents.join(","), "--key", "k", "--", "echo", "last");
    expect(await place.enqueue("--key", "k", "--", "echo", "never")).toBe(child);
    expectRefusal(await place.lease("enqueue", "--after", "99999", "--", "true"), 2, "there is no job 99999");
    expect(await place.work("-j", "8")).toBe(0);
    expect(await place.inspect(child)).toMatchObject({ state: "completed" });
    expect(await place.log(child)).toBe("last\n");
  });
});

describe("a database that can't be used", () => {
  const refused = async (url: string, env: Record<string, string> = {}) =>
    run([LEASE, "inspect"], { env: { LEASE_STORE: url, HOME: "/nowhere", ...env } });

  test("because nothing listens there is one line and 125, without the password", async () => {
    const answer = await refused("postgres://me:hush@127.0.0.1:1/db");
    expectRefusal(answer, 125, "nothing listens there");
    expect(answer.stderr).not.toContain("hush");
    expect(answer.stderr).toContain("postgres://me@127.0.0.1:1/db");
  });

  test("because it lets nobody in with that password, or is not there, is one line and 125", async () => {
    const { url } = (await newStore()).schema;
    expectRefusal(await refused(url.replace(":secret@", ":hush@")), 125, "password");
    expectRefusal(await refused(url.replace("/postgres?", "/nowhere?")), 125, "does not exist");
  });

  test("because its URL is wrong is a usage error that does not repeat it", async () => {
    for (const url of [
      "postgres://me:hush@host:port/db",
      "postgres://me:hush@host/db?scheme=x",
      "postgres://me:hush@host/db?schema=pg_catalog",
      "postgres://me:hush@host/db?schema=a%20b",
      "postgres://me:hush@host/db?sslmode=sometimes",
    ]) {
      const answer = await refused(url);
      expectRefusal(answer, 2, "the store's URL can't be used");
      expect(answer.stderr).not.toContain("hush");
    }
  });

  test("because there is no store in it yet is the answer no, and none is made", async () => {
    const { schema } = await newStore();
    expectRefusal(await refused(schema.url), 1, "there is no store in");
    expect(await schema.sql`SELECT 1 FROM pg_namespace WHERE nspname = ${schema.name}`).toHaveLength(0);
  });
});
