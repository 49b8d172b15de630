-- The distinct names of user annotations (record_function, ProfilerStep).
-- Row: one name. Order: by name.
-- :category  the category of user annotations
SELECT DISTINCT
  name_id,
  name
FROM slice
WHERE category = :category
ORDER BY name, name_id;
