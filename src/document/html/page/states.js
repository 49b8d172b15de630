// Ranks by groups: what each rank does in each group of a job that hangs.
//
// A state is a letter and a colour. A job of a thousand ranks has more columns than a browser can lay out or a person can read, so ranks with the
// same states in all groups are one column, the worst come first, and ranks that only wait are counted in a single column if they have too many
// states. Likewise groups in which all ranks wait alike are shown on demand. A search for ranks or for a group shows these alone.

import { el, nameNode, scrollBox } from './dom.js';
import { count, many, visible } from './format.js';

const STATE_KINDS = {
  odd: ['O', 'bad', 'called something else'],
  stuck: ['S', 'bad', 'has not finished what others have'],
  missing: ['M', 'exposed', 'did not enqueue it'],
  lagging: ['L', 'caused', 'has done less'],
  waiting: ['W', 'waited', 'waits for the others, or is incomplete like them'],
  enqueued: ['E', 'muted', 'has enqueued it; nothing says whether it is complete'],
  done: ['·', 'good', 'done'],
  unknown: ['?', 'muted', 'no records'],
};
const STATE_ORDER = Object.keys(STATE_KINDS);
const STATE_WAITS = STATE_ORDER.indexOf('waiting');

// Up to so many ranks each has a column of its own, in the order of ranks.
const STATES_EACH = 32;
// The most columns, and how many rows a press of a button adds.
const STATES_COLUMNS = 48;
const STATES_ROWS = 40;
const STATES_MORE = 200;
// How many ranges of ranks a sentence lists.
const STATES_RANGES = 8;
// The most characters of a group's name.
const STATES_NAME = 200;

/** Ranks as ranges: `0-3, 7`. */
function rankRanges(ranks) {
  return rankParts(ranks).map(rankText).join(', ');
}

/** The same with the first ranges alone: `5, 13, 21 and 119 more`. */
export function fewRanks(ranks) {
  const parts = rankParts(ranks);
  const left = parts.slice(STATES_RANGES).reduce((sum, [from, to]) => sum + to - from + 1, 0);
  const text = parts.slice(0, STATES_RANGES).map(rankText).join(', ');
  return left > 0 ? `${text} and ${count(left)} more` : text;
}

function rankText([from, to]) {
  return from === to ? String(from) : `${from}${to - from > 1 ? '-' : ', '}${to}`;
}

/** The first and last of each range. */
function rankParts(ranks) {
  const sorted = [...ranks].sort((a, b) => a - b);
  const parts = [];
  for (let at = 0; at < sorted.length; at += 1) {
    const from = sorted[at];
    while (sorted[at + 1] === sorted[at] + 1) at += 1;
    parts.push([from, sorted[at]]);
  }
  return parts;
}

/** Colours a node like a state. */
export function stateInk(node, name) {
  node.style.background = `color-mix(in srgb, var(--${name}) 26%, transparent)`;
  return node;
}

/** The ranks that a search names, as a test of a rank: `517`, `8-15, 20`. Null if it names none. */
function soughtRanks(query) {
  const parts = query.replace(/\branks?\b/gi, ' ').split(/[\s,]+/).filter((part) => part !== '');
  const ranges = parts.map((part) => /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part));
  if (ranges.length === 0 || ranges.includes(null)) return null;
  const bounds = ranges.map(([, from, to]) => [Number(from), Number(to ?? from)]);
  return (rank) => bounds.some(([from, to]) => rank >= from && rank <= to);
}

/** How bad a column is: first those on which it hangs and what is chosen, then the worst state, then the group in which it comes first. */
function columnBadness({ ranks, states }, first) {
  const places = states.map((state) => (state === undefined ? STATE_ORDER.length : STATE_ORDER.indexOf(state)));
  const worst = Math.min(...places);
  return [first.has(ranks[0]) ? 0 : 1, worst, places.indexOf(worst), ranks[0]];
}

function compareLists(a, b) {
  const at = a.findIndex((value, place) => value !== b[place]);
  return at < 0 ? 0 : a[at] - b[at];
}

