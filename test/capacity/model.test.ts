import { describe, expect, test } from "bun:test";
import { predict, type Costs, type Load } from "../../scripts/capacity/model.ts";

const COSTS: Costs = { server_ms: 1, worker_ms: 1, sync_ms: 2, syncs: 2, beat_ms: 0.5 };
const LOAD: Load = { workers: 1, slots: 1, job_ms: 95, processors: 1, round_trip_ms: 0, interval_ms: 30_000 };

describe("the model of many workers on one server", () => {
  test("has one slot go round without waiting for anybody", () => {
    const { jobs_per_s, waits_ms, utilisation } = predict(COSTS, LOAD);
    expect(jobs_per_s).toBeCloseTo(10, 6);
    expect(waits_ms).toBeCloseTo(0, 6);
    expect(utilisation).toBeCloseTo(0.01, 6);
  });

  test("never promises more than the processors can do, and comes near to it", () => {
    const { jobs_per_s, limit_per_s, waits_ms } = predict(COSTS, { ...LOAD, workers: 1_000 });
    expect(limit_per_s).toBe(1_000);
    expect(jobs_per_s).toBeLessThanOrEqual(1_000);
    expect(jobs_per_s).toBeGreaterThan(990);
    // By Little's law: who is neither running nor synced waits at the server.
    expect(waits_ms).toBeCloseTo(1_000 / (jobs_per_s / 1_000) - 99 - 1, 3);
  });

  test("grows with every worker until the slots that it names, and then hardly any more", () => {
    const at = (workers: number) => predict(COSTS, { ...LOAD, workers }).jobs_per_s;
    const { saturated_by_slots } = predict(COSTS, LOAD);
    expect(saturated_by_slots).toBe(100);
    expect(at(50) / at(25)).toBeGreaterThan(1.9);
    expect(at(400) / at(200)).toBeLessThan(1.01);
  });

  test("agrees with the machine repairman's exact answer for two customers", () => {
    // States by customers at the server: 1, 2ρ, 2ρ² with ρ = service / thinking.
    const rho = 1 / 99;
    const busy = 1 - 1 / (1 + 2 * rho + 2 * rho ** 2);
    expect(predict(COSTS, { ...LOAD, slots: 2 }).utilisation).toBeCloseTo(busy, 6);
  });

  test("takes what beats need from the rest, where jobs live that long", () => {
    const long = { ...LOAD, workers: 30_000, job_ms: 60_000 };
    expect(predict(COSTS, long).limit_per_s).toBeCloseTo(500, 0);
    expect(predict({ ...COSTS, beat_ms: 0 }, long).limit_per_s).toBe(1_000);
  });

  test("counts the workers' own time where they share the processors", () => {
    expect(predict(COSTS, { ...LOAD, one_machine: true }).limit_per_s).toBe(500);
  });
});
