// How far to trust the answer: what was not attributed, not matched, not aligned, damaged or left out.
//
// Problems come first, with what they mean; everything that is fine gets one line.

import { countsText, smallTable } from './detail.js';
import { el, nameNode, section } from './dom.js';
import { count, duration, percent, size } from './format.js';

/** Why kernels have no launch. */
export const TRUST_REASONS = {
  'no-calls': 'the trace has no calls into a runtime',
  'before-trace': 'launched before the first call that was recorded',
  'no-id': 'nothing ties them to a call',
  'not-recorded': 'their call is not in the trace, though earlier ones are',
};

const TRUST_CLOCKS = {
  align: 'aligned by the ends of collectives',
  trust: 'taken as they are',
  none: 'not compared, as was asked',
  refused: 'not comparable',
};

const trustGood = (what, text, more) => ({ level: 'good', what, text, more });
const trustNote = (what, text, more) => ({ level: 'note', what, text, more });
const trustBad = (what, text, more) => ({ level: 'bad', what, text, more });

const trustOf = (n, all) => `${count(n)} of ${count(all)}`;
const trustRanks = (ranks) => (ranks.length > 40 ? `${ranks.slice(0, 40).join(', ')} and ${count(ranks.length - 40)} more` : ranks.join(', '));

function trustCoverage({ coverage }) {
  const lost = Object.entries(coverage.without_launch);
  const missing = lost.reduce((sum, [, { count: n }]) => sum + n, 0);
  const by = Object.entries(coverage.attributed_by).map(([evidence, n]) => `${count(n)} by ${evidence}`);
  const text = `${trustOf(coverage.kernels - missing, coverage.kernels)} kernels are attributed to code: ${by.join(', ') || 'none'}.`;
  const checks = [];
  if (missing === 0) {
    checks.push(trustGood('Attribution', text));
  } else {
    const rows = lost.map(([reason, of]) => [TRUST_REASONS[reason] ?? reason, count(of.count), duration(of.gpu_time_ns), duration(of.exposed_ns)]);
    checks.push(trustBad('Attribution', text, smallTable('Without a launch', [['Why'], ['Kernels', true], ['GPU', true], ['Exposed', true]], rows)));
  }
  const { uncertain, forward_unknown: forward, captures } = coverage;
  if (uncertain > 0) checks.push(trustNote('Shared ids', `${count(uncertain)} kernels share their id with several calls; time alone decided.`));
  if (coverage.flow_disagrees > 0) {
    const n = count(coverage.flow_disagrees);
    checks.push(trustNote('Flows', `At ${n} kernels a flow leads from another call than the correlation id, which was taken.`));
  }
  if (forward > 0) checks.push(trustNote('Backward pass', `Of ${count(forward)} kernels the operator of the forward pass is not known.`));
  if (captures) checks.push(trustCaptures(captures));
  else if (coverage.attributed_by['graph-replay'] > 0) {
    const n = count(coverage.attributed_by['graph-replay']);
    const advice = '--capture-trace FILE, a trace of the capture, shows the captured code';
    checks.push(trustNote('Graph replays', `${n} kernels have the stack of the replay; ${advice}.`));
  }
  return checks;
}

function trustCaptures({ graphs, matched, by_order: byOrder, ambiguous, unknown }) {
  const text = `${count(graphs)} graphs; ${count(matched)} replayed kernels have the stack of their capture (${count(byOrder)} by their order alone)`;
  if (ambiguous + unknown === 0) return trustGood('Graph captures', `${text}.`);
  const lacking = `${count(ambiguous)} were captured in several places, ${count(unknown)} are of a graph that is not here`;
  return trustBad('Graph captures', `${text}; ${lacking}.`);
}

