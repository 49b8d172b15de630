-- What the backward pass of each module costs, beside the forward pass that made it: GPU time, collectives, and what contradicts these pairs.
-- Row: a module, without the modules in it; with by_operator, an operator of it and the node that it made.
-- Order: by the GPU time of the nodes with their collectives, the most first, then by names.
-- Nothing: no operator in the window has a sequence number of the backward pass, which PyTorch's profiler writes for operators (ProfilerActivity.CPU)
-- while gradients are computed.
-- Reads: operators
-- :start        window   window  the window's first nanosecond
-- :end          window   window  the first nanosecond after the window
-- :window_on    window   window  what has to start in the window for a kernel: launch or kernel
-- :by_operator  integer  0       1: a row for each operator and node, and for each place that calls the operator
-- :exact_names  integer  0       1: keep the numbers in the names of modules, so that layers count separately
-- column nodes                "nodes"                 count
-- column forward_gpu_ns       "forward"               ns
-- column backward_gpu_ns      "backward"              ns
-- column ratio                "ratio"                 ratio
-- column recomputed_ns        "recomputed"            ns
-- column collectives          "collectives in them"   exceptions
-- column collective_ns        "their time"            ns
-- column after_gpu_ns         "after them"            ns
-- column after_collectives    "collectives after them"  exceptions
-- column after_collective_ns  "their time"            ns
-- column exposed_ns           "exposed"               ns
-- column operator             "operator"              text
-- column node                 "node"                  text
-- column module               "module"                text
-- column headline             "called from"           text
-- column doubt                "use with care"         text
-- column operators            "operators"             detail
-- column forward_cpu_ns       "forward CPU"           detail
-- column backward_cpu_ns      "backward CPU"          detail
-- column after_nodes          "nodes without a number"  detail
-- column unpaired             "without an operator"   detail
-- column ambiguous            "of several threads"    detail
-- column named_otherwise      "named otherwise"       detail
-- column checked              "with a flow"           detail
-- column flow_disagrees       "flow disagrees"        detail
-- A node counts if it begins in the window or launches a kernel in it; its operator then counts once, with all kernels. Nodes without a number, which
-- add up gradients and run hooks, count at the module of the last node before them on their thread. Times are without collectives, but for theirs.
WITH
  launch AS MATERIALIZED (
    SELECT
      launch.node_id,
      launch.forward_id,
      launch.is_recomputed,
      launch.family IS NOT NULL AS is_collective,
      launch.gpu_ns,
      launch.exposed_ns,
      iif(:window_on = 'kernel', kernel.ts, launch.window_ts) AS ts
    FROM kernel_launch AS launch
    JOIN slice AS kernel ON kernel.id = launch.kernel_id
    WHERE launch.node_id IS NOT NULL OR launch.forward_id IS NOT NULL
  ),
  -- What each node launched in the window, and each operator of the forward pass at any time.
  cost AS MATERIALIZED (
    SELECT
      -- A type, so that SQLite makes an index.
      CAST(ifnull(node_id, forward_id) AS INTEGER) AS id,
      SUM(gpu_ns) FILTER (WHERE NOT is_collective) AS gpu_ns,
      SUM(gpu_ns) FILTER (WHERE NOT is_collective AND is_recomputed) AS recomputed_ns,
      COUNT(*) FILTER (WHERE is_collective) AS collectives,
      SUM(gpu_ns) FILTER (WHERE is_collective) AS collective_ns,
      SUM(exposed_ns) FILTER (WHERE is_collective) AS exposed_ns
    FROM launch
    WHERE node_id IS NULL OR (ts >= :start AND ts < :end)
    GROUP BY 1
  ),
  node AS MATERIALIZED (
    SELECT
      node.*,
      node.sequence_number IS NOT NULL AS is_numbered,
      ROW_NUMBER() OVER (PARTITION BY node.forward_id ORDER BY node.id) = 1 AND node.forward_id IS NOT NULL AS is_first,
      iif(node.sequence_number IS NULL, last.forward_id, node.forward_id) AS place_id,
      slice.dur AS cpu_ns,
      cost.gpu_ns,
      cost.recomputed_ns,
      cost.collectives,
      cost.collective_ns,
      cost.exposed_ns
    FROM backward_node AS node
    JOIN slice ON slice.id = node.id
    LEFT JOIN cost ON cost.id = node.id
    LEFT JOIN backward_node AS last ON last.id = node.last_node_id
    WHERE (slice.ts >= :start AND slice.ts < :end) OR cost.id IS NOT NULL
  ),
  named AS (
    SELECT
      node.*,
      forward.dur AS forward_cpu_ns,
      made.gpu_ns AS forward_gpu_ns,
      ifnull(
        iif(
          :exact_names,
          place.module,
          regexp_replace_simple(regexp_replace_simple(place.module, '\b[0-9]+\b', '*'), '\B[0-9]+\b', '')
        ),
        '(not recorded)'
      ) AS module,
      iif(:by_operator, forward.name, NULL) AS operator,
      iif(:by_operator, node.name, NULL) AS node,
      iif(
        :by_operator AND node.is_numbered,
        (SELECT value FROM json_each(place.telling) WHERE value <> forward.name LIMIT 1),
        NULL
      ) AS headline
    FROM node
    LEFT JOIN op_call AS place ON place.id = node.place_id
    LEFT JOIN slice AS forward ON forward.id = node.forward_id
    LEFT JOIN cost AS made ON made.id = node.forward_id AND node.is_first
  ),
  pair AS (
    SELECT
      COUNT(*) FILTER (WHERE is_numbered) AS nodes,
      SUM(forward_gpu_ns) AS forward_gpu_ns,
      SUM(gpu_ns) FILTER (WHERE is_numbered) AS backward_gpu_ns,
      1.0 * SUM(gpu_ns) FILTER (WHERE forward_id IS NOT NULL) / SUM(forward_gpu_ns) AS ratio,
      SUM(recomputed_ns) AS recomputed_ns,
      ifnull(SUM(collectives) FILTER (WHERE is_numbered), 0) AS collectives,
      SUM(collective_ns) FILTER (WHERE is_numbered) AS collective_ns,
      SUM(gpu_ns) FILTER (WHERE NOT is_numbered) AS after_gpu_ns,
      ifnull(SUM(collectives) FILTER (WHERE NOT is_numbered), 0) AS after_collectives,
      SUM(collective_ns) FILTER (WHERE NOT is_numbered) AS after_collective_ns,
      SUM(exposed_ns) AS exposed_ns,
      operator,
      node,
      module,
      headline,
      COUNT(*) FILTER (WHERE is_first) AS operators,
      SUM(forward_cpu_ns) FILTER (WHERE is_first) AS forward_cpu_ns,
      SUM(cpu_ns) FILTER (WHERE is_numbered) AS backward_cpu_ns,
      COUNT(*) FILTER (WHERE NOT is_numbered) AS after_nodes,
      COUNT(*) FILTER (WHERE unpaired IS NOT NULL) AS unpaired,
      COUNT(*) FILTER (WHERE unpaired = 'ambiguous') AS ambiguous,
      COUNT(*) FILTER (WHERE NOT is_named_alike) AS named_otherwise,
      COUNT(flow_disagrees) AS checked,
      COUNT(*) FILTER (WHERE flow_disagrees) AS flow_disagrees
    FROM named
    GROUP BY module, operator, node, headline
  )
SELECT
  nodes,
  forward_gpu_ns,
  backward_gpu_ns,
  ratio,
  recomputed_ns,
  collectives,
  collective_ns,
  after_gpu_ns,
  after_collectives,
  after_collective_ns,
  exposed_ns,
  operator,
  node,
  module,
  headline,
  nullif(
    concat_ws(
      '; ',
      iif(unpaired > 0, printf('%d of %d nodes have no known operator', unpaired, nodes), NULL),
      iif(named_otherwise > 0, printf('%d of %d are not named after their operator', named_otherwise, nodes - unpaired), NULL),
      iif(flow_disagrees > 0, printf('flows disagree for %d of %d', flow_disagrees, checked), NULL)
    ),
    ''
  ) AS doubt,
  operators,
  forward_cpu_ns,
  backward_cpu_ns,
  after_nodes,
  unpaired,
  ambiguous,
  named_otherwise,
  checked,
  flow_disagrees
FROM pair
ORDER BY
  ifnull(backward_gpu_ns, 0) + ifnull(after_gpu_ns, 0) + ifnull(collective_ns, 0) + ifnull(after_collective_ns, 0) DESC,
  module,
  operator,
  node,
  headline;
