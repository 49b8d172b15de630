// What all charts share: a canvas that follows its box's width and the screen's pixel ratio, colours from the style sheet, text that fits,
// time axes, and zooming along x. Charts draw in CSS pixels.

import { duration, visible } from './format.js';
import { el } from './dom.js';

const CANVAS_COLOURS = [
  'bg',
  'panel',
  'fg',
  'muted',
  'line',
  'accent',
  'compute',
  'collective',
  'exposed',
  'waited',
  'transfer',
  'caused',
  'good',
  'bad',
  'mark',
];

const CANVAS_CHANNELS = new Map();
const CANVAS_THEMES = new Map();

/** The style sheet's colours in the theme of the screen, by name without `--`. They are read once for each theme, which the page's ground names. */
export function colours() {
  const ground = getComputedStyle(document.body).backgroundColor;
  if (!CANVAS_THEMES.has(ground)) CANVAS_THEMES.set(ground, canvasColours());
  return CANVAS_THEMES.get(ground);
}

// A custom property is text, such as `light-dark(#fff, #000)`; an element's colour is a colour.
function canvasColours() {
  const probe = el('span', { hidden: true });
  probe.style.forcedColorAdjust = 'none';
  document.body.append(probe);
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return [name, getComputedStyle(probe).color];
  };
  const shown = Object.fromEntries(CANVAS_COLOURS.map(read));
  probe.remove();
  return shown;
}

/** A canvas in a box. `onPaint(context, width, height, colours)` draws in CSS pixels; `paint(height)` redraws, with another height if given. */
export function canvasBox(label, height, onPaint) {
  const canvas = el('canvas', { tabIndex: 0, role: 'img', 'aria-label': label });
  const box = el('div', { class: 'chart' }, canvas);
  let tall = height;
  let [isSeen, isStale] = [true, false];
  const paint = (newHeight) => {
    if (newHeight) tall = newHeight;
    // Charts off the screen are drawn when they scroll into view, so that a selection costs no more than what it shows.
    const isPrinting = document.documentElement.classList.contains('printing');
    isStale = !isSeen && !isPrinting;
    if (isStale) return;
    canvas.style.display = 'block';
    canvas.style.width = '100%';
    canvas.style.height = `${tall}px`;
    const wide = Math.floor(canvas.clientWidth);
    if (wide === 0) return;
    const ratio = Math.max(window.devicePixelRatio || 1, isPrinting ? 2 : 1);
    const [w, h] = [Math.round(wide * ratio), Math.round(tall * ratio)];
    if (canvas.width !== w) canvas.width = w;
    if (canvas.height !== h) canvas.height = h;
    const context = canvas.getContext('2d');
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, wide, tall);
    context.font = '12px system-ui, sans-serif';
    context.textBaseline = 'middle';
    context.textAlign = 'left';
    onPaint(context, wide, tall, colours());
  };
  new IntersectionObserver(
    (entries) => {
      isSeen = entries[entries.length - 1].isIntersecting;
      if (isSeen && isStale) paint();
    },
    { rootMargin: '400px' },
  ).observe(canvas);
  return { box, canvas, paint };
}

