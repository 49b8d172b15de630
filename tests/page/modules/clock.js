// Times of day in ns have more digits than a number holds exactly.
equal(traceNs('1740461679470630001', 1), '1740461679470630002');
equal(traceNs('1740461679470630001', 250000.4), '1740461679470880001', 'a fraction of a ns is none');
equal(traceNs('-5', 3), '-2');
for (const [ns, micros] of [
  ['1740461679470630001', '1740461679470630.001'],
  ['1740461679470630120', '1740461679470630.12'],
  ['250000', '250'],
  ['7', '0.007'],
  ['0', '0'],
  ['-1500', '-1.5'],
]) equal(traceMicros(ns), micros, ns);
