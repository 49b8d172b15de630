// Two GPUs. On the first, a collective on stream 1 runs beside a compute kernel on stream 0; the second runs one compute kernel. All times in ns.
const kernels = {
  rows: 4,
  lane: [0, 1, 2, 0],
  start: [0, 50, 60, 300],
  dur: [100, 150, 40, 0],
  name: [1, 2, 1, 0],
  does: [0, 1, 0, 0],
  count: [1, 1, 1, 3],
};
const exposed = { kernel: Float64Array.of(1), start: [100], dur: [100] };
const lanes = [{ device: 0 }, { device: 0 }, { device: 1 }];
const timeline = { kernels, exposed, lanes };
const all = sumsWithin(timeline, 0, 400);
equal([all.busy, all.compute, all.collectives, all.possible, all.exposed, all.kernels], [240, 140, 150, 0, 100, 6], 'on each GPU once, then added');
equal(all.names.map((of) => [of.name, of.count, of.busy, of.exposed]), [[2, 1, 150, 100], [1, 2, 140, 0], [0, 3, 0, 0]]);
equal(all.streams.map((of) => [of.lane, of.count, of.busy, of.collectives, of.exposed]), [[0, 4, 100, 0, 0], [1, 1, 150, 150, 100], [2, 1, 40, 0, 0]]);
const cut = sumsWithin(timeline, 80, 120);
equal([cut.busy, cut.compute, cut.collectives, cut.exposed, cut.kernels], [60, 40, 40, 20, 3], 'cut at both edges');
equal(sumsWithin(timeline, 200, 300).kernels, 0, 'what ends at the first edge or starts at the second is outside');
equal(sumsWithin(timeline, 300, 301).kernels, 3, 'a kernel without a length is where it starts');
