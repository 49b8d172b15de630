// Starts the page: decodes the embedded data, mounts the views in order, and shows the selection.
// A view that fails reports it in place, and the others still work. Nothing is fetched or stored: the state is in the address.

import { mountCommands } from './commands.js';
import { button, choice, copyButton, details, el, nameNode } from './dom.js';
import { shortFrame, visible } from './format.js';
import { mountHang, mountHung } from './hang.js';
import { mountIcicle } from './icicle.js';
import { mountHeat, mountPairs } from './matrix.js';
import { loadCharts, loadModel } from './model.js';
import { pictureBars } from './picture.js';
import { mountStacks } from './stacks.js';
import { State, write } from './state.js';
import { mountSheet } from './table.js';
import { mountTimeline } from './timeline.js';

// In page order. `null` marks where the charts are unpacked, and where the other tables are.
const APP_VIEWS = [
  ['hang', mountHang],
  ['charts', null],
  ['timeline', mountTimeline],
  ['hung', mountHung],
  ['sides', mountSheet('sides')],
  ['runs', mountSheet('runs')],
  ['ranks', mountSheet('ranks', 'rank')],
  ['steps', mountSheet('steps', 'step')],
  ['stacks', mountStacks],
  ['icicle', mountIcicle],
  ['what-if', mountSheet('what-if')],
  ['heat', mountHeat],
  ['critical', mountSheet('critical')],
  ['pairs', mountPairs],
  ['pipeline', mountSheet('pipeline')],
  ['tables', null],
  ['commands', mountCommands],
];

// The drawings of the first screen, between the verdict and the findings.
const APP_PICTURES = ['hang', 'timeline'];

// So many views are open; those after them are one click away, and the commands are always open.
const APP_OPEN = 7;

// Tables that a view shows in another form. Every other table has a view of its own.
const APP_DRAWN = ['stacks', 'waits', 'changes'];

// The screen's own theme, which the address does not name, and the others.
const APP_THEMES = ['auto', 'light', 'dark'];

function appAlert(what, error) {
  const text = error ? `${what}: ${error.message ?? error}` : what;
  return el('p', { role: 'alert', class: 'alert' }, nameNode(text));
}

function appCollectiveName({ lanes }, at) {
  const { name, group } = lanes?.collectives ?? { name: [] };
  const parts = at < name.length ? [lanes.names[name[at]], lanes.groups[group[at]]].filter((part) => part) : ['number'];
  return `${parts.join(' of ')} ${at + 1}`.trim();
}

// Labels for the keys of the state that select something.
const APP_CHOSEN = [
  ['stack', 'Stack', ({ stacks }, id) => (stacks[id] ? shortFrame(stacks[id].label) : `number ${id + 1}`)],
  ['rank', 'Rank', (model, rank) => String(rank)],
  ['step', 'Step', (model, step) => model.stepNames[step] ?? String(step)],
  ['collective', 'Collective', appCollectiveName],
];

function appChosen(model, state) {
  const items = APP_CHOSEN.filter(([key]) => state.get(key) !== null).map(([key, title, name]) => {
    const text = name(model, state.get(key));
    const label = `Clear: ${title.toLowerCase()}`;
    const clear = button('×', () => state.set({ [key]: null }), { class: 'clear', title: label, 'aria-label': label });
    return el('span', { class: 'chosen' }, el('span', { class: 'label' }, title), nameNode(text, { class: 'name', title: visible(text) }), clear);
  });
  const none = Object.fromEntries(APP_CHOSEN.map(([key]) => [key, null]));
  return items.length < 2 ? items : [...items, button('Clear all', () => state.set(none), { class: 'small' })];
}

class App {
  constructor(page) {
    this.page = page;
    this.state = new State(window);
    this.views = [];
    this.root = document.getElementById('views');
    this.more = details({ id: 'more' }, 'More tables');
    this.links = el('ul');
    this.chosen = el('div', { class: 'chosen-list', role: 'status', 'aria-label': 'What is chosen' });
    const copy = copyButton('Copy link to this view', () => this.address());
    const nav = el('nav', { 'aria-label': 'Parts of this page' }, this.links);
    this.themes = choice('Theme', APP_THEMES.map((name) => [name, name]), 'auto', (theme) => this.state.set({ theme: theme === 'auto' ? null : theme }));
    this.bar = el('div', { id: 'bar' }, nav, el('div', { class: 'bar-state' }, this.chosen, this.themes.node, copy));
    this.showTheme();
  }

