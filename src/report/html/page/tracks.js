// The data of a timeline: the kernels of one trace with a lane for each stream, or the collectives of all ranks with a lane for each. Both have the
// same methods, so that the view need not know which it shows. What is narrower than a pixel is summed: a pixel's strength is the share of it in
// which kernels ran.

import { channels, fitText, hatch, packed, pixelField } from './canvas.js';
import { lanesIndex, rowNear, rowText, stackOfRow } from './collectives.js';
import { el } from './dom.js';
import { count, duration, visible } from './format.js';

/** The colours of the kinds of kernels, by number, and of exposed time. */
const TRACK_INKS = ['compute', 'collective', 'caused', 'exposed'];

const TIMELINE_LANE = 46;
const TIMELINE_BAR = 18;
// A canvas has room for some 700 lanes on a sharp screen, but nobody can read so many.
const TIMELINE_MOST = 128;

/** The kernels of one trace, a lane for each stream. */
export class StreamLanes {
  constructor(model, timeline) {
    const { kernels, exposed, lanes, name, rank } = timeline;
    Object.assign(this, { model, timeline, kernels, span: timeline.window_ns });
    this.label = rank === null || rank === undefined ? visible(name) : `rank ${rank}`;
    this.hasUnknown = kernels.does.includes(2);
    const byLane = lanes.map(() => []);
    for (let row = 0; row < kernels.rows; row += 1) byLane[kernels.lane[row]].push(row);
    const fullest = byLane.map((rows, lane) => lane).sort((a, b) => byLane[b].length - byLane[a].length);
    const kept = fullest.slice(0, TIMELINE_MOST).sort((a, b) => a - b);
    const place = new Map(kept.map((lane, at) => [lane, at]));
    this.byLane = kept.map((lane) => byLane[lane]);
    this.names = kept.map((lane) => lanes[lane].label);
    this.byLane = this.byLane.map((rows) => Int32Array.from(rows));
    // The latest end up to each row, which gives the first row that can reach into a window.
    this.ends = this.byLane.map((rows) => {
      let latest = 0;
      return Float64Array.from(rows, (row) => {
        latest = Math.max(latest, kernels.start[row] + kernels.dur[row]);
        return latest;
      });
    });
    this.parts = new Float64Array(kernels.rows);
    const parts = kept.map(() => []);
    for (let part = 0; part < exposed.start.length; part += 1) {
      this.parts[exposed.kernel[part]] += exposed.dur[part];
      parts[place.get(kernels.lane[exposed.kernel[part]])]?.push(part);
    }
    this.exposedByLane = parts.map((of) => Int32Array.from(of));
    this.help =
      'Kernels of each stream; below a collective is marked when no compute kernel ran beside it (exposed).' +
      (timeline.merged_ns > 0 ? ` Compute kernels less than ${duration(timeline.merged_ns)} apart are drawn as one.` : '') +
      (lanes.length > kept.length ? ` These are the ${count(kept.length)} streams of ${count(lanes.length)} with most kernels.` : '');
  }

  get height() {
    return this.byLane.length * TIMELINE_LANE;
  }

  /** The rows of a lane inside a window. */
  rowsIn(lane, from, to) {
    const [rows, ends] = [this.byLane[lane], this.ends[lane]];
    const first = trackBound(rows.length, (at) => ends[at] >= from);
    return [first, trackBound(rows.length, (at) => this.kernels.start[rows[at]] > to)];
  }

  draw(context, at, shown, stack) {
    const { kernels } = this;
    const wide = Math.ceil(at.right - at.left);
    const scale = wide / (at.to - at.from);
    const x = (time) => (time - at.from) * scale;
    for (let lane = 0; lane < this.byLane.length; lane += 1) {
      const y = at.top + lane * TIMELINE_LANE + 8;
      const [first, last] = this.rowsIn(lane, at.from, at.to);
      const sums = TRACK_INKS.map(() => new Float32Array(wide));
      const marks = new Uint8Array(wide + 1);
      const boxes = [];
      for (let of = first; of < last; of += 1) {
        const row = this.byLane[lane][of];
        const [x0, x1] = [x(kernels.start[row]), x(kernels.start[row] + kernels.dur[row])];
        trackCover(sums[kernels.does[row]], x0, x1);
        if (stack !== null && kernels.stack[row] === stack + 1 && x1 >= 0) {
          marks[Math.min(wide, Math.max(0, Math.round((x0 + x1) / 2)))] = 1;
          if (x1 - x0 > 2) boxes.push([x0, x1]);
        }
      }
      const parts = this.exposedByLane[lane];
      for (const part of parts) {
        const start = this.timeline.exposed.start[part];
        if (start <= at.to && start + this.timeline.exposed.dur[part] >= at.from)
          trackCover(sums[3], x(start), x(start + this.timeline.exposed.dur[part]));
      }
      const inks = TRACK_INKS.map((name) => channels(shown[name]));
      this.put(context, at.left, y, wide, sums, inks);
      context.fillStyle = shown.mark;
      for (let pixel = 0; pixel <= wide; pixel += 1) if (marks[pixel]) trackTick(context, at.left + pixel, y - 1);
      context.strokeStyle = shown.mark;
      for (const [x0, x1] of boxes)
        context.strokeRect(at.left + Math.max(-1, x0), y + 0.5, Math.min(wide + 2, x1) - Math.max(-1, x0), TIMELINE_BAR - 1);
      this.drawNames(context, at, shown, lane, [first, last], x, y);
      context.fillStyle = shown.muted;
      context.fillText(fitText(context, this.names[lane], wide), at.left, y + TIMELINE_BAR + 14);
    }
  }

