-- What the critical path of the ranks consists of: from their last end back to their first start, always to what was binding. Of one trace it is the
-- path of that rank alone, in which the waiting of collectives is part of their transfer.
-- Row: the kernels, copies or collectives of one name; of the CPU, what one function takes itself; of latencies, the calls below one function.
-- Order: the longest first, then by name.
-- Nothing: the window has no piece of the path.
-- Reads: operators
-- :start  window  window  the window's first nanosecond
-- :end    window  window  the first nanosecond after the window
-- column path_ns  "on the path"  ns
-- column share    "share"        share
-- column kind     "kind"         text
-- column pieces   "pieces"       count
-- column ranks    "ranks"        count
-- column line     "line"         text
WITH
  path AS MATERIALIZED (
    SELECT
      path.rank,
      path.kind,
      path.ts,
      path.dur,
      path.ts + path.dur AS ts_end,
      own.id,
      own.track_id,
      CASE path.kind WHEN 'launch latency' THEN ifnull(caller.name, own.name) ELSE own.name END AS line,
      LAG(own.id) OVER (PARTITION BY path.rank ORDER BY path.ts) AS before
    FROM critical_path AS path
    LEFT JOIN slice AS own ON own.id = path.slice_id
    LEFT JOIN slice AS caller ON caller.id = own.parent_id
    WHERE path.ts >= :start AND path.ts < :end
  ),
  -- The slices of the thread in each piece of the CPU: those that begin in it, those around the call that ends it, and around the one before.
  running AS (
    SELECT path.rank, path.ts, path.ts_end, path.track_id, s.id
    FROM path CROSS JOIN slice AS s ON s.ts >= path.ts AND s.ts < path.ts_end
    -- By the time, which is narrower than the track.
    WHERE path.kind = 'CPU' AND +s.track_id = path.track_id
    UNION
    SELECT path.rank, path.ts, path.ts_end, path.track_id, a.id
    FROM path CROSS JOIN ancestor_slice(path.id) AS a
    WHERE path.kind = 'CPU'
    UNION
    SELECT path.rank, path.ts, path.ts_end, path.track_id, a.id
    FROM path CROSS JOIN ancestor_slice(path.before) AS a
    WHERE path.kind = 'CPU'
    UNION
    SELECT path.rank, path.ts, path.ts_end, path.track_id, id FROM path WHERE path.kind = 'CPU'
    UNION
    SELECT path.rank, path.ts, path.ts_end, path.track_id, before FROM path WHERE path.kind = 'CPU'
  ),
  inside AS MATERIALIZED (
    SELECT
      running.rank,
      running.ts,
      s.id,
      s.parent_id,
      s.name,
      MIN(s.ts + s.dur, running.ts_end) - MAX(s.ts, running.ts) AS dur
    FROM running CROSS JOIN slice AS s ON s.id = running.id AND +s.track_id = running.track_id
    WHERE s.ts < running.ts_end AND s.ts + s.dur > running.ts
  ),
  -- What a slice takes, less what the slices in it take; the rest of a piece is in no slice.
  nested AS MATERIALIZED (
    SELECT around.rank, around.ts, around.name, inside.dur
    FROM inside JOIN inside AS around ON around.id = inside.parent_id AND around.ts = inside.ts AND around.rank = inside.rank
  ),
  piece AS MATERIALIZED (
    SELECT rank, kind, ts, CASE WHEN kind <> 'CPU' THEN line END AS line, dur FROM path
    UNION ALL
    SELECT rank, 'CPU', ts, name, dur FROM inside
    UNION ALL
    SELECT rank, 'CPU', ts, NULL, -dur FROM inside
    UNION ALL
    SELECT rank, 'CPU', ts, name, -dur FROM nested
    UNION ALL
    SELECT rank, 'CPU', ts, NULL, dur FROM nested
  )
SELECT
  SUM(dur) AS path_ns,
  1.0 * SUM(dur) / (SELECT SUM(dur) FROM piece) AS share,
  kind,
  COUNT(DISTINCT ts) AS pieces,
  COUNT(DISTINCT rank) AS ranks,
  ifnull(line, '(no slice)') AS line
FROM piece
GROUP BY kind, line
HAVING SUM(dur) > 0
ORDER BY path_ns DESC, kind, line;
