// One collective: a lane for each of its ranks, with its waiting and transfer, the work before and after, and what the late rank did. All ranks'
// times are on one clock. Sentences leave out what the columns lack.

import { choice, el, nameNode, scrollBox, section } from './dom.js';
import { count, duration } from './format.js';
import { collectiveName, collectiveOf, lanesIndex, lateSentences, rowHasLaunch, rowNear, rowText, rowTraceNs, stackOfRow, worstCollectives } from './collectives.js';
import { drawLanes, laneGrid } from './tracks.js';
import { canvasBox, drawKey, drawTimeAxis, readout, zoomButtons, zoomable } from './canvas.js';

const LANES_TOP = 62;
/** The view of one collective, or null without lanes. */
export function mountLanes(model, state) {
  return model.lanes && lanesIndex(model.lanes).n > 0 ? new LanesView(model, state).view() : null;
}

class LanesView {
  constructor(model, state) {
    Object.assign(this, { model, state, lanes: model.lanes, index: lanesIndex(model.lanes), shownAt: null, cursor: null, drawn: null });
    this.title = el('p', { class: 'subject' });
    this.chart = canvasBox('', 260, (...painted) => this.draw(...painted));
    this.says = readout('');
    this.text = el('div', { class: 'sentences' });
    this.worst = el('div', { class: 'choice', role: 'group', 'aria-label': 'collectives with the most waiting' });
    this.sort = choice(
      'Ranks by',
      [
        ['rank', 'rank'],
        ['arrival', 'arrival'],
      ],
      this.order(),
      (lanes) => state.set({ lanes }),
    );
    const chart = {
      extent: () => this.extent(),
      window: () => this.window,
      plot: () => [this.drawn.left, this.drawn.right],
      set: (from, to) => {
        this.window = [from, to];
        this.chart.paint();
      },
      home: () => {
        this.around();
        this.chart.paint();
      },
      point: (x, y, isChosen) => this.point(x, y, isChosen),
      leave: () => this.hover(null),
      key: (event) => this.key(event),
      cursor: () => this.cursorX(),
    };
    this.zoom = zoomable(this.chart.canvas, chart);
    this.buttons = zoomButtons(this.zoom, chart);
    this.pick();
  }

  view() {
    const { left_out: leftOut } = this.lanes;
    const help =
      'Who came when: a rank waits until the last one comes, then the transfer begins. ' +
      'The collective is outlined; its neighbours are around it.' +
      (leftOut > 0 ? ` ${count(leftOut)} collectives with less waiting are not here.` : '');
    const go = (text, by) => el('button', { type: 'button', onclick: () => this.go(by) }, text);
    const node = section(
      'collective',
      'One collective',
      help,
      el('div', { class: 'toolbar' }, el('div', { class: 'choice' }, go('← before', -1), go('after →', 1)), this.sort.node, this.buttons),
      el('div', { class: 'toolbar' }, this.worst),
      this.title,
      this.chart.box,
      this.says,
      this.text,
    );
    return { id: 'collective', title: 'One collective', node, update: (state, changed) => this.update(changed), paint: () => this.chart.paint() };
  }

  order() {
    return this.state.get('lanes') === 'arrival' ? 'arrival' : 'rank';
  }

  /** Shows the selected collective. */
  pick() {
    this.at = collectiveOf(this.model, this.state);
    const { collectives, rows } = this.lanes;
    this.rows = Array.from({ length: collectives.members[this.at] }, (_, row) => collectives.first[this.at] + row).sort(
      (a, b) => rows.start[a] - rows.start[b],
    );
    this.around();
    const ranks = this.rows.map((row) => rows.rank[row]);
    this.grid = laneGrid(this.order() === 'rank' ? ranks.sort((a, b) => this.lanes.ranks[a] - this.lanes.ranks[b]) : ranks, this.lanes.ranks.length);
    this.cursor = null;
    this.describe();
    this.list();
  }

  /** The window of the collective with a margin. */
  around() {
    const wide = Math.max(this.index.end[this.at] - this.index.begin[this.at], 1);
    this.window = [this.index.begin[this.at] - wide * 0.25, this.index.end[this.at] + wide * 0.15];
  }

