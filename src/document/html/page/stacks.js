// The stacks of an answer, or its groups, or what changed between two, as a table whose rows open.

import { copyText } from './commands.js';
import { stackDetail } from './detail.js';
import { count, duration, size } from './format.js';
import { matchStacks, matchTexts } from './model.js';
import { tableColumn, tableView } from './table.js';

// Columns of the program's tables of stacks, after the name, that the page shows beside it.
const STACKS_BESIDE = ['#', 'collective'];

/** The columns of the costs, then of the waiting. `at(id)` is the row of a stack in the second table. */
function stackColumns({ sheets, stacks, docs, ofRankStack }) {
  const rowOf = new Int32Array(stacks.length).fill(-1);
  ofRankStack.forEach((id, at) => {
    if (id >= 0) rowOf[id] = at;
  });
  const known = new Set(STACKS_BESIDE);
  const columns = [];
  const add = (sheet, at) => {
    sheet?.columns.forEach((column, place) => {
      if (place === 0 || known.has(column.title)) return;
      known.add(column.title);
      const values = stacks.map(({ id }) => sheet.rows[at(id)]?.[place] ?? null);
      if (values.some((value) => value !== null)) columns.push(tableColumn(column, values));
    });
  };
  add(sheets.stacks ?? sheets.changes, (id) => id);
  add(sheets.waits, (id) => (docs.stacks ? rowOf[id] : id));
  return columns;
}

function stackNotes({ stacks: shown, docs: { stacks, ranks } }) {
  const notes = [];
  if (stacks?.kernels_left_out > 0) {
    const found = stacks.groups_found || stacks.stacks_found;
    notes.push(`${count(shown.length)} of ${count(found)} are here; the others have ${count(stacks.kernels_left_out)} kernels.`);
  }
  for (const of of Object.values(stacks?.groups?.length > 0 ? {} : (stacks?.coverage.without_launch ?? {}))) {
    notes.push(`Without a launch, and so in no row: ${count(of.count)} kernels, GPU ${duration(of.gpu_time_ns)}, exposed ${duration(of.exposed_ns)}.`);
  }
  if (!stacks && ranks?.stacks_found > ranks?.stacks.length) {
    notes.push(`${count(ranks.stacks.length)} of ${count(ranks.stacks_found)} stacks are here.`);
  }
  if (stacks && ranks && stacks.traces.length > 1 && stacks.traces.length !== ranks.ranks.length) {
    const [few, all] = [count(stacks.traces.length), count(ranks.ranks.length)];
    notes.push(`Count, GPU and exposed are of ${few} of the traces; waiting and transfer are of all ${all} ranks.`);
  }
  return notes;
}

// The folders of the file go below its name, so that names in a column can be compared.
function stackFolder({ headline, label }) {
  const found = /^.*\/(?=[^/]*\(\d+\): )/.exec(headline ?? '')?.[0] ?? '';
  return label.startsWith(found) ? found : '';
}

function stackBelow(stack) {
  const { min, max } = stack.bytes ?? {};
  const bytes = !stack.bytes ? '' : min === max ? size(max) : `${size(min)} to ${size(max)}`;
  const fate = stack.source.before === null ? 'new' : stack.source.after === null ? 'vanished' : '';
  return [fate, [stack.collectives, bytes].filter((part) => part).join(', '), stackFolder(stack)].filter((part) => part).join(' · ');
}

/** The stacks, or the groups of a document that is grouped by other keys. */
export function mountStacks(model, state) {
  const { stacks, docs, sheets } = model;
  const isDiff = Boolean(docs.diff ?? docs['ranks-diff']);
  const isGrouped = docs.stacks?.groups?.length > 0 || docs.diff?.grouped_by.length > 0;
  const columns = stackColumns(model);
  const what = isGrouped ? 'Which groups of kernels cost most?' : isDiff ? 'Which code costs more or less than before?' : 'Which code launches collectives, and what does each place cost?';
  const source = {
    id: isDiff ? 'diff' : 'stacks',
    title: isDiff ? sheets.changes.title : isGrouped ? 'Groups' : 'Stacks',
    short: isDiff ? 'Before and after' : null,
    help: `${what} ▸ opens ${isGrouped ? 'a group' : 'a call stack'}; a click on a name chooses it in all views.`,
    head: 'where it comes from',
    n: stacks.length,
    columns,
    label: (row) => stacks[row].label.slice(stackFolder(stacks[row]).length),
    whole: (row) => stacks[row].label,
    below: (row) => stackBelow(stacks[row]),
    key: 'stack',
    value: (row) => row,
    first: isDiff && columns.some(({ key }) => key === 'change') ? 'change' : docs.ranks && columns.some(({ key }) => key === 'waited') ? 'waited' : 'number',
    detail: (row, query) => stackDetail(stacks[row], matchTexts(model, query), copyText),
    find: (query) => matchStacks(model, matchTexts(model, query)),
    notes: stackNotes(model),
  };
  return tableView(source, state);
}
