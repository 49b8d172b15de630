// Ranks by groups: what each rank does in each group of a job that hangs.
// A state is a letter and a colour. A job of a thousand ranks has more columns than a browser can lay out or a person can read, so ranks with the
// same states in all groups are one column, the worst come first, and ranks that only wait are counted in a single column if they have too many
// states. Likewise groups in which all ranks wait alike are shown on demand. A search for ranks or for a group shows these alone.

import { button, el, nameNode, scrollBox, searchField } from './dom.js';
import { count, many, visible } from './format.js';

const STATE_KINDS = {
  odd: ['O', 'bad', 'called something else'],
  stuck: ['S', 'bad', 'has not finished what others have'],
  missing: ['M', 'exposed', 'did not enqueue it'],
  lagging: ['L', 'caused', 'has done less'],
  reported: ['R', 'caused', 'its source says that something is wrong with it'],
  waiting: ['W', 'waited', 'waits for the others, or is incomplete like them'],
  enqueued: ['E', 'muted', 'has enqueued it; nothing says whether it is complete'],
  done: ['·', 'good', 'done'],
  answers: ['A', 'muted', 'it answers, and its source says nothing else'],
  unknown: ['?', 'muted', 'no records'],
};
const STATE_ORDER = Object.keys(STATE_KINDS);
const STATE_WAITS = STATE_ORDER.indexOf('waiting');

const STATES_EACH = 32;
// The most columns, and how many rows a press of a button adds.
const STATES_COLUMNS = 48;
const STATES_ROWS = 40;
const STATES_MORE = 200;
const STATES_RANGES = 8;
const STATES_NAME = 200;
const STATES_TITLE = 2000;

/** Ranks as ranges, so many of them: `0-3, 7`, `5, 13, 21 and 119 more`. */
export function rankRanges(ranks, most = STATES_RANGES) {
  const parts = [];
  for (const rank of [...ranks].sort((a, b) => a - b)) {
    if (parts.at(-1)?.[1] === rank - 1) parts.at(-1)[1] = rank;
    else parts.push([rank, rank]);
  }
  const text = ([from, to]) => (from === to ? String(from) : `${from}${to - from > 1 ? '-' : ', '}${to}`);
  const left = parts.slice(most).reduce((sum, [from, to]) => sum + to - from + 1, 0);
  return parts.slice(0, most).map(text).join(', ') + (left > 0 ? ` and ${count(left)} more` : '');
}

export function stateInk(node, name) {
  node.style.background = `color-mix(in srgb, var(--${name}) 26%, transparent)`;
  return node;
}

/** The ranks that a search names, as a test of a rank: `517`, `8-15, 20`. Null if it names none. */
function soughtRanks(query) {
  const parts = query.replace(/\branks?\b/gi, ' ').split(/[\s,]+/).filter((part) => part !== '');
  const ranges = parts.map((part) => /^(\d{1,9})(?:-(\d{1,9}))?$/.exec(part));
  if (ranges.length === 0 || ranges.includes(null)) return null;
  return (rank) => ranges.some(([, from, to]) => rank >= Number(from) && rank <= Number(to ?? from));
}

/** The place of a state in the order of how bad states are; the last for none. */
function badness(state) {
  return state === undefined ? STATE_ORDER.length : STATE_ORDER.indexOf(state);
}

/** The matrix, with its search; `{node, update}`. */
export class StateMatrix {
  constructor(hang, state) {
    Object.assign(this, { state, culprits: new Set(hang.culprits), more: 0 });
    this.rows = hang.matrix.map(({ group, cells }) => ({ group, cells: new Map(cells.map((cell) => [cell.rank, cell])) }));
    this.ranks = [...new Set(this.rows.flatMap(({ cells }) => [...cells.keys()]))].sort((a, b) => a - b);
    this.search = searchField('Search', 'ranks as 8-15, or a group', (q) => state.set({ q }));
    this.table = el('div');
    this.node = el('div', null, this.legend(hang), this.search.node, this.table);
    this.fill();
  }

  update(changed) {
    if (changed.has('q')) this.more = 0;
    if (changed.has('q') || changed.has('rank')) this.fill();
  }

  legend({ matrix }) {
    const used = new Set(matrix.flatMap(({ cells }) => cells.map((cell) => cell.state)));
    const kinds = Object.entries(STATE_KINDS).filter(([name]) => used.has(name));
    const key = ([name, [letter, ink, text]]) => [stateInk(el('strong', null, ` ${letter} `), ink), ` ${name}: ${text}   `];
    return el('p', { class: 'help' }, kinds.flatMap(key));
  }

  /** The rows and ranks that a search finds: rows of these ranks, or groups with this name and their ranks. */
  wanted(query) {
    const isSought = soughtRanks(query);
    const hasName = ({ group }) => group.toLowerCase().includes(query.toLowerCase());
    const hasRank = ({ cells }) => this.ranks.some((rank) => isSought(rank) && cells.has(rank));
    const rows = this.rows.filter(isSought ? hasRank : hasName);
    return { rows, ranks: this.ranks.filter(isSought ?? ((rank) => rows.some(({ cells }) => cells.has(rank)))) };
  }

