/**
 * `SELECT lease.enqueue('{"argv": ["echo", "hi"], "queue": "mail"}')`: a job that is there when the caller's own
 * transaction commits, and not before. It takes what a line of JSON takes, by the same names, with the same limits as far
 * as SQL can tell; what needs a file or an environment (`@file`, a variable without its value) is not taken, a working
 * folder is absolute, and `/` where none is named. The settings come from the rows of core/job_fields.ts, so a new one
 * of a known kind is taken here too.
 *
 * It runs as the owner of the store: a role that may do nothing but call it can add jobs. Whoever has that right decides
 * what gets executed, so nobody has it who was not given it.
 */

import { LATEST_MS, PATH_LIMIT_BYTES, WORDS_LIMIT_BYTES } from "../../../core/check_job.ts";
import { LONGEST_GATE } from "../../../core/gate.ts";
import { DEFAULT_QUEUE, DEFAULT_SETTINGS, INPUT_LIMIT_BYTES } from "../../../core/job.ts";
import { JOB_FIELD_NAMES, jobField } from "../../../core/job_fields.ts";
import { readValue } from "../../../core/values.ts";
import { LEASE_AUTO } from "../../shared/columns.ts";
import { AWAIT, LOCK_PARENTS, UNBLOCK } from "../dependencies.ts";
import { literal } from "../session/trust.ts";
import { channelOf } from "../watch.ts";
import { HELPERS, raise } from "./values.ts";

/** How a value is read, by what help calls it; what is of another kind can't be said in SQL. */
const KINDS = new Set(["TIME", "TIME|auto", "TIME|never", "SIZE", "N", "CODES", "TIMES", "LINE", ""]);

/** By name: the setting that it is, how it is read, and what it may be. */
function settingRules(): Record<string, object> {
  const rules: Record<string, object> = {};
  for (const name of JOB_FIELD_NAMES) {
    const { setting, value } = jobField(name);
    if (setting === undefined) continue;
    const options = "options" in value ? { options: value.options } : {};
    if (!("options" in value) && !KINDS.has(value.hint)) continue;
    const [special] = value.hint.startsWith("TIME|") ? value.words : [];
    rules[name] = {
      setting: setting.name,
      kind: "options" in value ? "choice" : value.hint,
      ...options,
      ...value.range,
      ...(special === undefined ? {} : { special, meaning: readValue(value, special, name) }),
    };
  }
  return rules;
}

const DECLARATIONS = (rules: string, usual: string) => `
  rules CONSTANT jsonb := ${literal(rules)};
  usual CONSTANT jsonb := ${literal(usual)};
  name text;
  given jsonb;
  argv jsonb := '[]';
  queue text := ${literal(DEFAULT_QUEUE)};
  task text;
  key text;
  if_exists text := 'skip';
  priority numeric := 0;
  at_ms bigint;
  delay_ms bigint;
  input bytea;
  cwd text := '/';
  env jsonb;
  after bigint[] := '{}';
  after_any bigint[] := '{}';
  after_failed bigint[] := '{}';
  after_task text[] := '{}';
  of_task bigint[];
  limits text[] := '{}';
  needs jsonb := '{}';
  gate text := '';
  parents bigint[];
  settings jsonb := '{}';
  now_ms bigint := lease.now_ms();
  due_ms bigint;
  owner record;
  parent record;
  ended bigint[] := '{}';
  new_id bigint;`;

