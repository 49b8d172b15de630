// Sizes against bus bandwidth, as nccl-tests plots them: small collectives are bound by latency, large ones should reach the link's bandwidth.
//
// For kinds and sizes over all ranks a line joins two marks: the transfer alone, and the whole kernel with its waiting. A long line means
// waiting, not a slow network.

import { choice, el, nameNode, scrollBox, section } from './dom.js';
import { bandwidth, count, duration, visible } from './format.js';
import { canvasBox, drawKey, gridChart, readout, ticks } from './canvas.js';

/** Sizes and bandwidths, or null if none is known. */
export function mountScatter(model, state) {
  const points = scatterPoints(model);
  return points.length > 0 ? new ScatterView(model, state, points).view() : null;
}

function scatterPoints(model) {
  const stacks = model.stacks
    .filter((stack) => stack.busbw > 0 && stack.bytes?.max > 0)
    .map((stack) => ({
      stack: stack.id,
      name: stack.label,
      collective: stack.collectives,
      bytes: Math.sqrt(Math.max(1, stack.bytes.min) * stack.bytes.max),
      low: stack.bytes.min,
      high: stack.bytes.max,
      value: stack.busbw,
      whole: null,
      count: stack.count,
    }));
  const sizes = (model.docs.ranks?.sizes ?? [])
    .filter((of) => of.bandwidth && of.bytes > 0)
    .map((of) => ({
      stack: null,
      name: `${of.collective} on ${of.ranks} ranks`,
      collective: of.collective,
      bytes: of.bytes,
      low: of.bytes,
      high: of.bytes,
      value: of.bandwidth.transfer_gb_per_s,
      whole: of.bandwidth.kernel_gb_per_s,
      count: of.count,
      median: of.median_transfer_ns,
    }));
  return [...sizes, ...stacks];
}

/** A power of two in the notation of nccl-tests: `64K`. */
export function powerText(bytes) {
  const power = Math.min(3, Math.floor(Math.log2(Math.max(1, bytes)) / 10));
  const value = bytes / 1024 ** power;
  return `${Number.isInteger(value) ? value : value.toFixed(1)}${['', 'K', 'M', 'G'][power]}`;
}

class ScatterView {
  constructor(model, state, points) {
    Object.assign(this, { model, state, points, cursor: null, places: [] });
    this.axis = choice(
      'Bandwidth',
      [
        ['linear', 'linear'],
        ['log', 'logarithmic'],
      ],
      this.scale(),
      (axis) => state.set({ axis }),
    );
    this.chart = canvasBox('', 320, (...painted) => this.draw(...painted));
    this.says = readout('');
    const go = (columns, rows) => this.go(columns - rows);
    gridChart(this.chart.canvas, {
      point: (x, y, isChosen) => this.point(x, y, isChosen),
      leave: () => this.hover(null),
      move: go,
      choose: () => this.choose(),
      zoom: () => {},
      reset: () => this.hover(null),
    });
  }

  view() {
    const has = (isStack) => this.points.some((point) => (point.stack !== null) === isStack);
    const help =
      'Bus bandwidth as nccl-tests defines it, by size.' +
      (has(false)
        ? ' A square is the transfer alone (the kernel that came last), the circle joined to it the mean of whole kernels, waiting included.'
        : '') +
      (has(true) ? ' A diamond is a stack of one trace, whole kernels.' : '') +
      ' The area grows with the number.';
    const node = section(
      'sizes',
      'Sizes and bandwidth',
      help,
      el('div', { class: 'toolbar' }, this.axis.node),
      this.chart.box,
      this.says,
      this.table(),
    );
    return { id: 'sizes', title: 'Sizes', node, update: (state, changed) => this.update(changed), paint: () => this.chart.paint() };
  }

  scale() {
    return this.state.get('axis') === 'log' ? 'log' : 'linear';
  }

