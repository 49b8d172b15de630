-- Values of memory events that do not fit their keys, and so are in no sum.
-- Row: a key of memory events with such values.
-- Order: by key.
-- Nothing: all values of memory events fit their keys.
-- Reads: memory
-- :start  window  window  the window's first nanosecond
-- :end    window  window  the first nanosecond after the window
-- column key       "key"        text
-- column count     "events"     count
-- column examples  "such as"    text
WITH
  value AS (
    SELECT
      field.key,
      call.id,
      iif(length(field.value) > 80, substr(field.value, 1, 80) || '…', field.value) AS text
    FROM memory_call AS call
    JOIN memory_event AS event ON event.id = call.id
    JOIN json_each(call.malformed) AS field
    WHERE event.ts >= :start AND event.ts < :end
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
