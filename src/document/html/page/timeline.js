// The window in time: the kernels of a trace with a lane for each stream, or the collectives of all ranks with a lane for each rank.

import { Chart } from './canvas.js';
import { command } from './commands.js';
import { button, choice, copyButton, details, el, searchField, section, swatch } from './dom.js';
import { count, duration, traceMicros, traceNs } from './format.js';
import { rankLanes } from './rank_lanes.js';
import { traceLanes } from './trace_lanes.js';

const TIMELINE_TOP = 24;
const TIMELINE_LEAST = 50;
const TIMELINE_TRACES = 6;

const TIMELINE_HELP =
  'Drag or A and D pan; W and S, + and − or the wheel (on the chosen chart, or with Ctrl) zoom; Home shows all. ← → ↑ ↓ go from row to row, Enter ' +
  'chooses, f fits what is chosen, c copies its time in the trace, / finds, Escape clears.';

export function mountTimeline(model, state) {
  const views = model.timelines.filter((of) => of.kernels.rows > 0).map((of) => traceLanes(model, of));
  if (model.lanes?.rows.rows > 0) views.push(rankLanes(model));
  if (model.lanes?.rerun?.rows) views.push(rankLanes(model, model.lanes.rerun));
  return views.length > 0 ? new Timeline(state, views) : null;
}

class Timeline extends Chart {
  constructor(state, views) {
    super();
    Object.assign(this, { id: 'timeline', title: 'Timeline', state, views, drawn: { left: 0, right: 1 } });
    const [zoomIn, zoomOut] = [0.5, 2].map((factor) => () => this.zoom(factor, this.cursorX()));
    const home = () => this.show(0, this.shown().span);
    const [back, on] = [-1, 1].map((way) => () => this.pan((way * (this.drawn.right - this.drawn.left)) / 4));
    const copy = () => this.starts && this.copies[0].click();
    const find = () => this.finder.input.focus();
    this.keys = { '+': zoomIn, '=': zoomIn, w: zoomIn, '-': zoomOut, _: zoomOut, s: zoomOut, a: back, d: on, Home: home };
    Object.assign(this.keys, { f: () => this.fit(), c: copy, '/': find, Escape: () => this.go(null) });
    this.drags();
    const named = (text, label, does) => button(text, does, { 'aria-label': label, title: label });
    const zooms = [named('+', 'zoom in', () => this.zoom(0.5, null)), named('−', 'zoom out', () => this.zoom(2, null))];
    const moves = [named('‹', 'earlier', back), named('›', 'later', on), named('reset', 'reset the zoom', home)];
    const buttons = el('div', { class: 'choice', role: 'group', 'aria-label': 'zoom' }, zooms, moves);
    const options = views.map((view, at) => [at, view.label]);
    const choose = (trace) => state.set({ trace, from: null, to: null });
    this.switch = options.length < 2 ? null : options.length > TIMELINE_TRACES ? selection(options, choose) : choice('Trace', options, 0, choose);
    // The start of a row in its trace is copied in µs, as Chrome's JSON has it, or in ns, as the program's options take it.
    this.copies = ['µs', 'ns'].map((unit, at) => copyButton('', () => this.starts[at], { 'data-unit': unit }));
    this.times = el('div', { class: 'toolbar times' }, el('span', { class: 'label' }, 'Copy its start in the trace:'), this.copies);
    [this.help, this.origin, this.command] = [el('p'), el('p', { class: 'origin' }), el('div')];
    const toolbar = el('div', { class: 'toolbar' }, this.switch?.node, buttons, this.search());
    const about = 'What this shows, keys, and a trace of it';
    const legend = details({ class: 'legend' }, about, this.help, el('p', null, TIMELINE_HELP), this.origin, this.command);
    this.colours = el('div', { class: 'keys legend' });
    this.node = section(this.id, this.title, 'What ran when, and what waited?', toolbar, this.colours, this.box, el('div', { class: 'says' }, this.says, this.times), legend);
    this.say();
    this.showParts();
  }

  search() {
    const onkeydown = (event) => {
      if (event.key === 'Enter') this.goFound(event.shiftKey ? -1 : 1);
      else if (event.key === 'Escape') this.canvas.focus();
    };
    this.finder = searchField('Find', 'part of a name', (find) => this.state.set({ find }), onkeydown);
    this.nextFound = button('Next', () => this.goFound(1), { class: 'small' });
    this.finder.status.before(this.nextFound);
    return this.finder.node;
  }

  find(view) {
    const text = this.state.get('find', '');
    const query = text.trim().toLowerCase();
    if (this.finder.input !== document.activeElement) this.finder.input.value = text;
    if (view.found?.query !== query && (view.found || query !== '')) view.found = query === '' ? null : { query, at: -1, ...view.search(query) };
    const { found } = view;
    this.nextFound.hidden = !found;
    this.finder.status.textContent = !found ? '' : found.at < 0 ? found.text : `${found.text}; number ${count(found.at + 1)}`;
  }