  update(changed) {
    if (!changed.has('axis') && !changed.has('stack')) return;
    this.axis.show(this.scale());
    this.chart.paint();
  }

  table() {
    const columns = ['what', 'size', 'count', 'transfer', 'whole kernel', 'median transfer'];
    const line = (of) =>
      el(
        'tr',
        {},
        el('td', {}, nameNode(of.name)),
        [
          of.low === of.high ? powerText(of.low) : `${powerText(of.low)} to ${powerText(of.high)}`,
          count(of.count),
          of.whole === null ? '' : bandwidth(of.value),
          bandwidth(of.whole ?? of.value),
          of.median ? duration(of.median) : '',
        ].map((text) => el('td', { class: 'number' }, text)),
      );
    return el(
      'details',
      {},
      el('summary', {}, 'The same as a table'),
      scrollBox(
        'Sizes and bandwidths',
        el(
          'table',
          { class: 'compact' },
          el(
            'thead',
            {},
            el(
              'tr',
              {},
              columns.map((name, at) => el('th', { scope: 'col', class: at > 0 ? 'number' : null }, name)),
            ),
          ),
          el('tbody', {}, this.points.slice(0, 200).map(line)),
        ),
      ),
    );
  }

  draw(context, width, height, shown) {
    const at = { left: 54, right: width - 16, top: 30, bottom: height - 36 };
    const values = this.points.flatMap((of) => [of.value, of.whole ?? of.value]).filter((value) => value > 0);
    const [low, high] = [
      Math.floor(Math.log2(leastOf(this.points, (of) => of.bytes))),
      Math.ceil(Math.log2(-leastOf(this.points, (of) => -of.bytes)) + 0.01),
    ];
    const x = (bytes) => at.left + ((Math.log2(bytes) - low + 0.5) / (high - low + 1)) * (at.right - at.left);
    const most = -leastOf(values, (value) => -value);
    const isLog = this.scale() === 'log';
    const marks = isLog ? scatterDecades(leastOf(values, (value) => value), most) : ticks(0, most * 1.08, 6).at;
    const [bottom, top] = isLog ? [marks[0], marks[marks.length - 1]] : [0, most * 1.08];
    const y = (value) =>
      at.bottom - (isLog ? Math.log(Math.max(value, bottom) / bottom) / Math.log(top / bottom) : value / top) * (at.bottom - at.top);
    const has = (isStack) => this.points.some((point) => (point.stack !== null) === isStack);
    const sizes = [
      ['transfer', 'transfer alone'],
      ['waited', 'whole kernel, all ranks'],
    ];
    drawKey(context, [...(has(false) ? sizes : []), ...(has(true) ? [['collective', 'stack']] : [])], at.left, 10, shown, width);
    context.textAlign = 'right';
    for (const mark of marks) {
      context.fillStyle = shown.line;
      context.fillRect(at.left, Math.round(y(mark)), at.right - at.left, 1);
      context.fillStyle = shown.muted;
      context.fillText(String(Number(mark.toPrecision(3))), at.left - 6, y(mark));
    }
    context.textAlign = 'center';
    const every = Math.ceil(((high - low + 1) * 44) / (at.right - at.left));
    for (let power = low; power <= high; power += every) context.fillText(powerText(2 ** power), x(2 ** power), at.bottom + 12);
    context.textAlign = 'left';
    context.fillText('GB/s', 8, 10);
    context.textAlign = 'right';
    context.fillText('bytes (log2) →', at.right, at.bottom + 27);
    const largest = -leastOf(this.points, (of) => -of.count);
    this.places = this.points.map((of) => ({
      of,
      x: x(of.bytes),
      y: y(of.value),
      whole: of.whole === null ? null : y(of.whole),
      radius: 3.5 + 9 * Math.sqrt(of.count / largest),
    }));
    const chosen = this.state.get('stack');
    for (const place of this.places) this.drawPoint(context, place, shown, chosen !== null && place.of.stack !== null && place.of.stack !== chosen);
    for (const place of this.places)
      if (place.of === this.cursor || (chosen !== null && place.of.stack === chosen))
        scatterRing(context, place, place.of === this.cursor ? shown.fg : shown.mark);
    this.chart.canvas.setAttribute(
      'aria-label',
      `Bus bandwidth by size: ${this.points.length} points, ${powerText(2 ** low)} to ${powerText(2 ** high)} bytes, up to ${bandwidth(most)}`,
    );
  }