  extent() {
    const wide = Math.max(this.index.end[this.at] - this.index.begin[this.at], 1) * 20;
    return [Math.min(this.index.begin[this.at] - wide, 0), Math.max(this.index.end[this.at] + wide, this.lanes.span_ns ?? 0)];
  }

  update(changed) {
    if (!['collective', 'stack', 'rank', 'step', 'lanes'].some((key) => changed.has(key))) return;
    this.sort.show(this.order());
    const before = this.at;
    const window = this.window;
    this.pick();
    if (before === this.at) this.window = window;
    this.chart.paint();
  }

  go(by) {
    const { byTime } = this.index;
    const next = byTime[byTime.indexOf(this.at) + by];
    if (next !== undefined) this.state.set({ collective: next });
  }

  lateRank() {
    return this.lanes.collectives.late[this.at] - 1;
  }

  draw(context, width, height, shown) {
    const { grid } = this;
    const tall = LANES_TOP + grid.n * grid.tall + 12;
    if (Math.abs(tall - height) > 0.5) return void this.chart.paint(tall);
    const [from, to] = this.window;
    const at = { left: width < 520 ? 46 : 76, right: width - 8, top: LANES_TOP, bottom: tall - 12, from, to };
    this.drawn = at;
    const key = [
      ['waited', 'waits', grid.tall > 8],
      ['transfer', 'transfer'],
      ['fg', 'launch ended'],
      ['mark', 'chosen'],
    ];
    if (grid.tall > 8) key.push(['accent', 'thread busy since its launch before'], ['compute', 'GPU computed since its collective before']);
    drawKey(context, key.slice(0, width < 700 ? 4 : 6), at.left, 10, shown, at.right);
    const begin = this.index.begin[this.at];
    drawTimeAxis(context, { ...at, from: from - begin, to: to - begin }, shown);
    drawLanes(context, this.model, grid, at, shown, { chosen: this.at, rank: this.state.get('rank') });
    this.drawLaunches(context, at, shown);
    this.drawRanks(context, at, shown);
    const text = this.lanes.collectives.late[this.at] > 0 ? `rank ${this.lanes.ranks[this.lateRank()]} was late` : 'no rank was late';
    this.chart.canvas.setAttribute(
      'aria-label',
      `${collectiveName(this.lanes, this.at)} on ${grid.order.length} ranks: ${text}, ` + `${duration(this.index.waited[this.at])} of waiting in all`,
    );
  }

  drawRanks(context, at, shown) {
    const { grid } = this;
    const late = this.lateRank();
    const every = Math.ceil(14 / grid.tall);
    const lateLane = late < 0 ? -1 : grid.lane[late];
    context.textAlign = 'right';
    for (let lane = 0; lane < grid.n; lane += 1) {
      const isLate = lane === lateLane;
      const y = at.top + (lane + 0.5) * grid.tall - 1;
      if (!isLate && (lane % every !== 0 || Math.abs(lane - lateLane) * grid.tall < 13) && (lateLane >= 0 || lane % every !== 0)) continue;
      const rank = isLate ? late : grid.order[lane * grid.perRow];
      context.fillStyle = isLate ? shown.caused : shown.muted;
      context.font = isLate ? 'bold 12px system-ui, sans-serif' : '12px system-ui, sans-serif';
      context.fillText(`${isLate ? '▸ ' : ''}${this.lanes.ranks[rank]}`, at.left - 8, y);
    }
    context.font = '12px system-ui, sans-serif';
    context.fillStyle = shown.muted;
    context.fillText('rank', at.left - 8, at.top - (grid.tall > 8 ? 8 : 16));
    context.textAlign = 'left';
    if (lateLane >= 0 && grid.tall <= 4) this.drawLate(context, at, at.top + lateLane * grid.tall, shown);
  }

  /** Draws the late rank on top, where lanes are too thin to show it. */
  drawLate(context, at, y, shown) {
    const { rows } = this.lanes;
    const row = this.rows.find((of) => rows.rank[of] === this.lateRank());
    if (row === undefined) return;
    const x = (time) => Math.min(at.right, Math.max(at.left, at.left + ((time - at.from) / (at.to - at.from)) * (at.right - at.left)));
    const [begin, start, end] = [this.index.begin[this.at], rows.start[row], rows.start[row] + rows.dur[row]].map(x);
    context.fillStyle = shown.caused;
    context.fillRect(at.left - 6, y - 1, 5, this.grid.tall + 2);
    context.fillStyle = shown.panel;
    context.fillRect(begin, y - 2, end - begin, this.grid.tall + 4);
    context.fillStyle = shown.caused;
    context.fillRect(start, y - 2, Math.max(2, end - start), this.grid.tall + 4);
  }

