// Before and after: the totals, then the changes, largest first, with a bar to the left for less and to the right for more. Everything but the
// numbers of ranks and of stacks is per step, per call, or in total, as the document says.

import { inText } from './canvas.js';
import { choice, el, nameNode, scrollBox, section } from './dom.js';
import { count, duration, many, percent } from './format.js';

const DIFF_PAGE = 100;

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
  ['added_ns', 'came late by', duration],
  ['late_count', 'times late', ratio],
  ['kernels', 'kernels', ratio],
];

/** Two runs side by side, or null without such a document. */
export function mountDiff(model, state) {
  const { diff, 'ranks-diff': ranks } = model.docs;
  if (!diff && !ranks) return null;
  return (diff ? traceDiff(diff, state, model.labels) : ranksDiff(ranks, state)).view();
}

function traceDiff(diff, state, labels) {
  const of = (name) => (side) => side.summary[name] / side.divided_by;
  const totals = [
    ['measured', of('wall_ns'), duration],
    ['compute', of('compute_ns'), duration],
    ['collectives', of('collectives_ns'), duration],
    ['exposed', of('exposed_ns'), duration],
    ['matching kernels', (side) => side.kernels.each.count, ratio],
    ['their GPU time', (side) => side.kernels.each.gpu_time_ns, duration],
    ['without a launch', (side) => side.without_launch.count / side.divided_by, ratio],
  ];
  const rows = diff.changes.map((change, at) => ({
    ...change,
    name: labels[at]?.join(' in ') ?? '(no frames)',
    lines: diffLines(change),
  }));
  const parts = [`${count(diff.changed)} changed (${count(diff.new)} new, ${count(diff.vanished)} vanished)`, `${count(diff.unchanged)} did not`];
  const left = diff.changed - diff.changes.length;
  return new DiffView(state, {
    ...diffSides(diff),
    totals,
    measures: DIFF_TRACES,
    tables: [
      { title: 'Stacks', what: 'stack', rows, help: `${parts.join(', ')}.${left > 0 ? ` ${count(left)} with smaller changes are not here.` : ''}` },
    ],
  });
}

function ranksDiff(diff, state) {
  const of = (name) => (side) => side[name] / side.divided_by;
  const totals = [
    ['ranks', (side) => side.ranks, count],
    ['collectives', of('collectives'), ratio],
    ['with a late rank', of('late'), ratio],
    ['kernels ran', of('measured_ns'), duration],
    ['waited', of('waited_ns'), duration],
    ['transfer', of('transfer_ns'), duration],
  ];
  const stacks = diff.stacks.map((stack) => ({ ...stack, name: stack.headline ?? stack.frames.at(-1) ?? '(no frames)', lines: stack.frames }));
  const ranks = diff.ranks.map((rank) => ({ ...rank, name: `rank ${rank.rank}`, lines: [] }));
  const measures = [DIFF_RANKS[0], ['caused_ns', 'others waited', duration], ...DIFF_RANKS.slice(1)];
  return new DiffView(state, {
    ...diffSides(diff),
    totals,
    measures,
    tables: [
      { title: 'Stacks', what: 'stack', rows: stacks },
      { title: 'Ranks', what: 'rank', rows: ranks },
    ],
  });
}

/** Both sides, and what they are divided by: `per step`. */
function diffSides({ before, after, per }) {
  return { before, after, per: per === 'total' ? 'in all' : `per ${per}` };
}

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

/** A change with its sign: `+1.204 ms`. */
function diffText(value, format) {
  return value > 0 ? `+${format(value)}` : value < 0 ? `−${format(-value)}` : '0';
}

class DiffView {
  constructor(state, content) {
    Object.assign(this, content, { state });
    this.switch = choice(
      'Compare',
      this.measures.map(([key, label]) => [key, label]),
      this.measure()[0],
      (measure) => state.set({ measure }),
    );
    this.parts = this.tables.map((table) => ({ ...table, node: el('div'), shown: DIFF_PAGE }));
  }

