/**
 * What macOS tells of processes, where there is no /proc: by libproc and sysctl, in the layouts of their headers
 * (sys/proc_info.h, sys/sysctl.h), which have not changed since there are 64-bit Macs. A preview: written by what Apple
 * documents, and tried with made-up answers only.
 */

import { dlopen, ptr } from "bun:ffi";
import process from "node:process";
import { once } from "../core/once.ts";
import type { MacProcess, MacProcesses } from "./platform.ts";

const PROC_PIDTBSDINFO = 3;
/** As the argument of that question: also of one that has ended and was not waited for. */
const ZOMBIES_TOO = 1;
const BSDINFO_BYTES = 136;
const [STATUS_AT, PARENT_AT, USER_AT, NAME_AT, GROUP_AT, STARTED_S_AT, STARTED_US_AT] = [4, 16, 28, 48, 100, 120, 128];
const NAME_BYTES = 16;
const ZOMBIE = 5;
const [CTL_KERN, KERN_PROCARGS2] = [1, 49];
/** As much as arguments and environment can be together. */
const ARGUMENTS_BYTES = 1024 * 1024;
/** Goes on while the machine sleeps. */
const CLOCK_MONOTONIC_RAW = 4;
const PIDS_MOST = 100_000;
const HOST_ID_BYTES = 16;

const bound = once(() =>
  dlopen("libSystem.B.dylib", {
    proc_pidinfo: { args: ["i32", "i32", "u64", "ptr", "i32"], returns: "i32" },
    proc_listallpids: { args: ["ptr", "i32"], returns: "i32" },
    getsid: { args: ["i32"], returns: "i32" },
    gethostuuid: { args: ["ptr", "ptr"], returns: "i32" },
    sysctl: { args: ["ptr", "u32", "ptr", "ptr", "ptr", "u64"], returns: "i32" },
    sysctlbyname: { args: ["ptr", "ptr", "ptr", "ptr", "u64"], returns: "i32" },
    clock_gettime_nsec_np: { args: ["u32"], returns: "u64" },
  }),
);

/** `struct proc_bsdinfo`; the session is not in it. */
export function decodeProcess(bytes: Uint8Array): Omit<MacProcess, "session"> {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const u32 = (at: number) => view.getUint32(at, true);
  const name = bytes.subarray(NAME_AT, NAME_AT + NAME_BYTES);
  const end = name.indexOf(0);
  return {
    zombie: u32(STATUS_AT) === ZOMBIE,
    parent: u32(PARENT_AT),
    user: u32(USER_AT),
    group: u32(GROUP_AT),
    // In hundredths of a second, as elsewhere, but of the wall's clock as it was then: it stays what it is.
    started: Number(view.getBigUint64(STARTED_S_AT, true)) * 100 + Math.floor(u32(STARTED_US_AT) / 10_000),
    name: new TextDecoder("latin1").decode(end < 0 ? name : name.subarray(0, end)),
  };
}

/** What KERN_PROCARGS2 answers: the number of words, the program's path, gaps, the words, and then the environment. */
export function decodeEnvironment(bytes: Uint8Array): string[] {
  const words = new DataView(bytes.buffer, bytes.byteOffset).getInt32(0, true);
  const texts = new TextDecoder("latin1").decode(bytes.subarray(4)).split("\0");
  const path_and_gaps = 1 + texts.slice(1).findIndex((text) => text !== "");
  if (path_and_gaps === 0) return [];
  const environment = texts.slice(path_and_gaps + words);
  const end = environment.indexOf("");
  return end < 0 ? environment : environment.slice(0, end);
}

type Calls = ReturnType<typeof bound>["symbols"];

function named(c: Calls, name: string, bytes: number): Uint8Array | null {
  const answer = new Uint8Array(bytes);
  const size = new BigUint64Array([BigInt(bytes)]);
  const asked = new TextEncoder().encode(`${name}\0`);
  return c.sysctlbyname(ptr(asked), ptr(answer), ptr(size), null, 0) === 0 ? answer : null;
}

function processesOf(c: Calls): MacProcesses {
  return {
    bootSession() {
      const text = named(c, "kern.bootsessionuuid", 64);
      return text === null ? null : new TextDecoder().decode(text.subarray(0, text.indexOf(0)));
    },
    machine() {
      const id = new Uint8Array(HOST_ID_BYTES);
      const limit = new BigInt64Array([1n, 0n]);
      return c.gethostuuid(ptr(id), ptr(limit)) === 0 ? Buffer.from(id).toString("hex") : "";
    },
    process(pid) {
      const answer = new Uint8Array(BSDINFO_BYTES);
      const size = c.proc_pidinfo(pid, PROC_PIDTBSDINFO, ZOMBIES_TOO, ptr(answer), BSDINFO_BYTES);
      return size === BSDINFO_BYTES ? { ...decodeProcess(answer), session: c.getsid(pid) } : null;
    },
    pids() {
      const answer = new Int32Array(PIDS_MOST);
      const count = c.proc_listallpids(ptr(answer), answer.byteLength);
      return count <= 0 ? null : [...answer.subarray(0, count)].filter((pid) => pid > 0);
    },
    environment(pid) {
      const answer = new Uint8Array(ARGUMENTS_BYTES);
      const size = new BigUint64Array([BigInt(ARGUMENTS_BYTES)]);
      const asked = new Int32Array([CTL_KERN, KERN_PROCARGS2, pid]);
      if (c.sysctl(ptr(asked), asked.length, ptr(answer), ptr(size), null, 0) !== 0) return null;
      return decodeEnvironment(answer.subarray(0, Number(size[0])));
    },
    uptime_ms: () => Number(BigInt(c.clock_gettime_nsec_np(CLOCK_MONOTONIC_RAW)) / 1_000_000n),
    woken_at_s() {
      const answer = named(c, "kern.waketime", 16);
      return answer === null ? 0 : Number(new DataView(answer.buffer).getBigInt64(0, true));
    },
  };
}

/** Null on other systems, and where the system's library can't be called: nothing can be proven about processes then. */
export const macProcesses = once((): MacProcesses | null => {
  if (process.platform !== "darwin") return null;
  try {
    return processesOf(bound().symbols);
  } catch {
    return null;
  }
});
