// All call paths in one drawing: the outermost callers at the top, each frame as wide as the cost of its stacks.
//
// Chains of frames without branches are folded, since few of a stack's sixty frames matter. Frames narrower than a pixel are drawn as one rest.
// The layout has one rectangle per visible frame, whatever the number of stacks.

import { canvasBox, fitText, pointerAt, readout } from './canvas.js';
import { choice, el, section } from './dom.js';
import { count, duration, percent, shortFrame, visible } from './format.js';
import { matchTexts } from './model.js';
import { CallTree } from './tree.js';

const ICICLE_ROW = 20;
const ICICLE_FOLD = 3;
const ICICLE_WIDTHS = [
  ['waited', 'waited', 'Waited'],
  ['exposed', 'exposed', 'Exposed'],
  ['gpu', 'GPU', 'GPU'],
  ['count', '', 'Count'],
];

class Icicle {
  constructor(model, state, widths) {
    this.model = model;
    this.state = state;
    this.widths = widths;
    this.grouped = model.stacks[0].group !== null;
    this.tree = new CallTree(model);
    this.texts = model.texted.all;
    this.headlines = new Uint8Array(this.texts.length);
    for (const { frames, headline } of model.stacks) {
      for (const frame of frames) if (frame.text === headline) this.headlines[frame.id] = 1;
    }
    this.zoom = 0;
    this.unfolded = new Set();
    this.rects = [];
    this.cursor = null;
    this.hits = matchTexts(model, state.get('q'));
    this.chart = canvasBox('', 200, (context, wide, tall, shown) => this.draw(context, shown));
    this.note = readout('');
    this.build();
  }

  get key() {
    const key = this.state.get('width');
    return this.widths.some(([of]) => of === key) ? key : this.widths[0][0];
  }

  build() {
    const options = this.widths.map(([key, , text]) => [key, text]);
    this.choice = choice('Width', options, this.key, (width) => this.state.set({ width }));
    this.out = el('button', { type: 'button', onclick: () => this.zoomTo(this.above()) }, 'Zoom out');
    const reset = el('button', { type: 'button', onclick: () => this.reset() }, 'Reset');
    const swatch = (kind, text) => el('span', { class: 'key' }, el('span', { class: `swatch ${kind}` }), text);
    const keys = [swatch('of-headline', 'names a stack'), swatch('of-user', 'other code of yours'), swatch('of-library', 'libraries')];
    const ofStacks =
      'All call stacks in one tree, the outermost caller at the top. A click zooms into a frame, unfolds “… frames”, and chooses the ' +
      'stack where there is only one. Keys: ← ↑ → ↓ move, Enter is a click, + and − zoom, Home resets.';
    const ofGroups = 'All groups in one tree. A click zooms in. Keys: ← ↑ → ↓ move, Enter is a click, + and − zoom, Home resets.';
    const legend = this.grouped ? null : el('span', { class: 'keys legend' }, keys);
    const toolbar = el('div', { class: 'toolbar' }, this.choice.node, this.out, reset, legend);
    this.title = this.grouped ? 'Tree of groups' : 'Call tree';
    this.node = section('icicle', this.title, this.grouped ? ofGroups : ofStacks, toolbar, this.chart.box, this.note);
    const { canvas } = this.chart;
    canvas.addEventListener('pointermove', (event) => this.point(this.at(event)));
    canvas.addEventListener('pointerleave', () => this.point(null));
    canvas.addEventListener('click', (event) => this.choose(this.at(event)));
    canvas.addEventListener('keydown', (event) => this.press(event));
  }

  at(event) {
    const { x, y } = pointerAt(this.chart.canvas, event);
    return this.rects.find((rect) => rect.level === Math.floor(y / ICICLE_ROW) && x >= rect.x && x < rect.x + Math.max(1, rect.wide)) ?? null;
  }

