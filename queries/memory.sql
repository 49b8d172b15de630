-- Memory of each device: how much was allocated and released, the peaks, and what was in use at the peak.
-- Row: a device, as one process uses it.
-- Order: by allocated bytes, the most first, then by process and device.
-- Nothing: the window has no memory events, which the profiler records with profile_memory=True.
-- Reads: memory
-- :start  window  window  the window's first nanosecond
-- :end    window  window  the first nanosecond after the window
-- column trace                   "trace"                    text
-- column pid                     "process"                  id
-- column device                  "device"                   text
-- column device_type             "kind"                     detail
-- column device_id               "index"                    detail
-- column events                  "events"                   count
-- column allocations             "allocations"              count
-- column allocated_bytes         "allocated"                bytes
-- column releases                "releases"                 count
-- column released_bytes          "released"                 bytes
-- column alive_at_end            "not released"             count
-- column alive_at_end_bytes      "in use at the end"        bytes
-- column peak_allocated          "peak of Total Allocated"  bytes
-- column peak_allocated_ts       "after"                    time
-- column peak_reserved           "peak of Total Reserved"   bytes
-- column peak_reserved_ts        "after"                    time
-- column held_bytes              "allocated here, at peak"  bytes
-- column before_bytes            "allocated before"         bytes
-- column unknown_releases        "unknown releases"         exceptions
-- column unknown_released_bytes  "their bytes"              detail
-- column other_size_releases     "of another size"          exceptions
-- column overwritten             "at an address in use"     exceptions
-- column unsteady                "unsteady totals"          exceptions
-- column incomplete              "incomplete"               exceptions
-- A release belongs to the last allocation at its address. Memory from before the first event is in the totals, but in no allocation.
WITH
  event AS MATERIALIZED (
    SELECT
      memory.id,
      memory.ts,
      memory.address,
      memory.device_type,
      memory.device_id,
      call.trace,
      call.device,
      call.upid,
      call.is_complete,
      iif(call.is_complete, memory.bytes, NULL) AS bytes,
      iif(call.is_complete, memory.total_allocated, NULL) AS total_allocated,
      iif(call.is_complete, memory.total_reserved, NULL) AS total_reserved,
      DENSE_RANK() OVER (ORDER BY call.upid, memory.device_type, memory.device_id) AS place
    FROM memory_event AS memory
    JOIN memory_call AS call ON call.id = memory.id
    WHERE memory.ts >= :start AND memory.ts < :end
  ),
  -- What was at the address before, and what follows there. Events of 0 bytes change nothing.
  paired AS (
    SELECT
      *,
      LAG(bytes) OVER address AS bytes_before,
      LEAD(id) OVER address AS next_id,
      SUM(bytes) OVER device AS in_use,
      LAG(total_allocated) OVER device + bytes <> total_allocated AS is_unsteady
    FROM event
    WINDOW
      address AS (PARTITION BY place, address, bytes = 0 ORDER BY id),
      device AS (PARTITION BY place, is_complete ORDER BY id)
  ),
  -- The first event with the largest total; without totals, with the largest sum of sizes.
  peaked AS (
    SELECT
      *,
      FIRST_VALUE(id) OVER by_allocated AS peak_id,
      FIRST_VALUE(total_allocated) OVER by_allocated AS peak_allocated,
      FIRST_VALUE(ts) OVER by_allocated AS peak_ts,
      FIRST_VALUE(total_reserved) OVER by_reserved AS peak_reserved,
      FIRST_VALUE(ts) OVER by_reserved AS peak_reserved_ts
    FROM paired
    WINDOW
      by_allocated AS (PARTITION BY place ORDER BY total_allocated DESC, iif(total_allocated IS NULL, in_use, 0) DESC, id),
      by_reserved AS (PARTITION BY place ORDER BY total_reserved DESC, id)
  ),
  change AS (
    SELECT
      *,
      bytes > 0 AND next_id IS NULL AS is_alive_at_end,
      bytes > 0 AND id <= peak_id AND ifnull(next_id > peak_id, 1) AS is_held,
      bytes < 0 AND ifnull(bytes_before < 0, 1) AS is_unknown
    FROM peaked
  )
SELECT
  trace,
  process.pid,
  device,
  device_type,
  device_id,
  SUM(is_complete) AS events,
  COUNT(*) FILTER (WHERE bytes > 0) AS allocations,
  ifnull(SUM(bytes) FILTER (WHERE bytes > 0), 0) AS allocated_bytes,
  COUNT(*) FILTER (WHERE bytes < 0) AS releases,
  ifnull(-SUM(bytes) FILTER (WHERE bytes < 0), 0) AS released_bytes,
  COUNT(*) FILTER (WHERE is_alive_at_end) AS alive_at_end,
  ifnull(SUM(bytes) FILTER (WHERE is_alive_at_end), 0) AS alive_at_end_bytes,
  peak_allocated,
  iif(peak_allocated IS NULL, NULL, peak_ts) AS peak_allocated_ts,
  peak_reserved,
  iif(peak_reserved IS NULL, NULL, peak_reserved_ts) AS peak_reserved_ts,
  ifnull(SUM(bytes) FILTER (WHERE is_held), 0) AS held_bytes,
  SUM(total_allocated) FILTER (WHERE change.id = peak_id) - ifnull(SUM(bytes) FILTER (WHERE is_held), 0) AS before_bytes,
  COUNT(*) FILTER (WHERE is_unknown) AS unknown_releases,
  ifnull(-SUM(bytes) FILTER (WHERE is_unknown), 0) AS unknown_released_bytes,
  COUNT(*) FILTER (WHERE bytes < 0 AND bytes_before > 0 AND bytes_before <> -bytes) AS other_size_releases,
  COUNT(*) FILTER (WHERE bytes > 0 AND bytes_before > 0) AS overwritten,
  COUNT(*) FILTER (WHERE is_unsteady) AS unsteady,
  SUM(NOT is_complete) AS incomplete
FROM change
LEFT JOIN process ON process.upid = change.upid
GROUP BY place
ORDER BY allocated_bytes DESC, place;
