/**
 * Kills the jobs of a worker that has not confirmed them in time: one that is stopped, or stuck in a system call, can't
 * do it itself, and its lease is over by then. So it is another process, and it depends on nothing of ours: a shell that
 * sleeps until the next deadline, reads what the worker has written since, and kills what is overdue. It is there only
 * while jobs run for longer than a moment, takes about 2 MB, and outlives a worker that dies until its jobs are dead.
 *
 * For each job there is a file: the deadline (in hundredths of a second since boot), what to kill, and for a process
 * group the start of its leader, so that a number that was given to somebody else is never signalled. A sweep takes it
 * for proof of what belongs to the job, as it is written by nobody but us; that is why it also names the boot.
 */

import {
  closeSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { platform } from "#platform";
import type { ProcessIdentity } from "../core/records.ts";
import { bootId, ownIdentity, uptime_cs } from "../platform/machine.ts";
import { signalGroup } from "../platform/signals.ts";
import type { Scratch } from "./scratch.ts";

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
  group=$4
  [ "$2" != Z ] && [ "\${21}" = "$1" ]
}
enforce() {
  case $1 in
  cgroup) echo 1 >"$2/cgroup.kill" ;;
  group)
    [ "$2" -gt 1 ] && is_alive "$2" "$3" && [ "$group" = "$2" ] && kill -s KILL -- "-$2"
    while read -r pid start; do
      [ "$pid" -gt 1 ] && is_alive "$pid" "$start" && kill -s KILL "$pid"
    done <"../$4.$5"
    ;;
  esac
} 2>/dev/null
while :; do
  woken=
  read -r up rest </proc/uptime
  now=\${up%.*}\${up#*.}
  next=6000
  watched=
  for file in *; do
    read -r deadline kind start boot what 2>/dev/null <"$file" || continue
    left=$((deadline - now))
    if [ $left -le 0 ]; then
      enforce "$kind" "$what" "$start" "$file" left
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

const FOLDER = "enforcer";

interface Confirmation {
  name: string;
  culprit: Culprit;
  left: readonly ProcessIdentity[];
}

interface Confirmed {
  fd: number;
  deadline_cs: number;
  culprit: Culprit;
}

export class Enforcer {
  /** Its shell reads /proc. */
  static readonly possible = process.platform === "linux";

  readonly #scratch: Scratch;
  readonly #worker: ProcessIdentity;
  readonly #files = new Map<string, Confirmed>();
  #running: { folder: string; ino: number; pid: Promise<number | null> } | null = null;

  /** `worker` is whose jobs they are: this process, unless a test has another. */
  constructor(scratch: Scratch, worker: ProcessIdentity = ownIdentity()) {
    this.#scratch = scratch;
    this.#worker = worker;
  }

  /**
   * From now on, or again: unless this is told once more, the culprit dies in so many milliseconds. False when it can't
   * be seen to: there is no shell, no /proc for it, or no room for its file.
   */
  confirm(name: string, culprit: Culprit, left_ms: number): boolean {
    if (!Enforcer.possible) return false;
    try {
      const folder = this.#folder();
      this.#write(join(folder, name), name, culprit, uptime_cs() + Math.floor(left_ms / 10));
      return true;
    } catch {
      return false;
    }
  }

  /** Where its shell reads. Somebody may have removed it: then nobody reads what is written, and it is begun anew. */
  #folder(): string {
    const running = this.#running;
    if (running !== null && lstatSync(running.folder, { throwIfNoEntry: false })?.ino === running.ino)
      return running.folder;
    const known = [...this.#files];
    void this.#stop();
    const folder = join(this.#scratch.folder(), FOLDER);
    mkdirSync(folder, { mode: 0o700 });
    this.#running = { folder, ino: lstatSync(folder).ino, pid: this.#startShell(folder) };
    for (const [name, { culprit, deadline_cs }] of known) this.#write(join(folder, name), name, culprit, deadline_cs);
    return folder;
  }

  #write(path: string, name: string, culprit: Culprit, deadline_cs: number): void {
    const text = String(deadline_cs).padStart(WIDTH);
    const known = this.#files.get(name);
    if (known === undefined) {
      const what = "cgroup" in culprit ? `cgroup 0 ${bootId()} ${culprit.cgroup}` : groupText(culprit.leader);
      const fd = openSync(path, "wx", 0o600);
      writeSync(fd, `${text} ${what}\n`);
      this.#files.set(name, { fd, deadline_cs, culprit });
    } else writeSync(known.fd, text, 0);
    // It may be asleep for longer than this one has.
    const sooner = known === undefined || deadline_cs < known.deadline_cs;
    if (known !== undefined) known.deadline_cs = deadline_cs;
    if (sooner) void this.#running?.pid.then((pid) => pid !== null && signalGroup(pid, WAKE_UP));
  }

  /** What left the group of that job's program: it is killed with it, by the enforcer or by a sweep. */
  noteLeft(name: string, left: readonly ProcessIdentity[]): void {
    try {
      const path = leftPath(this.#scratch.folder(), name);
      // Whole or not at all, for whoever reads it meanwhile.
      writeFileSync(`${path}.new`, left.map(({ pid, pid_started }) => `${pid} ${pid_started}\n`).join(""), {
        mode: 0o600,
      });
      renameSync(`${path}.new`, path);
    } catch {
      // No room: they are known to their worker all the same.
    }
  }

  /** It has ended, or is ours to kill. */
  release(name: string): void {
    const file = this.#files.get(name);
    if (file === undefined) return;
    this.#files.delete(name);
    closeSync(file.fd);
    try {
      if (this.#running === null) return;
      unlinkSync(join(this.#running.folder, name));
      rmSync(leftPath(join(this.#running.folder, ".."), name), { force: true });
    } catch {
      // The enforcer was quicker.
    }
  }

  /** Its folder goes with the scratch folder around it. */
  async end(): Promise<void> {
    for (const name of this.#files.keys()) this.release(name);
    await this.#stop();
  }

  async #stop(): Promise<void> {
    const running = this.#running;
    this.#running = null;
    for (const { fd } of this.#files.values()) closeSync(fd);
    this.#files.clear();
    const pid = (await running?.pid) ?? null;
    // To it and the sleep that it waits for.
    if (pid !== null) signalGroup(pid, "SIGKILL");
  }

  /** Null: there is no shell here. */
  async #startShell(folder: string): Promise<number | null> {
    const { pid, pid_started } = this.#worker;
    try {
      const child = await platform.spawn({
        argv: ["/bin/sh", "-s", folder, String(pid), String(pid_started)],
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

function groupText({ boot_id, pid, pid_started }: ProcessIdentity): string {
  return `group ${pid_started} ${boot_id} ${pid}`;
}

/** Beside the folder that the enforcer watches. */
function leftPath(scratch_folder: string, name: string): string {
  return join(scratch_folder, `${name}.left`);
}

/** What left the group of a job's program, as its worker noted it. */
function leftIn(scratch_folder: string, name: string, boot_id: string): ProcessIdentity[] {
  try {
    const lines = readFileSync(leftPath(scratch_folder, name), "utf8")
      .split("\n")
      .filter((line) => line !== "");
    return lines
      .map((line) => line.split(" ").map(Number))
      .map(([pid = 0, pid_started = 0]) => ({ boot_id, pid, pid_started }));
  } catch {
    return [];
  }
}

/** What a worker told the enforcer in its scratch folder, by the names of the jobs. */
export function confirmedIn(scratch_folder: string): Confirmation[] {
  const folder = join(scratch_folder, FOLDER);
  try {
    return readdirSync(folder).flatMap((name): Confirmation[] => {
      const [, kind, start, boot_id = "", ...words] = readFileSync(join(folder, name), "utf8").trim().split(" ");
      const what = words.join(" ");
      if (kind === "cgroup") return [{ name, culprit: { cgroup: what }, left: [] }];
      const leader = { boot_id, pid: Number(what), pid_started: Number(start) };
      return kind === "group" ? [{ name, culprit: { leader }, left: leftIn(scratch_folder, name, boot_id) }] : [];
    });
  } catch {
    return [];
  }
}
