/**
 * Kills the jobs of a worker that has not confirmed them in time: one that is stopped, or stuck in a system call, can't
 * do it itself, and its lease is over by then. So it is another process, and it depends on nothing of ours: a shell that
 * sleeps until the next deadline, reads what the worker has written since, and kills what is overdue. It is there only
 * while jobs run for longer than a moment, takes about 2 MB, and outlives a worker that dies until its jobs are dead.
 *
 * For each job there is a file: the deadline (in hundredths of a second since boot), what to kill, and for a process
 * group the start of its leader, so that a number that was given to somebody else is never signalled.
 */

import { closeSync, mkdirSync, openSync, readFileSync, rmSync, unlinkSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { platform } from "#platform";
import type { ProcessIdentity } from "../core/records.ts";
import { ownIdentity } from "../platform/machine.ts";

/** What is killed: a whole control group, or a process group by its leader. */
export type Culprit = { cgroup: string } | { leader: ProcessIdentity };

const SCRIPT = `
cd "$1" || exit
worker=$2 started=$3
sleeper=
trap 'woken=1; kill $sleeper 2>/dev/null' WINCH
is_alive() {
  read -r stat </proc/$1/stat 2>/dev/null || return
  set -- "$2" \${stat##*) }
  [ "$2" != Z ] && [ "\${21}" = "$1" ]
}
enforce() {
  case $1 in
  cgroup) echo 1 >"$2/cgroup.kill" ;;
  group) is_alive "$2" "$3" && kill -s KILL -- "-$2" ;;
  esac
} 2>/dev/null
while :; do
  woken=
  read -r up rest </proc/uptime
  now=\${up%.*}\${up#*.}
  next=6000
  watched=
  for file in *; do
    read -r deadline kind start what 2>/dev/null <"$file" || continue
    left=$((deadline - now))
    if [ $left -le 0 ]; then
      enforce "$kind" "$what" "$start"
      rm -f "$file"
      continue
    fi
    watched=1
    [ $left -ge $next ] || next=$left
  done
  [ -n "$watched" ] || is_alive "$worker" "$started" || exit
  sleep $((next / 100)).$((next / 10 % 10))$((next % 10)) &
  sleeper=$!
  [ -z "$woken" ] || kill $sleeper
  wait $sleeper
  sleeper=
done
`;

/** One that does nothing to a shell that has not got as far as to expect it. */
const WAKE_UP = "SIGWINCH";

/** Of the deadline in its file: written over, never moved. */
const WIDTH = 16;

export function enforcerFolder(worker_id: string): string {
  return join(tmpdir(), `lease-${worker_id}.enforcer`);
}

export class Enforcer {
  readonly #folder: string;
  readonly #worker: ProcessIdentity;
  readonly #files = new Map<string, { fd: number; deadline_cs: number }>();
  #pid: Promise<number | null> | null = null;

  /** `worker` is whose jobs they are: this process, unless a test has another. */
  constructor(worker_id: string, worker: ProcessIdentity = ownIdentity()) {
    this.#folder = enforcerFolder(worker_id);
    this.#worker = worker;
  }

  get folder(): string {
    return this.#folder;
  }

  /**
   * From now on, or again: unless this is told once more, the culprit dies in so many milliseconds. False when it can't
   * be seen to: there is no shell, or no room for its file.
   */
  confirm(name: string, culprit: Culprit, left_ms: number): boolean {
    try {
      this.#pid ??= this.#start();
      this.#write(name, culprit, uptime_cs() + Math.floor(left_ms / 10));
      return true;
    } catch {
      return false;
    }
  }

  #write(name: string, culprit: Culprit, deadline_cs: number): void {
    const text = String(deadline_cs).padStart(WIDTH);
    const known = this.#files.get(name);
    if (known === undefined) {
      const what = "cgroup" in culprit ? `cgroup 0 ${culprit.cgroup}` : groupText(culprit.leader);
      const fd = openSync(join(this.#folder, name), "wx", 0o600);
      writeSync(fd, `${text} ${what}\n`);
      this.#files.set(name, { fd, deadline_cs });
    } else writeSync(known.fd, text, 0);
    // It may be asleep for longer than this one has.
    const sooner = known === undefined || deadline_cs < known.deadline_cs;
    if (known !== undefined) known.deadline_cs = deadline_cs;
    if (sooner) void this.#pid?.then((pid) => signal(pid, WAKE_UP));
  }

  /** It has ended, or is ours to kill. */
  release(name: string): void {
    const file = this.#files.get(name);
    if (file === undefined) return;
    this.#files.delete(name);
    closeSync(file.fd);
    try {
      unlinkSync(join(this.#folder, name));
    } catch {
      // The enforcer was quicker.
    }
  }

  async end(): Promise<void> {
    for (const name of this.#files.keys()) this.release(name);
    signal((await this.#pid) ?? null, "SIGKILL");
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #start(): Promise<number | null> {
    mkdirSync(this.#folder, { mode: 0o700 });
    return this.#startShell();
  }

  /** Null: there is no shell here. */
  async #startShell(): Promise<number | null> {
    const { pid, pid_started } = this.#worker;
    try {
      const child = await platform.spawn({
        argv: ["/bin/sh", "-s", this.#folder, String(pid), String(pid_started)],
        input: new TextEncoder().encode(SCRIPT),
        cwd: "/",
        env: { PATH: process.env["PATH"] ?? "" },
        pty: false,
        onOutput: () => {},
      });
      return child.pid;
    } catch {
      return null;
    }
  }
}

function groupText({ pid, pid_started }: ProcessIdentity): string {
  return `group ${pid_started} ${pid}`;
}

function uptime_cs(): number {
  const [seconds = "0"] = readFileSync("/proc/uptime", "latin1").split(" ");
  return Math.round(Number(seconds) * 100);
}

/** To it and the sleep that it waits for. */
function signal(pid: number | null, name: NodeJS.Signals): void {
  if (pid === null) return;
  try {
    process.kill(-pid, name);
  } catch {
    // It has ended by itself.
  }
}
