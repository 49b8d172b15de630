-- The kernels that start in a window, counted by name.
-- Row: one name. Order: by count, then by name. CROSS JOIN keeps SQLite from scanning all slices first.
-- :start  the window's first nanosecond
-- :end    the first nanosecond after it
SELECT
  n.name,
  COUNT(*) AS count
FROM slice_name AS n
CROSS JOIN slice AS s ON s.kernel_name_id = n.name_id
WHERE n.of_kernel AND s.ts >= :start AND s.ts < :end
GROUP BY n.name_id, n.name
ORDER BY count DESC, n.name, n.name_id;
