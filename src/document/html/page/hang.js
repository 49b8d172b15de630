// Why a job hangs: the state of each rank in each group; and for each group the evidence, what to do first, and where the code paths part.

import { button, details, el, nameNode, section, smallTable } from './dom.js';
import { count, many, visible } from './format.js';
import { StateMatrix, rankRanges, stateInk } from './states.js';

const HANG_PAGE = 40;
const HANG_OPEN = 3;
// How many of the groups that a group waits for are named.
const HANG_NAMED = 3;

const HANG_RANKS = [
  ['missing_ranks', 'missing'],
  ['stuck_ranks', 'stuck'],
  ['odd_ranks', 'odd'],
  ['waiting_ranks', 'waiting'],
  ['unknown_ranks', 'without records'],
];

/** The state of each rank in each group; null without any. */
export function mountHang({ docs: { hang } }, state) {
  if (!hang || hang.matrix.length === 0) return null;
  const matrix = new StateMatrix(hang, state);
  const node = section('hang', 'Where it hangs', 'Which rank is where in which group?', matrix.node);
  return { id: 'hang', title: 'Ranks and groups', node, update: (_, changed) => matrix.update(changed) };
}

/** The evidence of each group; null without a hang. */
export function mountHung({ docs: { hang } }) {
  if (!hang) return null;
  const advised = new Map();
  const group = (of, at) => hangGroup(of, at < HANG_OPEN, hangAdvice(of, advised));
  const part = (title, groups) => (groups.length === 0 ? [] : [el('h3', null, title), ...hangPage(groups, group)]);
  const groups = [...part('Groups in which ranks wait', hang.hung), ...part('Groups in which ranks have done less', hang.lagging)];
  const node = section('hung', 'Evidence', 'What shows it in each group, and what to do first?', hangFacts(hang), groups, hang.open.length > 0 ? hangOpenGroups(hang.open) : null);
  return { id: 'hung', title: 'Evidence', node };
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

function hangPage(items, make) {
  const rest = () => items.slice(HANG_PAGE).map((item, at) => make(item, at + HANG_PAGE));
  const more = button(`${count(items.length - HANG_PAGE)} more`, () => more.replaceWith(...rest()));
  return [...items.slice(0, HANG_PAGE).map(make), items.length > HANG_PAGE ? more : null];
}

function hangFacts(hang) {
  const counts = `${many(hang.rank_count, 'rank')} with records, ${many(hang.group_count, 'group')}, ${many(hang.operation_count, 'operation')}`;
  const ranks = [
    ['It hangs on ranks', hang.culprits],
    ['These ranks wait for each other', hang.circle],
    ['No records of ranks', hang.ranks_without_records],
    ['No operation recorded on ranks', hang.ranks_without_operations],
  ];
  const facts = [counts, ...ranks.filter(([, of]) => of.length > 0).map(([text, of]) => `${text}: ${rankRanges(of)}`)];
  return facts.map((fact) => el('p', null, `${fact}.`));
}

function hangWhat({ collective, sequence }) {
  return collective ? `, ${visible(collective)}${sequence === null ? '' : ` ${sequence}`}` : '';
}

function hangGroup(group, open, advice) {
  const known = HANG_RANKS.filter(([key]) => group[key].length > 0);
  const ranks = known.map(([key, name]) => `${name}: ${rankRanges(group[key])}`).join(' · ');
  const far = group.distance > 0 ? ` (waits for ${many(group.distance, 'group')} before it)` : '';
  const proofs = group.evidence.map((of) => el('li', null, visible(of.text)));
  if (group.evidence_left_out > 0) proofs.push(el('li', { class: 'muted' }, `${count(group.evidence_left_out)} more of the same kind`));
  return details(
    { open },
    [nameNode(group.group), `${hangWhat(group)} – ${ranks}${far}`],
    el('ul', null, proofs),
    group.ranks_are_local ? el('p', { class: 'muted' }, 'Ranks are those within the communicator.') : null,
    advice ? el('p', null, el('strong', null, visible(`First: ${advice}`))) : null,
    group.paths ? hangPaths(group.paths) : null,
  );
}

/** Groups with incomplete operations that all their ranks have enqueued: closed, since they are no reason. */
function hangOpenGroups(groups) {
  const ranks = rankRanges([...new Set(groups.flatMap((group) => group.waiting_ranks))]);
  const summary = `Incomplete everywhere: ${many(groups.length, 'group')} on ranks ${ranks}; they wait for other groups, or are slow`;
  return details({ class: 'open-groups' }, summary, hangPage(groups, hangOpen));
}

function hangOpen(group) {
  const left = group.waits_for.length - HANG_NAMED;
  const names = group.waits_for.slice(0, HANG_NAMED).map(visible).join(', ');
  const waits = names ? `, waits for ${names}${left > 0 ? ` and ${count(left)} more` : ''}` : '';
  return el('p', null, nameNode(group.group), `${hangWhat(group)}: incomplete on ranks ${rankRanges(group.waiting_ranks)}${waits}`);
}

/** The call paths of two ranks beside each other, with two of the equal frames before their first difference, and the others on demand. */
function hangPaths({ path, other_path: other, first_difference: first, rank, other_rank: otherRank, collective, other_collective: otherCollective }) {
  const head = (of, what) => [`rank ${of}${what ? `: ${visible(what)}` : ''}`];
  const row = (_, at) => [at === first ? `≠ ${at + 1}` : String(at + 1), path[at] ?? '', other[at] ?? ''];
  const rows = Array.from({ length: Math.max(path.length, other.length) }, row);
  const table = smallTable(`Call paths of ranks ${rank} and ${otherRank}`, [['#', true], head(rank, collective), head(otherRank, otherCollective)], rows, null);
  const lines = [...table.querySelectorAll('tbody tr')];
  const before = lines.slice(0, Math.max(0, (first ?? Math.min(path.length, other.length)) - 2));
  before.forEach((line) => (line.hidden = true));
  if (first !== null) stateInk(lines[first], 'mark');
  const show = () => [more, ...before].forEach((node) => (node.hidden = !node.hidden));
  const more = button(`${before.length} equal frames before`, show, { class: 'small' });
  const title = el('h3', null, first === null ? 'Call paths: equal' : `Call paths: they differ from frame ${first + 1} on`);
  return el('div', { class: 'paths' }, title, before.length > 0 ? more : null, table);
}
