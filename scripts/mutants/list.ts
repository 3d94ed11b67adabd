/**
 * Bugs that somebody could write any day, as changes to the text of a file. Each is noticed by the simulation or the small
 * worlds, unless it names the checks that should.
 */

export interface Mutant {
  /** What is wrong, in words. */
  name: string;
  /** How the path of the file begins: code moves, and the bug moves with it. */
  within: string;
  /** Each text is there once, and becomes the other. */
  swaps: readonly (readonly [from: string, to: string])[];
  /** `sim`, `small`, or test files; in this order, until one fails. */
  checks?: readonly string[];
}

const SQLITE = "src/store/sqlite/";
const CONTRACT = ["test/contract/sqlite.test.ts"];

const FENCE: readonly Mutant[] = [
  {
    name: "a settle does not name its token",
    within: SQLITE,
    swaps: [
      ["WHERE id = ?1 AND token = ?2 AND ${UNDISTURBED_END}", "WHERE id = ?1 AND ?2 = ?2 AND ${UNDISTURBED_END}"],
    ],
  },
  {
    name: "an extension does not name its token",
    within: SQLITE,
    swaps: [
      [
        "AND state = 'running' AND token = ?2 AND expires_at_ms >= ?9",
        "AND state = 'running' AND ?2 = ?2 AND expires_at_ms >= ?9",
      ],
    ],
  },
  {
    name: "a lease that is over can be extended",
    within: SQLITE,
    swaps: [["AND token = ?2 AND expires_at_ms >= ?9", "AND token = ?2 AND ?9 = ?9"]],
  },
  {
    name: "an extension gives less than its holder asked for",
    within: SQLITE,
    swaps: [["WHEN ?3 - expires_at_ms >= ?11 THEN ?3", "WHEN ?3 - expires_at_ms >= ?11 THEN ?3 - 500"]],
  },
  {
    name: "a checkpoint of an earlier attempt is accepted",
    within: SQLITE,
    swaps: [["if (!isHeldBy(row, request) || ", 'if (row?.["state"] !== "running" || ']],
  },
  {
    name: "a checkpoint after the lease is accepted",
    within: SQLITE,
    swaps: [
      ['if (!isHeldBy(row, request) || (row?.["expires_at_ms"] as number) < now_ms)', "if (!isHeldBy(row, request))"],
    ],
  },
  {
    name: "what an earlier attempt prints is kept",
    within: SQLITE,
    swaps: [["if (!isHeldBy(fenceOf(db, id), { token })) continue;", ""]],
  },
  {
    name: "a recovery does not look whether the lease was extended",
    within: SQLITE,
    swaps: [["AND token = ?2 AND expires_at_ms = r.value AND", "AND token = ?2 AND"]],
    checks: CONTRACT,
  },
  {
    name: "a recovery does not name its token",
    within: SQLITE,
    swaps: [["AND token = ?2 AND expires_at_ms = r.value AND", "AND expires_at_ms = r.value AND"]],
    checks: CONTRACT,
  },
  {
    name: "a recovery does not look whether the job runs at all",
    within: SQLITE,
    swaps: [
      ["AND token = ?2 AND expires_at_ms = r.value AND ${UNDISTURBED}`", "AND token = ?2`"],
      ["const UNDISTURBED = ", "export const UNDISTURBED = "],
    ],
  },
  {
    name: "a recovery gives back what was to be cancelled",
    within: SQLITE,
    swaps: [
      [
        "const UNDISTURBED = \"state = 'running' AND (cancel_requested_at_ms IS NULL OR ?3 = 'cancelled')\"",
        "const UNDISTURBED = \"state = 'running' AND ?3 = ?3\"",
      ],
    ],
  },
  {
    name: "an end counts although the job was to be cancelled",
    within: SQLITE,
    swaps: [["cancel_requested_at_ms > ?12 AND cancel_told_at_ms IS NULL", "?12 = ?12"]],
  },
];

