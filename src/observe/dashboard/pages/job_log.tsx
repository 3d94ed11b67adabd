/** What an attempt printed, as it is printed. Text is text, whatever it holds; colours are classes. */

import { memo } from "preact/compat";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { clockText, countText } from "./format.ts";
import { live } from "./live_client.ts";
import { LogLines, type LogBlock, type LogLine } from "./log_lines.ts";
import { Empty } from "./parts.tsx";
import { load } from "./requests.ts";
import type { LogBody } from "./types.ts";

const Line = ({ line }: { line: LogLine }) => (
  <div class={`line ${line.stream === "stderr" ? "err" : ""}`}>
    <time>{line.at === "" ? "" : clockText(line.at)}</time>
    <span class="text">
      {line.spans.map((span, index) =>
        span.style === "" ? (
          span.text
        ) : (
          <span key={index} class={span.style}>
            {span.text}
          </span>
        ),
      )}
      {line.hidden > 0 ? <em> … and {countText(line.hidden)} more characters: download the log to see them</em> : null}
    </span>
  </div>
);

const Block = memo(({ block }: { block: LogBlock }) => (
  <div class="block">
    {block.lines.map((line, index) => (
      <Line key={index} line={line} />
    ))}
  </div>
));

interface Log {
  lines: LogLines;
  /** Rises with each change. */
  change: number;
  error: string | null;
  earlier: (() => Promise<void>) | null;
}

function useLog(job: number, attempt: number, running: boolean): Log | null {
  const [log, setLog] = useState<Log | null>(null);
  const is_running = useRef(running);
  const name = `log ${job} ${attempt}`;
  useEffect(() => {
    is_running.current = running;
    live.moved(name);
  }, [running]);
  useEffect(() => {
    let over = false;
    let lines = new LogLines();
    const pages: LogBody[] = [];
    let change = 0;
    const show = (error: string | null = null) => {
      if (!over)
        setLog({ lines, change: (change += 1), error, earlier: lines.start > 0 && !lines.dropped ? earlier : null });
    };
    const earlier = async () => {
      const before = await load<LogBody>(`/jobs/${job}/log?attempt=${attempt}&before=${lines.start}`);
      pages.unshift(before);
      const again = new LogLines();
      for (const page of pages) again.add(page.pieces, page.start, page.next);
      lines = again;
      show();
    };
    const take = (page: LogBody) => {
      if (page.pieces.length > 0) pages.push(page);
      lines.add(page.pieces, page.start, page.next);
      show();
    };
    setLog(null);
    let began = false;
    const path = () => {
      const from = began ? `&from=${lines.next}` : "";
      // The end of what was printed comes with the end of the attempt: then it is asked for once more.
      return `/jobs/${job}/log?attempt=${attempt}${from}${is_running.current ? "" : "&over"}`;
    };
    const unfollow = live.follow(name, path, (status, body) => {
      began ||= status === 200;
      if (status === 200) take(body as LogBody);
      else show((body as { error?: string }).error ?? "this can't be read");
    });
    return () => {
      over = true;
      unfollow();
    };
  }, [job, attempt]);
  return log;
}

interface LogProps {
  job: number;
  attempt: number;
  running: boolean;
}

/** Near the end is at the end: a line that comes moves it. */
const NEAR_PX = 24;

export function JobLog({ job, attempt, running }: LogProps) {
  const log = useLog(job, attempt, running);
  const [follow, setFollow] = useState(true);
  const [wrap, setWrap] = useState(true);
  const [times, setTimes] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (follow && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  }, [log?.change, follow, wrap, times]);
  const scrolled = () => {
    const element = box.current;
    if (element === null) return;
    const at_end = element.scrollHeight - element.scrollTop - element.clientHeight < NEAR_PX;
    if (at_end !== follow) setFollow(at_end);
  };
  const empty = log !== null && log.lines.blocks.length === 0 && log.lines.unfinished.length === 0;
  return (
    <>
      <div class="log-tools">
        <button type="button" aria-pressed={follow} onClick={() => setFollow(!follow)}>
          Follow
        </button>
        <button type="button" aria-pressed={wrap} onClick={() => setWrap(!wrap)}>
          Wrap
        </button>
        <button type="button" aria-pressed={times} onClick={() => setTimes(!times)}>
          Times
        </button>
        <a class="button" href={`/api/jobs/${job}/log.txt?attempt=${attempt}`} download>
          Download
        </a>
      </div>
      {log?.error ? <Empty>{log.error}</Empty> : null}
      <div
        ref={box}
        class={`log ${wrap ? "wrap" : ""} ${times ? "times" : ""} ${running ? "growing" : ""}`}
        role="log"
        aria-label={`Output of attempt ${attempt}`}
        tabIndex={0}
        onScroll={scrolled}
      >
        {log?.earlier ? (
          <button type="button" class="quiet" onClick={() => void log.earlier?.()}>
            Load earlier output
          </button>
        ) : null}
        {log?.lines.dropped ? <p class="muted">Earlier output is not shown here: download the log.</p> : null}
        {log?.lines.blocks.map((block) => (
          <Block key={block.id} block={block} />
        ))}
        {log?.lines.unfinished.map((line) => (
          <Line key={line.stream} line={line} />
        ))}
        {empty ? <p class="muted">{running ? "It has printed nothing so far." : "It printed nothing."}</p> : null}
      </div>
    </>
  );
}