/** Reads every name; what they may not say together comes after. */
const READ = String.raw`
  IF jsonb_typeof(job) IS DISTINCT FROM 'object' THEN
    ${raise(`'a job is one JSON object: {"argv": ["echo", "hi"]}'`)}
  END IF;
  -- It stands for NUL where a text of ours is stored.
  IF position(chr(65535) IN job::text) > 0 THEN ${raise("'a job can''t contain the character U+FFFF'")} END IF;
  FOR name, given IN SELECT * FROM jsonb_each(job) LOOP
    CONTINUE WHEN jsonb_typeof(given) = 'null';
    CASE name
      WHEN 'argv' THEN
        IF jsonb_typeof(given) <> 'array' OR jsonb_path_exists(given, '$[*] ? (@.type() != "string")', silent => true) THEN
          ${raise(`'argv must be a list of words: ["echo", "hi"]'`)}
        END IF;
        argv := given;
      WHEN 'shell' THEN
        IF btrim(lease.text_value(name, given)) = '' THEN ${raise("'shell is empty: write the line to run'")} END IF;
        argv := jsonb_build_array('sh', '-c', given);
      WHEN 'queue' THEN queue := lease.name_value(name, given);
      WHEN 'task' THEN task := lease.name_value(name, given);
      WHEN 'key' THEN key := lease.name_value(name, given);
      WHEN 'if_exists' THEN
        if_exists := lease.setting_value(name, '{"kind": "choice", "options": ["skip", "fail", "replace"]}', given) #>> '{}';
      WHEN 'priority' THEN
        priority := lease.setting_value(name, '{"kind": "N", "min": ${Number.MIN_SAFE_INTEGER}, "max": ${Number.MAX_SAFE_INTEGER}}', given);
      WHEN 'delay' THEN delay_ms := lease.duration_ms(name, lease.time_text(name, given));
      WHEN 'at' THEN at_ms := floor(extract(epoch FROM lease.text_value(name, given)::timestamptz) * 1000);
      WHEN 'after' THEN after := lease.ids_value(name, given);
      WHEN 'after_any' THEN after_any := lease.ids_value(name, given);
      WHEN 'after_failed' THEN after_failed := lease.ids_value(name, given);
      WHEN 'after_task' THEN after_task := lease.names_value(name, given);
      WHEN 'limit' THEN limits := lease.names_value(name, given);
      WHEN 'need' THEN needs := lease.needs_value(name, given);
      WHEN 'input' THEN
        input := convert_to(CASE jsonb_typeof(given) WHEN 'string' THEN given #>> '{}' ELSE given::text END, 'UTF8');
        IF octet_length(input) > ${INPUT_LIMIT_BYTES} THEN
          ${raise("'the input has ' || octet_length(input) || ' bytes, and the limit is 1 MiB'")}
        END IF;
      WHEN 'cwd' THEN
        cwd := lease.text_value(name, given);
        IF octet_length(cwd) > ${PATH_LIMIT_BYTES} THEN ${raise("'a working folder has a path of at most 4096 bytes'")} END IF;
        IF cwd NOT LIKE '/%' THEN ${raise("'cwd ' || given::text || ' is not an absolute path'")} END IF;
      WHEN 'env' THEN
        IF jsonb_typeof(given) <> 'object' OR EXISTS (SELECT FROM jsonb_each(given) AS variable (name, value)
            WHERE jsonb_typeof(value) <> 'string' OR variable.name = '' OR variable.name LIKE '%=%') THEN
          ${raise(`'env must be variables and their texts: {"A": "1"}'`)}
        END IF;
        env := nullif(given, '{}');
      ELSE
        IF NOT rules ? name THEN
          ${raise(`'there is no name "' || name || '" for a job in SQL; there are argv, shell, queue, task, input, key, if_exists, '
            || 'priority, delay, at, after, after_any, after_failed, after_task, limit, need, cwd, env, ' || (SELECT string_agg(known, ', ') FROM jsonb_object_keys(rules) AS known)`)}
        END IF;
        settings := settings || jsonb_build_object(rules->name->>'setting', lease.setting_value(name, rules->name, given));
    END CASE;
  END LOOP;`;

const given = (name: string) => `coalesce(jsonb_typeof(job->'${name}'), 'null') <> 'null'`;

