/** What is noted about a job: how far it was, by itself, and how attempts went wrong, by us. */

import { useState } from "preact/hooks";
import { plainText } from "./ansi.ts";
import { Ago, Section } from "./parts.tsx";
import type { CheckpointBody } from "./types.ts";

interface TrailBody {
  cause?: string;
  error?: string | null;
  host?: string;
  last_lines?: string[];
}

function trailOf(text: string): TrailBody | null {
  try {
    return JSON.parse(text) as TrailBody;
  } catch {
    return null;
  }
}

/** What is kept of an attempt that went wrong: how it ended, where, and its last words. */
function Trail({ text }: { text: string }) {
  const trail = trailOf(text);
  if (trail === null || typeof trail !== "object") return <p>{text}</p>;
  const { cause, error, host, last_lines } = trail;
  return (
    <>
      <p class="tone-failed">
        {String(error ?? cause ?? "")} <span class="muted">on {String(host ?? "?")}</span>
      </p>
      {Array.isArray(last_lines) && last_lines.length > 0 ? (
        <pre>{last_lines.map((line) => plainText(String(line))).join("\n")}</pre>
      ) : null}
    </>
  );
}

const FIRST = 5;

/** The newest first, a few of them unless all are asked for. */
export function Checkpoints({ checkpoints }: { checkpoints: readonly CheckpointBody[] }) {
  const [all, setAll] = useState(false);
  const more =
    checkpoints.length > FIRST ? (
      <button type="button" class="quiet" onClick={() => setAll(!all)}>
        {all ? "fewer" : `all ${checkpoints.length}`}
      </button>
    ) : null;
  return (
    <Section title="Checkpoints" more={more}>
      <ol class="checkpoints">
        {(all ? checkpoints : checkpoints.slice(0, FIRST)).map(({ id, kind, at, text, token }) => (
          <li key={id} class={`is-${kind}`}>
            <span class="muted">
              <Ago at={at} /> · attempt {token}
            </span>
            {kind === "error" ? <Trail text={text} /> : <p>{text}</p>}
          </li>
        ))}
      </ol>
    </Section>
  );
}
