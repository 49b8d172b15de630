// Next steps: commands that give the same answers in a terminal, and the answers as files.
// Files are made from the page's data, so that they are the program's own answers, byte for byte.

import { unpackText } from './decode.js';
import { button, copyButton, el, nameNode, section, smallTable } from './dom.js';
import { count, visible } from './format.js';

function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const link = el('a', { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

export function command(text, what) {
  return el('div', { class: 'command' }, el('code', null, nameNode(text)), copyButton('Copy', () => visible(text), { 'aria-label': `Copy: ${what}` }));
}

function commandsFiles({ files, page: { documents, tables } }) {
  const row = (file, what, size, type, text) => {
    const save = button('Save', async () => download(file, type, await text()), { class: 'small', 'aria-label': `Save ${file}` });
    return [file, what, size, save];
  };
  const json = ([name, { file }]) => row(file, `all of ${name}, as JSON`, `${count(files[name].length)} characters`, 'application/json', () => files[name]);
  const csv = ([name, { file, data }]) => row(file, `${name}, as CSV`, '', 'text/csv', () => unpackText(data));
  return [...Object.entries(documents).map(json), ...Object.entries(tables).map(csv)];
}

export function mountCommands(model) {
  const items = model.page.commands.map(({ text, what }) => el('li', null, el('p', { class: 'what' }, nameNode(what)), command(text, what)));
  const files = el('div', { class: 'files' }, smallTable('Files', [['Name'], ['What it has'], ['Size', true], ['']], commandsFiles(model)));
  const help = 'How to get the same answers on a terminal, and as files? Files are made of this page; nothing is fetched.';
  return { id: 'commands', title: 'Commands and files', node: section('commands', 'Commands and files', help, el('ul', { class: 'commands' }, items), files) };
}
