-- The span of all slices.
-- Row: one; NULLs if there is none. No parameters. Order: there is one row.
SELECT
  MIN(ts) AS start,
  MAX(ts + MAX(dur, 0)) AS end
FROM slice;
