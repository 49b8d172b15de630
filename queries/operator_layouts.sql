-- Inputs of operators that are not contiguous: some kernels read them more slowly, others copy them first. Operators without kernels are left out,
-- unless no operator has any; and channels-last tensors, which convolutions prefer.
-- Row: an operator and a tensor that is not contiguous.
-- Order: by GPU time, the most first, then by calls, operator, inputs and sizes.
-- Nothing: all inputs of operators with kernels are contiguous.
-- Reads: operators
-- :start      window  window  the window's first nanosecond
-- :end        window  window  the first nanosecond after the window
-- :window_on  window  window  what has to start in the window for a kernel: launch or kernel
-- column operator  "operator"     text
-- column inputs    "inputs"       text
-- column layout    "layout"       text
-- column dims      "sizes"        text
-- column strides   "strides"      text
-- column calls     "calls"        count
-- column gpu_ns    "GPU time"     ns
-- column headline  "called from"  text
-- column stacks    "stacks"       count
-- column stack     "stack"        detail
-- A call with several such tensors counts in several rows.
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
  tensor AS MATERIALIZED (
    SELECT
      first.args_id,
      tensor.value ->> 'inputs' AS inputs,
      tensor.value ->> 'layout' AS layout,
      tensor.value ->> 'dims' AS dims,
      tensor.value ->> 'strides' AS strides
    FROM (SELECT args_id, MIN(id) AS id FROM call WHERE args_id IS NOT NULL GROUP BY args_id) AS first
    JOIN op_call AS call ON call.id = first.id
    JOIN json_each(call.odd_tensors) AS tensor
    WHERE tensor.value ->> 'layout' <> 'channels-last'
  ),
  by_stack AS (
    SELECT
      call.name,
      tensor.inputs,
      tensor.layout,
      tensor.dims,
      tensor.strides,
      COUNT(*) AS calls,
      SUM(call.gpu_ns) AS gpu_ns,
      MIN(call.id) AS id,
      ROW_NUMBER() OVER (
        PARTITION BY call.name, tensor.inputs, tensor.dims, tensor.strides
        ORDER BY SUM(call.gpu_ns) DESC, COUNT(*) DESC, place.stack_id
      ) AS nth
    FROM call
    JOIN tensor ON tensor.args_id = call.args_id
    JOIN op_call AS place ON place.id = call.id
    GROUP BY call.name, tensor.inputs, tensor.dims, tensor.strides, place.stack_id
  ),
  found AS (
    SELECT
      name,
      inputs,
      layout,
      dims,
      strides,
      SUM(calls) AS calls,
      SUM(gpu_ns) AS gpu_ns,
      COUNT(*) AS stacks,
      MAX(id) FILTER (WHERE nth = 1) AS id
    FROM by_stack
    GROUP BY name, inputs, dims, strides
    HAVING SUM(gpu_ns) > 0 OR NOT (SELECT SUM(gpu_ns) > 0 FROM call)
  )
SELECT
  found.name AS operator,
  found.inputs,
  found.layout,
  found.dims,
  found.strides,
  found.calls,
  found.gpu_ns,
  (SELECT value FROM json_each(place.telling) WHERE value <> found.name LIMIT 1) AS headline,
  found.stacks,
  place.stack
FROM found
JOIN op_call AS place ON place.id = found.id
ORDER BY found.gpu_ns DESC, found.calls DESC, found.name, found.inputs, found.dims, found.strides;
