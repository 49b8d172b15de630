// The table of stacks: where collectives come from and what each place costs, with sorting, search and pages of rows.
//
// Rows are numbers until they are shown: columns are arrays, a sort order is a permutation that is kept, and a search looks at each text once.
// So 50,000 stacks are as quick as five.

import { textWidth } from './canvas.js';
import { copyText } from './commands.js';
import { stackDetail } from './detail.js';
import { el, nameNode, scrollBox, section } from './dom.js';
import { count, duration, size, visible } from './format.js';
import { matchStacks, matchTexts } from './model.js';
import { headText, isNumber, sheetLegend, unitText } from './sheet.js';
import { TRUST_REASONS } from './trust.js';

const TABLE_PAGE = 100;

// This many rows fill a screen; the rest is built after they are shown.
const TABLE_FIRST = 30;

// As in the style sheet: the size of the text, the space beside it, the widest text and the narrowest name, in pixels.
const TABLE_FONT = 13;
const TABLE_PAD = 5;
const TABLE_WIDEST = 170;
const TABLE_NAME = 220;

// Of so many texts, the longest, one is the widest.
const TABLE_MEASURED = 20;

// Columns of the table of stacks, after the name, that the page shows beside it, or that repeat another table's.
const TABLE_BESIDE = ['#', 'collective'];

/** The columns of the program's tables of stacks: of the costs, then of the waiting. `at(id)` is the row of a stack in the second table. */
function tableColumns({ sheets, stacks, docs, ofRankStack }) {
  const rowOf = new Int32Array(stacks.length).fill(-1);
  ofRankStack.forEach((id, at) => {
    if (id >= 0) rowOf[id] = at;
  });
  const known = new Set(TABLE_BESIDE);
  const columns = [];
  const add = (sheet, at) => {
    sheet?.columns.forEach((column, place) => {
      if (place === 0 || known.has(column.title)) return;
      known.add(column.title);
      const values = stacks.map(({ id }) => sheet.rows[at(id)]?.[place] ?? null);
      if (values.every((value) => value === null)) return;
      const largest = tableLargest(column, values);
      columns.push({ ...column, key: tableKey(column), values, sorted: tableSorted(column, values), largest, width: tableWidth(column, values) });
    });
  };
  add(sheets.stacks, (id) => id);
  add(sheets.waits, (id) => (docs.stacks ? rowOf[id] : id));
  return columns;
}

/** The name of a column in addresses and styles: `gpu-time`. */
function tableKey({ title }) {
  return title.toLowerCase().replace(/[^a-z]+/g, '-').replace(/-$/, '');
}

/** Numbers in whose order the values are: the values themselves, or the places of texts. */
function tableSorted(column, values) {
  if (isNumber(column)) return Float64Array.from(values, (value) => value ?? -1);
  const texts = [...new Set(values.map((value) => value ?? ''))].sort();
  const place = new Map(texts.map((text, at) => [text, at]));
  return Float64Array.from(values, (value) => place.get(value ?? ''));
}

/** The largest time of a column, for its bars; 0 where there are none. */
function tableLargest({ unit }, values) {
  return unit === 'ns' ? values.reduce((most, value) => Math.max(most, value ?? 0), 0) : 0;
}

/** The pixels that a column needs: for the longest word of its head with the mark of its order, and for its longest value. */
function tableWidth(column, values) {
  const words = headText(column.title).split(' ').map((word) => textWidth(word, TABLE_FONT, 600) + 12);
  const texts = isNumber(column)
    ? [unitText(column.unit, values.reduce((most, value) => Math.max(most, value ?? 0), 0)), column.unit === 'ns' ? '888.888 µs' : '']
    : [...new Set(values.map((value) => visible(value ?? '')))].sort((a, b) => b.length - a.length).slice(0, TABLE_MEASURED);
  return Math.ceil(Math.min(Math.max(...words, ...texts.map((text) => textWidth(text, TABLE_FONT))), TABLE_WIDEST)) + 2 * TABLE_PAD + 1;
}

