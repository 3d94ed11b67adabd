/** Units for systemd: a worker that tells how it is, and the watchdog from a timer. Data in, text out. */

import { formatDuration } from "../core/duration.ts";

export interface Service {
  /** Of all its units: `lease`, `lease-mail`. */
  name: string;
  scope: "user" | "system";
  /** Whom a system service runs as; null: root. */
  as: string | null;
  /** Words of the worker's and of the watchdog's command line. */
  worker: readonly string[];
  watchdog: readonly string[] | null;
  /** What the worker does, in a few words. */
  about: string;
  /** That jobs look for programs in. */
  path: string;
  /** A file with what nobody else may read; null: there is nothing of the kind. */
  secrets: string | null;
  /** The store is behind a network. */
  networked: boolean;
  /** From being told to stop to having stopped. */
  stop_ms: number;
}

interface Unit {
  file: string;
  text: string;
}

/** The first line of each unit that we wrote. */
export const UNIT_MARK = "# Written by `lease service`";

/** A worker whose loop has not turned for so long is frozen: far more than the busiest one needs. */
const WATCHDOG_S = 60;
const RESTART_S = 5;
/** Wrong usage, a handler that is not there: trying again changes nothing. */
const NOT_AGAIN = "2 126 127";

export function workerUnit(name: string): string {
  return `${name}-worker.service`;
}

export function watchdogTimer(name: string): string {
  return `${name}-watchdog.timer`;
}

export function serviceUnits(service: Service): Unit[] {
  const { name, watchdog } = service;
  const worker = { file: workerUnit(name), text: workerText(service) };
  if (watchdog === null) return [worker];
  return [
    worker,
    { file: `${name}-watchdog.service`, text: watchdogText(service, watchdog) },
    { file: watchdogTimer(name), text: timerText(service) },
  ];
}

function workerText(service: Service): string {
  const { name, scope, worker, about, path, stop_ms } = service;
  return unitText(service, workerUnit(name), {
    Unit: [`Description=${specifiersHidden(`lease worker, ${about}`)}`, ...network(service), "StartLimitIntervalSec=0"],
    Service: [
      "Type=notify",
      "NotifyAccess=main",
      `ExecStart=${worker.map(word).join(" ")}`,
      ...runsAs(service),
      "# Jobs inherit this, and not what your shell has.",
      `Environment=${specifiersHidden(quoted(`PATH=${path}`))}`,
      "",
      "# A worker that does not turn any more is killed and started again; its jobs go on as soon as it is there.",
      `WatchdogSec=${WATCHDOG_S}s`,
      "WatchdogSignal=SIGKILL",
      "Restart=always",
      `RestartSec=${RESTART_S}s`,
      `RestartPreventExitStatus=${NOT_AGAIN}`,
      "",
      "# TERM goes to the worker alone, which lets its jobs end or gives them back (--drain, --grace).",
      "KillMode=mixed",
      `TimeoutStopSec=${formatDuration(stop_ms)}`,
      "",
      "# A control group per job: all of it can be stopped, and --memory, --pids and --cpus hold.",
      "Delegate=yes",
      "OOMPolicy=continue",
    ],
    Install: [`WantedBy=${scope === "user" ? "default.target" : "multi-user.target"}`],
  });
}

function watchdogText(service: Service, watchdog: readonly string[]): string {
  return unitText(service, `${service.name}-watchdog.service`, {
    Unit: ["Description=lease watchdog: recovers what dead workers left behind", ...network(service)],
    Service: ["Type=oneshot", `ExecStart=${watchdog.map(word).join(" ")}`, ...runsAs(service)],
  });
}

function timerText(service: Service): string {
  return unitText(service, watchdogTimer(service.name), {
    Unit: ["Description=lease watchdog, every minute"],
    Timer: ["OnCalendar=minutely", "AccuracySec=10s"],
    Install: ["WantedBy=timers.target"],
  });
}

function unitText({ scope }: Service, file: string, sections: Readonly<Record<string, readonly string[]>>): string {
  const edit = `${systemctl(scope)} edit ${file}`;
  const parts = Object.entries(sections).map(([title, lines]) => `[${title}]\n${lines.join("\n")}\n`);
  return `${UNIT_MARK}; to change it: ${edit}\n\n${parts.join("\n")}`;
}

export function systemctl(scope: Service["scope"]): string {
  return scope === "user" ? "systemctl --user" : "systemctl";
}

function network({ networked, scope }: Service): string[] {
  // A user's own manager knows nothing of the network.
  if (!networked || scope === "user") return [];
  return ["Wants=network-online.target", "After=network-online.target"];
}

function runsAs({ secrets, as }: Service): string[] {
  return [
    ...(as === null ? [] : [`User=${as}`]),
    ...(secrets === null ? [] : [`EnvironmentFile=${specifiersHidden(secrets)}`]),
  ];
}

/** A word of a command line, as systemd.service(5) reads them: `%` and `$` would stand for something else. */
function word(text: string): string {
  const plain = /^[\w@%+=:,./-]+$/.test(text) ? text : quoted(text);
  return specifiersHidden(plain).replaceAll("$", "$$$$");
}

const ESCAPES: Readonly<Record<string, string>> = {
  "\\": "\\\\",
  '"': '\\"',
  "\n": "\\n",
  "\t": "\\t",
};

function quoted(text: string): string {
  // oxlint-disable-next-line no-control-regex
  const escaped = text.replaceAll(/[\\"\u0000-\u001F\u007F]/g, (character) => {
    const code = character.charCodeAt(0).toString(16).padStart(2, "0");
    return ESCAPES[character] ?? `\\x${code}`;
  });
  return `"${escaped}"`;
}

function specifiersHidden(text: string): string {
  return text.replaceAll("%", "%%");
}
