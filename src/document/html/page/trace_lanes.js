// The lanes of one trace: the calls that launch or block, with a lane for each thread, and kernels, with a lane for each stream.

import { apart, count, duration, many, traceNs, visible } from './format.js';
import { Lanes, grouped, lane } from './lanes.js';

const STREAM_BAR = 18;
const CALL_BAR = 14;
// A canvas has room for some 700 lanes on a sharp screen, but nobody can read so many.
const STREAMS_MOST = 128;
const THREADS_MOST = 32;
const TIES_MOST = 200;

/** The lanes of a timeline of the page. */
export function traceLanes(model, timeline) {
  const { kernels, cpu, name, rank, lanes: streams, exposed, launches, window_ns: span } = timeline;
  const { calls, threads } = cpu;
  const callOf = new Int32Array(kernels.rows).fill(-1);
  launches.kernel.forEach((row, at) => (callOf[row] = launches.call[at]));
  const launched = grouped(launches.kernel, (row) => callOf[row]);
  const exposedOf = new Float64Array(kernels.rows);
  exposed.kernel.forEach((row, part) => (exposedOf[row] += exposed.dur[part]));
  const times = (n, text) => (n > 1 ? `${count(n)} × ${text}` : text);
  const callName = (call) => times(calls.count[call], cpu.names[calls.name[call] - 1] ?? (calls.blocks[call] ? 'blocking calls' : 'launching calls'));
  const kernelName = (row) => (kernels.name[row] === 0 ? `${count(kernels.count[row])} compute kernels` : times(kernels.count[row], timeline.names[kernels.name[row] - 1]));
  const stackOf = (row) => model.stacks[kernels.stack[row] - 1];
  const kernelText = (row) => {
    const what = ['a compute kernel', 'a collective', 'possibly communication'][kernels.does[row]];
    const part = kernels.does[row] === 1 ? `, ${duration(exposedOf[row])} of it exposed` : '';
    const call = callOf[row];
    if (call < 0) return `${part}; ${what}`;
    const launch = apart(calls.start[call] - kernels.start[row], 'after its start', 'before its start');
    return `${part}; launched ${launch} by ${visible(callName(call))} on ${visible(threadLabel(threads, calls.lane[call]))}`;
  };
  const callText = (call) => {
    const rows = launched.get(call) ?? [];
    return `${calls.blocks[call] ? ', blocks its thread' : ''}${rows.length > 0 ? `, launched ${many(rows.length, 'kernel')} of a stack` : ''}`;
  };
  const said = (label, table, name, more, verb) => (row) => `${visible(label)}: ${visible(name(row))} at ${duration(table.start[row])}, ${verb} ${duration(table.dur[row])}${more(row)}`;
  const ns = (table) => (row) => traceNs(timeline.origin_ns, table.start[row]);
  const pickKernel = (row) => (kernels.stack[row] > 0 ? { stack: kernels.stack[row] - 1 } : null);
  const thread = ([at, rows]) => {
    const label = threadLabel(threads, at);
    return lane(rows, calls, {
      label,
      isThread: true,
      tall: CALL_BAR,
      least: 30,
      inks: ['transfer', 'waited'],
      ink: (row) => calls.blocks[row],
      name: callName,
      text: said(label, calls, callName, callText, 'took'),
      pick: (row) => pickKernel((launched.get(row) ?? [])[0] ?? -1),
      traceNs: ns(calls),
    });
  };
  const parts = grouped(exposed.kernel.keys(), (part) => kernels.lane[exposed.kernel[part]]);
  const named = (row) => (stackOf(row) ? `${kernelName(row)} · ${stackOf(row).label}` : kernelName(row));
  const stream = ([at, rows]) =>
    lane(rows, kernels, {
      label: streams[at].label,
      tall: STREAM_BAR,
      least: 30,
      inks: ['compute', 'collective', 'caused'],
      ink: (row) => kernels.does[row],
      strip: { rows: parts.get(at) ?? [], start: exposed.start, dur: exposed.dur, ink: 'exposed' },
      name: named,
      text: said(streams[at].label, kernels, named, kernelText, 'ran'),
      pick: pickKernel,
      traceNs: ns(kernels),
      isMarked: (row, { stack }) => stack !== null && kernels.stack[row] === stack + 1,
      isFound: (row, found) => found?.hits[row] === 1,
    });
  const lanes = [...fullest(calls, THREADS_MOST).map(thread), ...fullest(kernels, STREAMS_MOST).map(stream)];
  const itemOf = (table, row) => {
    const at = lanes.findIndex((of) => of.table === table && of.rows.includes(row));
    return at < 0 ? null : { lane: at, of: lanes[at].rows.indexOf(row) };
  };
  const tied = (rows) => rows.map((row) => [itemOf(calls, callOf[row]), itemOf(kernels, row)]).filter((ends) => ends.every((end) => end));
  const tiesOf = ({ lane: at, of }) => {
    const row = lanes[at].rows[of];
    return tied(lanes[at].isThread ? (launched.get(row) ?? []).slice(0, TIES_MOST) : [row]);
  };
  const ties = ({ stack }, from, to) => {
    const isShown = (row) => kernels.stack[row] === stack + 1 && kernels.start[row] <= to && kernels.start[row] + kernels.dur[row] >= from;
    const rows = stack === null ? [] : [...kernels.stack.keys()].filter(isShown);
    return rows.length > TIES_MOST ? [] : tied(rows);
  };
  const key = [
    ['compute', 'compute'],
    ['collective', 'collective'],
    ...(kernels.does.includes(2) ? [['caused', 'possibly communication']] : []),
    ['exposed', 'exposed'],
    ...(lanes[0]?.isThread ? [['transfer', 'launching call'], ['waited', 'blocking call']] : []),
    ['mark', 'chosen stack'],
  ];
  return new Lanes({
    timeline,
    span,
    lanes,
    steps: timeline.steps,
    key,
    label: rank === null || rank === undefined ? visible(name) : `rank ${rank}`,
    help: traceHelp(timeline, lanes),
    first: lanes.findIndex((of) => !of.isThread),
    tiesOf,
    ties,
    search: (query) => searchKernels(model, timeline, query),
    itemOf: (row) => itemOf(kernels, row),
    spanOfStep: (step) => {
      const of = timeline.steps[step];
      return of && of.name === model.stepNames[step] ? [of.start, of.start + of.dur] : null;
    },
  });
}

