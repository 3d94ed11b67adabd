/** One job: what it is, why it is where it is, its attempts and what they printed, and what can be done about it. */

import { useRef, useState } from "preact/hooks";
import { useMayChange } from "./about.ts";
import { plainText } from "./ansi.ts";
import { Attempts } from "./attempts.tsx";
import { Checkpoints } from "./checkpoints.tsx";
import { JobEdit } from "./job_edit.tsx";
import { isOver, JobFacts } from "./job_facts.tsx";
import { JobForm } from "./job_form.tsx";
import { JobLog } from "./job_log.tsx";
import { useLive } from "./live_client.ts";
import { Button, Dialog, Notice, Progress, Section, StateMark, Waiting } from "./parts.tsx";
import { attempt, cancelJobs, retryJobs, say } from "./requests.ts";
import type { AttemptBody, CheckpointBody, JobBody, State } from "./types.ts";

/** Asked again, with room for a reason: what runs may have run for hours. */
function CancelDialog({ job, close }: { job: JobBody; close: () => void }) {
  const [reason, setReason] = useState("");
  const cancel = async () => {
    if (await attempt(() => cancelJobs([job.id], reason.trim() === "" ? null : reason.trim()))) close();
  };
  return (
    <Dialog title={`Cancel job ${job.id}?`} close={close}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void cancel();
        }}
      >
        <label class="whole">
          Reason, to be shown with the job
          <input value={reason} placeholder="none" onInput={(event) => setReason(event.currentTarget.value)} />
        </label>
        <p class="buttons whole">
          <button type="submit" class="bad">
            Cancel the job
          </button>
          <button type="button" onClick={close}>
            Keep it
          </button>
        </p>
      </form>
    </Dialog>
  );
}

const WAITING: ReadonlySet<State> = new Set(["blocked", "scheduled", "retrying", "pending"]);

function Actions({ job }: { job: JobBody }) {
  const [doing, setDoing] = useState<"cancel" | "copy" | "edit" | null>(null);
  const close = () => setDoing(null);
  if (!useMayChange()) return null;
  return (
    <div class="actions">
      {isOver(job) ? (
        <Button tone="main" act={() => attempt(() => retryJobs([job.id]))}>
          Retry
        </Button>
      ) : null}
      {isOver(job) || job.state === "cancelling" ? null : (
        <Button tone="bad" act={() => setDoing("cancel")}>
          Cancel
        </Button>
      )}
      {WAITING.has(job.state) ? <Button act={() => setDoing("edit")}>Edit</Button> : null}
      <Button act={() => setDoing("copy")}>Enqueue one like this</Button>
      {doing === "edit" ? <JobEdit job={job} close={close} /> : null}
      {doing === "copy" ? <JobForm like={job} close={close} /> : null}
      {doing === "cancel" ? <CancelDialog job={job} close={close} /> : null}
    </div>
  );
}

/** Why it does not run, or what went wrong: what people come here for. */
function Why({ job }: { job: JobBody }) {
  if (job.damaged !== null) return <Notice tone="bad">{job.damaged}</Notice>;
  if (job.state === "failed") return <Notice tone="bad">{job.error ?? job.reason ?? "it failed"}</Notice>;
  if (job.state === "completed" || job.reason === null) return null;
  // Cancelled by somebody who gave no reason: the state says all there is to say.
  if (job.reason === job.state) return null;
  if (job.state === "running" && isStranded(job.reason)) return <Notice tone="warn">{job.reason}</Notice>;
  if (job.state === "running") return job.message === null && job.progress === null ? null : <Told job={job} />;
  return <Notice tone={job.state === "cancelled" || job.state === "cancelling" ? "warn" : "info"}>{job.reason}</Notice>;
}

/** Nobody works on it any more: what it said last does not say so. */
const isStranded = (reason: string) => reason.endsWith("waits for a sweep");

function Told({ job }: { job: JobBody }) {
  return (
    <p class="notice is-info told">
      {job.progress === null ? null : (
        <>
          <Progress value={job.progress} label="progress" /> <b class="number">{job.progress} %</b>
        </>
      )}
      {job.message}
    </p>
  );
}

/** A line for a shell as it was typed; everything else as one that can be pasted. */
function typed({ argv, command }: JobBody): string {
  const [shell, flag, line] = argv;
  return argv.length === 3 && shell === "sh" && flag === "-c" ? (line ?? "") : command;
}

function CommandLine({ job }: { job: JobBody }) {
  const text = typed(job);
  const copy = () =>
    navigator.clipboard.writeText(text).then(
      () => say("copied"),
      () => say("the browser does not let a page copy here", { bad: true }),
    );
  return (
    <div class="command-line">
      <pre>
        <code>{text === "" ? "(no command: the worker's own)" : text.split("\n").map(plainText).join("\n")}</code>
      </pre>
      <Button tone="quiet" act={copy} label="copy the command">
        Copy
      </Button>
    </div>
  );
}

/** What was tried, as far as it is known: where many pages are opened at once it comes after the rest. */
function usePast(job: JobBody | null): { history: readonly AttemptBody[]; checkpoints: readonly CheckpointBody[] } {
  const known = useRef<{ history: readonly AttemptBody[]; checkpoints: readonly CheckpointBody[] }>(NO_PAST);
  if (job !== null && job.history !== null && job.checkpoints !== null)
    known.current = { history: job.history, checkpoints: job.checkpoints };
  return known.current;
}

const NO_PAST = { history: [], checkpoints: [] };

export function JobPage({ id }: { id: number }) {
  const { body: job, error } = useLive<JobBody>(Number.isSafeInteger(id) ? `/jobs/${id}` : null);
  const [chosen, setChosen] = useState<number | null>(null);
  const past = usePast(job);
  if (!Number.isSafeInteger(id)) return <Notice tone="bad">this is not the number of a job</Notice>;
  if (job === null) return <Waiting error={error} />;
  const shown = chosen ?? job.attempts;
  return (
    <article class="job">
      <div class="page-head">
        <h1>
          Job <span class="number">{job.id}</span>
        </h1>
        <StateMark state={job.state} />
        <Actions job={job} />
      </div>
      <CommandLine job={job} />
      <Why job={job} />
      <div class="columns">
        <div>
          {job.attempts === 0 ? null : (
            <Section title={job.attempts > 1 ? `Output of attempt ${shown}` : "Output"} class="log-panel">
              <JobLog
                key={shown}
                job={job.id}
                attempt={shown}
                running={job.state === "running" && shown === job.attempts}
              />
            </Section>
          )}
          {job.output === null ? null : (
            <Section title="Result">
              <pre class="result">{job.output}</pre>
            </Section>
          )}
          {job.input === null ? null : (
            <Section title="Input">
              <pre class="result">{job.input}</pre>
            </Section>
          )}
        </div>
        <div>
          {past.history.length === 0 ? null : (
            <Section title={past.history.length === 1 ? "Attempt" : `${past.history.length} attempts`}>
              <Attempts
                attempts={past.history}
                chosen={shown}
                choose={(number) => setChosen(number === job.attempts ? null : number)}
              />
            </Section>
          )}
          <Section title="About">
            <JobFacts job={job} />
          </Section>
          {past.checkpoints.length === 0 ? null : <Checkpoints checkpoints={past.checkpoints} />}
        </div>
      </div>
    </article>
  );
}
