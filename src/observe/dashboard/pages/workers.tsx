/** Workers and their slots: who is there, what each runs, and since when it was not heard of. */

import { countText } from "./format.ts";
import { useLive } from "./live_client.ts";
import { Ago, Empty, Section, Waiting } from "./parts.tsx";
import type { WorkerBody } from "./types.ts";

/** More slots than can be told apart are a number. */
const SLOTS_DRAWN = 32;

const nameOf = ({ name, id }: WorkerBody) => name ?? id;

/** A square per slot; one that is busy leads to its job. */
function SlotRow({ worker }: { worker: WorkerBody }) {
  const { slots, current, slots_processing, slots_draining } = worker;
  const busy = slots_processing + slots_draining;
  const label = `${busy} of ${slots} slots busy`;
  if (slots > SLOTS_DRAWN) return <span class="muted">{label}</span>;
  return (
    <span class="slots" role="group" aria-label={label}>
      {Array.from({ length: slots }, (_, index) => {
        const held = index < busy ? current[index] : undefined;
        if (held === undefined) return <i key={index} class={index < busy ? "is-busy" : ""} />;
        const title = `job ${held.job}${held.command ? `: ${held.command}` : ""}`;
        return <a key={index} class="is-busy" href={`/jobs/${held.job}`} title={title} aria-label={title} />;
      })}
    </span>
  );
}

export function Slots({ workers }: { workers: readonly WorkerBody[] }) {
  return (
    <ul class="slot-list">
      {workers.slice(0, 12).map((worker) => (
        <li key={worker.id} data-row>
          <span class="clip" title={worker.id}>
            {nameOf(worker)}
          </span>
          <SlotRow worker={worker} />
        </li>
      ))}
      {workers.length > 12 ? (
        <li>
          <a href="/workers">and {workers.length - 12} more</a>
        </li>
      ) : null}
    </ul>
  );
}

const TONES = {
  live: "completed",
  draining: "retrying",
  missing: "retrying",
  stopped: "cancelled",
  dead: "failed",
} as const;

function Row({ worker }: { worker: WorkerBody }) {
  return (
    <tr data-row>
      <td class="clip-cell">
        <span class="clip" title={worker.id}>
          {nameOf(worker)}
        </span>
      </td>
      <td>
        <span class={`state is-${TONES[worker.state]}`}>
          <i aria-hidden="true" />
          {worker.state}
        </span>
      </td>
      <td>{worker.stopped_at === null ? <SlotRow worker={worker} /> : null}</td>
      <td class="wide-only">
        {worker.queues === null ? <span class="muted">all</span> : worker.queues.join(", ")}
        {worker.task === null ? "" : ` · task ${worker.task}`}
      </td>
      <td class="wide-only muted">
        {worker.host} · {worker.pid}
      </td>
      <td class="right wide-only">{countText(worker.completed)}</td>
      <td class="right wide-only">
        {worker.failed === 0 ? (
          <span class="zero">0</span>
        ) : (
          <span class="tone-failed">{countText(worker.failed)}</span>
        )}
      </td>
      <td class="right muted">
        <Ago at={worker.stopped_at ?? worker.seen_at} />
      </td>
    </tr>
  );
}

function Table({ workers }: { workers: readonly WorkerBody[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th>Worker</th>
          <th>State</th>
          <th>Slots</th>
          <th class="wide-only">Queues</th>
          <th class="wide-only">Host · pid</th>
          <th class="right wide-only">Completed</th>
          <th class="right wide-only">Failed</th>
          <th class="right">Seen</th>
        </tr>
      </thead>
      <tbody>
        {workers.map((worker) => (
          <Row key={worker.id} worker={worker} />
        ))}
      </tbody>
    </table>
  );
}

const ENDED_SHOWN = 20;

export function Workers() {
  const { body, error } = useLive<{ workers: WorkerBody[] }>("/workers");
  const present = body?.workers.filter(({ stopped_at }) => stopped_at === null) ?? [];
  const ended =
    body?.workers
      .filter(({ stopped_at }) => stopped_at !== null)
      .slice(-ENDED_SHOWN)
      .toReversed() ?? [];
  return (
    <>
      <div class="page-head">
        <h1>Workers</h1>
      </div>
      <Section title="Here now">
        {body === null ? (
          <Waiting error={error} />
        ) : present.length === 0 ? (
          <Empty>
            None. Start one: <code>lease worker</code>
          </Empty>
        ) : (
          <Table workers={present} />
        )}
      </Section>
      {ended.length === 0 ? null : (
        <Section title="Ended">
          <Table workers={ended} />
        </Section>
      )}
    </>
  );
}
