// The data of the views: the documents, and their stacks as one list.
//
// Frames, kernels and groups repeat in almost every stack, so each text is stored once and stacks refer to it: a search looks at a few
// thousand texts instead of 50,000 stacks, and equal call paths have equal numbers.

import { unpackTable, unpackText } from './decode.js';
import { shortFrame } from './format.js';
import { rerunRows } from './rank_lanes.js';

/** Stores every text once. `at(text)` gives its entry, `{id, text, mark?, user}`. */
class Texts {
  constructor(telling) {
    this.telling = new Set(telling);
    this.known = new Map();
    this.all = [];
    this.lower = [];
  }

  at(text, mark = false) {
    const key = mark ? `\u0000${text}` : text;
    let entry = this.known.get(key);
    if (entry) return entry;
    entry = { id: this.all.length, text, user: !mark && this.telling.has(text) };
    if (mark) entry.mark = true;
    this.known.set(key, entry);
    this.all.push(entry);
    this.lower.push(text.toLowerCase());
    return entry;
  }
}

/** A row of the table of stacks. */
class Stack {
  constructor(id, frames, values) {
    this.id = id;
    this.frames = frames;
    this.label = '';
    this.group = null;
    this.rank = null;
    Object.assign(this, values);
  }

  get search() {
    return [this.label, ...this.frames.map((frame) => frame.text), ...this.words.map((word) => word.text)].join('\n').toLowerCase();
  }
}

/** Reads the documents of a page and lists their stacks. `loadCharts` reads timelines and lanes. */
export async function loadModel(page) {
  const names = Object.keys(page.documents ?? {});
  const read = await Promise.all(names.map((name) => modelText(page, name)));
  const texts = Object.fromEntries(names.map((name, at) => [name, read[at]]));
  const docs = Object.fromEntries(names.map((name, at) => [name, JSON.parse(read[at])]));
  const [labels, telling] = await Promise.all(['labels', 'telling'].map(async (of) => (page[of] ? JSON.parse(await unpackText(page[of])) : [])));
  const sheets = await loadSheets(page.sheets ?? {});
  const model = { page, docs, texts, labels, sheets, texted: new Texts(telling), stacks: [], ofRankStack: new Int32Array(0), steps: null, timelines: [], lanes: null };
  addStacks(model);
  model.stacks.forEach((stack, at) => (stack.label = labelOf(labels[at], stack)));
  indexStacks(model);
  model.steps = readSteps(docs.ranks) ?? (sheets.steps ? { names: sheets.steps.rows.map(([name]) => name), ranks: [] } : null);
  return model;
}

async function loadSheets(packed) {
  const read = async ([name, data]) => [name, JSON.parse(await unpackText(data))];
  return Object.fromEntries(await Promise.all(Object.entries(packed).map(read)));
}

async function modelText(page, name) {
  try {
    return await unpackText(page.documents[name].data);
  } catch {
    throw new Error(`the embedded document “${name}” is not whole`);
  }
}

/** Unpacks the timelines and the lanes of a page into its model. */
export async function loadCharts(model) {
  const { timelines, lanes } = model.page;
  const timeline = async (of) => ({
    ...of,
    names: JSON.parse(await unpackText(of.names)),
    kernels: await unpackTable(of.kernels),
    exposed: await unpackTable(of.exposed),
    launches: await unpackTable(of.launches),
    cpu: { ...of.cpu, calls: await unpackTable(of.cpu.calls) },
  });
  model.timelines = await Promise.all((timelines ?? []).map(timeline));
  if (!lanes) return;
  const packed = [lanes.collectives, lanes.rows, lanes.path.spans, lanes.steps, lanes.pieces];
  const [collectives, rows, spans, marks, pieces] = await Promise.all(packed.map(unpackTable));
  const steps = Array.from(marks.start, (start, at) => ({ name: model.steps.names[at], start, dur: marks.dur[at] }));
  model.lanes = { ...lanes, collectives, rows, steps, pieces, path: { ...lanes.path, spans } };
  if (lanes.rerun?.rows) model.lanes.rerun = { ...lanes.rerun, rows: rerunRows(rows, await unpackTable(lanes.rerun.rows)) };
}

