/**
 * settle: what core decided is written under the fence, once per grant; what comes too late is kept as a trace only.
 */

import { describe, expect } from "bun:test";
import type { Checkpoint } from "../../src/core/records.ts";
import type { Grant, SettleRequest } from "../../src/store/store.ts";
import { end } from "../support/jobs.ts";
import { audit, LEASE_MS, only, type StoreTest, type Subject } from "./subject.ts";

async function errors(s: Subject, job: number): Promise<Checkpoint[]> {
  return (await s.store.checkpoints({ job, limit: 99 })).filter(({ kind }) => kind === "error");
}

export function settleContract(test: StoreTest): void {
  describe("settle", () => {
    test("of a success completes the job and keeps its result", async (s) => {
      const grant = await s.granted();
      await s.passTime(5_000);
      const now_ms = await s.store.now();
      const done = end("success", { output: '{"rows": 3}', last_line: "done", beats: 4 });
      expect(await s.settle(grant, done)).toEqual({ status: "applied" });
      const { state, result, token, failures } = await s.job(grant.job.id);
      expect(state).toEqual({ name: "completed", finished_at_ms: expect.any(Number) });
      if (state.name === "completed") s.sameTime(state.finished_at_ms, now_ms);
      expect(result).toEqual({ cause: "success", exit_code: 0, error: null, output: '{"rows": 3}' });
      expect([token, failures]).toEqual([1, 0]);
    });

    test("ends the attempt with its one cause", async (s) => {
      const grant = await s.granted();
      await s.passTime(5_000);
      const now_ms = await s.store.now();
      const ended = end("signal", {
        exit_code: 137,
        signal: "SIGKILL",
        error: "killed",
        last_line: "späße",
        beats: 12,
      });
      await s.settle(grant, ended);
      const attempt = only(await s.store.attempts(grant.job.id));
      s.sameTime(attempt.ended_at_ms, now_ms);
      expect(attempt).toMatchObject({ attempt: 1, token: 1, worker: "w1", host: "h1", end: ended, beats: 12 });
    });

    test("keeps what held the attempt together, and what it took", async (s) => {
      const grant = await s.granted();
      const took = { fence: "cgroup", cpu_ms: 1_234, memory_bytes: 2 ** 40 } as const;
      await s.settle(grant, end("success", took));
      expect(only(await s.store.attempts(grant.job.id))).toMatchObject(took);
    });

    test("never counts fewer beats than were already reported", async (s) => {
      const grant = await s.granted();
      await s.store.extend([{ id: grant.job.id, token: 1, expires_in_ms: LEASE_MS, beat_age_ms: 0, beats: 9 }]);
      await s.settle(grant, end("success", { beats: 0 }));
      expect(only(await s.store.attempts(grant.job.id)).beats).toBe(9);
    });

    test("notes the process of an attempt that was over before it could be noted", async (s) => {
      const process = { boot_id: "b", pid: 7, pid_started: 70 };
      const { job } = await s.granted();
      await s.store.settle([await s.ending(job, end("success"), { process })]);
      expect(only(await s.store.attempts(job.id)).process).toEqual(process);
    });

    test("of a failure schedules the job for the time that core decided", async (s) => {
      const grant = await s.granted();
      const now_ms = await s.store.now();
      await s.settle(grant, end("exit", { exit_code: 3 }));
      const job = await s.job(grant.job.id);
      expect(job).toMatchObject({
        failures: 1,
        token: 1,
        result: { cause: "exit", exit_code: 3, error: "ended by exit" },
      });
      s.sameTime(job.run_at_ms, now_ms + 1_000);
      expect(job.state).toEqual({ name: "scheduled", run_at_ms: job.run_at_ms });
    });

    test("of the last failure fails the job", async (s) => {
      const id = await s.finished("failed");
      expect(await s.job(id)).toMatchObject({ state: { name: "failed" }, failures: 1, result: { cause: "exit" } });
      expect(await s.acquireIds()).toEqual([]);
    });

    test("counts failures through to the last retry and then fails", async (s) => {
      const id = await s.enqueueOne({ settings: { retries: 2 } });
      const states: string[] = [];
      for (let attempt = 1; attempt <= 3; attempt++) {
        await s.settle(only(await s.acquire()), end("exit"));
        states.push(`${await s.stateOf(id)} ${(await s.job(id)).failures}`);
        await s.passTime(60_000);
      }
      expect(states).toEqual(["scheduled 1", "scheduled 2", "failed 3"]);
      expect((await s.store.attempts(id)).map((attempt) => attempt.end?.cause)).toEqual(["exit", "exit", "exit"]);
    });

    test("of a returned job makes it pending in its old place, and the attempt does not count", async (s) => {
      const grant = await s.granted();
      await s.passTime(5_000);
      const later = await s.enqueueOne();
      await s.settle(grant, end("returned"));
      const job = await s.job(grant.job.id);
      expect(job).toMatchObject({ failures: 0, token: 1, run_at_ms: grant.job.run_at_ms });
      expect(job.state).toEqual({ name: "pending", run_at_ms: grant.job.run_at_ms });
      expect(only(await s.store.attempts(job.id)).end?.cause).toBe("returned");
      expect(await s.acquireIds({ count: 2 })).toEqual([job.id, later]);
    });

    test("is applied after the expiry too, as long as nobody else has been granted the job", async (s) => {
      const grant = await s.granted();
      await s.passTime(LEASE_MS * 3);
      expect(await s.settle(grant)).toEqual({ status: "applied" });
      expect(await s.stateOf(grant.job.id)).toBe("completed");
    });

    test("writes an error checkpoint with all that helps to find out why", async (s) => {
      const grant = await s.granted({ task: "t" });
      const now_ms = await s.store.now();
      const told = audit({ holder: "worker-9", host: "ci-3", last_lines: ["one", "linking…"], expires_at_ms: 123_456 });
      await s.settle(grant, end("exit", { exit_code: 42, error: "exit code 42" }), told);
      const { id, at_ms, text, ...rest } = only(await s.store.checkpoints({ job: grant.job.id, limit: 9 }));
      expect(id).toBeGreaterThan(0);
      s.sameTime(at_ms, now_ms);
      expect(rest).toEqual({ job: grant.job.id, task: "t", kind: "error", token: 1 });
      expect(JSON.parse(text)).toMatchObject({
        cause: "exit",
        attempt: 1,
        token: 1,
        holder: "worker-9",
        host: "ci-3",
        exit_code: 42,
        error: "exit code 42",
        last_lines: ["one", "linking…"],
        expires_at_ms: 123_456,
      });
    });

    test("writes no checkpoint where none was asked for", async (s) => {
      const grant = await s.granted();
      await s.settle(grant, end("exit"), null);
      expect(await s.store.checkpoints({ limit: 9 })).toEqual([]);
    });

    test("never hands an error checkpoint to the next attempt", async (s) => {
      const grant = await s.granted();
      await s.store.checkpoint([{ id: grant.job.id, token: 1, text: "half way" }]);
      await s.settle(grant, end("exit"), audit());
      await s.passTime(1_000);
      expect(only(await s.acquire()).checkpoint).toBe("half way");
    });
  });

  describe("settle, too late", () => {
    test("is stale as a conflict once somebody else has been granted the job, which goes on undisturbed", async (s) => {
      const old = await s.granted();
      await s.passTime(LEASE_MS + 1_000);
      await s.store.recover([await s.recovery(old.job.id)]);
      const current = only(await s.acquire({ holder: "w2" }));
      const before = await s.store.attempts(old.job.id);

      expect(await s.settle(old)).toEqual({ status: "stale", reason: "conflict" });
      expect(await s.job(old.job.id)).toEqual(current.job);
      expect(await s.store.attempts(old.job.id)).toEqual(before);
      expect(await s.settle(current, end("exit"))).toEqual({ status: "applied" });
    });

    test("is stale as expired when the job has ended and nobody was granted it since; the first result stands", async (s) => {
      const grant = await s.granted();
      await s.settle(grant, end("success", { output: "first" }));
      const before = await s.job(grant.job.id);
      expect(await s.settle(grant, end("exit"))).toEqual({ status: "stale", reason: "expired" });
      expect(await s.job(grant.job.id)).toEqual(before);
      expect(only(await s.store.attempts(grant.job.id)).end?.cause).toBe("success");
    });

    test("does not end a job that was recovered and waits for its next attempt", async (s) => {
      const grant = await s.granted();
      await s.passTime(LEASE_MS + 1_000);
      await s.store.recover([await s.recovery(grant.job.id)]);
      expect(await s.settle(grant)).toEqual({ status: "stale", reason: "expired" });
      expect(await s.stateOf(grant.job.id)).toBe("pending");
    });

    test("leaves a stale checkpoint that says what the result was, with an audit or without", async (s) => {
      const grant = await s.granted({ task: "t" });
      await s.settle(grant);
      await s.settle(grant, end("success"), null);
      await s.settle(grant, end("exit"), audit({ last_lines: ["the end"] }));
      const [second, first] = await errors(s, grant.job.id);
      expect(first).toMatchObject({ task: "t", token: 1 });
      expect(JSON.parse(first?.text ?? "")).toMatchObject({ cause: "stale", result: "success" });
      expect(JSON.parse(second?.text ?? "")).toMatchObject({ cause: "stale", result: "exit", last_lines: ["the end"] });
    });

    test("is stale for an unknown job, and nothing is left of it", async (s) => {
      const { job } = await s.granted();
      const request = await s.ending(job, end("success"), { id: 999, audit: audit() });
      const answer = only(await s.store.settle([request]));
      expect(answer.status).toBe("stale");
      expect(await s.store.checkpoints({ limit: 9 })).toEqual([]);
    });

    test("applies only the first of two results for one grant, in one call as well", async (s) => {
      const { job } = await s.granted();
      const requests = [await s.ending(job, end("success")), await s.ending(job, end("exit"))];
      const answers = await s.store.settle(requests);
      expect(answers).toEqual([{ status: "applied" }, { status: "stale", reason: "expired" }]);
      expect(await s.stateOf(job.id)).toBe("completed");
    });

    test("holds back none of the others in its call, and each gets its own answer", async (s) => {
      const stale = await s.granted();
      await s.settle(stale);
      const good = await s.granted();
      const other = await s.granted();
      const requests = await Promise.all([good, stale, other].map(({ job }) => s.ending(job, end("success"))));
      expect((await s.store.settle(requests)).map(({ status }) => status)).toEqual(["applied", "stale", "applied"]);
    });

    test("of nothing does nothing", async (s) => {
      expect(await s.store.settle([])).toEqual([]);
    });
  });

  describe("settle that comes too late", () => {
    test("keeps its output, who it was and when, though a success has no audit trail", async (s) => {
      const old = await s.granted();
      await s.settle(old, end("returned"));
      const late = audit({ holder: "w9", host: "h9", granted_at_ms: 5, expires_at_ms: 6, ended_at_ms: 7 });
      const request = await s.ending(old.job, end("success", { output: "42" }), { late });
      await s.store.settle([request]);
      const { text } = only(await s.store.checkpoints({ limit: 9 }));
      const said = { cause: "stale", result: "success", output: "42", holder: "w9", host: "h9", retry_count: 0 };
      expect(JSON.parse(text)).toMatchObject({ ...said, granted_at_ms: 5, expires_at_ms: 6, ended_at_ms: 7 });
    });
  });

  describe("settle of a job that was asked to stop meanwhile", () => {
    test("is not applied but sent back, so that the job is never retried", async (s) => {
      const grant = await s.granted();
      await s.store.cancel([grant.job.id], "not needed");
      const before = await s.job(grant.job.id);
      for (const cause of ["exit", "returned", "not_found"] as const) {
        expect(await s.settle(grant, end(cause), audit())).toEqual({ status: "cancelling" });
      }
      expect(await s.job(grant.job.id)).toEqual(before);
      expect(await s.store.checkpoints({ limit: 9 })).toEqual([]);

      expect(await s.store.settle([await s.ending(before, end("exit"))])).toEqual([{ status: "applied" }]);
      expect(await s.job(before.id)).toMatchObject({ state: { name: "cancelled" }, reason: "not needed" });
      expect(await s.acquireIds()).toEqual([]);
    });

    test("completes or fails the job if it had come to that end first", async (s) => {
      for (const [cause, state] of [
        ["success", "completed"],
        ["exit", "failed"],
      ] as const) {
        const grant = await s.granted({ settings: { retries: 0 } });
        const ended_at_ms = await s.store.now();
        await s.passTime(1_000);
        await s.store.cancel([grant.job.id], "not needed");
        const request = await s.ending(grant.job, end(cause), { ended_at_ms });
        expect(await s.store.settle([request])).toEqual([{ status: "applied" }]);
        expect(await s.stateOf(grant.job.id)).toBe(state);
      }
    });

    test("is sent back when it would be tried again, however early it had ended", async (s) => {
      const grant = await s.granted();
      await s.store.cancel([grant.job.id], null);
      const request = await s.ending(grant.job, end("exit"), { ended_at_ms: 1 });
      expect(await s.store.settle([request])).toEqual([{ status: "cancelling" }]);
    });

    test("is sent back when it succeeded after that", async (s) => {
      const grant = await s.granted();
      const child = await s.enqueueOne({ after: [grant.job.id] });
      await s.store.cancel([grant.job.id], "not needed");
      await s.passTime(1_000);
      expect(await s.settle(grant)).toEqual({ status: "cancelling" });
      const asked = await s.job(grant.job.id);
      expect(await s.store.settle([await s.ending(asked, end("success"))])).toEqual([{ status: "applied" }]);
      expect(await s.job(asked.id)).toMatchObject({ state: { name: "cancelled" }, result: { cause: "cancelled" } });
      expect(await s.stateOf(child)).toBe("cancelled");
    });

    test("is applied when the worker acknowledges the request", async (s) => {
      const grant = await s.granted();
      await s.store.cancel([grant.job.id], null);
      expect(await s.settle(grant, end("cancelled"))).toEqual({ status: "applied" });
      expect(await s.stateOf(grant.job.id)).toBe("cancelled");
    });

    test("keeps the reason of the request, which the worker that acknowledges it need not know", async (s) => {
      const grant = await s.granted();
      await s.store.cancel([grant.job.id], "not needed");
      await s.settle(grant, end("cancelled"));
      expect((await s.job(grant.job.id)).reason).toBe("not needed");
    });

    test("is stale, not sent back, with a token that is not the current one", async (s) => {
      const old = await s.granted();
      await s.settle(old, end("returned"));
      const current = only(await s.acquire());
      await s.store.cancel([current.job.id], null);
      expect(await s.settle(old, end("exit"))).toEqual({ status: "stale", reason: "conflict" });
    });
  });

  describe("settles of many jobs at once", () => {
    /** Each as awkward a text as the next. */
    const OUTPUTS = [
      null,
      "",
      '{"rows": 3}',
      "[1]",
      "null",
      "7",
      "sp\u00e4\u00dfe \u{1f600}",
      'a "b"\\\n\t',
      "x".repeat(5_000),
    ];

    async function running(s: Subject, count: number): Promise<Grant[]> {
      for (let n = 0; n < count; n++) await s.enqueueOne();
      return s.acquire({ count });
    }

    test("write for each what they would alone", async (s) => {
      const grants = await running(s, OUTPUTS.length + 1);
      const last = grants.pop() as Grant;
      const children: number[] = [];
      for (const { job } of grants) children.push(await s.enqueueOne({ after: [job.id] }));
      const requests = await Promise.all(
        grants.map(({ job }, n) =>
          s.ending(job, end("success", { output: OUTPUTS[n] ?? null, last_line: OUTPUTS[n] ?? null, beats: n })),
        ),
      );
      const failed = await s.ending(last.job, end("exit", { exit_code: 3 }));
      const answers = await s.store.settle([...requests, failed]);
      expect(answers).toEqual(answers.map(() => ({ status: "applied" })));
      for (const [n, { job }] of grants.entries()) {
        const output = OUTPUTS[n] ?? null;
        const { state, result, failures } = await s.job(job.id);
        expect([state.name, failures]).toEqual(["completed", 0]);
        expect(result).toEqual({ cause: "success", exit_code: 0, error: null, output });
        const attempt = only(await s.store.attempts(job.id));
        expect(attempt.end).toEqual(end("success", { last_line: output, beats: n }));
      }
      expect(await s.stateOf(last.job.id)).toBe("scheduled");
      for (const child of children) expect(await s.stateOf(child)).toBe("pending");
      const completed = (await s.store.counts()).filter(({ state }) => state === "completed");
      expect(only(completed).count).toBe(grants.length);
    });

    for (const alike of [true, false]) {
      test(`keep what each of plain successes says, ${alike ? "the same of all" : "whatever they say"}`, async (s) => {
        const grants = await running(s, OUTPUTS.length);
        const says = (n: number) => {
          const output = alike ? "[7]" : (OUTPUTS[n] ?? null);
          return { output, last_line: output, beats: alike ? 2 : n };
        };
        // What a beat has told already is more.
        const [{ job: beating }] = grants as [Grant];
        await s.store.extend([
          { id: beating.id, token: beating.token, expires_in_ms: LEASE_MS, beat_age_ms: 0, beats: 5 },
        ]);
        const endings: SettleRequest[] = [];
        for (const [n, { job }] of grants.entries()) {
          await s.passTime(1_000);
          endings.push(await s.ending(job, end("success", says(n))));
        }
        // One of them has ended before.
        const over = grants.at(-1) as Grant;
        await s.settle(over, end("error", { error: "before" }));
        const answers = await s.store.settle(endings.toReversed());
        const statuses: string[] = answers.map(({ status }) => status);
        expect(statuses).toEqual(["stale", ...grants.slice(1).map(() => "applied")]);
        expect((await s.job(over.job.id)).result.error).toBe("before");
        for (const [n, { job }] of grants.slice(0, -1).entries()) {
          const { output, last_line, beats } = says(n);
          const { state, result } = await s.job(job.id);
          expect(state).toEqual(endings[n]?.change.state as typeof state);
          expect(result).toEqual({ cause: "success", exit_code: 0, error: null, output });
          const attempt = only(await s.store.attempts(job.id));
          expect(attempt.end).toEqual(end("success", { last_line, beats: n === 0 ? 5 : beats }));
        }
      });
    }

    test("keep the processes of those that were programs", async (s) => {
      const grants = await running(s, 6);
      const process = { boot_id: "b", pid: 7, pid_started: 70 };
      const took = { fence: "cgroup", cpu_ms: 5, memory_bytes: 9 } as const;
      const requests = await Promise.all(
        grants.map(({ job }, n) => s.ending(job, end("success", n < 3 ? took : {}), n < 3 ? { process } : {})),
      );
      await s.store.settle(requests);
      for (const [n, { job }] of grants.entries()) {
        const attempt = only(await s.store.attempts(job.id));
        if (n < 3) expect(attempt).toMatchObject({ process, ...took });
        else expect(attempt).toMatchObject({ process: null, fence: null, cpu_ms: null });
      }
    });

    test("answer each for itself, whatever has become of the others", async (s) => {
      const grants = await running(s, 9);
      const [lost, asked, twice] = grants as [Grant, Grant, Grant];
      await s.settle(lost, end("returned"));
      expect(await s.acquireIds()).toEqual([lost.job.id]);
      await s.store.cancel([asked.job.id], null);
      await s.passTime(1_000);
      const requests = await Promise.all(grants.map(({ job }) => s.ending(job, end("success"))));
      requests.push(await s.ending(twice.job, end("success")));
      const answers = await s.store.settle(requests);
      const applied = { status: "applied" } as const;
      expect(answers[0]).toEqual({ status: "stale", reason: "conflict" });
      expect(answers[1]).toEqual({ status: "cancelling" });
      expect(answers.slice(2, 9)).toEqual(answers.slice(2, 9).map(() => applied));
      expect(answers[9]).toEqual({ status: "stale", reason: "expired" });
      expect(await s.stateOf(lost.job.id)).toBe("running");
      expect(await s.stateOf(asked.job.id)).toBe("running");
      for (const { job } of grants.slice(2)) expect(await s.stateOf(job.id)).toBe("completed");
    });

    test("come after what the jobs printed before, however the calls are mixed", async (s) => {
      const grants = await running(s, 8);
      const print = ({ job }: Grant) =>
        s.store.appendLogs([{ id: job.id, token: 1, beats: 1, chunks: [CHUNK], head_bytes: 100, keep_from: 0 }]);
      const requests = await Promise.all(grants.map(({ job }) => s.ending(job, end("success"))));
      await Promise.all(grants.flatMap((grant, n) => [print(grant), s.store.settle([requests[n] as SettleRequest])]));
      for (const { job } of grants) {
        expect(await s.stateOf(job.id)).toBe("completed");
        expect(await s.store.logs({ job: job.id, attempt: 1, from: 0, limit: 9 })).toHaveLength(1);
      }
    });
  });
}

const CHUNK = { start: 0, bytes: 3, data: new Uint8Array([1, 2, 3]) };
