// Why a job hangs: the state of each rank in each group, and for each group the evidence, what to do first, and where the code paths part.
//
// A state is a letter and a colour. With many ranks the table lists ranges of ranks by state: groups of large jobs have few ranks each, so a
// matrix of all would be nearly empty.

import { inText } from './canvas.js';
import { el, nameNode, scrollBox, section } from './dom.js';
import { count, many, visible } from './format.js';

const HANG_STATES = {
  odd: ['O', 'bad', 'called something else'],
  stuck: ['S', 'bad', 'has not finished what others have'],
  missing: ['M', 'exposed', 'did not enqueue it'],
  lagging: ['L', 'caused', 'has done less'],
  waiting: ['W', 'waited', 'waits for the others, or is incomplete like them'],
  enqueued: ['E', 'muted', 'has enqueued it; nothing says whether it is complete'],
  done: ['·', 'good', 'done'],
  unknown: ['?', 'muted', 'no records'],
};
const HANG_MATRIX = 64;
const HANG_PAGE = 40;

/** Ranks as ranges: `0-3, 7`. */
export function rankRanges(ranks) {
  const sorted = [...ranks].sort((a, b) => a - b);
  const parts = [];
  for (let at = 0; at < sorted.length; at += 1) {
    const from = sorted[at];
    while (sorted[at + 1] === sorted[at] + 1) at += 1;
    parts.push(sorted[at] === from ? String(from) : `${from}${sorted[at] - from > 1 ? '-' : ', '}${sorted[at]}`);
  }
  return parts.join(', ');
}

/** The hang, or null without its document. */
export function mountHang(model, state) {
  const { hang } = model.docs;
  if (!hang) return null;
  const matrix = el('div');
  const show = () => (hang.matrix.length > 0 ? matrix.replaceChildren(hangMatrix(hang, state)) : null);
  show();
  const part = (title, groups, make) => (groups.length === 0 ? [] : [el('h3', {}, title), ...hangPage(groups, make)]);
  const node = section(
    'hang',
    'Where it hangs',
    null,
    ...hangFacts(hang),
    hang.matrix.length > 0 ? matrix : null,
    ...part('Groups in which ranks wait', hang.hung, (group, at) => hangGroup(group, at < 3)),
    ...part('Groups in which ranks have done less', hang.lagging, (group, at) => hangGroup(group, at < 3)),
    ...part('Incomplete everywhere: these wait for other groups, or are slow', hang.open, hangOpen),
  );
  return {
    id: 'hang',
    title: 'Hang',
    node,
    update: (_, changed) => {
      if (changed.has('rank')) show();
    },
    paint: () => {},
  };
}

/** The first items of a list, and a button for the rest. */
function hangPage(items, make) {
  const nodes = items.slice(0, HANG_PAGE).map(make);
  if (items.length <= HANG_PAGE) return nodes;
  const more = el(
    'button',
    { type: 'button', onclick: () => more.replaceWith(...items.slice(HANG_PAGE).map((item, at) => make(item, at + HANG_PAGE))) },
    `${count(items.length - HANG_PAGE)} more`,
  );
  return [...nodes, more];
}

function hangFacts(hang) {
  const facts = [`${many(hang.rank_count, 'rank')} with records, ${many(hang.group_count, 'group')}, ${many(hang.operation_count, 'operation')}.`];
  const say = (ranks, text) => {
    if (ranks.length > 0) facts.push(`${text}: ${rankRanges(ranks)}.`);
  };
  say(hang.culprits, 'It hangs on ranks');
  say(hang.circle, 'These ranks wait for each other');
  say(hang.ranks_without_records, 'No records of ranks');
  say(hang.ranks_without_operations, 'No operation recorded on ranks');
  return facts.map((fact) => el('p', {}, fact));
}

function hangInk(node, name) {
  node.style.background = `color-mix(in srgb, var(--${name}) 26%, transparent)`;
  return node;
}

/** A group's name, which may take several lines. */
function hangName(name) {
  const node = el('th', { scope: 'row' }, nameNode(name));
  Object.assign(node.style, { whiteSpace: 'normal', minWidth: '9rem' });
  return node;
}

function hangMatrix(hang, state) {
  // On a narrow screen the affected ranks come first.
  const isNarrow = document.documentElement.clientWidth < 700;
  const place = (rank) => (isNarrow && hang.culprits.includes(rank) ? rank - 1e9 : rank);
  const ranks = [...new Set(hang.matrix.flatMap((row) => row.cells.map((cell) => cell.rank)))].sort((a, b) => place(a) - place(b));
  const isSmall = ranks.length <= HANG_MATRIX;
  const used = new Set(hang.matrix.flatMap((row) => row.cells.map((cell) => cell.state)));
  const names = Object.keys(HANG_STATES).filter((name) => used.has(name));
  const legend = el(
    'p',
    { class: 'help' },
    Object.entries(HANG_STATES)
      .filter(([name]) => used.has(name))
      .flatMap(([name, [letter, ink, text]]) => {
        const key = hangInk(el('strong', {}, ` ${letter} `), ink);
        return [key, ` ${name}: ${text}   `];
      }),
  );
  const rows = hangPage(hang.matrix, (row) => (isSmall ? hangMatrixRow(row, ranks, hang, state) : hangRangeRow(row, names)));
  const head = isSmall
    ? ranks.map((rank) => el('th', { scope: 'col' }, hangRank(rank, hang, state)))
    : names.map((name) => el('th', { scope: 'col' }, name));
  const body = el(
    'tbody',
    {},
    rows.map((row) => (row.tagName === 'TR' ? row : el('tr', {}, el('td', {}, row)))),
  );
  // The rest of a long list is in rows, too.
  const last = body.lastElementChild;
  last.querySelector('td > button:only-child')?.addEventListener('click', () => last.replaceWith(...last.querySelectorAll('td > tr')));
  return el(
    'div',
    {},
    legend,
    scrollBox(
      'Ranks by groups',
      el('table', { class: 'compact' }, el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, isSmall ? 'group \\ rank' : 'group'), head)), body),
    ),
  );
}