function addStacks(model) {
  const { stacks, ranks, diff, 'ranks-diff': changes } = model.docs;
  for (const change of diff?.changes ?? changes?.stacks ?? []) model.stacks.push(changeEntry(model, change));
  const grouped = stacks?.groups?.length > 0;
  if (grouped) stacks.groups.forEach((group) => model.stacks.push(groupEntry(model, group, stacks.grouped_by)));
  else if (stacks) stacks.stacks.forEach((stack) => model.stacks.push(stackEntry(model, stack)));
  if (!ranks) return;
  if (!stacks) ranks.stacks.forEach((stack) => model.stacks.push(rankEntry(model, stack, ranks.gpu_ns)));
  model.ofRankStack = new Int32Array(ranks.stacks.length).fill(-1);
  const keyed = (frames, thread) => `${thread ?? ''}\u0000${frames.map((frame) => frame.id)}`;
  const ids = new Map();
  for (const stack of grouped ? [] : [...model.stacks].reverse()) ids.set(keyed(stack.frames, stack.source.thread), stack.id);
  ranks.stacks.forEach((stack, at) => {
    const id = ids.get(keyed(linesOf(model, stack), stack.thread)) ?? -1;
    model.ofRankStack[at] = id;
    if (id >= 0 && stacks && model.stacks[id].rank === null) Object.assign(model.stacks[id], waitingOf(stack));
  });
}

const NO_WAITING = { waited: null, caused: null, transfer: null, late: [], lateCount: null, transferBandwidth: null };

function waitingOf(stack) {
  // Nothing of it could be measured.
  if (stack.waited_ns + stack.transfer_ns === 0) return NO_WAITING;
  return {
    waited: stack.waited_ns,
    caused: stack.caused_ns,
    transfer: stack.transfer_ns,
    late: stack.late_ranks,
    lateCount: stack.late_count,
    transferBandwidth: stack.bandwidth?.transfer_gb_per_s ?? null,
  };
}

function stackEntry(model, stack) {
  const { cost, messages } = stack;
  return new Stack(model.stacks.length, linesOf(model, stack), {
    ...NO_WAITING,
    ...costOf(cost, messages),
    source: stack,
    rank: stack.rank,
    headline: stack.headline,
    count: stack.count,
    share: cost.share_of_window,
    collectives: namesOf(messages.collectives),
    words: wordsOf(model, stack),
  });
}

function costOf(cost, messages) {
  return {
    gpu: cost.gpu_time.total_ns,
    exposed: cost.exposed_ns,
    busbw: messages.bandwidth?.bus_gb_per_s ?? null,
    bytes: messages.bytes && { min: messages.bytes.min, max: messages.bytes.max },
  };
}

function wordsOf(model, { kernels_by_name: kernels, messages }) {
  const groups = messages.groups.flatMap((group) => [group.description, group.name]).filter((name) => name);
  return [...Object.keys(messages.collectives), ...Object.keys(kernels), ...groups].map((text) => model.texted.at(text));
}

function rankEntry(model, stack, allNs) {
  return new Stack(model.stacks.length, linesOf(model, stack), {
    ...waitingOf(stack),
    source: stack,
    headline: stack.headline,
    count: stack.count,
    gpu: stack.gpu_ns,
    exposed: null,
    share: allNs > 0 ? stack.gpu_ns / allNs : null,
    busbw: stack.bandwidth?.kernel_gb_per_s ?? null,
    bytes: null,
    collectives: namesOf(stack.collectives),
    words: Object.keys(stack.collectives).map((text) => model.texted.at(text)),
  });
}

function changeEntry(model, change) {
  const { kernels_before: before, kernels_after: after } = change;
  const words = [...new Set([...(before ?? []), ...(after ?? [])])].map((text) => model.texted.at(text));
  const source = { captured: null, forward: null, thread: null, ...change };
  return new Stack(model.stacks.length, linesOf(model, source), { ...NO_WAITING, source, headline: change.headline, collectives: '', words });
}

