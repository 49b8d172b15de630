// Details of one stack: its whole call stack, and its kernels, sizes, groups and ranks with their shares.

import { copyButton, el, nameNode, smallTable, termList } from './dom.js';
import { bandwidth, count, duration, many, percent, size } from './format.js';

const DETAIL_NAME = 400;
const DETAIL_RANKS = 16;

/** A map of counts as text, the largest first: `all_reduce ×291, all_gather ×3`. */
function countsText(counts) {
  const known = Object.entries(counts ?? {}).sort((a, b) => b[1] - a[1]);
  return known.map(([name, n]) => (known.length === 1 ? name : `${name} ×${count(n)}`)).join(', ');
}

function detailShort(text) {
  return text.length <= DETAIL_NAME ? text : `${text.slice(0, DETAIL_NAME / 2)}…${text.slice(1 - DETAIL_NAME / 2)}`;
}

export function sizesText(bytes) {
  return !bytes ? '' : bytes.min === bytes.max ? size(bytes.max) : `${size(bytes.min)} to ${size(bytes.max)}`;
}

function detailFrames(stack, hits) {
  const lines = stack.frames.map((frame) => {
    const isHeadline = frame.text === stack.headline && !frame.mark;
    const kind = frame.mark ? 'is-mark' : isHeadline ? 'headline' : frame.user ? 'user' : '';
    return el('li', { class: hits?.[frame.id] ? `${kind} hit`.trim() : kind }, nameNode(detailShort(frame.text)));
  });
  const copy = copyButton('Copy', () => stack.frames.map((frame) => frame.text).join('\n'));
  const title = el('h3', null, stack.group ? 'Group ' : 'Call stack, the outermost caller first ', copy);
  return el('div', null, title, el('ol', { class: 'frames' }, lines));
}

function detailFacts({ source, bytes, group, waiting }) {
  const { messages, cost, attributed_by: evidence, recorded, thread, kernels_before: before, kernels_after: after } = source;
  const times = cost?.gpu_time;
  const queue = cost?.queue_delay;
  const band = messages?.bandwidth;
  const late = waiting?.late_count;
  return termList([
    ['Collectives', countsText(messages?.collectives ?? source.collectives)],
    ['Types', countsText(messages?.dtypes)],
    ['Sizes', bytes && `${sizesText(bytes)}${bytes.min === bytes.max ? ' each' : ''}`],
    ['Algorithms', countsText({ ...messages?.algorithms, ...recorded?.algorithms })],
    ['Protocols', countsText({ ...messages?.protocols, ...recorded?.protocols })],
    ['Channels', countsText(recorded?.channels)],
    ['Kernel time', times && `mean ${duration(times.mean_ns)}, median ${duration(times.median_ns)}, p95 ${duration(times.p95_ns)}`],
    ['', times && `from ${duration(times.min_ns)} to ${duration(times.max_ns)}`],
    ['Queue delay', queue && `median ${duration(queue.median_ns)}, p95 ${duration(queue.p95_ns)}, longest ${duration(queue.max_ns)}`],
    ['Busbw', band && `${bandwidth(band.bus_gb_per_s)}, the fastest kernel ${bandwidth(band.best_bus_gb_per_s)}`],
    ['Busbw of transfer', bandwidth(waiting?.bandwidth?.transfer_gb_per_s)],
    ['Late', late > 0 && `a rank was late ${late === 1 ? 'once' : many(late, 'time')}`],
    ['Thread', group ? null : thread],
    ['Attributed by', countsText(evidence)],
    ['Kernels before', detailShort((before ?? []).join(', '))],
    ['Kernels after', detailShort((after ?? []).join(', '))],
  ]);
}

function detailGroups({ source }) {
  const groups = source.messages?.groups ?? [];
  const name = ({ description, name: of }) => [description === 'undefined' ? null : description, of].filter((part) => part).join(' ') || '(no name)';
  const row = (group) => [name(group), group.ranks ?? (group.size === null ? '' : `${count(group.size)} ranks`), count(group.kernels)];
  return groups.length > 0 ? smallTable('Process groups', [['Group'], ['Ranks'], ['Kernels', true]], groups.map(row)) : null;
}

function detailCosts(title, name, rows) {
  const row = ([of, sum]) => [of, count(sum.count), duration(sum.gpu_time_ns), duration(sum.exposed_ns)];
  return rows.length > 0 ? smallTable(title, [[name], ['Count', true], ['GPU', true], ['Exposed', true]], rows.map(row)) : null;
}

function detailRanks({ waiting, source: { over_ranks: over } }) {
  const parts = [];
  const late = waiting?.late_ranks ?? [];
  const all = late.reduce((sum, [, ns]) => sum + ns, 0);
  const rows = late.slice(0, DETAIL_RANKS).map(([rank, ns]) => [String(rank), duration(ns), percent(all > 0 ? ns / all : null)]);
  if (late.length > 0) parts.push(smallTable('Waited for', [['Rank', true], ['Waiting', true], ['Share', true]], rows));
  if (late.length > DETAIL_RANKS) parts.push(el('p', { class: 'muted' }, `and ${count(late.length - DETAIL_RANKS)} ranks more`));
  if (!over) return parts;
  const { min, mean, max } = over.gpu_time_ns;
  const terms = [
    ['Ranks', over.ranks === over.ranks_in_all ? `all ${count(over.ranks)}` : `${count(over.ranks)} of ${count(over.ranks_in_all)}`],
    ['GPU time of a rank', `${duration(min)} to ${duration(max)}, mean ${duration(mean)}`],
    ['Shortest, longest', `${over.shortest}, ${over.longest}`],
  ];
  return [...parts, termList(terms), detailCosts('Ranks that differ', 'Rank', over.outliers.map((of) => [of.rank, of]))];
}

/** The content of an open row in the table of stacks. `hits` are the texts that match a search. */
export function stackDetail(stack, hits) {
  const title = el('h3', null, 'What is known of it');
  const keys = stack.group && termList(Object.entries(stack.group));
  const kernels = Object.entries(stack.source.kernels_by_name ?? {}).sort((a, b) => b[1].gpu_time_ns - a[1].gpu_time_ns);
  const facts = [title, keys, detailFacts(stack), detailCosts('Kernels', 'Name', kernels), detailGroups(stack), detailRanks(stack)];
  return el('div', { class: 'detail-grid' }, detailFrames(stack, hits), el('div', null, facts.flat()));
}
