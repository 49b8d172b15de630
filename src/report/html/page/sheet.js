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

/** A table with its title: the first rows, and a button for the others. */
export function sheetTable({ title, columns, rows, found }, heading = true) {
  const kinds = columns.map((column, at) => (isNumber(column) ? 'number' : rows.some((row) => row[at]?.length > SHEET_LONG) ? 'long' : null));
  const cell = (value, at) => {
    const text = unitText(columns[at].unit, value);
    return el('td', { class: kinds[at] }, isNumber(columns[at]) ? text : nameNode(text));
  };
  const line = (row) => el('tr', null, row.map(cell));
  const body = el('tbody', null, rows.slice(0, SHEET_PAGE).map(line));
  const rest = rows.slice(SHEET_PAGE, SHEET_MOST);
  const more = el('button', { type: 'button', class: 'small' }, `${count(rest.length)} more`);
  more.addEventListener('click', () => {
    body.append(...rest.map(line));
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

/** A view of one table; null without that table. */
export function mountSheet(name) {
  return (model) => {
    const sheet = model.sheets[name];
    if (!sheet) return null;
    const node = section(name, sheet.title, null, ...sheetTable(sheet, false), sheetLegend(sheet.columns));
    return { id: name, title: sheet.title, node, update() {}, paint() {} };
  };
}
