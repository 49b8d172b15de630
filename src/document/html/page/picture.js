// The picture of the first screen where it is bars: for each rank of a job, or for each side of a comparison, what a mean step consists of.

import { el, swatch } from './dom.js';
import { count, duration, many, percent } from './format.js';

// Bars of so many ranks are drawn; of more, those that differ most from the mean, and the mean of the others. More than so many are low ones, so that
// what is below them is on the first screen, too.
const PICTURE_RANKS = 16;
const PICTURE_TALL = 8;

const PICTURE_PARTS = [
  ['compute', 'compute'],
  ['transfer', 'transfer'],
  ['waited', 'waiting for a rank'],
  ['exposed', 'collectives, exposed'],
  ['caused', 'other work'],
  ['accent', 'CPU: nothing is queued'],
  ['line', 'idle'],
];

function rankBars({ ranks, steps }) {
  const timed = steps.filter(({ length_ns: length }) => length.every((ns) => ns !== null));
  if (timed.length === 0) return null;
  const bars = ranks.map(({ rank, queue_empty_share: empty }, at) => {
    const [length, busy, exposed, waits] = ['length_ns', 'busy_ns', 'exposed_ns', 'waited_ns'].map((key) => timed.reduce((sum, step) => sum + step[key][at], 0) / timed.length);
    const waited = Math.min(waits, exposed);
    const idle = Math.max(0, length - busy);
    const cpu = Math.min(idle, (empty ?? 0) * length);
    return { name: `rank ${rank}`, parts: { compute: Math.max(0, busy - exposed), transfer: exposed - waited, waited, accent: cpu, line: idle - cpu } };
  });
  return { title: `A mean step of each rank, of ${many(timed.length, 'step')}`, bars: fewest(bars) };
}

function fewest(bars) {
  if (bars.length <= PICTURE_RANKS) return bars;
  const mean = (some) => Object.fromEntries(Object.keys(bars[0].parts).map((key) => [key, some.reduce((sum, { parts }) => sum + parts[key], 0) / some.length]));
  const all = mean(bars);
  const far = ({ parts }) => Object.keys(all).reduce((sum, key) => sum + Math.abs(parts[key] - all[key]), 0);
  const kept = new Set([...bars].sort((a, b) => far(b) - far(a)).slice(0, PICTURE_RANKS - 1));
  const others = bars.filter((bar) => !kept.has(bar));
  return [...bars.filter((bar) => kept.has(bar)), { name: `mean of ${count(others.length)} others`, parts: mean(others) }];
}

/** What was measured on a side, as a mean of the GPUs. */
function sideParts({ measured: { wall_ns: wall, busy_ns: busy, compute_ns: compute, exposed_ns: exposed } }) {
  const caused = Math.max(0, busy - compute - exposed);
  return { compute, exposed, caused, line: Math.max(0, wall - compute - exposed - caused) };
}

/** What the collectives of all ranks took in both runs. */
function runParts({ waited_ns: waited, transfer_ns: transfer, divided_by: units }) {
  return { transfer: transfer / units, waited: waited / units };
}

/** The bars of both sides of a comparison, per step or call. */
function sides(title, { before, after, per }, partsOf) {
  const bars = [{ name: 'before', parts: partsOf(before) }, { name: 'after', parts: partsOf(after) }];
  return { title: per === 'total' ? title : `${title}, per ${per}`, bars };
}

export function pictureBars({ docs: { ranks, diff, 'ranks-diff': runs } }) {
  const compared = diff ? sides('What was measured', diff, sideParts) : runs ? sides('Collectives of all ranks', runs, runParts) : null;
  const picture = ranks ? rankBars(ranks) : compared;
  const length = ({ parts }) => Object.values(parts).reduce((sum, ns) => sum + ns, 0);
  const longest = picture?.bars.reduce((most, bar) => Math.max(most, length(bar)), 0);
  if (!longest) return null;
  const used = PICTURE_PARTS.filter(([key]) => picture.bars.some(({ parts }) => parts[key] > longest / 1000));
  const line = (bar) => {
    const all = length(bar);
    const texts = used.map(([key, word]) => `${word} ${duration(bar.parts[key] ?? 0)} (${percent((bar.parts[key] ?? 0) / all)})`);
    const part = ([key], at) => el('span', { title: texts[at], style: `background: var(--${key}); width: ${((bar.parts[key] ?? 0) / longest) * 100}%` });
    const strip = el('div', { class: 'strip', role: 'img', 'aria-label': `${bar.name}: ${texts.join(', ')}` }, used.map(part));
    return el('li', null, el('span', { class: 'bar-name' }, bar.name), strip, el('span', { class: 'muted' }, duration(all)));
  };
  const key = used.map(([name, word]) => swatch(`var(--${name})`, word));
  const kind = picture.bars.length > PICTURE_TALL ? 'bars many' : 'bars';
  return el('figure', { class: 'picture' }, el('figcaption', null, picture.title, ' ', el('span', { class: 'keys' }, key)), el('ul', { class: kind }, picture.bars.map(line)));
}