  /** Goes to the next one that was found, or the one before: after the last comes the first. */
  goFound(step) {
    const view = this.shown();
    const { found } = view;
    if (!found || found.items.length === 0) return;
    found.at = (Math.max(found.at, step < 0 ? 0 : -1) + step + found.items.length) % found.items.length;
    this.find(view);
    this.go(found.items[found.at]);
    if (!view.lanes[this.held.lane].isShown) this.fit();
  }

  /** The lanes that are shown: of many ranks first those of all. */
  shown() {
    return this.views[this.state.get('trace')] ?? this.views.find((view) => view.isOfAll) ?? this.views[0];
  }

  /** What is shown at first: of one trace its longest step, else all. */
  first() {
    const { span, timeline } = this.shown();
    const longest = (timeline?.steps ?? []).reduce((most, step) => (step.dur > most.dur ? step : most), { dur: 0 });
    return timeline?.steps.length > 1 && longest.dur > 0 ? [longest.start, Math.min(span, longest.start + longest.dur)] : [0, span];
  }

  window() {
    const { span } = this.shown();
    if (this.state.get('from') === null && this.state.get('to') === null) return this.first();
    const from = Math.min(Math.max(0, this.state.get('from', 0)), span);
    const to = Math.min(this.state.get('to', span), span);
    return to > from ? [from, to] : [0, span];
  }

  show(from, to, view = null) {
    const { span } = this.shown();
    const wide = Math.min(Math.max(to - from, Math.min(TIMELINE_LEAST, span)), span);
    const begin = Math.min(Math.max(from, 0), span - wide);
    const [first, last] = this.first();
    const isFirst = begin === first && begin + wide === last;
    this.state.set({ from: isFirst ? null : Math.round(begin), to: isFirst ? null : Math.round(begin + wide), view });
  }

  /** Makes the span this many times as long, around what is at a pixel or in the middle. */
  zoom(factor, x) {
    const [from, to] = this.window();
    const { left, right } = this.drawn;
    const share = x === null ? 0.5 : Math.min(1, Math.max(0, (x - left) / (right - left)));
    const at = from + (to - from) * share;
    this.show(at - (to - from) * factor * share, at + (to - from) * factor * (1 - share));
  }

  pan(pixels) {
    const [from, to] = this.window();
    const by = (pixels / (this.drawn.right - this.drawn.left)) * (to - from);
    this.show(from + by, to + by);
  }

  /** The wheel zooms, on a focused chart or with Ctrl; dragging pans. */
  drags() {
    const { canvas } = this;
    canvas.style.touchAction = 'pan-y';
    const wheel = (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.pan(event.deltaX);
      else this.zoom(1.0015 ** (event.deltaY * (event.deltaMode === 1 ? 30 : 1)), this.place(event)[0]);
    };
    canvas.addEventListener('wheel', wheel, { passive: false });
    canvas.addEventListener('pointerdown', (event) => {
      Object.assign(this, { dragX: event.clientX, isDragged: false });
      if (event.button === 0) canvas.setPointerCapture(event.pointerId);
    });
  }

  point(event, isChosen) {
    if (this.canvas.hasPointerCapture(event.pointerId) && event.buttons === 1) {
      const by = event.clientX - this.dragX;
      this.isDragged ||= Math.abs(by) >= 4;
      if (!this.isDragged) return;
      this.dragX = event.clientX;
      return this.pan(-by);
    }
    // The click that ends a drag chooses nothing.
    if (isChosen && this.isDragged) return;
    if (isChosen) this.held = null;
    super.point(event, isChosen);
  }

  update(_, changed) {
    if (changed.has('trace')) {
      this.held = null;
      this.hover(null);
    }
    const span = !changed.has('from') && (changed.has('step') || changed.has('collective')) ? this.spanOfChoice() : null;
    if (span) return this.show(...span, this.state.get('view'));
    this.showParts();
    this.paint();
  }

  /** The span of the chosen step; of a chosen collective with a margin, as nothing shows where else it begins. */
  spanOfChoice() {
    const view = this.shown();
    const collective = view.spanOfCollective?.(this.state.get('collective'));
    return collective ? this.margined(collective) : (view.spanOfStep(this.state.get('step')) ?? null);
  }

  margined([from, to]) {
    const { span } = this.shown();
    return [Math.max(0, from - (to - from) * 0.25), Math.min(span, to + (to - from) * 0.25)];
  }

  /** Shows what the cursor or the choice is on, with a margin. */
  fit() {
    const item = this.held ?? this.cursor;
    const span = item ? this.margined(this.shown().spanOf(item)) : this.spanOfChoice();
    if (span) this.show(...span);
  }

  showParts() {
    const view = this.shown();
    this.switch?.show(this.views.indexOf(view));
    this.find(view);
    const colours = view.found ? [...view.key, ['fg', 'found']] : view.key;
    this.colours.replaceChildren(...colours.map(([name, text]) => swatch(`var(--${name})`, text)));
    this.help.textContent = view.help;
    const { timeline } = view;
    this.origin.textContent = timeline ? `0 is the start of the window: ${traceMicros(timeline.origin_ns)} µs (${timeline.origin_ns} ns) in the trace.` : '';
    this.command.hidden = !timeline || timeline.name === '-';
    if (this.command.hidden) return;
    const [from, to] = this.window();
    const window = `--start-ts ${traceNs(timeline.origin_ns, from)} --duration ${Math.max(1, Math.round(to - from))}`;
    const what = el('p', null, 'The shown span as a trace of its own, for ui.perfetto.dev (Open trace file):');
    this.command.replaceChildren(what, command(`nccl-stacks export ${shellWord(timeline.name)} --trace span.json.gz ${window}`, 'the shown span'));
  }

