// Next steps: commands that give the same answers in a terminal, and the answers as files.
//
// Files are made from the page's data, so that they are the program's own answers, byte for byte.

import { unpackText } from './decode.js';
import { el, nameNode, section } from './dom.js';
import { count } from './format.js';

/** Copies a text and confirms it on the button. Where pages have no clipboard, as for files in some browsers, the text is selected instead. */
export async function copyText(text, button, shown) {
  const before = button.textContent;
  let said = 'Copied';
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    said = commandsCopySelected(text, shown) ? 'Copied' : 'Selected: press Ctrl+C';
  }
  button.textContent = said;
  setTimeout(() => (button.textContent = before), 1500);
}

// A text area holds the text if no element of the page shows it; `execCommand` is old, but works without a secure origin.
function commandsCopySelected(text, shown) {
  const area = shown ? null : el('textarea', { value: text, 'aria-label': 'Text to copy', class: 'copied' });
  if (area) {
    document.body.append(area);
    area.select();
  } else {
    getSelection().selectAllChildren(shown);
  }
  const worked = document.execCommand('copy');
  if (area && worked) area.remove();
  return worked;
}

/** Offers a file for download. */
function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = el('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** A command, with a button that copies it, as an item of a list. */
function commandsItem({ text, what }) {
  const code = el('code', null, nameNode(text));
  const button = el('button', { type: 'button', class: 'small', 'aria-label': `Copy: ${what}`, onclick: () => copyText(text, button, code) }, 'Copy');
  return el('li', null, el('p', { class: 'what' }, nameNode(what)), el('div', { class: 'command' }, code, button));
}

function commandsFiles(model) {
  const { documents, tables } = model.page;
  const row = (file, what, size, give) => {
    const button = el('button', { type: 'button', class: 'small', 'aria-label': `Save ${file}`, onclick: give }, 'Save');
    return el('tr', null, el('td', null, nameNode(file)), el('td', null, what), el('td', { class: 'number' }, size), el('td', null, button));
  };
  const json = Object.entries(documents ?? {}).map(([name, { file }]) => {
    const text = model.texts[name];
    return row(file, `all of ${name}, as JSON`, `${count(text.length)} characters`, () => download(file, 'application/json', text));
  });
  const csv = Object.entries(tables ?? {}).map(([name, { file, data }]) =>
    row(file, `${name}, as CSV`, '', async () => download(file, 'text/csv', await unpackText(data))),
  );
  return [...json, ...csv];
}

/** Commands and files. */
export function mountCommands(model) {
  const commands = model.page.commands ?? [];
  const files = commandsFiles(model);
  if (commands.length === 0 && files.length === 0) return null;
  const node = section(
    'commands',
    'Commands and files',
    'The same answers on a terminal, and as files for scripts. Files are made of this page; nothing is fetched.',
    commands.length > 0 ? el('ul', { class: 'commands' }, commands.map(commandsItem)) : null,
    files.length > 0
      ? el('table', { class: 'compact files' }, el('caption', null, 'Files'), el('tbody', null, files))
      : null,
  );
  return { id: 'commands', title: 'Commands and files', node, update() {}, paint() {} };
}
