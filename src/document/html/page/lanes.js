// Lanes: what ran when, as bars on rows. A source gives the lanes; this places them, draws them, and finds what is at a point. What is narrower than a
// pixel is summed: a pixel's strength is the share of it that is covered.
// A lane has `{label, table: {start, dur}, rows, noun, inks, ink(row), name(row), text(row), pick(row)}`; `rows` are in the order of their starts. With
// `split(row)`, a bar has the first ink for so long and then that of `ink`. With `strip`, rows of another table are a thin bar below. `side` labels are
// beside the lane, others above it. `isMarked(row, choice)` outlines what is chosen. Lanes with one `tree` are its levels, of which those are shown that
// have something to see in the window.

import { channels, drawPixels, fillShape, firstThat, fitText } from './canvas.js';
import { count, duration, many } from './format.js';

const LANE_LABEL = 15;
const LANE_GAP = 7;
const LANE_STRIP = 6;
const STEP_ROW = 18;
// A level of a tree is shown if it has a bar of so many pixels, and so many levels at once.
const LEVEL_LEAST = 2;
const LEVELS_MOST = 20;
const TICK_WIDTH = 7;
// More names or marks than this are not drawn: they would cover each other.
const NAMES_MOST = 2000;
const MARKS_MOST = 20000;

/** A lane of a table's rows: with the latest end up to each row, which gives the first row that can reach into a window. */
export function lane(rows, table, more) {
  let latest = -Infinity;
  const list = Int32Array.from(rows);
  const ends = Float64Array.from(list, (row) => {
    latest = Math.max(latest, table.start[row] + table.dur[row]);
    return latest;
  });
  return { rows: list, table, ends, ...more };
}

export function grouped(rows, keyOf) {
  const groups = new Map();
  for (const row of rows) groups.get(keyOf(row))?.push(row) ?? groups.set(keyOf(row), [row]);
  return groups;
}

/** Lanes below each other. A cursor is `{lane, of}`: a lane and the place of a row in it. */
export class Lanes {
  constructor({ steps, lanes, ...source }) {
    Object.assign(this, source, { steps, lanes });
    this.left = lanes.some(({ side }) => side) ? 44 : 8;
  }

  place(window) {
    let y = this.steps.length > 0 ? STEP_ROW : 0;
    let [tree, levels] = [null, 0];
    this.lanes.forEach((of, at) => {
      if (of.tree !== tree) [tree, levels] = [of.tree, 0];
      const next = this.lanes[at + 1];
      // Of callers that take the whole window only the innermost is shown.
      const isAbove = levels === 0 && next?.tree === tree && this.widest(next, window) >= window.right - window.left - 2;
      of.isShown = tree === undefined || (levels < LEVELS_MOST && !isAbove && this.widest(of, window) >= LEVEL_LEAST);
      of.title = tree === undefined ? of.label : levels === 0 ? tree : '';
      const label = of.side || of.title === '' || !of.isShown ? 0 : LANE_LABEL;
      Object.assign(of, { y, bar: y + label });
      if (!of.isShown) return;
      levels += 1;
      y += label + of.tall + (of.strip ? LANE_STRIP : 0) + (of.side ? (of.tall > 8 ? 3 : 0) : tree === undefined ? LANE_GAP : 1);
    });
    this.height = y;
  }

  /** The pixels of the widest bar of a lane in a window. */
  widest(of, window) {
    const [x, [first, last]] = [this.scale(window), this.rowsIn(of, window.from, window.to)];
    const pixels = (row) => Math.min(x(of.table.start[row] + of.table.dur[row]), window.right - window.left) - Math.max(0, x(of.table.start[row]));
    return of.rows.subarray(first, last).reduce((most, row) => Math.max(most, pixels(row)), 0);
  }

  /** The rows of a lane inside a window: the first, and the one after the last. */
  rowsIn({ rows, ends, table: { start } }, from, to) {
    return [firstThat(rows.length, (at) => ends[at] >= from), firstThat(rows.length, (at) => start[rows[at]] > to)];
  }

  scale({ left, right, from, to }) {
    return (time) => (time - from) * ((right - left) / (to - from));
  }

