// Details of one stack: its whole call stack, and its kernels, sizes, groups and ranks with their shares.

import { el, nameNode, scrollBox } from './dom.js';
import { bandwidth, count, duration, percent, size } from './format.js';

// The most characters of a frame: compiled code has names of any length.
const DETAIL_NAME = 400;

/** A table of few rows. Columns are `[title, isNumber]`; cells are texts (or names), or nodes. Without a title it still has an accessible name. */
function smallTable(title, columns, rows, name = title) {
  const cell = (value, at) => el('td', { class: columns[at][1] ? 'number' : null }, value instanceof Node ? value : nameNode(value ?? ''));
  const head = el('tr', null, columns.map(([text, isNumber]) => el('th', { scope: 'col', class: isNumber ? 'number' : null }, text)));
  const body = rows.map((row) => el('tr', null, row.map(cell)));
  const table = el('table', { class: 'compact' }, title ? el('caption', null, title) : null, el('thead', null, head), el('tbody', null, body));
  return scrollBox(name, table);
}

/** A list of terms, each `[term, text]`; terms without a text are left out. */
function termList(terms) {
  const known = terms.filter(([, text]) => text);
  return el('dl', { class: 'compact' }, known.flatMap(([term, text]) => [el('dt', null, term), el('dd', null, nameNode(text))]));
}

/** A map of counts as text, the largest first: `all_reduce ×291, all_gather ×3`. */
function countsText(counts) {
  const known = Object.entries(counts ?? {}).sort((a, b) => b[1] - a[1]);
  return known.map(([name, n]) => (known.length === 1 ? name : `${name} ×${count(n)}`)).join(', ');
}

/** A text without its middle, if it is longer than a call stack can show. */
function detailShort(text) {
  return text.length <= DETAIL_NAME ? text : `${text.slice(0, DETAIL_NAME / 2)}…${text.slice(1 - DETAIL_NAME / 2)}`;
}

function detailFrames(stack, hits, copyText) {
  const lines = stack.frames.map((frame) => {
    const isHeadline = frame.text === stack.headline && !frame.mark;
    const kind = frame.mark ? 'is-mark' : isHeadline ? 'headline' : frame.user ? 'user' : '';
    return el('li', { class: hits?.[frame.id] ? `${kind} hit`.trim() : kind }, nameNode(detailShort(frame.text)));
  });
  const text = stack.frames.map((frame) => frame.text).join('\n');
  const copy = el('button', { type: 'button', class: 'small', onclick: () => copyText(text, copy) }, 'Copy');
  const title = el('h3', null, stack.group ? 'Group ' : 'Call stack, the outermost caller first ', copy);
  return el('div', null, title, el('ol', { class: 'frames' }, lines));
}

function detailSizes({ bytes }) {
  if (!bytes) return '';
  return bytes.min === bytes.max ? `${size(bytes.max)} each` : `${size(bytes.min)} to ${size(bytes.max)}`;
}

function detailFacts(stack) {
  const { messages, cost, attributed_by: evidence, recorded } = stack.source;
  const collectives = messages?.collectives ?? stack.source.collectives;
  const times = cost?.gpu_time;
  const queue = cost?.queue_delay;
  const band = messages?.bandwidth;
  return termList([
    ['Collectives', countsText(collectives)],
    ['Types', countsText(messages?.dtypes)],
    ['Sizes', detailSizes(stack)],
    ['Algorithms', countsText({ ...messages?.algorithms, ...recorded?.algorithms })],
    ['Protocols', countsText({ ...messages?.protocols, ...recorded?.protocols })],
    ['Channels', countsText(recorded?.channels)],
    ['Kernel time', times && `mean ${duration(times.mean_ns)}, median ${duration(times.median_ns)}, p95 ${duration(times.p95_ns)}`],
    ['', times && `from ${duration(times.min_ns)} to ${duration(times.max_ns)}`],
    ['Queue delay', queue && `median ${duration(queue.median_ns)}, p95 ${duration(queue.p95_ns)}, longest ${duration(queue.max_ns)}`],
    ['Busbw', band && `${bandwidth(band.bus_gb_per_s)}, the fastest kernel ${bandwidth(band.best_bus_gb_per_s)}`],
    ['Busbw of transfer', bandwidth(stack.transferBandwidth)],
    ['Late', stack.lateCount > 0 && `a rank was late ${stack.lateCount === 1 ? 'once' : `${count(stack.lateCount)} times`}`],
    ['Thread', stack.group ? null : stack.source.thread],
    ['Attributed by', countsText(evidence)],
    ['Kernels before', detailShort((stack.source.kernels_before ?? []).join(', '))],
    ['Kernels after', detailShort((stack.source.kernels_after ?? []).join(', '))],
  ]);
}

function detailGroups({ source }) {
  const groups = source.messages?.groups ?? [];
  const name = ({ description, name: of }) => [description === 'undefined' ? null : description, of].filter((part) => part).join(' ') || '(no name)';
  const row = (group) => [name(group), group.ranks ?? (group.size === null ? '' : `${count(group.size)} ranks`), count(group.kernels)];
  return groups.length > 0 ? smallTable('Process groups', [['Group'], ['Ranks'], ['Kernels', true]], groups.map(row)) : null;
}

function detailKernels({ source }) {
  const kernels = Object.entries(source.kernels_by_name ?? {}).sort((a, b) => b[1].gpu_time_ns - a[1].gpu_time_ns);
  if (kernels.length === 0) return null;
  const rows = kernels.map(([name, sum]) => [name, count(sum.count), duration(sum.gpu_time_ns), duration(sum.exposed_ns)]);
  return smallTable('Kernels', [['Name'], ['Count', true], ['GPU', true], ['Exposed', true]], rows);
}

function detailRanks({ late, source }) {
  const parts = [];
  if (late.length > 0) {
    const all = late.reduce((sum, [, ns]) => sum + ns, 0);
    const rows = late.slice(0, 16).map(([rank, ns]) => [String(rank), duration(ns), percent(all > 0 ? ns / all : null)]);
    parts.push(smallTable('Waited for', [['Rank', true], ['Waiting', true], ['Share', true]], rows));
    if (late.length > 16) parts.push(el('p', { class: 'muted' }, `and ${count(late.length - 16)} ranks more`));
  }
  const over = source.over_ranks;
  if (!over) return parts;
  const { min, mean, max } = over.gpu_time_ns;
  const terms = [
    ['Ranks', over.ranks === over.ranks_in_all ? `all ${count(over.ranks)}` : `${count(over.ranks)} of ${count(over.ranks_in_all)}`],
    ['GPU time of a rank', `${duration(min)} to ${duration(max)}, mean ${duration(mean)}`],
    ['Shortest, longest', `${over.shortest}, ${over.longest}`],
  ];
  parts.push(termList(terms));
  if (over.outliers.length > 0) {
    const rows = over.outliers.map((of) => [of.rank, count(of.count), duration(of.gpu_time_ns), duration(of.exposed_ns)]);
    parts.push(smallTable('Ranks that differ', [['Rank'], ['Count', true], ['GPU', true], ['Exposed', true]], rows));
  }
  return parts;
}

/** The content of an open row in the table of stacks. `hits` are the texts that match a search. */
export function stackDetail(stack, hits, copyText) {
  const title = el('h3', null, 'What is known of it');
  const keys = stack.group && termList(Object.entries(stack.group));
  const facts = [title, keys ?? [], detailFacts(stack), detailKernels(stack), detailGroups(stack), detailRanks(stack)];
  return el('div', { class: 'detail-grid' }, detailFrames(stack, hits, copyText), el('div', null, facts.flat()));
}
