// Ranks by steps: how long each rank waited, how long others waited for it, and how long its collectives were exposed.
//
// Above 512 ranks a row covers several: its colour is their maximum, so that a single bad rank stays visible, and the strip below it their minimum,
// which tells one bad rank from many. If groups divide the ranks, rows are ordered by process group, since ranks wait within groups.

import { heatCells, heatOrder, stepLabels } from './order.js';
import { worstCollective } from './collectives.js';
import { choice, el, section } from './dom.js';
import { count, duration, visible } from './format.js';
import { canvasBox, drawRamp, fitText, gridChart, ramp, rampAt, readout } from './canvas.js';

const HEAT_MEASURES = [
  ['caused', 'others waited for it'],
  ['waited', 'waited'],
  ['exposed', 'exposed'],
];
const HEAT_WORDS = Object.fromEntries(HEAT_MEASURES);
const HEAT_TOP = 58;
// The most pixels of a label that is written upwards.
const HEAT_UPRIGHT = 170;
const HEAT_MOST_ROWS = 512;

/** The heat map, or null without steps. */
export function mountHeat(model, state) {
  return model.steps && model.steps.names.length > 0 && model.steps.ranks.length > 0 ? new HeatView(model, state).view() : null;
}

class HeatView {
  constructor(model, state) {
    Object.assign(this, { model, state, steps: model.steps, cursor: null, cache: new Map() });
    this.ranks = model.steps.ranks;
    const { order, starts, text } = heatOrder(this.ranks, model.docs.ranks?.groups);
    Object.assign(this, { order, starts, orderText: text, range: [0, order.length] });
    this.rowOf = new Map(order.map((at, row) => [this.ranks[at], row]));
    Object.assign(this, stepLabels(this.steps.names));
    const measures = HEAT_MEASURES.filter(([name]) => this.steps[name]?.length > 0);
    this.measures = measures.map(([name]) => name);
    // At first what shows something: for a rank alone nobody waits.
    this.first = this.measures.find((name) => this.steps[name].some((time) => time > 0)) ?? this.measures[0];
    this.switch = choice('Show', measures, this.measure(), (measure) => state.set({ measure }));
    this.chart = canvasBox('', 300, (...painted) => this.draw(...painted));
    this.says = readout('');
    const { canvas } = this.chart;
    gridChart(canvas, {
      point: (x, y, isChosen) => this.point(x, y, isChosen),
      leave: () => this.hover(null),
      choose: () => this.choose(this.cursor),
      move: (columns, rows) => this.move(columns, rows),
      zoom: (factor) => this.zoom(factor),
      reset: () => this.show(0, order.length),
    });
    this.caption = el('p', { class: 'help' });
    this.say();
  }

  view() {
    const buttons =
      this.order.length <= 64
        ? null
        : el(
            'div',
            { class: 'choice', role: 'group', 'aria-label': 'zoom' },
            el('button', { type: 'button', onclick: () => this.zoom(0.5), 'aria-label': 'show fewer ranks' }, '+'),
            el('button', { type: 'button', onclick: () => this.zoom(2), 'aria-label': 'show more ranks' }, '−'),
            el('button', { type: 'button', onclick: () => this.show(0, this.order.length) }, 'all ranks'),
          );
    const node = section(
      'heat',
      'Ranks and steps',
      'Which rank waited, and for which rank others waited, in which step. Choose a cell to see its worst collective. ' +
        'Waiting is counted for the rank that came last; the findings follow it to the rank where it begins.',
      el('div', { class: 'toolbar' }, this.switch.node, buttons),
      this.chart.box,
      this.says,
      this.caption,
    );
    return { id: 'heat', title: 'Ranks and steps', node, update: (state, changed) => this.update(changed), paint: () => this.chart.paint() };
  }

  measure() {
    const measure = this.state.get('measure', this.first);
    return this.measures.includes(measure) ? measure : this.first;
  }

  update(changed) {
    if (!['measure', 'rank', 'step', 'stack'].some((key) => changed.has(key))) return;
    this.switch.show(this.measure());
    this.chart.paint();
    this.say();
  }

