// The selected span of a timeline: the sums of what ran in it, and the command that writes the same span as a trace for other viewers.

import { traceNs } from './clock.js';
import { copyText } from './commands.js';
import { el, nameNode } from './dom.js';
import { count, duration, percent } from './format.js';
import { sheetTable } from './sheet.js';
import { sumsWithin } from './sums.js';

const AREA_NAMES = 10;

const AREA_STREAMS = [
  { title: 'stream', unit: 'text' },
  { title: 'kernels', unit: 'count', help: 'Kernels that ran in the span, also in a part of it' },
  { title: 'busy', unit: 'ns', help: 'When any kernel ran on this stream' },
  { title: 'collectives', unit: 'ns', help: 'When collectives ran on this stream' },
  { title: 'exposed', unit: 'ns', help: 'When collectives ran on this stream and no compute kernel ran on its GPU' },
];

const AREA_BY_NAME = [
  { title: 'kernel', unit: 'text' },
  { title: 'count', unit: 'count', help: 'Kernels that ran in the span, also in a part of it' },
  { title: 'busy', unit: 'ns', help: 'When any of these kernels ran, summed over the streams' },
  { title: 'exposed', unit: 'ns', help: 'How long these collectives ran while no compute kernel ran on their GPU' },
];

export class AreaPanel {
  constructor(state) {
    this.state = state;
    this.text = el('span', { role: 'status' });
    const button = (text, onclick) => el('button', { type: 'button', class: 'small', onclick }, text);
    this.buttons = [
      button('Zoom to it', () => this.state.set({ from: this.state.get('begin'), to: this.state.get('end') })),
      button('Clear', () => this.state.set({ begin: null, end: null })),
    ];
    this.facts = el('dl', { class: 'facts' });
    this.input = el('input', { type: 'search', spellcheck: false, autocomplete: 'off', placeholder: 'part of a name', oninput: () => this.showNames() });
    this.filter = el('div', { class: 'toolbar' }, el('label', { class: 'search' }, el('span', { class: 'label' }, 'Kernels'), this.input));
    this.streams = el('div');
    this.names = el('div');
    this.sums = el('div', { hidden: true }, this.facts, this.streams, this.filter, this.names);
    this.code = el('code');
    const copy = el('button', { type: 'button', class: 'small', 'aria-label': 'Copy the command', onclick: () => copyText(this.code.textContent, copy, this.code) }, 'Copy');
    this.command = el('div', null, el('p', { class: 'help' }, ''), el('div', { class: 'command' }, this.code, copy));
    this.node = el('div', { class: 'area' }, el('div', { class: 'toolbar' }, this.text, this.buttons), this.sums, this.command);
  }

  /** Shows the sums of a span of a view, or without one how to select it. */
  show(view, area, shown) {
    this.node.hidden = !view.timeline;
    if (!view.timeline) return;
    const key = area ? `${view.label} ${area}` : '';
    this.buttons.forEach((button) => (button.hidden = !area));
    this.sums.hidden = !area;
    this.text.textContent = area
      ? `Selected: ${duration(area[1] - area[0])}, from ${duration(area[0])} to ${duration(area[1])}.`
      : 'Shift with drag selects a span, as do [ and ] at the cursor: its sums are then here.';
    this.showCommand(view.timeline, area ?? shown, area ? 'selected' : 'shown');
    if (key === this.key) return;
    this.key = key;
    if (area) this.showSums(view, area);
  }

  showSums({ timeline, lanes }, [begin, end]) {
    const sums = sumsWithin(timeline, begin, end);
    const isApproximate = timeline.merged_ns > 0 || timeline.left_out > 0;
    const devices = new Set(timeline.lanes.map((lane) => lane.device)).size;
    const share = (ns) => `${duration(ns)} (${percent(ns / ((end - begin) * devices))})`;
    const facts = [
      ['GPU busy', share(sums.busy)],
      ['Compute', share(sums.compute)],
      ['Collectives', share(sums.collectives)],
      ...(sums.possible > 0 ? [['Possibly communication', share(sums.possible)]] : []),
      ['Exposed', share(sums.exposed)],
      ['Kernels', count(sums.kernels)],
    ];
    const fact = ([label, value]) => el('div', null, el('dt', null, label), el('dd', null, isApproximate ? `approximately ${value}` : value));
    this.facts.replaceChildren(...facts.map(fact));
    const rows = sums.streams.map(({ lane, count: n, busy, collectives, exposed }) => [timeline.lanes[lane].label, n, busy, collectives, exposed]);
    this.streams.replaceChildren(...areaTable('By stream', AREA_STREAMS, rows));
    const name = (of) => (of.name === 0 ? 'kernels of several names, drawn as one' : timeline.names[of.name - 1]);
    this.byName = sums.names.map((of) => [name(of), of.count, of.busy, of.exposed]);
    this.showNames();
  }

  showNames() {
    const query = this.input.value.trim().toLowerCase();
    const found = this.byName.filter(([name]) => name.toLowerCase().includes(query));
    const rest = found.length - AREA_NAMES;
    this.names.replaceChildren(
      ...areaTable('By kernel', AREA_BY_NAME, found.slice(0, AREA_NAMES)),
      ...(rest > 0 ? [el('p', { class: 'muted' }, `${count(rest)} more names took less time; the box finds them.`)] : []),
    );
  }

  showCommand({ name, origin_ns: origin }, [from, to], which) {
    this.command.hidden = name === '-';
    const start = traceNs(origin, from);
    const text = `nccl-stacks export ${shellWord(name)} --trace span.json.gz --start-ts ${start} --duration ${Math.max(1, Math.round(to - from))}`;
    this.command.firstChild.textContent = `The ${which} span as a trace of its own, for ui.perfetto.dev (Open trace file):`;
    this.code.replaceChildren(nameNode(text));
  }
}

function areaTable(title, columns, rows) {
  return sheetTable({ title, columns, rows, found: rows.length }).filter((part) => part !== null);
}

/** A word for a shell, in quotes if it needs them. */
function shellWord(word) {
  const path = word.startsWith('-') ? `./${word}` : word;
  return /^[A-Za-z0-9\-_=+./,:@%]+$/.test(path) ? path : `'${path.replace(/'/g, "'\\''")}'`;
}
