// A matrix as colours: ranks by steps, or ranks by the ranks that they waited for. What is smaller than a pixel or a row shows its maximum, so that a
// single bad rank stays visible.

import { Chart, channels, drawPixels, fillShape, fitText } from './canvas.js';
import { choice, el, section } from './dom.js';
import { count, duration, percent, visible } from './format.js';
import { heatCells, heatOrder, stepLabels } from './order.js';
import { worstCollective } from './rank_lanes.js';

const MATRIX_TOP = 44;
// With more rows than this, some are one; of more ranks than this no pairs are drawn.
const MATRIX_ROWS = 512;
const MATRIX_PAIRS = 2048;
// The most pixels of a label that is written upwards.
const MATRIX_UPRIGHT = 170;

const MATRIX_MEASURES = [['caused', 'others waited for it'], ['waited', 'waited'], ['exposed', 'exposed']];

/**
 * A matrix of a source: `{id, title, help, rows, columns, order, measures: [[key, label, values]], name(row, column, value, label),
 * choose(row, column), marked(): {row, column, late}}`. `values` are by row, then by column; `order` is that of rows.
 */
class Matrix extends Chart {
  constructor(source, state) {
    super();
    Object.assign(this, { order: source.rows.map((_, at) => at) }, source, { state });
    this.placeOf = new Map(this.order.map((row, at) => [row, at]));
    this.switch = this.measures.length < 2 ? null : choice('Show', this.measures, this.measure()[0], (measure) => state.set({ measure }));
    this.keys = { PageUp: () => this.move(0, -20), PageDown: () => this.move(0, 20) };
    const toolbar = this.switch ? el('div', { class: 'toolbar' }, this.switch.node) : null;
    this.node = section(this.id, this.title, `${this.help} ← → ↑ ↓ move, Enter chooses.`, toolbar, this.box, this.says);
    this.say();
  }

  /** What is shown: what the address names, else the first that is not all zero. */
  measure() {
    const shows = ([, , values]) => values.some((value) => value > 0);
    return this.measures.find(([key]) => key === this.state.get('measure')) ?? this.measures.find(shows) ?? this.measures[0];
  }

  update() {
    this.switch?.show(this.measure()[0]);
    this.paint();
    this.say();
  }

  grid(width) {
    const ranksPerRow = this.rows.length > MATRIX_ROWS ? Math.ceil(this.rows.length / 256) : 1;
    const rows = Math.ceil(this.rows.length / ranksPerRow);
    const left = width < 520 ? 44 : 76;
    const most = Math.max(40, width - left - 12);
    const space = this.isSquare ? Math.min(most, 720, 34 * this.columns.length) : most;
    const stepsPerColumn = Math.ceil(this.columns.length / space);
    const columns = Math.ceil(this.columns.length / stepsPerColumn);
    const tall = this.isSquare ? Math.max(2, space / rows) : Math.max(2, Math.min(22, Math.floor(560 / rows)));
    return { ranksPerRow, rows, tall, left, stepsPerColumn, columns, wide: space / columns, right: left + space, bottom: MATRIX_TOP + rows * tall };
  }

  cells(grid) {
    const [key, , values] = this.measure();
    const known = `${key} ${grid.rows} ${grid.stepsPerColumn}`;
    if (this.known !== known) {
      const most = values.reduce((largest, value) => Math.max(largest, value), 0);
      Object.assign(this, { known, found: { ...heatCells(values, this.order, this.rows.length, this.columns.length, grid), most } });
    }
    return this.found;
  }

