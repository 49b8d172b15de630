// A table: sorted by any column, searched, a page of rows at a time. A row may open, and may choose what it is about in all views.
// Rows are numbers until they are shown: columns are arrays, a sort order is a permutation that is kept, and a search looks at each text once.
// So 50,000 stacks are as quick as five. The program gives the columns: a title, a unit and a meaning for each. Nothing here knows an answer.

import { textWidth } from './canvas.js';
import { button, details, el, nameNode, scrollBox, searchField, section, termList } from './dom.js';
import { bandwidth, count, duration, percent, size, visible } from './format.js';

// Rows of a page, and those of a page of a table whose rows open.
const TABLE_PAGE = 20;
const TABLE_LONG_PAGE = 100;

// As in the style sheet: the size of the text, the space beside it, the widest text and the narrowest name, in pixels.
const TABLE_FONT = 13;
const TABLE_PAD = 5;
const TABLE_WIDEST = 170;
const TABLE_NAME = 220;

const TABLE_MEASURED = 20;

const TABLE_NATURAL = ['label', 'number'];

const TABLE_TEXT = 24;

const TABLE_UNITS = {
  count,
  ns: duration,
  share: percent,
  bytes: size,
  gb_per_s: (value) => (value === null ? '' : bandwidth(value)),
  ratio: (value) => value.toFixed(2),
  id: String,
  growth: (value) => (value === 0 ? '=' : `${value > 0 ? '+' : '−'}${duration(Math.abs(value))}`),
  text: (value) => value ?? '',
};

function unitText(unit, value) {
  return value === null && unit !== 'text' ? '' : TABLE_UNITS[unit](value);
}

/** A title in a head: the first letter is large, and the values have the unit. */
function headText(title) {
  const plain = title.replace(' (GB/s)', '');
  return plain.charAt(0).toUpperCase() + plain.slice(1);
}

function isNumber({ unit }) {
  return unit !== 'text';
}

/** A column of these values; `largest` is that of times, for their bars, and `sorted` has numbers in their order: the places of texts. */
export function tableColumn(column, values) {
  const largest = column.unit === 'ns' ? values.reduce((most, value) => Math.max(most, value ?? 0), 0) : 0;
  const key = column.title.toLowerCase().replace(/[^a-z]+/g, '-').replace(/-$/, '');
  const texts = isNumber(column) ? [] : [...new Set(values.map((value) => value ?? ''))].sort();
  const place = new Map(texts.map((text, at) => [text, at]));
  const sorted = Float64Array.from(values, (value) => (isNumber(column) ? (value ?? -1) : place.get(value ?? '')));
  return { ...column, key, values, largest, sorted };
}

/** The pixels that a column needs: for the longest word of its head with the mark of its order, and for its longest value. */
function tableWidth(column, values) {
  const words = headText(column.title).split(' ').map((word) => textWidth(word, TABLE_FONT, 600) + 12);
  const texts = isNumber(column)
    ? [unitText(column.unit, values.reduce((most, value) => Math.max(most, value ?? 0), 0)), column.unit === 'ns' ? '888.888 µs' : '']
    : [...new Set(values.map((value) => visible(value ?? '')))].sort((a, b) => b.length - a.length).slice(0, TABLE_MEASURED);
  return Math.ceil(Math.min(Math.max(...words, ...texts.map((text) => textWidth(text, TABLE_FONT))), TABLE_WIDEST)) + 2 * TABLE_PAD + 1;
}

/**
 * A table of a source: `{id, title, heading, help, head, n, columns, label(row), key, value(row), detail(row, query), below(row), find(query), first,
 * notes}`. `key` is what a row chooses, as `value`; with `detail` rows open. The order, the search and the page are in the address; `find` gives 1 for
 * the rows that have a text.
 */
