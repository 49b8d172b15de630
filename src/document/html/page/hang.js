// Why a job hangs: the state of each rank in each group, and for each group the evidence, what to do first, and where the code paths part.

import { inText } from './canvas.js';
import { el, nameNode, scrollBox, section } from './dom.js';
import { count, many, visible } from './format.js';
import { StateMatrix, fewRanks, stateInk } from './states.js';

const HANG_PAGE = 40;
// How many of the groups that a group waits for are named.
const HANG_NAMED = 3;

/** The hang, or null without its document. */
export function mountHang(model, state) {
  const { hang } = model.docs;
  if (!hang) return null;
  const matrix = hang.matrix.length > 0 ? new StateMatrix(hang, state) : null;
  const part = (title, groups, make) => (groups.length === 0 ? [] : [el('h3', {}, title), ...hangPage(groups, make)]);
  const advised = new Map();
  const group = (of, at) => hangGroup(of, at < 3, hangAdvice(of, advised));
  const node = section(
    'hang',
    'Where it hangs',
    null,
    ...hangFacts(hang),
    matrix?.node,
    ...part('Groups in which ranks wait', hang.hung, group),
    ...part('Groups in which ranks have done less', hang.lagging, group),
    hang.open.length > 0 ? hangOpenGroups(hang.open) : null,
  );
  return { id: 'hang', title: 'Hang', node, update: (_, changed) => matrix?.update(changed), paint: () => {} };
}

/** What to do first about a group, unless a group before has it: the same text, or the same about more ranks. */
function hangAdvice({ advice, culprits }, advised) {
  if (!advice) return null;
  const kind = advice.split(' ').slice(0, 3).join(' ');
  const known = advised.get(kind) ?? new Set();
  const names = culprits.length > 0 ? culprits : [advice];
  if (names.every((name) => known.has(name))) return null;
  advised.set(kind, new Set([...known, ...names]));
  return advice;
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
    if (ranks.length > 0) facts.push(`${text}: ${fewRanks(ranks)}.`);
  };
  say(hang.culprits, 'It hangs on ranks');
  say(hang.circle, 'These ranks wait for each other');
  say(hang.ranks_without_records, 'No records of ranks');
  say(hang.ranks_without_operations, 'No operation recorded on ranks');
  return facts.map((fact) => el('p', {}, fact));
}

function hangWhat({ collective, sequence }) {
  return collective ? `, ${visible(collective)}${sequence === null ? '' : ` ${sequence}`}` : '';
}

function hangGroup(group, isOpen, advice) {
  const kinds = [
    ['missing_ranks', 'missing'],
    ['stuck_ranks', 'stuck'],
    ['odd_ranks', 'odd'],
    ['waiting_ranks', 'waiting'],
    ['unknown_ranks', 'without records'],
  ];
  const ranks = kinds
    .filter(([key]) => group[key].length > 0)
    .map(([key, name]) => `${name}: ${fewRanks(group[key])}`)
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
    advice ? el('p', {}, el('strong', {}, visible(`First: ${advice}`))) : null,
    group.paths ? hangPaths(group.paths) : null,
  );
}

/** Groups with incomplete operations that all their ranks have enqueued: closed, since they are no reason. */
function hangOpenGroups(groups) {
  const ranks = new Set(groups.flatMap((group) => group.waiting_ranks));
  const summary = `Incomplete everywhere: ${many(groups.length, 'group')} on ranks ${fewRanks([...ranks])}; they wait for other groups, or are slow`;
  return el('details', { class: 'open-groups' }, inText(el('summary', {}, summary)), ...hangPage(groups, hangOpen));
}

function hangOpen(group) {
  const shown = group.waits_for.slice(0, HANG_NAMED);
  const left = group.waits_for.length - shown.length;
  const names = shown.flatMap((name, at) => (at === 0 ? [nameNode(name)] : [', ', nameNode(name)]));
  const waits = shown.length > 0 ? [', waits for ', ...names, left > 0 ? ` and ${count(left)} more` : null] : [];
  return el('p', {}, nameNode(group.group), `${hangWhat(group)}: incomplete on ranks ${fewRanks(group.waiting_ranks)}`, waits);
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
    return at === first ? stateInk(row, 'mark') : row;
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