  draw(context, width, height, shown) {
    const grid = this.grid(width);
    const names = this.names(context, grid);
    const tall = Math.ceil(grid.bottom + names.high);
    if (Math.abs(tall - height) > 0.5) return void this.paint(tall);
    this.grids = grid;
    const { max, most } = this.cells(grid);
    const scale = ramp(shown, this.measure()[0]);
    drawPixels(context, [grid.columns, grid.rows], [grid.left, MATRIX_TOP, grid.right - grid.left, grid.bottom - MATRIX_TOP], (pixels) =>
      max.forEach((value, cell) => pixels.set([...scale[shareAt(value / most)], 255], cell * 4)),
    );
    drawRamp(context, scale, grid.left, Math.round(Math.min(200, width / 4)), most, shown);
    this.drawFrame(context, grid, shown);
    this.drawNames(context, grid, names);
    this.drawChosen(context, grid, shown);
    const size = `${count(this.rows.length)} ranks by ${count(this.columns.length)} ${this.noun}`;
    this.canvas.setAttribute('aria-label', `${this.title}: ${this.measure()[1]}, ${size}; the most is ${duration(most)}`);
  }

  drawFrame(context, { rows, columns, left, right, bottom, wide, tall, ranksPerRow }, shown) {
    const isWide = wide > 8 && tall > 8;
    context.fillStyle = shown.panel;
    for (let row = 1; isWide && row < rows; row += 1) context.fillRect(left, MATRIX_TOP + row * tall - 1, right - left, 1);
    for (let column = 1; isWide && column < columns; column += 1) context.fillRect(left + column * wide - 1, MATRIX_TOP, 1, bottom - MATRIX_TOP);
    context.strokeStyle = shown.line;
    context.strokeRect(left - 0.5, MATRIX_TOP - 0.5, right - left + 1, bottom - MATRIX_TOP + 1);
    context.fillStyle = shown.muted;
    context.textAlign = 'right';
    context.fillText('rank', left - 8, MATRIX_TOP - 12);
    for (let row = 0; row < rows; row += Math.ceil(15 / tall)) {
      context.fillText(String(this.rows[this.order[row * ranksPerRow]]), left - 8, MATRIX_TOP + (row + 0.5) * tall + 0.5);
    }
  }