  // One rectangle per level for a run of frames from `node` to `last`; `many` counts the folded frames.
  layout(wide) {
    this.sums = this.tree.sum(this.key);
    this.rects = [{ level: 0, x: 0, wide, node: 0, last: 0, many: 0 }];
    let level = 1;
    const above = this.tree.path(this.zoom).slice(1, -1);
    if (above.length > 0) this.rects.push({ level: level++, x: 0, wide, node: above[0], last: above.at(-1), many: above.length, isAbove: true });
    if (this.zoom !== 0) this.place(this.zoom, 0, wide, level);
    else this.children(0, 0, wide, level).forEach((child) => this.place(...child));
    this.levels = this.rects.reduce((most, rect) => Math.max(most, rect.level + 1), 0);
    this.laidOut = wide;
    const same = ({ node, rest }) => this.cursor && node === this.cursor.node && rest === this.cursor.rest;
    this.cursor = this.rects.find(same) ?? null;
  }

  place(...first) {
    const work = [first];
    while (work.length > 0) {
      const [node, x, wide, start] = work.pop();
      const chain = [node];
      for (let next = this.tree.only(node); next >= 0; next = this.tree.only(next)) chain.push(next);
      let level = start;
      for (const { from, to } of this.runs(chain)) {
        this.rects.push({ level, x, wide, node: chain[from], last: chain[to], many: to > from ? to - from + 1 : 0 });
        level += 1;
      }
      work.push(...this.children(chain.at(-1), x, wide, level));
    }
  }

  // The runs of a chain. Its last frame, frames that name stacks and frames that match a search stand alone; runs of others are folded.
  runs(chain) {
    const runs = [];
    const isKept = (at) => {
      const frame = this.tree.frame[chain[at]];
      return at === chain.length - 1 || this.headlines[frame] === 1 || this.hits?.[frame] === 1;
    };
    for (let from = 0; from < chain.length; ) {
      let to = from;
      while (to < chain.length && !isKept(to)) to += 1;
      const isFolded = to - from >= ICICLE_FOLD && !this.unfolded.has(chain[from]);
      if (isFolded) runs.push({ from, to: to - 1 });
      else for (let at = from; at < to; at += 1) runs.push({ from: at, to: at });
      if (to < chain.length) runs.push({ from: to, to });
      from = to + 1;
    }
    return runs;
  }

  // The children of a node that are at least a pixel wide, widest first; all narrower ones share one rectangle.
  children(node, x, wide, level) {
    const sum = this.sums[node];
    if (!(sum > 0)) return [];
    const shown = [];
    let narrow = 0;
    let narrowSum = 0;
    for (let child = this.tree.firstChild[node]; child >= 0; child = this.tree.nextSibling[child]) {
      if ((this.sums[child] / sum) * wide >= 1) {
        shown.push(child);
      } else if (this.sums[child] > 0) {
        narrow += 1;
        narrowSum += this.sums[child];
      }
    }
    shown.sort((a, b) => this.sums[b] - this.sums[a] || a - b);
    let left = x;
    const placed = shown.map((child) => {
      const part = (this.sums[child] / sum) * wide;
      left += part;
      return [child, left - part, part, level];
    });
    const rest = (narrowSum / sum) * wide;
    if (rest >= 1) this.rects.push({ level, x: left, wide: rest, node, last: node, many: 0, rest: narrow, restSum: narrowSum });
    return placed;
  }

  paint() {
    const wide = this.chart.canvas.clientWidth;
    if (wide === 0) return;
    if (this.laidOut !== wide) this.layout(wide);
    this.chart.paint(this.levels * ICICLE_ROW + 1);
  }

  redo() {
    this.laidOut = 0;
    this.out.disabled = this.zoom === 0;
    const [, name] = this.widths.find(([key]) => key === this.key);
    const all = this.value(this.key, this.tree.sum(this.key)[0]);
    const label = `${this.title}, ${this.many(this.model.stacks.length)}, as wide as ${name || 'count'}, ${all} in all`;
    this.chart.canvas.setAttribute('aria-label', label);
    this.paint();
    this.say();
  }

