// The window in time: the kernels of a trace with a lane for each stream, or the collectives of all ranks with a lane for each rank. Of one trace,
// a span can be selected and summed, and kernels can be searched for.

import { AreaPanel } from './area.js';
import { canvasBox, drawKey, drawTimeAxis, pointerAt, readout, zoomButtons, zoomable } from './canvas.js';
import { traceMicros } from './clock.js';
import { lanesIndex } from './collectives.js';
import { copyText } from './commands.js';
import { choice, el, section } from './dom.js';
import { KernelSearch } from './find.js';
import { duration } from './format.js';
import { StreamLanes } from './streams.js';
import { RankLanes } from './tracks.js';

const TIMELINE_TOP = 46;

const TIMELINE_HELP =
  'Drag pans, + and − or the wheel (on the chosen chart, or with Ctrl) zoom, Home shows all. Shift with drag selects a span. Keys: ← → ↑ ↓ go from ' +
  'row to row, Enter chooses, Shift with ← → pans, [ and ] select from and to the cursor, c copies its time in the trace, / finds, Escape clears.';

const TIMELINE_KEYS = ['step', 'trace', 'from', 'to', 'begin', 'end', 'find', 'stack', 'collective', 'rank'];

/** The timeline, or null if there is none. */
export function mountTimeline(model, state) {
  const views = [...model.timelines.filter((of) => of.kernels.rows > 0).map((of) => new StreamLanes(model, of))];
  if (model.lanes && lanesIndex(model.lanes).n > 0) views.push(new RankLanes(model));
  if (model.lanes?.rerun?.rows) views.push(new RankLanes(model, model.lanes.rerun));
  return views.length > 0 ? new TimelineView(model, state, views).view() : null;
}

class TimelineView {
  constructor(model, state, views) {
    Object.assign(this, { model, state, views, cursor: null, held: null, drawn: { left: 0, right: 1 } });
    this.chart = canvasBox('', 200, (...painted) => this.draw(...painted));
    this.says = readout('');
    this.help = el('p', { class: 'help' });
    this.origin = el('p', { class: 'muted origin' });
    this.times = timeButtons();
    this.area = new AreaPanel(state);
    this.find = new KernelSearch(
      state,
      (item) => this.go(item),
      () => this.chart.canvas.focus(),
    );
    const chart = {
      extent: () => [0, this.shown().span],
      window: () => this.window(),
      plot: () => [this.drawn.left, this.drawn.right],
      set: (from, to) => this.zoomTo(from, to),
      home: () => this.zoomTo(...chart.extent()),
      point: (x, y, isChosen) => this.point(x, y, isChosen),
      leave: () => this.hover(this.held),
      key: (event) => this.key(event),
      cursor: () => (this.cursor ? this.x(this.shown().startOf(this.cursor)) : null),
    };
    this.selectByPointer();
    this.zoom = zoomable(this.chart.canvas, chart);
    const options = views.map((view, at) => [at, view.label]);
    this.switch =
      options.length < 2
        ? null
        : options.length > 6
          ? this.selection(options)
          : choice('Trace', options, this.trace(), (trace) => this.choose(trace));
    this.buttons = zoomButtons(this.zoom, chart);
  }

  selection(options) {
    const node = el(
      'select',
      { 'aria-label': 'Trace', onchange: () => this.choose(Number(node.value)) },
      options.map(([value, text]) => el('option', { value }, text)),
    );
    return {
      node,
      show: (value) => {
        node.value = String(value);
      },
    };
  }

  choose(trace) {
    this.state.set({ trace, from: null, to: null, begin: null, end: null });
  }

  view() {
    const node = section(
      'timeline',
      'Timeline',
      TIMELINE_HELP,
      el('div', { class: 'toolbar' }, this.switch?.node, this.buttons, this.find.node),
      this.help,
      this.origin,
      this.chart.box,
      el('div', { class: 'says' }, this.says, this.times.node),
      this.area.node,
    );
    this.switch?.show(this.trace());
    this.showParts();
    return { id: 'timeline', title: 'Timeline', node, update: (state, changed) => this.update(changed), paint: () => this.chart.paint() };
  }

  trace() {
    // A schedule is seen beside those of the other ranks.
    const first = Math.max(0, this.views.findIndex((view) => view.pieces));
    const trace = this.state.get('trace', first);
    return this.views[trace] ? trace : first;
  }

