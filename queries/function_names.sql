-- The distinct names of slices that match a pattern.
-- Row: one name. Order: by name.
-- :pattern  the name, or a LIKE pattern
-- :is_like  whether :pattern is a LIKE pattern
SELECT
  name_id,
  name
FROM slice_name
WHERE CASE WHEN :is_like THEN name LIKE :pattern ELSE name = :pattern END
ORDER BY name, name_id;