function trustLeftOut(stacks) {
  const checks = [];
  const add = (n, what, text) => n > 0 && checks.push(trustNote(what, text));
  add(stacks.kernels_left_out, 'Left out', `${count(stacks.kernels_left_out)} kernels are in stacks that --limit or --min-share left out.`);
  const outside = stacks.kernels_elsewhere;
  add(outside, 'Edge of the window', `${count(outside)} kernels lie on its edge and are in no stack.`);
  const { families, possibly_communication: possible } = stacks.not_asked;
  const text = families.map((of) => `${of.family} (${count(of.kernels)} kernels, ${duration(of.gpu_time_ns)})`).join(', ');
  add(families.length, 'Not asked for', `Collectives of other families: ${text}.`);
  const maybe = possible.map((of) => `${of.name} (${count(of.kernels)} kernels, ${duration(of.gpu_time_ns)}${of.caller ? `, launched by ${of.caller}` : ''})`);
  add(possible.length, 'Possibly communication', `No family knows these kernels; they count neither as collectives nor as computation: ${maybe.join(', ')}.`);
  if (stacks.records) {
    const { records, joined, unjoined } = stacks.records;
    const how = `${trustOf(joined, records)} of NCCL's records are joined to kernels`;
    checks.push(joined === records ? trustGood('Records', `${how}.`) : trustNote('Records', `${how}; not joined: ${countsText(unjoined) || '?'}.`));
  }
  return checks;
}

// Several files may have the same problem: each kind is one row, unless its text names a file.
function trustSameKinds(kinds) {
  const rows = new Map();
  for (const kind of kinds) {
    const key = JSON.stringify([kind.kind, kind.cost, kind.trace]);
    const row = rows.get(key);
    if (row) Object.assign(row, { count: row.count + kind.count, bytes: row.bytes + kind.bytes, offsets: [] });
    else rows.set(key, { ...kind });
  }
  return [...rows.values()];
}

function trustDamage(what, damage) {
  const text = `${size(damage.text_bytes)} of text were read`;
  if (damage.kinds.length === 0) return trustGood(what, `${text}, all whole.`);
  const isLost = damage.kinds.some((kind) => kind.cost === 'lost' || kind.cost === 'doubtful');
  const words = { lost: 'lost', doubtful: 'any byte may be wrong', recovered: 'repaired', moved: 'kept, but in another place' };
  const kinds = trustSameKinds(damage.kinds);
  const all = [
    ['What', false, (kind) => kind.what],
    ['Effect', false, (kind) => words[kind.cost] ?? kind.cost],
    ['How often', true, (kind) => count(kind.count)],
    ['Bytes', true, (kind) => (kind.bytes > 0 ? size(kind.bytes) : '')],
    ['First at byte', true, (kind) => kind.offsets.map(count).join('; ')],
    ['Trace', false, (kind) => kind.trace ?? ''],
  ];
  const columns = all.filter(([, , text]) => kinds.some((kind) => text(kind) !== ''));
  const table = smallTable(null, columns, kinds.map((kind) => columns.map(([, , text]) => text(kind))), `${what}: damage`);
  if (!isLost) return trustNote(what, `${text}, nothing is lost.`, table);
  if (damage.lost_bytes === null) return trustBad(what, `${text}; how much is lost or wrong is unknown.`, table);
  return trustBad(what, `${text}; ${size(damage.lost_bytes)} (${percent(damage.lost_share)}) are lost.`, table);
}

function trustMatches({ matches, doubtful, collectives }) {
  const { kernels, matched, partial, mismatched, unmatched } = matches;
  const text = `${trustOf(matched, kernels)} kernels are matched with kernels of all ranks of their group`;
  const rows = [
    ...(partial > 0 ? [['matched with some ranks only', count(partial)]] : []),
    ...Object.entries(mismatched).map(([why, n]) => [`differ from their partners: ${why}`, count(n)]),
    ...Object.entries(unmatched).map(([why, n]) => [`without a partner: ${why}`, count(n)]),
  ];
  const others = () => smallTable(null, [['Others'], ['Kernels', true]], rows, 'Not matched');
  const checks = [rows.length === 0 ? trustGood('Matching', `${text}.`) : trustBad('Matching', `${text}.`, others())];
  if (doubtful > 0) {
    const of = trustOf(doubtful, collectives);
    checks.push(trustBad('Doubtful', `At ${of} collectives a rank lacks its kernel, so who was late is unknown.`));
  }
  return checks;
}