/** The line below a chart that describes what the cursor or pointer is on. */
export function readout(text) {
  return el('p', { class: 'readout', 'aria-live': 'polite' }, text);
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
  let [low, high] = [0, whole.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(`${whole.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? '' : `${whole.slice(0, low)}…`;
}

/** The position of a pointer on a canvas, in CSS pixels. */
export function pointerAt(canvas, event) {
  const box = canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
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

/** 256 colours from the chart's background to a colour, and on towards the text's, with monotonic lightness: a Uint8 array of RGB. */
export function ramp(shown, name) {
  const stops = [channels(shown.panel), channels(shown[name]), channels(shown.fg)];
  const scale = new Uint8ClampedArray(256 * 3);
  for (let at = 0; at < 256; at += 1) {
    const share = at / 255;
    const [from, to, part] = share < 0.7 ? [stops[0], stops[1], 0.06 + (share / 0.7) * 0.94] : [stops[1], stops[2], (share - 0.7) / 0.3 / 2];
    for (let c = 0; c < 3; c += 1) scale[at * 3 + c] = at === 0 ? stops[0][c] : from[c] + (to[c] - from[c]) * part;
  }
  return scale;
}

/** The legend of a ramp, with its ends and a quarter of the maximum in the middle. */
export function drawRamp(context, scale, x, y, width, texts, shown) {
  context.fillStyle = shown.muted;
  context.textAlign = 'left';
  context.fillText(texts[0], x, y + 6);
  const left = Math.round(x + context.measureText(texts[0]).width + 6);
  for (let at = 0; at < width; at += 1) {
    const of = Math.floor((at / width) * 255) * 3;
    context.fillStyle = `rgb(${scale[of]},${scale[of + 1]},${scale[of + 2]})`;
    context.fillRect(left + at, y, 1, 12);
  }
  context.strokeStyle = shown.line;
  context.strokeRect(left - 0.5, y - 0.5, width + 1, 13);
  context.fillStyle = shown.muted;
  context.fillText(texts[1], left + width + 6, y + 6);
  if (texts[2]) context.fillText(texts[2], left + width / 2 - 3, y + 21);
}

/** The position of a share on a ramp: its square root, so that small values are visible beside large ones. */
export function rampAt(share) {
  return share > 0 ? Math.max(1, Math.round(Math.sqrt(share) * 255)) * 3 : 0;
}

/** About this many round values between two: their step is 1, 2 or 5 times a power of ten. */
export function ticks(from, to, about) {
  const rough = (to - from) / Math.max(1, about);
  if (!(rough > 0)) return { step: 1, at: [from] };
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((of) => of * power >= rough * 0.999) * power;
  const at = [];
  for (let tick = Math.ceil(from / step - 1e-9); tick * step <= to + step * 1e-9; tick += 1) at.push(tick * step);
  return { step, at };
}

/** A time on an axis: in the unit of the largest time, with the decimals that the step needs. */
function axisTime(ns, step, largest) {
  const [unit, name] = largest < 1e3 ? [1, 'ns'] : largest < 1e6 ? [1e3, 'µs'] : largest < 1e9 ? [1e6, 'ms'] : [1e9, 's'];
  return `${(ns / unit).toFixed(Math.max(0, Math.min(9, Math.ceil(Math.log10(unit / step) - 1e-9))))} ${name}`;
}

/** A time axis along x, with grid lines through the chart. */
export function drawTimeAxis(context, { left, right, top, bottom, from, to }, shown) {
  const largest = Math.max(Math.abs(from), Math.abs(to));
  const { step, at } = ticks(from, to, (right - left) / 110);
  context.font = '11px system-ui, sans-serif';
  for (const value of at) {
    const x = Math.round(left + ((value - from) / (to - from)) * (right - left)) + 0.5;
    context.fillStyle = shown.line;
    context.fillRect(x - 0.5, top, 1, bottom - top);
    context.fillStyle = shown.muted;
    const text = axisTime(value, step, largest);
    const half = context.measureText(text).width / 2;
    context.fillText(text, Math.min(Math.max(left - half, x - half, 2), right - 2 * half), top - 8);
  }
  context.font = '12px system-ui, sans-serif';
}

/** The time between two events: `1.204 ms later`, `12.000 µs before`. */
export function apart(ns, later = 'later', earlier = 'before') {
  return ns < 0 ? `${duration(-ns)} ${earlier}` : `${duration(ns)} ${later}`;
}

/**
 * Zooming along x: the wheel (on a focused chart, or with Ctrl), + and -, W and S, Home; dragging, A and D pan.
 * `chart` has extent() and window() as [from, to], plot() as [left, right] in pixels, set(from, to), home(), point(x, y, isChosen), leave(),
 * key(event).
 */
export function zoomable(canvas, chart) {
  const least = 50;
  const show = (from, to) => {
    const [first, last] = chart.extent();
    const wide = Math.min(Math.max(to - from, Math.min(least, last - first)), last - first);
    const begin = Math.min(Math.max(from, first), last - wide);
    chart.set(begin, begin + wide);
  };
  const zoom = (factor, x) => {
    const [from, to] = chart.window();
    const [left, right] = chart.plot();
    const share = x === null ? 0.5 : Math.min(1, Math.max(0, (x - left) / (right - left)));
    const at = from + (to - from) * share;
    show(at - (to - from) * factor * share, at + (to - from) * factor * (1 - share));
  };
  const pan = (pixels) => {
    const [from, to] = chart.window();
    const [left, right] = chart.plot();
    const by = (pixels / (right - left)) * (to - from);
    show(from + by, to + by);
  };
  zoomKeys(canvas, chart, { zoom, pan });
  zoomPointer(canvas, chart, { zoom, pan });
  return { zoom, pan, show };
}

function zoomKeys(canvas, chart, { zoom, pan }) {
  canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const cursor = chart.cursor ? chart.cursor() : null;
    const wide = chart.plot()[1] - chart.plot()[0];
    if (['+', '=', 'w'].includes(event.key)) zoom(0.5, cursor);
    else if (['-', '_', 's'].includes(event.key)) zoom(2, cursor);
    else if (event.key === 'Home') chart.home();
    else if (event.key === 'a') pan(-wide / 5);
    else if (event.key === 'd') pan(wide / 5);
    else if (!chart.key(event)) return;
    event.preventDefault();
  });
}

function zoomPointer(canvas, chart, { zoom, pan }) {
  let drag = null;
  canvas.style.touchAction = 'pan-y';
  canvas.addEventListener(
    'wheel',
    (event) => {
      if (!event.ctrlKey && document.activeElement !== canvas) return;
      event.preventDefault();
      if (event.deltaX !== 0 && Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX);
      else zoom(1.0015 ** (event.deltaY * (event.deltaMode === 1 ? 30 : 1)), pointerAt(canvas, event).x);
    },
    { passive: false },
  );
  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    drag = { x: event.clientX, from: event.clientX, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    const { x, y } = pointerAt(canvas, event);
    if (!drag) return chart.point(x, y, false);
    if (!drag.moved && Math.abs(event.clientX - drag.from) < 4) return;
    drag.moved = true;
    pan(drag.x - event.clientX);
    drag.x = event.clientX;
  });
  canvas.addEventListener('pointerup', (event) => {
    if (drag && !drag.moved) chart.point(...Object.values(pointerAt(canvas, event)), true);
    drag = null;
  });
  canvas.addEventListener('pointercancel', () => {
    drag = null;
  });
  canvas.addEventListener('pointerleave', () => chart.leave());
}

/** The buttons of a zoomable chart. */
export function zoomButtons({ zoom, pan }, chart) {
  const button = (text, label, onclick) => el('button', { type: 'button', 'aria-label': label, title: label, onclick }, text);
  const step = () => (chart.plot()[1] - chart.plot()[0]) / 3;
  return el(
    'div',
    { class: 'choice', role: 'group', 'aria-label': 'zoom' },
    button('+', 'zoom in', () => zoom(0.5, null)),
    button('−', 'zoom out', () => zoom(2, null)),
    button('‹', 'earlier', () => pan(-step())),
    button('›', 'later', () => pan(step())),
    button('reset', 'reset the zoom', chart.home),
  );
}

/**
 * The pointer and keys of a chart of cells: `chart` has point(x, y, isChosen), leave(), move(columns, rows), choose().
 */
export function gridChart(canvas, chart) {
  const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1], PageUp: [0, -20], PageDown: [0, 20] };
  canvas.addEventListener('pointermove', (event) => {
    const { x, y } = pointerAt(canvas, event);
    chart.point(x, y, false);
  });
  canvas.addEventListener('click', (event) => {
    const { x, y } = pointerAt(canvas, event);
    chart.point(x, y, true);
  });
  canvas.addEventListener('pointerleave', () => chart.leave());
  canvas.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (MOVES[event.key]) chart.move(...MOVES[event.key]);
    else if (event.key === 'Enter' || event.key === ' ') chart.choose();
    else return;
    event.preventDefault();
  });
}

/** A key for the drawing: `[colour name, text]` as squares with labels. */
export function drawKey(context, items, x, y, shown, right) {
  let [at, line] = [x, y];
  for (const [name, text] of items) {
    const wide = 20 + context.measureText(text).width + 14;
    if (at + wide > right && at > x) [at, line] = [x, line + 17];
    context.fillStyle = shown[name];
    context.fillRect(at, line - 5, 14, 10);
    context.fillStyle = shown.muted;
    context.fillText(text, at + 19, line);
    at += wide;
  }
}

/** A heading of details in the colour of text. */
export function inText(summary) {
  summary.style.color = 'var(--fg)';
  return summary;
}