  /** Draws when the launches of this collective ended, and how long GPUs computed before. */
  drawLaunches(context, at, shown) {
    const { rows } = this.lanes;
    if (!rows.launch || this.grid.tall < 3) return;
    const scale = (at.right - at.left) / (at.to - at.from);
    const x = (time) => Math.min(at.right, Math.max(at.left, at.left + (time - at.from) * scale));
    const isTall = this.grid.tall > 8;
    for (const row of this.rows) {
      if (!rowHasLaunch(rows, row)) continue;
      const [start, launch] = [rows.start[row], rows.start[row] + rows.launch[row]];
      const y = at.top + this.grid.lane[rows.rank[row]] * this.grid.tall;
      const tall = this.grid.tall - (isTall ? 3 : 1);
      if (isTall && rows.busy) {
        context.fillStyle = shown.compute;
        context.fillRect(x(start - rows.busy[row]), y + tall - 3, x(start) - x(start - rows.busy[row]), 3);
      }
      if (launch < at.from || launch > at.to) continue;
      context.fillStyle = shown.fg;
      context.fillRect(x(launch) - 1, y - 1, 2, tall + 2);
    }
  }

  describe() {
    const { lanes, at } = this;
    const step = this.model.steps?.names[lanes.collectives.step[at] - 1];
    const place = Array.prototype.indexOf.call(this.index.byTime, at) + 1;
    this.title.replaceChildren(
      el('strong', {}, collectiveName(lanes, at)),
      ` on ${this.rows.length} ranks, ${count(place)} of ${count(this.index.n)}, ` + `${duration(this.index.begin[at])} from the beginning`,
      ...(step ? [', in ', nameNode(step)] : []),
      `: ${duration(this.index.waited[at])} of waiting in all.`,
    );
    const sentences = lateSentences(this.model, at, this.rows);
    this.text.replaceChildren(...this.launchedFrom(), ...sentences.map((sentence) => el('p', {}, sentence)), this.table());
    this.says.textContent = 'Choose a lane to choose its rank.';
  }

  /** The stacks that launched it, each a link to its row. */
  launchedFrom() {
    const stacks = [...new Set(this.rows.map((row) => stackOfRow(this.model, row)))].filter((stack) => stack !== null);
    const link = (stack) => el('a', { href: `#view=stacks&stack=${stack}&collective=${this.at}` }, nameNode(this.model.stacks[stack].label));
    return stacks.length > 0 ? [el('p', {}, 'Launched from ', ...stacks.flatMap((stack, at) => (at > 0 ? [', ', link(stack)] : [link(stack)])), '.')] : [];
  }

  table() {
    const { rows, ranks } = this.lanes;
    const first = rows.start[this.rows[0]];
    const late = this.lateRank();
    const has = this.rows.some((row) => rowHasLaunch(rows, row));
    const columns = [
      ['rank', (row) => ranks[rows.rank[row]] + (rows.rank[row] === late ? ' (late)' : '')],
      ['came', (row) => (row === this.rows[0] ? 'first' : `+${duration(rows.start[row] - first)}`)],
      ['waited', (row) => (rows.waited[row] > 0 ? duration(rows.waited[row] - 1) : '?')],
      ['ran', (row) => duration(rows.dur[row])],
    ];
    if (has && rows.launch) columns.push(['launch before start', (row) => (rowHasLaunch(rows, row) ? duration(-rows.launch[row]) : '')]);
    // Nothing precedes a rank's first collective.
    const isFirst = (row) => rows.busy?.[row] === 0 && rows.idle?.[row] === 0;
    if (rows.busy) columns.push(['GPU computed', (row) => (isFirst(row) ? '' : duration(rows.busy[row]))]);
    if (rows.idle) columns.push(['GPU idle', (row) => (isFirst(row) ? '' : duration(rows.idle[row]))]);
    columns.push(['start in its trace', (row) => `${rowTraceNs(this.lanes, row)} ns`]);
    // The first and the last rows only: the others arrived together.
    const some = this.rows.length > 24 ? [...this.rows.slice(0, 8), null, ...this.rows.slice(-12)] : this.rows;
    const line = (row) =>
      row === null
        ? el('tr', {}, el('td', { colSpan: columns.length }, `… ${count(this.rows.length - 20)} more`))
        : el(
            'tr',
            {},
            columns.map(([, text]) =>
              el('td', { class: 'number' }, rows.rank[row] === late ? el('strong', {}, String(text(row))) : String(text(row))),
            ),
          );
    const what = has
      ? el(
          'p',
          { class: 'help' },
          'Launch before start: how long before the kernel began its launch had ended. Thread busy: since its launch before. ' +
            'GPU computed, idle: since its collective before.',
        )
      : null;
    return el(
      'details',
      { open: this.rows.length <= 16 },
      el('summary', {}, 'Order of arrival'),
      what,
      scrollBox(
        'Order of arrival',
        el(
          'table',
          { class: 'compact' },
          el(
            'thead',
            {},
            el(
              'tr',
              {},
              columns.map(([name]) => el('th', { scope: 'col' }, name)),
            ),
          ),
          el('tbody', {}, some.map(line)),
        ),
      ),
    );
  }

