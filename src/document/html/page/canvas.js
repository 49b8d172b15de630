// What all drawings share: a canvas that follows its box's width and the screen's pixel ratio, a cursor that the pointer and keys move, colours from
// the style sheet, and text that fits. Drawings are made in CSS pixels.

import { el } from './dom.js';
import { visible } from './format.js';

const CANVAS_MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

const CANVAS_COLOURS = 'panel fg muted line accent compute collective exposed waited transfer caused good mark'.split(' ');

const CANVAS_CHANNELS = new Map();
const CANVAS_THEMES = new Map();

/** The style sheet's colours in the theme of the screen, by name without `--`. They are read once for each theme, which the page's ground names. */
function colours() {
  const ground = getComputedStyle(document.body).backgroundColor;
  if (CANVAS_THEMES.has(ground)) return CANVAS_THEMES.get(ground);
  const probe = el('span', { hidden: true });
  probe.style.forcedColorAdjust = 'none';
  document.body.append(probe);
  // A custom property is text, such as `light-dark(#fff, #000)`; an element's colour is a colour.
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  };
  CANVAS_THEMES.set(ground, Object.fromEntries(CANVAS_COLOURS.map(read)));
  probe.remove();
  return CANVAS_THEMES.get(ground);
}

/**
 * A drawing with a cursor. It has `draw(context, width, height, colours)`, which may call `paint` with another height, `at(x, y)`: the item at a place
 * or null, `text(item)`: what the line below says of the cursor, `pick(item)`, which chooses it, `move(right, down)`, which moves the cursor by keys,
 * and `keys`: what other keys do.
 */
export class Chart {
  constructor() {
    // What is held has the cursor when the pointer leaves.
    Object.assign(this, { cursor: null, held: null, keys: {}, tall: 200, isSeen: true });
    this.canvas = el('canvas', { tabIndex: 0, role: 'img', 'aria-label': '' });
    this.tip = el('div', { class: 'tip', hidden: true, 'aria-hidden': 'true' });
    this.box = el('div', { class: 'chart' }, this.canvas, this.tip);
    this.says = el('p', { class: 'readout', 'aria-live': 'polite' });
    const seen = (entries) => {
      this.isSeen = entries.at(-1).isIntersecting;
      if (this.isSeen && this.isStale) this.paint();
    };
    new IntersectionObserver(seen, { rootMargin: '400px' }).observe(this.canvas);
    new ResizeObserver(() => this.canvas.clientWidth !== this.wide && this.paint()).observe(this.canvas);
    this.canvas.addEventListener('pointermove', (event) => this.point(event, false));
    this.canvas.addEventListener('click', (event) => this.point(event, true));
    this.canvas.addEventListener('pointerleave', () => this.hover(this.held));
    this.canvas.addEventListener('keydown', (event) => this.press(event));
  }

  /** Draws it again, with another height if one is given. */
  paint(height = this.tall) {
    const { canvas } = this;
    this.tall = height;
    // Charts off the screen are drawn when they scroll into view, so that a selection costs no more than what it shows.
    const isPrinting = document.documentElement.classList.contains('printing');
    this.isStale = !this.isSeen && !isPrinting;
    if (this.isStale) return;
    canvas.style.height = `${height}px`;
    const wide = (this.wide = canvas.clientWidth);
    if (wide === 0) return;
    const ratio = Math.max(window.devicePixelRatio || 1, isPrinting ? 2 : 1);
    const [w, h] = [Math.round(wide * ratio), Math.round(height * ratio)];
    if (canvas.width !== w) canvas.width = w;
    if (canvas.height !== h) canvas.height = h;
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, wide, height);
    context.font = '12px system-ui, sans-serif';
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    this.draw(context, wide, height, colours());
  }

  place(event) {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  point(event, isChosen) {
    const [x, y] = this.place(event);
    const item = this.at(x, y);
    this.hover(item);
    // Beside the pointer, on the side with more room.
    const wide = this.canvas.clientWidth;
    Object.assign(this.tip.style, { top: `${y + 16}px`, ...(x > wide / 2 ? { left: 'auto', right: `${wide - x + 12}px` } : { left: `${x + 12}px`, right: 'auto' }) });
    this.tip.hidden = !item;
    if (isChosen && item) this.pick(item);
  }

  hover(item) {
    this.tip.hidden = true;
    if (JSON.stringify(item) === JSON.stringify(this.cursor)) return;
    this.cursor = item;
    this.say();
    this.paint();
  }

  say() {
    this.says.textContent = this.text(this.cursor);
    this.tip.textContent = this.says.textContent;
    this.tip.hidden ||= !this.cursor;
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (CANVAS_MOVES[event.key]) this.move(...CANVAS_MOVES[event.key]);
    else if (this.keys[event.key]) this.keys[event.key]();
    else if ((event.key === 'Enter' || event.key === ' ') && this.cursor) this.pick(this.cursor);
    else return;
    event.preventDefault();
  }
}

const CANVAS_RULER = el('canvas', { width: 1, height: 1 }).getContext('2d');

/** The width of a text in the page's font, in CSS pixels. */
export function textWidth(text, pixels, weight = 400) {
  CANVAS_RULER.font = `${weight} ${pixels}px ${getComputedStyle(document.body).fontFamily}`;
  return CANVAS_RULER.measureText(text).width;
}

/** A text of at most this width, cut with `…`. Names in it are made safe to show. */
export function fitText(context, text, width) {
  const whole = visible(text);
  if (context.measureText(whole).width <= width) return whole;
  const kept = firstThat(whole.length, (length) => context.measureText(`${whole.slice(0, length + 1)}…`).width > width);
  return kept === 0 ? '' : `${whole.slice(0, kept)}…`;
}

/** The first of n numbers that fits, or n if none does. Every number after one that fits must fit as well. */
export function firstThat(n, fits) {
  let [low, high] = [0, n];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (fits(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Red, green and blue (0 to 255) of a CSS colour. */
export function channels(colour) {
  if (CANVAS_CHANNELS.has(colour)) return CANVAS_CHANNELS.get(colour);
  const context = el('canvas', { width: 1, height: 1 }).getContext('2d', { willReadFrequently: true });
  context.fillStyle = colour;
  context.fillRect(0, 0, 1, 1);
  const { data } = context.getImageData(0, 0, 1, 1);
  CANVAS_CHANNELS.set(colour, data);
  return data;
}

/** Draws pixels into a place. `put(image)` fills them. */
export function drawPixels(context, [wide, tall], [x, y, width, height], put) {
  const image = new ImageData(wide, tall);
  put(image.data);
  const small = el('canvas', { width: wide, height: tall });
  small.getContext('2d').putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(small, x, y, width, height);
}

export function fillShape(context, ...points) {
  context.beginPath();
  points.forEach((point) => context.lineTo(...point));
  context.fill();
}
