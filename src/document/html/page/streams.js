// The kernels of one trace, with a lane for each stream, and above them the calls that launch or block, with a lane for each thread. What is
// narrower than a pixel is summed: a pixel's strength is the share of it in which kernels or calls ran.

import { EXPOSED_BAR, STEP_ROW, coverPixels, drawSteps, drawTick, putBars, readable } from './bars.js';
import { apart, channels, fitText } from './canvas.js';
import { traceNs } from './clock.js';
import { count, duration, many, visible } from './format.js';

/** The colours of the kinds of kernels, by number, and of exposed time; and those of calls. */
const STREAM_INKS = ['compute', 'collective', 'caused', 'exposed'];
const CALL_INKS = ['transfer', 'waited'];

const LANE_LABEL = 15;
const LANE_GAP = 7;
const STREAM_BAR = 18;
const CALL_BAR = 14;
const TICK_WIDTH = 7;
// A canvas has room for some 700 lanes on a sharp screen, but nobody can read so many.
const STREAMS_MOST = 128;
const THREADS_MOST = 32;
// More names or lines than this are not drawn: they would cover each other.
const NAMES_MOST = 2000;
const LAUNCHES_MOST = 200;

/** The kernels and calls of one trace. */
export class StreamLanes {
  constructor(model, timeline) {
    const { kernels, cpu, name, rank } = timeline;
    Object.assign(this, { model, timeline, kernels, calls: cpu.calls, span: timeline.window_ns, found: null });
    this.label = rank === null || rank === undefined ? visible(name) : `rank ${rank}`;
    this.stepRow = timeline.steps.length > 0 ? STEP_ROW : 0;
    this.lanes = [...threadLanes(timeline), ...streamLanes(timeline)];
    this.place();
    this.exposed = new Float64Array(kernels.rows);
    timeline.exposed.kernel.forEach((row, part) => (this.exposed[row] += timeline.exposed.dur[part]));
    this.tieLaunches();
    this.key = this.inks();
    this.help = this.describe();
  }

  /** Places the lanes below each other. */
  place() {
    let y = this.stepRow;
    this.laneOfRow = new Int32Array(this.kernels.rows).fill(-1);
    this.laneOfCall = new Int32Array(this.calls.rows).fill(-1);
    this.lanes.forEach((lane, at) => {
      Object.assign(lane, { y, bar: y + LANE_LABEL });
      y += LANE_LABEL + lane.tall + (lane.parts ? EXPOSED_BAR : 0) + LANE_GAP;
      const of = lane.isThread ? this.laneOfCall : this.laneOfRow;
      lane.rows.forEach((row) => (of[row] = at));
    });
    this.height = y;
  }

  /** From when to when a step of the answer is in this trace, or null. */
  spanOfStep(step) {
    const of = this.timeline.steps[step];
    return of && of.name === this.model.steps?.names[step] ? [of.start, of.start + of.dur] : null;
  }

  /** The call of each kernel, -1 for none, and the kernels of each call. */
  tieLaunches() {
    const { kernel, call } = this.timeline.launches;
    this.callOf = new Int32Array(this.kernels.rows).fill(-1);
    this.launched = new Map();
    kernel.forEach((row, at) => {
      this.callOf[row] = call[at];
      if (this.launched.has(call[at])) this.launched.get(call[at]).push(row);
      else this.launched.set(call[at], [row]);
    });
  }

  inks() {
    const has = (does) => this.kernels.does.includes(does);
    return [
      ['compute', 'compute'],
      ['collective', 'collective'],
      ...(has(2) ? [['caused', 'possibly communication']] : []),
      ['exposed', 'exposed'],
      ...(this.lanes[0]?.isThread ? [['transfer', 'launching call'], ['waited', 'blocking call']] : []),
      ['mark', 'chosen stack'],
    ];
  }

  describe() {
    const { timeline } = this;
    const [threads, streams] = [true, false].map((isThread) => this.lanes.filter((lane) => lane.isThread === isThread).length);
    const fewer = (kept, all, what) => (all > kept ? ` These are the ${count(kept)} ${what} of ${count(all)} with most rows.` : '');
    const merged = (ns, what) => (ns > 0 ? ` ${what} less than ${duration(ns)} apart are drawn as one.` : '');
    const left = (n, what) => (n > 0 ? ` The ${many(n, `shortest ${what}`)} are not drawn.` : '');
    return (
      `${threads > 0 ? 'Calls of each thread that launches, then kernels' : 'Kernels'} of each stream; below a collective is marked when no compute kernel ran beside it (exposed).` +
      merged(timeline.merged_ns, 'Compute kernels') +
      merged(timeline.cpu.merged_ns, 'Calls') +
      left(timeline.cpu.left_out, 'call') +
      fewer(streams, timeline.lanes.length, 'streams') +
      fewer(threads, timeline.cpu.threads.length, 'threads')
    );
  }

