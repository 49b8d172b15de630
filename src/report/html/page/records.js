// The contents of NCCL's own records in short tables: first what is wrong, then collectives by size, and the ranks that enter late.

import { el, nameNode, scrollBox, section } from './dom.js';
import { bandwidth, count, duration, percent, size } from './format.js';
import { namesOf } from './model.js';

const RECORDS_PAGE = 20;

/** The records, or null without their documents. */
export function mountRecords(model) {
  const { records, entries } = model.docs;
  if (!records && !entries) return null;
  const node = section(
    'records',
    records ? 'NCCL’s own records' : 'Who enters late',
    null,
    ...(records ? recordParts(records) : []),
    ...(entries ? entryParts(entries) : []),
  );
  return { id: 'records', title: records ? 'Records' : 'Who enters late', node, update: () => {}, paint: () => {} };
}

/** A table: columns are `[heading, value of a row, is text]`. */
function recordTable(label, columns, rows) {
  const cell =
    (row) =>
    ([, value, isText]) => {
      const content = value(row);
      return el('td', { class: isText ? null : 'number' }, isText && typeof content === 'string' ? nameNode(content) : content);
    };
  const line = (row) => el('tr', {}, columns.map(cell(row)));
  const body = el('tbody', {}, rows.slice(0, RECORDS_PAGE).map(line));
  const more =
    rows.length <= RECORDS_PAGE
      ? null
      : el(
          'button',
          {
            type: 'button',
            onclick: () => {
              body.append(...rows.slice(RECORDS_PAGE, 5000).map(line));
              more.remove();
            },
          },
          `${count(rows.length - RECORDS_PAGE)} more`,
        );
  return [
    el('h3', {}, label),
    scrollBox(
      label,
      el(
        'table',
        { class: 'compact' },
        el(
          'thead',
          {},
          el(
            'tr',
            {},
            columns.map(([heading, , isText]) => el('th', { scope: 'col', class: isText ? null : 'number' }, heading)),
          ),
        ),
        body,
      ),
    ),
    more,
  ];
}

function recordParts(records) {
  const advice = (text) => (text ? el('strong', {}, ' ', nameNode(text)) : null);
  const off = records.findings.map((of) => el('li', { class: 'note' }, nameNode([of.what, ...of.evidence].join(' ')), advice(of.advice)));
  const left = records.rows_found - records.census.length;
  return [
    off.length > 0 ? el('ul', { class: 'checks' }, off) : el('p', {}, 'Nothing is off.'),
    ...recordFlows(records.flows?.runs ?? []),
    ...recordCensus(records.census),
    left > 0 ? el('p', { class: 'muted' }, `${count(left)} more rows are not here.`) : null,
    ...recordLinks(records.links),
    ...recordProxies(records.proxies),
    ...recordEvents(records.profiler_events),
  ];
}

function recordFlows(runs) {
  if (runs.length === 0) return [];
  const folder = ['folder', (of) => of.folder || 'this folder', true];
  const columns = [
    folder,
    ['ranks', (of) => count(of.ranks.length)],
    ['operations', (of) => count(of.ops)],
    ['steps', (of) => count(of.steps)],
    ['expected', (of) => (of.expected_steps === null ? '?' : count(of.expected_steps))],
    ['broken sequences', (of) => count(of.broken_sequences)],
    ['unpaired steps', (of) => count(of.unpaired_steps)],
    ['what is off', (of) => count(of.findings.length)],
  ];
  const links = runs.flatMap((of) => of.matrix.map((link) => ({ ...link, folder: of.folder })));
  const bytes = [folder, ['from rank', (of) => String(of.from)], ['to rank', (of) => String(of.to)], ['at most', (of) => size(of.bytes)]];
  return [
    ...recordTable('Folders of flow files', columns, runs),
    ...(links.length > 0 ? recordTable('Bytes from rank to rank', bytes, links.sort((a, b) => b.bytes - a.bytes)) : []),
  ];
}

function recordSize(of) {
  if (!of) return '';
  return of.min_bytes === of.max_bytes ? size(of.min_bytes) : `${size(of.min_bytes)} to ${size(of.max_bytes)}`;
}

