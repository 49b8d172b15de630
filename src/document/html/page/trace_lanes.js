// The lanes of one trace: the calls that launch or block, with a lane for each thread, kernels, with a lane for each stream, and what threads run around
// their calls, with a lane for each level.

import { apart, count, duration, many, shortFrame, traceNs, visible } from './format.js';
import { Lanes, grouped, lane } from './lanes.js';

const STREAM_BAR = 18;
const CALL_BAR = 14;
const LEVEL_BAR = 13;
// A canvas has room for some 700 lanes on a sharp screen, but nobody can read so many.
const STREAMS_MOST = 128;
const THREADS_MOST = 32;
const TIES_MOST = 200;

export function traceLanes(model, timeline) {
  const { kernels, cpu, name, rank, lanes: streams, launches, window_ns: span } = timeline;
  const { calls, threads } = cpu;
  const callOf = new Int32Array(kernels.rows).fill(-1);
  launches.kernel.forEach((row, at) => (callOf[row] = launches.call[at]));
  const launched = grouped(launches.kernel, (row) => callOf[row]);
  const exposed = exposedParts(kernels, timeline.exposed);
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
      noun: 'call',
      counts: (row) => calls.count[row],
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
      label: streams[at],
      tall: STREAM_BAR,
      least: 30,
      noun: 'kernel',
      counts: (row) => kernels.count[row],
      inks: ['compute', 'collective', 'caused'],
      ink: (row) => kernels.does[row],
      strip: { rows: parts.get(at) ?? [], start: exposed.start, dur: exposed.dur, ink: 'exposed' },
      name: named,
      text: said(streams[at], kernels, named, kernelText, 'ran'),
      pick: pickKernel,
      traceNs: ns(kernels),
      isMarked: (row, { stack }) => stack !== null && kernels.stack[row] === stack + 1,
    });
  const lanes = [...fullest(calls, THREADS_MOST).map(thread), ...fullest(kernels, STREAMS_MOST).map(stream), ...(cpu.functions ? levelLanes(model, cpu) : [])];
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
    ...(cpu.functions ? [['accent', 'your code'], ['line', 'other functions']] : []),
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
    spanOfStep: (step) => {
      const of = timeline.steps[step];
      return of && of.name === model.stepNames[step] ? [of.start, of.start + of.dur] : null;
    },
  });
}

/** The exposed parts of kernels: each begins so long after the one before it, or the kernel's start, and without a length goes on to the kernel's end. */
function exposedParts({ start, dur }, { kernel, gap, dur: length }) {
  const parts = { kernel, start: new Float64Array(kernel.length), dur: new Float64Array(kernel.length) };
  kernel.forEach((row, at) => {
    parts.start[at] = gap[at] + (row === kernel[at - 1] ? parts.start[at - 1] + parts.dur[at - 1] : start[row]);
    parts.dur[at] = length[at] || start[row] + dur[row] - parts.start[at];
  });
  return parts;
}

/** What threads run, with a lane for each level: a function lies within the one before it that has not ended. Times are as exact as a pixel needs. */
function levelLanes(model, { functions, names, grain_ns: grain, threads }) {
  const { thread, name, isCall } = functions;
  const table = { start: functions.start.map((at) => at * grain), dur: functions.dur.map((of) => of * grain) };
  const ends = [];
  const levelOf = Float64Array.from(thread, (of, row) => {
    if (row === 0 || thread[row] !== thread[row - 1]) ends.length = 0;
    while (ends.length > 0 && ends.at(-1) <= table.start[row]) ends.pop();
    return of * functions.rows + ends.push(table.start[row] + table.dur[row]);
  });
  const about = grain > 1 ? 'about ' : '';
  const levels = [...grouped(thread.keys(), (row) => levelOf[row])].sort(([a], [b]) => a - b);
  return levels.map(([, rows]) => {
    const tree = threadLabel(threads, thread[rows[0]]);
    return lane(rows, table, {
      tree,
      tall: LEVEL_BAR,
      least: 24,
      noun: 'function',
      inks: ['line', 'accent', 'transfer'],
      ink: (row) => (isCall[row] ? 2 : Number(model.texts.telling.has(names[name[row]]))),
      name: (row) => shortFrame(names[name[row]]),
      text: (row) => `${visible(tree)}: ${visible(names[name[row]])} at ${about}${duration(table.start[row])}, took ${about}${duration(table.dur[row])}`,
    });
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
    cpu.functions && 'Below are the functions and calls of these threads, the outermost at the top; deeper ones come as you zoom in.',
    cpu.functions_left_out > 0 && `Of the functions, ${count(cpu.functions_left_out)} are not here: those shorter than ${duration(cpu.least_ns * cpu.finer)}, in the costliest step than ${duration(cpu.least_ns)}.`,
    fewer(shown, streams.length, 'streams'),
    fewer(threads, cpu.threads.length, 'threads'),
  ];
  return parts.filter((part) => part).join(' ');
}
