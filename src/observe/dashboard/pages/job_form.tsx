/** A new job, or one like another: what is not said is as in that one, its folder and environment included. */

import { useState } from "preact/hooks";
import { Dialog, FormButtons } from "./parts.tsx";
import { attempt, Refusal, send } from "./requests.ts";
import { go } from "./router.ts";
import type { JobBody } from "./types.ts";
import { shellWords } from "./words.ts";

interface Values {
  line: string;
  shell: boolean;
  queue: string;
  task: string;
  key: string;
  priority: string;
  delay: string;
  retries: string;
  input: string;
}

function valuesOf(like: JobBody | null): Values {
  const argv = like?.argv ?? [];
  const shell = argv.length === 3 && argv[0] === "sh" && argv[1] === "-c";
  return {
    line: shell ? (argv[2] ?? "") : argv.length === 0 ? "" : (like?.command ?? ""),
    shell: like === null || shell,
    queue: like?.queue ?? "default",
    task: like?.task ?? "",
    key: "",
    priority: String(like?.priority ?? 0),
    delay: "",
    retries: String(like?.retries ?? 3),
    input: like?.input ?? "",
  };
}

/** Only what was said: the rest is as in the other job, or as for everybody. */
function jobOf(values: Values, like: JobBody | null): Record<string, unknown> {
  const { line, shell, input, key, task, delay, priority, retries, queue } = values;
  const job: Record<string, unknown> = { queue, priority: Number(priority), retries: Number(retries) };
  if (line.trim() !== "" && shell) job["shell"] = line;
  else if (line.trim() !== "") {
    const words = shellWords(line);
    if (words === null) throw new Refusal("a quote in the command is not closed");
    job["argv"] = words;
  }
  if (input !== (like?.input ?? "")) job["input"] = input;
  if (task !== "") job["task"] = task;
  if (key !== "") job["key"] = key;
  if (delay !== "") job["delay"] = delay;
  return job;
}

const FIELDS: readonly [name: Exclude<keyof Values, "shell" | "line" | "input">, label: string, hint: string][] = [
  ["queue", "Queue", "default"],
  ["task", "Task", "a label, or nothing"],
  ["key", "Key", "at most one live job has it"],
  ["priority", "Priority", "0"],
  ["delay", "Delay", "none; 10m, 2h"],
  ["retries", "Retries", "3"],
];

function Fields({ values, set }: { values: Values; set: (change: Partial<Values>) => void }) {
  return (
    <>
      <label class="whole">
        {values.shell ? "Shell line" : "Command"}
        <textarea
          class="mono"
          rows={3}
          spellcheck={false}
          value={values.line}
          onInput={(event) => set({ line: event.currentTarget.value })}
        />
      </label>
      <label class="check whole">
        <input
          type="checkbox"
          checked={values.shell}
          onChange={(event) => set({ shell: event.currentTarget.checked })}
        />
        run by a shell (sh -c)
      </label>
      {FIELDS.map(([name, label, hint]) => (
        <label key={name}>
          {label}
          <input
            value={values[name]}
            placeholder={hint}
            spellcheck={false}
            onInput={(event) => set({ [name]: event.currentTarget.value })}
          />
        </label>
      ))}
      <label class="whole">
        Input
        <textarea
          class="mono"
          rows={2}
          spellcheck={false}
          value={values.input}
          onInput={(event) => set({ input: event.currentTarget.value })}
        />
      </label>
    </>
  );
}

export function JobForm({ like, close }: { like: JobBody | null; close: () => void }) {
  const [values, setValues] = useState(() => valuesOf(like));
  const set = (change: Partial<Values>) => setValues((now) => ({ ...now, ...change }));
  const add = async () => {
    const added = await attempt(async () => {
      const asked = { like: like?.id ?? null, job: jobOf(values, like) };
      const { id, created } = await send<{ id: number; created: boolean }>("/jobs", asked);
      go(`/jobs/${id}`);
      return created ? `job ${id} is queued` : `job ${id} has this key already`;
    });
    if (added) close();
  };
  return (
    <Dialog title={like === null ? "New job" : `A job like ${like.id}`} close={close} wide>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void add();
        }}
      >
        <Fields values={values} set={set} />
        {like === null ? null : (
          <p class="muted whole">
            Runs in <code>{like.cwd}</code>
            {like.env_names.length === 0 ? "" : ` with ${like.env_names.join(", ")} as they were`}
            {like.settings_text.length === 0 ? "." : `; ${like.settings_text.join(", ")}.`}
          </p>
        )}
        <FormButtons submit="Enqueue" close={close} />
      </form>
    </Dialog>
  );
}