function recordCensus(census) {
  if (census.length === 0) return [];
  const columns = [
    ['collective', (of) => of.collective ?? '?', true],
    ['communicator', (of) => of.communicator ?? '?', true],
    ['size', (of) => recordSize(of.size)],
    ['count', (of) => count(of.count)],
    ['ranks', (of) => count(of.ranks)],
  ];
  const some = (has, ...more) => {
    if (census.some(has)) columns.push(...more);
  };
  some(
    (of) => of.time,
    ['median', (of) => duration(of.time?.median_ns)],
    ['p95', (of) => duration(of.time?.p95_ns)],
    ['max', (of) => duration(of.time?.max_ns)],
    ['total', (of) => duration(of.time?.total_ns)],
  );
  some((of) => of.busbw_gb_per_s !== null, ['bus bandwidth', (of) => bandwidth(of.busbw_gb_per_s)]);
  some((of) => namesOf(of.algorithms), ['algorithm', (of) => namesOf(of.algorithms), true]);
  some((of) => namesOf(of.protocols), ['protocol', (of) => namesOf(of.protocols), true]);
  return recordTable('Collectives by size, those that took longest first', columns, census);
}

function recordLinks(links) {
  const known = links.filter((of) => of.gb_per_s !== null).sort((a, b) => a.gb_per_s - b.gb_per_s);
  if (known.length === 0) return [];
  const columns = [
    ['rank', (of) => `${of.rank ?? '?'}`],
    ['peer', (of) => `${of.peer}`],
    ['channel', (of) => `${of.channel}`],
    ['direction', (of) => of.direction, true],
    ['bytes', (of) => size(of.bytes)],
    ['busy', (of) => duration(of.busy_ns)],
    ['bandwidth', (of) => bandwidth(of.gb_per_s)],
  ];
  return recordTable('Slowest links', columns, known.slice(0, 20));
}

function recordProxies(proxies) {
  if (proxies.length === 0) return [];
  const columns = [
    ['rank', (of) => `${of.rank ?? '?'}`],
    ['direction', (of) => of.direction, true],
    ['GPU', (of) => duration(of.gpu_wait_ns)],
    ['peer', (of) => duration(of.peer_wait_ns)],
    ['network', (of) => duration(of.network_ns)],
    ['flush', (of) => duration(of.flush_ns)],
    ['bound by', (of) => (of.bound ? `${of.bound} ${percent(of.bound_share)}` : ''), true],
  ];
  return recordTable('What proxies waited for', columns, proxies);
}

function recordEvents(events) {
  if (events.length === 0) return [];
  const columns = [
    ['kind', (of) => of.kind, true],
    ['count', (of) => count(of.count)],
    ['time', (of) => (of.timed > 0 ? duration(of.time_ns) : '?')],
    ['bytes', (of) => (of.bytes === null ? '' : size(of.bytes))],
    ['ranks', (of) => count(of.ranks)],
  ];
  return recordTable('Other events of NCCL’s profiler', columns, events);
}

function entryParts(entries) {
  const slow = new Set(entries.slow.map((of) => of.row));
  const most = entries.ranks.reduce((before, of) => Math.max(before, ...of.lag_by_quarter_ns), 1);
  const rows = entries.ranks.map((of, at) => ({ ...of, isSlow: slow.has(at) })).sort((a, b) => b.isSlow - a.isSlow || b.lag_ns - a.lag_ns);
  const quarter = (at) => [
    `quarter ${at + 1}`,
    (of) => {
      const ns = of.lag_by_quarter_ns[at];
      const node = el('span', {}, duration(ns));
      node.style.background = `color-mix(in srgb, var(--caused) ${Math.round((Math.max(0, ns) / most) * 60)}%, transparent)`;
      node.style.padding = '1px 5px';
      return node;
    },
  ];
  const group = (of) => {
    const { role, ranks, stage } = entries.groups[of.group];
    return `${role}${stage === null ? '' : `, stage ${stage}`}: ${ranks.length > 8 ? `${ranks.length} ranks` : ranks.join(', ')}`;
  };
  const columns = [
    ['rank', (of) => el('strong', {}, `${of.rank}${of.isSlow ? ' late' : ''}`)],
    ['group', group, true],
    ['calls', (of) => count(of.calls)],
    ['later than its peers, median', (of) => duration(of.lag_ns)],
    quarter(0),
    quarter(1),
    quarter(2),
    quarter(3),
    ['enters last', (of) => percent(of.last_share)],
    ['largest', (of) => duration(of.largest_lag_ns)],
    ['score (limit)', (of) => (of.score === null ? '' : `${of.score.toFixed(2)} (${of.limit.toFixed(2)})`)],
  ];
  const { layout } = entries;
  return [
    el(
      'p',
      { class: 'help' },
      'How much later than the median of its group each rank enters NCCL; negative is earlier. ' +
        `${count(entries.compared)} of ${count(entries.calls)} calls compared.` +
        (layout ? ` Layout: tensor ${layout.tensor}, pipeline ${layout.pipeline}, data ${layout.data}.` : ''),
    ),
    ...recordTable('Ranks, the late ones first', columns, rows),
  ];
}
