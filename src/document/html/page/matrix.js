// Who waited for whom: rows wait, columns are waited for. A dark column is a rank that many wait for; a dark cell outside of such columns is a
// pair with a cause of its own.

import { count, duration } from './format.js';
import { beside, canvasBox, drawRamp, gridChart, ramp, rampAt, readout } from './canvas.js';
import { el, section } from './dom.js';

const MATRIX_TOP = 76;

/** The matrix, or null if nobody waited. */
export function mountMatrix(model, state) {
  const pairs = model.docs.ranks?.pairs ?? [];
  return pairs.length > 0 ? new MatrixView(model, state, pairs).view() : null;
}

class MatrixView {
  constructor(model, state, pairs) {
    Object.assign(this, { state, pairs, cursor: null, ranks: model.docs.ranks.ranks.map((rank) => rank.rank) });
    this.at = new Map(this.ranks.map((rank, at) => [rank, at]));
    this.all = pairs.reduce((sum, pair) => sum + pair.waited_ns, 0);
    this.sorted = [...pairs].sort((a, b) => b.waited_ns - a.waited_ns);
    this.perCell = this.ranks.length > 512 ? Math.ceil(this.ranks.length / 256) : 1;
    this.n = Math.ceil(this.ranks.length / this.perCell);
    // For each cell, the pair with the most waiting, and the sum over all its pairs.
    this.cells = new Map();
    for (const pair of pairs) {
      const key = this.cellOf(pair.rank) * this.n + this.cellOf(pair.waited_for);
      const cell = this.cells.get(key);
      if (!cell) this.cells.set(key, { most: pair, sum: pair.waited_ns });
      else {
        cell.sum += pair.waited_ns;
        if (pair.waited_ns > cell.most.waited_ns) cell.most = pair;
      }
    }
    this.chart = canvasBox('', 300, (...painted) => this.draw(...painted));
    this.says = readout('');
    gridChart(this.chart.canvas, {
      point: (x, y, isChosen) => this.point(x, y, isChosen),
      leave: () => this.hover(null),
      choose: () => this.choose(),
      zoom: () => {},
      move: (columns, rows) => this.hover(this.cursor ? [this.cursor[0] + columns, this.cursor[1] + rows] : [0, 0]),
      reset: () => this.hover([0, 0]),
    });
    this.list = el('ol');
  }

  view() {
    const binned = this.perCell > 1 ? ` A cell is ${this.perCell} by ${this.perCell} ranks; its colour is the pair with the most waiting.` : '';
    const node = section(
      'pairs',
      'Who waited for whom',
      `Rows wait, columns are waited for. Waiting is counted for the rank that came last.${binned}`,
      beside(el('div', {}, this.chart.box, this.says), el('div', {}, el('h3', {}, 'The pairs with the most waiting'), this.list)),
    );
    this.showList();
    return { id: 'pairs', title: 'Who waited for whom', node, update: (state, changed) => this.update(changed), paint: () => this.chart.paint() };
  }

  cellOf(rank) {
    return Math.floor((this.at.get(rank) ?? 0) / this.perCell);
  }

  update(changed) {
    if (!changed.has('rank')) return;
    this.chart.paint();
    this.showList();
  }

  showList() {
    const rank = this.state.get('rank');
    const some = this.sorted.filter((pair) => rank === null || pair.rank === rank || pair.waited_for === rank);
    const button = (of) =>
      el(
        'button',
        { type: 'button', class: 'small', 'aria-pressed': String(of === rank), onclick: () => this.state.set({ rank: of === rank ? null : of }) },
        `rank ${of}`,
      );
    this.list.replaceChildren(
      ...some
        .slice(0, 10)
        .map((pair) => el('li', {}, button(pair.rank), ' waited ', el('strong', {}, duration(pair.waited_ns)), ' for ', button(pair.waited_for))),
    );
  }

