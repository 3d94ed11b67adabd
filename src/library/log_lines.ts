/** What a job printed or logged, line by line, while it does and afterwards. */

import { LeaseError } from "../core/errors.ts";
import { isFinished } from "../core/job.ts";
import { choice, COUNT, SWITCH } from "../core/values.ts";
import { LogReader } from "../foreground/log_reader.ts";
import type { Store } from "../store/store.ts";
import { bytesText } from "../view/json.ts";
import { LogText } from "../view/log.ts";
import { rfc3339 } from "../view/time.ts";
import { readOptions } from "./options.ts";

/** A line that a job printed. */
export interface LogLine {
  job: number;
  attempt: number;
  stream: "stdout" | "stderr";
  at: string;
  text: string;
}

/** Which lines: of the newest attempt and both streams unless told; with `follow`, until the job has ended. */
export interface LogOptions {
  attempt?: number;
  follow?: boolean;
  stream?: "stdout" | "stderr" | "both";
}

const LOG_VALUES = { attempt: COUNT, follow: SWITCH, stream: choice(["stdout", "stderr", "both"]) } as const;
const NOTHING = new Uint8Array(0);

/** `nextChange` tells when to look again. */
export async function* logLines(
  store: Store,
  job: number,
  options: LogOptions,
  nextChange: () => { happened: Promise<void>; stop: () => void },
): AsyncGenerator<LogLine> {
  const { attempt, follow = false, stream = "both" } = readOptions(options, LOG_VALUES);
  const lines: LogLine[] = [];
  const current = { attempt: 0 };
  const format = {
    line: (from: LogLine["stream"], at_ms: number, bytes: Uint8Array) => {
      lines.push({ job, attempt: current.attempt, stream: from, at: rfc3339(at_ms), text: bytesText(bytes) });
      return NOTHING;
    },
    gap: () => "",
  };
  const newText = () => new LogText({ stream, format }, () => {});
  let text = newText();
  const log = new LogReader({ store, job, attempt: 1, onEntry: (entry) => void text.add(entry), onGap: () => {} });
  for (;;) {
    const changed = nextChange();
    try {
      const [found] = await store.jobs([job]);
      if (!found) throw new LeaseError("no_such_job", `there is no job ${job}`);
      const wanted = attempt ?? found.token;
      if (wanted !== current.attempt) {
        text.end();
        text = newText();
        log.turnTo((current.attempt = wanted));
      }
      await log.read();
      const over = !follow || isFinished(found.state) || (attempt !== undefined && found.token > attempt);
      if (over) text.end();
      yield* lines.splice(0);
      if (over) return;
      await changed.happened;
    } finally {
      changed.stop();
    }
  }
}
