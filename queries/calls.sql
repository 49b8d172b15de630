-- The runtime calls that carry a correlation id.
-- Row: one call; there is more than one where ranks share a file or ids. Order: by start, which is by id.
-- :correlation  the id
SELECT
  id,
  ts
FROM slice
WHERE call_correlation = :correlation
ORDER BY id;
