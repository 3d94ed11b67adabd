/** The plainest `lease beat` and `lease checkpoint TEXT`, from inside a job. */

import { nonEmpty, storeLocation, type Env } from "../config/location.ts";
import { checkCheckpoint, checkMessage } from "../core/check_job.ts";
import { parseDuration } from "../core/duration.ts";
import type { QuickFiles } from "../platform/platform.ts";
import { quickBeat, quickCheckpoint } from "../store/quick.ts";
import { isSetOutside, quickLine, type QuickWrite } from "./line.ts";

const BEAT_FLAGS = { "--progress": "progress", "--message": "message", "--store": "store" };
const CHECKPOINT_FLAGS = { "--store": "store" };

const NUMBER = /^[1-9]\d{0,14}$/;
const PERCENT = /^\d{1,2}(?:\.\d+)?$/;

export function beatQuickly(files: QuickFiles, words: readonly string[], env: Env): QuickWrite | null {
  const line = isSetOutside(env, "BEA") ? null : quickLine(words, BEAT_FLAGS);
  const reporter = reporterOf(env);
  if (line === null || reporter === null || line.rest.length > 0) return null;
  const { progress, message = null, store } = line.values;
  if (progress !== undefined && !PERCENT.test(progress)) return null;
  if (message !== null) checkMessage(message);
  const { LEASE_INTERVAL: interval = "0", LEASE_EXTENSION: extension } = env;
  const beat = {
    ...reporter,
    interval_ms: parseDuration(interval, "LEASE_INTERVAL"),
    extension_ms: extension === undefined ? null : parseDuration(extension, "LEASE_EXTENSION"),
    progress: progress === undefined ? null : Number(progress),
    message,
  };
  const location = locationOf(store, env);
  return () => (quickBeat(files, location, beat, Date.now()) === null ? null : "");
}

export function checkpointQuickly(files: QuickFiles, words: readonly string[], env: Env): QuickWrite | null {
  const line = isSetOutside(env, "CHE") ? null : quickLine(words, CHECKPOINT_FLAGS);
  const reporter = reporterOf(env);
  const [text, ...more] = line?.rest ?? [];
  if (line === null || reporter === null || text === undefined || text === "-" || more.length > 0) return null;
  checkCheckpoint(text);
  const note = { ...reporter, text };
  const location = locationOf(line.values["store"], env);
  return () => (quickCheckpoint(files, location, note, Date.now()) === null ? null : "");
}

function reporterOf({ LEASE_JOB_ID: id = "", LEASE_TOKEN: token = "", LEASE_STORE_ID: store_id }: Env) {
  const known = NUMBER.test(id) && NUMBER.test(token);
  return known ? { id: Number(id), token: Number(token), store_id: store_id ?? null } : null;
}

function locationOf(store: string | undefined, env: Env): string {
  return storeLocation(store ?? nonEmpty(env["LEASE_STORE"]), env);
}
