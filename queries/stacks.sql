-- The code that launched the collective kernels, how often, and at what cost: the main question, for the whole trace and with full call paths.
-- Row: a call stack that launched collective kernels.
-- Order: by exposed time, descending, then by the stack. No parameters.
-- Nothing: no collective kernel of the trace has a launch.
-- column capture     "captured by"   text
-- column forward     "forward pass"  text
-- column thread      "thread"        text
-- column stack       "stack"         text
-- column count       "count"         count
-- column gpu_ns      "GPU time"      ns
-- column exposed_ns  "exposed"       ns
-- The thread is NULL for the main one; capture and forward are the call paths of the graph's capture and of the forward pass.
WITH RECURSIVE
  launch AS (
    SELECT path_id, forward_path_id, capture_path_id, helper_thread, gpu_ns, exposed_ns
    FROM kernel_launch
    WHERE family IS NOT NULL AND unattributed IS NULL
  ),
  -- Climbs from the last frame of each path, one caller per step.
  climb (path_id, caller_id, frame, up) AS (
    SELECT id, parent_id, name, 0
    FROM call_path
    WHERE id IN (
      SELECT path_id FROM launch
      UNION SELECT forward_path_id FROM launch
      UNION SELECT capture_path_id FROM launch
    )
    UNION ALL
    SELECT climb.path_id, caller.parent_id, caller.name, climb.up + 1
    FROM climb
    JOIN call_path AS caller ON caller.id = climb.caller_id
  ),
  path AS MATERIALIZED (
    -- group_concat takes rows as they come: an ORDER BY within it needs SQLite 3.44.
    SELECT path_id, group_concat(frame, ' -> ') AS frames
    FROM (SELECT path_id, frame FROM climb ORDER BY path_id, up DESC)
    GROUP BY path_id
  )
SELECT
  capture.frames AS capture,
  forward.frames AS forward,
  launch.helper_thread AS thread,
  stack.frames AS stack,
  COUNT(*) AS count,
  SUM(launch.gpu_ns) AS gpu_ns,
  SUM(launch.exposed_ns) AS exposed_ns
FROM launch
LEFT JOIN path AS stack ON stack.path_id = launch.path_id
LEFT JOIN path AS forward ON forward.path_id = launch.forward_path_id
LEFT JOIN path AS capture ON capture.path_id = launch.capture_path_id
GROUP BY capture.frames, forward.frames, launch.helper_thread, stack.frames
ORDER BY exposed_ns DESC, stack, forward, capture, thread;