  /** How the names of the columns fit below the cells: beside each other, numbers with some left out, words written upwards. */
  names(context, grid) {
    const texts = Array.from({ length: grid.columns }, (_, column) => visible(this.columns[column * grid.stepsPerColumn]));
    const widest = texts.reduce((most, text) => Math.max(most, context.measureText(text).width), 0);
    const isWide = widest + 6 > grid.wide;
    const isUpright = isWide && !texts.every((text) => /^#?\d+$/.test(text));
    const every = isUpright ? Math.ceil(15 / grid.wide) : isWide ? Math.ceil((widest + 18) / grid.wide) : 1;
    return { texts, every, isUpright, high: isUpright ? Math.min(widest, MATRIX_UPRIGHT) + 14 : 24 };
  }

  drawNames(context, grid, { texts, every, isUpright }) {
    context.textAlign = 'right';
    context.fillText(`${this.across} →`, grid.left - 8, grid.bottom + 12);
    context.textAlign = isUpright ? 'right' : 'center';
    for (let column = 0; column < grid.columns; column += every) {
      const x = grid.left + (column + 0.5) * grid.wide;
      const half = context.measureText(texts[column]).width / 2;
      context.save();
      context.translate(isUpright ? x : Math.min(Math.max(x, grid.left + half), grid.right - half), grid.bottom + (isUpright ? 6 : 12));
      if (isUpright) context.rotate(-Math.PI / 2);
      context.fillText(isUpright ? fitText(context, texts[column], MATRIX_UPRIGHT) : texts[column], 0, 0);
      context.restore();
    }
    context.textAlign = 'left';
  }

  drawChosen(context, grid, shown) {
    const { row: chosen, column, late } = this.marked();
    const rowOf = (row) => (this.placeOf.has(row) ? Math.floor(this.placeOf.get(row) / grid.ranksPerRow) : -1);
    const tip = (row, colour) => {
      const y = MATRIX_TOP + (row + 0.5) * grid.tall;
      context.fillStyle = colour;
      fillShape(context, [grid.left - 7, y - 4], [grid.left - 1, y], [grid.left - 7, y + 4]);
    };
    late.forEach((row) => tip(rowOf(row), shown.caused));
    context.strokeStyle = shown.mark;
    context.lineWidth = 2;
    const row = rowOf(chosen);
    const at = column < 0 || column >= this.columns.length ? -1 : Math.floor(column / grid.stepsPerColumn);
    const [x, wide] = at < 0 ? [grid.left, grid.right - grid.left] : [grid.left + at * grid.wide, grid.wide];
    const [y, tall] = row < 0 ? [MATRIX_TOP, grid.bottom - MATRIX_TOP] : [MATRIX_TOP + row * grid.tall, grid.tall];
    if (row >= 0) tip(row, shown.mark);
    if (row >= 0 || at >= 0) context.strokeRect(x - 1, y - 1, wide + 2, tall + 2);
    context.lineWidth = 1;
    context.strokeStyle = shown.fg;
    const { cursor } = this;
    if (cursor) context.strokeRect(grid.left + cursor.column * grid.wide - 0.5, MATRIX_TOP + cursor.row * grid.tall - 0.5, grid.wide + 1, grid.tall + 1);
  }

  at(x, y) {
    const { left, wide, tall, rows, columns } = this.grids ?? {};
    const [column, row] = [Math.floor((x - left) / wide), Math.floor((y - MATRIX_TOP) / tall)];
    return row >= 0 && row < rows && column >= 0 && column < columns ? { row, column } : null;
  }

  move(right, down) {
    const { rows, columns } = this.grids ?? { rows: 1, columns: 1 };
    const within = (value, n) => Math.min(Math.max(value, 0), n - 1);
    const from = this.cursor ?? { row: down < 0 ? rows : down > 0 ? -1 : 0, column: right < 0 ? columns : right > 0 ? -1 : 0 };
    this.hover({ row: within(from.row + down, rows), column: within(from.column + right, columns) });
  }

  worst({ row, column }) {
    const { columns, ranksPerRow, stepsPerColumn } = this.grids;
    const { rank, step, max } = this.cells(this.grids);
    const at = row * columns + column;
    return rank[at] > 0 ? [rank[at] - 1, step[at], max[at]] : [this.order[row * ranksPerRow], column * stepsPerColumn, max[at]];
  }

  text(cell) {
    const [, label, values] = this.measure();
    if (cell && this.grids) return this.name(...this.worst(cell), label);
    const at = values.indexOf(values.reduce((most, value) => Math.max(most, value), 0));
    return `The most: ${this.name(Math.floor(at / this.columns.length), at % this.columns.length, values[at], label)}`;
  }

  pick(cell) {
    const [row, column] = this.worst(cell);
    this.choose(row, column, this.measure()[0]);
  }
}

/** 256 colours from the chart's background to a colour, and on towards the text's, with monotonic lightness: red, green and blue of each. */
function ramp(shown, name) {
  const stops = [channels(shown.panel), channels(shown[name]), channels(shown.fg)];
  return Array.from({ length: 256 }, (_, at) => {
    const share = at / 255;
    const [from, to, part] = share < 0.7 ? [stops[0], stops[1], 0.06 + (share / 0.7) * 0.94] : [stops[1], stops[2], (share - 0.7) / 0.3 / 2];
    return [0, 1, 2].map((c) => (at === 0 ? from[c] : from[c] + (to[c] - from[c]) * part));
  });
}

/** The place of a share on a ramp: its square root, so that small values are visible beside large ones. */
function shareAt(share) {
  return share > 0 ? Math.max(1, Math.round(Math.sqrt(share) * 255)) : 0;
}

/** The legend of a ramp above the cells, with its ends. */
function drawRamp(context, scale, x, width, most, shown) {
  const left = Math.round(x + context.measureText('0').width + 6);
  drawPixels(context, [scale.length, 1], [left, 6, width, 12], (pixels) => scale.forEach((colour, at) => pixels.set([...colour, 255], at * 4)));
  context.strokeStyle = shown.line;
  context.strokeRect(left - 0.5, 5.5, width + 1, 13);
  context.fillStyle = shown.muted;
  context.fillText('0', x, 12);
  context.fillText(duration(most), left + width + 6, 12);
}

export function mountHeat(model, state) {
  const { ranks: answer } = model.docs;
  const names = model.stepNames;
  if (!answer || answer.steps.length === 0 || answer.ranks.length === 0) return null;
  const ranks = answer.ranks.map(({ rank }) => rank);
  const { order, text } = heatOrder(ranks, answer.groups);
  const { labels, prefix } = stepLabels(names);
  const value = (key, at) => answer.steps[at % names.length][`${key}_ns`]?.[Math.floor(at / names.length)] ?? 0;
  const values = (key) => Float64Array.from({ length: ranks.length * names.length }, (_, at) => value(key, at));
  const source = {
    id: 'heat',
    title: 'Ranks and steps',
    help: `Which rank waited, and for which rank did others wait, in which step? Rows are ${text}.${prefix ? ` Names of steps begin with “${visible(prefix.trim())}”.` : ''}`,
    rows: ranks,
    columns: labels,
    noun: 'steps',
    across: 'step',
    order,
    measures: MATRIX_MEASURES.filter(([key]) => answer.steps.some((step) => step[`${key}_ns`])).map((measure) => [...measure, values(measure[0])]),
    name: (row, column, value, label) => `rank ${ranks[row]}, ${visible(names[column])}: ${label} ${duration(value)}`,
    marked: () => ({
      row: ranks.indexOf(state.get('rank')),
      column: state.get('step', -1),
      late: (model.stacks[state.get('stack', -1)]?.waiting?.late_ranks ?? []).map(([rank]) => ranks.indexOf(rank)).filter((row) => row >= 0),
    }),
    choose: (row, step, measure) => {
      const rank = ranks[row];
      if (state.get('rank') === rank && state.get('step') === step) return state.set({ rank: null, step: null, collective: null });
      state.set({ rank, step, ...(model.lanes ? { collective: worstCollective(model.lanes, rank, step, measure) } : {}) });
    },
  };
  return new Matrix(source, state);
}

/** Ranks by the ranks that they waited for; null if nobody waited. */
export function mountPairs(model, state) {
  const pairs = model.docs.ranks?.pairs ?? [];
  if (pairs.length === 0 || model.docs.ranks.ranks.length > MATRIX_PAIRS) return null;
  const ranks = model.docs.ranks.ranks.map(({ rank }) => rank);
  const at = new Map(ranks.map((rank, place) => [rank, place]));
  const values = new Float64Array(ranks.length ** 2);
  pairs.forEach((pair) => (values[at.get(pair.rank) * ranks.length + at.get(pair.waited_for)] += pair.waited_ns));
  const all = values.reduce((sum, value) => sum + value, 0);
  const source = {
    id: 'pairs',
    title: 'Who waited for whom',
    help: 'For which rank did a rank wait? Rows wait, columns are waited for. Waiting is counted for the rank that came last.',
    rows: ranks,
    columns: ranks.map(String),
    noun: 'ranks',
    across: 'for',
    isSquare: true,
    measures: [['waited', 'waited', values]],
    name: (row, column, value) =>
      value > 0
        ? `rank ${ranks[row]} waited ${duration(value)} for rank ${ranks[column]}, ${percent(value / all)} of all waiting`
        : `rank ${ranks[row]} did not wait for rank ${ranks[column]}`,
    marked: () => ({ row: at.get(state.get('rank')) ?? -1, column: at.get(state.get('rank')) ?? -1, late: [] }),
    choose: (row, column) => state.set({ rank: state.get('rank') === ranks[column] ? null : ranks[column] }),
  };
  return new Matrix(source, state);
}
