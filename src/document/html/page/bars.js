// Bars of a lane: what is narrower than a pixel is summed, and a pixel's strength is the share of it that is covered.

import { channels, fitText } from './canvas.js';
import { el } from './dom.js';

/** The height of the bar of exposed time. */
export const EXPOSED_BAR = 6;

/** The height of the row of steps. */
export const STEP_ROW = 18;

/** Draws a lane's pixels. The first kind is what others are rare among: a quarter as much of another kind gives its colour. */
export function putBars(context, left, y, lane, sums, inks) {
  const wide = sums[0].length;
  const image = new ImageData(wide, lane.tall + EXPOSED_BAR);
  const kinds = lane.parts ? sums.slice(0, 3) : sums;
  for (let pixel = 0; pixel < wide; pixel += 1) {
    const isSeen = (sum, kind) => kind > 0 && sum[pixel] > 0 && sum[pixel] >= sums[0][pixel] * 0.25;
    const share = kinds.reduce((all, sum) => all + sum[pixel], 0);
    if (share > 0) putColumn(image, pixel, 0, lane.tall, inks[Math.max(0, kinds.findIndex(isSeen))], Math.min(1, share));
    if (lane.parts && sums[3][pixel] > 0) putColumn(image, pixel, lane.tall + 1, lane.tall + EXPOSED_BAR, inks[3], Math.min(1, sums[3][pixel]));
  }
  const canvas = el('canvas', { width: wide, height: image.height });
  canvas.getContext('2d').putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, left, y);
}

function putColumn(image, x, top, bottom, ink, share) {
  const strength = 255 * (0.3 + 0.7 * share);
  for (let y = top; y < bottom; y += 1) {
    const at = (y * image.width + x) * 4;
    for (let c = 0; c < 3; c += 1) image.data[at + c] = ink[c];
    image.data[at + 3] = strength;
  }
}

/** Adds how much of each pixel is covered. */
export function coverPixels(sums, x0, x1) {
  const [from, to] = [Math.max(0, x0), Math.min(sums.length, x1)];
  if (to < 0 || from >= sums.length) return;
  const last = Math.floor(to);
  const first = Math.floor(from);
  if (first === last) sums[first] += Math.max(0.15, to - from);
  else {
    sums[first] += first + 1 - from;
    for (let pixel = first + 1; pixel < last; pixel += 1) sums[pixel] += 1;
    if (last < sums.length) sums[last] += to - last;
  }
}

export function drawTick(context, x, y) {
  context.beginPath();
  context.moveTo(x - 3.5, y - 6);
  context.lineTo(x + 3.5, y - 6);
  context.lineTo(x, y);
  context.fill();
}

/** Draws where steps are, `{name, start, dur}`, and their names where there is room. */
export function drawSteps(context, at, shown, steps) {
  const scale = (at.right - at.left) / (at.to - at.from);
  let until = -3;
  for (const step of steps) {
    const [x0, x1] = [Math.max(0, (step.start - at.from) * scale), Math.min(at.right - at.left, (step.start + step.dur - at.from) * scale)];
    if (x1 < 0 || x0 > at.right - at.left || x0 - until < 3) continue;
    until = x0;
    context.fillStyle = shown.muted;
    context.fillRect(at.left + x0, at.top + 1, 1, STEP_ROW - 5);
    context.fillRect(at.left + x0, at.top + 1, Math.max(1, x1 - x0 - 1), 1);
    if (x1 - x0 > 24) context.fillText(fitText(context, step.name, x1 - x0 - 8), at.left + x0 + 4, at.top + STEP_ROW / 2);
  }
}

/** The colour of text on a colour: the chart's background or that of other text, whichever differs more. */
export function readable(shown, name) {
  const light = (colour) => {
    const [r, g, b] = channels(colour);
    return (r * 299 + g * 587 + b * 114) / 1000;
  };
  const far = (colour) => Math.abs(light(colour) - light(shown[name]));
  return far(shown.panel) > far(shown.fg) ? shown.panel : shown.fg;
}
