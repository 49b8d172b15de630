// Elements. Names from traces only become text nodes, never markup, so that a name cannot inject anything.

import { visible } from './format.js';

/** An element with properties, attributes (`aria-…`, `data-…`, `role` and the like), listeners (`onclick`) and children. */
export function el(tag, properties, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'class') node.className = value;
    else if (name in node && !name.includes('-') && name !== 'role') node[name] = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** A name from a trace, as text that cannot affect its surroundings. */
export function nameNode(name, properties) {
  return el('bdi', properties, visible(name));
}

/** A part of the page: a heading, a sentence on what it shows, and its content. */
export function section(id, title, help, ...content) {
  const heading = el('h2', { id: `${id}-title`, tabIndex: -1 }, title);
  return el('section', { id, 'aria-labelledby': `${id}-title` }, heading, help ? el('p', { class: 'help' }, help) : null, ...content);
}

export function details(properties, summary, ...content) {
  return el('details', properties, el('summary', null, summary), ...content);
}

export function button(text, onclick, properties) {
  return el('button', { type: 'button', onclick, ...properties }, text);
}

/** A choice between some words, as buttons. `options` are `[value, label]`. Returns its node and a function that shows another choice. */
export function choice(label, options, value, onChoose) {
  const buttons = options.map(([of, text]) => button(text, () => onChoose(of), { 'data-value': of }));
  const show = (chosen) => buttons.forEach((of) => of.setAttribute('aria-pressed', String(of.dataset.value === String(chosen))));
  show(value);
  return { node: el('div', { class: 'choice', role: 'group', 'aria-label': label }, el('span', { class: 'label' }, `${label}:`), buttons), show };
}

/** A field to search with: its input, where it says what it found, and both with the label. */
export function searchField(label, placeholder, onSearch, onkeydown = null) {
  const input = el('input', { type: 'search', spellcheck: false, autocomplete: 'off', placeholder, onkeydown, oninput: () => onSearch(input.value) });
  const status = el('span', { class: 'muted', role: 'status' });
  const node = el('div', { class: 'toolbar' }, el('label', { class: 'search' }, el('span', { class: 'label' }, label), input), status);
  return { input, status, node };
}

export function swatch(colour, text) {
  return el('span', null, el('span', { class: 'swatch', style: `background: ${colour}` }), text);
}

/** A box for content wider than the screen: it scrolls, also with the keyboard. */
export function scrollBox(label, ...content) {
  return el('div', { class: 'scroll', tabIndex: 0, role: 'group', 'aria-label': label }, ...content);
}

/** A table of few rows. Columns are `[title, isNumber]`; cells are texts (or names), or nodes. */
export function smallTable(name, columns, rows, caption = name) {
  const cell = (value, at) => el('td', { class: columns[at][1] ? 'number' : null }, value instanceof Node ? value : nameNode(value ?? ''));
  const head = el('tr', null, columns.map(([text, isNumber]) => el('th', { scope: 'col', class: isNumber ? 'number' : null }, text)));
  const body = el('tbody', null, rows.map((row) => el('tr', null, row.map(cell))));
  return scrollBox(name, el('table', { class: 'compact' }, caption ? el('caption', null, caption) : null, el('thead', null, head), body));
}

/** A list of terms, each `[term, text]`; terms without a text are left out. */
export function termList(terms) {
  const known = terms.filter(([, text]) => text);
  return el('dl', { class: 'compact' }, known.flatMap(([term, text]) => [el('dt', null, term), el('dd', null, nameNode(text))]));
}

/** A button that copies a text, and confirms it. Where pages have no clipboard, as for files in some browsers, a field has the text. */
export function copyButton(title, text, properties) {
  const copy = async () => {
    const isWritten = await navigator.clipboard?.writeText(text()).then(() => true, () => false);
    node.dataset.said = isWritten ? '✓ copied' : '– selected: press Ctrl+C';
    const area = isWritten ? null : el('textarea', { value: text(), 'aria-label': 'Text to copy', class: 'copied' });
    if (area) document.body.append(area);
    area?.select();
    setTimeout(() => delete node.dataset.said, 1500);
  };
  const node = button(title, copy, { class: 'small', ...properties });
  return node;
}
