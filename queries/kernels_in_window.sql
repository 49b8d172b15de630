-- The kernels that start in a window, by name.
-- Row: one name. Order: by count, then by name.
-- :start  the window's first nanosecond
-- :end    the first nanosecond after it
SELECT
  name_id,
  name,
  COUNT(*) AS count
FROM slice
WHERE ts >= :start AND ts < :end AND kind = 'kernel'
GROUP BY name_id, name
ORDER BY count DESC, name, name_id;