  tableOf(lane) {
    return lane.isThread ? this.calls : this.kernels;
  }

  /** The rows of a lane inside a window: the first, and the one after the last. */
  rowsIn(lane, from, to) {
    const { start } = this.tableOf(lane);
    const first = firstThat(lane.rows.length, (at) => lane.ends[at] >= from);
    return [first, firstThat(lane.rows.length, (at) => start[lane.rows[at]] > to)];
  }

  draw(context, at, shown, stack) {
    const scale = (at.right - at.left) / (at.to - at.from);
    const x = (time) => (time - at.from) * scale;
    drawSteps(context, at, shown, this.timeline.steps);
    for (const lane of this.lanes) {
      const range = this.rowsIn(lane, at.from, at.to);
      this.drawBars(context, at, shown, lane, range, x);
      if (!lane.isThread) this.drawMarks(context, at, shown, lane, range, { stack, x });
      this.drawNames(context, at, shown, lane, range, x);
      context.fillStyle = shown.muted;
      context.fillText(fitText(context, lane.label, at.right - at.left), at.left, at.top + lane.y + LANE_LABEL / 2);
    }
    if (stack !== null) this.drawLaunches(context, at, shown, this.rowsOfStack(stack, at), x);
  }

  drawBars(context, at, shown, lane, [first, last], x) {
    const wide = Math.ceil(at.right - at.left);
    const table = this.tableOf(lane);
    const names = lane.isThread ? CALL_INKS : STREAM_INKS;
    const sums = names.map(() => new Float32Array(wide));
    for (let of = first; of < last; of += 1) {
      const row = lane.rows[of];
      coverPixels(sums[this.kindOf(lane, row)], x(table.start[row]), x(table.start[row] + table.dur[row]));
    }
    const { start, dur } = this.timeline.exposed;
    for (const part of lane.parts ?? []) {
      if (start[part] <= at.to && start[part] + dur[part] >= at.from) coverPixels(sums[3], x(start[part]), x(start[part] + dur[part]));
    }
    putBars(context, at.left, at.top + lane.bar, lane, sums, names.map((name) => channels(shown[name])));
  }

  kindOf(lane, row) {
    return lane.isThread ? this.calls.blocks[row] : this.kernels.does[row];
  }

  /** Outlines the kernels of the chosen stack, and those that were searched for. */
  drawMarks(context, at, shown, lane, [first, last], { stack, x }) {
    if (stack === null && !this.found) return;
    const { kernels } = this;
    const wide = at.right - at.left;
    const ticks = [new Set(), new Set()];
    const y = at.top + lane.bar;
    for (let of = first; of < last; of += 1) {
      const row = lane.rows[of];
      const isFound = this.found?.hits[row] === 1;
      if (!isFound && (stack === null || kernels.stack[row] !== stack + 1)) continue;
      const [x0, x1] = [x(kernels.start[row]), x(kernels.start[row] + kernels.dur[row])];
      ticks[Number(isFound)].add(Math.min(wide, Math.max(0, Math.round((x0 + x1) / 2))));
      if (x1 - x0 <= 2) continue;
      context.strokeStyle = isFound ? shown.fg : shown.mark;
      context.strokeRect(at.left + Math.max(-1, x0), y + 0.5, Math.min(wide + 2, x1) - Math.max(-1, x0), STREAM_BAR - 1);
    }
    ticks.forEach((pixels, isFound) => {
      context.fillStyle = isFound ? shown.fg : shown.mark;
      // Triangles side by side would be a bar over the lane's label.
      const isDense = pixels.size * TICK_WIDTH > wide / 2;
      pixels.forEach((pixel) => (isDense ? context.fillRect(at.left + pixel, y - 3, 1, 2) : drawTick(context, at.left + pixel, y - 1)));
    });
  }

  /** Draws where wide kernels and calls begin, and their names. */
  drawNames(context, at, shown, lane, [first, last], x) {
    if (last - first > NAMES_MOST) return;
    const table = this.tableOf(lane);
    const names = lane.isThread ? CALL_INKS : STREAM_INKS;
    context.font = '11px system-ui, sans-serif';
    for (let of = first; of < last; of += 1) {
      const row = lane.rows[of];
      const [x0, x1] = [Math.max(0, x(table.start[row])), Math.min(at.right - at.left, x(table.start[row] + table.dur[row]))];
      context.fillStyle = shown.panel;
      if (x1 - x0 > 5) context.fillRect(at.left + x0 - 0.5, at.top + lane.bar, 1, lane.tall);
      if (x1 - x0 < 30) continue;
      context.fillStyle = readable(shown, names[this.kindOf(lane, row)]);
      context.fillText(fitText(context, this.nameOf(lane, row), x1 - x0 - 8), at.left + x0 + 4, at.top + lane.bar + lane.tall / 2 + 0.5);
    }
    context.font = '12px system-ui, sans-serif';
  }