const GRANTS: readonly Mutant[] = [
  { name: "a grant does not raise the token", within: SQLITE, swaps: [["- 1}) + 1, holder", "- 1}), holder"]] },
  {
    name: "a job that runs is granted to whoever asks for it by id",
    within: SQLITE,
    swaps: [["acquireOne: `${GRANT} WHERE id = ?4 AND state = 'pending'", "acquireOne: `${GRANT} WHERE id = ?4"]],
    checks: ["sim", ...CONTRACT],
  },
  {
    name: "jobs of a paused queue are granted",
    within: SQLITE,
    swaps: [["paused_at_ms IS NOT NULL)`;", "paused_at_ms < 0)`;"]],
    checks: ["sim"],
  },
  {
    name: "the least urgent job is granted first",
    within: SQLITE,
    swaps: [["const order = `ORDER BY priority DESC,", "const order = `ORDER BY priority,"]],
    checks: ["sim"],
  },
  {
    name: "a lease is as long as the worker says, whatever the job says",
    within: SQLITE,
    swaps: [["nullif(coalesce(lease_ms, ?3), 0)", "nullif(coalesce(?3, lease_ms), 0)"]],
    checks: CONTRACT,
  },
  {
    name: "a job that is due is not promoted",
    within: SQLITE,
    swaps: [
      [
        "WHERE state = 'scheduled' AND run_at_ms <= ?1 ORDER",
        "WHERE state = 'scheduled' AND run_at_ms <= ?1 - 60000 ORDER",
      ],
    ],
    checks: ["sim", ...CONTRACT],
  },
  {
    name: "an attempt begins with an older checkpoint",
    within: SQLITE,
    swaps: [["kind = 'progress' ORDER BY id DESC LIMIT 1`,", "kind = 'progress' ORDER BY id LIMIT 1`,"]],
    checks: ["sim"],
  },
  {
    name: "a worker counts its lease from the answer, not from the question",
    within: "src/leasing/manager.ts",
    swaps: [
      [
        "return grants.map((grant) => this.#lease(grant, sent));",
        "void sent;\n    return grants.map((grant) => this.#lease(grant, instant(this.#options.clock)));",
      ],
    ],
    checks: ["sim"],
  },
  {
    name: "a worker counts an extension from the answer",
    within: "src/leasing/manager.ts",
    swaps: [["lease.extended(sent,", "lease.extended(instant(this.#options.clock),"]],
    checks: ["sim"],
  },
  {
    name: "a worker trusts the wall clock alone",
    within: "src/leasing/lease.ts",
    swaps: [["return this.#valid_ms - Math.max(mono_ms, wall_ms);", "return this.#valid_ms - wall_ms;"]],
    checks: ["sim"],
  },
  {
    name: "a worker does not see that the clock was set back",
    within: "src/leasing/lease.ts",
    swaps: [
      [
        "return this.#shares_clock && wall_ms - mono_ms < -JUMP_MS;",
        "return this.#shares_clock && wall_ms - mono_ms < -1e15;",
      ],
    ],
    checks: ["test/leasing/silence_watch_trouble.test.ts", "test/leasing/lease.test.ts", "sim"],
  },
  {
    name: "a job whose lease can't be renewed is not killed",
    within: "src/leasing/silence_watch.ts",
    swaps: [['this.#events.lost("it could not be renewed in time");', ""]],
    checks: ["sim"],
  },
  {
    name: "a refused extension is not the end of a job",
    within: "src/leasing/silence_watch.ts",
    swaps: [['if (answer.status !== "extended" && !this.#over) this.#events.lost(answer.status);', "void answer;"]],
    checks: ["test/leasing/silence_watch_trouble.test.ts", "test/leasing/silence_watch.test.ts", "sim"],
  },
];