  put(context, left, y, wide, sums, inks) {
    const image = new ImageData(wide, TIMELINE_BAR + 6);
    for (let pixel = 0; pixel < wide; pixel += 1) {
      const [computes, communicates, unknown, exposed] = sums.map((sum) => sum[pixel]);
      const isSeen = (sum) => sum > 0 && sum >= computes * 0.25;
      const ink = isSeen(communicates) ? 1 : isSeen(unknown) ? 2 : 0;
      const share = Math.min(1, computes + communicates + unknown);
      if (share > 0) trackColumn(image, pixel, 0, TIMELINE_BAR, inks[ink], share);
      if (exposed > 0) trackColumn(image, pixel, TIMELINE_BAR + 1, TIMELINE_BAR + 6, inks[3], Math.min(1, exposed));
    }
    const canvas = el('canvas', { width: wide, height: TIMELINE_BAR + 6 });
    canvas.getContext('2d').putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(canvas, left, y);
  }

  /** Draws the names of wide kernels of known stacks. */
  drawNames(context, at, shown, lane, [first, last], x, y) {
    if (last - first > 2000) return;
    const { kernels } = this;
    context.fillStyle = shown.panel;
    for (let of = first; of < last; of += 1) {
      const row = this.byLane[lane][of];
      const [x0, x1] = [Math.max(0, x(kernels.start[row])), Math.min(at.right - at.left, x(kernels.start[row] + kernels.dur[row]))];
      const stack = this.model.stacks[kernels.stack[row] - 1];
      if (stack && x1 - x0 > 60) context.fillText(fitText(context, stack.label, x1 - x0 - 8), at.left + x0 + 4, y + TIMELINE_BAR / 2 + 0.5);
    }
  }

  at(y, time, within) {
    const lane = Math.floor(y / TIMELINE_LANE);
    if (!this.byLane[lane]) return null;
    const [first, last] = this.rowsIn(lane, time - within, time + within);
    let [best, least] = [null, Infinity];
    for (let of = last - 1; of >= first; of -= 1) {
      const row = this.byLane[lane][of];
      const far = Math.max(0, this.kernels.start[row] - time, time - this.kernels.start[row] - this.kernels.dur[row]);
      if (far <= within && far < least) [best, least] = [of, far];
      if (least === 0) break;
    }
    return best === null ? null : { lane, of: best };
  }

  /** The next (or previous) kernel at least `least` later; on another lane, the one nearest in time. */
  next(item, lanes, rows, least) {
    const lane = Math.min(Math.max((item?.lane ?? 0) + lanes, 0), this.byLane.length - 1);
    const list = this.byLane[lane];
    const start = (of) => this.kernels.start[list[of]];
    if (!item || lanes !== 0)
      return { lane, of: Math.min(list.length - 1, item ? trackBound(list.length, (of) => start(of) >= this.startOf(item)) : 0) };
    let of = item.of + rows;
    while (of >= 0 && of < list.length && Math.abs(start(of) - start(item.of)) < least) of += rows;
    return { lane, of: Math.min(Math.max(of, 0), list.length - 1) };
  }

  startOf({ lane, of }) {
    return this.kernels.start[this.byLane[lane][of]];
  }

  stackOf({ lane, of }) {
    const stack = this.kernels.stack[this.byLane[lane][of]];
    return stack > 0 ? { stack: stack - 1 } : null;
  }

