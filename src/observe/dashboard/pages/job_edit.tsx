/** Changing a job that waits: only what is said is changed. */

import { useState } from "preact/hooks";
import { Dialog, FormButtons } from "./parts.tsx";
import { attempt, Refusal, send } from "./requests.ts";
import type { JobBody } from "./types.ts";

const FIELDS = [
  ["queue", "Queue", ""],
  ["task", "Task", "none"],
  ["priority", "Priority", "0"],
  ["delay", "Delay from now", "as it is; 10m, 2h"],
  ["retries", "Retries", "3"],
  ["timeout", "Timeout", "as it is; 30m"],
  ["lease", "Lease", "as it is; 5m, auto"],
] as const;

type Edits = Record<(typeof FIELDS)[number][0], string>;

function before(job: JobBody): Edits {
  const { queue, task, priority, retries } = job;
  return {
    queue,
    task: task ?? "",
    priority: String(priority),
    retries: String(retries),
    delay: "",
    timeout: "",
    lease: "",
  };
}

export function JobEdit({ job, close }: { job: JobBody; close: () => void }) {
  const [was] = useState(() => before(job));
  const [values, setValues] = useState(was);
  const change = async () => {
    const done = await attempt(async () => {
      const changed = Object.entries(values).filter(([name, value]) => value.trim() !== was[name as keyof Edits]);
      if (changed.length === 0) throw new Refusal("nothing is changed so far");
      await send("/jobs/edit", {
        id: job.id,
        job: Object.fromEntries(changed.map(([name, value]) => [name, value.trim()])),
      });
      return `job ${job.id} is changed`;
    });
    if (done) close();
  };
  return (
    <Dialog title={`Change job ${job.id}`} close={close} wide>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void change();
        }}
      >
        {FIELDS.map(([name, label, hint]) => (
          <label key={name}>
            {label}
            <input
              value={values[name]}
              placeholder={hint}
              spellcheck={false}
              onInput={(event) => setValues({ ...values, [name]: event.currentTarget.value })}
            />
          </label>
        ))}
        <FormButtons submit="Change" close={close} />
      </form>
    </Dialog>
  );
}
