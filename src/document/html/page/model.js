// The data of the views: the documents, and their stacks as one list.
// Frames, kernels and groups repeat in almost every stack, so each text is stored once and stacks refer to it: a search looks at a few
// thousand texts instead of 50,000 stacks, and equal call paths have equal numbers.

import { unpackTable, unpackText } from './decode.js';
import { shortFrame } from './format.js';
import { rerunRows } from './rank_lanes.js';

/** Stores every text once. `at(text)` gives its entry, `{id, text, mark, user}`. */
class Texts {
  constructor(telling) {
    Object.assign(this, { telling: new Set(telling), known: new Map(), all: [], lower: [] });
  }

  at(text, mark = false) {
    const key = mark ? `\u0000${text}` : text;
    if (!this.known.has(key)) {
      const entry = { id: this.all.length, text, mark, user: !mark && this.telling.has(text) };
      this.known.set(key, entry);
      this.all.push(entry);
      this.lower.push(text.toLowerCase());
    }
    return this.known.get(key);
  }
}

/** Reads the documents of a page and lists their stacks. `loadCharts` reads timelines and lanes. */
export async function loadModel(page) {
  const files = await eachOf(page.documents, unpackPart);
  const parts = await eachOf({ labels: page.labels, telling: page.telling, ...page.sheets }, unpackPart);
  const [docs, { labels, telling, ...sheets }] = await Promise.all([files, parts].map((texts) => eachOf(texts, (text) => JSON.parse(text))));
  const stepNames = docs.ranks?.steps.map(({ name }) => name) ?? sheets.steps?.rows.map(([name]) => name) ?? [];
  const model = { page, files, docs, labels, sheets, stepNames, texts: new Texts(telling), stacks: [], ofRankStack: [], timelines: [], lanes: null };
  addStacks(model);
  if (docs.ranks) addWaiting(model);
  return model;
}

/** An object with the same names, whose values are what an action gives for them. */
async function eachOf(of, action) {
  const values = await Promise.all(Object.entries(of).map(([name, value]) => action(value, name)));
  return Object.fromEntries(Object.keys(of).map((name, at) => [name, values[at]]));
}

function unpackPart(part, name) {
  return unpackText(part.data ?? part).catch(() => {
    throw new Error(`the embedded document “${name}” is not whole`);
  });
}

/** What it is given with its packed tables unpacked, at any depth. */
async function unpackTables(of) {
  if (of === null || typeof of !== 'object') return of;
  if (Array.isArray(of)) return Promise.all(of.map(unpackTables));
  return of.columns ? unpackTable(of) : eachOf(of, unpackTables);
}

export async function loadCharts(model) {
  const named = async (of) => ({ ...of, names: JSON.parse(await unpackText(of.names)) });
  const timeline = async (of) => named({ ...(await unpackTables(of)), cpu: await named(await unpackTables(of.cpu)) });
  model.timelines = await Promise.all(model.page.timelines.map(timeline));
  const lanes = await unpackTables(model.page.lanes);
  if (!lanes) return;
  const steps = Array.from(lanes.steps.start, (start, at) => ({ name: model.stepNames[at], start, dur: lanes.steps.dur[at] }));
  const rerun = lanes.rerun?.rows ? { ...lanes.rerun, rows: rerunRows(lanes.rows, lanes.rerun.rows) } : lanes.rerun;
  model.lanes = { ...lanes, steps, rerun };
}

/** Lists what the page is about: what changed between two answers, or groups, or stacks. */
function addStacks(model) {
  const { stacks, ranks, diff, 'ranks-diff': runs } = model.docs;
  const isGrouped = stacks?.groups?.length > 0;
  const found = diff?.changes ?? runs?.stacks ?? (isGrouped ? [] : (stacks ?? ranks)?.stacks) ?? [];
  for (const source of found) addStack(model, source, linesOf(model, source), source.headline, null);
  for (const source of isGrouped ? stacks.groups : []) {
    const levels = stacks.grouped_by.map((key) => (key === 'stack' ? source.key[key].split(';') : [source.key[key]]));
    const headline = stacks.grouped_by.map((key) => source.key[key].split(';').at(-1)).join(' · ');
    addStack(model, source, levels.flat().map((text) => model.texts.at(text)), headline, source.key);
  }
}

