// Steps in order of time: the length of each, what the GPUs did with the kernels launched in it, and the stack with most of that.

import { smallTable } from './detail.js';
import { section } from './dom.js';
import { count, duration, percent, shortFrame } from './format.js';

const STEPS_COLUMNS = [
  ['Step', true],
  ['Name'],
  ['Kernels', true],
  ['Length', true],
  ['GPU span', true],
  ['GPU busy', true],
  ['Compute', true],
  ['Collectives', true],
  ['Exposed', true],
  ['Of the span', true],
  ['Largest stack'],
];

const STEPS_HELP =
  'Shares are of the GPU span: from the first start to the last end of what was launched in the step. GPU busy is with any work, also of other steps.';

/** The steps, or null unless the kernels are grouped by step alone. */
export function mountSteps({ docs }) {
  const { groups, grouped_by: keys } = docs.stacks ?? {};
  if (keys?.length !== 1 || keys[0] !== 'step') return null;
  const rows = groups.filter(({ step }) => step).map(stepsRow);
  const node = section('steps', 'Steps', STEPS_HELP, smallTable(null, STEPS_COLUMNS, rows, 'Steps'));
  return rows.length > 0 ? { id: 'steps', title: 'Steps', node, paint() {}, update() {} } : null;
}

function stepsRow({ key, count: kernels, cost, step }) {
  const share = (ns) => (step.gpu_span_ns > 0 ? percent(ns / step.gpu_span_ns) : '-');
  const stack = step.largest_stack;
  const part = stack && cost.exposed_ns > 0 ? ` (${percent(stack.exposed_ns / cost.exposed_ns)})` : '';
  return [
    String(step.number),
    key.step,
    count(kernels),
    duration(step.dur_ns),
    duration(step.gpu_span_ns),
    share(step.busy_ns),
    share(step.compute_ns),
    share(step.collectives_ns),
    duration(step.exposed_ns),
    share(step.exposed_ns),
    stack ? `${shortFrame(stack.headline)}${part}` : '-',
  ];
}