function hangRank(rank, hang, state) {
  const isCulprit = hang.culprits.includes(rank);
  const button = el(
    'button',
    {
      type: 'button',
      class: 'small',
      'aria-pressed': String(state.get('rank') === rank),
      title: isCulprit ? 'it hangs on this rank' : null,
      onclick: () => state.set({ rank: state.get('rank') === rank ? null : rank }),
    },
    isCulprit ? `▸${rank}` : String(rank),
  );
  button.style.padding = '0 4px';
  return button;
}

function hangMatrixRow(row, ranks, hang, state) {
  const cells = new Map(row.cells.map((cell) => [cell.rank, cell]));
  return el(
    'tr',
    {},
    hangName(row.group),
    ranks.map((rank) => {
      const cell = cells.get(rank);
      if (!cell) return el('td', {});
      const [letter, ink, text] = HANG_STATES[cell.state] ?? ['?', 'muted', cell.state];
      const title = `rank ${rank}: ${text}${cell.sequence === null ? '' : `, at ${cell.sequence}`}`;
      const node = hangInk(el('td', { title, 'aria-label': title }, el('strong', {}, letter)), ink);
      node.style.textAlign = 'center';
      node.style.padding = '2px 4px';
      if (state.get('rank') === rank) node.style.boxShadow = 'inset 2px 0 var(--mark), inset -2px 0 var(--mark)';
      return node;
    }),
  );
}

function hangRangeRow(row, states) {
  return el(
    'tr',
    {},
    hangName(row.group),
    states.map((name) => {
      const ranks = row.cells.filter((cell) => cell.state === name).map((cell) => cell.rank);
      const node = el('td', {}, rankRanges(ranks));
      return ranks.length === 0 ? node : hangInk(node, HANG_STATES[name]?.[1] ?? 'muted');
    }),
  );
}

function hangWhat({ collective, sequence }) {
  return collective ? `, ${visible(collective)}${sequence === null ? '' : ` ${sequence}`}` : '';
}

function hangGroup(group, isOpen) {
  const kinds = [
    ['missing_ranks', 'missing'],
    ['stuck_ranks', 'stuck'],
    ['odd_ranks', 'odd'],
    ['waiting_ranks', 'waiting'],
    ['unknown_ranks', 'without records'],
  ];
  const ranks = kinds
    .filter(([key]) => group[key].length > 0)
    .map(([key, name]) => `${name}: ${rankRanges(group[key])}`)
    .join(' · ');
  const far = group.distance > 0 ? ` (waits for ${group.distance} group${group.distance > 1 ? 's' : ''} before it)` : '';
  return el(
    'details',
    { open: isOpen },
    inText(el('summary', {}, nameNode(group.group), `${hangWhat(group)} – ${ranks}${far}`)),
    el(
      'ul',
      {},
      group.evidence.map((of) => el('li', {}, visible(of.text))),
      group.evidence_left_out > 0 ? el('li', { class: 'muted' }, `${count(group.evidence_left_out)} more of the same kind`) : null,
    ),
    group.ranks_are_local ? el('p', { class: 'muted' }, 'Ranks are those within the communicator.') : null,
    group.advice ? el('p', {}, el('strong', {}, visible(`First: ${group.advice}`))) : null,
    group.paths ? hangPaths(group.paths) : null,
  );
}

function hangOpen(group) {
  const waits =
    group.waits_for.length > 0
      ? [', waits for ', ...group.waits_for.flatMap((name, at) => (at === 0 ? [nameNode(name)] : [', ', nameNode(name)]))]
      : [];
  return el('p', {}, nameNode(group.group), `${hangWhat(group)}: incomplete on ranks ${rankRanges(group.waiting_ranks)}`, ...waits);
}

function hangPaths(paths) {
  const { path, other_path: other, first_difference: first } = paths;
  const length = Math.max(path.length, other.length);
  const same = first === null ? Math.min(path.length, other.length) : first;
  const from = Math.max(0, same - 2);
  const line = (at) => {
    const row = el(
      'tr',
      {},
      el('td', { class: 'number' }, at === first ? `≠ ${at + 1}` : String(at + 1)),
      [path[at], other[at]].map((frame) => el('td', { class: 'mono' }, frame === undefined ? '' : nameNode(frame))),
    );
    return at === first ? hangInk(row, 'mark') : row;
  };
  const lines = (begin, end) => Array.from({ length: Math.max(0, end - begin) }, (_, at) => line(begin + at));
  const body = el('tbody', {}, lines(from, length));
  const more =
    from === 0
      ? null
      : el(
          'button',
          {
            type: 'button',
            class: 'small',
            onclick: () => {
              body.prepend(...lines(0, from));
              more.remove();
            },
          },
          `${from} equal frames before`,
        );
  const head = (rank, what) => el('th', { scope: 'col' }, `rank ${rank}${what ? `: ${visible(what)}` : ''}`);
  return el(
    'div',
    {},
    el('h3', {}, first === null ? 'Call paths: equal' : `Call paths: they differ from frame ${first + 1} on`),
    more,
    scrollBox(
      `Call paths of ranks ${paths.rank} and ${paths.other_rank}`,
      el(
        'table',
        { class: 'compact' },
        el('thead', {}, el('tr', {}, el('td', {}), head(paths.rank, paths.collective), head(paths.other_rank, paths.other_collective))),
        body,
      ),
    ),
  );
}
