/** Values as people write them, read in SQL: the twin of core/values.ts, for `lease.enqueue`. */

import { LONGEST_MS } from "../../../core/duration.ts";
import { DEFAULT_BACKOFF } from "../../../core/retry.ts";
import { DOOM, LOCK_CHILDREN, UNBLOCK } from "../dependencies.ts";
import { literal } from "../session/trust.ts";

/** `said` is SQL for the words. */
export const raise = (said: string) => `RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = ${said};`;

export const HELPERS = String.raw`
CREATE OR REPLACE FUNCTION lease.text_value(name text, given jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF jsonb_typeof(given) = 'string' THEN RETURN given #>> '{}'; END IF;
  ${raise("name || ' must be text'")}
END $$;

CREATE OR REPLACE FUNCTION lease.name_value(name text, given jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE said text := lease.text_value(name, given);
BEGIN
  IF said <> '' AND char_length(said) <= 255 AND said !~ '[\u0001-\u001f\u007f-\u009f]' THEN RETURN said; END IF;
  ${raise("name || ' ' || given || ' is not a name: 1 to 255 characters, none of them control characters'")}
END $$;

-- A number, a text, or a list of them: by commas.
CREATE OR REPLACE FUNCTION lease.numerals(name text, given jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  CASE jsonb_typeof(given)
    WHEN 'string' THEN RETURN given #>> '{}';
    WHEN 'number' THEN RETURN trim_scale((given #>> '{}')::numeric)::text;
    WHEN 'array' THEN RETURN (SELECT string_agg(lease.numerals(name, item), ',') FROM jsonb_array_elements(given) AS item);
    ELSE ${raise("name || ' must be a number, or a list of them'")}
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
    ${raise(`name || ' "' || said || '" is not a duration: write 500ms, 30s, 5m, 2h or 1d'`)}
  END IF;
  FOR part IN SELECT regexp_matches(said, '(\d+(?:\.\d+)?)(ms|s|m|h|d|w)', 'g') LOOP
    total := total + part[1]::numeric * CASE part[2] WHEN 'ms' THEN 1 WHEN 's' THEN 1000 WHEN 'm' THEN 60000
      WHEN 'h' THEN 3600000 WHEN 'd' THEN 86400000 ELSE 604800000 END;
  END LOOP;
  IF total > ${LONGEST_MS} THEN ${raise("name || ' ' || said || ' is too long: at most 3650d'")} END IF;
  RETURN round(total);
END $$;

CREATE OR REPLACE FUNCTION lease.time_text(name text, given jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  IF jsonb_typeof(given) = 'string' THEN RETURN given #>> '{}'; END IF;
  ${raise(`name || ' must be a time as text: "30s"'`)}
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
  IF said LIKE '%..%..%' THEN ${raise("name || ' has more than two ends: write 1s..10m'")} END IF;
  first_ms := lease.duration_ms(name, split_part(said, '..', 1));
  max_ms := CASE WHEN said LIKE '%..%' THEN lease.duration_ms(name, split_part(said, '..', 2))
    ELSE greatest((usual->>'max_ms')::bigint, first_ms) END;
  IF max_ms < first_ms THEN ${raise("name || ' begins above its end'")} END IF;
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
    ${raise("name || ' must be one of ' || (SELECT string_agg(word, ', ') FROM jsonb_array_elements_text(rule->'options') AS word)")}
  ELSIF kind = 'LINE' THEN
    IF btrim(lease.text_value(name, given)) <> '' THEN RETURN given; END IF;
    ${raise("name || ' is empty: write the line to run'")}
  ELSIF kind = '' THEN
    IF jsonb_typeof(given) = 'boolean' THEN RETURN given; END IF;
    ${raise("name || ' must be true or false'")}
  ELSIF kind LIKE 'TIME|%' AND given = rule->'special' THEN RETURN rule->'meaning';
  ELSIF kind LIKE 'TIME|%' OR kind = 'TIME' THEN RETURN to_jsonb(lease.duration_ms(name, lease.time_text(name, given)));
  ELSIF kind = 'TIMES' THEN RETURN lease.backoff_value(name, lease.time_text(name, given));
  END IF;
  said := lease.numerals(name, given);
  IF kind = 'SIZE' THEN
    part := regexp_match(btrim(said), '^(\d+)\s*([kmgt]?)(?:i?b)?$', 'i');
    number := part[1]::numeric * CASE lower(part[2]) WHEN 'k' THEN 1024 WHEN 'm' THEN 1048576 WHEN 'g' THEN 1073741824 WHEN 't' THEN 1099511627776 ELSE 1 END;
    IF number BETWEEN (rule->>'min')::numeric AND (rule->>'max')::numeric THEN RETURN to_jsonb(number); END IF;
    ${raise(`name || ' "' || said || '" is not a size that it can have: write 4096, 64k or 16MiB'`)}
  ELSIF kind = 'N' THEN
    -- Where it need not be whole, its least is not either.
    IF said ~ (CASE WHEN rule->>'min' LIKE '%.%' THEN '^\d+(\.\d+)?$' ELSE '^[+-]?\d+$' END)
      AND said::numeric BETWEEN (rule->>'min')::numeric AND (rule->>'max')::numeric THEN
      RETURN to_jsonb(said::numeric);
    END IF;
    ${raise(`name || ' "' || said || '" is not a whole number from ' || (rule->>'min') || ' to ' || (rule->>'max')`)}
  END IF;
  FOREACH said IN ARRAY string_to_array(said, ',') LOOP
    part := regexp_match(btrim(said), '^(\d{1,3})(?:-(\d{1,3}))?$');
    IF part IS NULL OR coalesce(part[2], part[1])::int > 255 OR part[1]::int > coalesce(part[2], part[1])::int THEN
      ${raise(`name || ' "' || said || '" is not a list of exit codes: write 2,64-78 (0 to 255)'`)}
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
      ${raise(`name || ' "' || word || '" is not a job id: write 7, or 9-12 for a range'`)}
    END IF;
    IF coalesce(part[2], part[1])::bigint - part[1]::bigint + cardinality(found) >= 1000000 THEN
      ${raise(`name || ' "' || word || '" is too many jobs at once'`)}
    END IF;
    found := found || ARRAY(SELECT generate_series(part[1]::bigint, coalesce(part[2], part[1])::bigint));
  END LOOP;
  IF cardinality(found) = 0 THEN ${raise("name || ' names no job: write 7, or 9-12 for a range'")} END IF;
  RETURN found;
END $$;

CREATE OR REPLACE FUNCTION lease.names_value(name text, given jsonb) RETURNS text[] LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE found text[];
BEGIN
  IF jsonb_typeof(given) NOT IN ('string', 'array')
    OR jsonb_path_exists(given, '$[*] ? (@.type() != "string")', silent => true) THEN
    ${raise("name || ' must be a name, or a list of them'")}
  END IF;
  found := array_remove(string_to_array(CASE jsonb_typeof(given) WHEN 'string' THEN given #>> '{}'
    ELSE (SELECT string_agg(word, ',') FROM jsonb_array_elements_text(given) AS word) END, ','), '');
  IF coalesce(cardinality(found), 0) = 0 THEN
    ${raise("name || ' names none: write one, or several with commas between them'")}
  END IF;
  RETURN found;
END $$;

-- By name, how much: gpu, gpu=2, mem=8G, several by commas, a list of them, or an object.
CREATE OR REPLACE FUNCTION lease.needs_value(name text, given jsonb) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  word text;
  part text[];
  amount numeric;
  found jsonb := '{}';
BEGIN
  IF jsonb_typeof(given) = 'object' THEN
    given := to_jsonb(ARRAY(SELECT need.key || '=' || need.value FROM jsonb_each_text(given) AS need));
  END IF;
  FOREACH word IN ARRAY lease.names_value(name, given) LOOP
    part := regexp_match(word, '^([A-Za-z][A-Za-z0-9_-]{0,62})(?:=(\d{1,15}(?:\.\d{1,3})?)([KMGTkmgt]?)(?:[iI]?[bB])?)?$');
    amount := coalesce(part[2], '1')::numeric * 1024 ^ position(upper(coalesce(nullif(part[3], ''), '-')) IN 'KMGT');
    IF part IS NULL OR amount < 1 OR amount <> trunc(amount) OR amount > ${Number.MAX_SAFE_INTEGER} THEN
      ${raise(`name || ' "' || word || '" is not something to need: write gpu, gpu=2 or mem=8G'`)}
    END IF;
    found := found || jsonb_build_object(part[1], trunc(amount));
  END LOOP;
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