function trustClock({ clock, ranks }) {
  const residuals = clock.residual_median_ns === null ? '' : `ends of a collective are ${duration(clock.residual_median_ns)} apart in the median, `;
  const rest = residuals && `${residuals}p95 ${duration(clock.residual_p95_ns)}, at worst ${duration(clock.residual_max_ns)}`;
  const isByMessages = clock.method === 'align' && clock.anchors === 0;
  const how = isByMessages ? 'aligned by messages between ranks' : (TRUST_CLOCKS[clock.method] ?? clock.method);
  const anchors = clock.anchors > 0 ? `${count(clock.anchors)} collectives checked` : '';
  const text = [how, anchors, rest].filter((part) => part);
  const why = clock.refused.length > 0 ? el('ul', null, clock.refused.map((sentence) => el('li', null, nameNode(sentence)))) : null;
  const isGood = ['align', 'trust'].includes(clock.method) && !why;
  const checks = [(isGood ? trustGood : trustBad)('Clocks', `${text.join('; ')}.`, why)];
  if (clock.sets > 1) checks.push(trustNote('Sets of clocks', `${count(clock.sets)} sets of ranks are aligned, each for itself.`));
  if (clock.unsteady_ranks.length > 0) {
    checks.push(trustBad('Unsteady clocks', `Ranks whose clocks differ by more than a constant or a drift: ${trustRanks(clock.unsteady_ranks)}.`));
  }
  const doubt = ranks.filter((rank) => rank.uncertainty_ns !== null).map((rank) => rank.uncertainty_ns);
  if (doubt.length > 0) checks.push(trustGood('Offsets', `of the clocks may be wrong by up to ${duration(doubt.reduce((most, ns) => Math.max(most, ns), 0))}.`));
  return checks;
}

function trustRankSets(ranks) {
  const { world_size: world, missing_ranks: missing, silent_ranks: silent, refused } = ranks;
  const here = ranks.ranks.length;
  const checks = [];
  if (missing.length > 0) checks.push(trustBad('Ranks without a trace', `${trustRanks(missing)}.`));
  else if (world === null) checks.push(trustGood('Ranks', `${count(here)} are here; no header says how many there are.`));
  else checks.push(trustGood('Ranks', `${trustOf(here, world)} are here.`));
  if (silent.length > 0) checks.push(trustBad('Ranks without a collective', `in the window: ${trustRanks(silent)}.`));
  if (refused.length > 0) {
    const rows = refused.map(({ trace, rank, why }) => [trace, String(rank), why]);
    checks.push(trustBad('Traces left out', `${count(refused.length)}.`, smallTable(null, [['Trace'], ['Rank', true], ['Why']], rows, 'Traces left out')));
  }
  return checks;
}

function trustHang(hang) {
  const all = `${count(hang.operation_count)} operations of ${count(hang.rank_count)} ranks in ${count(hang.group_count)} groups`;
  const checks = [trustGood('Records', `${all} were looked at.`)];
  const lacking = [
    [hang.ranks_without_records, 'Ranks without records', 'What they did is unknown'],
    [hang.ranks_without_operations, 'Ranks without operations', 'Their records hold none'],
  ];
  for (const [ranks, what, text] of lacking) if (ranks.length > 0) checks.push(trustBad(what, `${text}: ${trustRanks(ranks)}.`));
  return checks;
}