  /** Draws all in a window: what is chosen is marked, and what the cursor is on. */
  draw(context, window, shown, choice, cursor) {
    const at = { ...window, x: this.scale(window), wide: window.right - window.left };
    this.drawSteps(context, at, shown);
    const every = Math.ceil(14 / Math.max(1, this.lanes.find(({ side }) => side)?.tall ?? 14));
    const labelled = this.lanes.filter(({ side, label }) => side && label).filter((_, place) => place % every === 0);
    for (const of of this.lanes.filter(({ isShown }) => isShown)) {
      const range = this.rowsIn(of, at.from, at.to);
      this.drawBars(context, at, shown, of, range);
      this.drawMarks(context, at, shown, of, range, choice);
      this.drawNames(context, at, shown, of, range);
      context.fillStyle = shown.muted;
      if (!of.side) context.fillText(fitText(context, of.title, at.wide), at.left, at.top + of.y + LANE_LABEL / 2);
      context.textAlign = 'right';
      if (labelled.includes(of)) context.fillText(of.label, at.left - 6, at.top + of.bar + Math.max(5, of.tall / 2));
      context.textAlign = 'left';
    }
    this.drawTies(context, at, shown, this.ties?.(choice, at.from, at.to));
    if (cursor) this.drawCursor(context, at, shown, cursor);
  }

  drawSteps(context, at, shown) {
    let until = -3;
    context.fillStyle = shown.muted;
    for (const [place, step] of this.steps.entries()) {
      const [x0, x1] = [Math.max(0, at.x(step.start)), Math.min(at.wide, at.x(step.start + step.dur))];
      if (x1 < 0 || x0 > at.wide || x0 - until < 3) continue;
      until = x0;
      context.fillRect(at.left + x0, at.top + 1, 1, STEP_ROW - 5);
      context.fillRect(at.left + x0, at.top + 1, Math.max(1, x1 - x0 - 1), 1);
      // Steps may overlap; their names do not.
      const room = Math.min(x1, at.x(this.steps[place + 1]?.start ?? Infinity)) - x0;
      if (room > 24) context.fillText(fitText(context, step.name, room - 8), at.left + x0 + 4, at.top + STEP_ROW / 2);
    }
  }

  drawBars(context, at, shown, of, [first, last]) {
    const wide = Math.ceil(at.wide);
    const { start, dur } = of.table;
    const sums = of.inks.map(() => new Float32Array(wide));
    for (const row of of.rows.subarray(first, last)) {
      const split = of.split ? of.split(row) : 0;
      if (split > 0) cover(sums[0], at.x(start[row]), at.x(start[row] + split));
      cover(sums[of.ink(row)], at.x(start[row] + split), at.x(start[row] + dur[row]));
    }
    const strip = new Float32Array(wide);
    for (const part of of.strip?.rows ?? []) cover(strip, at.x(of.strip.start[part]), at.x(of.strip.start[part] + of.strip.dur[part]));
    const tall = of.tall + (of.strip ? LANE_STRIP : 0);
    const inks = of.inks.map((name) => channels(shown[name]));
    drawPixels(context, [wide, tall], [at.left, at.top + of.bar, wide, tall], (pixels) => {
      const put = (x, top, bottom, [red, green, blue], share) => {
        const strength = 255 * (0.3 + 0.7 * Math.min(1, share));
        for (let y = top; y < bottom; y += 1) pixels.set([red, green, blue, strength], (y * wide + x) * 4);
      };
      for (let pixel = 0; pixel < wide; pixel += 1) {
        // The first kind is what others are rare among: a quarter as much of another kind gives its colour.
        const isSeen = (sum, kind) => kind > 0 && sum[pixel] > 0 && sum[pixel] >= sums[0][pixel] * 0.25;
        const share = sums.reduce((all, sum) => all + sum[pixel], 0);
        if (share > 0) put(pixel, 0, of.tall, inks[Math.max(0, sums.findIndex(isSeen))], share);
        if (strip[pixel] > 0) put(pixel, of.tall + 1, tall, channels(shown[of.strip.ink]), strip[pixel]);
      }
    });
  }