/** The matrix, with its search; `{node, update}`. */
export class StateMatrix {
  constructor(hang, state) {
    Object.assign(this, { hang, state, culprits: new Set(hang.culprits) });
    this.rows = hang.matrix.map(({ group, cells }) => ({ group, cells: new Map(cells.map((cell) => [cell.rank, cell])) }));
    this.ranks = [...new Set(hang.matrix.flatMap(({ cells }) => cells.map((cell) => cell.rank)))].sort((a, b) => a - b);
    this.more = 0;
    this.input = el('input', { type: 'search', spellcheck: false, autocomplete: 'off', placeholder: 'ranks as 8-15, or a group' });
    this.input.addEventListener('input', () => state.set({ q: this.input.value }));
    this.found = el('span', { class: 'muted', role: 'status' });
    this.table = el('div');
    const search = el('label', { class: 'search' }, el('span', { class: 'label' }, 'Search'), this.input);
    this.node = el('div', {}, this.legend(), el('div', { class: 'toolbar' }, search, this.found), this.table);
    this.fill();
  }

  update(changed) {
    if (changed.has('q')) this.more = 0;
    if (changed.has('q') || changed.has('rank')) this.fill();
  }

  legend() {
    const used = new Set(this.hang.matrix.flatMap(({ cells }) => cells.map((cell) => cell.state)));
    const kinds = Object.entries(STATE_KINDS).filter(([name]) => used.has(name));
    const key = ([name, [letter, ink, text]]) => [stateInk(el('strong', {}, ` ${letter} `), ink), ` ${name}: ${text}   `];
    return el('p', { class: 'help' }, kinds.flatMap(key));
  }

  /** The rows and ranks that a search finds: rows of these ranks, or groups with this name and their ranks. */
  wanted() {
    const query = (this.state.get('q') ?? '').trim();
    if (query === '') return { rows: this.rows, ranks: this.ranks, isAll: true };
    const isSought = soughtRanks(query);
    if (isSought) {
      const ranks = this.ranks.filter(isSought);
      return { rows: this.rows.filter(({ cells }) => ranks.some((rank) => cells.has(rank))), ranks };
    }
    const rows = this.rows.filter(({ group }) => group.toLowerCase().includes(query.toLowerCase()));
    return { rows, ranks: this.ranks.filter((rank) => rows.some(({ cells }) => cells.has(rank))) };
  }

  /** Columns: single ranks in their order if they are few, else ranks with equal states, the worst first. */
  columns(rows, ranks) {
    const states = (rank) => rows.map(({ cells }) => cells.get(rank)?.state);
    // On a narrow screen the affected ranks come first.
    const isNarrow = document.documentElement.clientWidth < 700;
    if (ranks.length <= STATES_EACH && !isNarrow) return ranks.map((rank) => ({ ranks: [rank], states: states(rank) }));
    const first = new Set([...this.culprits, this.state.get('rank')]);
    const merged = new Map();
    for (const rank of ranks) {
      const of = states(rank);
      const isAlone = ranks.length <= STATES_EACH || first.has(rank);
      const key = isAlone ? `rank ${rank}` : of.map((state) => STATE_ORDER.indexOf(state)).join();
      const column = merged.get(key);
      if (column) column.ranks.push(rank);
      else merged.set(key, { ranks: [rank], states: of });
    }
    const columns = [...merged.values()].map((column) => ({ ...column, bad: columnBadness(column, first) }));
    return columns.sort((a, b) => compareLists(a.bad, b.bad));
  }

