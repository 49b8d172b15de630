// The lanes of all ranks on one clock: the critical path, then collectives with a lane for each rank, and below it what its stage of a pipeline computes.
// With a rerun, each rank has its lane of the rerun below.

import { apart, count, duration, traceNs, visible } from './format.js';
import { Lanes, grouped, lane } from './lanes.js';

const PATH_COLOURS = { CPU: 'accent', 'launch latency': 'exposed', compute: 'compute', transfer: 'transfer', idle: 'line' };
const RANK_LANES = 320;

/** The rows of a rerun. `moved` is how it differs, by row: the end, the waiting, and the rest of the time. */
export function rerunRows({ start, dur, waited, ...others }, moved) {
  const longer = dur.map((ns, row) => ns + moved.waited[row] + moved.transfer[row]);
  return { ...others, dur: longer, start: start.map((ns, row) => ns + dur[row] + moved.end[row] - longer[row]), waited: waited.map((ns, row) => ns + moved.waited[row]) };
}

/** The collective of a step with a rank's longest wait, or the longest wait for it; null if there is none. */
export function worstCollective({ collectives: { first, members, step: stepOf, late }, rows, ranks }, rank, step, measure) {
  const at = ranks.indexOf(rank);
  const waitedIn = (of) => {
    const all = Array.from({ length: members[of] }, (_, member) => first[of] + member);
    const waits = all.filter((row) => measure === 'caused' || rows.rank[row] === at).map((row) => Math.max(0, rows.waited[row] - 1));
    const isMeant = measure === 'caused' ? late[of] === at + 1 : waits.length > 0;
    return isMeant ? waits.reduce((sum, ns) => sum + ns, 0) : -1;
  };
  const known = [...first.keys()].filter((of) => step === null || stepOf[of] === step + 1);
  return known.reduce(([worst, most], of) => (waitedIn(of) > most ? [of, waitedIn(of)] : [worst, most]), [null, -1])[0];
}

/** The lanes of all ranks; with a `rerun` of the page, each rank has its lane of that below. */
export function rankLanes(model, rerun = null) {
  const { lanes: data } = model;
  const { ranks, collectives, rows, pieces } = data;
  const collectiveOf = new Int32Array(rows.start.length);
  collectives.first.forEach((row, at) => collectiveOf.fill(at, row, row + collectives.members[at]));
  const order = ranks.map((_, at) => at).sort((a, b) => ranks[a] - ranks[b]);
  const perRow = Math.ceil(((rerun ? 2 : 1) * order.length) / RANK_LANES);
  const n = Math.ceil(order.length / perRow) * (rerun ? 2 : 1);
  const tall = n > 128 ? 2 : n > 64 ? 4 : n > 24 ? 9 : n > 12 ? 13 : 19;
  const place = new Map(order.map((rank, at) => [rank, Math.floor(at / perRow)]));
  const ofLane = grouped(rows.rank.keys(), (row) => place.get(rows.rank[row]));
  const nameOf = (row) => {
    const at = collectiveOf[row];
    const group = data.groups[collectives.group[at]];
    return visible(data.names[collectives.name[at]] ?? 'collective') + (group ? ` of ${visible(group)}` : '');
  };
  const stackOf = (row) => model.stacks[model.ofRankStack[rows.stack[row] - 1]] ?? null;
  const rankLane = (of, table, isRerun) => {
    const own = [...(ofLane.get(of) ?? [])].sort((a, b) => table.start[a] - table.start[b]);
    return lane(own, table, {
      side: true,
      label: isRerun ? '' : String(ranks[order[of * perRow]]),
      tall,
      least: 40,
      noun: isRerun ? 'rerun collective' : 'collective',
      find: (row) => `${nameOf(row)} ${stackOf(row)?.label ?? ''}`,
      inks: ['waited', 'transfer', 'collective'],
      ink: (row) => (table.waited[row] === 0 ? 2 : 1),
      split: (row) => Math.min(table.dur[row], Math.max(0, table.waited[row] - 1)),
      name: nameOf,
      text: (row) => {
        const stack = stackOf(row);
        const launch = !isRerun && rows.launch[row] !== 0 ? `, its launch ended ${apart(rows.launch[row], 'after it began', 'before')}` : '';
        const waits = table.waited[row] === 0 ? 'waiting unknown' : `waited ${duration(table.waited[row] - 1)}`;
        const what = `rank ${ranks[rows.rank[row]]}: ${nameOf(row)} at ${duration(table.start[row])}, ran ${duration(table.dur[row])}, ${waits}${launch}`;
        return `${isRerun ? 'Rerun: ' : ''}${what}${stack ? `; ${visible(stack.label)}` : ''}`;
      },
      pick: (row) => ({ stack: stackOf(row)?.id ?? null, collective: collectiveOf[row] }),
      traceNs: isRerun ? null : (row) => traceNs(data.origins_ns[rows.rank[row]], rows.start[row] + rows.drift[row]),
      isMarked: (row, choice) => collectiveOf[row] === choice.collective || (choice.stack !== null && stackOf(row)?.id === choice.stack),
      isChosen: ({ rank }) => order.slice(of * perRow, (of + 1) * perRow).some((at) => ranks[at] === rank),
    });
  };
  // Several ranks in one lane have no schedule that could be read.
  const hasPieces = !rerun && perRow === 1 && pieces.rows > 0;
  const pieceRows = grouped(hasPieces ? pieces.rank.keys() : [], (piece) => pieces.rank[piece]);
  const microbatch = (piece) => (pieces.microbatch[piece] > 0 ? String(pieces.microbatch[piece] - 1) : '');
  const pieceLane = (rank) =>
    lane(pieceRows.get(rank), pieces, {
      side: true,
      label: '',
      tall: Math.max(4, tall - 4),
      least: 10,
      noun: 'piece',
      inks: ['good', 'caused'],
      ink: (piece) => pieces.forward[piece],
      name: microbatch,
      text: (piece) => {
        const number = microbatch(piece) && ` of microbatch ${microbatch(piece)}`;
        return `Rank ${ranks[rank]}, ${pieces.forward[piece] ? 'forward' : 'backward'}${number}, at ${duration(pieces.start[piece])}, ${duration(pieces.dur[piece])}`;
      },
      pick: () => ({ rank: ranks[rank] }),
    });
  const path = rerun ? null : pathLane(data);
  const lanesOf = (of) => [rankLane(of, rows, false), rerun && rankLane(of, rerun.rows, true), pieceRows.has(order[of]) && pieceLane(order[of])];
  const all = Array.from({ length: Math.ceil(order.length / perRow) }, (_, of) => lanesOf(of));
  const lanes = [path?.lane, ...all.flat()].filter((of) => of?.rows?.length > 0);
  const span = rows.start.reduce((end, start, row) => Math.max(end, start + rows.dur[row]), data.span_ns ?? 1);
  const key = [
    ['waited', 'waits'],
    ['transfer', 'transfer'],
    ['collective', 'waiting unknown'],
    ['mark', 'chosen'],
    ...(hasPieces ? [['caused', 'forward'], ['good', 'backward']] : []),
    ...(path?.key ?? []),
  ];
  return new Lanes({
    span,
    lanes,
    steps: data.steps,
    key,
    label: rerun ? `rerun: ${visible(rerun.rule)}` : `all ${count(ranks.length)} ranks`,
    help: rankHelp(data, rerun, { hasPieces, path, perRow }),
    first: path ? 1 : 0,
    isOfAll: !rerun,
    spanOfCollective: (at) => spanOf(data, at === null ? [] : [at]),
    spanOfStep: (step) => spanOf(data, [...collectives.step.keys()].filter((at) => collectives.step[at] === step + 1)),
  });
}