  name({ node, last, many, rest, isAbove }) {
    if (rest) return `… ${count(rest)} narrow ones`;
    if (node === 0) return this.grouped ? 'all groups' : 'all stacks';
    if (isAbove) return `… ${count(many)} ${many === 1 ? 'caller' : 'callers'} above`;
    return many > 0 ? `… ${count(many)} frames` : shortFrame(this.texts[this.tree.frame[last]].text);
  }

  draw(context, shown) {
    const chosen = this.model.stacks[this.state.get('stack')];
    const path = new Set(chosen ? this.tree.path(this.tree.leafOf[chosen.id]) : []);
    const outlined = [];
    for (const rect of this.rects) {
      const frame = this.tree.frame[rect.last];
      const plain = rect.node === 0 || rect.many > 0 || rect.rest;
      const isHeadline = !plain && this.headlines[frame] === 1;
      const isUser = !plain && (this.grouped || this.texts[frame].user);
      const top = rect.level * ICICLE_ROW;
      const wide = Math.max(1, rect.wide - 1);
      context.fillStyle = isHeadline || isUser ? shown.accent : shown.line;
      context.globalAlpha = isHeadline ? 1 : isUser ? 0.2 : plain ? 0.35 : 0.7;
      context.fillRect(rect.x, top, wide, ICICLE_ROW - 1);
      context.globalAlpha = 1;
      if (wide >= 28) {
        rect.text ??= fitText(context, this.name(rect).slice(0, Math.ceil(wide / 3)), wide - 8);
        context.fillStyle = isHeadline ? shown.panel : isUser ? shown.fg : shown.muted;
        context.fillText(rect.text, rect.x + 4, top + ICICLE_ROW / 2);
      }
      if (!plain && this.hits?.[frame]) {
        context.fillStyle = shown.mark;
        context.fillRect(rect.x, top + ICICLE_ROW - 4, wide, 3);
      }
      if (!rect.rest && rect.node !== 0 && path.has(rect.last)) outlined.push(rect);
    }
    context.lineWidth = 2;
    context.strokeStyle = shown.mark;
    for (const { x, wide, level } of outlined) context.strokeRect(x + 1, level * ICICLE_ROW + 1, Math.max(1, wide - 3), ICICLE_ROW - 3);
    if (!this.cursor) return;
    context.strokeStyle = shown.fg;
    context.strokeRect(this.cursor.x + 1, this.cursor.level * ICICLE_ROW + 1, Math.max(1, this.cursor.wide - 3), ICICLE_ROW - 3);
  }

  value(key, n) {
    return key === 'count' ? `${count(n)} kernels` : duration(n);
  }

  many(n) {
    return `${count(n)} ${this.grouped ? 'group' : 'stack'}${n === 1 ? '' : 's'}`;
  }

  point(rect) {
    if (rect === this.cursor) return;
    this.cursor = rect;
    this.paint();
    this.say();
  }

  say() {
    const { cursor } = this;
    if (!cursor) {
      const stacks = this.many(this.model.stacks.length);
      this.note.textContent = `${stacks}, ${this.widths.map(([key, name]) => `${name} ${this.value(key, this.tree.sum(key)[0])}`.trim()).join(', ')}`;
      return;
    }
    const of = (node) => visible(this.texts[this.tree.frame[node]].text);
    const all = this.tree.sum(this.key)[0];
    if (cursor.rest) {
      const sum = `${this.value(this.key, cursor.restSum)}, ${percent(cursor.restSum / all)}`;
      this.note.textContent = `${count(cursor.rest)} frames narrower than a pixel: ${sum}`;
      return;
    }
    const run = () => `${count(cursor.many)} frames, from ${of(cursor.node)} to ${of(cursor.last)}`;
    const name = cursor.node === 0 ? this.name(cursor) : cursor.many > 1 ? run() : of(cursor.last);
    const numbers = this.widths.map(([key, word]) => `${word} ${this.value(key, this.tree.sum(key)[cursor.last])}`.trim());
    const below = this.tree.below[cursor.last];
    const share = `${percent(this.tree.sum(this.key)[cursor.last] / all)} of all`;
    this.note.textContent = `${name} · ${numbers.join(', ')} · ${share} · ${this.many(below)}`;
  }

