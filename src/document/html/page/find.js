// The search of a timeline: kernels by their names, or by those of their stacks.

import { el } from './dom.js';
import { count, duration, many } from './format.js';

export class KernelSearch {
  /** `onGo(item)` puts the cursor on a kernel; `onLeave()` takes the focus. */
  constructor(state, onGo, onLeave) {
    Object.assign(this, { state, onGo, known: null });
    const onkeydown = (event) => {
      if (event.key === 'Enter') this.go(event.shiftKey ? -1 : 1);
      else if (event.key === 'Escape') onLeave();
    };
    this.input = el('input', { type: 'search', spellcheck: false, autocomplete: 'off', placeholder: 'kernel or stack', onkeydown });
    this.input.addEventListener('input', () => this.state.set({ find: this.input.value }));
    this.status = el('span', { class: 'muted', role: 'status' });
    this.button = el('button', { type: 'button', class: 'small', onclick: () => this.go(1) }, 'Next');
    const label = el('label', { class: 'search' }, el('span', { class: 'label' }, 'Find'), this.input);
    this.node = el('div', { class: 'toolbar' }, label, this.button, this.status);
  }

  /** Finds the kernels of a view that have the text of the address. */
  show(view) {
    this.node.hidden = !view.timeline;
    const query = this.state.get('find', '').trim().toLowerCase();
    if (this.input !== document.activeElement) this.input.value = this.state.get('find', '');
    if (!view.timeline || (this.known?.view === view && this.known.query === query)) return;
    view.found = query === '' ? null : matchKernels(view, query);
    this.known = { view, query, at: -1 };
    this.button.hidden = !view.found;
    this.status.textContent = view.found ? foundText(view) : '';
  }

  /** Goes to the next kernel, or the one before: after the last comes the first. */
  go(step) {
    const { view } = this.known ?? {};
    const rows = view?.found?.rows ?? [];
    if (rows.length === 0) return;
    const at = this.known.at < 0 && step < 0 ? 0 : this.known.at;
    this.known.at = (at + step + rows.length) % rows.length;
    this.status.textContent = `${foundText(view)}; number ${count(this.known.at + 1)}`;
    this.onGo(view.itemOf(rows[this.known.at]));
  }
}

/** The kernels with a text in their name or their stack's: `{hits by row, rows, kernels, time}`. */
function matchKernels({ model, timeline, kernels, laneOfRow }, query) {
  const hasText = (text) => text.toLowerCase().includes(query);
  const [names, stacks] = [timeline.names.map(hasText), model.stacks.map((stack) => hasText(stack.label))];
  const found = { hits: new Uint8Array(kernels.rows), rows: [], kernels: 0, time: 0 };
  for (let row = 0; row < kernels.rows; row += 1) {
    if (laneOfRow[row] < 0 || !(names[kernels.name[row] - 1] || stacks[kernels.stack[row] - 1])) continue;
    found.hits[row] = 1;
    found.rows.push(row);
    found.kernels += kernels.count[row];
    found.time += kernels.dur[row];
  }
  return found;
}

function foundText({ found, kernels }) {
  const all = kernels.count.reduce((sum, n) => sum + n, 0);
  return `${count(found.kernels)} of ${many(all, 'kernel')}, ${duration(found.time)}`;
}
