-- The CPU slices with given names, and their threads.
-- Row: one slice; ts and dur in ns. Order: by id, which follows the start.
-- :names  the ids of the names, as a JSON array
SELECT
  s.id,
  s.ts,
  s.dur,
  s.name,
  t.name AS thread_name,
  t.tid,
  p.pid
FROM json_each(:names) AS wanted
CROSS JOIN slice AS s ON s.name_id = wanted.value AND s.kind IN ('cpu', 'runtime')
LEFT JOIN thread_track AS tt ON tt.id = s.track_id
LEFT JOIN thread AS t ON t.utid = tt.utid
LEFT JOIN process AS p ON p.upid = t.upid
ORDER BY s.id;
