// Elements. Names from traces only become text nodes, never markup, so that a name cannot inject anything.

import { visible } from './format.js';

/** An element with properties, attributes (`aria-…`, `data-…`, `role` and the like), listeners (`onclick`) and children. */
export function el(tag, properties, ...children) {
  const node = document.createElement(tag);
  fill(node, properties);
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

function fill(node, properties) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'class') node.className = value;
    else if (name in node && !name.includes('-') && name !== 'list' && name !== 'role') node[name] = value;
    else node.setAttribute(name, value === true ? '' : value);
  }
}

/** A name from a trace, as text that cannot affect its surroundings. */
export function nameNode(name, properties) {
  return el('bdi', properties, visible(name));
}

/** A part of the page: a heading, a sentence on what it shows, and its content. */
export function section(id, title, help, ...content) {
  return el(
    'section',
    { id, 'aria-labelledby': `${id}-title` },
    el('h2', { id: `${id}-title`, tabIndex: -1 }, title),
    help ? el('p', { class: 'help' }, help) : null,
    ...content,
  );
}

/** A choice between some words, as buttons. `options` are `[value, label]`. Returns its node and a function that shows another choice. */
export function choice(label, options, value, onChoose) {
  const buttons = options.map(([of, text]) => el('button', { type: 'button', onclick: () => onChoose(of), 'data-value': of }, text));
  const show = (chosen) => buttons.forEach((button) => button.setAttribute('aria-pressed', String(button.dataset.value === String(chosen))));
  show(value);
  return { node: el('div', { class: 'choice', role: 'group', 'aria-label': label }, el('span', { class: 'label' }, `${label}:`), buttons), show };
}

/** A box for content wider than the screen: it scrolls, also with the keyboard. */
export function scrollBox(label, ...content) {
  return el('div', { class: 'scroll', tabIndex: 0, role: 'group', 'aria-label': label }, ...content);
}
