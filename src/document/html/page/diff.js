// Before and after: the totals, then the changes, worst first, with a bar to the left for less and to the right for more.
//
// Figures are per step, per call or in all: the document has sums and quotients, and the reader chooses. Numbers of ranks and of stacks are
// never divided. Names may have a megabyte each, so that they are shortened before they become elements, and call stacks are built when opened.

import { inText } from './canvas.js';
import { choice, el, nameNode, scrollBox, section } from './dom.js';
import { count, duration, many, percent, visible } from './format.js';

const DIFF_PAGE = 100;

// The most characters of a name in a row, of a frame in a call stack, and of the title that shows a whole name.
const DIFF_NAME = 160;
const DIFF_FRAME = 400;
const DIFF_TITLE = 2000;

/** A count, which has a fraction if it is per step. */
function ratio(n) {
  return Number.isInteger(n) ? count(n) : n.toFixed(3);
}

const DIFF_TRACES = [
  ['exposed_ns', 'exposed', duration],
  ['gpu_time_ns', 'GPU time', duration],
  ['count', 'count', ratio],
];
const DIFF_RANKS = [
  ['waited_ns', 'waited', duration],
  ['caused_ns', 'others waited', duration],
  ['late_count', 'times late', ratio],
  ['kernels', 'kernels', ratio],
];

// The columns of a table of changes, by their key in the address; all but names begin with the largest.
const DIFF_COLUMNS = ['name', 'before', 'after', 'change', 'size'];
const DIFF_FIRST = 'change';

/** Two runs side by side, or null without such a document. */
export function mountDiff(model, state) {
  const { diff, 'ranks-diff': ranks } = model.docs;
  if (!diff && !ranks) return null;
  return (diff ? traceDiff(diff, state, model.labels) : ranksDiff(ranks, state)).view();
}

function traceDiff(diff, state, labels) {
  const of = (name) => (side) => side.summary[name];
  const totals = [
    ['measured', of('wall_ns'), duration],
    ['compute', of('compute_ns'), duration],
    ['collectives', of('collectives_ns'), duration],
    ['exposed', of('exposed_ns'), duration],
    ['matching kernels', (side) => side.kernels.count, ratio],
    ['their GPU time', (side) => side.kernels.gpu_time_ns, duration],
    ['without a launch', (side) => side.without_launch.count, ratio],
  ];
  const rows = diff.changes.map((change, at) => ({
    ...change,
    name: labels[at]?.join(' in ') ?? '(no frames)',
    lines: () => diffLines(change),
  }));
  const parts = [`${count(diff.changed)} changed (${count(diff.new)} new, ${count(diff.vanished)} vanished)`, `${count(diff.unchanged)} did not`];
  const left = diff.changed - diff.changes.length;
  const what = diff.grouped_by.length > 0 ? 'group' : 'stack';
  return new DiffView(state, {
    ...diffSides(diff, [diffCall(diff)]),
    totals,
    measures: DIFF_TRACES,
    tables: [
      {
        title: what === 'group' ? 'Groups' : 'Stacks',
        what,
        rows,
        help: `${parts.join(', ')}.${left > 0 ? ` ${count(left)} with smaller changes are not here.` : ''}`,
      },
    ],
  });
}

function ranksDiff(diff, state) {
  const of = (name) => (side) => side[name];
  const totals = [
    ['ranks', (side, units) => side.ranks * units, count],
    ['collectives', of('collectives'), ratio],
    ['with a late rank', of('late'), ratio],
    ['kernels ran', of('measured_ns'), duration],
    ['waited', of('waited_ns'), duration],
    ['transfer', of('transfer_ns'), duration],
  ];
  const stacks = diff.stacks.map((stack) => ({ ...stack, name: stack.headline ?? stack.frames.at(-1) ?? '(no frames)', lines: () => stack.frames }));
  const ranks = diff.ranks.map((rank) => ({ ...rank, name: `rank ${rank.rank}`, lines: () => [] }));
  return new DiffView(state, {
    ...diffSides(diff, []),
    totals,
    measures: DIFF_RANKS,
    tables: [
      { title: 'Stacks', what: 'stack', rows: stacks },
      { title: 'Ranks', what: 'rank', rows: ranks },
    ],
  });
}

/** What the document's figures are divided by: `per step`. A trace without steps has its calls in their place. */
function diffPer(per) {
  return per === 'total' ? 'in all' : per === 'call' ? 'per call of the trace' : `per ${per}`;
}

