-- The operators of a window: how many there are, with which recorded arguments, and how much GPU time is below them.
-- Row: all operators that begin in the window.
-- Order: none, there is one row.
-- Nothing: the window has no operator.
-- Reads: operators
-- :start      window  window  the window's first nanosecond
-- :end        window  window  the first nanosecond after the window
-- :window_on  window  window  what has to start in the window for a kernel: launch or kernel
-- column operators             "operators"                 count
-- column kernels               "kernels"                   count
-- column gpu_ns                "GPU time"                  ns
-- column kernels_below         "below an operator with arguments"  count
-- column gpu_below_ns          "their GPU time"            ns
-- column gpu_below_share       "share"                     share
-- column with_dims             "with Input Dims"           count
-- column with_types            "with Input type"           count
-- column with_strides          "with Input Strides"        count
-- column with_concrete         "with Concrete Inputs"      count
-- column with_counter          "with a counter"            count
-- column channels_last         "with channels-last inputs"  count
-- column channels_last_gpu_ns  "their GPU time"            ns
-- A kernel belongs to one operator: the innermost one with recorded arguments around its launch.
WITH
  kernel AS MATERIALIZED (
    SELECT launch.gpu_ns, op.id AS op_id
    FROM kernel_launch AS launch
    JOIN slice AS kernel ON kernel.id = launch.kernel_id
    LEFT JOIN op ON op.id = launch.op_id AND op.ts >= :start AND op.ts < :end
    WHERE iif(:window_on = 'kernel', kernel.ts, launch.window_ts) >= :start
      AND iif(:window_on = 'kernel', kernel.ts, launch.window_ts) < :end
  ),
  gpu AS MATERIALIZED (
    SELECT op_id, SUM(gpu_ns) AS gpu_ns FROM kernel WHERE op_id IS NOT NULL GROUP BY op_id
  ),
  -- Calls with equal arguments share them: each set is read once.
  arguments AS MATERIALIZED (
    SELECT
      first.args_id,
      first.calls,
      op.input_dims,
      op.input_types,
      op.input_strides,
      op.concrete_inputs,
      COALESCE(
        op.cycles, op.instructions, op.cache_misses, op.cache_references, op.branch_misses, op.branches, op.pagefaults,
        op.backend_stall_cycles, op.frontend_stall_cycles
      ) AS counter,
      EXISTS (
        SELECT 1 FROM json_each(call.odd_tensors) AS tensor WHERE tensor.value ->> 'layout' = 'channels-last'
      ) AS is_channels_last
    FROM (
      SELECT slice.arg_set_id AS args_id, MIN(op.id) AS op_id, COUNT(*) AS calls
      FROM op
      JOIN slice ON slice.id = op.id
      WHERE op.ts >= :start AND op.ts < :end
      GROUP BY slice.arg_set_id
    ) AS first
    JOIN op ON op.id = first.op_id
    JOIN op_call AS call ON call.id = first.op_id
  ),
  below AS (
    SELECT COUNT(*) AS kernels, SUM(gpu_ns) AS gpu_ns, COUNT(op_id) AS below, SUM(gpu_ns) FILTER (WHERE op_id IS NOT NULL) AS below_ns
    FROM kernel
  )
SELECT
  SUM(calls) AS operators,
  below.kernels,
  ifnull(below.gpu_ns, 0) AS gpu_ns,
  below.below AS kernels_below,
  ifnull(below.below_ns, 0) AS gpu_below_ns,
  1.0 * ifnull(below.below_ns, 0) / below.gpu_ns AS gpu_below_share,
  -- An operator with types has sizes and strides, too: empty lists have no rows.
  ifnull(SUM(calls) FILTER (WHERE COALESCE(input_dims, input_types) IS NOT NULL), 0) AS with_dims,
  ifnull(SUM(calls) FILTER (WHERE input_types IS NOT NULL), 0) AS with_types,
  ifnull(
    SUM(calls) FILTER (
      WHERE COALESCE(input_strides, iif((SELECT COUNT(input_strides) > 0 FROM arguments), input_types, NULL)) IS NOT NULL
    ),
    0
  ) AS with_strides,
  ifnull(SUM(calls) FILTER (WHERE concrete_inputs IS NOT NULL), 0) AS with_concrete,
  ifnull(SUM(calls) FILTER (WHERE counter IS NOT NULL), 0) AS with_counter,
  ifnull(SUM(calls) FILTER (WHERE is_channels_last), 0) AS channels_last,
  (
    SELECT ifnull(SUM(gpu.gpu_ns), 0)
    FROM gpu
    JOIN slice ON slice.id = gpu.op_id
    JOIN arguments AS of_call ON of_call.args_id = slice.arg_set_id
    WHERE of_call.is_channels_last
  ) AS channels_last_gpu_ns
FROM arguments
CROSS JOIN below
HAVING COUNT(*) > 0;