  /** The rows and columns, and their positions. */
  grid(width) {
    const [first, last] = this.range;
    const ranks = last - first;
    const ranksPerRow = ranks > HEAT_MOST_ROWS ? Math.ceil(ranks / 256) : 1;
    const rows = Math.ceil(ranks / ranksPerRow);
    const tall = ranksPerRow > 1 ? 3 : Math.max(2, Math.min(22, Math.floor(560 / rows)));
    const [left, side] = width < 520 ? [44, 0] : [76, Math.max(150, width * 0.28)];
    const steps = this.steps.names.length;
    const space = Math.max(40, width - left - side - 12);
    const stepsPerColumn = Math.ceil(steps / space);
    const columns = Math.ceil(steps / stepsPerColumn);
    const wide = space / columns;
    return {
      first,
      ranksPerRow,
      rows,
      tall,
      left,
      side,
      stepsPerColumn,
      columns,
      wide,
      right: left + columns * wide,
      bottom: HEAT_TOP + rows * tall,
    };
  }

  cells(grid) {
    const measure = this.measure();
    const key = `${measure} ${grid.first} ${grid.rows} ${grid.ranksPerRow} ${grid.stepsPerColumn}`;
    if (this.cache.get('key') !== key) {
      this.cache.set('key', key).set('cells', heatCells(this.steps[measure], this.order, this.range[1], this.steps.names.length, grid));
    }
    return { ...this.cache.get('cells'), most: this.most(measure) };
  }

  /** The maximum of a measure over all ranks: the scale stays the same when fewer are shown. */
  most(measure) {
    const key = `most ${measure}`;
    if (!this.cache.has(key)) {
      let most = 0;
      for (const value of this.steps[measure]) if (value > most) most = value;
      this.cache.set(key, most);
    }
    return this.cache.get(key);
  }

  /** How long each rank waited, and caused others to wait, in all steps. */
  sums() {
    if (this.cache.has('sums')) return this.cache.get('sums');
    const steps = this.steps.names.length;
    const of = (values) => {
      const sums = new Float64Array(this.ranks.length);
      for (let at = 0; at < values.length; at += 1) sums[Math.floor(at / steps)] += values[at];
      return sums;
    };
    const sums = { waited: of(this.steps.waited), caused: of(this.steps.caused) };
    this.cache.set('sums', sums);
    return sums;
  }

  draw(context, width, height, shown) {
    const grid = this.grid(width);
    const names = this.names(context, grid);
    const tall = Math.ceil(grid.bottom + names.high);
    if (Math.abs(tall - height) > 0.5) return void this.chart.paint(tall);
    this.drawn = grid;
    const cells = this.cells(grid);
    const scale = ramp(shown, this.measure());
    this.drawCells(context, grid, cells, scale);
    drawRamp(
      context,
      scale,
      grid.left,
      6,
      Math.round(Math.min(200, width / 4)),
      ['0', `${duration(cells.most)} in one step`, duration(cells.most / 4)],
      shown,
    );
    this.drawGrid(context, grid, shown);
    this.drawNames(context, grid, names);
    if (grid.side > 0) this.drawSums(context, grid, width, shown);
    this.drawChosen(context, grid, width, shown);
    const name = HEAT_WORDS[this.measure()];
    this.chart.canvas.setAttribute(
      'aria-label',
      `Heat map: ${name}, ${count(this.ranks.length)} ranks by ${count(this.steps.names.length)} steps, ` +
        `${this.orderText}; the most is ${duration(cells.most)}`,
    );
    const binned = grid.ranksPerRow > 1 ? ` A row is ${grid.ranksPerRow} ranks: its colour is their maximum, the strip below it their minimum.` : '';
    const columns = grid.stepsPerColumn > 1 ? ` A column is ${grid.stepsPerColumn} steps.` : '';
    const late = this.model.stacks[this.state.get('stack', -1)]?.late?.length > 0 ? ' ▸ at a rank: it was late at the chosen stack.' : '';
    const prefix = this.prefix ? ` Names of steps begin with “${visible(this.prefix.trim())}”.` : '';
    this.caption.textContent =
      `Rows ${this.orderText}.${binned}${columns}${prefix}${late} ` + '← → ↑ ↓ move, Enter chooses, + and − show more or fewer, Home shows all.';
  }