function trustDiff(diff) {
  const sides = [['Before', diff.before], ['After', diff.after]];
  return sides.flatMap(([name, { kernels, without_launch: without, damage }]) => {
    const text = `${trustOf(kernels.count - without.count, kernels.count)} kernels are attributed`;
    const lost = `${duration(without.gpu_time_ns)} of GPU time have no stack`;
    const coverage = without.count === 0 ? trustGood(name, `${text}.`) : trustBad(name, `${text}; ${lost}.`);
    return [coverage, trustDamage(`${name}: file`, damage)];
  });
}

function trustRecords({ files }) {
  const bad = files.filter((file) => file.skipped > 0 || file.repaired > 0 || file.remarks?.length > 0);
  const all = `${count(files.reduce((sum, file) => sum + file.records, 0))} records of ${count(files.length)} files were read`;
  if (bad.length === 0) return trustGood('Files', `${all}, all whole.`);
  const remarks = (file) => [file.remarks ?? []].flat().map((remark) => remark.text ?? remark.what ?? String(remark)).join('; ');
  const rows = bad.map((file) => [file.name, count(file.records), count(file.skipped), count(file.repaired), remarks(file)]);
  const table = smallTable(null, [['File'], ['Records', true], ['Skipped', true], ['Repaired', true], ['Remarks']], rows, 'Files');
  return (bad.some((file) => file.skipped > 0) ? trustBad : trustNote)('Files', `${all}.`, table);
}

// A note of the answer: the word before a colon is its title.
function trustRemark(note) {
  const [, what, text] = /^([A-Z][a-z]+(?: [a-z]+)?): (.*)$/s.exec(note) ?? [null, 'Note', note];
  return trustNote(what, text);
}

// What limits the answer, in a sentence. The notes at the top of the page, of damage among others, are only there.
function trustHelp(checks, { notes_above: above }) {
  const wrong = checks.filter((check) => check.level === 'bad').length;
  const hasNotes = above?.length > 0;
  if (wrong === 0) return hasNotes ? 'What limits this answer is in the notes at the top of the page.' : 'Nothing is wrong that the files show.';
  return `${wrong === 1 ? 'One thing limits' : `${wrong} things limit`} this answer${hasNotes ? ', and the notes at the top of the page' : ''}.`;
}

function trustChecks({ docs, page }) {
  const { stacks, ranks, hang, diff, records } = docs;
  const checks = (page.notes ?? []).map(trustRemark);
  if (stacks) checks.push(...trustCoverage(stacks), ...trustLeftOut(stacks), trustDamage('File', stacks.damage));
  if (ranks) checks.push(...trustRankSets(ranks), ...trustMatches(ranks), ...trustClock(ranks));
  if (hang) checks.push(...trustHang(hang));
  if (diff) checks.push(...trustDiff(diff));
  if (docs['ranks-diff']) {
    const { before, after } = docs['ranks-diff'];
    const now = TRUST_CLOCKS[after.clock];
    const text = `of ${count(before.ranks)} ranks before are ${TRUST_CLOCKS[before.clock]}, of ${count(after.ranks)} after ${now}.`;
    checks.push((before.clock === after.clock ? trustNote : trustBad)('Clocks', text));
  }
  if (records?.files) checks.push(trustRecords(records));
  const order = ['bad', 'note', 'good'];
  return order.flatMap((level) => checks.filter((check) => check.level === level));
}

/** The possible errors of the answer. */
export function mountTrust(model) {
  const checks = trustChecks(model);
  if (checks.length === 0) return null;
  const words = { bad: 'Wrong: ', note: 'Note: ', good: 'All right: ' };
  const item = ({ level, what, text, more }) =>
    el('li', { class: level }, el('span', { class: 'spoken' }, words[level]), el('strong', null, what), ' ', nameNode(text), more ?? null);
  const node = section('trust', 'How sure this is', trustHelp(checks, model.page), el('ul', { class: 'checks' }, checks.map(item)));
  return { id: 'trust', title: 'How sure this is', node, update() {}, paint() {} };
}