/** Both sides, and what figures can be divided by: first what the document says, last nothing. */
function diffSides({ before, after, per }, more) {
  const divided = {
    key: per,
    label: diffPer(per),
    help: `Sums, divided by ${many(before.divided_by, per)} before and ${count(after.divided_by)} after.`,
    value: (side, key) => side.each[key],
    units: (side) => side.divided_by,
  };
  const whole = { key: 'total', label: diffPer('total'), help: 'Sums over all that was measured.', value: (side, key) => side[key], units: () => 1 };
  return { before, after, ways: [...(per === 'total' ? [] : [divided]), ...more, whole] };
}

/** The mean of one kernel of a stack. Totals are of more than these kernels, and stay divided as the document says. */
function diffCall({ per }) {
  return {
    key: 'kernel',
    label: per === 'call' ? 'per call of the stack' : 'per call',
    help: `The mean of one kernel of the stack; totals are ${diffPer(per)}.`,
    totals: diffPer(per),
    without: 'count',
    value: (side, key) => side[key] / side.count,
    units: (side) => side.divided_by,
  };
}

/** The frames of a stack, with lines that say what they are part of. */
function diffLines({ frames, captured, forward, thread }) {
  const on = thread ? ` on thread ${thread}` : '';
  const mark = forward ? [`[backward${on}]`] : captured ? [`[graph replay${on}]`] : thread ? [`[thread ${thread}]`] : [];
  return [
    ...(captured ? ['[graph capture]', ...captured.frames] : []),
    ...(forward ? ['[forward]', ...forward.frames] : []),
    ...(frames.length > 0 ? mark : []),
    ...frames,
  ];
}

/** A text without its middle, if it is longer than this. */
function diffShort(text, most) {
  if (text.length <= most) return text;
  const half = Math.floor(most / 2);
  return `${text.slice(0, half)}…${text.slice(half + 1 - most)}`;
}

/** A name in at most so many characters, with more of it as its title. */
function diffNode(name, most, properties) {
  const title = name.length > most ? visible(diffShort(name, DIFF_TITLE)) : null;
  return nameNode(diffShort(name, most), { ...properties, title });
}

/** A change with its sign: `+1.204 ms`. */
function diffText(value, format) {
  return value > 0 ? `+${format(value)}` : value < 0 ? `−${format(-value)}` : '0';
}

/** A change as a share of what was before: ` (+12.3 %)`. */
function diffShare(before, after) {
  return before > 0 && before !== after ? ` (${after > before ? '+' : '−'}${percent(Math.abs(after / before - 1))})` : '';
}

/** The texts that a search looks at, without case: they are put together once. */
function diffSought(row) {
  const { name, lines, kernels_before: before, kernels_after: after } = row;
  row.sought ??= [name, ...lines(), ...(before ?? []), ...(after ?? [])].map((text) => text.toLowerCase());
  return row.sought;
}

class DiffView {
  constructor(state, content) {
    Object.assign(this, content, { state });
    const options = (of) => of.map(([key, label]) => [key, label]);
    this.switch = choice('Compare', options(this.measures), this.measure()[0], (measure) => state.set({ measure }));
    const ways = this.ways.map(({ key, label }) => [key, label]);
    this.per = choice('Figures', ways, this.way().key, (per) => state.set({ per }));
    this.help = el('p', { class: 'help', role: 'status' });
    this.found = el('span', { class: 'muted', role: 'status' });
    this.input = el('input', { type: 'search', spellcheck: false, autocomplete: 'off', placeholder: 'name, frame or kernel' });
    this.input.addEventListener('input', () => state.set({ q: this.input.value }));
    this.totalsNode = el('div');
    this.parts = this.tables.map((table) => ({ ...table, node: el('div'), shown: DIFF_PAGE }));
  }

