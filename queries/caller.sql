-- One slice on the way up a stack.
-- Row: the slice. Order: there is one row at most.
-- :slice  its id
SELECT
  name,
  parent_id
FROM slice
WHERE id = :slice;
