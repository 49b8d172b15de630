-- The span of all slices.
-- Row: the only one. No parameters. Order: there is one row.
SELECT
  start_ts,
  end_ts
FROM trace_bounds;
