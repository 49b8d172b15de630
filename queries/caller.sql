-- One slice on the way up a stack.
-- Row: the slice. Order: there is one row at most.
-- :slice  its id
SELECT
  s.name,
  s.parent_id,
  t.type = 'thread_overlapping_slice' AS is_beside_thread
FROM slice AS s
CROSS JOIN track AS t ON t.id = s.track_id
WHERE s.id = :slice;