  /** Columns: single ranks in their order if they are few, else ranks with equal states, the worst first. */
  columns(rows, ranks) {
    const states = (rank) => rows.map(({ cells }) => badness(cells.get(rank)?.state));
    // On a narrow screen the affected ranks come first.
    const isNarrow = document.documentElement.clientWidth < 700;
    if (ranks.length <= STATES_EACH && !isNarrow) return ranks.map((rank) => ({ ranks: [rank] }));
    const first = new Set([...this.culprits, this.state.get('rank')]);
    const merged = new Map();
    for (const rank of ranks) {
      const of = states(rank);
      const key = ranks.length <= STATES_EACH || first.has(rank) ? `rank ${rank}` : of.join();
      const worst = Math.min(...of);
      // First those on which it hangs and what is chosen, then the worst state, then the group in which it comes first.
      if (!merged.has(key)) merged.set(key, { ranks: [], bad: [first.has(rank) ? 0 : 1, worst, of.indexOf(worst), rank] });
      merged.get(key).ranks.push(rank);
    }
    const compare = (a, b) => a.bad.map((value, at) => value - b.bad[at]).find((difference) => difference !== 0) ?? 0;
    return [...merged.values()].sort(compare);
  }

  fill(more = 0) {
    this.more += more;
    const query = (this.state.get('q') ?? '').trim();
    if (this.search.input.value.trim() !== query) this.search.input.value = query;
    const { rows, ranks } = this.wanted(query);
    const columns = this.columns(rows, ranks);
    this.search.status.textContent = query === '' ? '' : `${many(ranks.length, 'rank')}, ${many(rows.length, 'group')}`;
    const shown = this.shownRows(rows);
    const isWorse = ({ bad: [isLater, worst] }) => !isLater || worst < STATE_WAITS || query !== '';
    const head = columns.length > STATES_COLUMNS ? columns.slice(0, STATES_COLUMNS).filter(isWorse) : columns;
    const rest = columns.filter((column) => !head.includes(column)).flatMap((column) => column.ranks);
    const heads = ['group \\ rank', ...head.map((column) => this.headButton(column.ranks))].map((of) => el('th', { scope: 'col' }, of));
    const title = rankRanges(rest, Infinity).slice(0, STATES_TITLE);
    if (rest.length > 0) heads.push(el('th', { scope: 'col', title }, many(rest.length, head.length > 0 ? 'other rank' : 'rank')));
    const cells = (row) => [...head.map((column) => this.cell(row, column.ranks)), rest.length > 0 ? restCell(row, rest) : null];
    const body = shown.map((row) => el('tr', null, stateGroup(row.group), cells(row)));
    const table = el('table', { class: 'compact states' }, el('thead', null, el('tr', null, heads)), el('tbody', null, body));
    const none = el('p', { class: 'muted' }, 'No rank and no group is called so.');
    const left = rows.length - shown.length;
    const text = left > STATES_MORE ? `${count(STATES_MORE)} of ${count(left)} more groups` : many(left, 'more group');
    const moreRows = left > 0 ? [button(text, () => this.fill(STATES_MORE), { class: 'small' })] : [];
    this.table.replaceChildren(rows.length === 0 ? none : scrollBox('Ranks by groups', table), ...moreRows);
  }

  /** Of many rows, those with ranks that do not just wait; the others follow on demand. */
  shownRows(rows) {
    if (rows.length <= STATES_ROWS) return rows;
    const isBad = ({ cells }) => [...cells.values()].some(({ state }) => badness(state) < STATE_WAITS);
    const [bad, others] = [rows.filter(isBad), rows.filter((row) => !isBad(row))];
    return [...bad, ...others].slice(0, Math.min(bad.length || STATES_ROWS, STATES_ROWS) + this.more);
  }

  /** A rank can be chosen; of several, a search shows each. */
  headButton(ranks) {
    const [rank] = ranks;
    const text = rankRanges(ranks, Infinity);
    const mark = this.culprits.has(rank) ? '▸' : '';
    const isChosen = this.state.get('rank') === rank;
    const choose = () => this.state.set(ranks.length > 1 ? { q: text } : { rank: isChosen ? null : rank });
    const title = mark ? 'it hangs on this rank' : ranks.length > 1 ? `${many(ranks.length, 'rank')} with equal states: ${text}`.slice(0, STATES_TITLE) : null;
    const short = text.length > 14 ? `${text.slice(0, 12)}…` : text;
    return button(mark + short, choose, { class: 'small', 'aria-pressed': ranks.length === 1 ? String(isChosen) : null, title });
  }

  cell({ cells }, ranks) {
    const cell = cells.get(ranks[0]);
    if (!cell) return el('td');
    const [letter, ink, text] = STATE_KINDS[cell.state] ?? ['?', 'muted', cell.state];
    const sequences = ranks.map((rank) => cells.get(rank).sequence).filter((sequence) => sequence !== null);
    const [first, last] = [Math.min(...sequences), Math.max(...sequences)];
    const at = sequences.length === 0 ? '' : `, at ${first === last ? first : `${first} to ${last}`}`;
    const title = `${ranks.length === 1 ? 'rank' : 'ranks'} ${rankRanges(ranks, Infinity)}: ${text}${at}`.slice(0, STATES_TITLE);
    const isChosen = ranks.includes(this.state.get('rank'));
    return stateInk(el('td', { title, 'aria-label': title, class: isChosen ? 'is-chosen' : null }, el('strong', null, letter)), ink);
  }
}

/** The ranks that have no column: how many are in each state. */
function restCell({ cells }, ranks) {
  const states = ranks.map((rank) => cells.get(rank)?.state);
  const found = STATE_ORDER.filter((name) => states.includes(name)).map((name) => [name, states.filter((state) => state === name).length]);
  const text = found.map(([name, n]) => `${count(n)} ${name}`).join(', ');
  return found.length === 0 ? el('td') : stateInk(el('td', null, text), STATE_KINDS[found[0][0]][1]);
}

/** A group's name, which may take several lines. */
function stateGroup(name) {
  const isLong = name.length > STATES_NAME;
  const title = isLong ? visible(name.slice(0, STATES_TITLE)) : null;
  return el('th', { scope: 'row' }, nameNode(isLong ? `${name.slice(0, STATES_NAME)}…` : name, { title }));
}
