// @ts-check
/** Durations and points in time as text. */

const UNITS = /** @type {const} */ ([[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]]);

/**
 * A duration with four digits, as `kymo report` prints it.
 * @param {number} ns
 */
export function duration(ns) {
  const size = Math.abs(ns);
  const [unit, name] = UNITS.find(([unit]) => size >= unit) ?? UNITS[3];
  if (unit === 1) return `${Math.round(ns)} ns`;
  const value = ns / unit;
  const digits = Math.abs(value) >= 1000 ? 0 : Math.abs(value) >= 100 ? 1 : Math.abs(value) >= 10 ? 2 : 3;
  return `${value.toFixed(digits)} ${name}`;
}

/** From the trace's beginning, from which every verb of `kymo` counts, to its first event. */
let first = 0;

/** @param {number} ns */
export function countFrom(ns) {
  first = ns;
}

/**
 * A point in time, in seconds since the trace began, as every verb of `kymo` prints and takes it.
 * @param {number} ns since the first event
 */
export function moment(ns) {
  return `${seconds(ns, 9)} s`;
}

/**
 * A point in time with so many digits behind the point.
 * @param {number} ns
 * @param {number} digits
 */
export function seconds(ns, digits) {
  return ((ns + first) / 1e9).toFixed(digits);
}

/**
 * A step for a ruler: 1, 2 or 5 times a power of ten, at least this long.
 * @param {number} least
 */
export function step(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1)));
  for (const factor of [1, 2, 5]) if (factor * power >= least) return factor * power;
  return 10 * power;
}

/**
 * The first point of a ruler with such steps at or behind this time.
 * @param {number} ns
 * @param {number} each
 */
export function firstTick(ns, each) {
  return Math.ceil((ns + first) / each) * each - first;
}