/** The lanes with the most rows, in their order: `[place, rows]`. */
function fullest(table, most) {
  const rows = [...grouped(table.lane.keys(), (row) => table.lane[row])].sort(([a], [b]) => a - b);
  return rows.sort(([, a], [, b]) => b.length - a.length).slice(0, most).sort(([a], [b]) => a - b);
}

function threadLabel(threads, at) {
  const { process, thread, name } = threads[at];
  const named = name.includes(thread) ? name : `thread ${thread}${name ? ` (${name})` : ''}`;
  return `${new Set(threads.map((of) => of.process)).size > 1 ? `process ${process}, ` : ''}${named}`;
}

function traceHelp({ merged_ns: merged, cpu, lanes: streams }, lanes) {
  const [threads, shown] = [true, false].map((isThread) => lanes.filter((of) => Boolean(of.isThread) === isThread).length);
  const fewer = (kept, all, what) => all > kept && `These are the ${count(kept)} ${what} of ${count(all)} with most rows.`;
  const joined = (ns, what) => ns > 0 && `${what} less than ${duration(ns)} apart are drawn as one.`;
  const parts = [
    `${threads > 0 ? 'Calls of each thread that launches, then kernels' : 'Kernels'} of each stream; below a collective is marked when no compute kernel ran beside it (exposed).`,
    joined(merged, 'Compute kernels'),
    joined(cpu.merged_ns, 'Calls'),
    cpu.left_out > 0 && `The ${many(cpu.left_out, 'shortest call')} are not drawn.`,
    fewer(shown, streams.length, 'streams'),
    fewer(threads, cpu.threads.length, 'threads'),
  ];
  return parts.filter((part) => part).join(' ');
}

/** The kernels with a text in their name or their stack's: `{hits by row, rows, text}`. */
function searchKernels(model, { kernels, names: known }, query) {
  const hasText = (text) => text.toLowerCase().includes(query);
  const [names, stacks] = [known.map(hasText), model.stacks.map((stack) => hasText(stack.label))];
  const hits = Uint8Array.from(kernels.name, (name, row) => (names[name - 1] || stacks[kernels.stack[row] - 1] ? 1 : 0));
  const rows = [...hits.keys()].filter((row) => hits[row] === 1);
  const sum = (of, column) => of.reduce((all, row) => all + column[row], 0);
  const all = kernels.count.reduce((before, n) => before + n, 0);
  return { hits, rows, text: `${count(sum(rows, kernels.count))} of ${many(all, 'kernel')}, ${duration(sum(rows, kernels.dur))}` };
}
