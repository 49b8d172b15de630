-- The span in which the trace has kernels.
-- Row: one; NULLs if there is no kernel. No parameters. Order: there is one row.
SELECT
  MIN(ts) AS start,
  MAX(ts + dur) AS end,
  COUNT(*) AS count
FROM slice
WHERE kind = 'kernel';
