-- The distinct names of kernels.
-- Row: one name. No parameters. Order: by name.
SELECT
  name_id,
  name
FROM slice_name
WHERE of_kernel
ORDER BY name, name_id;
