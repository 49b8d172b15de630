-- The span of all slices, in ns, half-open.
-- Row: the only one. No parameters. Order: none needed.
SELECT
  start_ts,
  end_ts
FROM trace_bounds;
