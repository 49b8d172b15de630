// The contents of NCCL's own records, or the ranks that enter late: first what was found, then the program's tables.

import { el, nameNode, section } from './dom.js';
import { sheetTable } from './sheet.js';

/** The records, or null without their documents. */
export function mountRecords(model) {
  const { records, entries } = model.docs;
  if (!records && !entries) return null;
  const title = records ? 'NCCL’s own records' : 'Who enters late';
  const tables = Object.values(model.sheets).flatMap((sheet) => sheetTable(sheet));
  const node = section('records', title, null, records ? recordFindings(records.findings) : null, ...tables);
  return { id: 'records', title: records ? 'Records' : title, node, update() {}, paint() {} };
}

function recordFindings(findings) {
  if (findings.length === 0) return el('p', {}, 'Nothing is off.');
  const item = ({ what, evidence, advice }) =>
    el('li', { class: 'note' }, nameNode([what, ...evidence].join(' ')), advice ? el('strong', {}, ' ', nameNode(`First: ${advice}`)) : null);
  return el('ul', { class: 'checks' }, findings.map(item));
}
