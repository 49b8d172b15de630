// What ran within a span of time: kernels are cut at its edges, and what overlaps counts once, as in the program's own summary.

/** The length of a union of spans, which come in the order of their starts. */
class Union {
  constructor() {
    this.total = 0;
    this.until = -Infinity;
  }

  add(start, end) {
    if (end <= this.until) return;
    this.total += end - Math.max(start, this.until);
    this.until = end;
  }
}

/** Unions by key: `total()` is the length of all, `length(key)` of one. */
class Unions {
  constructor() {
    this.by = new Map();
  }

  add(key, start, end) {
    if (!this.by.has(key)) this.by.set(key, new Union());
    this.by.get(key).add(start, end);
  }

  length(key) {
    return this.by.get(key)?.total ?? 0;
  }

  total() {
    return [...this.by.values()].reduce((sum, { total }) => sum + total, 0);
  }
}

/** Whether a row overlaps a span; a kernel without a length is in it if it starts there. */
export function isWithin({ start, dur }, row, begin, end) {
  return start[row] < end && (start[row] + dur[row] > begin || start[row] >= begin);
}

/**
 * The sums of a timeline within a span: `{busy, compute, collectives, possible, exposed, kernels, names, streams}`, times in ns. Each of `names` has
 * name (0 for merged rows of several names, else 1 + its place), count, busy and exposed; each of `streams` has lane, count, busy, collectives and
 * exposed. Names are in the order of their times.
 */
export function sumsWithin(timeline, begin, end) {
  const { kernels, lanes } = timeline;
  const unions = { busy: new Unions(), ofKind: [new Unions(), new Unions(), new Unions()], lane: new Unions(), collectives: new Unions() };
  const names = new Map();
  const counts = new Float64Array(lanes.length);
  for (let row = 0; row < kernels.rows; row += 1) {
    if (!isWithin(kernels, row, begin, end)) continue;
    const [from, to] = [Math.max(begin, kernels.start[row]), Math.min(end, kernels.start[row] + kernels.dur[row])];
    const [lane, does] = [kernels.lane[row], kernels.does[row]];
    unions.busy.add(lanes[lane].device, from, to);
    unions.ofKind[does].add(lanes[lane].device, from, to);
    unions.lane.add(lane, from, to);
    if (does === 1) unions.collectives.add(lane, from, to);
    counts[lane] += kernels.count[row];
    const sums = nameSums(names, kernels.name[row]);
    sums.count += kernels.count[row];
    sums.lanes.add(lane, from, to);
  }
  const exposed = exposedWithin(timeline, begin, end, names);
  const [compute, collectives, possible] = unions.ofKind.map((of) => of.total());
  const stream = (_, lane) => {
    const [busy, of, part] = [unions.lane, unions.collectives, exposed.lane].map((sums) => sums.length(lane));
    return { lane, count: counts[lane], busy, collectives: of, exposed: part };
  };
  const byName = [...names].map(([name, { count, lanes: of, exposed: part }]) => ({ name, count, busy: of.total(), exposed: part }));
  return {
    busy: unions.busy.total(),
    compute,
    collectives,
    possible,
    exposed: exposed.device.total(),
    kernels: counts.reduce((sum, n) => sum + n, 0),
    names: byName.sort((a, b) => b.busy - a.busy || a.name - b.name),
    streams: lanes.map(stream).filter((of) => of.count > 0),
  };
}

function nameSums(names, name) {
  if (!names.has(name)) names.set(name, { count: 0, lanes: new Unions(), exposed: 0 });
  return names.get(name);
}

// Parts are in the order of their kernels, not of their starts.
function exposedWithin({ kernels, lanes, exposed }, begin, end, names) {
  const unions = { device: new Unions(), lane: new Unions() };
  const order = Array.from(exposed.kernel.keys()).filter((part) => isWithin(exposed, part, begin, end));
  order.sort((a, b) => exposed.start[a] - exposed.start[b]);
  for (const part of order) {
    const [from, to] = [Math.max(begin, exposed.start[part]), Math.min(end, exposed.start[part] + exposed.dur[part])];
    const row = exposed.kernel[part];
    unions.device.add(lanes[kernels.lane[row]].device, from, to);
    unions.lane.add(kernels.lane[row], from, to);
    nameSums(names, kernels.name[row]).exposed += to - from;
  }
  return unions;
}
