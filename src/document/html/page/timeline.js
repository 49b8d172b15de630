// The window in time: the kernels of a trace with a lane for each stream, or the collectives of all ranks with a lane for each rank. Kernels of one
// trace can be searched for.

import { canvasBox, drawKey, drawTimeAxis, readout, zoomButtons, zoomable } from './canvas.js';
import { traceMicros, traceNs } from './clock.js';
import { copyText } from './commands.js';
import { choice, el, nameNode, section } from './dom.js';
import { count, duration } from './format.js';
import { rankLanes } from './rank_lanes.js';
import { traceLanes } from './trace_lanes.js';

const TIMELINE_TOP = 46;

const TIMELINE_HELP =
  'Drag or A and D pan; W and S, + and − or the wheel (on the chosen chart, or with Ctrl) zoom; Home shows all. ← → ↑ ↓ go from row to row, Enter ' +
  'chooses, f fits what is chosen, c copies its time in the trace, / finds, Escape clears.';

const TIMELINE_KEYS = ['step', 'trace', 'from', 'to', 'find', 'stack', 'collective', 'rank'];

/** The timeline, or null if there is none. */
export function mountTimeline(model, state) {
  const views = model.timelines.filter((of) => of.kernels.rows > 0).map((of) => traceLanes(model, of));
  if (model.lanes?.rows.rows > 0) views.push(rankLanes(model));
  if (model.lanes?.rerun?.rows) views.push(rankLanes(model, model.lanes.rerun));
  return views.length > 0 ? new TimelineView(model, state, views).view() : null;
}

class TimelineView {
  constructor(model, state, views) {
    Object.assign(this, { model, state, views, cursor: null, held: null, searched: null, drawn: { left: 0, right: 1 } });
    this.chart = canvasBox('', 200, (...painted) => this.draw(...painted));
    this.says = readout('');
    this.tip = el('div', { class: 'tip', hidden: true, 'aria-hidden': 'true' });
    this.chart.box.append(this.tip);
    this.help = el('p');
    this.origin = el('p', { class: 'origin' });
    this.times = timeButtons();
    this.code = el('code');
    const copy = el('button', { type: 'button', class: 'small', 'aria-label': 'Copy the command', onclick: () => copyText(this.code.textContent, copy, this.code) }, 'Copy');
    const what = el('p', null, 'The shown span as a trace of its own, for ui.perfetto.dev (Open trace file):');
    this.command = el('div', null, what, el('div', { class: 'command' }, this.code, copy));
    this.search();
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
    this.zoom = zoomable(this.chart.canvas, chart);
    this.buttons = zoomButtons(this.zoom, chart);
    const options = views.map((view, at) => [at, view.label]);
    const choose = (trace) => this.state.set({ trace, from: null, to: null });
    this.switch = options.length < 2 ? null : options.length > 6 ? selection(options, choose) : choice('Trace', options, this.trace(), choose);
  }

  view() {
    const legend = el('details', { class: 'legend' }, el('summary', null, 'What this shows, keys, and a trace of it'), this.help, el('p', null, TIMELINE_HELP), this.origin, this.command);
    const toolbar = el('div', { class: 'toolbar' }, this.switch?.node, this.buttons, this.finder);
    const node = section('timeline', 'Timeline', null, toolbar, this.chart.box, el('div', { class: 'says' }, this.says, this.times.node), legend);
    this.switch?.show(this.trace());
    this.showParts();
    return { id: 'timeline', title: 'Timeline', node, update: (state, changed) => this.update(changed), paint: () => this.chart.paint() };
  }

  /** The search for kernels. */
  search() {
    const onkeydown = (event) => {
      if (event.key === 'Enter') this.goFound(event.shiftKey ? -1 : 1);
      else if (event.key === 'Escape') this.chart.canvas.focus();
    };
    this.input = el('input', { type: 'search', spellcheck: false, autocomplete: 'off', placeholder: 'kernel or stack', onkeydown });
    this.input.addEventListener('input', () => this.state.set({ find: this.input.value }));
    this.found = el('span', { class: 'muted', role: 'status' });
    this.nextFound = el('button', { type: 'button', class: 'small', onclick: () => this.goFound(1) }, 'Next');
    this.finder = el('div', { class: 'toolbar' }, el('label', { class: 'search' }, el('span', { class: 'label' }, 'Find'), this.input), this.nextFound, this.found);
  }

  /** Finds the kernels of a view that have the text of the address. */
  find(view) {
    this.finder.hidden = !view.search;
    const query = this.state.get('find', '').trim().toLowerCase();
    if (this.input !== document.activeElement) this.input.value = this.state.get('find', '');
    if (!view.search || (this.searched?.view === view && this.searched.query === query)) return;
    view.found = query === '' ? null : view.search(query);
    this.searched = { view, query, at: -1 };
    this.nextFound.hidden = !view.found;
    this.found.textContent = view.found?.text ?? '';
  }

  /** Goes to the next kernel that was found, or the one before: after the last comes the first. */
  goFound(step) {
    const { view } = this.searched ?? {};
    const rows = view?.found?.rows ?? [];
    if (rows.length === 0) return;
    const at = this.searched.at < 0 && step < 0 ? 0 : this.searched.at;
    this.searched.at = (at + step + rows.length) % rows.length;
    this.found.textContent = `${view.found.text}; number ${count(this.searched.at + 1)}`;
    this.go(view.itemOf(rows[this.searched.at]));
  }

