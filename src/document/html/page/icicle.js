// All call paths in one drawing: the outermost callers at the top, each frame as wide as the cost of its stacks.
// Chains of frames without branches are folded, since few of a stack's sixty frames matter. Frames narrower than a pixel are drawn as one rest.

import { Chart, fitText } from './canvas.js';
import { button, choice, el, section, swatch } from './dom.js';
import { count, duration, many, percent, shortFrame, visible } from './format.js';
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
const ICICLE_KEYS = [
  ['var(--accent)', 'names a stack'],
  ['color-mix(in srgb, var(--accent) 20%, var(--panel)); border: 1px solid var(--accent)', 'other code of yours'],
  ['var(--line)', 'libraries'],
];

class Icicle extends Chart {
  constructor(model, state, widths) {
    super();
    const isGrouped = model.stacks[0].group !== null;
    Object.assign(this, { id: 'icicle', title: isGrouped ? 'Tree of groups' : 'Call tree', model, state, widths, isGrouped, texts: model.texts.all });
    Object.assign(this, { tree: new CallTree(model), zoom: 0, unfolded: new Set(), rects: [], levels: 1 });
    this.headlines = new Uint8Array(this.texts.length);
    for (const { frames, headline } of model.stacks) {
      for (const frame of frames) if (frame.text === headline) this.headlines[frame.id] = 1;
    }
    this.hits = matchTexts(model, state.get('q'));
    const zoomIn = () => this.cursor && !this.cursor.rest && this.zoomTo(this.cursor.isAbove ? this.zoom : this.cursor.last);
    const zoomOut = () => this.zoomTo(this.above());
    this.keys = { '+': zoomIn, '=': zoomIn, '-': zoomOut, _: zoomOut, Home: () => this.reset() };
    this.choice = choice('Width', widths.map(([key, , text]) => [key, text]), this.key, (width) => state.set({ width }));
    this.out = button('Zoom out', zoomOut);
    const legend = isGrouped ? null : el('span', { class: 'keys legend' }, ICICLE_KEYS.map(([colour, text]) => swatch(colour, text)));
    const toolbar = el('div', { class: 'toolbar' }, this.choice.node, this.out, button('Reset', this.keys.Home), legend);
    const what = isGrouped
      ? 'Which groups cost most? A click zooms in.'
      : 'Through which callers does the cost come? The outermost are at the top. A click zooms in, unfolds “… frames”, and chooses the stack where there is only one.';
    const help = `${what} Keys: ← ↑ → ↓ move, Enter is a click, + and − zoom, Home resets.`;
    this.node = section(this.id, this.title, help, toolbar, this.box, this.says);
    this.redo();
  }

  get key() {
    const key = this.state.get('width');
    return this.widths.some(([of]) => of === key) ? key : this.widths[0][0];
  }

  at(x, y) {
    return this.rects.find((rect) => rect.level === Math.floor(y / ICICLE_ROW) && x >= rect.x && x < rect.x + Math.max(1, rect.wide)) ?? null;
  }

  // One rectangle per level for a run of frames from `node` to `last`; `many` counts the folded frames.
  layout(wide) {
    this.sums = this.tree.sum(this.key);
    this.rects = [{ level: 0, x: 0, wide, node: 0, last: 0, many: 0 }];
    const above = this.tree.path(this.zoom).slice(1, -1);
    if (above.length > 0) this.rects.push({ level: 1, x: 0, wide, node: above[0], last: above.at(-1), many: above.length, isAbove: true });
    const level = this.rects.length;
    this.placeAll(this.zoom === 0 ? this.children(0, 0, wide, level) : [[this.zoom, 0, wide, level]]);
    this.levels = this.rects.reduce((most, rect) => Math.max(most, rect.level + 1), 0);
    this.laidOut = wide;
    const same = ({ node, rest }) => this.cursor && node === this.cursor.node && rest === this.cursor.rest;
    this.cursor = this.rects.find(same) ?? null;
  }

  placeAll(work) {
    while (work.length > 0) {
      const [node, x, wide, start] = work.pop();
      const chain = [node];
      for (let next = this.tree.only(node); next >= 0; next = this.tree.only(next)) chain.push(next);
      const runs = this.runs(chain);
      runs.forEach(([from, to], at) => this.rects.push({ level: start + at, x, wide, node: chain[from], last: chain[to], many: to > from ? to - from + 1 : 0 }));
      work.push(...this.children(chain.at(-1), x, wide, start + runs.length));
    }
  }

  // The runs of a chain. Its last frame, frames that name stacks and frames that match a search stand alone; runs of others are folded.
  runs(chain) {
    const runs = [];
    let from = 0;
    chain.forEach((node, at) => {
      const frame = this.tree.frame[node];
      if (at < chain.length - 1 && this.headlines[frame] === 0 && !this.hits?.[frame]) return;
      const isFolded = at - from >= ICICLE_FOLD && !this.unfolded.has(chain[from]);
      if (isFolded) runs.push([from, at - 1]);
      for (let alone = isFolded ? at : from; alone <= at; alone += 1) runs.push([alone, alone]);
      from = at + 1;
    });
    return runs;
  }