const BOUNDS: readonly Mutant[] = [
  {
    name: "a job is granted although its limit is full",
    within: "src/store/shared/room.ts",
    swaps: [["slots > 0 && starts > 0", "slots > -1 && starts > 0"]],
  },
  {
    name: "a limit is freed twice",
    within: "src/store/shared/room.ts",
    swaps: [["(this.#running.get(name) ?? 0) + count);", "(this.#running.get(name) ?? 0) + count - 1);"]],
  },
  {
    name: "a rate is not counted",
    within: SQLITE,
    swaps: [["if (per_ms === undefined) continue;", "if (per_ms !== -1) continue;"]],
    checks: ["sim", ...CONTRACT],
  },
  {
    name: "a rate forgets a start too early",
    within: SQLITE,
    swaps: [
      ["db.sql(FORGET_STARTS).run(name, now_ms - per_ms);", "db.sql(FORGET_STARTS).run(name, now_ms - per_ms / 2);"],
    ],
    checks: CONTRACT,
  },
  {
    name: "two jobs are given the same of a machine",
    within: SQLITE,
    swaps: [["if (one.host === host) held.push(one.held);", "if (one.host !== host) held.push(one.held);"]],
    checks: ["sim"],
  },
  {
    name: "what was given is not kept with the job",
    within: SQLITE,
    swaps: [
      ["acquireBounded: `${GRANT}, held = ?5 WHERE", "acquireBounded: `${GRANT}, held = iif(?5 = '', ?5, '{}') WHERE"],
    ],
    checks: ["sim"],
  },
];

const ENDS: readonly Mutant[] = [
  {
    name: "a job that was returned has one try less",
    within: "src/core/transition.ts",
    swaps: [
      [
        "if (pause_ms === undefined) return { ...same, state: again, result: job.result };",
        "if (pause_ms === undefined) return { ...same, failures: failures + 1, state: again, result: job.result };",
      ],
    ],
    checks: ["test/core/transition.test.ts"],
  },
  {
    name: "a job has one try too many",
    within: "src/core/transition.ts",
    swaps: [["failed.failures > settings.retries ||", "failed.failures > settings.retries + 1 ||"]],
  },
  {
    name: "core recovers what is not over",
    within: "src/core/transition.ts",
    swaps: [
      ["moment.now_ms <= state.expires_at_ms + grace_ms", "moment.now_ms <= state.expires_at_ms - 1e9 + grace_ms"],
    ],
    checks: ["test/core/transition.test.ts"],
  },
  {
    name: "a cancelled job is tried again",
    within: "src/core/transition.ts",
    swaps: [
      [
        'if (end.cause === "cancelled" || (asked_at_ms !== null && asked_at_ms <= ended_at_ms)) {',
        'if (end.cause === "cancelled" && asked_at_ms === null) {',
      ],
    ],
    checks: ["sim", "test/core/transition.test.ts"],
  },
  {
    name: "a recovered attempt has no end",
    within: SQLITE,
    swaps: [
      [
        "for (const alike of Map.groupBy(done, endOf).values()) endAttempts(db, alike, now_ms);",
        "void endOf;\n  void endAttempts;",
      ],
    ],
  },
  {
    name: "a recovered attempt is not in the history",
    within: SQLITE,
    swaps: [["for (const request of done) noteEnd(db, request, now_ms, true);", ""]],
    checks: ["sim"],
  },
  {
    name: "a failure that a sweep finds tells nobody",
    within: SQLITE,
    swaps: [
      ["for (const { hook } of done) if (hook)", "for (const { hook } of done) if (hook && done.length > 1_000)"],
    ],
    checks: ["sim"],
  },
  {
    name: "a job that fails for good tells twice",
    within: SQLITE,
    swaps: [
      [
        "if (request.hook) db.sql(INSERT_JOB).run(...jobColumns(request.hook, now_ms));",
        "for (const hook of [request.hook, request.hook]) if (hook) db.sql(INSERT_JOB).run(...jobColumns(hook, now_ms));",
      ],
    ],
    checks: ["sim"],
  },
  {
    name: "a sweep takes every holder for dead",
    within: SQLITE,
    swaps: [
      ['holder_dead: dead_holders.includes(row["holder"] as string),', "holder_dead: true,"],
      ["const params: SqlValue[] = [db.now_ms() - query.grace_ms,", "const params: SqlValue[] = [db.now_ms() + 1e9,"],
    ],
    checks: ["sim"],
  },
  {
    name: "a job is silent although its beats are being asked for",
    within: "src/core/silence.ts",
    swaps: [[" && state.asking !== true", ""]],
    checks: ["test/core/silence.test.ts"],
  },
  {
    name: "what a job said of itself is lost with the extension that failed",
    within: "src/leasing/extender.ts",
    swaps: [["        attachment.note ??= note;\n", ""]],
    checks: ["test/leasing/extender_trouble.test.ts"],
  },
  {
    name: "a daemon of another store is taken for what is left of a job",
    within: "src/recovery/leftovers.ts",
    swaps: [['left === LEFT && storeName(store_id ?? "") === storeName(this.#store_id) &&', "left === LEFT &&"]],
    checks: ["test/recovery/leftovers.test.ts"],
  },
  {
    name: "a schedule loses its step when the clock is set back",
    within: "src/core/schedule.ts",
    swaps: [["Math.ceil(back_ms / every_ms) * every_ms", "back_ms"]],
    checks: ["test/recovery/schedules.test.ts"],
  },
  {
    name: "a sweep does not wait after the clock was set",
    within: "src/recovery/sweep.ts",
    swaps: [["    return NEVER_MS;\n", "    return grace_ms;\n"]],
    checks: ["sim", "test/recovery/sweep_jump.test.ts"],
  },
  {
    name: "leases are cut below what their holders believe in",
    within: SQLITE,
    swaps: [
      [
        "expires_at_ms = max(jobs.expires_at_ms + ?2, ?1 + granted.lease_ms + ${STOP_ROOM_MS}),",
        "expires_at_ms = ?1 + granted.lease_ms / 2 + ?2 * 0,",
      ],
    ],
    checks: ["test/recovery/sweep_jump.test.ts", "sim"],
  },
];

