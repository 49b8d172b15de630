// Names of steps become labels that start with what distinguishes them.
const labelled = (names, labels, prefix, what) => equal(stepLabels(names), { labels, prefix }, what);
labelled(['ProfilerStep#10', 'ProfilerStep#11'], ['#10', '#11'], 'ProfilerStep', 'a number is not cut');
labelled(['ProfilerStep#9', 'ProfilerStep#10'], ['#9', '#10'], 'ProfilerStep');
labelled(['step[EXTEND bs=1 toks=2048]', 'step[DECODE bs=1]'], ['EXTEND bs=1 toks=2048', 'DECODE bs=1'], 'step[', 'nor is a bracket left open');
labelled(['step[EXTEND bs=1]', 'step[EXTEND bs=16]'], ['1', '16'], 'step[EXTEND bs=');
labelled(['train_step_5', 'train_step_50'], ['5', '50'], 'train_step_');
labelled(['at 1.5', 'at 1.7'], ['1.5', '1.7'], 'at ', 'a number with a point is one');
labelled(['prefill', 'prepare'], ['prefill', 'prepare'], '', 'a word is not cut');
labelled(['iter10', 'iter11'], ['iter10', 'iter11'], '', 'nor is one that ends in a number');
labelled(['f(a) x', 'f(b) y'], ['a) x', 'b) y'], 'f(', 'what others end with stays');
labelled(['ab(c)', 'ab(d(e))'], ['ab(c)', 'ab(d(e))'].map((name) => name.slice(3)), 'ab(', 'a bracket of its own is closed');
// Nothing distinguishes them, or one is what all begin with.
labelled(['step', 'step'], ['step', 'step'], '');
labelled(['step', 'step 2'], ['step', 'step 2'], '');
labelled(['ProfilerStep#1'], ['ProfilerStep#1'], '');
labelled(['', 'a'], ['', 'a'], '');