  /** Outlines what is chosen and what was searched for; marks it where it is too narrow. */
  drawMarks(context, at, shown, of, [first, last], choice) {
    const y = at.top + of.bar;
    context.strokeStyle = shown.mark;
    if (of.isChosen?.(choice)) context.strokeRect(at.left - 1.5, y - 1.5, at.wide + 3, of.tall + 3);
    if (choice.isNone && !this.found) return;
    const hits = this.found?.hits[this.lanes.indexOf(of)];
    const ticks = [new Set(), new Set()];
    const tick = (x) => fillShape(context, [x - 3.5, y - 7], [x + 3.5, y - 7], [x, y - 1]);
    for (let place = first; place < Math.min(last, first + MARKS_MOST); place += 1) {
      const [row, isFound] = [of.rows[place], hits?.[place] === 1];
      if (!isFound && (choice.isNone || !of.isMarked?.(row, choice))) continue;
      const [x0, x1] = [at.x(of.table.start[row]), at.x(of.table.start[row] + of.table.dur[row])];
      ticks[Number(isFound)].add(Math.min(at.wide, Math.max(0, Math.round((x0 + x1) / 2))));
      if (x1 - x0 <= 2 || of.tall < 4) continue;
      context.strokeStyle = isFound ? shown.fg : shown.mark;
      context.strokeRect(at.left + Math.max(-1, x0), y + 0.5, Math.min(at.wide + 2, x1) - Math.max(-1, x0), of.tall - 1);
    }
    ticks.forEach((pixels, isFound) => {
      context.fillStyle = isFound ? shown.fg : shown.mark;
      // Triangles side by side would be a bar over the lane's label.
      const isDense = pixels.size * TICK_WIDTH > at.wide / 2 || of.side;
      pixels.forEach((pixel) => (isDense ? context.fillRect(at.left + pixel, y - 3, 1, 2) : tick(at.left + pixel)));
    });
  }

  /** Draws where wide bars begin, and their names. */
  drawNames(context, at, shown, of, [first, last]) {
    if (last - first > NAMES_MOST || of.tall < 12) return;
    context.font = '11px system-ui, sans-serif';
    for (const row of of.rows.subarray(first, last)) {
      const { start, dur } = of.table;
      const [x0, x1] = [Math.max(0, at.x(start[row] + (of.split ? of.split(row) : 0))), Math.min(at.wide, at.x(start[row] + dur[row]))];
      context.fillStyle = shown.panel;
      if (x1 - x0 > 5) context.fillRect(at.left + x0 - 0.5, at.top + of.bar, 1, of.tall);
      if (x1 - x0 < of.least) continue;
      context.fillStyle = readable(shown, of.inks[of.ink(row)]);
      context.fillText(fitText(context, of.name(row), x1 - x0 - 6), at.left + x0 + 3, at.top + of.bar + of.tall / 2 + 0.5);
    }
    context.font = '12px system-ui, sans-serif';
  }

  drawTies(context, at, shown, ties) {
    context.strokeStyle = shown.mark;
    for (const [from, to] of ties ?? []) {
      context.beginPath();
      context.moveTo(at.left + at.x(this.spanOf(from)[0]), at.top + this.lanes[from.lane].bar + this.lanes[from.lane].tall);
      context.lineTo(at.left + at.x(this.spanOf(to)[0]), at.top + this.lanes[to.lane].bar);
      context.stroke();
    }
  }

  /** Draws what the cursor is on, when it starts, and the lines between a launch and its kernels. */
  drawCursor(context, at, shown, cursor) {
    const { bar, tall, isShown } = this.lanes[cursor.lane];
    if (!isShown) return;
    const [x0, x1] = this.spanOf(cursor).map(at.x);
    context.fillStyle = shown.fg;
    context.fillRect(Math.round(at.left + x0), at.top, 1, at.bottom - at.top);
    context.strokeStyle = shown.fg;
    context.strokeRect(at.left + x0 - 1, at.top + bar - 1, Math.max(2, x1 - x0 + 2), tall + 2);
    this.drawTies(context, at, shown, this.tiesOf?.(cursor));
  }