  async run() {
    this.model = await loadModel(this.page);
    this.root.before(this.bar);
    this.link('verdict', 'Verdict');
    this.listen();
    // A pipeline's picture is its schedule.
    const bars = this.model.docs.ranks?.pipeline ? null : pictureBars(this.model);
    if (bars) document.getElementById('picture').append(bars);
    const known = [...APP_DRAWN, ...APP_VIEWS.map(([id]) => id)];
    const others = Object.keys(this.model.sheets).filter((id) => !known.includes(id));
    for (const [id, mount] of APP_VIEWS) {
      if (mount) this.mount(id, mount);
      else if (id === 'tables') others.forEach((of) => this.mount(of, mountSheet(of)));
      else await loadCharts(this.model).catch((error) => this.root.append(appAlert('The timelines cannot be read', error)));
      await new Promise((done) => setTimeout(done));
    }
    this.showChosen();
    if (this.state.get('view')) this.scroll();
    // Tells programs that drive the page that it is complete.
    document.documentElement.dataset.ready = 'true';
  }

  mount(id, mount) {
    this.attempt(this.root, `The view “${id}” cannot be shown`, () => {
      const view = mount(this.model, this.state);
      if (!view) return;
      const isClosed = id !== 'commands' && this.views.length >= APP_OPEN;
      if (isClosed) this.root.append(this.more);
      (APP_PICTURES.includes(id) ? document.getElementById('picture') : isClosed ? this.more : this.root).append(view.node);
      this.views.push(view);
      this.link(view.id, view.title);
      view.update?.(this.state, new Set(Object.keys(this.state.now)));
      // The static table at the top is one of the views now.
      if (view.node.querySelector('table')) document.getElementById('top')?.remove();
    });
  }

  /** Does something for a part of the page; what fails is said there, once. */
  attempt(node, what, action) {
    try {
      action();
    } catch (error) {
      console.error(error);
      const alert = appAlert(what, error);
      if (![...node.children].some((of) => of.isEqualNode(alert))) node.append(alert);
    }
  }

  link(id, title) {
    const choose = (event) => {
      event.preventDefault();
      this.state.set({ view: id });
    };
    this.links.append(el('li', null, el('a', { href: `#view=${id}`, onclick: choose }, title)));
  }

  each(action) {
    this.views.forEach((view) => this.attempt(view.node, 'This view failed', () => action(view)));
  }

  /** The address of this view, including the part of the page on the screen, without the theme, which its next reader chooses. */
  address() {
    const shown = [...document.querySelectorAll('main section')].find((part) => part.getBoundingClientRect().bottom > innerHeight / 3);
    const view = scrollY > 0 && shown ? shown.id : null;
    return location.href.replace(/#.*/, '') + write({ ...this.state.now, view, theme: null });
  }

  paint() {
    this.each((view) => view.paint?.());
  }

  /** Shows the theme that the address names. Other names than those of `APP_THEMES` are the screen's own. */
  showTheme() {
    const theme = this.state.get('theme');
    const shown = APP_THEMES.includes(theme) ? theme : 'auto';
    document.documentElement.dataset.theme = shown;
    this.themes.show(shown);
    this.paint();
  }

  showChosen() {
    this.chosen.replaceChildren(...appChosen(this.model, this.state));
  }

  scroll() {
    const part = document.getElementById(this.state.get('view'));
    if (!part?.matches('main section, main details')) return;
    if (part.closest('details')) part.closest('details').open = true;
    part.scrollIntoView({ block: 'start' });
    // A selected row may be below the visible part of the table.
    part.querySelector('tr [aria-current]:not([aria-current="false"])')?.closest('tr').scrollIntoView({ block: 'nearest' });
    const title = part.querySelector('h2[tabindex], h1, summary');
    if (title?.tabIndex === -1) title.setAttribute('tabindex', '-1');
    title?.focus({ preventScroll: true });
  }

  listen() {
    this.showChosen();
    const changed = (state, keys) => {
      this.showChosen();
      this.each((view) => view.update?.(state, keys));
      if (keys.has('theme')) this.showTheme();
      if (keys.has('view') && state.get('view')) this.scroll();
    };
    this.state.on(changed);
    // Following a link to the current address changes nothing, but still has to scroll.
    document.addEventListener('click', (event) => {
      const link = event.target.closest?.('main a[href^="#"]');
      if (link && link.getAttribute('href') === location.hash) changed(this.state, new Set(Object.keys(this.state.now)));
    });
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.paint());
    const print = ({ type }) => {
      document.documentElement.classList.toggle('printing', type === 'beforeprint');
      this.more.open ||= type === 'beforeprint';
      this.paint();
    };
    ['beforeprint', 'afterprint'].forEach((type) => addEventListener(type, print));
  }
}

async function start() {
  const views = document.getElementById('views');
  const fail = (what, error) => views.before(appAlert(what, error));
  // Browsers report it as an error when a chart is laid out twice, which is harmless.
  addEventListener('error', (event) => /^ResizeObserver/.test(event.message) || fail('Something failed', event.error ?? event.message));
  addEventListener('unhandledrejection', (event) => fail('Something failed', event.reason));
  const page = JSON.parse(document.getElementById('page').textContent);
  await new App(page).run().catch((error) => fail('The details of this report cannot be read', error));
}

start();