class StackTable {
  constructor(model, state) {
    this.model = model;
    this.state = state;
    this.columns = tableColumns(model);
    this.orders = new Map();
    this.open = new Set();
    this.page = 0;
    this.first = model.docs.ranks && this.columns.some(({ key }) => key === 'waited') ? 'waited' : 'number';
    this.head = this.headRow();
    const listeners = { onkeydown: (event) => this.key(event), onkeyup: (event) => this.keyUp(event), onclick: (event) => this.click(event) };
    this.body = el('tbody', listeners);
    this.status = el('p', { class: 'muted', role: 'status' });
    this.input = el('input', { type: 'search', spellcheck: false, autocomplete: 'off', placeholder: 'frame, collective, kernel or group' });
    this.input.addEventListener('input', () => this.state.set({ q: this.input.value, page: null }));
    this.pager = el('div', { class: 'pager toolbar', role: 'group', 'aria-label': 'Pages of the table' });
    this.build();
  }

  build() {
    const { model } = this;
    const many = model.docs.stacks?.groups?.length > 0 ? 'groups' : 'stacks';
    const label = el('label', { class: 'search' }, el('span', { class: 'label' }, 'Search'), this.input);
    const table = el('table', { class: 'stacks' }, this.widths(), el('thead', null, this.head), this.body);
    table.style.minWidth = `${this.columns.reduce((sum, { width }) => sum + width, TABLE_NAME + this.numberWidth())}px`;
    const scroll = scrollBox(`Table of ${many}`, table);
    const what = many === 'groups' ? 'a group of kernels. ▸ opens it' : 'a place in the code that launches collectives. ▸ opens its call stack';
    const help = `Each row is ${what}; a click on its name chooses it in all views.`;
    const toolbar = el('div', { class: 'toolbar' }, label, this.status);
    this.node = section('stacks', many === 'groups' ? 'Groups' : 'Stacks', help, toolbar, scroll, this.pager, this.legend());
    for (const note of this.notes()) this.node.append(el('p', { class: 'muted' }, note));
  }

