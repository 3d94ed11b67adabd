/** What is going on: a line of figures, what needs somebody, then tables, and charts behind them. */

import { Past } from "./chart.tsx";
import { countText, lengthText, plural } from "./format.ts";
import { useLive, useNow } from "./live_client.ts";
import {
  Ago,
  Command,
  Count,
  Elapsed,
  Empty,
  FailureText,
  JobLink,
  Notice,
  Progress,
  Section,
  Waiting,
} from "./parts.tsx";
import { StateBar } from "./queues.tsx";
import type { HistoryBody, JobLine, OverviewBody, QueueBody } from "./types.ts";
import { Slots } from "./workers.tsx";

const sum = (queues: readonly QueueBody[], of: (queue: QueueBody) => number): number =>
  queues.reduce((total, queue) => total + of(queue), 0);

/** In the last 60 seconds: this minute, and as much of the one before as is missing to a whole one. */
function lastMinute(history: readonly HistoryBody[], now_ms: number, of: (point: HistoryBody) => number): number {
  const [before, running] = history.slice(-2);
  if (before === undefined || running === undefined) return 0;
  const share = Math.min(1, Math.max(0, 1 - (now_ms - Date.parse(running.at)) / 60_000));
  return of(running) + of(before) * share;
}

function rateText(rate: number): string {
  return countText(Math.round(rate));
}

function Figure({
  label,
  value,
  href,
  note,
  tone,
}: {
  label: string;
  value: string;
  href?: string;
  note?: string;
  tone?: string;
}) {
  const inner = (
    <>
      <span class="label">{label}</span>
      <strong class={tone}>{value}</strong>
      <span class="note">{note ?? " "}</span>
    </>
  );
  return href === undefined ? (
    <div class="figure">{inner}</div>
  ) : (
    <a class="figure" href={href}>
      {inner}
    </a>
  );
}

function Figures({ body }: { body: OverviewBody }) {
  const { queues, workers, history } = body;
  const there = workers.filter(({ state }) => state === "live" || state === "draining");
  const slots = there.reduce((total, worker) => total + worker.slots, 0);
  const busy = there.reduce(
    (total, { slots_processing, slots_draining }) => total + slots_processing + slots_draining,
    0,
  );
  const pending = sum(queues, (queue) => queue.pending);
  const later = sum(queues, (queue) => queue.scheduled + (queue.retrying ?? 0) + queue.blocked);
  const failed = sum(queues, (queue) => queue.failed);
  const now_ms = useNow();
  const done = lastMinute(history, now_ms, (point) => point.completed + point.failed);
  const lost = lastMinute(history, now_ms, (point) => point.failed);
  const waited = history.at(-1)?.wait_ms ?? history.at(-2)?.wait_ms ?? null;
  return (
    <div class="figures">
      <Figure
        label="Running"
        value={countText(body.leases.held)}
        href="/jobs?state=running,cancelling"
        note={slots === 0 ? "no worker is live" : `${busy} of ${plural(slots, "slot")} busy`}
      />
      <Figure
        label="Waiting"
        value={countText(pending)}
        href="/jobs?state=pending"
        note={
          [
            waited === null ? "" : `${lengthText(waited)} on average`,
            later === 0 ? "" : `${countText(later)} for later`,
          ]
            .filter(Boolean)
            .join(" · ") || " "
        }
      />
      <Figure
        label="Finished per minute"
        value={rateText(done)}
        href="/jobs?state=completed"
        note={`${countText(sum(queues, (queue) => queue.completed))} completed in all`}
      />
      <Figure
        label="Failed"
        value={countText(failed)}
        href="/failures"
        tone={failed > 0 ? "tone-failed" : ""}
        note={lost < 0.5 ? "none in the last minute" : `${rateText(lost)} in the last minute`}
      />
    </div>
  );
}

