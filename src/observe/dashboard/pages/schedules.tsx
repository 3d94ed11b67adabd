/** Schedules: when each comes next, what became of its last time; here they are run at once, paused and resumed. */

import { useMayChange } from "./about.ts";
import { useLive } from "./live_client.ts";
import { Ago, Button, Empty, JobLink, Section, StateMark, Waiting } from "./parts.tsx";
import { attempt, say, send } from "./requests.ts";
import type { ScheduleBody } from "./types.ts";

function Actions({ name, paused }: ScheduleBody) {
  const verb = paused ? "resume" : "pause";
  const run = async () => {
    try {
      const { id } = await send<{ id: number }>("/schedules/run", { name });
      say(`job ${id} is queued`, { href: `/jobs/${id}` });
    } catch (error) {
      say(error instanceof Error ? error.message : String(error), { bad: true });
    }
  };
  const turn = () =>
    attempt(async () => {
      await send(`/schedules/${verb}`, { name });
      return `schedule ${name} is ${verb}d`;
    });
  return (
    <span class="buttons">
      <Button act={run} label={`Run now: schedule ${name}`}>
        Run now
      </Button>
      <Button act={turn} label={`${verb} schedule ${name}`}>
        {paused ? "Resume" : "Pause"}
      </Button>
    </span>
  );
}

function Row({ row }: { row: ScheduleBody }) {
  const may_change = useMayChange();
  return (
    <tr data-row>
      <td>
        {row.name}
        {row.paused ? <span class="tag">paused</span> : null}
        <span class="command narrow-only muted">{row.command}</span>
      </td>
      <td class="wide-only">
        {row.every === null ? <code>{row.cron}</code> : `every ${row.every}`}
        {row.tz === null ? null : <span class="muted"> {row.tz}</span>}
      </td>
      <td class="grow wide-only">
        <span class="command" title={row.command}>
          {row.command}
        </span>
      </td>
      <td class="right">{row.paused ? "" : row.next_at === null ? "never again" : <Ago at={row.next_at} />}</td>
      <td class="right wide-only muted">
        <Ago at={row.last_at} />
      </td>
      <td class="wide-only">
        {row.last_job === null ? null : (
          <>
            {row.last_state === null ? null : <StateMark state={row.last_state} />} <JobLink id={row.last_job} />
          </>
        )}
      </td>
      <td class="right">{may_change ? <Actions {...row} /> : null}</td>
    </tr>
  );
}

function Table({ rows }: { rows: readonly ScheduleBody[] }) {
  return (
    <table>
      <thead>
        <tr>
          <th>Schedule</th>
          <th class="wide-only">When</th>
          <th class="wide-only">Command</th>
          <th class="right">Next</th>
          <th class="right wide-only">Last</th>
          <th class="wide-only">Result</th>
          <th>
            <span class="sr">Actions</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <Row key={row.name} row={row} />
        ))}
      </tbody>
    </table>
  );
}

export function Schedules() {
  const { body, error } = useLive<{ schedules: ScheduleBody[] }>("/schedules");
  return (
    <>
      <div class="page-head">
        <h1>Schedules</h1>
      </div>
      <Section title="All schedules">
        {body === null ? (
          <Waiting error={error} />
        ) : body.schedules.length === 0 ? (
          <Empty>
            None yet. Set one: <code>lease schedule nightly --cron '0 3 * * *' -- ./backup.sh</code>
          </Empty>
        ) : (
          <Table rows={body.schedules} />
        )}
      </Section>
    </>
  );
}
