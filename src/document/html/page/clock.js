// Times of a trace. A page counts from the start of its window; times of day in ns have more digits than a number holds exactly, so that they are
// texts here, and are added as whole numbers of any length.

/** The time of the trace, in ns, at so many ns after an origin. */
export function traceNs(origin, ns) {
  return (BigInt(origin) + BigInt(Math.round(ns))).toString();
}

/** A time in ns, given as a text, in µs: as Chrome's JSON has it, with the decimals that it needs. */
export function traceMicros(ns) {
  const digits = ns.replace('-', '').padStart(4, '0');
  const decimals = digits.slice(-3).replace(/0+$/, '');
  return `${ns.startsWith('-') ? '-' : ''}${digits.slice(0, -3)}${decimals ? `.${decimals}` : ''}`;
}