/** What somebody should look at; nothing when all is well. */
function Concerns({ body }: { body: OverviewBody }) {
  const { leases, workers, queues } = body;
  const missing = workers.filter(({ state }) => state === "missing" || state === "dead");
  const unserved = queues.filter((queue) => queue.pending > 0 && queue.workers === 0 && !queue.paused);
  const paused = queues.filter((queue) => queue.paused && queue.pending > 0);
  return (
    <>
      {leases.stale > 0 ? (
        <Notice tone="bad">
          {plural(leases.stale, "lease has", "leases have")} run out and wait for a sweep:{" "}
          <code>lease watchdog --once</code>
        </Notice>
      ) : null}
      {missing.length > 0 ? (
        <Notice tone="warn">
          <a href="/workers">{plural(missing.length, "worker is", "workers are")} gone</a> without a word.
        </Notice>
      ) : null}
      {unserved.length > MOST_NAMED ? (
        <Notice tone="warn">
          {waiting(unserved)} in <a href="/queues">{unserved.length} queues</a> that no worker serves:{" "}
          <code>lease worker -q '*'</code>
        </Notice>
      ) : (
        unserved.map((row) => (
          <Notice key={row.queue} tone="warn">
            {waiting([row])} in <b>{row.queue}</b>, which no worker serves: <code>lease worker -q {row.queue}</code>
          </Notice>
        ))
      )}
      {paused.length > MOST_NAMED ? (
        <Notice tone="info">
          <a href="/queues">{paused.length} queues are paused</a>; {waiting(paused)} in them.
        </Notice>
      ) : (
        paused.map((row) => (
          <Notice key={row.queue} tone="info">
            <a href="/queues">Queue {row.queue} is paused</a>; {waiting([row])} in it.
          </Notice>
        ))
      )}
    </>
  );
}

/** More would push everything else off the screen. */
const MOST_NAMED = 3;

function waiting(queues: readonly QueueBody[]): string {
  return plural(
    sum(queues, ({ pending }) => pending),
    "job waits",
    "jobs wait",
  );
}

function Running({ jobs, all }: { jobs: readonly JobLine[]; all: number }) {
  if (jobs.length === 0) return <Empty>Nothing is running.</Empty>;
  return (
    <table>
      <thead>
        <tr>
          <th class="right">Job</th>
          <th>Command</th>
          <th class="wide-only">Queue</th>
          <th class="wide-only">Progress</th>
          <th class="right">For</th>
          <th class="right wide-only">Last beat</th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <tr key={job.id} data-row>
            <td class="right">
              <JobLink id={job.id} />
            </td>
            <td class="grow">
              <Command job={job} />
            </td>
            <td class="wide-only muted queue" title={job.queue}>
              {job.queue}
            </td>
            <td class="wide-only progress-cell">
              {job.progress === null ? null : <Progress value={job.progress} label={`job ${job.id}`} />}
              {job.message === null ? null : <span class="muted clip">{job.message}</span>}
            </td>
            <td class="right">
              <Elapsed from={job.started_at} />
            </td>
            <td class="right wide-only muted">
              <Ago at={job.last_beat_at} />
            </td>
          </tr>
        ))}
      </tbody>
      {all > jobs.length ? (
        <caption>
          <a href="/jobs?state=running,cancelling">and {countText(all - jobs.length)} more</a>
        </caption>
      ) : null}
    </table>
  );
}