/** When the first of some collectives begins and the last one ends; null without any. */
function spanOf({ collectives: { first, members }, rows }, of) {
  let [from, to] = [Infinity, 0];
  for (const at of of) {
    for (let row = first[at]; row < first[at] + members[at]; row += 1) [from, to] = [Math.min(from, rows.start[row]), Math.max(to, rows.start[row] + rows.dur[row])];
  }
  return to > from ? [from, to] : null;
}

/** The critical path: what the job's length consists of, one piece after the other, each on one rank; null where it is not known. */
function pathLane({ path, ranks }) {
  const { spans, texts } = path;
  if (spans.rows === 0) return null;
  const kinds = [...new Set(spans.kind)].map((kind) => texts[kind]);
  const of = lane(spans.start.keys(), spans, {
    side: true,
    label: 'path',
    tall: 16,
    least: 30,
    noun: 'path piece',
    inks: kinds.map((kind) => PATH_COLOURS[kind]),
    ink: (span) => kinds.indexOf(texts[spans.kind[span]]),
    name: (span) => texts[spans.name[span]],
    text: (span) => `Critical path: rank ${ranks[spans.rank[span]]}, ${texts[spans.kind[span]]}: ${visible(texts[spans.name[span]])}, at ${duration(spans.start[span])}, ${duration(spans.dur[span])}`,
    pick: (span) => ({ rank: ranks[spans.rank[span]] }),
  });
  return { lane: of, key: kinds.map((kind) => [PATH_COLOURS[kind], `path: ${kind}`]) };
}

function rankHelp({ left_out: left, rerun: known }, rerun, { hasPieces, path, perRow }) {
  const parts = [
    'Collectives of each rank on one clock: waiting, then transfer.',
    rerun && `Below each is a rerun, on the same axis; steps are as recorded. With “${visible(rerun.rule)}” the job ends ${duration(rerun.saves_ns)} earlier.`,
    hasPieces && 'Below them is what the stage computes, with the numbers of microbatches.',
    path && 'Above them is the critical path: what the length of the job consists of.',
    !rerun && known && !known.rows && `The rerun with “${visible(known.rule)}” is not drawn beside them: it would make this page too large.`,
    perRow > 1 && `A lane is ${perRow} ranks.`,
    left > 0 && `${count(left)} collectives with less waiting are not here.`,
  ];
  return parts.filter((part) => part).join(' ');
}
