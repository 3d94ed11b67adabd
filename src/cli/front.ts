/**
 * The first page: what lease is, its commands by group, and in the full form the environment and the exit codes. Knows
 * the commands by name and description only; none is loaded for it.
 */

import type { Commands } from "./command.ts";
import { noteLines } from "./help.ts";
import { heading, paragraph, rowLines, termWidth, type Page, type Row } from "./layout.ts";

export const WHAT =
  "A durable queue for shell jobs in one executable: each job runs under a lease that lasts while it prints, and goes " +
  "to someone else when it hangs or its worker dies.";

export const FIRST_STEPS: readonly Row[] = [
  ["lease enqueue -- ./build.sh", "queue a command; prints the job's id"],
  ["lease worker -j 4", "run what is queued, four at a time"],
  ["lease inspect", "see what is going on"],
];

export const ENVIRONMENT = {
  title: "Environment",
  rows: [
    ["LEASE_STORE", "the store, like --store; also LEASE_COLOR, LEASE_VERBOSE, LEASE_CONFIG"],
    ["LEASE_WORKER_SLOTS", "-j of lease worker, and so on: LEASE_, the command, the flag"],
    ["NO_COLOR", "no colour, if set to anything"],
  ],
} as const;

export const FILES = {
  title: "Files",
  rows: [
    ["lease.toml", "settings for flags that are not given: here, or in $XDG_CONFIG_HOME/lease (~/.config/lease)"],
    ["lease.db", "the store, in $XDG_STATE_HOME/lease (~/.local/state/lease)"],
  ],
} as const;

export const IN_A_JOB = {
  title: "Environment of a job",
  rows: [
    ["LEASE_JOB_ID", "its id; also LEASE_QUEUE, LEASE_TASK, LEASE_KEY"],
    ["LEASE_ATTEMPT", "which run of the job this is, from 1"],
    ["LEASE_TOKEN", "the fence: higher with every run"],
    ["LEASE_CHECKPOINT", "what the job's last lease checkpoint said"],
    ["LEASE_OUTPUT", "a file; what the job writes there is its result"],
    ["LEASE_STORE", "where lease beat and lease checkpoint write; also LEASE_WORKER_ID"],
    ["TRACEPARENT", "the trace that the job belongs to, where tracing is on"],
  ],
} as const;

export const EXIT_CODES = {
  title: "Exit codes",
  rows: [
    ["0", "fine"],
    ["1", "the answer is no: a job failed, nothing matched"],
    ["2", "usage: unknown flag, missing value, settings that contradict each other"],
    ["3, 4", "lease beat: cancel was requested, the lease is lost"],
    ["124", "a job's timeout"],
    ["125", "lease itself failed"],
    ["126, 127", "the command is not executable, is not found"],
    ["128+n", "ended by signal n"],
    ["other", "lease run and lease wait: the job's own code"],
  ],
} as const;

/** For `lease` alone: enough to go on with. */
export function shortHelp(commands: Commands, page: Page): string {
  const more = "lease COMMAND --help tells about a command, lease help about everything else.";
  return text([...opening(commands, page), "", ...paragraph(more, page)]);
}

export function fullHelp(commands: Commands, page: Page): string {
  const notes = [ENVIRONMENT, FILES, IN_A_JOB, EXIT_CODES].flatMap((note) => ["", ...noteLines(note, page)]);
  const more = "lease COMMAND --help tells about a command and its flags.";
  return text([...opening(commands, page), ...notes, "", ...paragraph(more, page)]);
}

function opening(commands: Commands, page: Page): string[] {
  return [
    ...paragraph(WHAT, page),
    "",
    heading("Usage", page),
    ...paragraph("lease COMMAND [FLAGS] …", page, "  "),
    "",
    heading("First steps", page),
    ...rowLines(FIRST_STEPS, termWidth(FIRST_STEPS), page),
    ...groups(commands, page),
  ];
}

function groups(commands: Commands, page: Page): string[] {
  const byGroup = new Map<string, Row[]>();
  for (const [name, { group, description }] of Object.entries(commands)) {
    byGroup.set(group, [...(byGroup.get(group) ?? []), [name, description]]);
  }
  const width = termWidth([...byGroup.values()].flat());
  return [...byGroup].flatMap(([group, rows]) => ["", heading(group, page), ...rowLines(rows, width, page)]);
}

function text(lines: readonly string[]): string {
  return `${lines.join("\n")}\n`;
}
