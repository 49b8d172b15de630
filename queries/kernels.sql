-- Kernels by name, with the columns of `nsys stats -r cuda_gpu_kern_sum`.
-- Row: the kernels of one name.
-- Order: by total time, the longest first, then by name.
-- Nothing: no such kernel was launched in the window.
-- Reads: collectives
-- :start        window  window  the window's first nanosecond
-- :end          window  window  the first nanosecond after the window
-- :window_on    window  window  what has to start in the window: launch or kernel
-- :kernel_name  list    none    only kernels of these names, as in --kernel-name
-- :family       list    none    kernels of these families, as in --family, too
-- column Time (%)         "Time (%)"         decimal
-- column Total Time (ns)  "Total Time (ns)"  count
-- column Instances        "Instances"        count
-- column Avg (ns)         "Avg (ns)"         decimal
-- column Med (ns)         "Med (ns)"         decimal
-- column Min (ns)         "Min (ns)"         count
-- column Max (ns)         "Max (ns)"         count
-- column StdDev (ns)      "StdDev (ns)"      decimal
-- column Name             "Name"             text
WITH
  chosen AS MATERIALIZED (
    SELECT name_id, name
    FROM slice_name
    WHERE of_kernel AND (
      (:kernel_name IS NULL AND :family IS NULL)
      OR matches_name(name, :kernel_name)
      OR in_family(name, :family)
    )
  ),
  kernel AS MATERIALIZED (
    SELECT chosen.name, launch.gpu_ns
    FROM kernel_launch AS launch
    JOIN slice AS kernel ON kernel.id = launch.kernel_id
    JOIN chosen ON chosen.name_id = kernel.name_id
    WHERE iif(:window_on = 'kernel', kernel.ts, launch.window_ts) >= :start
      AND iif(:window_on = 'kernel', kernel.ts, launch.window_ts) < :end
  )
SELECT
  ifnull(100.0 * SUM(gpu_ns) / (SELECT SUM(gpu_ns) FROM kernel), 0.0) AS "Time (%)",
  SUM(gpu_ns) AS "Total Time (ns)",
  COUNT(*) AS "Instances",
  AVG(gpu_ns) AS "Avg (ns)",
  MEDIAN(gpu_ns) AS "Med (ns)",
  MIN(gpu_ns) AS "Min (ns)",
  MAX(gpu_ns) AS "Max (ns)",
  STDDEV(gpu_ns) AS "StdDev (ns)",
  name AS "Name"
FROM kernel
GROUP BY name
ORDER BY "Total Time (ns)" DESC, name;
