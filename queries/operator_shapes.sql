-- Operators with several shapes, which are the sizes and types of all inputs: each shape may choose or compile kernels anew. Operators without kernels
-- are left out, unless no operator has any.
-- Row: an operator with several shapes.
-- Order: by GPU time, the most first, then by calls, then by name.
-- Nothing: no operator with kernels has more than one shape.
-- Reads: operators
-- :start      window  window  the window's first nanosecond
-- :end        window  window  the first nanosecond after the window
-- :window_on  window  window  what has to start in the window for a kernel: launch or kernel
-- column operator              "operator"      text
-- column calls                 "calls"         count
-- column shapes                "shapes"        count
-- column gpu_ns                "GPU time"      ns
-- column varying_sizes         "sizes that vary"  count
-- column varies_at             "the only one, in input_dims"  text
-- column varies_from           "from"          count
-- column varies_to             "to"            count
-- column most_frequent_shape   "most frequent shape"  text
-- column most_frequent_dims    "its sizes"     detail
-- column most_frequent_types   "its types"     detail
-- column most_frequent_calls   "its calls"     count
-- column most_frequent_gpu_ns  "its GPU time"  ns
-- column most_costly_shape     "costliest shape"  text
-- column most_costly_dims      "its sizes"     detail
-- column most_costly_types     "its types"     detail
-- column most_costly_calls     "its calls"     count
-- column most_costly_gpu_ns    "its GPU time"  ns
-- column headline              "called from"   text
-- column stacks                "stacks"        count
-- column stack                 "stack"         detail
-- Sizes that are always equal to each other count as one size that varies.
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
  arguments AS MATERIALIZED (
    SELECT first.args_id, call.input_dims AS dims, ifnull(call.input_types, '') AS types, call.shape
    FROM (SELECT args_id, MIN(id) AS id FROM call WHERE args_id IS NOT NULL GROUP BY args_id) AS first
    JOIN op_call AS call ON call.id = first.id
    WHERE call.input_dims IS NOT NULL
  ),
  shaped AS MATERIALIZED (
    SELECT
      call.id,
      call.name,
      call.gpu_ns,
      arguments.dims,
      arguments.types,
      arguments.shape,
      MIN(call.id) OVER (PARTITION BY arguments.dims, arguments.types) AS first_id
    FROM call
    JOIN arguments ON arguments.args_id = call.args_id
  ),
  by_shape AS MATERIALIZED (
    SELECT
      name,
      dims,
      types,
      shape,
      first_id,
      COUNT(*) AS calls,
      SUM(gpu_ns) AS gpu_ns,
      ROW_NUMBER() OVER (PARTITION BY name ORDER BY COUNT(*) DESC, SUM(gpu_ns) DESC, first_id) AS by_calls,
      ROW_NUMBER() OVER (PARTITION BY name ORDER BY SUM(gpu_ns) DESC, COUNT(*) DESC, first_id) AS by_gpu
    FROM shaped
    GROUP BY name, first_id
  ),
  by_name AS MATERIALIZED (
    SELECT name, SUM(calls) AS calls, COUNT(*) AS shapes, SUM(gpu_ns) AS gpu_ns
    FROM by_shape
    GROUP BY name
    HAVING COUNT(*) > 1 AND (SUM(gpu_ns) > 0 OR NOT (SELECT SUM(gpu_ns) > 0 FROM call))
  ),
  by_stack AS (
    SELECT
      shaped.name,
      MIN(shaped.id) AS id,
      COUNT(*) OVER (PARTITION BY shaped.name) AS stacks,
      ROW_NUMBER() OVER (
        PARTITION BY shaped.name ORDER BY SUM(shaped.gpu_ns) DESC, COUNT(*) DESC, place.stack_id
      ) AS nth
    FROM shaped
    JOIN by_name ON by_name.name = shaped.name
    JOIN op_call AS place ON place.id = shaped.id
    GROUP BY shaped.name, place.stack_id
  ),
  -- Each size of each shape: `$[0][1]`, or in a list of tensors `$[0][2][1]`.
  size AS MATERIALIZED (
    SELECT by_shape.name, by_shape.first_id, size.id AS nth, size.fullkey, size.value
    FROM by_shape
    JOIN by_name ON by_name.name = by_shape.name
    JOIN json_tree(iif(json_valid(by_shape.dims), by_shape.dims, '[]')) AS size ON size.atom IS NOT NULL
  ),
  positions AS (
    SELECT
      name,
      first_id,
      group_concat(fullkey, ' ' ORDER BY nth) AS keys,
      COUNT(*) FILTER (WHERE typeof(value) <> 'integer') AS odd
    FROM size
    GROUP BY name, first_id
  ),
  -- The operators whose shapes differ in sizes alone.
  alike AS (
    SELECT by_shape.name
    FROM by_shape
    JOIN by_name ON by_name.name = by_shape.name
    LEFT JOIN positions ON positions.name = by_shape.name AND positions.first_id = by_shape.first_id
    GROUP BY by_shape.name
    HAVING COUNT(DISTINCT by_shape.types) = 1
      AND MIN(json_valid(by_shape.dims)) = 1
      AND COUNT(DISTINCT iif(json_valid(by_shape.dims), json_array_length(by_shape.dims), NULL)) = 1
      AND COUNT(DISTINCT ifnull(positions.keys, '')) = 1
      AND ifnull(SUM(positions.odd), 0) = 0
  ),
  varying AS (
    SELECT
      size.name,
      size.fullkey,
      group_concat(size.value, ',' ORDER BY size.first_id) AS values_by_shape,
      MIN(size.value) AS least,
      MAX(size.value) AS most
    FROM size
    JOIN alike ON alike.name = size.name
    GROUP BY size.name, size.fullkey
    HAVING MIN(size.value) <> MAX(size.value)
  ),
  varies AS (
    SELECT
      alike.name,
      COUNT(DISTINCT varying.values_by_shape) AS sizes,
      group_concat(substr(varying.fullkey, 2), ' = ' ORDER BY varying.fullkey) AS at,
      MIN(varying.least) AS least,
      MAX(varying.most) AS most
    FROM alike
    LEFT JOIN varying ON varying.name = alike.name
    GROUP BY alike.name
  )
