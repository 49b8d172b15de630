// Sizes against bus bandwidth, as nccl-tests plots them: small collectives are bound by latency, large ones should reach the link's bandwidth.
//
// A mark is the transfer alone, where its bandwidth is known; a line joins it to the whole kernel with its waiting. A long line means waiting, not a
// slow network.

import { choice, el, nameNode, scrollBox, section } from './dom.js';
import { bandwidth, count, duration, size, visible } from './format.js';
import { canvasBox, drawKey, gridChart, readout, ticks } from './canvas.js';

/** Sizes and bandwidths, or null if none is known. */
export function mountScatter(model, state) {
  const points = scatterPoints(model);
  return points.length > 0 ? new ScatterView(model, state, points).view() : null;
}

function scatterPoints(model) {
  const stacks = model.stacks
    .filter((stack) => (stack.transferBandwidth ?? stack.busbw) > 0 && stack.bytes?.max > 0)
    .map((stack) => ({
      stack: stack.id,
      name: stack.label,
      collective: stack.collectives,
      bytes: Math.sqrt(Math.max(1, stack.bytes.min) * stack.bytes.max),
      low: stack.bytes.min,
      high: stack.bytes.max,
      value: stack.transferBandwidth ?? stack.busbw,
      whole: stack.transferBandwidth === null ? null : stack.busbw,
      isTransfer: stack.transferBandwidth !== null,
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
      isTransfer: true,
      count: of.count,
      median: of.median_transfer_ns,
    }));
  return [...sizes, ...stacks];
}

// The sizes of a point: one, or from the smallest to the largest.
function scatterSizes({ low, high }) {
  return low === high ? size(low) : `${size(low)} to ${size(high)}`;
}

