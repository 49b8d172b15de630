-- Inputs and counters of operators that do not fit their keys, and so are in no other answer.
-- Row: a key of operators with such values.
-- Order: by key.
-- Nothing: all inputs and counters of operators fit their keys.
-- Reads: operators
-- :start  window  window  the window's first nanosecond
-- :end    window  window  the first nanosecond after the window
-- column key       "key"        text
-- column count     "operators"  count
-- column examples  "such as"    text
WITH
  value AS (
    SELECT
      field.key,
      call.id,
      iif(length(field.value) > 80, substr(field.value, 1, 80) || '…', field.value) AS text
    FROM op_call AS call
    JOIN op ON op.id = call.id
    JOIN json_each(call.malformed) AS field
    WHERE op.ts >= :start AND op.ts < :end
  ),
  example AS (
    SELECT key, text, COUNT(*) AS count, ROW_NUMBER() OVER (PARTITION BY key ORDER BY MIN(id)) AS nth
    FROM value
    GROUP BY key, text
  )
SELECT
  key,
  SUM(count) AS count,
  json_group_array(text ORDER BY nth) FILTER (WHERE nth <= 3) AS examples
FROM example
GROUP BY key
ORDER BY key;