  // The children of a node that are at least a pixel wide, widest first; all narrower ones share one rectangle.
  children(node, x, wide, level) {
    const sum = this.sums[node];
    if (!(sum > 0)) return [];
    const all = this.tree.children(node).filter((child) => this.sums[child] > 0);
    const isWide = (child) => (this.sums[child] / sum) * wide >= 1;
    const narrow = all.filter((child) => !isWide(child));
    const narrowSum = narrow.reduce((before, child) => before + this.sums[child], 0);
    let left = x;
    const place = (child) => {
      const part = (this.sums[child] / sum) * wide;
      left += part;
      return [child, left - part, part, level];
    };
    const placed = all.filter(isWide).sort((a, b) => this.sums[b] - this.sums[a] || a - b).map(place);
    const rest = (narrowSum / sum) * wide;
    if (rest >= 1) this.rects.push({ level, x: left, wide: rest, node, last: node, many: 0, rest: narrow.length, restSum: narrowSum });
    return placed;
  }

  paint() {
    const wide = this.canvas.clientWidth;
    if (wide > 0 && this.laidOut !== wide) this.layout(wide);
    super.paint(this.levels * ICICLE_ROW + 1);
  }

  redo() {
    this.laidOut = 0;
    this.out.disabled = this.zoom === 0;
    const [, name] = this.widths.find(([key]) => key === this.key);
    const all = this.value(this.key, this.tree.sum(this.key)[0]);
    this.canvas.setAttribute('aria-label', `${this.title}, ${this.stacks(this.model.stacks.length)}, as wide as ${name || 'count'}, ${all} in all`);
    this.paint();
    this.say();
  }

  name({ node, last, many: folded, rest, isAbove }) {
    if (rest) return `… ${count(rest)} narrow ones`;
    if (node === 0) return this.isGrouped ? 'all groups' : 'all stacks';
    if (isAbove) return `… ${many(folded, 'caller')} above`;
    return folded > 0 ? `… ${count(folded)} frames` : shortFrame(this.texts[this.tree.frame[last]].text);
  }

  draw(context, width, height, shown) {
    const chosen = this.model.stacks[this.state.get('stack')];
    const path = new Set(chosen ? this.tree.path(this.tree.leafOf[chosen.id]) : []);
    for (const rect of this.rects) {
      const frame = this.tree.frame[rect.last];
      const plain = rect.node === 0 || rect.many > 0 || rect.rest;
      const isHeadline = !plain && this.headlines[frame] === 1;
      const isUser = !plain && (this.isGrouped || this.texts[frame].user);
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
      context.fillStyle = shown.mark;
      if (!plain && this.hits?.[frame]) context.fillRect(rect.x, top + ICICLE_ROW - 4, wide, 3);
    }
    const outline = ({ x, wide, level }) => context.strokeRect(x + 1, level * ICICLE_ROW + 1, Math.max(1, wide - 3), ICICLE_ROW - 3);
    context.lineWidth = 2;
    context.strokeStyle = shown.mark;
    this.rects.filter(({ rest, node, last }) => !rest && node !== 0 && path.has(last)).forEach(outline);
    context.strokeStyle = shown.fg;
    if (this.cursor) outline(this.cursor);
  }

  value(key, n) {
    return key === 'count' ? `${count(n)} kernels` : duration(n);
  }

  values(node) {
    return this.widths.map(([key, word]) => `${word} ${this.value(key, this.tree.sum(key)[node])}`.trim()).join(', ');
  }

  stacks(n) {
    return many(n, this.isGrouped ? 'group' : 'stack');
  }

  text(rect) {
    if (!rect) return `${this.stacks(this.model.stacks.length)}, ${this.values(0)}`;
    const { node, last, many: folded, rest, restSum } = rect;
    const all = this.tree.sum(this.key)[0];
    if (rest) return `${count(rest)} frames narrower than a pixel: ${this.value(this.key, restSum)}, ${percent(restSum / all)}`;
    const of = (at) => visible(this.texts[this.tree.frame[at]].text);
    const name = node === 0 ? this.name(rect) : folded > 1 ? `${count(folded)} frames, from ${of(node)} to ${of(last)}` : of(last);
    return `${name} · ${this.values(last)} · ${percent(this.tree.sum(this.key)[last] / all)} of all · ${this.stacks(this.tree.below[last])}`;
  }

  pick(rect) {
    if (rect.rest) return;
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

  move(right, down) {
    const now = this.cursor;
    if (!now) return this.hover(this.rects[0]);
    const row = this.rects.filter((rect) => rect.level === now.level + down).sort((a, b) => a.x - b.x);
    if (right !== 0) return this.hover(row[row.indexOf(now) + right] ?? now);
    const inside = row.filter((rect) => (down > 0 ? rect.x >= now.x - 0.01 && rect.x < now.x + now.wide : rect.x <= now.x + 0.01));
    this.hover((down > 0 ? inside[0] : inside.at(-1)) ?? now);
  }

  update(state, changed) {
    if (changed.has('stack')) this.paint();
    if (!changed.has('width') && !changed.has('q')) return;
    // A search applies to the table first; the drawing follows when the user stops typing.
    clearTimeout(this.searching);
    this.searching = setTimeout(() => {
      this.choice.show(this.key);
      this.hits = matchTexts(this.model, state.get('q'));
      this.redo();
    }, changed.has('q') ? 80 : 0);
  }
}

/** The tree of all call paths; null without paths. */
export function mountIcicle(model, state) {
  const widths = ICICLE_WIDTHS.filter(([key]) => model.stacks.some((stack) => stack[key] > 0));
  if (widths.length === 0 || model.stacks.every((stack) => stack.frames.length === 0)) return null;
  return new Icicle(model, state, widths);
}