  /** The rows with a text in their names, in the order of their starts: `{hits of each lane, items, text}`. */
  search(query) {
    const [items, sums, known] = [[], new Map(), new Map()];
    const hasText = (text) => known.get(text) ?? known.set(text, text.toLowerCase().includes(query)).get(text);
    const hits = this.lanes.map((of, lane) => {
      const sum = sums.get(of.noun) ?? sums.set(of.noun, { found: 0, all: 0, ns: 0 }).get(of.noun);
      return Uint8Array.from(of.rows, (row, place) => {
        const n = of.counts?.(row) ?? 1;
        sum.all += n;
        if (!hasText((of.find ?? of.name)(row))) return 0;
        sum.found += n;
        sum.ns += of.table.dur[row];
        return items.push({ lane, of: place }) && 1;
      });
    });
    // Levels lie within each other, so that their times have no sum.
    const said = ([noun, { found, all, ns }]) => `${count(found)} of ${many(all, noun)}${noun === 'function' ? '' : `, ${duration(ns)}`}`;
    const texts = [...sums].filter(([, { found }]) => found > 0).map(said);
    return { hits, items: items.sort((a, b) => this.spanOf(a)[0] - this.spanOf(b)[0]), text: texts.join('; ') || 'nothing is called so' };
  }

  /** The row at a time of the lane at this height, or the nearest one. */
  at(y, time, within) {
    const lane = this.lanes.findIndex(({ isShown, y: top }, at) => isShown && y >= top && y < (this.lanes[at + 1]?.y ?? this.height));
    if (lane < 0) return null;
    const { rows, table } = this.lanes[lane];
    const [first, last] = this.rowsIn(this.lanes[lane], time - within, time + within);
    let [best, least] = [null, Infinity];
    for (let place = last - 1; place >= first && least > 0; place -= 1) {
      const start = table.start[rows[place]];
      const far = Math.max(0, start - time, time - start - table.dur[rows[place]]);
      if (far <= within && far < least) [best, least] = [place, far];
    }
    return best === null ? null : { lane, of: best };
  }

  /** The next (or previous) row at least `least` later; on another lane, the one nearest in time. */
  next(item, lanes, rows, least) {
    let lane = item?.lane ?? this.first ?? 0;
    for (let at = lane + lanes; lanes !== 0 && this.lanes[at]; at += lanes) {
      if (!this.lanes[at].isShown) continue;
      lane = at;
      break;
    }
    const { rows: list, table } = this.lanes[lane];
    const start = (of) => table.start[list[of]];
    let of = !item ? 0 : lanes === 0 ? item.of + rows : firstThat(list.length, (at) => start(at) >= this.spanOf(item)[0]);
    while (item && lanes === 0 && of >= 0 && of < list.length && Math.abs(start(of) - start(item.of)) < least) of += rows;
    return { lane, of: Math.min(Math.max(of, 0), list.length - 1) };
  }

  spanOf({ lane, of }) {
    const { table, rows } = this.lanes[lane];
    return [table.start[rows[of]], table.start[rows[of]] + table.dur[rows[of]]];
  }

  /** What its lane has of a cursor's row: its `text`, what choosing it would `pick`, and when it started in its trace, `traceNs`; null for nothing. */
  ask(what, { lane, of }) {
    return this.lanes[lane][what]?.(this.lanes[lane].rows[of]) ?? null;
  }
}

/** Adds how much of each pixel is covered; what is within one is seen, however short it is. */
function cover(sums, x0, x1) {
  const [from, to] = [Math.max(0, x0), Math.min(sums.length, x1)];
  const least = Math.floor(from) === Math.floor(to) ? 0.15 : 0;
  for (let pixel = Math.floor(from); pixel <= to; pixel += 1) sums[pixel] += Math.max(least, Math.min(pixel + 1, to) - Math.max(pixel, from));
}

/** The colour of text on a colour: the chart's background or that of other text, whichever differs more. */
function readable(shown, name) {
  const light = (colour) => [299, 587, 114].reduce((sum, weight, at) => sum + (channels(colour)[at] * weight) / 1000, 0);
  const far = (colour) => Math.abs(light(colour) - light(shown[name]));
  return far(shown.panel) > far(shown.fg) ? shown.panel : shown.fg;
}