  /** The name of a kernel or call, as its block shows it. */
  nameOf(lane, row) {
    if (lane.isThread) return this.callName(row);
    const stack = this.model.stacks[this.kernels.stack[row] - 1];
    const name = this.kernelName(row);
    return stack ? `${name} · ${stack.label}` : name;
  }

  callName(call) {
    const { calls, timeline } = this;
    const name = timeline.cpu.names[calls.name[call] - 1] ?? (calls.blocks[call] ? 'blocking calls' : 'launching calls');
    return calls.count[call] > 1 ? `${count(calls.count[call])} × ${name}` : name;
  }

  kernelName(row) {
    const { kernels, timeline } = this;
    if (kernels.name[row] === 0) return `${count(kernels.count[row])} compute kernels`;
    const name = timeline.names[kernels.name[row] - 1];
    return kernels.count[row] > 1 ? `${count(kernels.count[row])} × ${name}` : name;
  }

  rowsOfStack(stack, { from, to }) {
    const { kernels } = this;
    const rows = [];
    for (let row = 0; row < kernels.rows && rows.length <= LAUNCHES_MOST; row += 1) {
      if (kernels.stack[row] === stack + 1 && kernels.start[row] <= to && kernels.start[row] + kernels.dur[row] >= from) rows.push(row);
    }
    return rows.length > LAUNCHES_MOST ? [] : rows;
  }

  /** Draws lines from the launches of kernels to the kernels. */
  drawLaunches(context, at, shown, rows, x) {
    const { kernels, calls } = this;
    context.strokeStyle = shown.mark;
    context.beginPath();
    for (const row of rows) {
      const call = this.callOf[row];
      const [from, to] = [this.lanes[this.laneOfCall[call]], this.lanes[this.laneOfRow[row]]];
      if (!from || !to) continue;
      context.moveTo(at.left + x(calls.start[call]), at.top + from.bar + from.tall);
      context.lineTo(at.left + x(kernels.start[row]), at.top + to.bar);
    }
    context.stroke();
  }

  /** Draws what the cursor is on: its outline, and the lines between a launch and its kernels. */
  drawItem(context, at, shown, item) {
    const lane = this.lanes[item.lane];
    const row = lane.rows[item.of];
    const table = this.tableOf(lane);
    const x = (time) => (time - at.from) * ((at.right - at.left) / (at.to - at.from));
    const [x0, x1] = [x(table.start[row]), x(table.start[row] + table.dur[row])];
    context.strokeStyle = shown.fg;
    context.strokeRect(at.left + x0 - 1, at.top + lane.bar - 1, Math.max(2, x1 - x0 + 2), lane.tall + 2);
    this.drawLaunches(context, at, shown, this.launchesOf(item), x);
  }

  /** The kernels of a cursor: the one that it is on, or those that its call launched. */
  launchesOf({ lane, of }) {
    const row = this.lanes[lane].rows[of];
    return this.lanes[lane].isThread ? (this.launched.get(row) ?? []).slice(0, LAUNCHES_MOST) : [row];
  }

  at(y, time, within) {
    const lane = this.lanes.findIndex(({ y: top }, at) => y >= top && y < (this.lanes[at + 1]?.y ?? this.height));
    if (lane < 0) return null;
    const { rows } = this.lanes[lane];
    const { start, dur } = this.tableOf(this.lanes[lane]);
    const [first, last] = this.rowsIn(this.lanes[lane], time - within, time + within);
    let [best, least] = [null, Infinity];
    for (let of = last - 1; of >= first; of -= 1) {
      const far = Math.max(0, start[rows[of]] - time, time - start[rows[of]] - dur[rows[of]]);
      if (far <= within && far < least) [best, least] = [of, far];
      if (least === 0) break;
    }
    return best === null ? null : { lane, of: best };
  }

  /** The next (or previous) row at least `least` later; on another lane, the one nearest in time. Begins on the first stream. */
  next(item, lanes, rows, least) {
    const first = this.lanes.findIndex((lane) => !lane.isThread);
    const lane = Math.min(Math.max((item?.lane ?? first) + lanes, 0), this.lanes.length - 1);
    const list = this.lanes[lane].rows;
    const start = (of) => this.tableOf(this.lanes[lane]).start[list[of]];
    if (!item || lanes !== 0)
      return { lane, of: Math.min(list.length - 1, item ? firstThat(list.length, (of) => start(of) >= this.startOf(item)) : 0) };
    let of = item.of + rows;
    while (of >= 0 && of < list.length && Math.abs(start(of) - start(item.of)) < least) of += rows;
    return { lane, of: Math.min(Math.max(of, 0), list.length - 1) };
  }

