// The collectives of all ranks on one clock, with a lane for each rank. It has the same methods as the kernels of one trace (streams.js), so that the
// view need not know which it shows.

import { STEP_ROW, drawSteps } from './bars.js';
import { hatch, packed, pixelField } from './canvas.js';
import { lanesIndex, rowNear, rowText, rowTraceNs, stackOfRow } from './collectives.js';
import { count, visible } from './format.js';
import { criticalLane } from './path.js';
import { pipelinePieces } from './pieces.js';
import { whatIfLength } from './what_if.js';

/** The collectives of all ranks, with a lane for each rank; with a `rerun`, each rank has a second lane below the first. */
export class RankLanes {
  constructor(model, rerun = null) {
    const { ranks, rows } = model.lanes;
    this.model = model;
    this.label = rerun ? `rerun: ${visible(rerun.rule)}` : `all ${count(ranks.length)} ranks`;
    const order = ranks.map((_, at) => at).sort((a, b) => ranks[a] - ranks[b]);
    this.runs = rerun ? [model.lanes, rerun] : [model.lanes];
    this.grids = this.runs.map((_, at) => laneGrid(order, ranks.length, this.runs.length, at));
    this.grid = this.grids[0];
    this.path = rerun ? null : criticalLane(model.lanes);
    // Several ranks in one lane have no schedule that could be read.
    this.pieces = rerun || this.grid.perRow > 1 ? null : pipelinePieces(model.lanes);
    this.stepRow = model.lanes.steps.length > 0 ? STEP_ROW : 0;
    this.top = this.stepRow + (this.path?.tall ?? 0);
    let end = 1;
    for (let row = 0; row < rows.start.length; row += 1) end = Math.max(end, rows.start[row] + rows.dur[row]);
    this.span = Math.max(end, model.lanes.span_ns ?? 0);
    this.key = [
      ['waited', 'waits', this.grid.tall > 8],
      ['transfer', 'transfer'],
      ['collective', 'waiting unknown'],
      ['mark', 'chosen'],
      ...(rerun ? [['line', 'rerun']] : []),
      ...(this.pieces?.key ?? []),
      ...(this.path?.key ?? []),
    ];
    this.help = (rerun ? this.rerunHelp(rerun) : this.recordedHelp()) + this.limits();
  }

  recordedHelp() {
    const { rerun } = this.model.lanes;
    return (
      'Collectives of each rank on one clock: waiting, then transfer.' +
      (this.pieces ? ' Below them is what the stage computes, with the numbers of microbatches.' : '') +
      (this.path ? ' Above them is the critical path: what the length of the job consists of; below a lane is where it is on that rank.' : '') +
      (rerun && !rerun.rows ? ` The rerun with “${visible(rerun.rule)}” is not drawn beside them: it would make this page too large.` : '')
    );
  }

  rerunHelp({ rule, saves_ns: saves }) {
    return (
      'Collectives of each rank as recorded, and below them, on grey, in a rerun, on the same axis; steps are as recorded. ' +
      `With “${visible(rule)}” ${whatIfLength(this.model.page.what_if, saves)}`
    );
  }

  limits() {
    const { left_out: left } = this.model.lanes;
    const ranks = this.grid.perRow > 1 ? ` A lane is ${this.grid.perRow} ranks.` : '';
    return ranks + (left > 0 ? ` ${count(left)} collectives with less waiting are not here.` : '');
  }

  get height() {
    return this.top + this.grid.n * this.grid.tall;
  }

  draw(context, all, shown, stack, collective, rank) {
    const at = { ...all, top: all.top + this.top };
    const { lane, tall, n, order, perRow } = this.grid;
    const rows = this.runs.length;
    drawSteps(context, all, shown, this.model.lanes.steps);
    this.path?.draw(context, { ...all, top: all.top + this.stepRow }, shown, (of) => (tall > 8 && lane[of] >= 0 ? at.top + (lane[of] + 1) * tall : null));
    context.fillStyle = shown.line;
    for (let lane = 1; lane < n && rows > 1; lane += rows) context.fillRect(at.left, at.top + lane * tall, at.right - at.left, tall);
    this.runs.forEach((lanes, row) => drawLanes(context, { ...this.model, lanes }, this.grids[row], at, shown, { chosen: collective, stack, rank }));
    this.pieces?.draw(context, at, shown, this.grid);
    context.textAlign = 'right';
    context.fillStyle = shown.muted;
    const every = rows * Math.ceil(15 / (tall * rows));
    for (let lane = 0; lane < n; lane += every) {
      const text = String(this.model.lanes.ranks[order[(lane / rows) * perRow]]);
      context.fillText(text, at.left - 6, at.top + Math.max(6, (lane + rows / 2) * tall));
    }
    context.textAlign = 'left';
  }