export class DataTable {
  constructor(source, state) {
    Object.assign(this, source, { state, orders: new Map(), open: new Set(), opens: Boolean(source.detail) });
    this.perPage = this.opens ? TABLE_LONG_PAGE : TABLE_PAGE;
    this.headRow = this.heads();
    this.body = el('tbody', { onkeydown: (event) => this.press(event), onkeyup: (event) => this.keyUp(event), onclick: (event) => this.click(event) });
    this.search = searchField('Search', this.opens ? 'frame, collective, kernel or group' : 'part of a name', (q) => this.set({ q, page: null }));
    this.pager = el('div', { class: 'pager toolbar', role: 'group', 'aria-label': `Pages of ${this.title}` });
    const table = el('table', { class: this.opens ? 'stacks' : 'compact sorts' }, this.opens ? this.widths() : null, el('thead', null, this.headRow), this.body);
    if (this.opens) table.style.minWidth = `${this.wide}px`;
    const toolbar = this.opens || this.n > this.perPage ? this.search.node : null;
    const title = this.heading ?? this.title;
    // A small screen has room for three columns beside the name, as in the style sheet; the others are a press away.
    const more = button('All columns', () => table.classList.toggle('is-whole'), { class: 'small whole' });
    const content = [toolbar, scrollBox(title, table), this.columns.length > 3 ? more : null, this.pager, this.legend()];
    const notes = this.notes.map((note) => el('p', { class: 'muted' }, note));
    this.node = section(this.id, title, this.help, ...content, notes);
    this.select();
    this.render();
  }

  // Keys of tables whose rows open are bare, as a page has one of these; others have the table's name before them.
  name(key) {
    return this.opens ? key : `${this.id}-${key}`;
  }

  get(key) {
    return this.state.get(this.name(key));
  }

  set(change) {
    this.state.set(Object.fromEntries(Object.entries(change).map(([key, value]) => [this.name(key), value])));
  }

  legend() {
    const terms = this.columns.filter(({ help }) => help).map(({ title, help }) => [headText(title), help]);
    const keys = this.opens ? el('p', null, 'Keys in the table: ↑ ↓ another row, Enter chooses, → or Space opens the call stack, ← closes it.') : null;
    return terms.length === 0 && !keys ? null : details({ class: 'legend' }, 'What the columns mean', termList(terms), keys);
  }

  heads() {
    const cell = (key, title, help, number) => {
      const sorts = button(title, () => this.sortBy(key), { title: help || null });
      return el('th', { scope: 'col', class: number ? 'number' : null, 'data-key': key }, sorts);
    };
    const number = this.opens ? cell('number', '#', 'the order of the answer', true) : null;
    const columns = this.columns.map((column) => cell(column.key, headText(column.title), column.help, isNumber(column)));
    return el('tr', null, number, cell('label', headText(this.head), 'by name', this.isNumbered), columns);
  }

  // Fixed widths: columns do not jump between pages, and a hundred rows are laid out in a fraction of the time.
  widths() {
    const of = this.columns.map((column) => [column.key, tableWidth(column, column.values)]);
    const number = tableWidth({ title: '#', unit: 'count' }, [this.n]);
    this.wide = of.reduce((sum, [, width]) => sum + width, TABLE_NAME + number);
    const col = (key, width) => el('col', { class: `col-${key}`, style: width ? `width: ${width}px` : null });
    return el('colgroup', null, col('number', number), col('label'), of.map(([key, width]) => col(key, width)));
  }

  /** The column in whose order the rows are, and whether the smallest comes first. */
  get sort() {
    const [key, direction] = (this.get('sort') ?? this.first ?? 'number').split('.');
    const isNatural = TABLE_NATURAL.includes(key);
    const isKnown = isNatural || this.columns.some((column) => column.key === key);
    return isKnown ? { key, up: direction ? direction === 'asc' : isNatural } : { key: 'number', up: true };
  }

  sortBy(key) {
    const { key: before, up } = this.sort;
    const nextUp = before === key ? !up : TABLE_NATURAL.includes(key);
    this.set({ sort: `${key}.${nextUp ? 'asc' : 'desc'}`, page: null });
  }

  // The permutation of a column, smallest first. Equal values keep the order of the answer, even when it is read backwards.
  order(key) {
    if (this.orders.has(key)) return this.orders.get(key);
    const order = Uint32Array.from({ length: this.n }, (_, row) => row);
    if (key === 'label') {
      const labels = Array.from(order, (row) => (this.isNumbered ? this.value(row) : this.label(row)));
      order.sort((a, b) => (labels[a] < labels[b] ? -1 : labels[a] > labels[b] ? 1 : a - b));
    } else if (key !== 'number') {
      const { sorted } = this.columns.find((column) => column.key === key);
      order.sort((a, b) => sorted[a] - sorted[b] || b - a);
    }
    this.orders.set(key, order);
    return order;
  }

  isChosen(row) {
    return Boolean(this.key) && this.state.get(this.key) === this.value(row);
  }

