// What the job would take if something were different: a table of rules, of which the first can be switched on and off. A page cannot rerun the job,
// so that it has the reruns of all combinations of those, by bit mask.

import { commandsItem } from './commands.js';
import { el, nameNode, section } from './dom.js';
import { duration, many, percent } from './format.js';
import { sheetLegend, sheetTable } from './sheet.js';

const whatIfIsOn = (rules, at) => ((rules >> at) & 1) === 1;

/** The names of the rules of a bit mask. */
export function whatIfRules({ page, sheets }, rules) {
  const can = page.what_if?.options ?? [];
  return can.map((option, at) => sheets['what-if'].rows[at][0]).filter((name, at) => whatIfIsOn(rules, at));
}

/** How long the job would take if it ended so much earlier, as the end of a sentence. `reruns` are those of the page. */
export function whatIfLength({ length_ns: length, steps, error_share: error }, saved) {
  const share = saved / length;
  const change = `${share > 0 ? '−' : share < 0 ? '+' : ''}${percent(Math.abs(share))}`;
  const doubt = error === null ? '' : `, ± ${percent(error)}`;
  return `${whatIfJob(steps)} would take ${duration(length - saved)} instead of ${duration(length)} (${change}${doubt}).`;
}

const whatIfJob = (steps) => (steps > 1 ? `the ${many(steps, 'step')}` : 'the job');

/** The table of rules with a sentence on those that are on, or null without reruns. */
export function mountWhatIf(model, state) {
  return model.sheets['what-if'] ? new WhatIfView(model, state).view() : null;
}

class WhatIfView {
  constructor(model, state) {
    Object.assign(this, { model, state, sheet: model.sheets['what-if'], reruns: model.page.what_if });
    this.says = el('p', { class: 'subject', role: 'status' });
    this.bars = ['recorded', 'rerun'].map((kind) => el('div', { class: kind }));
    this.lengths = el('div', { class: 'lengths', 'aria-hidden': 'true' }, 'recorded', this.bars[0], 'rerun', this.bars[1]);
    this.command = el('ul', { class: 'commands' });
    this.switches = [];
  }

  view() {
    const help =
      'Each row is a rerun with one rule. Rules with a box can be switched on together: reruns of all their combinations were computed when this page was ' +
      'written. What several save does not add up. ± is the error of reruns; that of a finding also has what chance may save. The command below, with an --if for each rule, gives any other combination.';
    const table = sheetTable(this.sheet, false, (row, name) => this.rule(row, name));
    const node = section('what-if', this.sheet.title, help, this.says, this.lengths, ...table, this.command, sheetLegend(this.sheet.columns));
    return { id: 'what-if', title: this.sheet.title, node, update: (now, changed) => changed.has('rules') && this.show(), paint: () => this.show() };
  }

  rule(row, name) {
    if (row >= this.reruns.options.length) return el('span', { class: 'rule', title: 'No combinations with this rule were computed' }, name);
    const node = el('input', { type: 'checkbox', onchange: () => this.state.set({ rules: (this.on() ^ (1 << row)) || null }) });
    this.switches.push(node);
    return el('label', { class: 'rule' }, node, name);
  }

  /** The rules that are on, without those that the page does not have. */
  on() {
    return this.state.get('rules', 0) & (this.reruns.combined_ns.length - 1);
  }

  show() {
    const { combined_ns: combined, length_ns: length, command, options } = this.reruns;
    const on = this.on();
    this.switches.forEach((node, at) => (node.checked = whatIfIsOn(on, at)));
    this.says.replaceChildren(...this.sentence(on));
    this.bars[1].style.width = `${Math.max(0, Math.min(1, 1 - combined[on] / length)) * 100}%`;
    const named = options.filter((option, at) => whatIfIsOn(on || 3, at));
    this.command.replaceChildren(commandsItem({ what: on ? 'The same rerun, as text' : 'Several rules at once', text: command + named.join('') }));
  }

  sentence(on) {
    const { combined_ns: combined, length_ns: length, steps } = this.reruns;
    if (on === 0) return [`Switch rules on to see what ${whatIfJob(steps)} would take with them. Recorded: ${duration(length)}.`];
    const names = whatIfRules(this.model, on);
    const joint = (at) => (at === 0 ? 'With ' : at < names.length - 1 ? ', ' : ' and ');
    return [...names.flatMap((name, at) => [joint(at), nameNode(name, { class: 'mono' })]), ` ${whatIfLength(this.reruns, combined[on])}`];
  }
}