  text({ lane, of }) {
    const { kernels } = this;
    const row = this.byLane[lane][of];
    const stack = this.model.stacks[kernels.stack[row] - 1];
    const one = ['a compute kernel', 'a collective', 'possibly communication'][kernels.does[row]];
    const some = kernels.count[row] > 1 ? `${count(kernels.count[row])} compute kernels` : one;
    const exposed = kernels.does[row] === 1 ? `, ${duration(this.parts[row])} of it exposed` : '';
    const where = `${visible(this.names[lane])}: ${stack ? visible(stack.label) : some}`;
    return `${where} at ${duration(kernels.start[row])}, ran ${duration(kernels.dur[row])}${exposed}`;
  }
}

/** The collectives of all ranks, with a lane for each rank. */
export class RankLanes {
  constructor(model) {
    const { ranks, rows } = model.lanes;
    Object.assign(this, { model, label: `all ${count(ranks.length)} ranks` });
    this.grid = laneGrid(
      ranks.map((_, at) => at).sort((a, b) => ranks[a] - ranks[b]),
      ranks.length,
    );
    let end = 1;
    for (let row = 0; row < rows.start.length; row += 1) end = Math.max(end, rows.start[row] + rows.dur[row]);
    this.span = Math.max(end, model.lanes.span_ns ?? 0);
    this.help =
      'Collectives of each rank on one clock: waiting, then transfer.' +
      (this.grid.perRow > 1 ? ` A lane is ${this.grid.perRow} ranks.` : '') +
      (model.lanes.left_out > 0 ? ` ${count(model.lanes.left_out)} collectives with less waiting are not here.` : '');
  }

  get height() {
    return this.grid.n * this.grid.tall;
  }

  draw(context, at, shown, stack, collective, rank) {
    drawLanes(context, this.model, this.grid, at, shown, { chosen: collective, stack, rank });
    context.textAlign = 'right';
    context.fillStyle = shown.muted;
    const every = Math.ceil(15 / this.grid.tall);
    for (let lane = 0; lane < this.grid.n; lane += every) {
      context.fillText(
        String(this.model.lanes.ranks[this.grid.order[lane * this.grid.perRow]]),
        at.left - 6,
        at.top + Math.max(6, (lane + 0.5) * this.grid.tall),
      );
    }
    context.textAlign = 'left';
  }

  at(y, time, within) {
    return rowNear(this.model.lanes, this.grid, Math.floor(y / this.grid.tall), time, within);
  }

  next(item, lanes, rows, least) {
    const { start } = this.model.lanes.rows;
    const { byTime } = lanesIndex(this.model.lanes);
    const lane = Math.min(Math.max((item?.lane ?? 0) + lanes, 0), this.grid.n - 1);
    const from = item ? start[item.row] : 0;
    if (!item || lanes !== 0) return rowNear(this.model.lanes, this.grid, lane, from, this.span);
    let at = byTime.indexOf(lanesIndex(this.model.lanes).of[item.row]);
    for (at += rows; at >= 0 && at < byTime.length; at += rows) {
      const { first, members: sizes } = this.model.lanes.collectives;
      for (let row = first[byTime[at]]; row < first[byTime[at]] + sizes[byTime[at]]; row += 1) {
        if (this.grid.lane[this.model.lanes.rows.rank[row]] === lane && Math.abs(start[row] - from) >= least) return { lane, row };
      }
    }
    return item;
  }

  startOf({ row }) {
    return this.model.lanes.rows.start[row];
  }

  stackOf({ row }) {
    return { stack: stackOfRow(this.model, row), collective: lanesIndex(this.model.lanes).of[row] };
  }

  text({ row }) {
    return rowText(this.model, row);
  }
}

/** Adds how much of each pixel is covered. */
function trackCover(sums, x0, x1) {
  const [from, to] = [Math.max(0, x0), Math.min(sums.length, x1)];
  if (to < 0 || from >= sums.length) return;
  const last = Math.floor(to);
  const first = Math.floor(from);
  if (first === last) sums[first] += Math.max(0.15, to - from);
  else {
    sums[first] += first + 1 - from;
    for (let pixel = first + 1; pixel < last; pixel += 1) sums[pixel] += 1;
    if (last < sums.length) sums[last] += to - last;
  }
}

function trackColumn(image, x, top, bottom, ink, share) {
  const strength = 255 * (0.3 + 0.7 * share);
  for (let y = top; y < bottom; y += 1) {
    const at = (y * image.width + x) * 4;
    for (let c = 0; c < 3; c += 1) image.data[at + c] = ink[c];
    image.data[at + 3] = strength;
  }
}