  select() {
    const { key, up } = this.sort;
    const order = this.order(key);
    this.query = this.get('q') ?? '';
    const wanted = this.query.trim() === '' ? null : this.find(this.query);
    this.shown = (up ? order : order.slice().reverse()).filter((row) => !wanted || wanted[row] === 1);
    this.search.status.textContent = wanted ? `${count(this.shown.length)} of ${count(this.n)} match` : this.n > this.perPage ? `${count(this.n)} in all` : '';
    if (this.search.input.value !== this.query) this.search.input.value = this.query;
    for (const th of this.headRow.children) {
      if (th.dataset.key === key) th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      else th.removeAttribute('aria-sort');
    }
  }

  render() {
    const pages = Math.max(1, Math.ceil(this.shown.length / this.perPage));
    this.page = Math.min(Math.max(0, (Math.floor(this.get('page')) || 1) - 1), pages - 1);
    const rows = this.shown.subarray(this.page * this.perPage, (this.page + 1) * this.perPage);
    const chosen = rows.find((row) => this.isChosen(row));
    this.focused = rows.includes(this.focused) ? this.focused : (chosen ?? rows[0]);
    const nodes = [...rows].flatMap((row) => this.rows(row));
    this.body.replaceChildren(...nodes);
    if (rows.length === 0 && this.n > 0) {
      this.body.append(el('tr', null, el('td', { colSpan: this.columns.length + 2, class: 'muted' }, 'Nothing has this text in a name, frame, kernel, collective or group.')));
    }
    this.pages(pages);
  }

  pages(pages) {
    this.pager.hidden = pages < 2;
    const go = (text, page, label) => {
      const disabled = page < 0 || page >= pages || page === this.page;
      return button(text, () => this.set({ page: page === 0 ? null : page + 1 }), { disabled, 'aria-label': label });
    };
    const from = this.page * this.perPage;
    const range = `${count(from + 1)}–${count(Math.min(from + this.perPage, this.shown.length))} of ${count(this.shown.length)}`;
    const before = [go('«', 0, 'First page'), go('‹', this.page - 1, 'Page before')];
    const after = [go('›', this.page + 1, 'Next page'), go('»', pages - 1, 'Last page')];
    this.pager.replaceChildren(...before, el('span', null, range), ...after);
  }

  rows(row) {
    const cells = this.columns.map((column) => {
      const text = unitText(column.unit, column.values[row]);
      if (!isNumber(column)) return el('td', { class: !this.opens && text.length > TABLE_TEXT ? 'long' : null }, nameNode(text));
      if (!this.opens || column.largest === 0) return el('td', { class: 'number' }, text);
      // The bar of a time has the colour of its kind, if it is one.
      const share = Math.max(0, column.values[row] ?? 0) / column.largest;
      return el('td', { class: 'number bar', style: `--of: var(--${column.key}, var(--collective)); background-size: ${(share * 88).toFixed(1)}% 3px` }, text);
    });
    const number = this.opens ? el('td', { class: 'number muted' }, count(row + 1)) : null;
    const node = el('tr', { class: this.isChosen(row) ? 'row is-chosen' : 'row', 'data-id': row }, number, this.nameCell(row), cells);
    if (!this.open.has(row)) return [node];
    return [node, el('tr', { class: 'detail', 'data-of': row }, el('td', { colSpan: this.columns.length + 2 }, this.detail(row, this.query)))];
  }

  nameCell(row) {
    const label = this.label(row);
    const text = this.isNumbered ? label : nameNode(label);
    const current = { 'aria-current': String(this.isChosen(row)) };
    if (!this.opens) {
      const kind = this.isNumbered ? 'number' : label.length > TABLE_TEXT ? 'long' : null;
      return el('td', { class: kind }, this.key ? button(text, null, { class: 'small name', ...current }) : text);
    }
    const isOpen = this.open.has(row);
    const does = isOpen ? 'Close the call stack' : 'Open the call stack';
    const expand = button(isOpen ? '▾' : '▸', null, { class: 'expand', tabIndex: -1, 'aria-expanded': String(isOpen), 'aria-label': does, title: does });
    const name = button(text, null, { class: 'name', tabIndex: row === this.focused ? 0 : -1, title: visible(this.whole(row)), ...current });
    const below = this.below(row);
    return el('td', { class: 'from' }, el('div', { class: 'row-head' }, expand, name), below ? el('div', { class: 'what' }, nameNode(below)) : null);
  }

  mark() {
    for (const node of this.body.querySelectorAll('tr.row')) {
      const isChosen = this.isChosen(Number(node.dataset.id));
      node.classList.toggle('is-chosen', isChosen);
      node.querySelector('button.name')?.setAttribute('aria-current', String(isChosen));
    }
  }