  choose(rect) {
    if (!rect || rect.rest) return;
    this.cursor = rect;
    if (rect.isAbove) return this.zoomTo(this.above());
    if (rect.many > 1) {
      this.unfolded.add(rect.node);
      return this.redo();
    }
    if (rect.node !== 0 && this.tree.below[rect.last] === 1) {
      const id = this.tree.stackBelow(rect.last);
      if (this.tree.firstChild[rect.last] < 0) return this.state.set({ stack: this.state.get('stack') === id ? null : id });
      this.state.set({ stack: id });
    }
    this.zoomTo(rect.node);
  }

  zoomTo(node) {
    this.zoom = node;
    this.redo();
  }

  // The nearest caller at which the tree branches.
  above() {
    let node = this.tree.parent[this.zoom];
    while (node > 0 && this.tree.only(node) >= 0) node = this.tree.parent[node];
    return Math.max(0, node);
  }

  reset() {
    this.unfolded.clear();
    this.zoomTo(0);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { key } = event;
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (moves[key]) this.move(...moves[key]);
    else if (key === 'Enter' || key === ' ') this.choose(this.cursor);
    else if ((key === '+' || key === '=') && this.cursor && !this.cursor.rest) this.zoomTo(this.cursor.isAbove ? this.zoom : this.cursor.last);
    else if (key === '-' || key === '_') this.zoomTo(this.above());
    else if (key === 'Home') this.reset();
    else return;
    event.preventDefault();
  }

  move(right, down) {
    const now = this.cursor;
    if (!now) return this.point(this.rects[0]);
    const row = this.rects.filter((rect) => rect.level === now.level + down).sort((a, b) => a.x - b.x);
    if (right !== 0) return this.point(row[row.indexOf(now) + right] ?? now);
    const inside = row.filter((rect) => (down > 0 ? rect.x >= now.x - 0.01 && rect.x < now.x + now.wide : rect.x <= now.x + 0.01));
    this.point((down > 0 ? inside[0] : inside.at(-1)) ?? now);
  }

  update(state, changed) {
    if (changed.has('width')) {
      this.choice.show(this.key);
      this.redo();
    } else if (changed.has('stack')) {
      this.paint();
    }
    if (!changed.has('q')) return;
    clearTimeout(this.searching);
    this.searching = setTimeout(() => this.search(), 80);
  }

  // A search applies to the table first; the drawing follows when the user stops typing.
  search() {
    this.hits = matchTexts(this.model, this.state.get('q'));
    this.redo();
  }

  // Computes sums while the page is idle.
  warm() {
    for (const [key] of this.widths.filter(([of]) => !this.tree.sums.has(of)).slice(0, 1)) {
      this.tree.sum(key);
      setTimeout(() => this.warm(), 30);
    }
  }
}

/** The tree of all call paths; null without paths. */
export function mountIcicle(model, state) {
  const widths = ICICLE_WIDTHS.filter(([key]) => model.stacks.some((stack) => stack[key] > 0));
  if (widths.length === 0 || model.stacks.every((stack) => stack.frames.length === 0)) return null;
  const icicle = new Icicle(model, state, widths);
  setTimeout(() => icicle.warm(), 300);
  return {
    id: 'icicle',
    title: icicle.title,
    node: icicle.node,
    update: (now, changed) => icicle.update(now, changed),
    paint: () => icicle.redo(),
  };
}