  draw(context, width, height, shown) {
    const view = this.shown();
    const [from, to] = this.window();
    const at = { left: view.left, right: width - 8, top: TIMELINE_TOP, from, to };
    view.place(at);
    const tall = TIMELINE_TOP + view.height + 8;
    if (Math.abs(tall - height) > 0.5) return void this.paint(tall);
    at.bottom = tall - 4;
    this.drawn = at;
    drawTimeAxis(context, at, shown);
    context.save();
    context.beginPath();
    context.rect(0, 0, at.right + 1, tall);
    context.clip();
    const [stack, collective, rank] = ['stack', 'collective', 'rank'].map((key) => this.state.get(key));
    view.draw(context, at, shown, { stack, collective, rank, isNone: stack === null && collective === null }, this.cursor);
    context.restore();
    this.canvas.setAttribute('aria-label', `Timeline of ${view.label}: ${duration(from)} to ${duration(to)} of ${duration(view.span)}`);
  }

  /** The pixel at which the cursor's row starts; null without a cursor. */
  cursorX() {
    return this.cursor && this.drawn.left + this.shown().scale(this.drawn)(this.shown().spanOf(this.cursor)[0]);
  }

  at(x, y) {
    const { left, right, top, from, to } = this.drawn;
    const scale = (to - from) / (right - left);
    return y < top ? null : this.shown().at(y - top, from + (x - left) * scale, 3 * scale);
  }

  text(item) {
    const ns = item && this.shown().ask('traceNs', item);
    this.starts = ns && [traceMicros(ns), ns];
    this.times.style.visibility = ns ? 'visible' : 'hidden';
    this.copies.forEach((of, at) => (of.textContent = ns && `${this.starts[at]} ${of.dataset.unit}`));
    return item ? this.shown().ask('text', item) : '';
  }

  /** Puts the cursor on a row, and shows the part of the window that it is in. */
  go(item) {
    this.held = item;
    this.hover(item);
    const { from, to } = this.drawn;
    const [start] = item ? this.shown().spanOf(item) : [from];
    if (start < from || start > to) this.show(start - (to - from) / 2, start + (to - from) / 2);
  }

  move(rows, lanes) {
    const { left, right, from, to } = this.drawn;
    this.go(this.shown().next(this.cursor, lanes, rows, (to - from) / (right - left)));
  }

  pick(item) {
    this.held = item;
    const chosen = this.shown().ask('pick', item);
    if (!chosen) return;
    const isSame = Object.entries(chosen).every(([key, value]) => value === this.state.get(key));
    this.state.set(isSame ? Object.fromEntries(Object.keys(chosen).map((key) => [key, null])) : chosen);
  }
}

/** A choice of many, with the same parts as `choice`. */
function selection(options, choose) {
  const node = el('select', { 'aria-label': 'Trace', onchange: () => choose(Number(node.value)) }, options.map(([value, text]) => el('option', { value }, text)));
  return { node, show: (value) => (node.value = String(value)) };
}

/** A word for a shell, in quotes if it needs them. */
function shellWord(word) {
  const path = word.startsWith('-') ? `./${word}` : word;
  return /^[A-Za-z0-9\-_=+./,:@%]+$/.test(path) ? path : `'${path.replace(/'/g, "'\\''")}'`;
}

/** A time axis along x, with grid lines through the chart: at round times, whose step is 1, 2 or 5 times a power of ten. */
function drawTimeAxis(context, { left, right, top, bottom, from, to }, shown) {
  const largest = Math.max(Math.abs(from), Math.abs(to));
  const [unit, name] = largest < 1e3 ? [1, 'ns'] : largest < 1e6 ? [1e3, 'µs'] : largest < 1e9 ? [1e6, 'ms'] : [1e9, 's'];
  const rough = (to - from) / Math.max(1, (right - left) / 110);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((of) => of * power >= rough * 0.999) * power;
  const decimals = Math.max(0, Math.min(9, Math.ceil(Math.log10(unit / step) - 1e-9)));
  context.font = '11px system-ui, sans-serif';
  for (let tick = Math.ceil(from / step - 1e-9); tick * step <= to + step * 1e-9; tick += 1) {
    const x = Math.round(left + ((tick * step - from) / (to - from)) * (right - left)) + 0.5;
    context.fillStyle = shown.line;
    context.fillRect(x - 0.5, top, 1, bottom - top);
    context.fillStyle = shown.muted;
    const text = `${((tick * step) / unit).toFixed(decimals)} ${name}`;
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(left - half, x - half, 2), right - 2 * half), top - 8);
  }
  context.font = '12px system-ui, sans-serif';
}