  /** Buttons for the worst collectives in the selection. */
  list() {
    const worst = worstCollectives(this.model, this.state, 10);
    const button = (at) =>
      el(
        'button',
        { type: 'button', 'aria-pressed': String(at === this.at), onclick: () => this.state.set({ collective: at }) },
        duration(this.index.waited[at]),
      );
    this.worst.replaceChildren(
      el('span', { class: 'label' }, 'Most waiting:'),
      ...worst.map(button),
      ...(worst.length === 0 ? ['none of what is chosen'] : []),
    );
  }

  rowAt(x, y) {
    const { drawn, grid } = this;
    if (!drawn || y < drawn.top || y >= drawn.top + grid.n * grid.tall) return null;
    const lane = Math.floor((y - drawn.top) / grid.tall);
    const time = drawn.from + ((x - drawn.left) / (drawn.right - drawn.left)) * (drawn.to - drawn.from);
    return rowNear(this.lanes, grid, lane, time, (3 / (drawn.right - drawn.left)) * (drawn.to - drawn.from)) ?? { lane, row: null };
  }

  point(x, y, isChosen) {
    const found = this.rowAt(x, y);
    this.hover(found);
    if (!isChosen || !found) return;
    this.choose(found);
  }

  choose({ lane, row }) {
    if (row !== null && this.index.of[row] !== this.at) return this.state.set({ collective: this.index.of[row] });
    const rank = this.lanes.ranks[row === null ? this.grid.order[lane * this.grid.perRow] : this.lanes.rows.rank[row]];
    this.state.set({ rank: this.state.get('rank') === rank ? null : rank, collective: this.at });
  }

  hover(found) {
    this.cursor = found;
    this.says.textContent = !found
      ? ''
      : found.row === null
        ? `rank ${this.lanes.ranks[this.grid.order[found.lane * this.grid.perRow]]}`
        : rowText(this.model, found.row);
  }

  cursorX() {
    const { drawn, cursor } = this;
    if (!cursor || cursor.row === null) return null;
    return drawn.left + ((this.lanes.rows.start[cursor.row] - drawn.from) / (drawn.to - drawn.from)) * (drawn.right - drawn.left);
  }

  /** Up and down select other ranks, left and right other collectives. */
  key(event) {
    const by = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (by) {
      const rowOf = new Map(this.rows.map((row) => [this.lanes.rows.rank[row], row]));
      const order = this.grid.order.map((rank) => rowOf.get(rank));
      const at = this.cursor ? order.indexOf(this.cursor.row) + by : 0;
      const row = order[Math.min(Math.max(at, 0), order.length - 1)];
      this.hover({ row, lane: this.grid.lane[this.lanes.rows.rank[row]] });
    } else if (event.key === 'ArrowLeft' || event.key === 'ArrowRight') this.go(event.key === 'ArrowLeft' ? -1 : 1);
    else if (event.key === 'Enter' && this.cursor) this.choose(this.cursor);
    else return false;
    return true;
  }
}
