-- The graph-launching calls in a window, counted by name.
-- Row: one name. Order: by count, then by name.
-- :start  the window's first nanosecond
-- :end    the first nanosecond after the window
-- :names  the names of the calls, as a JSON array
SELECT
  s.name,
  COUNT(*) AS count
FROM json_each(:names) AS wanted
CROSS JOIN slice AS s ON s.name = wanted.value AND s.kind = 'runtime'
WHERE s.ts >= :start AND s.ts < :end
GROUP BY s.name
ORDER BY count DESC, s.name;
