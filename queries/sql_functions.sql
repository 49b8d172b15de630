-- The functions that a query can call.
-- Row: one name. No parameters. Order: by name.
SELECT DISTINCT lower(name) AS name
FROM pragma_function_list
WHERE name GLOB '[a-zA-Z]*'
ORDER BY 1;
