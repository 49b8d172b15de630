// How numbers and names are written; the expected texts are worked out by hand.
equal(duration(0), '0 ns');
equal(duration(999), '999 ns');
equal(duration(1000), '1.00 µs');
equal(duration(1500), '1.50 µs');
equal(duration(1005000), '1.01 ms', 'half a hundredth is rounded away from zero');
equal(duration(1004999), '1.00 ms');
equal(duration(9995000), '10.0 ms', 'from ten on there is one decimal');
equal(duration(139078775), '139.1 ms');
equal(duration(999999999), '1.00 s', 'a thousand of a unit is one of the next');
equal(duration(61002003000), '61.0 s');
equal(duration(-1500), '-1.50 µs');
equal(duration(-7), '-7 ns');
equal(duration(null), '');
equal(duration(undefined), '');

equal(count(0), '0');
equal(count(999), '999');
equal(count(1000), '1,000');
equal(count(239093), '239,093');
equal(count(1234567), '1,234,567');
equal(count(null), '');

equal(percent(0.123), '12.3 %');
equal(percent(1), '100.0 %');
equal(percent(0), '0.0 %');
equal(percent(null), '?');

equal(size(0), '0 B');
equal(size(999), '999 B');
equal(size(1000), '1.00 kB');
equal(size(8388608), '8.39 MB');
equal(size(1500000000), '1.50 GB');
equal(bandwidth(180), '180.0 GB/s');
equal(bandwidth(null), '');

// No character that moves, hides or turns text is left; the others are as they are.
const hostile = ['\u202e', '\u202a', '\u2066', '\u2069', '\u200b', '\u200d', '\u200e', '\ufeff', '\u0000', '\u001b[31m', '\r\n', '\u007f',
  '\u0085', '\u009b', '\u2028', '\u2029', '\u00ad', '\ue000', '\ud800', '\u{e0041}', '\u061c'];
for (const name of hostile) {
  const shown = visible(`a${name}b`);
  equal(/^[\x20-\x7e]*$/.test(shown), true, `${JSON.stringify(name)} became ${JSON.stringify(shown)}`);
  equal([shown[0], shown.at(-1)], ['a', 'b'], shown);
}
equal(visible('a\u202eb'), 'a\\u{202e}b');
equal(visible('\n'), '\\n');
equal(visible('\ud800'), '\\u{d800}', 'a half of a pair');
equal(visible('\u{e0041}'), '\\u{e0041}', 'a character outside the first plane');
for (const name of ['train.py(10): main', '<b>&"\'', 'größe 秒 🦀', 'ncclDevKernel_AllReduce<4096ul>(…)']) equal(visible(name), name);

equal(shortFrame('torch/nn/modules/module.py(1783): _call_impl'), 'module.py(1783): _call_impl');
equal(shortFrame('train.py(10): main'), 'train.py(10): main');
equal(shortFrame('c10d::allreduce_'), 'c10d::allreduce_');
equal(shortFrame('a/b'), 'a/b', 'no frame of Python');
