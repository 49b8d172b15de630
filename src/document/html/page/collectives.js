// Collectives of many ranks on one clock: look-up tables for views, the worst collectives, and sentences on what a late rank
// did.
//
// Sentences leave out what the columns lack. `launch` is 0 if the launch is unknown.

import { apart } from './canvas.js';
import { traceNs } from './clock.js';
import { duration, visible } from './format.js';

/** Look-up tables for views of collectives: number, start, end and total waiting, and the collective of each row. */
export function lanesIndex(lanes) {
  if (lanes.index) return lanes.index;
  const { collectives, rows } = lanes;
  const n = collectives.first.length;
  const index = {
    n,
    begin: new Float64Array(n),
    end: new Float64Array(n),
    waited: new Float64Array(n),
    of: new Int32Array(rows.start.length),
    byTime: null,
  };
  for (let at = 0; at < n; at += 1) {
    const first = collectives.first[at];
    index.begin[at] = collectives.members[at] > 0 ? Infinity : 0;
    for (let row = first; row < first + collectives.members[at]; row += 1) {
      index.of[row] = at;
      index.begin[at] = Math.min(index.begin[at], rows.start[row]);
      index.end[at] = Math.max(index.end[at], rows.start[row] + rows.dur[row]);
      index.waited[at] += Math.max(0, rows.waited[row] - 1);
    }
  }
  index.byTime = Int32Array.from({ length: n }, (_, at) => at).sort((a, b) => index.begin[a] - index.begin[b]);
  lanes.index = index;
  return index;
}

/** The same collectives in a rerun. `moved` is how it differs, by row: the end, the waiting, and the rest of the time. */
export function rerunOf(lanes, moved) {
  const { rank, stack, start, dur, waited } = lanes.rows;
  const longer = dur.map((ns, row) => ns + moved.waited[row] + moved.transfer[row]);
  const rows = { rank, stack, dur: longer, start: start.map((ns, row) => ns + dur[row] + moved.end[row] - longer[row]) };
  rows.waited = waited.map((ns, row) => ns + moved.waited[row]);
  return { ...lanes, ...lanes.rerun, rows };
}

/** When a kernel started in its rank's trace, in ns. */
export function rowTraceNs({ origins_ns: origins, rows }, row) {
  return traceNs(origins[rows.rank[row]], rows.start[row] + rows.drift[row]);
}

/** The collective that a state selects: the one chosen, or the one with the most waiting in the selection. */
export function collectiveOf(model, state) {
  const { lanes } = model;
  const index = lanesIndex(lanes);
  const chosen = state.get('collective');
  if (chosen !== null && chosen >= 0 && chosen < index.n) return chosen;
  return worstCollectives(model, state, 1)[0] ?? mostWaiting(Array.from(index.byTime), index, 1)[0] ?? null;
}

function mostWaiting(some, index, most) {
  return some.sort((a, b) => index.waited[b] - index.waited[a] || a - b).slice(0, most);
}

/** The collectives with the most waiting for the selected stack, rank and step. */
export function worstCollectives(model, state, most) {
  const { collectives, rows, ranks } = model.lanes;
  const index = lanesIndex(model.lanes);
  const [stack, step] = [state.get('stack'), state.get('step')];
  const rank = ranks.indexOf(state.get('rank'));
  const fits = [];
  for (let at = 0; at < index.n; at += 1) {
    if (step !== null && collectives.step[at] !== step + 1) continue;
    const [from, to] = [collectives.first[at], collectives.first[at] + collectives.members[at]];
    let [hasStack, hasRank] = [stack === null, rank < 0];
    for (let row = from; row < to && !(hasStack && hasRank); row += 1) {
      hasStack ||= stackOfRow(model, row) === stack;
      hasRank ||= rows.rank[row] === rank;
    }
    if (hasStack && hasRank) fits.push(at);
  }
  return mostWaiting(fits, index, most);
}

/** The collective of a step with a rank's longest wait, or the longest wait for it; null if there is none. */
export function worstCollective(lanes, rank, step, measure) {
  const { collectives, rows } = lanes;
  const at = lanes.ranks.indexOf(rank);
  let [worst, most] = [null, -1];
  for (let of = 0; of < collectives.first.length; of += 1) {
    if (step !== null && collectives.step[of] !== step + 1) continue;
    if (measure === 'caused' && collectives.late[of] !== at + 1) continue;
    let waited = measure === 'caused' ? 0 : -1;
    for (let row = collectives.first[of]; row < collectives.first[of] + collectives.members[of]; row += 1) {
      if (measure === 'caused') waited += Math.max(0, rows.waited[row] - 1);
      else if (rows.rank[row] === at) waited = Math.max(0, rows.waited[row] - 1);
    }
    if (waited > most) [worst, most] = [of, waited];
  }
  return worst;
}

