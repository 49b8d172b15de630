-- The distinct names of CPU slices.
-- Row: one name. No parameters. Order: by name.
SELECT
  name_id,
  name
FROM slice_name
WHERE of_cpu
ORDER BY name, name_id;
