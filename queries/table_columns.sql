-- The columns of the trace's tables and views, and of those created by the user.
-- Row: a table's name and the name of one of its columns. Hidden columns are left out. Order: by table, then as in the table.
-- :tables  the names of the trace's own tables, as a JSON array; SQLite's schema does not list them.
SELECT t.value AS table_name, c.name AS column_name
FROM (
  SELECT value FROM json_each(:tables)
  UNION
  SELECT name FROM sqlite_schema WHERE type IN ('table', 'view')
  UNION
  SELECT name FROM sqlite_temp_schema WHERE type IN ('table', 'view')
) t
JOIN pragma_table_xinfo(t.value) c
WHERE c.hidden <> 1
ORDER BY t.value, c.cid;