  fill() {
    const query = this.state.get('q') ?? '';
    if (this.input.value !== query) this.input.value = query;
    const { rows, ranks, isAll } = this.wanted();
    const columns = this.columns(rows, ranks);
    this.found.textContent = isAll ? '' : `${many(ranks.length, 'rank')}, ${many(rows.length, 'group')}`;
    const shown = this.shownRows(rows);
    const isMany = columns.length > STATES_COLUMNS;
    const head = isMany ? columns.slice(0, STATES_COLUMNS).filter(({ bad: [isLater, worst] }) => !isLater || worst < STATE_WAITS || !isAll) : columns;
    const listed = new Set(head.flatMap((column) => column.ranks));
    const rest = ranks.filter((rank) => !listed.has(rank));
    const heads = head.map((column) => el('th', { scope: 'col' }, this.headButton(column.ranks)));
    if (rest.length > 0) heads.push(el('th', { scope: 'col', title: rankRanges(rest).slice(0, 2000) }, many(rest.length, head.length > 0 ? 'other rank' : 'rank')));
    const line = (row) => el('tr', {}, stateGroup(row.group), head.map((column) => this.cell(row, column)), rest.length > 0 ? restCell(row, rest) : null);
    const table = el(
      'table',
      { class: 'compact states' },
      el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'group \\ rank'), heads)),
      el('tbody', {}, shown.map(line)),
    );
    const none = el('p', { class: 'muted' }, 'No rank and no group is called so.');
    this.table.replaceChildren(rows.length === 0 ? none : scrollBox('Ranks by groups', table), ...this.moreRows(rows.length - shown.length));
  }

  /** Of many rows, those with ranks that do not just wait; the others follow on demand. */
  shownRows(rows) {
    if (rows.length <= STATES_ROWS) return rows;
    const isBad = ({ cells }) => [...cells.values()].some(({ state }) => STATE_ORDER.indexOf(state) < STATE_WAITS);
    const bad = rows.filter(isBad);
    const others = rows.filter((row) => !isBad(row));
    const most = bad.length === 0 ? STATES_ROWS : Math.min(bad.length, STATES_ROWS);
    return [...bad, ...others].slice(0, most + this.more);
  }

  moreRows(left) {
    if (left <= 0) return [];
    const show = () => {
      this.more += STATES_MORE;
      this.fill();
    };
    const text = left > STATES_MORE ? `${count(STATES_MORE)} of ${count(left)} more groups` : `${many(left, 'more group')}`;
    return [el('button', { type: 'button', class: 'small', onclick: show }, text)];
  }

  /** A rank can be chosen; of several, a search shows each. */
  headButton(ranks) {
    const [rank] = ranks;
    const isCulprit = this.culprits.has(rank);
    const text = rankRanges(ranks);
    const isChosen = ranks.length === 1 && this.state.get('rank') === rank;
    const choose = () => this.state.set(ranks.length > 1 ? { q: text } : { rank: isChosen ? null : rank });
    const title = isCulprit ? 'it hangs on this rank' : ranks.length > 1 ? `${many(ranks.length, 'rank')} with equal states: ${text}`.slice(0, 2000) : null;
    const short = text.length > 14 ? `${text.slice(0, 12)}…` : text;
    const pressed = ranks.length === 1 ? String(isChosen) : null;
    return el('button', { type: 'button', class: 'small', 'aria-pressed': pressed, title, onclick: choose }, isCulprit ? `▸${short}` : short);
  }

  cell({ cells }, { ranks }) {
    const cell = cells.get(ranks[0]);
    if (!cell) return el('td', {});
    const [letter, ink, text] = STATE_KINDS[cell.state] ?? ['?', 'muted', cell.state];
    const sequences = ranks.map((rank) => cells.get(rank).sequence).filter((sequence) => sequence !== null);
    const [first, last] = [Math.min(...sequences), Math.max(...sequences)];
    const at = sequences.length === 0 ? '' : `, at ${first === last ? first : `${first} to ${last}`}`;
    const title = `${ranks.length === 1 ? 'rank' : 'ranks'} ${rankRanges(ranks)}: ${text}${at}`.slice(0, 2000);
    const node = stateInk(el('td', { title, 'aria-label': title }, el('strong', {}, letter)), ink);
    if (ranks.includes(this.state.get('rank'))) node.classList.add('is-chosen');
    return node;
  }
}

/** The ranks that have no column: how many are in each state. */
function restCell({ cells }, ranks) {
  const states = ranks.map((rank) => cells.get(rank)?.state).filter((state) => state !== undefined);
  const found = STATE_ORDER.filter((name) => states.includes(name)).map((name) => [name, states.filter((state) => state === name).length]);
  const text = found.map(([name, n]) => `${count(n)} ${name}`).join(', ');
  return found.length === 0 ? el('td', {}) : stateInk(el('td', {}, text), STATE_KINDS[found[0][0]][1]);
}

/** A group's name, which may take several lines. */
function stateGroup(name) {
  const title = name.length > STATES_NAME ? visible(name.slice(0, 2000)) : null;
  return el('th', { scope: 'row' }, nameNode(name.length > STATES_NAME ? `${name.slice(0, STATES_NAME)}…` : name, { title }));
}
