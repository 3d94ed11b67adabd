/** What tests need of the machine and do not always get: other users, and file systems of their own. */

import { spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import process from "node:process";
import { LEASE, run, type Answer, type RunOptions } from "./lease.ts";

/** `nobody` on every Linux. */
export const NOBODY = 65_534;
/** Another one, who is neither root nor nobody; it needs no entry anywhere. */
export const SOMEBODY = 65_533;

const asUser = (uid: number): string[] => ["setpriv", `--reuid=${uid}`, `--regid=${uid}`, "--clear-groups"];
const works = (argv: readonly string[]): boolean => spawnSync(argv[0] ?? "", argv.slice(1)).status === 0;

/** Whether tests can become another user who can run the binary. */
export const HAS_USERS = process.getuid?.() === 0 && works([...asUser(NOBODY), "test", "-x", LEASE]);

/** Whether tests can mount something that nobody else sees. */
export const HAS_MOUNTS = works(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", tmpdir()]);

// A test that did not run must not look like one that passed.
if (!HAS_USERS) console.warn("SKIPPED: tests with another user need root, setpriv and a binary that others can reach");
if (!HAS_MOUNTS) console.warn("SKIPPED: tests of full and read-only disks need unshare and the right to mount");

export function runAs(uid: number, argv: readonly string[], options: RunOptions): Promise<Answer> {
  return run([...asUser(uid), ...argv], options);
}

/**
 * Runs a shell script in a mount namespace of its own, where it may mount what it likes. `answer NAME ARGS…` in it runs
 * lease and keeps what came back; the answers come back by name.
 */
export async function withMounts(script: string, options: RunOptions): Promise<Record<string, Answer>> {
  const prelude = `
    set -e
    kept=$(mktemp -d)
    answer() {
      name=$1; shift
      code=0; "$LEASE" "$@" >"$kept/out" 2>"$kept/err" || code=$?
      printf '%s\\0%s\\0' "$name" "$code" >>"$kept/all"
      cat "$kept/out" >>"$kept/all"; printf '\\0' >>"$kept/all"
      cat "$kept/err" >>"$kept/all"; printf '\\0' >>"$kept/all"
    }
  `;
  const { code, stdout, stderr } = await run(
    ["unshare", "--mount", "sh", "-c", `${prelude}\n${script}\ncat "$kept/all"; rm -r "$kept"`],
    options,
  );
  if (code !== 0) throw new Error(`the script ended with ${code}: ${stderr}`);
  const fields = stdout.split("\0");
  const answers: Record<string, Answer> = {};
  for (let at = 0; at + 3 < fields.length; at += 4) {
    const [name = "", status = "", out = "", err = ""] = fields.slice(at, at + 4);
    answers[name] = { code: Number(status), stdout: out, stderr: err };
  }
  return answers;
}