SELECT
  by_name.name AS operator,
  by_name.calls,
  by_name.shapes,
  by_name.gpu_ns,
  varies.sizes AS varying_sizes,
  iif(varies.sizes = 1, varies.at, NULL) AS varies_at,
  iif(varies.sizes = 1, varies.least, NULL) AS varies_from,
  iif(varies.sizes = 1, varies.most, NULL) AS varies_to,
  frequent.shape AS most_frequent_shape,
  frequent.dims AS most_frequent_dims,
  frequent.types AS most_frequent_types,
  frequent.calls AS most_frequent_calls,
  frequent.gpu_ns AS most_frequent_gpu_ns,
  costly.shape AS most_costly_shape,
  costly.dims AS most_costly_dims,
  costly.types AS most_costly_types,
  costly.calls AS most_costly_calls,
  costly.gpu_ns AS most_costly_gpu_ns,
  (SELECT value FROM json_each(place.telling) WHERE value <> by_name.name LIMIT 1) AS headline,
  by_stack.stacks,
  place.stack
FROM by_name
JOIN by_shape AS frequent ON frequent.name = by_name.name AND frequent.by_calls = 1
JOIN by_shape AS costly ON costly.name = by_name.name AND costly.by_gpu = 1
JOIN by_stack ON by_stack.name = by_name.name AND by_stack.nth = 1
JOIN op_call AS place ON place.id = by_stack.id
LEFT JOIN varies ON varies.name = by_name.name
ORDER BY by_name.gpu_ns DESC, by_name.calls DESC, by_name.name;
