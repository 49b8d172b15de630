// The order of ranks in a heat map, and the values of its cells. Needs no document or screen, so that tests can run it.

/** The order of rows: `{order: positions of ranks, text}`. If groups divide the ranks, it is by process group, since ranks wait within groups. */
export function heatOrder(ranks, groups = []) {
  const position = new Map(ranks.map((rank, at) => [rank, at]));
  const families = new Map();
  for (const group of groups) {
    const here = group.ranks_here.filter((rank) => position.has(rank)).sort((a, b) => a - b);
    if (here.length < 2 || here.length === ranks.length || group.pair) continue;
    const key = group.description ?? (group.inferred_from_stream === null ? `of ${here.length}` : `stream ${group.inferred_from_stream}`);
    if (!families.has(key)) families.set(key, { key, groups: [], waited: 0 });
    const family = families.get(key);
    family.groups.push(here);
    family.waited += group.waited_ns;
  }
  const isDivision = ({ groups: of }) => of.length > 1 && new Set(of.flat()).size === of.flat().length;
  const best = [...families.values()].filter(isDivision).sort((a, b) => b.waited - a.waited)[0];
  if (!best) return { order: ranks.map((_, at) => at), text: 'by rank' };
  const first = best.groups.sort((a, b) => a[0] - b[0]).flat();
  const order = Array.from(new Set([...first, ...ranks]), (rank) => position.get(rank));
  return { order, text: `by process group (${best.key}), then by rank` };
}

const STEP_PARTS = /#?\d+(?:[.,]\d+)*|[\p{L}\p{N}]+|./gsu;
const STEP_BRACKETS = { ']': '[', ')': '(', '}': '{', '>': '<' };

/**
 * The names of steps as labels, without the words and signs with which all begin, and those: `#10` and `ProfilerStep` of `ProfilerStep#10`. Words and
 * numbers stay whole, and a bracket that the common part opens is closed by no label.
 */
export function stepLabels(names) {
  const parts = names.map((name) => name.match(STEP_PARTS) ?? []);
  const [first] = parts;
  let same = 0;
  while (same < first.length && parts.every((of) => of[same] === first[same])) same += 1;
  const prefix = first.slice(0, same).join('');
  const rest = names.map((name) => name.slice(prefix.length).trimStart());
  if (prefix === '' || rest.some((label) => label === '')) return { labels: names, prefix: '' };
  const last = rest[0].at(-1);
  const isClosing = (label) => label.length > 1 && label.at(-1) === last && !label.includes(STEP_BRACKETS[last]);
  const isClosed = prefix.includes(STEP_BRACKETS[last]) && rest.every(isClosing);
  return { labels: isClosed ? rest.map((label) => label.slice(0, -1)) : rest, prefix };
}

/** For every cell its maximum, and the position of the maximum's row (plus 1) and column. */
export function heatCells(values, order, last, steps, grid) {
  const size = grid.rows * grid.columns;
  const [max, rank, step] = [new Float64Array(size), new Int32Array(size), new Int32Array(size)];
  for (let at = 0; at < last; at += 1) {
    const row = Math.floor(at / grid.ranksPerRow);
    for (let of = 0; of < steps; of += 1) {
      const value = values[order[at] * steps + of];
      const cell = row * grid.columns + Math.floor(of / grid.stepsPerColumn);
      if (value > max[cell] || rank[cell] === 0) [max[cell], rank[cell], step[cell]] = [value, order[at] + 1, of];
    }
  }
  return { max, rank, step };
}
