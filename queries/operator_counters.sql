-- Hardware counters, summed by operator and by module. An operator nested in one of the same name, or the same module, counts once.
-- Row: the operators of one name, or in one module, with a counter.
-- Order: operators before modules; by cycles, the most first, or else by the first counter there is.
-- Nothing: no operator of the window has a hardware counter, which the profiler records with performance_events in its experimental_config.
-- Reads: operators
-- :start  window  window  the window's first nanosecond
-- :end    window  window  the first nanosecond after the window
-- column what                                 "by"                             text
-- column name                                 "name"                           text
-- column calls                                "calls"                          count
-- column ipc                                  "instructions per cycle"         ratio
-- column cache_miss_rate                      "cache misses"                   share
-- column branch_misses_per_1000_instructions  "branch misses per 1,000 instructions"  ratio
-- column cycles                               "cycles"                         count
-- column instructions                         "instructions"                   count
-- column cache_misses                         "cache misses"                   count
-- column cache_references                     "cache references"               count
-- column branch_misses                        "branch misses"                  count
-- column branches                             "branches"                       count
-- column pagefaults                           "page faults"                    count
-- column backend_stall_cycles                 "back-end stalls"                count
-- column frontend_stall_cycles                "front-end stalls"               count
-- A counter includes all that the thread did until the operator ended. Ratios use the calls that have both counters.
WITH RECURSIVE
  counted AS MATERIALIZED (
    SELECT
      op.id, op.name, call.module, call.caller_id, op.cycles, op.instructions, op.cache_misses, op.cache_references,
      op.branch_misses, op.branches, op.pagefaults, op.backend_stall_cycles, op.frontend_stall_cycles
    FROM op
    JOIN op_call AS call ON call.id = op.id
    WHERE op.ts >= :start AND op.ts < :end
      AND COALESCE(
        op.cycles, op.instructions, op.cache_misses, op.cache_references, op.branch_misses, op.branches, op.pagefaults,
        op.backend_stall_cycles, op.frontend_stall_cycles
      ) IS NOT NULL
  ),
  -- Only contrived traces nest deeper.
  around (id, outer_id, level) AS (
    SELECT id, caller_id, 1 FROM counted WHERE caller_id IS NOT NULL
    UNION ALL
    SELECT around.id, call.caller_id, level + 1
    FROM around
    JOIN op_call AS call ON call.id = around.outer_id
    WHERE call.caller_id IS NOT NULL AND level < 256
  ),
  nested AS MATERIALIZED (
    SELECT inner_op.id, MAX(outer_op.name = inner_op.name) AS in_name, MAX(outer_op.module = inner_op.module) AS in_module
    FROM around
    JOIN counted AS outer_op ON outer_op.id = around.outer_id
    JOIN counted AS inner_op ON inner_op.id = around.id
    GROUP BY inner_op.id
  ),
  part AS (
    SELECT 'operator' AS what, counted.*
    FROM counted
    LEFT JOIN nested ON nested.id = counted.id
    WHERE NOT ifnull(nested.in_name, 0)
    UNION ALL
    SELECT 'module', counted.id, counted.module, counted.module, counted.caller_id, cycles, instructions, cache_misses,
      cache_references, branch_misses, branches, pagefaults, backend_stall_cycles, frontend_stall_cycles
    FROM counted
    LEFT JOIN nested ON nested.id = counted.id
    WHERE counted.module IS NOT NULL AND NOT ifnull(nested.in_module, 0)
  )
SELECT
  what,
  name,
  COUNT(*) AS calls,
  1.0 * SUM(iif(cycles IS NULL, NULL, instructions)) / SUM(iif(instructions IS NULL, NULL, cycles)) AS ipc,
  1.0 * SUM(iif(cache_references IS NULL, NULL, cache_misses)) / SUM(iif(cache_misses IS NULL, NULL, cache_references))
    AS cache_miss_rate,
  1000.0 * SUM(iif(instructions IS NULL, NULL, branch_misses)) / SUM(iif(branch_misses IS NULL, NULL, instructions))
    AS branch_misses_per_1000_instructions,
  SUM(cycles) AS cycles,
  SUM(instructions) AS instructions,
  SUM(cache_misses) AS cache_misses,
  SUM(cache_references) AS cache_references,
  SUM(branch_misses) AS branch_misses,
  SUM(branches) AS branches,
  SUM(pagefaults) AS pagefaults,
  SUM(backend_stall_cycles) AS backend_stall_cycles,
  SUM(frontend_stall_cycles) AS frontend_stall_cycles
FROM part
GROUP BY what, name
ORDER BY
  what = 'module',
  COALESCE(
    SUM(cycles), SUM(instructions), SUM(cache_misses), SUM(cache_references), SUM(branch_misses), SUM(branches),
    SUM(pagefaults), SUM(backend_stall_cycles), SUM(frontend_stall_cycles)
  ) DESC,
  name;