function trackTick(context, x, y) {
  context.beginPath();
  context.moveTo(x - 3.5, y - 6);
  context.lineTo(x + 3.5, y - 6);
  context.lineTo(x, y);
  context.fill();
}

/** The first of n numbers that fits, or n if none does. Every number after one that fits must fit as well. */
function trackBound(n, fits) {
  let [low, high] = [0, n];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (fits(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

const LANES_ROWS = 320;

/** The lane of each rank: `{lane: by index of rank, -1 none; n, tall, perRow}`. */
export function laneGrid(order, ranks) {
  const lane = new Int32Array(ranks).fill(-1);
  const perRow = Math.ceil(order.length / LANES_ROWS);
  order.forEach((rank, at) => {
    lane[rank] = Math.floor(at / perRow);
  });
  const n = Math.ceil(order.length / perRow);
  return { order, lane, perRow, n, tall: n > 128 ? 2 : n > 64 ? 4 : n > 24 ? 12 : n > 12 ? 16 : 22 };
}

/** Draws the kernels of collectives on the lanes of ranks. `at` has left, right, top, from, to; `chosen` and `stack` are outlined. */
export function drawLanes(context, model, grid, at, shown, { chosen = null, stack = null, rank = null } = {}) {
  const { collectives, rows } = model.lanes;
  const index = lanesIndex(model.lanes);
  const scale = (at.right - at.left) / (at.to - at.from);
  const gap = grid.tall > 8 ? 3 : grid.tall > 3 ? 1 : 0;
  const tall = grid.tall - gap;
  const field = pixelField(context, at.left, at.top, at.right - at.left, grid.n * grid.tall);
  const inks = { waited: packed(shown.waited), transfer: packed(shown.transfer), collective: packed(shown.collective) };
  const hatched = [];
  const marks = [];
  for (const of of index.byTime) {
    if (index.end[of] < at.from || index.begin[of] > at.to) continue;
    for (let row = collectives.first[of]; row < collectives.first[of] + collectives.members[of]; row += 1) {
      const lane = grid.lane[rows.rank[row]];
      const start = rows.start[row];
      if (lane < 0 || start > at.to || start + rows.dur[row] < at.from) continue;
      const waited = Math.min(rows.dur[row], Math.max(0, rows.waited[row] - 1));
      const [x0, x1, x2] = [start, start + waited, start + rows.dur[row]].map((time) => at.left + (time - at.from) * scale);
      const y = at.top + lane * grid.tall;
      if (rows.waited[row] === 0) field.fill(x0, x2, y, y + tall, inks.collective);
      else if (x2 > x1) field.fill(x1, x2, y, y + tall, inks.transfer);
      if (waited > 0 && tall > 8 && x1 - x0 > 4) hatched.push([x0, x1, y]);
      else if (waited > 0) field.fill(x0, x1, y, y + tall, inks.waited);
      if (of === chosen || (stack !== null && stackOfRow(model, row) === stack)) marks.push([x0, x2, y]);
    }
  }
  field.done();
  drawLaneMarks(context, { hatched, marks, tall }, at, shown);
  drawChosenLane(context, grid, model.lanes.ranks.indexOf(rank), at, shown);
}

function drawChosenLane(context, grid, rank, at, shown) {
  const lane = grid.lane[rank] ?? -1;
  if (lane < 0) return;
  const y = at.top + lane * grid.tall;
  context.strokeStyle = shown.mark;
  context.strokeRect(at.left - 1.5, y - 1.5, at.right - at.left + 3, grid.tall + (grid.tall > 8 ? 0 : 3));
  context.fillStyle = shown.mark;
  context.fillRect(at.left - 4, y - 1, 3, Math.max(4, grid.tall));
}

function drawLaneMarks(context, { hatched, marks, tall }, at, shown) {
  context.save();
  context.beginPath();
  context.rect(at.left - 2, 0, at.right - at.left + 4, 1e5);
  context.clip();
  context.fillStyle = hatch(context, shown.waited);
  context.strokeStyle = shown.waited;
  for (const [x0, x1, y] of hatched.slice(0, 20000)) {
    context.fillRect(x0, y, x1 - x0, tall);
    context.strokeRect(x0 + 0.5, y + 0.5, x1 - x0 - 1, tall - 1);
  }
  if (tall > 3) {
    context.strokeStyle = shown.mark;
    context.lineWidth = 1.5;
    for (const [x0, x2, y] of marks.slice(0, 20000)) context.strokeRect(x0 - 0.75, y - 0.75, Math.max(1.5, x2 - x0 + 1.5), tall + 1.5);
    context.lineWidth = 1;
  }
  context.restore();
}
