// The selection. It is only in the URL's fragment, so that a view can be sent, and reload and Back work.
// Keys: `view` (the part of the page to scroll to), `stack`, `rank`, `step`, `collective` (numbers), keys of views: `sort`, `q`,
// `page`, `width`, `measure`, `trace`, `from`, `to`, `find`, and `theme`. A missing value is the view's default.

// What values of these keys must be: places in lists, or times. Others of theirs are dropped, as a fragment may come from anywhere.
const PLACE = /^\d{1,9}$/;
const TIME = /^-?\d{1,15}(\.\d{1,9})?$/;
const NUMBERS = { stack: PLACE, rank: PLACE, step: PLACE, collective: PLACE, trace: PLACE, page: PLACE, from: TIME, to: TIME };

export function parse(fragment) {
  const known = [...new URLSearchParams(fragment.replace(/^#/, ''))].filter(([key, text]) => !Object.hasOwn(NUMBERS, key) || NUMBERS[key].test(text));
  return Object.fromEntries(known.map(([key, text]) => [key, Object.hasOwn(NUMBERS, key) ? Number(text) : text]));
}

/** The fragment of a state: `#stack=3&width=exposed`. */
export function write(state) {
  const chosen = Object.entries(state).filter(([, value]) => (value ?? '') !== '');
  return `#${new URLSearchParams(chosen.sort())}`;
}

/** The page's state. `set` merges changes; listeners get the state and the set of changed keys. */
export class State {
  constructor(win) {
    this.window = win;
    this.listeners = [];
    this.now = parse(win.location.hash);
    win.addEventListener('hashchange', () => this.follow(parse(win.location.hash)));
  }

  /** Shows the state of a link. The theme is the reader's: a link without one keeps it. */
  follow(linked) {
    this.replace({ ...linked, theme: linked.theme ?? this.now.theme });
    if (this.now.theme !== linked.theme) this.keep();
  }

  get(key, otherwise = null) {
    return this.now[key] ?? otherwise;
  }

  on(listener) {
    this.listeners.push(listener);
  }

  /** Selects. A value of `null` undoes a selection. */
  set(change) {
    const next = { ...this.now, ...change };
    if (!('view' in change)) delete next.view;
    this.replace(next);
    this.keep();
  }

  keep() {
    try {
      this.window.history.replaceState(null, '', write(this.now));
    } catch {
      // In a frame that may not change its address the page still works, but its views cannot be sent.
    }
  }

  replace(next) {
    const now = Object.fromEntries(Object.entries(next).filter(([, value]) => (value ?? '') !== ''));
    const isChanged = (key) => now[key] !== this.now[key] || (key === 'view' && now.view);
    const changed = new Set(Object.keys({ ...now, ...this.now }).filter(isChanged));
    this.now = now;
    if (changed.size > 0) this.listeners.forEach((listener) => listener(this, changed));
  }
}
