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

import { LONGEST_MS } from "../../core/duration.ts";
import { DEFAULT_QUEUE, DEFAULT_SETTINGS, INPUT_LIMIT_BYTES } from "../../core/job.ts";
import { JOB_FIELD_NAMES, jobField } from "../../core/job_fields.ts";
import { DEFAULT_BACKOFF } from "../../core/retry.ts";
import { readValue } from "../../core/values.ts";
import { LEASE_AUTO } from "../shared/columns.ts";
import { AWAIT, DOOM, LOCK_CHILDREN, LOCK_PARENTS, UNBLOCK } from "./dependencies.ts";
import { literal } from "./session/trust.ts";
import { channelOf } from "./watch.ts";

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

/** `said` is SQL for the words. */
const refuse = (said: string) => `RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = ${said};`;

const HELPERS = String.raw`
CREATE OR REPLACE FUNCTION lease.text_value(name text, given jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF jsonb_typeof(given) = 'string' THEN RETURN given #>> '{}'; END IF;
  ${refuse("name || ' must be text'")}
END $$;

CREATE OR REPLACE FUNCTION lease.name_value(name text, given jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE said text := lease.text_value(name, given);
BEGIN
  IF said <> '' AND char_length(said) <= 255 AND said !~ '[\u0001-\u001f\u007f-\u009f]' THEN RETURN said; END IF;
  ${refuse("name || ' ' || given || ' is not a name: 1 to 255 characters, none of them control characters'")}
END $$;

-- A number, a text, or a list of them: by commas.
CREATE OR REPLACE FUNCTION lease.numerals(name text, given jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  CASE jsonb_typeof(given)
    WHEN 'string' THEN RETURN given #>> '{}';
    WHEN 'number' THEN RETURN trim_scale((given #>> '{}')::numeric)::text;
    WHEN 'array' THEN RETURN (SELECT string_agg(lease.numerals(name, item), ',') FROM jsonb_array_elements(given) AS item);
    ELSE ${refuse("name || ' must be a number, or a list of them'")}
  END CASE;
END $$;

CREATE OR REPLACE FUNCTION lease.duration_ms(name text, said text) RETURNS bigint LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  part text[];
  total numeric := 0;
BEGIN
  said := btrim(said);
  IF said = '0' THEN RETURN 0; END IF;
  IF said !~ '^(\d+(\.\d+)?(ms|s|m|h|d|w))+$' THEN
    ${refuse(`name || ' "' || said || '" is not a duration: write 500ms, 30s, 5m, 2h or 1d'`)}
  END IF;
  FOR part IN SELECT regexp_matches(said, '(\d+(?:\.\d+)?)(ms|s|m|h|d|w)', 'g') LOOP
    total := total + part[1]::numeric * CASE part[2] WHEN 'ms' THEN 1 WHEN 's' THEN 1000 WHEN 'm' THEN 60000
      WHEN 'h' THEN 3600000 WHEN 'd' THEN 86400000 ELSE 604800000 END;
  END LOOP;
  IF total > ${LONGEST_MS} THEN ${refuse("name || ' ' || said || ' is too long: at most 3650d'")} END IF;
  RETURN round(total);
END $$;

CREATE OR REPLACE FUNCTION lease.time_text(name text, given jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF jsonb_typeof(given) = 'string' THEN RETURN given #>> '{}'; END IF;
  ${refuse(`name || ' must be a time as text: "30s"'`)}
END $$;

CREATE OR REPLACE FUNCTION lease.backoff_value(name text, said text) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  usual CONSTANT jsonb := ${literal(JSON.stringify(DEFAULT_BACKOFF))};
  first_ms bigint;
  max_ms bigint;
BEGIN
  IF said IN ('none', '0') THEN RETURN usual || '{"first_ms": 0, "max_ms": 0}'; END IF;
  IF said LIKE 'fixed:%' THEN
    first_ms := lease.duration_ms(name, substr(said, 7));
    RETURN usual || jsonb_build_object('first_ms', first_ms, 'max_ms', first_ms, 'factor', 1);
  END IF;
  IF said LIKE '%..%..%' THEN ${refuse("name || ' has more than two ends: write 1s..10m'")} END IF;
  first_ms := lease.duration_ms(name, split_part(said, '..', 1));
  max_ms := CASE WHEN said LIKE '%..%' THEN lease.duration_ms(name, split_part(said, '..', 2))
    ELSE greatest((usual->>'max_ms')::bigint, first_ms) END;
  IF max_ms < first_ms THEN ${refuse("name || ' begins above its end'")} END IF;
  RETURN usual || jsonb_build_object('first_ms', first_ms, 'max_ms', max_ms);
END $$;

CREATE OR REPLACE FUNCTION lease.setting_value(name text, rule jsonb, given jsonb) RETURNS jsonb
  LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  kind text := rule->>'kind';
  said text;
  part text[];
  number numeric;
  found jsonb := '[]';
BEGIN
  IF kind = 'choice' THEN
    IF rule->'options' @> given AND jsonb_typeof(given) = 'string' THEN RETURN given; END IF;
    ${refuse("name || ' must be one of ' || (SELECT string_agg(word, ', ') FROM jsonb_array_elements_text(rule->'options') AS word)")}
  ELSIF kind = 'LINE' THEN
    IF btrim(lease.text_value(name, given)) <> '' THEN RETURN given; END IF;
    ${refuse("name || ' is empty: write the line to run'")}
  ELSIF kind = '' THEN
    IF jsonb_typeof(given) = 'boolean' THEN RETURN given; END IF;
    ${refuse("name || ' must be true or false'")}
  ELSIF kind LIKE 'TIME|%' AND given = rule->'special' THEN RETURN rule->'meaning';
  ELSIF kind LIKE 'TIME|%' OR kind = 'TIME' THEN RETURN to_jsonb(lease.duration_ms(name, lease.time_text(name, given)));
  ELSIF kind = 'TIMES' THEN RETURN lease.backoff_value(name, lease.time_text(name, given));
  END IF;
  said := lease.numerals(name, given);
  IF kind = 'SIZE' THEN
    part := regexp_match(btrim(said), '^(\d+)\s*([kmg]?)(?:i?b)?$', 'i');
    number := part[1]::numeric * CASE lower(part[2]) WHEN 'k' THEN 1024 WHEN 'm' THEN 1048576 WHEN 'g' THEN 1073741824 ELSE 1 END;
    IF number <= 1073741824 THEN RETURN to_jsonb(number); END IF;
    ${refuse(`name || ' "' || said || '" is not a size up to 1GiB: write 4096, 64k or 16MiB'`)}
  ELSIF kind = 'N' THEN
    IF said ~ '^[+-]?\d+$' AND said::numeric BETWEEN (rule->>'min')::numeric AND (rule->>'max')::numeric THEN
      RETURN to_jsonb(said::numeric);
    END IF;
    ${refuse(`name || ' "' || said || '" is not a whole number from ' || (rule->>'min') || ' to ' || (rule->>'max')`)}
  END IF;
  FOREACH said IN ARRAY string_to_array(said, ',') LOOP
    part := regexp_match(btrim(said), '^(\d{1,3})(?:-(\d{1,3}))?$');
    IF part IS NULL OR coalesce(part[2], part[1])::int > 255 OR part[1]::int > coalesce(part[2], part[1])::int THEN
      ${refuse(`name || ' "' || said || '" is not a list of exit codes: write 2,64-78 (0 to 255)'`)}
    END IF;
    found := found || jsonb_build_array(jsonb_build_array(part[1]::int, coalesce(part[2], part[1])::int));
  END LOOP;
  RETURN found;
END $$;

CREATE OR REPLACE FUNCTION lease.ids_value(name text, given jsonb) RETURNS bigint[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  word text;
  part text[];
  found bigint[] := '{}';
BEGIN
  FOREACH word IN ARRAY regexp_split_to_array(lease.numerals(name, given), '[,\s]+') LOOP
    CONTINUE WHEN word = '';
    part := regexp_match(word, '^(\d{1,15})(?:-(\d{1,15}))?$');
    IF part IS NULL OR part[1]::bigint < 1 OR coalesce(part[2], part[1])::bigint < part[1]::bigint THEN
      ${refuse(`name || ' "' || word || '" is not a job id: write 7, or 9-12 for a range'`)}
    END IF;
    IF coalesce(part[2], part[1])::bigint - part[1]::bigint + cardinality(found) >= 1000000 THEN
      ${refuse(`name || ' "' || word || '" is too many jobs at once'`)}
    END IF;
    found := found || ARRAY(SELECT generate_series(part[1]::bigint, coalesce(part[2], part[1])::bigint));
  END LOOP;
  IF cardinality(found) = 0 THEN ${refuse("name || ' names no job: write 7, or 9-12 for a range'")} END IF;
  RETURN found;
END $$;

CREATE OR REPLACE FUNCTION lease.names_value(name text, given jsonb) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE found text[];
BEGIN
  IF jsonb_typeof(given) NOT IN ('string', 'array')
    OR jsonb_path_exists(given, '$[*] ? (@.type() != "string")', silent => true) THEN
    ${refuse("name || ' must be a name, or a list of them'")}
  END IF;
  found := array_remove(string_to_array(CASE jsonb_typeof(given) WHEN 'string' THEN given #>> '{}'
    ELSE (SELECT string_agg(word, ',') FROM jsonb_array_elements_text(given) AS word) END, ','), '');
  IF coalesce(cardinality(found), 0) = 0 THEN
    ${refuse("name || ' names none: write one, or several with commas between them'")}
  END IF;
  RETURN found;
END $$;

-- As freeChildren does; of those that wait for these, only some are met, if they are named.
CREATE OR REPLACE FUNCTION lease.free_children(ended bigint[], newcomers bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
  looked bigint[] := ended;
  over bigint[] := ended;
  doomed bigint[];
  freed bigint;
BEGIN
  WHILE cardinality(looked) > 0 LOOP
    doomed := '{}';
    FOR freed IN EXECUTE $doom$ ${DOOM} $doom$ USING looked, newcomers LOOP doomed := doomed || freed; END LOOP;
    over := over || doomed;
    looked := doomed;
    newcomers := NULL;
  END LOOP;
  doomed := '{}';
  FOR freed IN EXECUTE $lock$ ${LOCK_CHILDREN} $lock$
    USING ARRAY(SELECT job_id FROM lease.dependencies WHERE parent_id = ANY (over)) LOOP doomed := doomed || freed; END LOOP;
  IF cardinality(doomed) > 0 THEN EXECUTE $free$ ${UNBLOCK} $free$ USING doomed; END IF;
END $$;
`;

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
    ${refuse(`'a job is one JSON object: {"argv": ["echo", "hi"]}'`)}
  END IF;
  -- It stands for NUL where a text of ours is stored.
  IF position(chr(65535) IN job::text) > 0 THEN ${refuse("'a job can''t contain the character U+FFFF'")} END IF;
  FOR name, given IN SELECT * FROM jsonb_each(job) LOOP
    CONTINUE WHEN jsonb_typeof(given) = 'null';
    CASE name
      WHEN 'argv' THEN
        IF jsonb_typeof(given) <> 'array' OR jsonb_path_exists(given, '$[*] ? (@.type() != "string")', silent => true) THEN
          ${refuse(`'argv must be a list of words: ["echo", "hi"]'`)}
        END IF;
        argv := given;
      WHEN 'shell' THEN
        IF btrim(lease.text_value(name, given)) = '' THEN ${refuse("'shell is empty: write the line to run'")} END IF;
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
      WHEN 'input' THEN
        input := convert_to(CASE jsonb_typeof(given) WHEN 'string' THEN given #>> '{}' ELSE given::text END, 'UTF8');
        IF octet_length(input) > ${INPUT_LIMIT_BYTES} THEN
          ${refuse("'the input has ' || octet_length(input) || ' bytes, and the limit is 1 MiB'")}
        END IF;
      WHEN 'cwd' THEN
        cwd := lease.text_value(name, given);
        IF cwd NOT LIKE '/%' THEN ${refuse("'cwd ' || given::text || ' is not an absolute path'")} END IF;
      WHEN 'env' THEN
        IF jsonb_typeof(given) <> 'object' OR EXISTS (SELECT FROM jsonb_each(given) AS variable (name, value)
            WHERE jsonb_typeof(value) <> 'string' OR variable.name = '' OR variable.name LIKE '%=%') THEN
          ${refuse(`'env must be variables and their texts: {"A": "1"}'`)}
        END IF;
        env := nullif(given, '{}');
      ELSE
        IF NOT rules ? name THEN
          ${refuse(`'there is no name "' || name || '" for a job in SQL; there are argv, shell, queue, task, input, key, if_exists, '
            || 'priority, delay, at, after, after_any, after_failed, after_task, cwd, env, ' || (SELECT string_agg(known, ', ') FROM jsonb_object_keys(rules) AS known)`)}
        END IF;
        settings := settings || jsonb_build_object(rules->name->>'setting', lease.setting_value(name, rules->name, given));
    END CASE;
  END LOOP;`;

const given = (name: string) => `coalesce(jsonb_typeof(job->'${name}'), 'null') <> 'null'`;

const CHECK = `
  IF ${given("argv")} AND ${given("shell")} THEN ${refuse("'argv and shell both say what to run: give one of them'")} END IF;
  IF ${given("at")} AND ${given("delay")} THEN ${refuse("'at and delay both say when: give one of them'")} END IF;
  IF ${given("if_exists")} AND key IS NULL THEN ${refuse("'if_exists says what to do about a key: give that as well'")} END IF;
  IF argv = '[]' AND input IS NULL THEN ${refuse("'there is no command: give argv, shell or input'")} END IF;
  IF argv->>0 = '' THEN ${refuse("'the command is empty'")} END IF;
  IF queue LIKE '%,%' OR queue = '*' THEN
    ${refuse(`'queue "' || queue || '" is not one that a worker can name: leave out commas and *'`)}
  END IF;
  IF jsonb_typeof(settings->'lease_ms') = 'number' AND (settings->>'lease_ms')::bigint < 1000 THEN
    ${refuse("'lease must be at least 1s'")}
  END IF;
  IF (settings->>'extension_ms')::bigint <= 0 THEN ${refuse("'extension must be longer than 0'")} END IF;
  IF jsonb_typeof(settings->'lease_ms') = 'number' AND (settings->>'extension_ms')::bigint > (settings->>'lease_ms')::bigint THEN
    ${refuse("'extension must not be longer than lease'")}
  END IF;
  IF (settings->>'interval_ms')::bigint * 2 >= coalesce((settings->>'extension_ms')::bigint,
      CASE WHEN jsonb_typeof(settings->'lease_ms') = 'number' THEN (settings->>'lease_ms')::bigint END) THEN
    ${refuse("'interval must be less than half of extension, or of lease'")}
  END IF;
  IF after && after_failed THEN ${refuse("'a job can''t both complete and fail: name it in after or in after_failed'")} END IF;
  IF settings->'timeout_ms' = '0' THEN ${refuse("'timeout must be longer than 0'")} END IF;`;

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
      settings, env, has_input)
    VALUES (CASE WHEN cardinality(parents) > 0 THEN 'blocked' WHEN due_ms > now_ms THEN 'scheduled' ELSE 'pending' END,
      enqueue.queue, enqueue.priority, due_ms, coalesce(settings->'retries', usual->'retries')::bigint,
      CASE WHEN settings->>'lease_ms' = 'auto' THEN ${LEASE_AUTO} ELSE (settings->>'lease_ms')::bigint END, now_ms,
      enqueue.task, enqueue.key, enqueue.argv::text, enqueue.cwd,
      (SELECT jsonb_object_agg(own.key, own.value) FROM jsonb_each(settings - 'retries' - 'lease_ms') AS own
        WHERE own.value <> usual->own.key)::text, env::text, input IS NOT NULL)
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