const CHECK = `
  IF ${given("argv")} AND ${given("shell")} THEN ${raise("'argv and shell both say what to run: give one of them'")} END IF;
  IF ${given("at")} AND ${given("delay")} THEN ${raise("'at and delay both say when: give one of them'")} END IF;
  IF ${given("if_exists")} AND key IS NULL THEN ${raise("'if_exists says what to do about a key: give that as well'")} END IF;
  IF argv = '[]' AND input IS NULL THEN ${raise("'there is no command: give argv, shell or input'")} END IF;
  IF (SELECT sum(octet_length(word) + 1) FROM jsonb_array_elements_text(argv) AS word) - 1 > ${WORDS_LIMIT_BYTES} THEN
    ${raise("'the command has more than 1 MiB, which is the limit: put the data in a file, or pass it by input'")}
  END IF;
  IF (SELECT sum(octet_length(variable.key) + octet_length(variable.value) + 2)
      FROM jsonb_each_text(env) AS variable) - 1 > ${WORDS_LIMIT_BYTES} THEN
    ${raise("'its environment has more than 1 MiB, which is the limit: put the data in a file'")}
  END IF;
  IF at_ms NOT BETWEEN -${LATEST_MS} AND ${LATEST_MS} THEN ${raise("'a job can''t be put off beyond the year 9999'")} END IF;
  FOREACH name IN ARRAY limits LOOP
    IF lease.name_value('limit', to_jsonb(name)) ~ '["\\\\]' THEN
      ${raise(`'limit "' || name || '" is not one that can be joined: leave out , " and \\\\'`)}
    END IF;
  END LOOP;
  -- As gateText has it: the same text for the same gate.
  IF cardinality(limits) > 0 OR needs <> '{}' THEN
    gate := '[[' || coalesce((SELECT string_agg(to_json('=' || joined.name)::text, ',' ORDER BY joined.name COLLATE "C")
        FROM (SELECT DISTINCT unnest(limits) AS name) AS joined), '')
      || '],[' || coalesce((SELECT string_agg('[' || to_json(need.key)::text || ',' || need.value || ']', ',' ORDER BY need.key COLLATE "C")
        FROM jsonb_each_text(needs) AS need), '') || ']]';
    IF char_length(gate) > ${LONGEST_GATE} THEN
      ${raise(`'its limits and needs are too many: together they may have ${LONGEST_GATE} characters'`)}
    END IF;
  END IF;
  IF argv->>0 = '' THEN ${raise("'the command is empty'")} END IF;
  IF queue LIKE '%,%' OR queue = '*' THEN
    ${raise(`'queue "' || queue || '" is not one that a worker can name: leave out commas and *'`)}
  END IF;
  IF jsonb_typeof(settings->'lease_ms') = 'number' AND (settings->>'lease_ms')::bigint < 1000 THEN
    ${raise("'lease must be at least 1s'")}
  END IF;
  IF (settings->>'extension_ms')::bigint <= 0 THEN ${raise("'extension must be longer than 0'")} END IF;
  IF jsonb_typeof(settings->'lease_ms') = 'number' AND (settings->>'extension_ms')::bigint > (settings->>'lease_ms')::bigint THEN
    ${raise("'extension must not be longer than lease'")}
  END IF;
  IF (settings->>'interval_ms')::bigint * 2 >= coalesce((settings->>'extension_ms')::bigint,
      CASE WHEN jsonb_typeof(settings->'lease_ms') = 'number' THEN (settings->>'lease_ms')::bigint END) THEN
    ${raise("'interval must be less than half of extension, or of lease'")}
  END IF;
  IF after && after_failed THEN ${raise("'a job can''t both complete and fail: name it in after or in after_failed'")} END IF;
  IF settings->'timeout_ms' = '0' THEN ${raise("'timeout must be longer than 0'")} END IF;`;

