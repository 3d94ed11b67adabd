/** Other eyes for the processes of this machine: containers, users to whom /proc hides, another time since boot. */

import process from "node:process";

/** Another user, to whom /proc shows only what is theirs. */
function hidden(options: string): string[] {
  const mount = `mount -t proc -o ${options} proc /proc && exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"`;
  return ["unshare", "--mount", "sh", "-c", mount, "sh"];
}

/** Each with the words that a command is started by. */
export const VIEWS: readonly (readonly [what: string, words: readonly string[]])[] = [
  ["in another container", ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]],
  ["to whom /proc hides other users' processes", hidden("hidepid=2")],
  ["to whom /proc shows a part of itself", hidden("hidepid=4,subset=pid")],
  ["in another namespace of time", ["unshare", "--time", "--fork", "--kill-child", "--boottime", "100000"]],
];

/** Says aloud what is not tried here. */
export function isPossible(words: readonly string[], file: string): boolean {
  const works = process.platform === "linux" && Bun.spawnSync([...words, "true"], { stderr: "ignore" }).exitCode === 0;
  if (!works) console.warn(`SKIPPED: ${file} needs ${words.slice(0, 2).join(" ")}, which takes root`);
  return works;
}
