// The notation of numbers and names: that of the program's other forms, so that a number on the page can be searched for in their text.

/** A length of time, given in ns, in the largest unit that it reaches, with at least three significant digits: `7.93 ms`, `139.1 ms`. */
export function duration(ns) {
  if (ns === null || ns === undefined) return '';
  const size = Math.abs(ns);
  if (size < 1e3) return `${Math.round(ns)} ns`;
  const [unit, name] = size < 999950 ? [1e3, 'µs'] : size < 999950000 ? [1e6, 'ms'] : [1e9, 's'];
  const few = Math.round((size * 100) / unit);
  const text = few < 1000 ? (few / 100).toFixed(2) : (Math.round((size * 10) / unit) / 10).toFixed(1);
  return `${ns < 0 ? '-' : ''}${text} ${name}`;
}

export function count(n) {
  if (n === null || n === undefined) return '';
  return String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** A number of things with their noun: `1 rank`, `1,024 ranks`. */
export function many(n, what) {
  return `${count(n)} ${what}${n === 1 ? '' : 's'}`;
}

export function percent(share) {
  return share === null || share === undefined ? '?' : `${(share * 100).toFixed(1)} %`;
}

/** A number of bytes, in powers of ten as bandwidths are: `8.39 MB`. */
export function size(bytes) {
  if (bytes === null || bytes === undefined) return '';
  if (bytes < 1e3) return `${bytes} B`;
  const [unit, name] = bytes < 1e6 ? [1e3, 'kB'] : bytes < 1e9 ? [1e6, 'MB'] : [1e9, 'GB'];
  return `${(bytes / unit).toFixed(2)} ${name}`;
}

export function bandwidth(gbPerS) {
  return gbPerS === null || gbPerS === undefined ? '' : `${gbPerS.toFixed(1)} GB/s`;
}

const HIDDEN = /[\p{Cc}\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}\p{Co}\p{Cs}]/gu;
const ESCAPES = { '\t': '\\t', '\n': '\\n', '\r': '\\r' };

/** A name that is safe to show: characters that are invisible, or change the direction of the surrounding text, are written as escapes. */
export function visible(name) {
  return String(name).replace(HIDDEN, (c) => ESCAPES[c] ?? `\\u{${c.codePointAt(0).toString(16)}}`);
}

/** A frame without the folders of its file, for narrow places. */
export function shortFrame(frame) {
  const found = /^(.*\/)([^/]*\(\d+\): .*)$/.exec(frame);
  return found ? found[2] : frame;
}

/** The time between two events, in words: `1.204 ms after it began`. */
export function apart(ns, later, earlier) {
  return ns < 0 ? `${duration(-ns)} ${earlier}` : `${duration(ns)} ${later}`;
}

/** The time of a trace, in ns, at so many ns after an origin. Times of day have more digits than a number holds exactly, so they are texts. */
export function traceNs(origin, ns) {
  return (BigInt(origin) + BigInt(Math.round(ns))).toString();
}

/** A time in ns, given as a text, in µs: as Chrome's JSON has it, with the decimals that it needs. */
export function traceMicros(ns) {
  const digits = ns.replace('-', '').padStart(4, '0');
  const decimals = digits.slice(-3).replace(/0+$/, '');
  return `${ns.startsWith('-') ? '-' : ''}${digits.slice(0, -3)}${decimals ? `.${decimals}` : ''}`;
}