  trace() {
    // A schedule is seen beside those of the other ranks.
    const first = Math.max(0, this.views.findIndex((view) => view.hasPieces));
    const trace = this.state.get('trace', first);
    return this.views[trace] ? trace : first;
  }

  shown() {
    return this.views[this.trace()];
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

  zoomTo(from, to) {
    const [first, last] = this.first();
    const isFirst = from === first && to === last;
    this.state.set({ from: isFirst ? null : Math.round(from), to: isFirst ? null : Math.round(to) });
  }

  update(changed) {
    if (!TIMELINE_KEYS.some((key) => changed.has(key))) return;
    if (changed.has('trace')) {
      this.held = null;
      this.hover(null);
    }
    this.switch?.show(this.trace());
    const span = !changed.has('from') && (changed.has('step') || changed.has('collective')) ? this.spanOfChoice() : null;
    if (span) return this.zoomTo(...span);
    this.showParts();
    this.chart.paint();
  }

  /** The span of the chosen step; of a chosen collective with a margin, as nothing shows where else it begins. */
  spanOfChoice() {
    const view = this.shown();
    const collective = view.spanOfCollective?.(this.state.get('collective'));
    return collective ? this.margined(...collective) : (view.spanOfStep(this.state.get('step')) ?? null);
  }

  margined(from, to) {
    const { span } = this.shown();
    return [Math.max(0, from - (to - from) * 0.25), Math.min(span, to + (to - from) * 0.25)];
  }

  /** Shows what the cursor or the choice is on, with a margin. */
  fit() {
    const item = this.held ?? this.cursor;
    const view = this.shown();
    const span = item ? this.margined(view.startOf(item), view.endOf(item)) : this.spanOfChoice();
    if (span) this.zoom.show(...span);
  }

  /** Shows what is beside the chart. */
  showParts() {
    const view = this.shown();
    this.find(view);
    this.help.textContent = view.help;
    const { timeline } = view;
    this.origin.textContent = timeline ? `0 is the start of the window: ${traceMicros(timeline.origin_ns)} µs (${timeline.origin_ns} ns) in the trace.` : '';
    this.command.hidden = !timeline || timeline.name === '-';
    if (this.command.hidden) return;
    const [from, to] = this.window();
    const window = `--start-ts ${traceNs(timeline.origin_ns, from)} --duration ${Math.max(1, Math.round(to - from))}`;
    this.code.replaceChildren(nameNode(`nccl-stacks export ${shellWord(timeline.name)} --trace span.json.gz ${window}`));
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
    const at = { left: view.left, right: width - 8, top: TIMELINE_TOP, bottom: tall - 4, from, to };
    this.drawn = at;
    drawKey(context, view.found ? [...view.key, ['fg', 'found']] : view.key, at.left, 10, shown, at.right);
    drawTimeAxis(context, at, shown);
    context.save();
    context.beginPath();
    context.rect(0, 0, at.right + 1, tall);
    context.clip();
    const [stack, collective, rank] = ['stack', 'collective', 'rank'].map((key) => this.state.get(key));
    view.draw(context, at, shown, { stack, collective, rank, isNone: stack === null && collective === null });
    if (this.cursor) {
      context.fillStyle = shown.fg;
      context.fillRect(Math.round(this.x(view.startOf(this.cursor))), at.top, 1, at.bottom - at.top);
      view.drawItem(context, at, shown, this.cursor);
    }
    context.restore();
    this.chart.canvas.setAttribute('aria-label', `Timeline of ${view.label}: ${duration(from)} to ${duration(to)} of ${duration(view.span)}`);
  }

  point(x, y, isChosen) {
    const { left, right, top, from, to } = this.drawn;
    const scale = (to - from) / (right - left);
    const item = y < top ? null : this.shown().at(y - top, from + (x - left) * scale, 3 * scale);
    if (isChosen) this.held = item;
    this.hover(item);
    // Beside the pointer, on the side with more room.
    this.tip.hidden = !item;
    Object.assign(this.tip.style, { top: `${y + 16}px`, ...(x > right / 2 ? { left: 'auto', right: `${right - x + 20}px` } : { left: `${x + 12}px`, right: 'auto' }) });
    if (isChosen && item) this.pick();
  }

  hover(item) {
    this.tip.hidden = true;
    const isSame = JSON.stringify(item) === JSON.stringify(this.cursor);
    this.cursor = item;
    if (isSame) return;
    const view = this.shown();
    this.says.textContent = item ? view.text(item) : '';
    this.tip.textContent = this.says.textContent;
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
    const chosen = this.shown().pick(this.cursor);
    if (!chosen) return;
    const isSame = Object.entries(chosen).every(([key, value]) => value === this.state.get(key));
    this.state.set(isSame ? Object.fromEntries(Object.keys(chosen).map((key) => [key, null])) : chosen);
  }

  key(event) {
    const [rows, lanes] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key] ?? [0, 0];
    if (event.key === 'Enter' && this.cursor) this.pick();
    else if (event.key === 'c' && this.cursor) this.times.copy();
    else if (rows !== 0 || lanes !== 0) {
      const { left, right, from, to } = this.drawn;
      this.go(this.shown().next(this.cursor, lanes, rows, (to - from) / (right - left)));
    } else if (event.key === 'f') this.fit();
    else if (event.key === '/' && this.shown().search) this.input.focus();
    else if (event.key === 'Escape') {
      this.held = null;
      this.hover(null);
    } else return false;
    return true;
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