/** The live job that has the key answers, is in the way, or makes room; then who is first has it. */
const INSERT = `
  FOREACH name IN ARRAY after_task LOOP
    of_task := ARRAY(SELECT jobs.id FROM lease.jobs WHERE jobs.task = name);
    IF cardinality(of_task) = 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', MESSAGE = 'there is no job of task ' || name || ' to wait for';
    END IF;
    after := after || of_task;
  END LOOP;
  parents := after || after_any || after_failed;
  due_ms := greatest(coalesce(at_ms, now_ms), now_ms + coalesce(delay_ms, 0));
  LOOP
    IF key IS NOT NULL THEN
      SELECT jobs.id, jobs.state INTO owner FROM lease.jobs WHERE jobs.key = enqueue.key AND finished_at_ms IS NULL;
      IF FOUND THEN
        IF if_exists = 'skip' THEN RETURN owner.id; END IF;
        IF if_exists = 'fail' OR owner.state = 'running' THEN
          RAISE EXCEPTION USING ERRCODE = 'unique_violation',
            MESSAGE = 'key ' || key || ' is taken by job ' || owner.id || ' (' || owner.state || ')';
        END IF;
        UPDATE lease.jobs SET state = 'cancelled', finished_at_ms = now_ms, reason = 'replaced by a new job with key ' || enqueue.key
          WHERE jobs.id = owner.id AND jobs.state IN ('pending', 'scheduled', 'blocked');
        CONTINUE WHEN NOT FOUND;
        PERFORM lease.free_children(ARRAY[owner.id], NULL);
      END IF;
    END IF;
    INSERT INTO lease.jobs (state, queue, priority, run_at_ms, retries, lease_ms, created_at_ms, task, key, argv, cwd,
      settings, env, gate, has_input)
    VALUES (CASE WHEN cardinality(parents) > 0 THEN 'blocked' WHEN due_ms > now_ms THEN 'scheduled' ELSE 'pending' END,
      enqueue.queue, enqueue.priority, due_ms, coalesce(settings->'retries', usual->'retries')::bigint,
      CASE WHEN settings->>'lease_ms' = 'auto' THEN ${LEASE_AUTO} ELSE (settings->>'lease_ms')::bigint END, now_ms,
      enqueue.task, enqueue.key, enqueue.argv::text, enqueue.cwd,
      (SELECT jsonb_object_agg(own.key, own.value) FROM jsonb_each(settings - 'retries' - 'lease_ms') AS own
        WHERE own.value <> usual->own.key)::text, env::text, enqueue.gate, input IS NOT NULL)
    ON CONFLICT (key) WHERE key IS NOT NULL AND finished_at_ms IS NULL DO NOTHING RETURNING jobs.id INTO new_id;
    EXIT WHEN FOUND;
  END LOOP;
  IF input IS NOT NULL THEN INSERT INTO lease.inputs (job_id, data) VALUES (new_id, input); END IF;
  IF cardinality(parents) > 0 THEN
    FOR parent IN EXECUTE $lock$ ${LOCK_PARENTS} $lock$ USING parents LOOP
      parents := array_remove(parents, parent.id);
      IF parent.finished THEN ended := ended || parent.id; END IF;
    END LOOP;
    IF cardinality(parents) > 0 THEN
      RAISE EXCEPTION USING ERRCODE = 'foreign_key_violation', MESSAGE = 'there is no job ' || parents[1] || ' to wait for';
    END IF;
    EXECUTE $await$ ${AWAIT} $await$ USING after || after_any || after_failed;
    INSERT INTO lease.dependencies (job_id, parent_id, kind)
      SELECT new_id, id, CASE WHEN id = ANY (after) THEN 'success' WHEN id = ANY (after_failed) THEN 'failure' ELSE 'any' END
      FROM (SELECT DISTINCT unnest(after || after_any || after_failed) AS id) AS wanted;
    PERFORM lease.free_children(ended, ARRAY[new_id]);
    EXECUTE $free$ ${UNBLOCK} $free$ USING ARRAY[new_id];
  END IF;`;

/** To be run by the owner, again after each change. */
export function enqueueFunction(schema: string): string {
  // In two parts, lest the channel's name be taken for the schema's.
  const channel = channelOf(schema).split(".").map(literal).join(" || '.' || ");
  const tell = `PERFORM pg_notify(${channel}, 'urgent sql');`;
  const declarations = DECLARATIONS(JSON.stringify(settingRules()), JSON.stringify(DEFAULT_SETTINGS));
  return `${HELPERS}
CREATE OR REPLACE FUNCTION lease.enqueue(job jsonb) RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER
  SET search_path = pg_catalog, pg_temp AS $enqueue$
#variable_conflict use_column
<<enqueue>>
DECLARE ${declarations}
BEGIN ${READ}${CHECK}${INSERT}
  ${tell}
  RETURN new_id;
END $enqueue$;
REVOKE ALL ON FUNCTION lease.enqueue(jsonb) FROM PUBLIC;
`;
}