const PEOPLE: readonly Mutant[] = [
  {
    name: "a job is free before all that it waits for are",
    within: SQLITE,
    swaps: [["WHERE d.job_id = ?1 AND NOT ", "WHERE d.job_id = -?1 AND NOT "]],
  },
  {
    name: "a job that can't run any more waits for ever",
    within: SQLITE,
    swaps: [
      ["if (queue === undefined) return false;\n  noteCancelled", "if (queue !== null) return false;\n  noteCancelled"],
    ],
    checks: ["sim", ...CONTRACT],
  },
  {
    name: "a retried job does not wait for its parents",
    within: SQLITE,
    swaps: [["iif(EXISTS (SELECT 1 FROM dependencies WHERE job_id = jobs.id), 'blocked', 'pending')", "'pending'"]],
  },
  {
    name: "a job that has not ended can be retried",
    within: SQLITE,
    swaps: [
      [
        '=> FINISHED.has(before.get(id)?.["state"]));',
        '=> FINISHED.has(before.get(id)?.["state"]) || before.get(id)?.["state"] === "scheduled");',
      ],
      ["AND state IN ('completed', 'failed', 'cancelled')`;", "AND state <> 'running'`;"],
    ],
    checks: ["sim", ...CONTRACT],
  },
  {
    name: "a retried job has no tries left",
    within: SQLITE,
    swaps: [["`failures = 0, finished_at_ms = NULL,", "`finished_at_ms = NULL,"]],
    checks: CONTRACT,
  },
  {
    name: "a retried job may share its key with a live one",
    within: SQLITE,
    swaps: [["WHERE other.key = jobs.key", "WHERE other.key = jobs.key || '-'"]],
    checks: CONTRACT,
  },
  {
    name: "a cancel does not reach blocked jobs",
    within: SQLITE,
    swaps: [["state IN ('blocked', 'scheduled', 'pending')\";", "state IN ('scheduled', 'pending')\";"]],
    checks: CONTRACT,
  },
  {
    name: "a cancel ends a job that runs without its worker",
    within: SQLITE,
    swaps: [
      ["state IN ('blocked', 'scheduled', 'pending')\";", 'finished_at_ms IS NULL";'],
      [
        'const WAITING: ReadonlySet<unknown> = new Set(["blocked", "scheduled", "pending"]);',
        'const WAITING: ReadonlySet<unknown> = new Set(["blocked", "scheduled", "pending", "running"]);',
      ],
    ],
    checks: ["sim", ...CONTRACT],
  },
  {
    name: "a job that runs can be edited",
    within: "src/store/shared/edited.ts",
    swaps: [
      ['new Set(["blocked", "scheduled", "pending"])', 'new Set(["blocked", "scheduled", "pending", "running"])'],
    ],
    checks: CONTRACT,
  },
  {
    name: "an edit can make a circle",
    within: SQLITE,
    swaps: [["if (above !== null) throw circle(id, above);", "void circle;\n      void above;"]],
    checks: CONTRACT,
  },
  {
    name: "a job that runs becomes more urgent with time",
    within: SQLITE,
    swaps: [["WHERE state = 'pending' AND run_at_ms", "WHERE state IN ('pending', 'running') AND run_at_ms"]],
    checks: ["sim"],
  },
  {
    name: "a job is pruned that another waits for",
    within: SQLITE,
    swaps: [["jobs.id AND child.state = 'blocked'", "jobs.id AND child.state = 'nowhere'"]],
    checks: ["sim", ...CONTRACT],
  },
  {
    name: "a job is pruned before its time",
    within: SQLITE,
    swaps: [["const before_ms = db.now_ms() - older_than_ms;", "const before_ms = db.now_ms() - older_than_ms / 2;"]],
    checks: ["sim"],
  },
  {
    name: "progress that the next attempt needs is trimmed",
    within: SQLITE,
    swaps: [["AND NOT (kind = 'progress'\n", "AND NOT (kind = 'none'\n"]],
    checks: ["sim"],
  },
  {
    name: "a time of a schedule becomes two jobs",
    within: SQLITE,
    swaps: [
      ["AND next_at_ms IS ?3 AND paused = 0`", "AND ?3 = ?3 AND paused = 0`"],
      ["ON CONFLICT DO NOTHING", "ON CONFLICT DO UPDATE SET job_id = NULL"],
    ],
    checks: ["sim", ...CONTRACT],
  },
  {
    name: "two live jobs may have one key",
    within: SQLITE,
    swaps: [
      [
        "WHERE key = ?1 AND state IN ('blocked', 'scheduled', 'pending', 'running')`;",
        "WHERE key = ?1 AND state IN ('pending', 'running')`;",
      ],
    ],
    checks: CONTRACT,
  },
];

