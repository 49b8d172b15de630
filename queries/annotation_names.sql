-- The names that programs give to their own phases (record_function, ProfilerStep).
-- Row: one name. Order: by name.
-- :category  the category of such slices
SELECT DISTINCT
  name_id,
  name
FROM slice
WHERE category = :category
ORDER BY name, name_id;