function groupEntry(model, group, keys) {
  const level = (key) => (key === 'stack' ? group.key[key].split(';') : [group.key[key]]);
  const frames = keys.flatMap(level).map((text) => model.texted.at(text));
  return new Stack(model.stacks.length, frames, {
    ...NO_WAITING,
    ...costOf(group.cost, group.messages),
    source: group,
    headline: keys.map((key) => group.key[key].split(';').at(-1)).join(' · '),
    count: group.count,
    share: group.share_of_groups,
    collectives: namesOf(group.messages.collectives),
    words: wordsOf(model, group),
    group: group.key,
  });
}

/** The names in a map of counts, the most frequent first. */
function namesOf(counts) {
  return Object.keys(counts ?? {})
    .sort((a, b) => counts[b] - counts[a])
    .join(', ');
}

// As in `frames.rs`: lines in brackets are not functions.
function linesOf(model, { frames, captured, forward, thread }) {
  const path = (of) => of?.frames ?? of;
  const lines = [];
  const add = (mark, of) => {
    if (mark) lines.push(model.texted.at(mark, true));
    for (const frame of of) lines.push(model.texted.at(frame));
  };
  if (captured) add('[graph capture]', path(captured));
  if (forward) add('[forward]', path(forward));
  if (frames.length === 0) return lines;
  const on = thread === null ? '' : ` on thread ${thread}`;
  if (forward) add(`[backward${on}]`, frames);
  else if (captured) add(`[graph replay${on}]`, frames);
  else add(thread === null ? null : `[thread ${thread}]`, frames);
  return lines;
}

// The program chooses the frames that distinguish a stack; only the first is shown with its folders.
function labelOf(label, stack) {
  const [first, ...others] = label ?? [stack.headline ?? '(no frames)'];
  const short = (frame) => shortFrame(frame).replace(/^<built-in method (\S+) of .*>$/, '<built-in $1>');
  return [first, ...others.map(short)].join(' in ');
}

// All texts of all stacks as one run of numbers: the frames of a stack, then its words.
function indexStacks(model) {
  const { stacks } = model;
  const starts = new Int32Array(stacks.length + 1);
  const middles = new Int32Array(stacks.length);
  stacks.forEach((stack, at) => {
    middles[at] = starts[at] + stack.frames.length;
    starts[at + 1] = middles[at] + stack.words.length;
  });
  const ids = new Int32Array(starts[stacks.length]);
  stacks.forEach((stack, at) => {
    stack.frames.forEach((frame, i) => (ids[starts[at] + i] = frame.id));
    stack.words.forEach((word, i) => (ids[middles[at] + i] = word.id));
  });
  model.index = { starts, middles, ids };
}

/** The ids of the texts that contain the query; null without a query. */
export function matchTexts(model, query) {
  const wanted = (query ?? '').trim().toLowerCase();
  if (wanted === '') return null;
  return Uint8Array.from(model.texted.lower, (text) => (text.includes(wanted) ? 1 : 0));
}

/** The ids of the stacks that have one of these texts. */
export function matchStacks(model, hits) {
  const { starts, ids } = model.index;
  const found = new Uint8Array(model.stacks.length);
  for (let stack = 0; stack < found.length; stack += 1) {
    const end = starts[stack + 1];
    for (let at = starts[stack]; at < end; at += 1) {
      if (hits[ids[at]] === 0) continue;
      found[stack] = 1;
      break;
    }
  }
  return found;
}

function readSteps(ranks) {
  if (!ranks || ranks.steps.length === 0) return null;
  const { steps } = ranks;
  const some = (name) => {
    if (!steps.some((step) => Array.isArray(step[name]))) return null;
    const values = new Float64Array(ranks.ranks.length * steps.length);
    steps.forEach((step, at) => step[name]?.forEach((ns, rank) => (values[rank * steps.length + at] = ns)));
    return values;
  };
  return {
    names: steps.map((step) => step.name),
    ranks: ranks.ranks.map((rank) => rank.rank),
    waited: some('waited_ns'),
    caused: some('caused_ns'),
    exposed: some('exposed_ns'),
  };
}