  /** The cursor of a kernel. */
  itemOf(row) {
    const lane = this.laneOfRow[row];
    return lane < 0 ? null : { lane, of: this.lanes[lane].rows.indexOf(row) };
  }

  startOf({ lane, of }) {
    return this.tableOf(this.lanes[lane]).start[this.lanes[lane].rows[of]];
  }

  /** When it started in the trace, in ns. */
  traceNs(item) {
    return traceNs(this.timeline.origin_ns, this.startOf(item));
  }

  endOf({ lane, of }) {
    return this.startOf({ lane, of }) + this.tableOf(this.lanes[lane]).dur[this.lanes[lane].rows[of]];
  }

  stackOf(item) {
    const stack = this.kernels.stack[this.launchesOf(item)[0]];
    return stack > 0 ? { stack: stack - 1 } : null;
  }

  text(item) {
    const lane = this.lanes[item.lane];
    const row = lane.rows[item.of];
    const table = this.tableOf(lane);
    const when = `at ${duration(table.start[row])}, ${lane.isThread ? 'took' : 'ran'} ${duration(table.dur[row])}`;
    const more = lane.isThread ? this.callText(row) : this.kernelText(row);
    return `${visible(lane.label)}: ${visible(this.nameOf(lane, row))} ${when}${more}`;
  }

  callText(call) {
    const kernels = this.launched.get(call) ?? [];
    const blocks = this.calls.blocks[call] ? ', blocks its thread' : '';
    return kernels.length > 0 ? `${blocks}, launched ${many(kernels.length, 'kernel')} of a stack` : blocks;
  }

  kernelText(row) {
    const { kernels, calls } = this;
    const what = ['a compute kernel', 'a collective', 'possibly communication'][kernels.does[row]];
    const exposed = kernels.does[row] === 1 ? `, ${duration(this.exposed[row])} of it exposed` : '';
    const call = this.callOf[row];
    if (call < 0) return `${exposed}; ${what}`;
    const lane = this.lanes[this.laneOfCall[call]];
    const launch = apart(calls.start[call] - kernels.start[row], 'after its start', 'before its start');
    return `${exposed}; launched ${launch} by ${visible(this.callName(call))}${lane ? ` on ${visible(lane.label)}` : ''}`;
  }
}

/** A lane of a table's rows: with the latest end up to each row, which gives the first row that can reach into a window. */
function laneOf(label, rows, { start, dur }, more) {
  let latest = 0;
  const ends = Float64Array.from(rows, (row) => {
    latest = Math.max(latest, start[row] + dur[row]);
    return latest;
  });
  return { label, rows: Int32Array.from(rows), ends, ...more };
}

/** The lanes with the most rows, in their order, each with its place among all. */
function fullestLanes(lanes, most) {
  const order = lanes.map((rows, at) => at).sort((a, b) => lanes[b].length - lanes[a].length);
  return order.slice(0, most).sort((a, b) => a - b);
}

function threadLanes({ cpu: { threads, calls } }) {
  const byThread = threads.map(() => []);
  for (let row = 0; row < calls.rows; row += 1) byThread[calls.lane[row]].push(row);
  const processes = new Set(threads.map((thread) => thread.process)).size;
  const label = ({ process, thread, name }) => {
    const named = name.includes(thread) ? name : `thread ${thread}${name ? ` (${name})` : ''}`;
    return `${processes > 1 ? `process ${process}, ` : ''}${named}`;
  };
  const kept = fullestLanes(byThread, THREADS_MOST).filter((at) => byThread[at].length > 0);
  return kept.map((at) => laneOf(label(threads[at]), byThread[at], calls, { isThread: true, tall: CALL_BAR, parts: null }));
}

function streamLanes({ kernels, lanes, exposed }) {
  const byLane = lanes.map(() => []);
  for (let row = 0; row < kernels.rows; row += 1) byLane[kernels.lane[row]].push(row);
  const parts = lanes.map(() => []);
  exposed.kernel.forEach((row, part) => parts[kernels.lane[row]].push(part));
  const kept = fullestLanes(byLane, STREAMS_MOST).filter((at) => byLane[at].length > 0);
  return kept.map((at) => laneOf(lanes[at].label, byLane[at], kernels, { isThread: false, tall: STREAM_BAR, parts: parts[at] }));
}

/** The first of n numbers that fits, or n if none does. Every number after one that fits must fit as well. */
function firstThat(n, fits) {
  let [low, high] = [0, n];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (fits(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
