/** Queues by the states of their jobs; here they are paused and resumed. */

import { useState } from "preact/hooks";
import { useMayChange } from "./about.ts";
import { countText } from "./format.ts";
import { LimitForm, Limits, type LimitDraft } from "./limits.tsx";
import { useLive } from "./live_client.ts";
import { Button, Count, Elapsed, Empty, Section, Waiting } from "./parts.tsx";
import { attempt, send } from "./requests.ts";
import type { LimitBody, QueueBody, State } from "./types.ts";

/** What is unfinished: the completed would leave no room to see anything else. */
const SHOWN: readonly State[] = ["running", "cancelling", "pending", "retrying", "scheduled", "blocked"];

export function StateBar({ counts }: { counts: QueueBody }) {
  const parts = SHOWN.map((state) => ({ state, count: counts[state] ?? 0 })).filter(({ count }) => count > 0);
  const all = parts.reduce((sum, { count }) => sum + count, 0);
  const label = parts.map(({ state, count }) => `${countText(count)} ${state}`).join(", ");
  return (
    <span
      class="state-bar"
      role="img"
      aria-label={label === "" ? "nothing waits or runs" : label}
      title={label === "" ? "nothing waits or runs" : label}
    >
      {parts.map(({ state, count }) => (
        <i key={state} class={`is-${state}`} style={{ width: `${((count / all) * 100).toFixed(2)}%` }} />
      ))}
    </span>
  );
}

const COLUMNS: readonly [title: string, states: readonly State[], narrow?: boolean][] = [
  ["Running", ["running", "cancelling"], true],
  ["Waiting", ["pending"], true],
  ["Scheduled", ["scheduled"]],
  ["Retrying", ["retrying"]],
  ["Blocked", ["blocked"]],
  ["Completed", ["completed"]],
  ["Failed", ["failed"], true],
  ["Cancelled", ["cancelled"]],
];

function Row({ row, limited }: { row: QueueBody; limited: () => void }) {
  const may_change = useMayChange();
  const verb = row.paused ? "resume" : "pause";
  const turn = () =>
    attempt(async () => {
      await send(`/queues/${verb}`, { queue: row.queue });
      return row.paused ? `queue ${row.queue} is resumed` : `queue ${row.queue} is paused; what runs goes on`;
    });
  return (
    <tr data-row>
      <td class="queue" title={row.queue}>
        <a href={`/jobs?queue=${encodeURIComponent(row.queue)}`}>{row.queue}</a>
        {row.paused ? <span class="tag">paused</span> : null}
      </td>
      {COLUMNS.map(([title, states, narrow]) => (
        <td key={title} class={`right ${narrow ? "" : "wide-only"}`}>
          <Count
            value={states.reduce((sum, state) => sum + row[state], 0)}
            href={`/jobs?queue=${encodeURIComponent(row.queue)}&state=${states.join(",")}`}
            tone={title === "Failed" ? "tone-failed" : title === "Running" ? "tone-running" : ""}
          />
        </td>
      ))}
      <td class="right wide-only muted">
        <Elapsed from={row.oldest_pending_at ?? null} />
      </td>
      <td class="right wide-only">{row.workers === 0 ? <span class="tone-retrying">none</span> : row.workers}</td>
      <td class="right">
        {may_change ? (
          <span class="buttons">
            <span class="wide-only">
              <Button act={limited} label={`limit queue ${row.queue}`}>
                Limit
              </Button>
            </span>
            <Button act={turn} label={`${verb} queue ${row.queue}`}>
              {row.paused ? "Resume" : "Pause"}
            </Button>
          </span>
        ) : null}
      </td>
    </tr>
  );
}

function QueueRows({ queues, limited }: { queues: readonly QueueBody[]; limited: (queue: string) => void }) {
  return (
    <table>
      <thead>
        <tr>
          <th>Queue</th>
          {COLUMNS.map(([title, , narrow]) => (
            <th key={title} class={`right ${narrow ? "" : "wide-only"}`}>
              {title}
            </th>
          ))}
          <th class="right wide-only">Oldest waits</th>
          <th class="right wide-only">Workers</th>
          <th>
            <span class="sr">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {queues.map((row) => (
          <Row key={row.queue} row={row} limited={() => limited(row.queue)} />
        ))}
      </tbody>
    </table>
  );
}

export function Queues() {
  const { body, error } = useLive<{ queues: QueueBody[] }>("/queues");
  const bounds = useLive<{ limits: LimitBody[] }>("/limits");
  const [draft, setDraft] = useState<LimitDraft | null>(null);
  const limits = bounds.body?.limits ?? null;
  const limited = (queue: string) =>
    setDraft(limits?.find(({ name }) => name === queue) ?? { name: queue, limit: null, rate: null });
  return (
    <>
      <div class="page-head">
        <h1>Queues</h1>
      </div>
      <Section title="All queues">
        {body === null ? (
          <Waiting error={error} />
        ) : body.queues.length === 0 ? (
          <Empty>There are no queues yet: one begins with its first job.</Empty>
        ) : (
          <QueueRows queues={body.queues} limited={limited} />
        )}
      </Section>
      <Limits limits={limits} error={bounds.error} change={setDraft} />
      {draft === null ? null : <LimitForm key={draft.name} draft={draft} close={() => setDraft(null)} />}
    </>
  );
}
