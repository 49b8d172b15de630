-- The chosen kernels.
-- Row: one kernel. Order: by start, which is by id. CROSS JOIN keeps SQLite from starting with all slices.
-- :names  the ids of the kernels' names, as an array
SELECT
  k.id,
  k.ts,
  k.dur,
  k.correlation
FROM rarray(:names) AS wanted
CROSS JOIN slice AS k ON k.kernel_name_id = wanted.value
ORDER BY k.id;
