// Tables whose columns and values the program gives: a title, a unit and a meaning for each column. Nothing here knows an answer.

import { el, nameNode, scrollBox, section } from './dom.js';
import { bandwidth, count, duration, percent, size } from './format.js';

const SHEET_PAGE = 20;
const SHEET_MOST = 5000;

// Longer texts break into lines, which are not narrower than the style sheet says.
const SHEET_LONG = 24;

const SHEET_UNITS = {
  count,
  ns: duration,
  share: percent,
  bytes: size,
  gb_per_s: (value) => (value === null ? '' : bandwidth(value)),
  ratio: (value) => value.toFixed(2),
  id: String,
  text: (value) => value ?? '',
};

/** The text of a value in a unit. */
export function unitText(unit, value) {
  return value === null && unit !== 'text' ? '' : SHEET_UNITS[unit](value);
}

/** A title in a head: the first letter is large, and the values have the unit. */
export function headText(title) {
  const plain = title.replace(' (GB/s)', '');
  return plain.charAt(0).toUpperCase() + plain.slice(1);
}

/** Whether the values of a column are numbers. */
export function isNumber({ unit }) {
  return unit !== 'text';
}

/** A table with its title: the first rows, and a button for the others. `first(row, name)` gives what the first cell of a row has in place of its name. */
export function sheetTable({ title, columns, rows, found }, heading = true, first = (row, name) => name) {
  const kinds = columns.map((column, at) => (isNumber(column) ? 'number' : rows.some((row) => row[at]?.length > SHEET_LONG) ? 'long' : null));
  const cell = (value, at, row) => {
    const text = unitText(columns[at].unit, value);
    const name = isNumber(columns[at]) ? text : nameNode(text);
    return el('td', { class: kinds[at] }, at === 0 ? first(row, name) : name);
  };
  const line = (cells, row) => el('tr', null, cells.map((value, at) => cell(value, at, row)));
  const body = el('tbody', null, rows.slice(0, SHEET_PAGE).map(line));
  const rest = rows.slice(SHEET_PAGE, SHEET_MOST);
  const more = el('button', { type: 'button', class: 'small' }, `${count(rest.length)} more`);
  more.addEventListener('click', () => {
    body.append(...rest.map((cells, at) => line(cells, SHEET_PAGE + at)));
    more.remove();
  });
  const head = columns.map((column) => {
    const name = headText(column.title);
    return el('th', { scope: 'col', class: isNumber(column) ? 'number' : null, title: column.help || null }, name);
  });
  const left = found - Math.min(rows.length, SHEET_MOST);
  return [
    heading ? el('h3', null, title) : null,
    scrollBox(title, el('table', { class: 'compact' }, el('thead', null, el('tr', null, head)), body)),
    rest.length > 0 ? more : null,
    left > 0 ? el('p', { class: 'muted' }, `${count(left)} more rows are not here.`) : null,
  ];
}

/** What the columns of a table mean. */
export function sheetLegend(columns, ...more) {
  const known = columns.filter(({ help }) => help);
  const rows = known.flatMap(({ title, help }) => [el('dt', null, headText(title)), el('dd', null, help)]);
  return el('details', { class: 'legend' }, el('summary', null, 'What the columns mean'), el('dl', null, rows), ...more);
}

/** A view of one table; null without that table. A row is that place in the list of the model that `key` names, and choosing it selects that. */
export function mountSheet(name, key = null, list = key) {
  return (model, state) => {
    const sheet = model.sheets[name];
    if (!sheet) return null;
    const choose = (row) => state.set({ [key]: state.get(key) === row ? null : row });
    const button = (row, text) => el('button', { type: 'button', class: 'small', onclick: () => choose(row) }, text);
    const node = section(name, sheet.title, null, ...sheetTable(sheet, false, model[list] ? button : undefined), sheetLegend(sheet.columns));
    const update = () => {
      node.querySelectorAll('tbody tr').forEach((row, at) => row.classList.toggle('is-chosen', at === state.get(key)));
    };
    return { id: name, title: sheet.title, node, update: key ? update : () => {}, paint() {} };
  };
}
