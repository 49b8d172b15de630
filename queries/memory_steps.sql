-- The memory peaks of each step on each device. A step begins with the memory already in use.
-- Row: a step with memory events, on one device.
-- Order: the devices with the most allocated bytes first, then the steps by start.
-- Nothing: no memory event of the window is in a step; the profiler records them with profile_memory=True.
-- Reads: memory
-- :start  window  window  the window's first nanosecond
-- :end    window  window  the first nanosecond after the window
-- column trace              "trace"      text
-- column pid                "process"    id
-- column device             "device"     text
-- column step               "step"       text
-- column ts                 "start"      time
-- column dur_ns             "length"     ns
-- column events             "events"     count
-- column peak_allocated     "allocated"  bytes
-- column peak_allocated_ts  "after"      time
-- column peak_reserved      "reserved"   bytes
-- column peak_reserved_ts   "after"      detail
WITH
  event AS MATERIALIZED (
    SELECT
      memory.id,
      memory.ts,
      memory.bytes,
      memory.total_allocated,
      memory.total_reserved,
      call.trace,
      call.device,
      call.upid,
      DENSE_RANK() OVER (ORDER BY call.upid, memory.device_type, memory.device_id) AS place
    FROM memory_event AS memory
    JOIN memory_call AS call ON call.id = memory.id
    WHERE memory.ts >= :start AND memory.ts < :end AND call.is_complete
  ),
  change AS MATERIALIZED (
    SELECT
      *,
      LAG(total_allocated) OVER device AS allocated_before,
      LAG(total_reserved) OVER device AS reserved_before,
      SUM(bytes) FILTER (WHERE bytes > 0) OVER (PARTITION BY place) AS allocated_bytes
    FROM event
    WINDOW device AS (PARTITION BY place ORDER BY id)
  ),
  -- Slices of the CPU whose names mark steps. An unfinished one lasts until the end of the trace.
  marked AS MATERIALIZED (
    SELECT
      slice.id,
      slice.name,
      slice.ts,
      iif(slice.dur < 0, MAX(trace_end(), slice.ts), slice.ts + slice.dur) AS end_ts,
      thread_track.utid,
      ifnull(thread.upid, process_track.upid) AS upid,
      step_priority(slice.name, slice.category) AS priority
    FROM slice_name
    CROSS JOIN slice ON slice.name_id = slice_name.name_id AND slice.kind IN ('cpu', 'frame')
    LEFT JOIN thread_track ON thread_track.id = slice.track_id
    LEFT JOIN thread ON thread.utid = thread_track.utid
    LEFT JOIN process_track ON process_track.id = slice.track_id
    WHERE slice_name.of_cpu
      AND step_priority(slice_name.name, 'user_annotation') IS NOT NULL
      AND slice.ts >= :start
      AND slice.ts < :end
  ),
  -- The surest marks, without those inside of others on their thread.
  best AS (
    SELECT
      *,
      MAX(end_ts) OVER (PARTITION BY utid ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS covered_ts
    FROM marked
    WHERE priority = (SELECT MIN(priority) FROM marked)
  ),
  step AS MATERIALIZED (
    SELECT * FROM best WHERE end_ts > ifnull(covered_ts, ts)
  ),
  within AS (
    SELECT
      step.id AS step_id,
      step.name AS step,
      step.ts AS step_ts,
      step.end_ts - step.ts AS dur_ns,
      change.*,
      FIRST_VALUE(change.allocated_before) OVER by_time AS allocated_at_start,
      FIRST_VALUE(change.reserved_before) OVER by_time AS reserved_at_start,
      FIRST_VALUE(change.total_allocated) OVER by_allocated AS most_allocated,
      FIRST_VALUE(change.ts) OVER by_allocated AS most_allocated_ts,
      FIRST_VALUE(change.total_reserved) OVER by_reserved AS most_reserved,
      FIRST_VALUE(change.ts) OVER by_reserved AS most_reserved_ts
    FROM step
    CROSS JOIN memory_event AS memory ON memory.ts >= step.ts AND memory.ts < step.end_ts
    JOIN change ON change.id = memory.id AND change.upid IS step.upid
    WINDOW
      by_time AS (PARTITION BY step.id, change.place ORDER BY change.id),
      by_allocated AS (PARTITION BY step.id, change.place ORDER BY change.total_allocated DESC, change.id),
      by_reserved AS (PARTITION BY step.id, change.place ORDER BY change.total_reserved DESC, change.id)
  )
SELECT
  within.trace,
  process.pid,
  within.device,
  within.step,
  within.step_ts AS ts,
  within.dur_ns,
  COUNT(*) AS events,
  ifnull(MAX(allocated_at_start, most_allocated), ifnull(allocated_at_start, most_allocated)) AS peak_allocated,
  CASE
    WHEN ifnull(allocated_at_start >= most_allocated, allocated_at_start IS NOT NULL) THEN step_ts
    WHEN most_allocated IS NOT NULL THEN most_allocated_ts
  END AS peak_allocated_ts,
  ifnull(MAX(reserved_at_start, most_reserved), ifnull(reserved_at_start, most_reserved)) AS peak_reserved,
  CASE
    WHEN ifnull(reserved_at_start >= most_reserved, reserved_at_start IS NOT NULL) THEN step_ts
    WHEN most_reserved IS NOT NULL THEN most_reserved_ts
  END AS peak_reserved_ts
FROM within
LEFT JOIN process ON process.upid = within.upid
GROUP BY within.step_id, within.place
ORDER BY within.allocated_bytes DESC, within.place, within.step_id;