  view() {
    const search = el('label', { class: 'search' }, el('span', { class: 'label' }, 'Search'), this.input);
    const node = section(
      'diff',
      'Before and after',
      null,
      el('p', {}, 'Before: ', diffNode(this.before.trace, DIFF_FRAME), el('br'), 'After: ', diffNode(this.after.trace, DIFF_FRAME)),
      el('div', { class: 'toolbar' }, this.per.node, this.switch.node),
      this.help,
      this.totalsNode,
      el('div', { class: 'toolbar' }, search, this.found),
      ...this.parts.flatMap((part) => [el('h3', {}, part.title), part.help ? el('p', { class: 'help' }, part.help) : null, part.node]),
    );
    this.fill();
    const update = (_, changed) => {
      if (['q', 'sort', 'per', 'measure'].some((key) => changed.has(key))) this.parts.forEach((part) => (part.shown = DIFF_PAGE));
      if (['q', 'sort', 'per', 'measure', 'stack', 'rank', 'view'].some((key) => changed.has(key))) this.fill();
      if (changed.has('view') && this.state.get('view') === 'diff') node.querySelector('tr[aria-current] details')?.setAttribute('open', '');
    };
    return { id: 'diff', title: 'Before and after', node, update, paint: () => {} };
  }

  way() {
    return this.ways.find(({ key }) => key === this.state.get('per')) ?? this.ways[0];
  }

  /** The measure that is shown. A call has one kernel, so that its count says nothing. */
  measure() {
    const { without } = this.way();
    const known = this.measures.filter(([key]) => key !== without);
    return known.find(([key]) => key === this.state.get('measure')) ?? known[0];
  }

  get sort() {
    const [key, direction] = (this.state.get('sort') ?? DIFF_FIRST).split('.');
    if (!DIFF_COLUMNS.includes(key)) return { key: DIFF_FIRST, up: false };
    return { key, up: direction ? direction === 'asc' : key === 'name' };
  }

  sortBy(key, part) {
    const { key: before, up } = this.sort;
    const nextUp = key === before ? !up : key === 'name';
    this.state.set({ sort: `${key}.${nextUp ? 'asc' : 'desc'}` });
    // The head is another now.
    part.node.querySelector(`th[data-key='${key}'] button`).focus({ preventScroll: true });
  }

  fill() {
    const { key, help, without } = this.way();
    this.per.show(key);
    this.switch.show(this.measure()[0]);
    for (const button of this.switch.node.querySelectorAll('button')) button.hidden = button.dataset.value === without;
    this.help.textContent = help;
    const query = this.state.get('q') ?? '';
    if (this.input.value !== query) this.input.value = query;
    this.totalsNode.replaceChildren(this.totalsTable());
    this.parts.forEach((part) => this.fillPart(part));
    const [found, all] = [this.parts.map(({ hits }) => hits), this.parts.map(({ rows }) => rows.length)].map((of) => of.reduce((a, b) => a + b, 0));
    this.found.textContent = query.trim() === '' ? '' : `${count(found)} of ${count(all)} match`;
  }

  totalsTable() {
    const { label: shown, totals: other, units } = this.way();
    const line = ([label, of, format]) => {
      const [before, after] = [this.before, this.after].map((side) => of(side, units(side)) / units(side));
      const texts = [format(before), format(after), diffText(after - before, format) + diffShare(before, after)];
      return el('tr', {}, el('th', { scope: 'row' }, label), texts.map((text) => el('td', { class: 'number' }, text)));
    };
    const head = (label, side) => el('th', { scope: 'col', class: 'number', title: side ? visible(diffShort(side.trace, DIFF_TITLE)) : null }, label);
    const row = el('tr', {}, el('th', { scope: 'col' }, other ?? shown), head('before', this.before), head('after', this.after), head('change'));
    return scrollBox('Totals', el('table', { class: 'compact' }, el('thead', {}, row), el('tbody', {}, this.totals.map(line))));
  }

  /** The rows that a search finds, in their order, each with its figures. */
  sorted(rows) {
    const [measure] = this.measure();
    const { value } = this.way();
    const query = (this.state.get('q') ?? '').trim().toLowerCase();
    const figure = (side) => (side ? value(side, measure) : 0);
    const found = query === '' ? rows : rows.filter((row) => diffSought(row).some((text) => text.includes(query)));
    const lines = found.map((row) => {
      const [before, after] = [figure(row.before), figure(row.after)];
      return { row, before, after, change: after - before, size: Math.abs(after - before), name: row.name };
    });
    const { key, up } = this.sort;
    const order = key === 'name' ? (a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0) : (a, b) => a[key] - b[key];
    return lines.sort((a, b) => (up ? order(a, b) : order(b, a)));
  }

