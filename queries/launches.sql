-- The chosen kernels, each with the calls that carry its correlation id.
-- Row: one kernel and one such call; a kernel that shares its id with no call has one row, in which the call is NULL.
-- :names  the ids of the kernels' names, as an array
-- Order: by kernel, then by call. CROSS JOIN keeps SQLite from starting with all slices, and call_correlation from looking
-- at every other kernel of the same graph.
SELECT
  k.id AS kernel_id,
  k.ts AS kernel_ts,
  k.dur AS kernel_dur,
  k.name_id AS kernel_name_id,
  k.correlation,
  l.id AS launch_id,
  l.ts AS launch_ts
FROM rarray(:names) AS wanted
CROSS JOIN slice AS k ON k.name_id = wanted.value AND k.kind = 'kernel'
LEFT JOIN slice AS l ON l.call_correlation = k.correlation
ORDER BY k.id, l.id;
