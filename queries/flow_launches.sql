-- The calls from which a flow leads to a kernel, for kernels that no correlation id ties to a call.
-- Row: one call. A call that carries a correlation id of its own is left out where the kernel has one too: it launched another.
-- :kernel  the kernel's slice id
-- Order: by call.
SELECT DISTINCT
  l.id AS launch_id,
  l.ts AS launch_ts
FROM flow AS f
CROSS JOIN slice AS k ON k.id = f.slice_in
CROSS JOIN slice AS l ON l.id = f.slice_out
WHERE
  f.slice_in = :kernel
  AND l.kind IN ('runtime', 'cpu')
  AND (k.correlation IS NULL OR l.correlation IS NULL)
ORDER BY l.id;