  toggle(row, open = !this.open.has(row)) {
    if (!this.opens || open === this.open.has(row)) return;
    if (open) this.open.add(row);
    else this.open.delete(row);
    const node = this.rowOf(row);
    if (!node) return;
    const held = node.contains(document.activeElement) ? document.activeElement.className : null;
    if (!open) this.body.querySelector(`tr.detail[data-of="${row}"]`)?.remove();
    node.replaceWith(...this.rows(row));
    if (held) this.rowOf(row).querySelector(`button.${held}`)?.focus();
  }

  rowOf(row) {
    return this.body.querySelector(`tr.row[data-id="${row}"]`);
  }

  focus(node) {
    const name = node?.querySelector('button.name');
    if (!name) return;
    this.body.querySelectorAll('button.name[tabindex="0"]').forEach((other) => (other.tabIndex = -1));
    name.tabIndex = 0;
    this.focused = Number(node.dataset.id);
    name.focus();
  }

  press(event) {
    const node = event.target.closest('tr.row');
    if (!this.opens || !node || event.ctrlKey || event.metaKey || event.altKey) return;
    const row = Number(node.dataset.id);
    const rows = [...this.body.querySelectorAll('tr.row')];
    const to = { ArrowDown: rows.indexOf(node) + 1, ArrowUp: rows.indexOf(node) - 1, Home: 0, End: rows.length - 1 }[event.key];
    const opens = { ArrowRight: true, ArrowLeft: false, ' ': !this.open.has(row) }[event.key];
    if (to !== undefined) this.focus(rows[to]);
    else if (opens !== undefined) this.toggle(row, opens);
    else return;
    event.preventDefault();
  }

  // Firefox activates a button on Space's keyup.
  keyUp(event) {
    if (this.opens && event.key === ' ' && event.target.closest('tr.row')) event.preventDefault();
  }

  click(event) {
    const node = event.target.closest('tr.row');
    if (!node || !this.key || String(getSelection()) !== '') return;
    this.focused = Number(node.dataset.id);
    if (event.target.closest('.expand')) return this.toggle(this.focused);
    this.state.set({ [this.key]: this.isChosen(this.focused) ? null : this.value(this.focused) });
  }

  // Turns to the page of the chosen row, if it was chosen elsewhere.
  follow() {
    const page = Math.floor(this.shown.findIndex((row) => this.isChosen(row)) / this.perPage);
    if (page >= 0 && page !== this.page) this.state.set({ [this.name('page')]: page === 0 ? null : page + 1, view: this.state.get('view') });
  }

  update(state, changed) {
    const [isOther, isTurned] = [changed.has(this.name('sort')) || changed.has(this.name('q')), changed.has(this.name('page'))];
    if (isOther) this.select();
    if (isOther || isTurned) this.render();
    if (changed.has(this.key)) this.mark();
    if (changed.has(this.key) && !isTurned) this.follow();
    const chosen = state.get(this.key);
    if (!this.opens || !changed.has('view') || state.get('view') !== this.id || chosen === null) return;
    // A link to a row opens it, once the page has scrolled to the table.
    setTimeout(() => {
      this.toggle(chosen, true);
      this.rowOf(chosen)?.scrollIntoView({ block: 'nearest' });
    });
  }
}

/** A view of one of the program's tables, whose first column names the row; null without that table. `key` is what a row chooses. */
export function mountSheet(id, key = null) {
  return (model, state) => {
    const sheet = model.sheets[id];
    if (!sheet || sheet.rows.length === 0) return null;
    const { title, question: help, rows, found } = sheet;
    const [head, ...others] = sheet.columns;
    const isNumbered = isNumber(head);
    const texts = rows.map((cells) => cells.map((value, at) => unitText(sheet.columns[at].unit, value)).join('\n').toLowerCase());
    const source = {
      id,
      title,
      help,
      head: head.title,
      isNumbered,
      n: rows.length,
      columns: others.map((column, at) => tableColumn(column, rows.map((cells) => cells[at + 1] ?? null))),
      label: (row) => unitText(head.unit, rows[row][0]),
      key,
      value: (row) => (isNumbered ? rows[row][0] : row),
      find: (query) => Uint8Array.from(texts, (text) => (text.includes(query.trim().toLowerCase()) ? 1 : 0)),
      notes: found > rows.length ? [`${count(found - rows.length)} more rows are not here.`] : [],
    };
    return new DataTable(source, state);
  };
}
