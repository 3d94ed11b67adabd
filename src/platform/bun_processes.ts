/** What Bun has to ask the C library about processes: holding on to one, and adopting what they leave behind. */

import { libc } from "./libc.ts";
import type { ProcessCalls } from "./platform.ts";

/** The same number on every machine. */
const [PIDFD_SEND_SIGNAL, PIDFD_OPEN] = [424, 434];
/** Since Linux 6.9; before, the call fails, and the caller does it the old way. */
const TO_GROUP = 4;
const PR_SET_CHILD_SUBREAPER = 36;
const WNOHANG = 1;

const processLibc = libc({
  syscall: { args: ["i64", "i64", "i64", "i64", "i64"], returns: "i64" },
  prctl: { args: ["i32", "u64", "u64", "u64", "u64"], returns: "i32" },
  waitpid: { args: ["i32", "ptr", "i32"], returns: "i32" },
  close: { args: ["i32"], returns: "i32" },
});

/** Null where the C library can't be called. */
export function processCalls(): ProcessCalls | null {
  const c = processLibc();
  if (c === null) return null;
  return {
    hold(pid) {
      const fd = Number(c.syscall(PIDFD_OPEN, pid, 0, 0, 0));
      if (fd < 0) return null;
      return {
        signal: (number, { group }) => Number(c.syscall(PIDFD_SEND_SIGNAL, fd, number, 0, group ? TO_GROUP : 0)) === 0,
        release: () => void c.close(fd),
      };
    },
    adopt: () => c.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) === 0,
    reap: (pid) => c.waitpid(pid, null, WNOHANG) === pid,
  };
}
