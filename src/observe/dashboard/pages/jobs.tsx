/** Jobs, the newest first: by state, queue, task and text, all of it in the address. */

import { useEffect, useRef, useState } from "preact/hooks";
import { useMayChange } from "./about.ts";
import { countText, lengthText } from "./format.ts";
import { JobForm } from "./job_form.tsx";
import { useLive } from "./live_client.ts";
import { Ago, Button, Command, Elapsed, Empty, JobLink, StateMark, Waiting } from "./parts.tsx";
import { go, withFilters, type Place } from "./router.ts";
import { STATES, type JobLine, type JobsBody, type State } from "./types.ts";

/** What people ask for, before what there is. */
const VIEWS: readonly [title: string, states: string][] = [
  ["All", ""],
  ["Running", "running,cancelling"],
  ["Waiting", "pending"],
  ["Later", "scheduled,retrying,blocked"],
  ["Completed", "completed"],
  ["Failed", "failed"],
  ["Cancelled", "cancelled"],
];

const FILTERS = ["q", "queue", "task"] as const;
const NAMES = { q: "text", queue: "queue", task: "task" } as const;

function statesAsked(query: URLSearchParams): State[] {
  const asked = (query.get("state") ?? "").split(",");
  return STATES.filter((state) => asked.includes(state));
}

function Filters({ place }: { place: Place }) {
  const asked = statesAsked(place.query).toSorted().join(",");
  const tabs = useRef<HTMLDivElement>(null);
  // On a phone there are more than fit.
  useEffect(() => {
    tabs.current?.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [asked]);
  return (
    <div class="filters">
      <div class="tabs" role="group" aria-label="State" ref={tabs}>
        {VIEWS.map(([title, states]) => (
          <a
            key={title}
            href={withFilters(place, { state: states, before: "" })}
            aria-current={states.split(",").toSorted().join(",") === asked ? "true" : undefined}
          >
            {title}
          </a>
        ))}
      </div>
      {FILTERS.map((name) => {
        const value = place.query.get(name) ?? "";
        if (value === "") return null;
        return (
          <a
            key={name}
            class="chip"
            href={withFilters(place, { [name]: "", before: "" })}
            title="take this filter away"
          >
            <span class="muted">{NAMES[name]}</span> {value} <span aria-hidden="true">✕</span>
          </a>
        );
      })}
    </div>
  );
}

/** When it got where it is, or will leave it. */
function momentOf(job: JobLine): string {
  if (job.finished_at !== null) return job.finished_at;
  if (job.state === "scheduled" || job.state === "retrying") return job.run_at;
  return job.state === "running" ? (job.started_at ?? job.created_at) : job.created_at;
}

function Row({ job }: { job: JobLine }) {
  const told = job.error ?? job.reason;
  return (
    <tr data-row>
      <td class="right">
        <JobLink id={job.id} />
      </td>
      <td>
        <StateMark state={job.state} />
      </td>
      <td class="grow">
        <Command job={job} />
        {told === null ? null : <span class={`why ${job.state === "failed" ? "tone-failed" : "muted"}`}>{told}</span>}
      </td>
      <td class="wide-only queue" title={job.queue}>
        <a class="plain" href={`/jobs?queue=${encodeURIComponent(job.queue)}`}>
          {job.queue}
        </a>
      </td>
      <td class="wide-only clip-cell">
        {job.task === null ? null : (
          <a class="plain clip" href={`/jobs?task=${encodeURIComponent(job.task)}`} title={job.task}>
            {job.task}
          </a>
        )}
      </td>
      <td class="right wide-only">{job.attempts > 1 ? job.attempts : ""}</td>
      <td class="right wide-only">
        {job.state === "running" || job.state === "cancelling" ? (
          <Elapsed from={job.started_at} />
        ) : job.runtime_ms === null ? (
          ""
        ) : (
          lengthText(job.runtime_ms)
        )}
      </td>
      <td class="right muted">
        <Ago at={momentOf(job)} />
      </td>
    </tr>
  );
}

function Table({ jobs }: { jobs: readonly JobLine[] }) {
  return (
    <table class="jobs">
      <thead>
        <tr>
          <th class="right">Job</th>
          <th>State</th>
          <th>Command</th>
          <th class="wide-only">Queue</th>
          <th class="wide-only">Task</th>
          <th class="right wide-only">Runs</th>
          <th class="right wide-only">Took</th>
          <th class="right">When</th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <Row key={job.id} job={job} />
        ))}
      </tbody>
    </table>
  );
}

const ASKED = ["q", "state", "queue", "task", "before", "limit"] as const;

function pathOf(query: URLSearchParams): string {
  const asked = new URLSearchParams(
    ASKED.flatMap((name) => (query.get(name) ? [[name, query.get(name) as string]] : [])),
  );
  return asked.size === 0 ? "/jobs" : `/jobs?${asked}`;
}

/** More on this page while that is easy to read; then the next page. */
function More({ place, body }: { place: Place; body: JobsBody }) {
  const shown = Number(place.query.get("limit") ?? 50);
  const first = place.query.get("before") !== null;
  const text = place.query.get("q") !== null || place.query.get("queue") !== null || place.query.get("task") !== null;
  return (
    <p class="more">
      {first ? <a href={withFilters(place, { before: "" })}>newest</a> : null}
      {body.before !== null && body.jobs.length >= shown && shown < 200 ? (
        <Button act={() => go(withFilters(place, { limit: String(shown + 100) }), { replace: true })}>Show more</Button>
      ) : null}
      {body.before !== null ? <a href={withFilters(place, { before: String(body.before) })}>older</a> : null}
      {body.before !== null && body.jobs.length < shown && text ? (
        <span class="muted">
          Looked at {countText(body.looked_at)} jobs down to {body.before}.
        </span>
      ) : null}
    </p>
  );
}

export function Jobs({ place }: { place: Place }) {
  const { body, error } = useLive<JobsBody>(pathOf(place.query));
  const [adding, setAdding] = useState(false);
  const may_change = useMayChange();
  return (
    <>
      <div class="page-head">
        <h1>Jobs</h1>
        {may_change ? <Button act={() => setAdding(true)}>New job</Button> : null}
      </div>
      <Filters place={place} />
      <section class="panel" aria-label="Jobs">
        {body === null ? (
          <Waiting error={error} />
        ) : body.jobs.length === 0 ? (
          <Empty>
            {place.query.size > 0 ? (
              "No jobs match."
            ) : (
              <>
                No jobs yet. Add one: <code>lease enqueue -- ./build.sh</code>
              </>
            )}
          </Empty>
        ) : (
          <Table jobs={body.jobs} />
        )}
      </section>
      {body === null ? null : <More place={place} body={body} />}
      {adding ? <JobForm like={null} close={() => setAdding(false)} /> : null}
    </>
  );
}
