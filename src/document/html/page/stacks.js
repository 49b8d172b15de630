// The stacks of an answer, or its groups, or what changed between two, as a table whose rows open.

import { sizesText, stackDetail } from './detail.js';
import { count } from './format.js';
import { matchStacks, matchTexts } from './model.js';
import { DataTable, tableColumn } from './table.js';

// Columns of the program's tables of stacks, after the name, that the page shows beside it.
const STACKS_BESIDE = ['#', 'collective'];

function stackColumns({ sheets, stacks, docs, ofRankStack }) {
  const rowOf = new Map(ofRankStack.map((id, at) => [id, at]));
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
  add(sheets.waits, (id) => (docs.stacks ? rowOf.get(id) : id));
  return columns;
}

function stackNotes({ stacks: shown, docs: { stacks, ranks } }) {
  const isPart = stacks && ranks && stacks.traces.length > 1 && stacks.traces.length !== ranks.ranks.length;
  const notes = [
    stacks?.kernels_left_out > 0 &&
      `${count(shown.length)} of ${count(stacks.groups_found || stacks.stacks_found)} are here; the others have ${count(stacks.kernels_left_out)} kernels.`,
    !stacks && ranks?.stacks_found > ranks?.stacks.length && `${count(ranks.stacks.length)} of ${count(ranks.stacks_found)} stacks are here.`,
    isPart && `Count, GPU and exposed are of ${count(stacks.traces.length)} of the traces; waiting and transfer are of all ${count(ranks.ranks.length)} ranks.`,
  ];
  return notes.filter((note) => note);
}

// The folders of the file go below its name, so that names in a column can be compared.
function stackFolder({ headline, label }) {
  const found = /^.*\/(?=[^/]*\(\d+\): )/.exec(headline ?? '')?.[0] ?? '';
  return label.startsWith(found) ? found : '';
}

function stackBelow(stack) {
  const { source, collectives, bytes } = stack;
  const fate = source.before === null ? 'new' : source.after === null ? 'vanished' : '';
  const list = (parts, between) => parts.filter((part) => part).join(between);
  return list([fate, list([collectives, sizesText(bytes)], ', '), stackFolder(stack)], ' · ');
}

export function mountStacks(model, state) {
  const { stacks, docs, sheets } = model;
  if (stacks.length === 0) return null;
  const isDiff = Boolean(docs.diff ?? docs['ranks-diff']);
  const isGrouped = docs.stacks?.groups?.length > 0 || docs.diff?.grouped_by.length > 0;
  const what = isGrouped ? 'Which groups of kernels cost most?' : isDiff ? 'Which code costs more or less than before?' : 'Which code costs most?';
  const [columns, telling] = [stackColumns(model), isDiff ? 'change' : docs.ranks ? 'waited' : 'exposed'];
  // A small screen shows only the first columns.
  if (document.documentElement.clientWidth <= 760) columns.sort((a, b) => (b.key === telling) - (a.key === telling));
  const source = {
    id: isDiff ? 'diff' : 'stacks',
    heading: isDiff ? sheets.changes.title : isGrouped ? 'Groups' : 'Stacks',
    title: isDiff ? 'Before and after' : isGrouped ? 'Groups' : 'Stacks',
    help: `${what} ▸ opens ${isGrouped ? 'a group' : 'a call stack'}; a click on a name chooses it in all views.`,
    head: 'where it comes from',
    n: stacks.length,
    columns,
    label: (row) => stacks[row].label.slice(stackFolder(stacks[row]).length),
    whole: (row) => stacks[row].label,
    below: (row) => stackBelow(stacks[row]),
    key: 'stack',
    value: (row) => row,
    first: isDiff ? 'change' : docs.ranks ? 'waited' : 'number',
    detail: (row, query) => stackDetail(stacks[row], matchTexts(model, query)),
    find: (query) => matchStacks(model, matchTexts(model, query)),
    notes: stackNotes(model),
  };
  return new DataTable(source, state);
}