function QueueTable({ queues }: { queues: readonly QueueBody[] }) {
  if (queues.length === 0)
    return (
      <Empty>
        No jobs yet. Add one: <code>lease enqueue -- ./build.sh</code>
      </Empty>
    );
  const to = (queue: string, state: string) => `/jobs?queue=${encodeURIComponent(queue)}&state=${state}`;
  return (
    <table>
      <thead>
        <tr>
          <th>Queue</th>
          <th class="wide-only share">Unfinished</th>
          <th class="right">Running</th>
          <th class="right">Waiting</th>
          <th class="right wide-only">Later</th>
          <th class="right wide-only">Completed</th>
          <th class="right">Failed</th>
        </tr>
      </thead>
      <tbody>
        {queues.map((row) => (
          <tr key={row.queue} data-row>
            <td class="queue" title={row.queue}>
              <a href={`/jobs?queue=${encodeURIComponent(row.queue)}`}>{row.queue}</a>
              {row.paused ? <span class="tag">paused</span> : null}
            </td>
            <td class="wide-only share">
              <StateBar counts={row} />
            </td>
            <td class="right">
              <Count value={row.running} href={to(row.queue, "running,cancelling")} tone="tone-running" />
            </td>
            <td class="right">
              <Count value={row.pending} href={to(row.queue, "pending")} />
            </td>
            <td class="right wide-only">
              <Count value={row.scheduled + row.blocked} href={to(row.queue, "scheduled,retrying,blocked")} />
            </td>
            <td class="right wide-only">
              <Count value={row.completed} href={to(row.queue, "completed")} />
            </td>
            <td class="right">
              <Count value={row.failed} href={to(row.queue, "failed")} tone="tone-failed" />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function LatestFailures({ jobs }: { jobs: readonly JobLine[] }) {
  if (jobs.length === 0) return <Empty>Nothing has failed for good.</Empty>;
  return (
    <table>
      <thead>
        <tr>
          <th class="right">Job</th>
          <th>Command</th>
          <th>Error</th>
          <th class="right">When</th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <tr key={job.id} data-row>
            <td class="right">
              <JobLink id={job.id} />
            </td>
            <td class="half">
              <Command job={job} />
            </td>
            <td class="half">
              <FailureText job={job} />
            </td>
            <td class="right muted">
              <Ago at={job.finished_at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function Overview() {
  const { body, error } = useLive<OverviewBody>("/overview");
  if (body === null) return <Waiting error={error} />;
  const live = body.workers.filter(({ state }) => state === "live" || state === "draining");
  return (
    <div class="overview">
      <h1 class="sr">Overview</h1>
      <Figures body={body} />
      <Concerns body={body} />
      <div class="columns">
        <div>
          <Section title="Running">
            <Running jobs={body.running} all={body.leases.held} />
          </Section>
          <Section title="Queues" more={<a href="/queues">pause, resume</a>}>
            <QueueTable queues={body.queues} />
          </Section>
          <Section title="Latest failures" more={<a href="/failures">grouped</a>}>
            <LatestFailures jobs={body.failures} />
          </Section>
        </div>
        <div>
          <Past hour={body.history} />
          <Section title="Workers" more={<a href="/workers">all</a>}>
            {live.length === 0 ? (
              <Empty>
                None is live. Start one: <code>lease worker</code>
              </Empty>
            ) : (
              <Slots workers={live} />
            )}
          </Section>
          <Recovery body={body} />
        </div>
      </div>
    </div>
  );
}

function Recovery({ body: { recovery, leases, retries } }: { body: OverviewBody }) {
  const retried = retries.filter(({ retries: count }) => count > 0).reduce((total, { jobs }) => total + jobs, 0);
  return (
    <Section title="Leases">
      <dl class="facts">
        <div>
          <dt>Held</dt>
          <dd>{countText(leases.held)}</dd>
        </div>
        <div>
          <dt>Run out</dt>
          <dd class={leases.stale > 0 ? "tone-failed" : ""}>{countText(leases.stale)}</dd>
        </div>
        <div>
          <dt>Ended after retries</dt>
          <dd>{plural(retried, "job")}</dd>
        </div>
        {recovery === null || recovery.last_at === null ? (
          <div>
            <dt>Recovered</dt>
            <dd>nothing so far</dd>
          </div>
        ) : (
          <div>
            <dt>Recovered</dt>
            <dd>
              {plural(recovery.recovered, "job")}, last <Ago at={recovery.last_at} />
            </dd>
          </div>
        )}
      </dl>
    </Section>
  );
}