  draw(context, width, height, shown) {
    const left = 66;
    const cell = Math.max(1, Math.min(34, Math.min(width - left - 10, 720) / this.n));
    const tall = Math.ceil(MATRIX_TOP + cell * this.n + 8);
    if (Math.abs(tall - height) > 0.5) return void this.chart.paint(tall);
    this.drawn = { left, cell };
    const scale = ramp(shown, 'waited');
    const most = this.sorted[0].waited_ns;
    drawRamp(context, scale, 10, 6, Math.round(Math.min(160, width / 4)), ['0', `waited ${duration(most)}`, duration(most / 4)], shown);
    const side = cell * this.n;
    for (const [key, { most: pair }] of this.cells) {
      const of = rampAt(pair.waited_ns / most);
      context.fillStyle = `rgb(${scale[of]},${scale[of + 1]},${scale[of + 2]})`;
      const gap = cell >= 10 ? 1 : 0;
      context.fillRect(left + (key % this.n) * cell, MATRIX_TOP + Math.floor(key / this.n) * cell, Math.max(1, cell - gap), Math.max(1, cell - gap));
    }
    context.strokeStyle = shown.line;
    context.strokeRect(left - 0.5, MATRIX_TOP - 0.5, side + 1, side + 1);
    context.fillStyle = shown.muted;
    const name = (at) => String(this.ranks[at * this.perCell]);
    const widest = context.measureText(name(this.n - 1)).width + 8;
    for (let at = 0; at < this.n; at += Math.ceil(14 / cell)) {
      context.textAlign = 'right';
      context.fillText(name(at), left - 6, MATRIX_TOP + (at + 0.5) * cell);
    }
    context.textAlign = 'center';
    for (let at = 0; at < this.n; at += Math.ceil(widest / cell)) context.fillText(name(at), left + (at + 0.5) * cell, MATRIX_TOP - 8);
    context.textAlign = 'left';
    context.fillText('waited for →', left, MATRIX_TOP - 24);
    context.fillText('waits ↓', 6, MATRIX_TOP - 8);
    this.drawChosen(context, side, shown);
    const [first] = this.sorted;
    this.chart.canvas.setAttribute(
      'aria-label',
      `Matrix of ${count(this.ranks.length)} ranks by ${count(this.ranks.length)}; the most is rank ${first.rank}, ` +
        `which waited ${duration(first.waited_ns)} for rank ${first.waited_for}`,
    );
  }

  drawChosen(context, side, shown) {
    const { left, cell } = this.drawn;
    const rank = this.state.get('rank');
    context.strokeStyle = shown.mark;
    context.lineWidth = 2;
    if (this.at.has(rank)) {
      const at = this.cellOf(rank) * cell;
      context.strokeRect(left, MATRIX_TOP + at - 0.5, side, cell);
      context.strokeRect(left + at - 0.5, MATRIX_TOP, cell, side);
    }
    context.lineWidth = 1;
    context.strokeStyle = shown.fg;
    if (this.cursor) context.strokeRect(left + this.cursor[0] * cell - 0.5, MATRIX_TOP + this.cursor[1] * cell - 0.5, cell + 1, cell + 1);
  }

  point(x, y, isChosen) {
    if (!this.drawn) return;
    const at = [Math.floor((x - this.drawn.left) / this.drawn.cell), Math.floor((y - MATRIX_TOP) / this.drawn.cell)];
    const isIn = at.every((of) => of >= 0 && of < this.n);
    this.hover(isIn ? at : null);
    if (isChosen && isIn) this.choose();
  }

  hover(at) {
    const next = at && at.map((of) => Math.min(Math.max(of, 0), this.n - 1));
    if (String(next) === String(this.cursor)) return;
    this.cursor = next;
    this.says.textContent = next ? this.text(next) : '';
    this.chart.paint();
  }

  text([column, row]) {
    const cell = this.cells.get(row * this.n + column);
    const ranks = (at) =>
      this.perCell === 1
        ? `rank ${this.ranks[at]}`
        : `ranks ${this.ranks[at * this.perCell]} to ${this.ranks[Math.min((at + 1) * this.perCell, this.ranks.length) - 1]}`;
    if (!cell) return `${ranks(row)} did not wait for ${ranks(column)}`;
    const more = this.perCell === 1 ? '' : `; most of it rank ${cell.most.rank} for rank ${cell.most.waited_for}: ${duration(cell.most.waited_ns)}`;
    return `${ranks(row)} waited ${duration(cell.sum)} for ${ranks(column)}, ${((cell.sum / this.all) * 100).toFixed(1)} % of all waiting${more}`;
  }

  /** Chooses the rank that was waited for. */
  choose() {
    if (!this.cursor) return;
    const cell = this.cells.get(this.cursor[1] * this.n + this.cursor[0]);
    const rank = cell ? cell.most.waited_for : this.ranks[this.cursor[0] * this.perCell];
    this.state.set({ rank: this.state.get('rank') === rank ? null : rank });
  }
}