  drawPoint(context, place, shown, isDim) {
    const { x, y, radius, whole, of } = place;
    context.globalAlpha = isDim ? 0.25 : 0.8;
    if (whole !== null) {
      context.strokeStyle = shown.muted;
      context.beginPath();
      context.moveTo(x, y);
      context.lineTo(x, whole);
      context.stroke();
      context.fillStyle = shown.waited;
      context.beginPath();
      context.arc(x, whole, radius, 0, 7);
      context.fill();
      context.fillStyle = shown.transfer;
      context.fillRect(x - radius * 0.9, y - radius * 0.9, radius * 1.8, radius * 1.8);
    } else {
      context.fillStyle = shown.collective;
      context.beginPath();
      [
        [0, -1.2],
        [1.2, 0],
        [0, 1.2],
        [-1.2, 0],
      ].forEach(([dx, dy]) => context.lineTo(x + dx * radius, y + dy * radius));
      context.fill();
    }
    context.globalAlpha = 1;
    if (whole !== null && this.points.length < 14) {
      context.fillStyle = shown.muted;
      context.textAlign = x > context.canvas.clientWidth - 150 ? 'right' : 'left';
      context.fillText(visible(of.collective), x + (context.textAlign === 'left' ? radius + 5 : -radius - 5), y);
      context.textAlign = 'left';
    }
  }

  point(x, y, isChosen) {
    let [best, least] = [null, 16];
    for (const place of this.places) {
      const far =
        Math.min(Math.hypot(place.x - x, place.y - y), place.whole === null ? Infinity : Math.hypot(place.x - x, place.whole - y)) - place.radius;
      if (far < least) [best, least] = [place.of, far];
    }
    this.hover(best);
    if (isChosen) this.choose();
  }

  go(by) {
    const order = [...this.points].sort((a, b) => a.bytes - b.bytes || a.value - b.value);
    this.hover(order[Math.min(Math.max(order.indexOf(this.cursor) + by, 0), order.length - 1)]);
  }

  hover(point) {
    if (point === this.cursor) return;
    this.cursor = point;
    const size = point && (point.low === point.high ? powerText(point.low) : `${powerText(point.low)} to ${powerText(point.high)}`);
    this.says.textContent = !point
      ? ''
      : `${visible(point.name)}: ${count(point.count)} of ${size} bytes, ` +
        (point.whole === null
          ? `${bandwidth(point.value)}`
          : `transfer ${bandwidth(point.value)} (median ${duration(point.median)}), whole kernel ${bandwidth(point.whole)}`);
    this.chart.paint();
  }

  choose() {
    const stack = this.cursor?.stack ?? null;
    if (stack !== null) this.state.set({ stack: this.state.get('stack') === stack ? null : stack });
  }
}

function scatterRing(context, { x, y, radius }, colour) {
  context.strokeStyle = colour;
  context.lineWidth = 2;
  context.beginPath();
  context.arc(x, y, radius + 4, 0, 7);
  context.stroke();
  context.lineWidth = 1;
}

function scatterDecades(low, high) {
  const from = Math.floor(Math.log10(low));
  const to = Math.max(from + 1, Math.ceil(Math.log10(high)));
  return Array.from({ length: to - from + 1 }, (_, at) => 10 ** (from + at));
}

// Works for lists of any length: a call takes only some 100,000 arguments.
function leastOf(list, of) {
  return list.reduce((least, item) => Math.min(least, of(item)), Infinity);
}