/** Round sizes between two, as `[bytes, text]`: 1, 2 and 5 times powers of ten if `room` pixels have space for them, else fewer. */
export function sizeTicks(from, to, room) {
  const [first, last] = [Math.floor(Math.log10(from)), Math.ceil(Math.log10(to))];
  const decade = room / Math.log10(to / from);
  const every = Math.max(1, Math.ceil(60 / decade));
  const at = [];
  for (let power = first; power <= last; power += every) {
    for (const of of decade >= 180 ? [1, 2, 5] : [1]) at.push(of * 10 ** power);
  }
  return at.filter((bytes) => bytes >= from && bytes <= to).map((bytes) => [bytes, size(bytes).replace('.00 ', ' ')]);
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
    this.say();
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
      (has(true) ? ` A diamond is a stack: ${this.points.some((of) => of.stack !== null && of.isTransfer) ? 'its transfers, joined to its' : 'its'} whole kernels.` : '') +
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
          scatterSizes(of),
          count(of.count),
          of.isTransfer ? bandwidth(of.value) : '',
          bandwidth(of.isTransfer ? of.whole : of.value),
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
    const at = { left: 54, right: width - 16, top: 30, bottom: height - 30 };
    const values = this.points.flatMap((of) => [of.value, of.whole ?? of.value]).filter((value) => value > 0);
    const [low, high] = [leastOf(this.points, (of) => of.bytes), -leastOf(this.points, (of) => -of.bytes)];
    const pad = Math.max(0.3, Math.log10(high / low) * 0.08);
    const [from, to] = [low / 10 ** pad, high * 10 ** pad];
    const x = (bytes) => at.left + (Math.log10(bytes / from) / Math.log10(to / from)) * (at.right - at.left);
    const most = -leastOf(values, (value) => -value);
    const isLog = this.scale() === 'log';
    const marks = isLog ? scatterDecades(leastOf(values, (value) => value), most) : ticks(0, most * 1.08, 6).at;
    const [bottom, top] = isLog ? [marks[0], marks[marks.length - 1]] : [0, most * 1.08];
    const y = (value) =>
      at.bottom - (isLog ? Math.log(Math.max(value, bottom) / bottom) / Math.log(top / bottom) : value / top) * (at.bottom - at.top);
    const has = (isStack) => this.points.some((point) => (point.stack !== null) === isStack);
    const key = [
      ['transfer', 'transfer alone', has(false)],
      ['collective', 'stack', has(true)],
      ['waited', 'whole kernel', this.points.some((of) => of.whole !== null)],
    ];
    drawKey(context, key.filter(([, , isThere]) => isThere).map(([name, text]) => [name, text]), at.left, 10, shown, width);
    context.textAlign = 'right';
    for (const mark of marks) {
      context.fillStyle = shown.line;
      context.fillRect(at.left, Math.round(y(mark)), at.right - at.left, 1);
      context.fillStyle = shown.muted;
      context.fillText(String(Number(mark.toPrecision(3))), at.left - 6, y(mark));
    }
    context.fillText('size →', at.left - 6, at.bottom + 17);
    context.textAlign = 'center';
    for (const [bytes, text] of sizeTicks(from, to, at.right - at.left)) {
      if (x(bytes) > at.left + 20) context.fillText(text, x(bytes), at.bottom + 17);
    }
    context.textAlign = 'left';
    context.fillText('GB/s', 8, 10);
    const largest = -leastOf(this.points, (of) => -of.count);
    this.places = this.points.map((of) => ({
      of,
      x: x(of.bytes),
      y: y(of.value),
      whole: of.whole === null ? null : y(of.whole),
      radius: 3.5 + 9 * Math.sqrt(of.count / largest),
    }));
    const chosen = this.state.get('stack');
    // Sizes over all ranks are drawn last, on the stacks that they sum up.
    for (const place of [...this.places].reverse()) this.drawPoint(context, place, shown, chosen !== null && place.of.stack !== null && place.of.stack !== chosen);
    this.drawNames(context, shown);
    for (const place of this.places)
      if (place.of === this.cursor || (chosen !== null && place.of.stack === chosen))
        scatterRing(context, place, place.of === this.cursor ? shown.fg : shown.mark);
    this.chart.canvas.setAttribute(
      'aria-label',
      `Bus bandwidth by size: ${this.points.length} points, ${size(low)} to ${size(high)}, up to ${bandwidth(most)}`,
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
      context.arc(x, whole, radius * 0.8, 0, 7);
      context.fill();
    }
    context.fillStyle = of.stack === null ? shown.transfer : shown.collective;
    if (of.stack === null) context.fillRect(x - radius * 0.9, y - radius * 0.9, radius * 1.8, radius * 1.8);
    else scatterDiamond(context, x, y, radius * 1.2);
    context.globalAlpha = 1;
  }

  // The collective of each size, where no other name is.
  drawNames(context, shown) {
    const drawn = [];
    context.fillStyle = shown.muted;
    for (const { x, y, radius, of } of this.places) {
      const isNear = drawn.some((other) => Math.abs(other.x - x) < 80 && Math.abs(other.y - y) < 13);
      if (of.stack !== null || isNear) continue;
      drawn.push({ x, y });
      const isLeft = x > context.canvas.clientWidth - 150;
      context.textAlign = isLeft ? 'right' : 'left';
      context.fillText(visible(of.collective), x + (isLeft ? -radius - 7 : radius + 7), y);
    }
    context.textAlign = 'left';
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
    this.say();
    this.chart.paint();
  }

  // Without a pointer on it: the point that has moved the most bytes.
  say() {
    const most = this.points.reduce((best, of) => (of.bytes * of.count > best.bytes * best.count ? of : best));
    this.says.textContent = this.cursor ? scatterText(this.cursor) : `The most bytes: ${scatterText(most)}`;
  }

  choose() {
    const stack = this.cursor?.stack ?? null;
    if (stack !== null) this.state.set({ stack: this.state.get('stack') === stack ? null : stack });
  }
}

function scatterText(point) {
  const transfer = `transfer ${bandwidth(point.value)}${point.median ? ` (median ${duration(point.median)})` : ''}`;
  const parts = [point.isTransfer ? transfer : null, `whole kernel ${bandwidth(point.isTransfer ? point.whole : point.value)}`];
  return `${visible(point.name)}: ${count(point.count)} of ${scatterSizes(point)}, ${parts.filter((part) => part).join(', ')}`;
}

function scatterDiamond(context, x, y, radius) {
  context.beginPath();
  context.moveTo(x, y - radius);
  context.lineTo(x + radius, y);
  context.lineTo(x, y + radius);
  context.lineTo(x - radius, y);
  context.fill();
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
