/** `lease edit`: changes jobs that wait. */

import { LeaseError } from "../core/errors.ts";
import { changesOf, PARENT_FIELDS } from "../core/changes.ts";
import { readIds } from "../core/values.ts";
import { jsonLine } from "../view/json.ts";
import type { EditAnswer } from "../store/queries.ts";
import { command } from "../cli/command.ts";
import { flagName, JSON_FLAG } from "../cli/flags.ts";
import { withStore } from "../cli/io.ts";
import { JOB_FLAGS, JOB_LISTS } from "../cli/job_flags.ts";
import { newJob } from "../cli/new_job.ts";
import { noSuchJobs } from "../cli/selection.ts";

const {
  shell: _shell,
  input: _input,
  key: _key,
  if_exists: _if_exists,
  cwd: _cwd,
  env: _env,
  ...CHANGEABLE
} = JOB_FLAGS;
/** What is not given stays: nothing stands for it. */
const EDITABLE = Object.fromEntries(
  Object.entries(CHANGEABLE).map(([name, { fallback: _fallback, ...flag }]) => [name, flag]),
) as typeof CHANGEABLE;
const LISTS = [...JOB_LISTS.filter((name) => name !== "env"), "unset"] as const;
/** What can be as if nobody had ever said it; for whom it waits there is --free. */
const UNSETTABLE = (Object.keys(CHANGEABLE) as (keyof typeof CHANGEABLE)[]).filter(
  (name) => name !== "at" && !PARENT_FIELDS.some((parent) => parent === name),
);
const PAGE = 1_000;

export default command({
  meta: { name: "edit", description: "Change jobs that wait" },
  args: {
    ...EDITABLE,
    free: { type: "boolean", description: "Wait for no other job any more" },
    unset: {
      type: "enum",
      options: UNSETTABLE.map(flagName),
      valueHint: "FLAGS",
      description: "What these say is said no more: limit,need,timeout",
    },
    json: JSON_FLAG,
  },
  repeat: LISTS,
  rest: "words",
  operands: "ID…",
  operand_values: { completer: "waiting_ids" },
  examples: [
    ["lease edit 7 --priority 10", "next in line"],
    ["lease edit 7 9-12 --queue slow --delay 1h", "elsewhere, and later"],
    ["lease edit 7 --after 12", "also for one that was queued later"],
    ["lease edit 7 --unset limit,timeout", "as if these had not been given"],
  ],
  notes: [
    "What is not named stays as it is; --after and its like are said anew together. A job that runs, or has ended, is " +
      "left as it is: an edit comes before an acquire or after it.",
  ],
  exit_codes: [["1", "a job does not wait any more, or there is no such job"]],
  run: async ({ args, lists, rest, given, io }) => {
    if (rest.length === 0) throw new LeaseError("usage", "edit what? Name ids (7 9-12)");
    const ids = readIds(rest, "edit");
    const { free, json, ...flags } = args;
    const job = await newJob(flags, lists, [], io);
    const links = PARENT_FIELDS.find((name) => given.has(name));
    if (free && links !== undefined) {
      throw new LeaseError("usage", `--free and --${flagName(links)} both say what it waits for: give one of them`);
    }
    const unset = new Set(lists.unset);
    const both = UNSETTABLE.find((name) => unset.has(flagName(name)) && given.has(name));
    if (both !== undefined) {
      const flag = flagName(both);
      throw new LeaseError("usage", `--${flag} and --unset ${flag} can't both be: give one of them`);
    }
    const changes = changesOf(
      job,
      (name) => given.has(name) || unset.has(flagName(name)) || (free && name === "after"),
    );
    if (Object.keys(changes).length === 0) {
      throw new LeaseError("usage", "edit what of them? Name a flag, such as --priority 10");
    }
    return withStore(args, io, { create: false }, async ({ store }) => {
      const answers: EditAnswer[] = [];
      for (let from = 0; from < ids.length; from += PAGE)
        answers.push(...(await store.edit(ids.slice(from, from + PAGE), changes)));
      for (const answer of answers) {
        if (json) io.stdout(jsonLine(answer));
        else if (answer.status === "changed") io.stdout(`${answer.id} changed\n`);
        else if (answer.status === "not_waiting") {
          io.stderr(`lease: job ${answer.id} is ${answer.state}: only jobs that wait can be changed\n`);
        }
      }
      const unknown = answers.filter(({ status }) => status === "unknown").map(({ id }) => id);
      for (const line of noSuchJobs(unknown)) io.stderr(`lease: ${line}\n`);
      return answers.every(({ status }) => status === "changed") ? 0 : 1;
    });
  },
});
