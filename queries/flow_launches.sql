-- The calls from which a flow leads to a kernel.
-- Row: one flow. Order: as the flows were bound; a kernel's own comes before those of later ones that were bound to it by mistake.
-- :kernel  the kernel's slice id
SELECT
  l.id,
  l.ts,
  l.correlation IS NULL OR k.correlation IS NULL AS is_only_tie
FROM flow AS f
CROSS JOIN slice AS k ON k.id = f.slice_in
CROSS JOIN slice AS l ON l.id = f.slice_out
WHERE f.slice_in = :kernel AND l.kind IN ('runtime', 'cpu')
ORDER BY f.id;
