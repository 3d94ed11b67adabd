/** Everything else about a job, a line each; what there is nothing to say about is left out. */

import type { ComponentChildren } from "preact";
import { Ago, Elapsed, JobLink } from "./parts.tsx";
import type { JobBody } from "./types.ts";

type Fact = readonly [label: string, value: ComponentChildren];

export const isOver = ({ state }: JobBody): boolean =>
  state === "completed" || state === "failed" || state === "cancelled";

const mono = (text: string) => <span class="mono">{text}</span>;
const ago = (at: string | null) => (at === null ? null : <Ago at={at} />);
const filtered = (name: string, value: string) => <a href={`/jobs?${name}=${encodeURIComponent(value)}`}>{value}</a>;

function places(job: JobBody): Fact[] {
  return [
    ["Queue", filtered("queue", job.queue)],
    ["Task", job.task === null ? null : filtered("task", job.task)],
    ["Key", job.key === null ? null : filtered("q", job.key)],
    ["Priority", job.priority === 0 ? null : job.priority],
  ];
}

function times(job: JobBody): Fact[] {
  const runs = job.state === "running" || job.state === "cancelling";
  const waits = job.state === "scheduled" || job.state === "retrying";
  const took = runs || job.finished_at !== null ? <Elapsed from={job.started_at} to={job.finished_at} /> : null;
  return [
    ["Enqueued", ago(job.created_at)],
    ["Due", waits ? ago(job.run_at) : null],
    ["Started", ago(job.started_at)],
    ["Finished", ago(job.finished_at)],
    [runs ? "Running for" : "Took", job.started_at === null ? null : took],
    ["Lease ends", ago(job.expires_at)],
    ["Last beat", runs ? ago(job.last_beat_at) : null],
    ["Retries left", isOver(job) ? null : `${job.retries_left} of ${job.retries}`],
    ["Exit code", job.exit_code],
  ];
}

function surroundings(job: JobBody): Fact[] {
  const parents = job.depends_on.map(({ id }) => (
    <span key={id}>
      <JobLink id={id} />{" "}
    </span>
  ));
  return [
    ["Waits for", parents.length === 0 ? null : parents],
    ["Settings", job.settings_text.length === 0 ? null : job.settings_text.join(" · ")],
    ["Environment", job.env_names.length === 0 ? null : mono(job.env_names.join(" "))],
    ["Folder", mono(job.cwd)],
    ["Worker", job.holder === null ? null : mono(job.holder)],
  ];
}

export function JobFacts({ job }: { job: JobBody }) {
  return (
    <dl class="facts">
      {[...places(job), ...times(job), ...surroundings(job)].map(([label, value]) =>
        value === null ? null : (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ),
      )}
    </dl>
  );
}
