/** What `lease doctor --audit` tells: every promise that a store's history keeps, and every breach by itself. */

import type { Audited, Finding } from "../store/queries.ts";
import type { Store } from "../store/store.ts";
import { okFinding } from "./checkup.ts";

/** What the engine itself can tell about what was promised. */
const OF_THE_ENGINE: ReadonlySet<string> = new Set(["integrity", "counts", "jobs"]);

export async function auditFindings(store: Store): Promise<Finding[]> {
  const audited = await store.audit();
  const diagnosed = await store.diagnose({ full: true });
  return [...audited.flatMap(toFindings), ...diagnosed.filter(({ name }) => OF_THE_ENGINE.has(name))];
}

function toFindings({ name, promise, caveat, explained_by, broken, more }: Audited): Finding[] {
  if (broken.length === 0) return [okFinding(name, promise)];
  const level = explained_by === undefined ? "error" : "warn";
  const doubt = explained_by === undefined ? caveat : `unless ${explained_by}`;
  const advice = `promised: ${promise}${doubt === undefined ? "" : ` (${doubt})`}`;
  const found = (value: string): Finding => ({ name, level, value, advice });
  return [
    ...broken.map(({ job, text }) => found(job === null ? text : `job ${job}: ${text}`)),
    ...(more ? [found(`and more than these ${broken.length}`)] : []),
  ];
}
