// The window in time: a lane for each stream with its kernels and the exposed parts of collectives, or a lane for each rank with the
// waiting of all its collectives.

import { choice, el, section } from './dom.js';
import { duration } from './format.js';
import { canvasBox, drawKey, drawTimeAxis, readout, zoomButtons, zoomable } from './canvas.js';
import { lanesIndex } from './collectives.js';
import { RankLanes, StreamLanes } from './tracks.js';

const TIMELINE_TOP = 46;

/** The timeline, or null if there is none. */
export function mountTimeline(model, state) {
  const views = [...model.timelines.filter((of) => of.kernels.rows > 0).map((of) => new StreamLanes(model, of))];
  if (model.lanes && lanesIndex(model.lanes).n > 0) views.push(new RankLanes(model));
  return views.length > 0 ? new TimelineView(model, state, views).view() : null;
}

class TimelineView {
  constructor(model, state, views) {
    Object.assign(this, { model, state, views, cursor: null, drawn: { left: 0, right: 1 } });
    this.chart = canvasBox('', 200, (...painted) => this.draw(...painted));
    this.says = readout('');
    this.help = el('p', { class: 'help' });
    const chart = {
      extent: () => [0, this.shown().span],
      window: () => this.window(),
      plot: () => [this.drawn.left, this.drawn.right],
      set: (from, to) => this.zoomTo(from, to),
      home: () => this.zoomTo(...chart.extent()),
      point: (x, y, isChosen) => this.point(x, y, isChosen),
      leave: () => this.hover(null),
      key: (event) => this.key(event),
      cursor: () => (this.cursor ? this.x(this.shown().startOf(this.cursor)) : null),
    };
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
    this.cursor = null;
    this.state.set({ trace, from: null, to: null });
  }

  view() {
    const node = section(
      'timeline',
      'Timeline',
      'When kernels ran. Drag or Shift with ← → pan, + and − or the wheel (on the chosen chart, or with Ctrl) zoom, ' +
        'Home shows all; ← → ↑ ↓ go from kernel to kernel, Enter chooses the stack.',
      el('div', { class: 'toolbar' }, this.switch?.node, this.buttons),
      this.help,
      this.chart.box,
      this.says,
    );
    this.switch?.show(this.trace());
    return { id: 'timeline', title: 'Timeline', node, update: (state, changed) => this.update(changed), paint: () => this.chart.paint() };
  }

  trace() {
    const trace = this.state.get('trace', 0);
    return this.views[trace] ? trace : 0;
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

  zoomTo(from, to) {
    const isAll = to - from >= this.shown().span;
    this.state.set({ from: isAll ? null : Math.round(from), to: isAll ? null : Math.round(to) });
  }

  update(changed) {
    if (!['trace', 'from', 'to', 'stack', 'collective', 'rank'].some((key) => changed.has(key))) return;
    if (changed.has('trace')) this.cursor = null;
    this.switch?.show(this.trace());
    this.chart.paint();
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
    const isRanks = view instanceof RankLanes;
    const at = { left: isRanks ? 44 : 8, right: width - 8, top: TIMELINE_TOP, bottom: tall - 4, from, to };
    this.drawn = at;
    const key = isRanks
      ? [
          ['waited', 'waits', view.grid.tall > 8],
          ['transfer', 'transfer'],
          ['collective', 'waiting unknown'],
          ['mark', 'chosen'],
        ]
      : [
          ['compute', 'compute'],
          ['collective', 'collective'],
          ...(view.hasUnknown ? [['caused', 'possibly communication']] : []),
          ['exposed', 'exposed'],
          ['mark', 'chosen stack'],
        ];
    drawKey(context, key, at.left, 10, shown, at.right);
    drawTimeAxis(context, at, shown);
    context.save();
    context.beginPath();
    context.rect(0, 0, at.right + 1, tall);
    context.clip();
    const stack = this.state.get('stack');
    view.draw(context, at, shown, stack !== null && stack >= 0 ? stack : null, this.state.get('collective'), this.state.get('rank'));
    context.restore();
    if (this.cursor) {
      context.fillStyle = shown.fg;
      context.fillRect(Math.round(this.x(view.startOf(this.cursor))), at.top, 1, at.bottom - at.top);
    }
    this.help.textContent = view.help;
    this.chart.canvas.setAttribute('aria-label', `Timeline of ${view.label}: ${duration(from)} to ${duration(to)} of ${duration(view.span)}`);
  }

  point(x, y, isChosen) {
    const { left, right, top, from, to } = this.drawn;
    const scale = (to - from) / (right - left);
    this.hover(y < top ? null : this.shown().at(y - top, from + (x - left) * scale, 3 * scale));
    if (isChosen && this.cursor) this.pick();
  }

  hover(item) {
    const isSame = JSON.stringify(item) === JSON.stringify(this.cursor);
    this.cursor = item;
    if (isSame) return;
    this.says.textContent = item ? this.shown().text(item) : '';
    this.chart.paint();
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
    else if (rows === 0 && lanes === 0) return false;
    else {
      const { left, right, from, to } = this.drawn;
      this.hover(this.shown().next(this.cursor, lanes, rows, (to - from) / (right - left)));
      const start = this.cursor ? this.shown().startOf(this.cursor) : from;
      if (start < from || start > to) this.zoom.show(start - (to - from) / 2, start + (to - from) / 2);
    }
    return true;
  }
}