/** The id of a row's stack; null if it has none. */
export function stackOfRow(model, row) {
  const id = model.ofRankStack[model.lanes.rows.stack[row] - 1] ?? -1;
  return id < 0 ? null : id;
}

/** The collective's name and group, as text. */
export function collectiveName(lanes, at) {
  const { collectives } = lanes;
  const group = lanes.groups[collectives.group[at]];
  return visible(lanes.names[collectives.name[at]] ?? 'collective') + (group ? ` of ${visible(group)}` : '');
}

/** Whether the launch of a row is known. */
export function rowHasLaunch(rows, row) {
  return Boolean(rows.launch) && rows.launch[row] !== 0;
}

/** The kernel of a lane at a time, or the nearest one. */
export function rowNear(lanes, grid, lane, time, within) {
  const { collectives, rows } = lanes;
  const index = lanesIndex(lanes);
  let [best, least] = [null, within];
  for (let of = 0; of < index.n; of += 1) {
    if (index.begin[of] - within > time || index.end[of] + within < time) continue;
    for (let row = collectives.first[of]; row < collectives.first[of] + collectives.members[of]; row += 1) {
      if (grid.lane[rows.rank[row]] !== lane) continue;
      const far = Math.max(0, rows.start[row] - time, time - rows.start[row] - rows.dur[row]);
      if (far < least || (far === 0 && best === null)) [best, least] = [row, far];
    }
  }
  return best === null ? null : { lane, row: best };
}

/** A sentence on a rank's kernel. */
export function rowText(model, row) {
  const { rows, ranks } = model.lanes;
  const of = lanesIndex(model.lanes).of[row];
  const waited = rows.waited[row] === 0 ? 'waiting unknown' : `waited ${duration(rows.waited[row] - 1)}`;
  const stack = model.stacks[stackOfRow(model, row)];
  const launch = rowHasLaunch(rows, row) ? `, its launch ended ${apart(rows.launch[row], 'after it began', 'before')}` : '';
  return (
    `rank ${ranks[rows.rank[row]]}: ${collectiveName(model.lanes, of)} at ${duration(rows.start[row])}, ` +
    `ran ${duration(rows.dur[row])}, ${waited}${launch}` +
    (stack ? `; ${visible(stack.label)}` : '')
  );
}

const lanesMedian = (values) => (values.length === 0 ? null : [...values].sort((a, b) => a - b)[values.length >> 1]);

/** Sentences on what the late rank did. */
export function lateSentences(model, at, arrival) {
  const { rows, ranks, collectives } = model.lanes;
  const late = collectives.late[at] - 1;
  if (arrival.length < 2) return ['Only one rank has it here.'];
  const row = arrival.find((of) => rows.rank[of] === late);
  const last = arrival[arrival.length - 1];
  const before = arrival[arrival.length - 2];
  if (late < 0 || row === undefined) return [`No rank was clearly late: the last two came ${duration(rows.start[last] - rows.start[before])} apart.`];
  const others = arrival.filter((of) => of !== row);
  const previous = row === last ? before : last;
  const by = rows.start[row] - rows.start[previous];
  const texts = [
    `Rank ${ranks[late]} came ${apart(by, 'after', 'before')} the last but one (rank ${ranks[rows.rank[previous]]}); ` +
      (others.some((of) => rows.waited[of] > 0)
        ? `the others waited ${duration(others.reduce((sum, of) => sum + Math.max(0, rows.waited[of] - 1), 0))} in all.`
        : 'how long the others waited is not known.'),
  ];
  const median = (column, some) => lanesMedian(some.map((of) => rows[column][of]));
  const beside = (column, some) => (some.length === 0 ? '' : ` (the others: ${duration(median(column, some))} in the median)`);
  if (rowHasLaunch(rows, row)) {
    const wasLate = rows.start[row] + rows.launch[row] > rows.start[previous];
    texts.push(
      (wasLate
        ? `It launched late: its launch ended ${rows.launch[row] > 0 ? '' : 'only '}${duration(Math.abs(rows.launch[row]))} ` +
          `${rows.launch[row] > 0 ? 'after' : 'before'} its kernel began`
        : `It launched in time: its launch ended ${duration(-rows.launch[row])} before its kernel began, so its GPU came late`) + '.',
    );
  }
  if (rows.busy && (rows.busy[row] > 0 || rows.idle?.[row] > 0)) {
    texts.push(
      `Since its collective before, its GPU computed for ${duration(rows.busy[row])}${beside('busy', others)}` +
        (rows.idle ? ` and ran nothing for ${duration(rows.idle[row])}${beside('idle', others)}.` : '.'),
    );
  }
  return texts;
}
