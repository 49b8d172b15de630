-- The span of all kernels, in ns, and their number.
-- Row: always one; start and end are NULL if there are no kernels. No parameters. Order: none.
SELECT
  MIN(s.ts) AS start,
  MAX(s.ts + s.dur) AS end,
  COUNT(*) AS count
FROM slice_name AS n
CROSS JOIN slice AS s ON s.kernel_name_id = n.name_id
WHERE n.of_kernel;
