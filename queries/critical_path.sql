-- What the critical path of the ranks consists of: from their last end back to their first start, always to what was binding. Of one trace it is the
-- path of that rank alone, in which the waiting of collectives is part of their transfer.
-- Row: the kernels, copies or collectives of one name; of the CPU and of latencies, the calls below one function.
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
  piece AS MATERIALIZED (
    SELECT
      path.rank,
      path.kind,
      path.dur,
      CASE WHEN path.kind IN ('CPU', 'launch latency') THEN ifnull(caller.name, own.name) ELSE own.name END AS line
    FROM critical_path AS path
    LEFT JOIN slice AS own ON own.id = path.slice_id
    LEFT JOIN slice AS caller ON caller.id = own.parent_id
    WHERE path.ts >= :start AND path.ts < :end
  )
SELECT
  SUM(dur) AS path_ns,
  1.0 * SUM(dur) / (SELECT SUM(dur) FROM piece) AS share,
  kind,
  COUNT(*) AS pieces,
  COUNT(DISTINCT rank) AS ranks,
  ifnull(line, '(no slice)') AS line
FROM piece
GROUP BY kind, line
ORDER BY path_ns DESC, kind, line;