  view() {
    const node = section(
      'diff',
      'Before and after',
      null,
      this.totalsTable(),
      el('div', { class: 'toolbar' }, this.switch.node),
      ...this.parts.flatMap((part) => [el('h3', {}, part.title), part.help ? el('p', { class: 'help' }, part.help) : null, part.node]),
    );
    this.fill();
    const update = (_, changed) => {
      if (changed.has('measure') || changed.has('stack') || changed.has('view')) this.fill();
      if (changed.has('view') && this.state.get('view') === 'diff') node.querySelector('tr[aria-current] details')?.setAttribute('open', '');
    };
    return { id: 'diff', title: 'Before and after', node, update, paint: () => {} };
  }

  measure() {
    return this.measures.find(([key]) => key === this.state.get('measure')) ?? this.measures[0];
  }

  totalsTable() {
    const line = ([label, of, format]) => {
      const [before, after] = [of(this.before), of(this.after)];
      const share = before > 0 && before !== after ? ` (${after > before ? '+' : '−'}${percent(Math.abs(after / before - 1))})` : '';
      return el(
        'tr',
        {},
        el('th', { scope: 'row' }, label),
        [format(before), format(after), diffText(after - before, format) + share].map((text) => el('td', { class: 'number' }, text)),
      );
    };
    const head = (label, side) => el('th', { scope: 'col', class: 'number', title: side?.trace ?? null }, label);
    return el(
      'div',
      {},
      el('p', {}, 'Before: ', nameNode(this.before.trace), el('br'), 'After: ', nameNode(this.after.trace)),
      el('p', { class: 'help' }, `${this.per}: ${many(this.before.steps.count, 'step')} before, ${many(this.after.steps.count, 'step')} after`),
      scrollBox(
        'Totals',
        el(
          'table',
          { class: 'compact' },
          el('thead', {}, el('tr', {}, el('td', {}), head('before', this.before), head('after', this.after), head('change'))),
          el('tbody', {}, this.totals.map(line)),
        ),
      ),
    );
  }

  fill() {
    this.switch.show(this.measure()[0]);
    for (const part of this.parts) this.fillPart(part);
  }

  fillPart(part) {
    const [key, label, format] = this.measure();
    const value = (side) => side?.each[key] ?? 0;
    const chosen = part.what === 'stack' ? part.rows[this.state.get('stack', -1)] : part.rows.find((row) => row.rank === this.state.get('rank'));
    const rows = part.rows.map((row) => ({ row, by: value(row.after) - value(row.before) })).sort((a, b) => Math.abs(b.by) - Math.abs(a.by));
    const most = Math.abs(rows[0]?.by ?? 0);
    const line = ({ row, by }) =>
      el(
        'tr',
        row === chosen ? { class: 'is-chosen', 'aria-current': 'true' } : {},
        el('td', {}, diffName(row)),
        el('td', { class: 'number' }, row.before ? format(value(row.before)) : 'new'),
        el('td', { class: 'number' }, row.after ? format(value(row.after)) : 'gone'),
        el('td', { class: 'number' }, diffText(by, format)),
        el('td', {}, diffBar(by, most)),
      );
    const more =
      rows.length > part.shown
        ? el(
            'button',
            {
              type: 'button',
              onclick: () => {
                part.shown += DIFF_PAGE;
                this.fillPart(part);
              },
            },
            `${count(rows.length - part.shown)} more`,
          )
        : null;
    const head = [part.what, `${label} before, ${this.per}`, 'after', 'change', 'less ← → more'].map((text, at) =>
      el('th', { scope: 'col', class: at > 0 && at < 4 ? 'number' : null }, text),
    );
    part.node.replaceChildren(
      scrollBox(
        part.title,
        el('table', { class: 'compact' }, el('thead', {}, el('tr', {}, head)), el('tbody', {}, rows.slice(0, part.shown).map(line))),
      ),
      ...(more ? [more] : []),
    );
  }
}

function diffName({ name, lines, before, after }) {
  const state = !before ? ' (new)' : !after ? ' (vanished)' : '';
  if (lines.length === 0) return el('span', {}, nameNode(name), state);
  return el(
    'details',
    {},
    inText(el('summary', {}, nameNode(name, { class: 'mono' }), state)),
    el(
      'ol',
      { class: 'frames' },
      lines.map((line) => el('li', {}, nameNode(line))),
    ),
  );
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
