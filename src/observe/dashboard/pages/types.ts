/** What the server answers, by its JSON names. */

export type State =
  "blocked" | "scheduled" | "retrying" | "pending" | "running" | "cancelling" | "completed" | "failed" | "cancelled";

export const STATES: readonly State[] = [
  "running",
  "cancelling",
  "pending",
  "scheduled",
  "retrying",
  "blocked",
  "completed",
  "failed",
  "cancelled",
];

export interface AboutBody {
  version: string;
  store: string;
  read_only: boolean;
}

/** A job in a list. */
export interface JobLine {
  id: number;
  state: State;
  queue: string;
  task: string | null;
  key: string | null;
  priority: number;
  command: string;
  attempts: number;
  retries: number;
  retries_left: number;
  holder: string | null;
  expires_at: string | null;
  last_beat_at: string | null;
  progress: number | null;
  message: string | null;
  exit_code: number | null;
  cause: string | null;
  error: string | null;
  reason: string | null;
  created_at: string;
  run_at: string;
  started_at: string | null;
  finished_at: string | null;
  runtime_ms: number | null;
  /** Of one that failed: what it said last. */
  last_line?: string | null;
}

export interface AttemptBody {
  attempt: number;
  token: number;
  worker: string;
  host: string;
  pid: number | null;
  started_at: string;
  ended_at: string | null;
  cause: string | null;
  exit_code: number | null;
  signal: string | null;
  last_line: string | null;
  beats: number;
}

export interface CheckpointBody {
  id: number;
  kind: "error" | "progress";
  token: number;
  at: string;
  text: string;
}

/** Everything about one. */
export interface JobBody extends Omit<JobLine, "runtime_ms"> {
  argv: string[];
  input: string | null;
  cwd: string;
  output: string | null;
  token: number;
  /** Null, both: it comes a little later. */
  history: AttemptBody[] | null;
  checkpoints: CheckpointBody[] | null;
  /** As people read them, where they are not the usual ones. */
  settings_text: string[];
  env_names: string[];
  depends_on: { id: number; state: State }[];
  damaged: string | null;
}

export interface QueueBody extends Record<State, number> {
  queue: string;
  paused: boolean;
  workers: number;
  /** Since when the one has been pending that waits longest. */
  oldest_pending_at?: string | null;
}

export interface WorkerBody {
  id: string;
  name: string | null;
  state: "live" | "draining" | "missing" | "stopped" | "dead";
  host: string;
  pid: number;
  version: string;
  queues: string[] | null;
  task: string | null;
  slots: number;
  slots_processing: number;
  slots_draining: number;
  completed: number;
  failed: number;
  current: { job: number; attempt: number; last_beat_at: string | null; command?: string | null }[];
  started_at: string;
  seen_at: string;
  stopped_at: string | null;
}

export interface HistoryBody {
  at: string;
  completed: number;
  failed: number;
  cancelled: number;
  recovered: number;
  /** On average; null: nothing began, or ended. */
  wait_ms: number | null;
  run_ms: number | null;
}

export interface OverviewBody {
  queues: QueueBody[];
  workers: WorkerBody[];
  leases: { held: number; stale: number; next_expires_at: string | null };
  retries: { retries: number; jobs: number }[];
  recovery: { recovered: number; failed: number; orphans_killed: number; last_at: string | null } | null;
  failures: JobLine[];
  running: JobLine[];
  history: HistoryBody[];
}

export interface JobsBody {
  jobs: JobLine[];
  before: number | null;
  looked_at: number;
}

export interface FailureBody {
  error: string;
  count: number;
  retrying: number;
  queues: string[];
  ids: number[];
  jobs: JobLine[];
  first_at: string;
  last_at: string;
}

export interface LogPiece {
  stream: "stdout" | "stderr";
  at: string;
  start: number;
  /** Bytes in base64. */
  data: string;
}

export interface LogBody {
  attempt: number;
  start: number;
  next: number;
  pieces: LogPiece[];
}

export interface LimitBody {
  name: string;
  limit: number | null;
  rate: string | null;
  running: number;
  started: number;
  waiting: number;
  next_start_at: string | null;
}

export interface ScheduleBody {
  name: string;
  cron: string | null;
  every: string | null;
  tz: string | null;
  paused: boolean;
  next_at: string | null;
  last_at: string | null;
  last_job: number | null;
  last_state: State | null;
  queue: string;
  command: string;
}
