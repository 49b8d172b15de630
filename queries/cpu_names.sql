-- The distinct names of CPU slices.
-- Row: one name. No parameters. Order: none.
SELECT
  name_id,
  name
FROM slice_name
WHERE of_cpu;