  shown() {
    return this.views[this.trace()];
  }

  window() {
    const { span } = this.shown();
    const from = Math.min(Math.max(0, this.state.get('from', 0)), span);
    const to = Math.min(this.state.get('to', span), span);
    return to > from ? [from, to] : [0, span];
  }

  /** The selected span, or null. */
  selected() {
    const [begin, end] = [this.state.get('begin'), this.state.get('end')];
    if (begin === null && end === null) return null;
    const { span } = this.shown();
    const [from, to] = [Math.max(0, begin ?? 0), Math.min(end ?? span, span)];
    return to > from ? [from, to] : null;
  }

  zoomTo(from, to) {
    const isAll = to - from >= this.shown().span;
    this.state.set({ from: isAll ? null : Math.round(from), to: isAll ? null : Math.round(to) });
  }

  update(changed) {
    if (!TIMELINE_KEYS.some((key) => changed.has(key))) return;
    if (changed.has('trace')) {
      this.held = null;
      this.hover(null);
    }
    this.switch?.show(this.trace());
    const span = changed.has('step') && !changed.has('from') ? this.shown().spanOfStep?.(this.state.get('step')) : null;
    if (span) return this.zoomTo(...span);
    this.showParts();
    this.chart.paint();
  }

  /** Shows what is beside the chart. */
  showParts() {
    const view = this.shown();
    this.find.show(view);
    this.area.show(view, this.selected(), this.window());
    this.help.textContent = view.help;
    this.origin.textContent = view.timeline
      ? `0 is the start of the window: ${traceMicros(view.timeline.origin_ns)} µs (${view.timeline.origin_ns} ns) in the trace.`
      : '';
  }

  x(time) {
    const { left, right, from, to } = this.drawn;
    return left + ((time - from) / (to - from)) * (right - left);
  }

  draw(context, width, height, shown) {
    const view = this.shown();
    const tall = TIMELINE_TOP + view.height + 8;
    if (Math.abs(tall - height) > 0.5) return void this.chart.paint(tall);
    const [from, to] = this.window();
    const at = { left: view.timeline ? 8 : 44, right: width - 8, top: TIMELINE_TOP, bottom: tall - 4, from, to };
    this.drawn = at;
    drawKey(context, view.found ? [...view.key, ['fg', 'found']] : view.key, at.left, 10, shown, at.right);
    drawTimeAxis(context, at, shown);
    context.save();
    context.beginPath();
    context.rect(0, 0, at.right + 1, tall);
    context.clip();
    const stack = this.state.get('stack');
    this.drawSelected(context, at, shown);
    view.draw(context, at, shown, stack !== null && stack >= 0 ? stack : null, this.state.get('collective'), this.state.get('rank'));
    if (this.cursor) {
      context.fillStyle = shown.fg;
      context.fillRect(Math.round(this.x(view.startOf(this.cursor))), at.top, 1, at.bottom - at.top);
      view.drawItem?.(context, at, shown, this.cursor);
    }
    context.restore();
    this.chart.canvas.setAttribute('aria-label', `Timeline of ${view.label}: ${duration(from)} to ${duration(to)} of ${duration(view.span)}`);
  }

  drawSelected(context, at, shown) {
    const selected = this.shown().timeline ? this.selected() : null;
    if (!selected) return;
    const [x0, x1] = selected.map((time) => Math.min(at.right + 2, Math.max(at.left - 2, this.x(time))));
    context.fillStyle = shown.accent;
    context.globalAlpha = 0.16;
    context.fillRect(x0, at.top, x1 - x0, at.bottom - at.top);
    context.globalAlpha = 1;
    for (const x of [x0, x1]) context.fillRect(Math.round(x), at.top - 4, 1, at.bottom - at.top + 4);
  }

  timeAt(x) {
    const { left, right, from, to } = this.drawn;
    return Math.min(to, Math.max(from, from + ((x - left) / (right - left)) * (to - from)));
  }

