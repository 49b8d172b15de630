-- The call paths that hold the memory at the peak of each device: of Total Allocated, or without totals by sizes.
-- Row: a call path that holds memory at the peak of a device.
-- Order: the devices with the most allocated bytes first, then the most bytes.
-- Nothing: no allocation of the window is in use at a peak; the profiler records allocations with profile_memory=True.
-- Reads: memory
-- :start   window   window  the window's first nanosecond
-- :end     window   window  the first nanosecond after the window
-- :stacks  integer  none    how many call paths of each device
-- column trace        "trace"        text
-- column pid          "process"      id
-- column device       "device"       text
-- column bytes        "bytes"        bytes
-- column share        "share"        share
-- column allocations  "allocations"  count
-- column largest      "largest"      bytes
-- column headline     "from"         detail
-- column called_from  "called from, innermost first"  text
-- column stack        "stack"        detail
WITH
  event AS MATERIALIZED (
    SELECT
      memory.id,
      memory.address,
      memory.bytes,
      memory.total_allocated,
      call.trace,
      call.device,
      call.upid,
      DENSE_RANK() OVER (ORDER BY call.upid, memory.device_type, memory.device_id) AS place
    FROM memory_event AS memory
    JOIN memory_call AS call ON call.id = memory.id
    WHERE memory.ts >= :start AND memory.ts < :end AND call.is_complete
  ),
  paired AS (
    SELECT
      *,
      LEAD(id) OVER (PARTITION BY place, address, bytes = 0 ORDER BY id) AS next_id,
      SUM(bytes) OVER (PARTITION BY place ORDER BY id) AS in_use,
      SUM(bytes) FILTER (WHERE bytes > 0) OVER (PARTITION BY place) AS allocated_bytes
    FROM event
  ),
  peaked AS (
    SELECT
      *,
      FIRST_VALUE(id) OVER (
        PARTITION BY place ORDER BY total_allocated DESC, iif(total_allocated IS NULL, in_use, 0) DESC, id
      ) AS peak_id
    FROM paired
  ),
  held AS (
    SELECT
      peaked.place,
      peaked.allocated_bytes,
      peaked.trace,
      peaked.device,
      peaked.upid,
      MIN(peaked.id) AS first_id,
      SUM(peaked.bytes) AS bytes,
      SUM(SUM(peaked.bytes)) OVER (PARTITION BY peaked.place) AS held_bytes,
      COUNT(*) AS allocations,
      MAX(peaked.bytes) AS largest,
      ROW_NUMBER() OVER (
        PARTITION BY peaked.place ORDER BY SUM(peaked.bytes) DESC, COUNT(*) DESC, call.stack_id
      ) AS nth
    FROM peaked
    JOIN memory_call AS call ON call.id = peaked.id
    WHERE peaked.bytes > 0 AND peaked.id <= peaked.peak_id AND ifnull(peaked.next_id > peaked.peak_id, 1)
    GROUP BY peaked.place, call.stack_id
  )
SELECT
  held.trace,
  process.pid,
  held.device,
  held.bytes,
  1.0 * held.bytes / held.held_bytes AS share,
  held.allocations,
  held.largest,
  call.telling ->> 0 AS headline,
  (SELECT group_concat(value, ' in ') FROM json_each(call.telling) WHERE key < 3) AS called_from,
  call.stack
FROM held
JOIN memory_call AS call ON call.id = held.first_id
LEFT JOIN process ON process.upid = held.upid
WHERE held.nth <= ifnull(:stacks, held.nth)
ORDER BY held.allocated_bytes DESC, held.place, held.nth;
