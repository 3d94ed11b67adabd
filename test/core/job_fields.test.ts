/** One row per field: what a flag, a line of JSON and lease.toml say with the same word is the same job. */

import { describe, expect, test } from "bun:test";
import { JOB_FLAGS, plainJob } from "../../src/cli/job_flags.ts";
import { jobOfLine } from "../../src/config/job_json.ts";
import { COMMAND_SETTINGS } from "../../src/config/command_settings.ts";
import { DEFAULT_SETTINGS } from "../../src/core/job.ts";
import { draftJob } from "../../src/core/draft.ts";
import { JOB_FIELD_NAMES, jobField, type JobFieldName } from "../../src/core/job_fields.ts";
import { readValue } from "../../src/core/values.ts";
import { LeaseError } from "../../src/core/errors.ts";
import { changedSettings } from "../../src/view/job.ts";

const HERE = process.cwd();
const context = {
  env: { A: "from here" },
  folder: (path: string) => path,
  moment: (text: string) => Date.parse(text),
  input: (text: string) => new TextEncoder().encode(text),
};

/** Something that is not the default, as the flag takes it. */
const SAMPLES: Readonly<Record<Exclude<JobFieldName, "argv">, string | true>> = {
  shell: "exit 3",
  queue: "mail",
  task: "t",
  input: "hello",
  key: "k",
  if_exists: "fail",
  priority: "-7",
  delay: "1h",
  at: "2026-12-24T18:00:00Z",
  after: "3,4",
  after_any: "5-6",
  after_failed: "7",
  after_task: "one,two",
  limit: "github,api",
  need: "gpu,mem=8G",
  retries: "0",
  backoff: "fixed:30s",
  retry_on: "lost",
  fatal_exit: "2,64-78",
  timeout: "7s",
  lease: "auto",
  interval: "2s",
  extension: "20s",
  beat: "timer",
  grace: "never",
  on_failed: "notify",
  pty: true,
  cwd: "/srv",
  env: "A,B=1",
  memory: "2G",
  pids: "50",
  cpus: "1.5",
  log_limit: "64k",
  output_limit: "1k",
};
const NAMES = Object.keys(SAMPLES) as (keyof typeof SAMPLES)[];
/** As the plugin of the command line reads them. */
const read = (given: Readonly<Record<string, string | true>>) =>
  Object.fromEntries(
    Object.entries(given).map(([name, text]) => [
      name,
      text === true ? text : readValue(jobField(name as JobFieldName).value, text, `--${name}`),
    ]),
  );
/** Fields that say nothing without another. */
const WITH: Readonly<Record<string, Record<string, string>>> = { if_exists: { key: "k" } };

describe("the fields of a job", () => {
  test("each but the words themselves is tried below, and is a flag", () => {
    expect(["argv", ...NAMES].toSorted()).toEqual(JOB_FIELD_NAMES.toSorted());
    expect(Object.keys(JOB_FLAGS).toSorted()).toEqual(NAMES.toSorted());
  });

  test.each(NAMES)("%s means the same on a command line and in JSON", (name) => {
    const given = { ...WITH[name], [name]: SAMPLES[name] };
    const { repeatable } = jobField(name);
    const lists = repeatable ? { [name]: [String(SAMPLES[name])] } : {};
    const words = name === "shell" ? [] : ["true"];
    const by_flag = plainJob(repeatable ? {} : read(given), lists, words, context.env, context);
    const json = { ...(name === "shell" ? {} : { argv: ["true"] }), ...given };
    const by_json = jobOfLine(JSON.stringify(json), draftJob(HERE), context);
    expect(by_json).toEqual(by_flag);
    expect(by_json).not.toEqual({ ...draftJob(HERE), argv: words });
  });

  test("every setting of a job is one of them, and has words for people", () => {
    const settings = JOB_FIELD_NAMES.flatMap((name) => jobField(name).setting?.name ?? []);
    // Nobody asks for it: a hook is made by the failure of another job.
    const made = new Set<string>(["hook", "aged"]);
    const all = (Object.keys(DEFAULT_SETTINGS) as typeof settings).filter((name) => !made.has(name));
    expect(settings.toSorted()).toEqual(all.toSorted());
    for (const name of NAMES.filter((field) => jobField(field).setting !== undefined)) {
      const job = jobOfLine(JSON.stringify({ argv: ["true"], [name]: SAMPLES[name] }), draftJob(HERE), context);
      expect(changedSettings(job.settings)).toHaveLength(1);
    }
  });

  test("no backoff is said as it is asked for", () => {
    const job = jobOfLine(JSON.stringify({ argv: ["true"], backoff: "none" }), draftJob(HERE), context);
    expect(changedSettings(job.settings)).toEqual(["backoff none"]);
  });

  test("those that may be configured are the settings of enqueue", () => {
    const configurable = JOB_FIELD_NAMES.filter((name) => jobField(name).configurable);
    expect(Object.keys(COMMAND_SETTINGS["enqueue"] ?? {})).toEqual(configurable);
  });

  test("a variable that is not set here is refused", () => {
    const refused = () => plainJob({}, { env: ["NOPE"] }, ["true"], {}, context);
    expect(refused).toThrow(LeaseError);
    expect(refused).toThrow("--env NOPE is not set here: set it, or write NOPE=…");
  });
});
