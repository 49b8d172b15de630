// A state becomes a fragment and is read again as the same.
const states = [
  {},
  { stack: 0 },
  { stack: 3, rank: 12, step: 199, collective: 40000 },
  { view: 'stacks', sort: 'exposed', q: 'a b&c=d#e%+"<>\u202e秒🦀' },
  { from: 0.5, to: 1234567890.25 },
  { from: -5 },
];
const sorted = (state) => Object.fromEntries(Object.entries(state).sort());
for (const state of states) equal(sorted(parse(write(state))), sorted(state), write(state));
equal(write({ width: 'exposed', stack: 3 }), '#stack=3&width=exposed', 'keys are in order, so that equal states are equal links');
equal(write({ stack: null, q: '', sort: undefined }), '#', 'what is not chosen is not in it');
equal(parse('#stack=3'), { stack: 3 });
equal(parse('stack=3'), { stack: 3 });
equal(parse(''), {});
// What a stranger may have put there.
for (const wrong of ['x', '1e9', '0x10', '1;2', 'NaN', 'Infinity', '']) equal(parse(`#stack=${wrong}`), {}, `stack=${wrong}`);

// A window with nothing but what the state uses.
const win = () => {
  const of = { location: { hash: '#rank=2' }, listeners: [], written: [] };
  of.addEventListener = (name, listener) => of.listeners.push([name, listener]);
  of.history = { replaceState: (a, b, url) => { of.location.hash = url; of.written.push(url); } };
  return of;
};
const of = win();
const state = new State(of);
const heard = [];
state.on((now, changed) => heard.push([...changed].sort()));
equal(state.get('rank'), 2, 'read when it is made');
equal(state.get('stack', 'none'), 'none', 'a default');
state.set({ stack: 0 });
equal(state.get('stack', 'none'), 0, 'the first stack is a choice');
equal(of.location.hash, '#rank=2&stack=0');
state.set({ stack: 0 });
equal(heard, [['stack']], 'choosing the same again changes nothing');
state.set({ rank: null, sort: 'count' });
equal(heard.at(-1), ['rank', 'sort']);
equal(of.location.hash, '#sort=count&stack=0', 'taken back');
state.set({ view: 'heat' });
equal(of.location.hash, '#sort=count&stack=0&view=heat');
state.set({ stack: 1 });
equal(state.get('view'), null, 'a later choice does not scroll again');
// A link of the page, or Back.
of.location.hash = '#stack=5';
of.listeners.filter(([name]) => name === 'hashchange').forEach(([, listener]) => listener());
equal(state.now, { stack: 5 });
equal(heard.at(-1), ['sort', 'stack']);

// The theme is the reader's, not the link's.
state.set({ theme: 'dark' });
of.location.hash = '#stack=6';
of.listeners.filter(([name]) => name === 'hashchange').forEach(([, listener]) => listener());
equal(state.now, { stack: 6, theme: 'dark' });
equal(of.location.hash, '#stack=6&theme=dark', 'a reload keeps it');
of.location.hash = '#stack=6&theme=light';
of.listeners.filter(([name]) => name === 'hashchange').forEach(([, listener]) => listener());
equal(state.get('theme'), 'light', 'unless the link names one');

// A page in a frame that may not change its address.
const still = win();
still.history.replaceState = () => { throw new Error('denied'); };
const framed = new State(still);
framed.set({ stack: 7 });
equal(framed.get('stack'), 7);