const DISK: readonly Mutant[] = [
  {
    name: "synchronous is NORMAL",
    within: SQLITE,
    swaps: [["PRAGMA synchronous = FULL;", "PRAGMA synchronous = NORMAL;"]],
    checks: ["test/store/sync_order.test.ts"],
  },
  {
    name: "the folders of a new store are not synced",
    within: SQLITE,
    swaps: [["orNull(() => fs.fsyncSync(fd));", ""]],
    checks: ["test/store/sync_order.test.ts"],
  },
  {
    name: "a write is answered before its commit",
    within: SQLITE,
    swaps: [
      [
        "      this.ending();\n      this.#commit.run();\n    } catch",
        "      this.ending();\n      for (const [index, write] of batch.entries()) write.resolve(results[index] as never);\n      this.#commit.run();\n    } catch",
      ],
    ],
    checks: ["test/store/writer.test.ts"],
  },
  {
    name: "a commit that failed is not taken back",
    within: SQLITE,
    swaps: [["      rollback(this.#database);\n      this.#failOne(", "      this.#failOne("]],
    checks: ["sim"],
  },
  {
    name: "a snapshot that was left open stays open",
    within: SQLITE,
    swaps: [["    rollback(this.#database);\n    return explain", "    return explain"]],
    checks: ["sim", "test/store/writer.test.ts"],
  },
];

export const MUTANTS: readonly Mutant[] = [...FENCE, ...GRANTS, ...BOUNDS, ...ENDS, ...PEOPLE, ...DISK];
