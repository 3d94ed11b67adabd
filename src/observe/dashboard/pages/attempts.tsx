/** The attempts of a job as bars in time, each with how it ended; one is chosen, whose log is shown. */

import { lengthText, momentText } from "./format.ts";
import { useNow } from "./live_client.ts";
import type { AttemptBody } from "./types.ts";

const NEUTRAL: ReadonlySet<string> = new Set(["returned", "cancelled"]);

function toneOf(cause: string | null): string {
  if (cause === null) return "running";
  if (cause === "success") return "completed";
  return NEUTRAL.has(cause) ? "cancelled" : "failed";
}

function endText({ cause, exit_code, signal }: AttemptBody): string {
  if (cause === null) return "running";
  if (cause === "exit") return `exit ${exit_code}`;
  return cause === "signal" ? (signal ?? "signal") : cause;
}

function Bar({
  attempt,
  from_ms,
  whole_ms,
  now_ms,
}: {
  attempt: AttemptBody;
  from_ms: number;
  whole_ms: number;
  now_ms: number;
}) {
  const started_ms = Date.parse(attempt.started_at);
  const ended_ms = attempt.ended_at === null ? now_ms : Date.parse(attempt.ended_at);
  const left = ((started_ms - from_ms) / whole_ms) * 100;
  const width = Math.max(1.2, ((ended_ms - started_ms) / whole_ms) * 100);
  const style = {
    left: `${Math.min(left, 98.8).toFixed(2)}%`,
    width: `${Math.min(width, 100 - Math.min(left, 98.8)).toFixed(2)}%`,
  };
  return (
    <span class="track" aria-hidden="true">
      <i class={`is-${toneOf(attempt.cause)}`} style={style} />
    </span>
  );
}

interface AttemptsProps {
  attempts: readonly AttemptBody[];
  chosen: number;
  choose: (attempt: number) => void;
}

export function Attempts({ attempts, chosen, choose }: AttemptsProps) {
  const now_ms = useNow();
  const from_ms = Math.min(...attempts.map(({ started_at }) => Date.parse(started_at)));
  const to_ms = Math.max(...attempts.map(({ ended_at }) => (ended_at === null ? now_ms : Date.parse(ended_at))));
  const whole_ms = Math.max(1, to_ms - from_ms);
  return (
    <ol class="attempts">
      {attempts.map((attempt) => (
        <li key={attempt.attempt}>
          <button
            type="button"
            aria-pressed={attempt.attempt === chosen}
            title={`${momentText(attempt.started_at)} on ${attempt.host}, ${attempt.beats} beats`}
            onClick={() => choose(attempt.attempt)}
          >
            <span class="n">{attempt.attempt}</span>
            <Bar attempt={attempt} from_ms={from_ms} whole_ms={whole_ms} now_ms={now_ms} />
            <span class={`tone-${toneOf(attempt.cause)}`}>{endText(attempt)}</span>
            <span class="number muted right">
              {lengthText(
                (attempt.ended_at === null ? now_ms : Date.parse(attempt.ended_at)) - Date.parse(attempt.started_at),
              )}
            </span>
            <span class="muted clip">{attempt.last_line ?? `on ${attempt.host}`}</span>
          </button>
        </li>
      ))}
    </ol>
  );
}
