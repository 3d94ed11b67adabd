/** Failures by what they say: a thousand times the same is one line, and can be run again at once. */

import { useMayChange } from "./about.ts";
import { plural } from "./format.ts";
import { useLive } from "./live_client.ts";
import { Ago, Button, Command, Empty, FailureText, JobLink, Section, StateMark, Waiting } from "./parts.tsx";
import { attempt, retryJobs } from "./requests.ts";
import type { FailureBody } from "./types.ts";

/** The server looks no further back. */
const LOOKED_AT = 500;

function Group({ group }: { group: FailureBody }) {
  const may_change = useMayChange();
  return (
    <details class="group">
      <summary data-row>
        <b class="number">{group.count}</b>
        <span class="clip" title={group.error}>
          {group.error === "" ? "(no message)" : group.error}
        </span>
        <span class="muted wide-only">{group.queues.join(", ")}</span>
        <span class="muted">
          <Ago at={group.last_at} />
        </span>
      </summary>
      <table>
        <tbody>
          {group.jobs.map((job) => (
            <tr key={job.id} data-row>
              <td class="right">
                <JobLink id={job.id} />
              </td>
              <td>
                <StateMark state={job.state} />
              </td>
              <td class="half">
                <Command job={job} />
              </td>
              <td class="half">
                <FailureText job={job} />
              </td>
              <td class="right muted">
                <Ago at={job.finished_at ?? job.last_beat_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="more">
        {group.count > group.jobs.length ? <span class="muted">and {group.count - group.jobs.length} more</span> : null}
        {group.retrying > 0 ? (
          <span class="muted">{plural(group.retrying, "job has", "jobs have")} another try</span>
        ) : null}
        {may_change && group.ids.length > 0 ? (
          <Button act={() => attempt(() => retryJobs(group.ids))}>
            Retry {plural(group.ids.length, "failed job")}
          </Button>
        ) : null}
      </p>
    </details>
  );
}

export function Failures() {
  const { body, error } = useLive<{ groups: FailureBody[] }>("/failures");
  const count = (body?.groups ?? []).reduce((sum, group) => sum + group.count, 0);
  return (
    <>
      <div class="page-head">
        <h1>Failures</h1>
      </div>
      <Section
        title="By what they say"
        more={<span class="muted">{count < LOOKED_AT ? plural(count, "job") : `of the newest ${LOOKED_AT}`}</span>}
      >
        {body === null ? (
          <Waiting error={error} />
        ) : body.groups.length === 0 ? (
          <Empty>Nothing has failed. Good.</Empty>
        ) : (
          body.groups.map((group) => <Group key={group.error} group={group} />)
        )}
      </Section>
    </>
  );
}