  heads(part) {
    const { key, up } = this.sort;
    const [, label] = this.measure();
    const texts = [part.what, `${label} before, ${this.way().label}`, 'after', 'change', 'less ← → more'];
    const cell = (text, at) => {
      const column = DIFF_COLUMNS[at];
      const sorted = column === key ? (up ? 'ascending' : 'descending') : null;
      const help = column === 'size' ? 'by the size of the change' : null;
      const button = el('button', { type: 'button', title: help, onclick: () => this.sortBy(column, part) }, text);
      return el('th', { scope: 'col', class: at > 0 && at < 4 ? 'number' : null, 'data-key': column, 'aria-sort': sorted }, button);
    };
    return el('tr', {}, texts.map(cell));
  }

  fillPart(part) {
    const [, , format] = this.measure();
    const chosen = part.what === 'rank' ? part.rows.find((row) => row.rank === this.state.get('rank')) : part.rows[this.state.get('stack', -1)];
    const lines = this.sorted(part.rows);
    part.hits = lines.length;
    const most = lines.reduce((largest, { size }) => Math.max(largest, size), 0);
    const line = ({ row, before, after, change }) =>
      el(
        'tr',
        row === chosen ? { class: 'is-chosen', 'aria-current': 'true' } : {},
        el('td', {}, diffName(row)),
        el('td', { class: 'number' }, row.before ? format(before) : 'new'),
        el('td', { class: 'number' }, row.after ? format(after) : 'gone'),
        el('td', { class: 'number' }, diffText(change, format) + (row.after ? diffShare(before, after) : '')),
        el('td', {}, diffBar(change, most)),
      );
    const showMore = () => {
      part.shown += DIFF_PAGE;
      this.fillPart(part);
    };
    const left = lines.length - part.shown;
    const more = left > 0 ? [el('button', { type: 'button', class: 'small', onclick: showMore }, `${count(left)} more`)] : [];
    const none = lines.length === 0 && part.rows.length > 0 ? [el('p', { class: 'muted' }, `No ${part.what} has this text.`)] : [];
    const table = el('table', { class: 'compact diff' }, el('thead', {}, this.heads(part)), el('tbody', {}, lines.slice(0, part.shown).map(line)));
    part.node.replaceChildren(scrollBox(part.title, table), ...none, ...more);
  }
}

/** A name, and below it its call stack, which is built when it is opened. */
function diffName(row) {
  const { name, before, after, kernels_before: left, kernels_after: right } = row;
  const state = !before ? ' (new)' : !after ? ' (vanished)' : '';
  const lines = row.lines();
  if (lines.length === 0) return el('span', {}, diffNode(name, DIFF_NAME), state);
  const node = el('details', {}, inText(el('summary', {}, diffNode(name, DIFF_NAME, { class: 'mono' }), state)));
  const open = () => {
    const list = el('ol', { class: 'frames' }, lines.map((line) => el('li', {}, diffNode(line, DIFF_FRAME))));
    node.append(list, ...diffKernels(left ?? [], right ?? []));
  };
  node.addEventListener('toggle', open, { once: true });
  return node;
}

/** The kernels of a stack: in one line if both traces have the same. */
function diffKernels(before, after) {
  const line = (label, names) => {
    const nodes = names.flatMap((name, at) => (at === 0 ? [diffNode(name, DIFF_FRAME)] : [', ', diffNode(name, DIFF_FRAME)]));
    return el('p', { class: 'muted' }, `${label}: `, nodes);
  };
  if (before.length === 0 || after.length === 0 || before.join('\n') === after.join('\n')) {
    const names = before.length > 0 ? before : after;
    return names.length > 0 ? [line('Kernels', names)] : [];
  }
  return [line('Kernels before', before), line('after', after)];
}

/** Half of a bar, on the side of the change. */
function diffBar(by, most) {
  const box = el('div');
  const bar = el('div');
  const wide = most > 0 ? Math.max(by === 0 ? 0 : 1, (Math.abs(by) / most) * 70) : 0;
  Object.assign(box.style, {
    width: '142px',
    height: '14px',
    borderLeft: '0',
    background: 'linear-gradient(var(--line), var(--line)) center / 1px 100% no-repeat',
  });
  Object.assign(bar.style, {
    width: `${wide}px`,
    height: '14px',
    marginLeft: by < 0 ? `${70.5 - wide}px` : '71.5px',
    background: by < 0 ? 'var(--good)' : 'var(--exposed)',
  });
  box.append(bar);
  return box;
}