function addStack(model, source, frames, headline, group) {
  const { cost, messages, kernels_by_name: kernels, kernels_before: before, kernels_after: after } = source;
  const collectives = messages?.collectives ?? source.collectives ?? {};
  const groups = (messages?.groups ?? []).flatMap(({ description, name }) => [description, name]).filter((name) => name);
  // Of a change these are its kernels in both traces; of a stack, its neighbours.
  const changed = messages ? [] : [...(before ?? []), ...(after ?? [])];
  const words = new Set([...Object.keys(collectives), ...Object.keys(kernels ?? {}), ...groups, ...changed]);
  const id = model.stacks.length;
  model.stacks.push({
    id,
    source,
    frames,
    headline,
    group,
    label: labelOf(model.labels[id] ?? [headline ?? '(no frames)']),
    words: Array.from(words, (text) => model.texts.at(text)),
    collectives: Object.keys(collectives).sort((a, b) => collectives[b] - collectives[a]).join(', '),
    count: source.count,
    gpu: cost ? cost.gpu_time.total_ns : source.gpu_ns,
    exposed: cost?.exposed_ns,
    bytes: messages?.bytes,
  });
}

/** Adds to each stack how long ranks waited for each other in it, where that could be measured. */
function addWaiting(model) {
  const { stacks, ranks } = model.docs;
  const keyed = (frames, thread) => `${thread ?? ''}\u0000${frames.map((frame) => frame.id)}`;
  const ids = new Map();
  for (const { frames, source, id, group } of [...model.stacks].reverse()) if (!group) ids.set(keyed(frames, source.thread), id);
  model.ofRankStack = ranks.stacks.map((stack, at) => (stacks ? (ids.get(keyed(linesOf(model, stack), stack.thread)) ?? -1) : at));
  ranks.stacks.forEach((waiting, at) => {
    const stack = model.stacks[model.ofRankStack[at]];
    const isKnown = stack && (stack.source.rank ?? null) === null && waiting.waited_ns + waiting.transfer_ns > 0;
    if (isKnown) Object.assign(stack, { waiting, waited: waiting.waited_ns });
  });
}

// As in `frames.rs`: lines in brackets are not functions.
function linesOf({ texts }, { frames, captured, forward, thread }) {
  const marked = (mark, of) => [...(mark ? [texts.at(mark, true)] : []), ...of.map((frame) => texts.at(frame))];
  const before = [['[graph capture]', captured], ['[forward]', forward]].flatMap(([mark, of]) => (of ? marked(mark, of.frames ?? of) : []));
  if (frames.length === 0) return before;
  const on = (thread ?? null) === null ? '' : ` on thread ${thread}`;
  const mark = forward ? `[backward${on}]` : captured ? `[graph replay${on}]` : on && `[thread ${thread}]`;
  return [...before, ...marked(mark, frames)];
}

// The program chooses the frames that distinguish a stack; only the first is shown with its folders.
function labelOf([first, ...others]) {
  const short = (frame) => shortFrame(frame).replace(/^<built-in method (\S+) of .*>$/, '<built-in $1>');
  return [first, ...others.map(short)].join(' in ');
}

/** For each text whether it contains the query, by its id; null without a query. */
export function matchTexts({ texts }, query) {
  const wanted = (query ?? '').trim().toLowerCase();
  return wanted === '' ? null : Uint8Array.from(texts.lower, (text) => (text.includes(wanted) ? 1 : 0));
}

/** For each stack whether it has one of the texts that were found, by its id. */
export function matchStacks({ stacks }, hits) {
  const isHit = ({ id }) => hits[id] === 1;
  return Uint8Array.from(stacks, ({ frames, words }) => (frames.some(isHit) || words.some(isHit) ? 1 : 0));
}
