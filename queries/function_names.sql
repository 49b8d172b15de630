-- The names of slices that a person means.
-- Row: one name. Order: by name.
-- :pattern  the name, or what LIKE takes
-- :is_like  whether it is for LIKE
SELECT
  name_id,
  name
FROM slice_name
WHERE CASE WHEN :is_like THEN name LIKE :pattern ELSE name = :pattern END
ORDER BY name, name_id;
