/** The small parts that every page is made of. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { agoText, countText, lengthText, momentText } from "./format.ts";
import { useNow } from "./live_client.ts";
import type { JobLine, State } from "./types.ts";

export function StateMark({ state }: { state: State }) {
  return (
    <span class={`state is-${state}`}>
      <i aria-hidden="true" />
      {state}
    </span>
  );
}

export function Ago({ at }: { at: string | null }) {
  const now_ms = useNow();
  if (at === null) return null;
  return (
    <time dateTime={at} title={momentText(at)}>
      {agoText(Date.parse(at), now_ms)}
    </time>
  );
}

/** How long since then, counting. */
export function Elapsed({ from, to = null }: { from: string | null; to?: string | null }) {
  const now_ms = useNow();
  if (from === null) return null;
  const ms = (to === null ? now_ms : Date.parse(to)) - Date.parse(from);
  return <span class="number">{lengthText(Math.max(0, ms))}</span>;
}

export function Count({ value, href, tone }: { value: number; href?: string; tone?: string }) {
  if (value === 0) return <span class="zero">0</span>;
  const text = countText(value);
  return href === undefined ? (
    <span class={`number ${tone ?? ""}`}>{text}</span>
  ) : (
    <a class={`number ${tone ?? ""}`} href={href}>
      {text}
    </a>
  );
}

export function Progress({ value, label }: { value: number; label: string }) {
  return <progress class="bar" max={100} value={value} aria-label={label} />;
}

export function JobLink({ id }: { id: number }) {
  return (
    <a class="job-id" href={`/jobs/${id}`}>
      {id}
    </a>
  );
}

export function Command({ job }: { job: Pick<JobLine, "id" | "command"> }) {
  return (
    <a class="command" href={`/jobs/${job.id}`} title={job.command}>
      {job.command === "" ? "(no command)" : job.command}
    </a>
  );
}

/** What a job said last, behind how it ended. */
export function FailureText({ job }: { job: JobLine }) {
  const text = job.error ?? job.cause ?? "";
  return (
    <span class="clip" title={job.last_line ?? text}>
      <span class="tone-failed">{text}</span>
      {job.last_line ? <span class="muted"> · {job.last_line}</span> : null}
    </span>
  );
}

/** What happens instead of a table that has nothing in it. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <p class="empty">{children}</p>;
}

export function Notice({ tone, children }: { tone: "warn" | "bad" | "info"; children: ComponentChildren }) {
  return (
    <p class={`notice is-${tone}`} role={tone === "bad" ? "alert" : undefined}>
      {children}
    </p>
  );
}

export function Section(props: {
  title: string;
  more?: ComponentChildren;
  children: ComponentChildren;
  class?: string;
}) {
  return (
    <section class={`panel ${props.class ?? ""}`} aria-label={props.title}>
      <header>
        <h2>{props.title}</h2>
        {props.more}
      </header>
      {props.children}
    </section>
  );
}

/** While the first answer is on its way, or when it is a refusal. */
export function Waiting({ error }: { error: string | null }) {
  if (error !== null) return <Notice tone="bad">{error}</Notice>;
  return (
    <div class="waiting" role="status">
      <span class="sr">loading</span>
    </div>
  );
}

export function Dialog(props: { title: string; close: () => void; children: ComponentChildren; wide?: boolean }) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    return () => dialog?.close();
  }, []);
  return (
    <dialog
      ref={element}
      class={props.wide ? "wide" : ""}
      aria-labelledby="dialog-title"
      onCancel={props.close}
      onClick={(event) => {
        if (event.target === element.current) props.close();
      }}
    >
      <div class="dialog-body">
        <header>
          <h2 id="dialog-title">{props.title}</h2>
          <button type="button" class="quiet" aria-label="close" onClick={props.close}>
            ✕
          </button>
        </header>
        {props.children}
      </div>
    </dialog>
  );
}

/** The end of a form in a dialog. */
export function FormButtons({ submit, close }: { submit: string; close: () => void }) {
  return (
    <p class="buttons whole">
      <button type="submit" class="main">
        {submit}
      </button>
      <button type="button" onClick={close}>
        Close
      </button>
    </p>
  );
}

/** Does one thing, and can't be pressed again until it is done. */
export function Button(props: {
  children: ComponentChildren;
  act: () => void | Promise<unknown>;
  tone?: "bad" | "main" | "quiet";
  title?: string;
  label?: string;
}) {
  const [busy, setBusy] = useState(false);
  const press = async () => {
    setBusy(true);
    try {
      await props.act();
    } finally {
      setBusy(false);
    }
  };
  return (
    <button
      type="button"
      class={props.tone ?? ""}
      disabled={busy}
      title={props.title}
      aria-label={props.label}
      onClick={() => void press()}
    >
      {props.children}
    </button>
  );
}
