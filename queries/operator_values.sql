-- Inputs of operators that are neither tensors nor lists, and whose values differ between calls from one call path. Operators without kernels are left
-- out, unless no operator has any.
-- Row: an input of an operator with several values at one call path.
-- Order: by number of values, the most first, then by GPU time and calls.
-- Nothing: no scalar of an operator with kernels differs between calls from one stack.
-- Reads: operators
-- :start      window  window  the window's first nanosecond
-- :end        window  window  the first nanosecond after the window
-- :window_on  window  window  what has to start in the window for a kernel: launch or kernel
-- column operator   "operator"     text
-- column input      "input"        id
-- column values     "values"       count
-- column min        "from"         id
-- column max        "to"           id
-- column examples   "such as"      text
-- column calls      "calls"        count
-- column gpu_ns     "GPU time"     ns
-- column headline   "called from"  text
-- column stack      "stack"        detail
WITH
  call AS MATERIALIZED (
    SELECT
      op.id,
      op.name,
      slice.arg_set_id AS args_id,
      (
        SELECT ifnull(SUM(launch.gpu_ns), 0)
        FROM kernel_launch AS launch
        JOIN slice AS kernel ON kernel.id = launch.kernel_id
        WHERE launch.op_id = op.id
          AND iif(:window_on = 'kernel', kernel.ts, launch.window_ts) >= :start
          AND iif(:window_on = 'kernel', kernel.ts, launch.window_ts) < :end
      ) AS gpu_ns
    FROM op
    JOIN slice ON slice.id = op.id
    WHERE op.ts >= :start AND op.ts < :end
  ),
  -- Calls with equal arguments share them: each set is read once.
  scalar AS MATERIALIZED (
    SELECT first.args_id, CAST(scalar.key AS INTEGER) AS input, scalar.value
    FROM (SELECT args_id, MIN(id) AS id FROM call WHERE args_id IS NOT NULL GROUP BY args_id) AS first
    JOIN op_call AS call ON call.id = first.id
    JOIN json_each(call.scalars) AS scalar
  ),
  by_value AS (
    SELECT
      call.name,
      place.stack_id,
      scalar.input,
      scalar.value,
      COUNT(*) AS calls,
      SUM(call.gpu_ns) AS gpu_ns,
      MIN(call.id) AS id,
      ROW_NUMBER() OVER (PARTITION BY call.name, place.stack_id, scalar.input ORDER BY MIN(call.id)) AS nth,
      CASE
        WHEN scalar.value REGEXP '^[+-]?[0-9]{1,18}$' THEN CAST(scalar.value AS INTEGER)
        WHEN CAST(scalar.value AS INTEGER) || '' = scalar.value THEN CAST(scalar.value AS INTEGER)
        WHEN scalar.value REGEXP '^[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?$'
          AND abs(CAST(scalar.value AS REAL)) < 9e999 THEN CAST(scalar.value AS REAL)
      END AS number
    FROM call
    JOIN scalar ON scalar.args_id = call.args_id
    JOIN op_call AS place ON place.id = call.id
    GROUP BY call.name, place.stack_id, scalar.input, scalar.value
  ),
  found AS (
    SELECT
      name,
      stack_id,
      input,
      COUNT(*) AS different,
      iif(COUNT(number) = COUNT(*), MIN(number), NULL) AS least,
      iif(COUNT(number) = COUNT(*), MAX(number), NULL) AS most,
      group_concat(value, ', ' ORDER BY nth) FILTER (WHERE nth <= 2) AS examples,
      SUM(calls) AS calls,
      SUM(gpu_ns) AS gpu_ns,
      MIN(id) AS id
    FROM by_value
    GROUP BY name, stack_id, input
    HAVING COUNT(*) > 1 AND (SUM(gpu_ns) > 0 OR NOT (SELECT SUM(gpu_ns) > 0 FROM call))
  )
SELECT
  found.name AS operator,
  found.input,
  found.different AS "values",
  found.least AS min,
  found.most AS max,
  found.examples,
  found.calls,
  found.gpu_ns,
  (SELECT value FROM json_each(place.telling) WHERE value <> found.name LIMIT 1) AS headline,
  place.stack
FROM found
JOIN op_call AS place ON place.id = found.id
ORDER BY found.different DESC, found.gpu_ns DESC, found.calls DESC, found.name, found.stack_id, found.input;