  drawCells(context, grid, cells, scale) {
    const lines = grid.ranksPerRow > 1 ? 3 : 1;
    const image = new ImageData(grid.columns, grid.rows * lines);
    for (let row = 0; row < grid.rows; row += 1) {
      for (let line = 0; line < lines; line += 1) {
        const values = line === 2 ? cells.min : cells.max;
        for (let column = 0; column < grid.columns; column += 1) {
          const share = cells.most > 0 ? values[row * grid.columns + column] / cells.most : 0;
          const from = rampAt(share);
          const to = ((row * lines + line) * grid.columns + column) * 4;
          image.data[to] = scale[from];
          image.data[to + 1] = scale[from + 1];
          image.data[to + 2] = scale[from + 2];
          image.data[to + 3] = 255;
        }
      }
    }
    const small = el('canvas', { width: grid.columns, height: grid.rows * lines });
    small.getContext('2d').putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, grid.left, HEAT_TOP, grid.right - grid.left, grid.bottom - HEAT_TOP);
  }

  drawGrid(context, grid, shown) {
    context.fillStyle = shown.panel;
    if (grid.wide > 8 && grid.tall > 8) {
      for (let row = 1; row < grid.rows; row += 1) context.fillRect(grid.left, HEAT_TOP + row * grid.tall - 1, grid.right - grid.left, 1);
      for (let column = 1; column < grid.columns; column += 1)
        context.fillRect(grid.left + column * grid.wide - 1, HEAT_TOP, 1, grid.bottom - HEAT_TOP);
    }
    context.strokeStyle = shown.line;
    context.strokeRect(grid.left - 0.5, HEAT_TOP - 0.5, grid.right - grid.left + 1, grid.bottom - HEAT_TOP + 1);
    context.fillStyle = shown.muted;
    context.textAlign = 'right';
    context.fillText('rank', grid.left - 8, HEAT_TOP - 12);
    const every = Math.ceil(15 / grid.tall);
    for (let row = 0; row < grid.rows; row += every) {
      context.fillText(this.rowName(grid, row), grid.left - 8, HEAT_TOP + (row + 0.5) * grid.tall + (grid.tall < 10 ? 4 : 0.5));
    }
    context.fillStyle = shown.muted;
    for (const start of this.starts) {
      const row = (start - grid.first) / grid.ranksPerRow;
      if (row > 0 && row < grid.rows && this.starts.length * 4 < grid.bottom) context.fillRect(grid.left - 6, HEAT_TOP + row * grid.tall - 0.5, 6, 1);
    }
  }

  /** How the names of the steps fit below the cells: beside each other, numbers with some left out, words written upwards. */
  names(context, grid) {
    const key = `names ${grid.stepsPerColumn}`;
    const at = (column) => visible(this.labels[column * grid.stepsPerColumn]);
    if (!this.cache.has(key)) {
      const texts = Array.from({ length: grid.columns }, (_, column) => at(column));
      const widest = texts.reduce((most, text) => Math.max(most, context.measureText(text).width), 0);
      this.cache.set(key, { texts, widest, isNumbers: texts.every((text) => /^#?\d+$/.test(text)) });
    }
    const { texts, widest, isNumbers } = this.cache.get(key);
    const isWide = widest + 6 > grid.wide;
    const isUpright = !isNumbers && isWide;
    const every = isUpright ? Math.ceil(15 / grid.wide) : isWide ? Math.ceil((widest + 18) / grid.wide) : 1;
    return { texts, every, isUpright, high: isUpright ? Math.min(widest, HEAT_UPRIGHT) + 14 : 24 };
  }

  drawNames(context, grid, { texts, every, isUpright }) {
    context.textAlign = 'right';
    context.fillText(grid.left > 50 ? 'step →' : 'step', grid.left - 8, grid.bottom + 12);
    context.textAlign = isUpright ? 'right' : 'center';
    for (let column = 0; column < grid.columns; column += every) {
      const x = grid.left + (column + 0.5) * grid.wide;
      if (!isUpright) {
        const half = context.measureText(texts[column]).width / 2;
        context.fillText(texts[column], Math.min(Math.max(x, grid.left + half), grid.right - half), grid.bottom + 12);
        continue;
      }
      context.save();
      context.translate(x, grid.bottom + 6);
      context.rotate(-Math.PI / 2);
      context.fillText(fitText(context, texts[column], HEAT_UPRIGHT), 0, 0);
      context.restore();
    }
    context.textAlign = 'left';
  }

  rowName(grid, row) {
    const from = grid.first + row * grid.ranksPerRow;
    return String(this.ranks[this.order[from]]);
  }

  drawSums(context, grid, width, shown) {
    const sums = this.sums();
    const wide = (grid.side - 20) / 2;
    ['waited', 'caused'].forEach((name, at) => {
      const left = grid.right + 12 + at * (wide + 8);
      const most = sums[name].reduce((before, value) => Math.max(before, value), 0);
      context.fillStyle = shown.muted;
      context.textAlign = 'left';
      context.fillText(fitText(context, name, wide), left, HEAT_TOP - 28);
      const text = `up to ${duration(most)}`;
      context.fillText(context.measureText(text).width > wide ? duration(most) : text, left, HEAT_TOP - 12);
      context.fillStyle = shown[name];
      for (let row = 0; row < grid.rows && most > 0; row += 1) {
        let value = 0;
        const from = grid.first + row * grid.ranksPerRow;
        for (let of = from; of < Math.min(from + grid.ranksPerRow, this.range[1]); of += 1) value = Math.max(value, sums[name][this.order[of]]);
        const gap = grid.tall > 5 ? 1 : 0;
        context.fillRect(left, HEAT_TOP + row * grid.tall + gap, (value / most) * wide, grid.tall - 2 * gap);
      }
      context.fillStyle = shown.line;
      context.fillRect(left - 1, HEAT_TOP, 1, grid.bottom - HEAT_TOP);
    });
  }

  drawChosen(context, grid, width, shown) {
    const stack = this.model.stacks[this.state.get('stack', -1)];
    const late = new Set((stack?.late ?? []).map(([rank]) => Math.floor((this.rowOf.get(rank) - grid.first) / grid.ranksPerRow)));
    if (late.size > 0) {
      context.fillStyle = shown.panel;
      context.globalAlpha = 0.3;
      for (let row = 0; row < grid.rows; row += 1) {
        if (!late.has(row)) context.fillRect(grid.left, HEAT_TOP + row * grid.tall, grid.right - grid.left, grid.tall);
      }
      context.globalAlpha = 1;
      for (const row of late) this.drawTip(context, grid, row, shown.caused);
    }
    context.strokeStyle = shown.mark;
    context.lineWidth = 2;
    const row = this.rowOf.has(this.state.get('rank')) ? Math.floor((this.rowOf.get(this.state.get('rank')) - grid.first) / grid.ranksPerRow) : -1;
    const step = this.state.get('step', -1);
    const column = step < 0 || step >= this.steps.names.length ? -1 : Math.floor(step / grid.stepsPerColumn);
    const y = HEAT_TOP + row * grid.tall;
    const isRow = row >= 0 && row < grid.rows;
    if (isRow) this.drawTip(context, grid, row, shown.mark);
    if (isRow && column < 0) context.strokeRect(grid.left, y - 1, grid.right - grid.left, grid.tall + 2);
    if (!isRow && column >= 0) context.strokeRect(grid.left + column * grid.wide, HEAT_TOP, grid.wide, grid.bottom - HEAT_TOP);
    if (isRow && column >= 0) context.strokeRect(grid.left + column * grid.wide - 1, y - 1, grid.wide + 2, grid.tall + 2);
    context.lineWidth = 1;
    if (!this.cursor) return;
    context.strokeStyle = shown.fg;
    context.strokeRect(grid.left + this.cursor.column * grid.wide - 0.5, HEAT_TOP + this.cursor.row * grid.tall - 0.5, grid.wide + 1, grid.tall + 1);
  }

  drawTip(context, grid, row, colour) {
    const y = HEAT_TOP + (row + 0.5) * grid.tall;
    if (row < 0 || row >= grid.rows) return;
    context.fillStyle = colour;
    context.beginPath();
    context.moveTo(grid.left - 7, y - 4);
    context.lineTo(grid.left - 1, y);
    context.lineTo(grid.left - 7, y + 4);
    context.fill();
  }

  point(x, y, isChosen) {
    const grid = this.drawn;
    if (!grid) return;
    const [column, row] = [Math.floor((x - grid.left) / grid.wide), Math.floor((y - HEAT_TOP) / grid.tall)];
    const isIn = row >= 0 && row < grid.rows;
    if (isChosen && isIn && x < grid.left) return this.choose({ row, column: null });
    const cell = isIn && column >= 0 && column < grid.columns ? { row, column } : null;
    this.hover(cell);
    if (isChosen && cell) this.choose(cell);
  }

  hover(cell) {
    if (cell?.row === this.cursor?.row && cell?.column === this.cursor?.column) return;
    this.cursor = cell;
    this.chart.paint();
    this.say();
  }

  move(columns, rows) {
    const grid = this.drawn;
    if (!grid) return;
    const from = this.cursor ?? { row: rows < 0 ? grid.rows : rows > 0 ? -1 : 0, column: columns < 0 ? grid.columns : columns > 0 ? -1 : 0 };
    const row = from.row + rows;
    const [first, last] = this.range;
    const by =
      row < 0
        ? Math.max(-first, row * grid.ranksPerRow)
        : row >= grid.rows
          ? Math.min(this.order.length - last, (row - grid.rows + 1) * grid.ranksPerRow)
          : 0;
    if (by !== 0) this.show(first + by, last + by);
    this.hover({ row: Math.min(Math.max(row, 0), grid.rows - 1), column: Math.min(Math.max(from.column + columns, 0), grid.columns - 1) });
  }

  zoom(factor) {
    const [first, last] = this.range;
    const wide = Math.min(this.order.length, Math.max(8, Math.round((last - first) * factor)));
    const chosen = this.rowOf.get(this.state.get('rank'));
    const middle = this.cursor ? first + (this.cursor.row + 0.5) * this.drawn.ranksPerRow : (chosen ?? (first + last) / 2);
    const from = Math.round(Math.min(Math.max(0, middle - wide / 2), this.order.length - wide));
    this.show(from, from + wide);
  }

  show(first, last) {
    this.range = [Math.max(0, first), Math.min(this.order.length, last)];
    this.cursor = null;
    this.chart.paint();
    this.say();
  }

  /** The ranks, steps and values of a cell. */
  cellText(cell) {
    const grid = this.drawn;
    const cells = this.cells(grid);
    const at = cell.row * grid.columns + cell.column;
    const rank = this.ranks[cells.rank[at] - 1];
    const name = (of) => visible(this.steps.names[of]);
    const step = name(cells.step[at]);
    const what = HEAT_WORDS[this.measure()];
    if (grid.ranksPerRow * grid.stepsPerColumn === 1) return `rank ${rank}, ${step}: ${what} ${duration(cells.max[at])}`;
    const from = grid.first + cell.row * grid.ranksPerRow;
    const last = Math.min(from + grid.ranksPerRow, this.range[1]) - 1;
    return (
      `ranks ${this.ranks[this.order[from]]} to ${this.ranks[this.order[last]]}, ` +
      `${name(cell.column * grid.stepsPerColumn)}: ${what} at most ` +
      `${duration(cells.max[at])} (rank ${rank}, ${step}), at least ${duration(cells.min[at])}`
    );
  }

  /** The cell with the maximum of the measure. */
  mostText() {
    const values = this.steps[this.measure()];
    const at = values.indexOf(this.most(this.measure()));
    const steps = this.steps.names.length;
    const cell = `rank ${this.ranks[Math.floor(at / steps)]}, ${visible(this.steps.names[at % steps])}`;
    return `The most: ${cell}: ${HEAT_WORDS[this.measure()]} ${duration(values[at])}`;
  }

  say() {
    const sums = this.sums();
    const rank = this.state.get('rank');
    const at = this.ranks.indexOf(rank);
    const chosen = at < 0 ? this.mostText() : `rank ${rank}: waited ${duration(sums.waited[at])}, others waited ${duration(sums.caused[at])} for it, in all`;
    this.says.textContent = this.cursor && this.drawn ? this.cellText(this.cursor) : chosen;
  }

  choose(cell) {
    if (!cell) return;
    const grid = this.drawn;
    if (cell.column === null) {
      const rank = this.ranks[this.order[grid.first + cell.row * grid.ranksPerRow]];
      return this.state.set({ rank: this.state.get('rank') === rank && this.state.get('step') === null ? null : rank, step: null });
    }
    const cells = this.cells(grid);
    const at = cell.row * grid.columns + cell.column;
    const rank = this.ranks[cells.rank[at] - 1];
    const step = cells.step[at];
    if (this.state.get('rank') === rank && this.state.get('step') === step) return this.state.set({ rank: null, step: null, collective: null });
    this.state.set({ rank, step, ...(this.model.lanes ? { collective: worstCollective(this.model.lanes, rank, step, this.measure()) } : {}) });
  }
}