  at(y, time, within) {
    if (y < this.top) return y < this.stepRow ? null : this.path.at(time);
    const { order, tall } = this.grid;
    const lane = Math.floor((y - this.top) / tall);
    const piece = this.pieces && lane < order.length ? this.pieces.at(order[lane], time, y - this.top - lane * tall, tall) : null;
    return piece === null ? this.near(lane, time, within) : { lane, piece };
  }

  near(lane, time, within) {
    return rowNear(this.lanesOf(lane), this.grids[lane % this.runs.length], lane, time, within);
  }

  /** What a lane shows: the recording or the rerun. */
  lanesOf(lane) {
    return this.runs[lane % this.runs.length];
  }

  next(item, lanes, rows, least) {
    if (item?.span !== undefined && lanes <= 0) return this.path.next(item.span, rows, least);
    if (this.path && item?.lane === 0 && lanes < 0) return this.path.at(this.startOf(item)) ?? item;
    const from = item ? this.startOf(item) : 0;
    if (item?.span !== undefined) return this.near(0, from, this.span);
    if (item?.piece !== undefined && rows !== 0) return { ...item, piece: this.pieces.next(item.piece, rows) };
    const lane = Math.min(Math.max((item?.lane ?? 0) + lanes, 0), this.grid.n - 1);
    if (!item || lanes !== 0) return this.near(lane, from, this.span);
    const shown = this.lanesOf(lane);
    const { byTime, of } = lanesIndex(shown);
    for (let at = byTime.indexOf(of[item.row]) + rows; at >= 0 && at < byTime.length; at += rows) {
      const { first, members: sizes } = shown.collectives;
      for (let row = first[byTime[at]]; row < first[byTime[at]] + sizes[byTime[at]]; row += 1) {
        if (this.grids[lane % this.runs.length].lane[shown.rows.rank[row]] === lane && Math.abs(shown.rows.start[row] - from) >= least) return { lane, row };
      }
    }
    return item;
  }

  startOf({ lane, row, span, piece }) {
    if (piece !== undefined) return this.pieces.start[piece];
    return span === undefined ? this.lanesOf(lane).rows.start[row] : this.path.start[span];
  }

  /** When a kernel started in its rank's trace, in ns; null of a piece of the path or of a pipeline, and in a rerun. */
  traceNs({ lane, row }) {
    return row === undefined || this.lanesOf(lane) !== this.model.lanes ? null : rowTraceNs(this.model.lanes, row);
  }

  /** From when to when the collectives of a step run, or null. */
  spanOfStep(step) {
    const { begin, end } = lanesIndex(this.model.lanes);
    let [from, to] = [Infinity, 0];
    this.model.lanes.collectives.step.forEach((of, at) => {
      if (of !== step + 1) return;
      [from, to] = [Math.min(from, begin[at]), Math.max(to, end[at])];
    });
    return to > from ? [from, to] : null;
  }

  /** What choosing it selects: of a piece, its rank. */
  stackOf({ row, span, piece }) {
    if (row === undefined) return { rank: this.model.lanes.ranks[piece === undefined ? this.path.rank[span] : this.pieces.rank[piece]] };
    return { stack: stackOfRow(this.model, row), collective: lanesIndex(this.model.lanes).of[row] };
  }

  text(item) {
    if (item.piece !== undefined) return this.pieces.text(item.piece);
    if (item.span !== undefined) return this.path.text(item);
    const lanes = this.lanesOf(item.lane);
    return `${lanes === this.model.lanes ? '' : 'Rerun: '}${rowText({ ...this.model, lanes }, item.row)}`;
  }
}

const LANES_ROWS = 320;

/** The lane of each rank: `{lane: by index of rank, -1 none; n, tall, perRow}`. Ranks have so many lanes each, of which this is one. */
export function laneGrid(order, ranks, rows = 1, row = 0) {
  const lane = new Int32Array(ranks).fill(-1);
  const perRow = Math.ceil((rows * order.length) / LANES_ROWS);
  order.forEach((rank, at) => {
    lane[rank] = rows * Math.floor(at / perRow) + row;
  });
  const n = rows * Math.ceil(order.length / perRow);
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
