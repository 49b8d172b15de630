-- The distinct names of kernels.
-- Row: one name. No parameters. Order: by name.
SELECT
  n.name_id,
  n.name
FROM slice_name AS n
WHERE
  EXISTS (
    SELECT 1
    FROM slice AS s
    WHERE s.name_id = n.name_id AND s.kind = 'kernel'
  )
ORDER BY n.name, n.name_id;
