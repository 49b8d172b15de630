-- The span in which the trace has kernels.
-- Row: one; NULLs if there is no kernel. No parameters. Order: there is one row.
SELECT
  MIN(s.ts) AS start,
  MAX(s.ts + s.dur) AS end,
  COUNT(*) AS count
FROM slice_name AS n
CROSS JOIN slice AS s ON s.kernel_name_id = n.name_id
WHERE n.of_kernel;