  /** Shift with drag selects. The box hears of it before the canvas, which else would pan. */
  selectByPointer() {
    const { box, canvas } = this.chart;
    let first = null;
    const on = (name, react) =>
      box.addEventListener(
        name,
        (event) => {
          if (react(event)) event.stopPropagation();
        },
        { capture: true },
      );
    on('pointerdown', (event) => {
      if (event.button !== 0 || !event.shiftKey || !this.shown().timeline) return false;
      first = this.timeAt(pointerAt(canvas, event).x);
      canvas.setPointerCapture(event.pointerId);
      return true;
    });
    on('pointermove', (event) => {
      if (first === null) return false;
      const [begin, end] = [first, this.timeAt(pointerAt(canvas, event).x)].sort((a, b) => a - b).map(Math.round);
      if (end > begin) this.state.set({ begin, end });
      return true;
    });
    for (const name of ['pointerup', 'pointercancel']) {
      on(name, () => {
        const was = first;
        first = null;
        return was !== null;
      });
    }
  }

  point(x, y, isChosen) {
    const { left, right, top, from, to } = this.drawn;
    const scale = (to - from) / (right - left);
    const item = y < top ? null : this.shown().at(y - top, from + (x - left) * scale, 3 * scale);
    if (isChosen) this.held = item;
    this.hover(item);
    if (isChosen && item) this.pick();
  }

  hover(item) {
    const isSame = JSON.stringify(item) === JSON.stringify(this.cursor);
    this.cursor = item;
    if (isSame) return;
    const view = this.shown();
    this.says.textContent = item ? view.text(item) : '';
    this.times.show(item ? view.traceNs(item) : null);
    this.chart.paint();
  }

  /** Puts the cursor on a row, and shows the part of the window that it is in. */
  go(item) {
    this.held = item;
    this.hover(item);
    const { from, to } = this.drawn;
    const start = item ? this.shown().startOf(item) : from;
    if (start < from || start > to) this.zoom.show(start - (to - from) / 2, start + (to - from) / 2);
  }

  pick() {
    const chosen = this.shown().stackOf(this.cursor);
    if (!chosen) return;
    const isSame = chosen.stack !== null && chosen.stack === this.state.get('stack') && (chosen.collective ?? null) === this.state.get('collective');
    this.state.set(isSame ? { stack: null, collective: null } : chosen);
  }

  key(event) {
    const [rows, lanes] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
    if (event.key === 'Enter' && this.cursor) this.pick();
    else if (event.key === 'c' && this.cursor) this.times.copy();
    else if (rows !== 0 || lanes !== 0) {
      const { left, right, from, to } = this.drawn;
      this.go(this.shown().next(this.cursor, lanes, rows, (to - from) / (right - left)));
    } else return this.shown().timeline ? this.keyOfTrace(event.key) : false;
    return true;
  }

  /** The keys that only the view of one trace has. */
  keyOfTrace(key) {
    const view = this.shown();
    if (key === '[') this.selectFrom(this.cursor ? view.startOf(this.cursor) : this.window()[0]);
    else if (key === ']') this.selectTo(this.cursor ? view.endOf(this.cursor) : this.window()[1]);
    else if (key === '/') this.find.input.focus();
    else if (key === 'Escape') {
      this.held = null;
      this.hover(null);
      this.state.set({ begin: null, end: null });
    } else return false;
    return true;
  }

  selectFrom(begin) {
    const end = this.state.get('end');
    this.state.set({ begin, end: end !== null && end > begin ? end : null });
  }

  selectTo(end) {
    const begin = this.state.get('begin');
    this.state.set({ end, begin: begin !== null && begin < end ? begin : null });
  }
}

/** Buttons that copy a time of the trace: in µs, as Chrome's JSON has it, and in ns, as the program's options take it. */
function timeButtons() {
  const texts = [null, null];
  const copy = (at) => {
    copyText(texts[at], buttons[at]);
    // The cursor may have moved on by the time that the button shows its text again.
    setTimeout(() => show(texts[1]), 1600);
  };
  const buttons = [0, 1].map((at) => el('button', { type: 'button', class: 'small', onclick: () => copy(at) }));
  const node = el('div', { class: 'toolbar times' }, el('span', { class: 'label' }, 'Copy its start in the trace:'), buttons);
  node.style.visibility = 'hidden';
  const show = (ns) => {
    node.style.visibility = ns === null ? 'hidden' : 'visible';
    [texts[0], texts[1]] = [ns && traceMicros(ns), ns];
    if (ns === null) return;
    buttons.forEach((button, at) => (button.textContent = `${texts[at]} ${['µs', 'ns'][at]}`));
  };
  return { node, show, copy: () => texts[0] && copy(0) };
}