  notes() {
    const { stacks, ranks } = this.model.docs;
    const notes = [];
    if (stacks?.kernels_left_out > 0) {
      const found = stacks.groups_found || stacks.stacks_found;
      notes.push(`${count(this.model.stacks.length)} of ${count(found)} are here; the others have ${count(stacks.kernels_left_out)} kernels.`);
    }
    for (const [reason, of] of Object.entries(stacks?.groups?.length > 0 ? {} : (stacks?.coverage.without_launch ?? {}))) {
      const cost = `${count(of.count)} kernels, GPU ${duration(of.gpu_time_ns)}, exposed ${duration(of.exposed_ns)}`;
      notes.push(`Without a launch (${TRUST_REASONS[reason] ?? reason}), and so in no row: ${cost}.`);
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

  legend() {
    const keys = 'Keys in the table: ↑ ↓ another row, Enter chooses, → or Space opens the call stack, ← closes it.';
    return sheetLegend(this.columns, el('p', null, keys));
  }

  headRow() {
    const cell = (key, title, help, isNumber) => {
      const button = el('button', { type: 'button', title: help, onclick: () => this.sortBy(key) }, title);
      return el('th', { scope: 'col', class: isNumber ? 'number' : null, 'data-key': key }, button);
    };
    const columns = this.columns.map((column) => cell(column.key, headText(column.title), column.help, isNumber(column)));
    return el('tr', null, cell('number', '#', 'the order of the answer', true), cell('label', 'Where it comes from', 'by name', false), columns);
  }

  // Fixed widths: columns do not jump between pages, and a hundred rows are laid out in a fraction of the time.
  widths() {
    const col = (key, width) => {
      const node = el('col', { class: `col-${key}` });
      if (width) node.style.width = `${width}px`;
      return node;
    };
    return el('colgroup', null, col('number', this.numberWidth()), col('label'), this.columns.map(({ key, width }) => col(key, width)));
  }

  numberWidth() {
    return tableWidth({ title: '#', unit: 'count' }, [this.model.stacks.length]);
  }

  get sort() {
    const [key, direction] = (this.state.get('sort') ?? this.first).split('.');
    const known = key === 'label' || key === 'number' || this.columns.some((column) => column.key === key);
    const up = direction ? direction === 'asc' : key === 'label' || key === 'number';
    return known ? { key, up } : { key: this.first, up: this.first === 'number' };
  }

  sortBy(key) {
    const { key: before, up } = this.sort;
    const natural = key === 'label' || key === 'number';
    const nextUp = before === key ? !up : natural;
    this.state.set({ sort: `${key}.${nextUp ? 'asc' : 'desc'}`, page: null });
  }

  // The permutation of a column, smallest first. Equal values keep the order of the answer, even when it is read backwards.
  order(key) {
    let order = this.orders.get(key);
    if (order) return order;
    const { stacks } = this.model;
    order = Uint32Array.from(stacks, (stack) => stack.id);
    if (key === 'label') {
      const labels = stacks.map((stack) => stack.label);
      order = Uint32Array.from([...order].sort((a, b) => (labels[a] < labels[b] ? -1 : labels[a] > labels[b] ? 1 : a - b)));
    } else if (key !== 'number') {
      const { sorted } = this.columns.find((column) => column.key === key);
      order.sort((a, b) => sorted[a] - sorted[b] || b - a);
    }
    this.orders.set(key, order);
    return order;
  }

  // Computes the orders one after another while the page is idle, so that the first click on a header is as quick as the second.
  warm(keys = ['label', 'number', ...this.columns.map(({ key }) => key)]) {
    if (keys.length === 0) return;
    this.order(keys[0]);
    setTimeout(() => this.warm(keys.slice(1)), 30);
  }

  choose(id) {
    this.state.set({ stack: this.state.get('stack') === id ? null : id });
  }

  // Selects the listed stacks, in their order.
  select() {
    const { key, up } = this.sort;
    const order = this.order(key);
    const query = this.state.get('q') ?? '';
    this.hits = matchTexts(this.model, query);
    const wanted = this.hits && matchStacks(this.model, this.hits);
    const shown = new Uint32Array(order.length);
    let found = 0;
    for (let i = 0; i < order.length; i += 1) {
      const id = order[up ? i : order.length - 1 - i];
      if (!wanted || wanted[id] === 1) shown[found++] = id;
    }
    this.shown = shown.subarray(0, found);
    const all = this.model.stacks.length;
    this.status.textContent = this.hits ? `${count(found)} of ${count(all)} match` : all > TABLE_PAGE ? `${count(all)} in all` : '';
    if (this.input.value !== query) this.input.value = query;
    for (const th of this.head.children) {
      if (th.dataset.key === key) th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
      else th.removeAttribute('aria-sort');
    }
  }

  render() {
    const pages = Math.max(1, Math.ceil(this.shown.length / TABLE_PAGE));
    this.page = Math.min(Math.max(0, (this.state.get('page') ?? 1) - 1), pages - 1);
    const ids = this.shown.subarray(this.page * TABLE_PAGE, (this.page + 1) * TABLE_PAGE);
    this.focused = ids.includes(this.focused) ? this.focused : ids.includes(this.state.get('stack')) ? this.state.get('stack') : ids[0];
    const rows = (some) => [...some].flatMap((id) => this.rows(this.model.stacks[id]));
    this.body.replaceChildren(...rows(ids.subarray(0, TABLE_FIRST)));
    clearTimeout(this.later);
    if (ids.length > TABLE_FIRST) this.later = setTimeout(() => this.body.append(...rows(ids.subarray(TABLE_FIRST))));
    if (ids.length === 0) {
      const none = 'No stack has this text in a frame, kernel, collective or group.';
      this.body.append(el('tr', null, el('td', { colSpan: this.columns.length + 2, class: 'muted' }, none)));
    }
    this.pages(pages);
  }

  pages(pages) {
    this.pager.hidden = pages < 2;
    const go = (text, page, label) => {
      const off = page < 0 || page >= pages || page === this.page;
      const show = () => this.state.set({ page: page === 0 ? null : page + 1 });
      return el('button', { type: 'button', disabled: off, 'aria-label': label, onclick: show }, text);
    };
    const from = this.page * TABLE_PAGE;
    const range = `${count(from + 1)}–${count(Math.min(from + TABLE_PAGE, this.shown.length))} of ${count(this.shown.length)}`;
    const before = [go('«', 0, 'First page'), go('‹', this.page - 1, 'Page before')];
    const after = [go('›', this.page + 1, 'Next page'), go('»', pages - 1, 'Last page')];
    this.pager.replaceChildren(...before, el('span', null, range), ...after);
  }

  rows(stack) {
    const open = this.open.has(stack.id);
    const cells = this.columns.map((column) => {
      const value = column.values[stack.id];
      const text = unitText(column.unit, value);
      if (!isNumber(column)) return el('td', null, nameNode(text));
      const share = column.largest > 0 ? Math.max(0, value ?? 0) / column.largest : 0;
      const cell = el('td', { class: column.largest > 0 ? `number bar of-${column.key}` : 'number' }, text);
      if (share > 0) cell.style.backgroundSize = `${(share * 88).toFixed(1)}% 3px`;
      return cell;
    });
    const isChosen = this.state.get('stack') === stack.id;
    const number = el('td', { class: 'rank-of' }, count(stack.id + 1));
    const row = el('tr', { class: isChosen ? 'row is-chosen' : 'row', 'data-id': stack.id }, number, this.nameCell(stack, open), cells);
    return open ? [row, this.detailRow(stack)] : [row];
  }

  nameCell(stack, open) {
    // The folders of the file go below its name, so that names in a column can be compared.
    const found = /^.*\/(?=[^/]*\(\d+\): )/.exec(stack.headline ?? '')?.[0] ?? '';
    const folder = stack.label.startsWith(found) ? found : '';
    const { min, max } = stack.bytes ?? {};
    const bytes = !stack.bytes ? '' : min === max ? size(max) : `${size(min)} to ${size(max)}`;
    const what = [[stack.collectives, bytes].filter((part) => part).join(', '), folder].filter((part) => part).join(' · ');
    const step = stack.id === this.focused ? 0 : -1;
    const does = open ? 'Close the call stack' : 'Open the call stack';
    const expand = { type: 'button', class: 'expand', tabIndex: -1, 'aria-expanded': String(open), 'aria-label': does, title: does };
    const isChosen = String(this.state.get('stack') === stack.id);
    const name = { type: 'button', class: 'name', tabIndex: step, title: visible(stack.label), 'aria-current': isChosen };
    return el(
      'td',
      { class: 'from' },
      el('div', { class: 'row-head' }, el('button', expand, open ? '▾' : '▸'), el('button', name, nameNode(stack.label.slice(folder.length)))),
      what ? el('div', { class: 'what' }, nameNode(what)) : null,
    );
  }

  detailRow(stack) {
    const cell = el('td', { colSpan: this.columns.length + 2 }, stackDetail(stack, this.hits, copyText));
    return el('tr', { class: 'detail', 'data-of': stack.id }, cell);
  }

  mark() {
    const chosen = this.state.get('stack');
    for (const row of this.body.querySelectorAll('tr.row')) row.classList.toggle('is-chosen', Number(row.dataset.id) === chosen);
    for (const name of this.body.querySelectorAll('button.name')) {
      name.setAttribute('aria-current', String(Number(name.closest('tr').dataset.id) === chosen));
    }
  }

  toggle(id, open = !this.open.has(id)) {
    if (open === this.open.has(id)) return;
    if (open) this.open.add(id);
    else this.open.delete(id);
    const row = this.rowOf(id);
    if (!row) return;
    const held = row.contains(document.activeElement) ? document.activeElement.className : null;
    if (!open) this.body.querySelector(`tr.detail[data-of="${id}"]`)?.remove();
    row.replaceWith(...this.rows(this.model.stacks[id]));
    if (held) this.rowOf(id).querySelector(`button.${held}`)?.focus();
  }

  rowOf(id) {
    return this.body.querySelector(`tr.row[data-id="${id}"]`);
  }

  focus(row) {
    const name = row?.querySelector('button.name');
    if (!name) return;
    this.body.querySelectorAll('button.name[tabindex="0"]').forEach((other) => (other.tabIndex = -1));
    name.tabIndex = 0;
    this.focused = Number(row.dataset.id);
    name.focus();
  }

  key(event) {
    const row = event.target.closest('tr.row');
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const next = (from, way) => {
      let to = from[way];
      while (to && !to.classList.contains('row')) to = to[way];
      return to;
    };
    const id = Number(row.dataset.id);
    if (event.key === 'ArrowDown') this.focus(next(row, 'nextElementSibling'));
    else if (event.key === 'ArrowUp') this.focus(next(row, 'previousElementSibling'));
    else if (event.key === 'Home') this.focus(this.body.querySelector('tr.row'));
    else if (event.key === 'End') this.focus([...this.body.querySelectorAll('tr.row')].at(-1));
    else if (event.key === 'ArrowRight') this.toggle(id, true);
    else if (event.key === 'ArrowLeft') this.toggle(id, false);
    else if (event.key === ' ') this.toggle(id);
    else return;
    event.preventDefault();
  }

  // Firefox activates a button on Space's keyup.
  keyUp(event) {
    if (event.key === ' ' && event.target.closest('tr.row')) event.preventDefault();
  }

  click(event) {
    const row = event.target.closest('tr.row');
    if (!row || String(getSelection()) !== '') return;
    const id = Number(row.dataset.id);
    this.focused = id;
    if (event.target.closest('.expand')) this.toggle(id);
    else this.choose(id);
  }

  // Turns to the page of the selected stack, if it was selected elsewhere.
  follow() {
    const at = this.shown.indexOf(this.state.get('stack'));
    if (at < 0 || Math.floor(at / TABLE_PAGE) === this.page) return false;
    const page = Math.floor(at / TABLE_PAGE);
    this.state.set({ page: page === 0 ? null : page + 1, view: this.state.get('view') });
    return true;
  }

  update(state, changed) {
    if (changed.has('sort') || changed.has('q')) this.select();
    if (['sort', 'q', 'page'].some((key) => changed.has(key))) this.render();
    else if (changed.has('stack')) this.mark();
    if (changed.has('stack') && !changed.has('page') && state.get('stack') !== null) this.follow();
    if (changed.has('view') && state.get('view') === 'stacks' && state.get('stack') !== null) this.reveal(state.get('stack'));
  }

  // A link to a stack opens it, once the page has scrolled to the table.
  reveal(id) {
    setTimeout(() => {
      this.toggle(id, true);
      this.rowOf(id)?.scrollIntoView({ block: 'nearest' });
    });
  }
}

/** The stacks, or the groups of a document that is grouped by other keys. */
export function mountTable(model, state) {
  if (model.stacks.length === 0) return null;
  const table = new StackTable(model, state);
  table.select();
  table.render();
  setTimeout(() => table.warm(), 300);
  return {
    id: 'stacks',
    title: table.node.querySelector('h2').textContent,
    node: table.node,
    update: (now, changed) => table.update(now, changed),
    paint() {},
  };
}
