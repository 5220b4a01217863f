// @ts-check
/** A trace that is still being read, or recorded. */

import * as server from "./server.js";

/** How often the server is asked for what has been read since, in milliseconds. */
const EACH = 300;

const wait = () => new Promise((done) => setTimeout(done, EACH));

/** The trace, as soon as something of it has been read. */
export async function trace() {
  for (;;) {
    const found = await server.trace();
    if (found !== null) return found;
    await wait();
  }
}

/**
 * Calls `take` with more of the trace until all of it has been read.
 * @param {server.Trace} known
 * @param {(more: server.Trace) => void} take
 */
export async function follow(known, take) {
  let last = known;
  while (!last.is_whole) {
    await wait();
    const more = await trace();
    if (more.read_ns !== last.read_ns || more.is_whole) take(more);
    last = more;
  }
}

/**
 * What is in view when a trace has become longer: all of it, or the newest, if that was so before;
 * or what was in view before.
 * @param {{ from: number, to: number }} view
 * @param {number} before
 * @param {number} now
 */
export function moved(view, before, now) {
  if (view.to < before) return view;
  return view.from === 0 ? { from: 0, to: now } : { from: view.from + now - view.to, to: now };
}

/**
 * The number that a row has now: the index of a recorded trace is made again at the end.
 * @param {number} row
 * @param {server.Row[]} before
 * @param {server.Row[]} now
 */
export function sameRow(row, before, now) {
  const is = (/** @type {server.Row} */ other) => other.track === before[row]?.track
    && other.kind === before[row].kind && other.depth === before[row].depth;
  return is(now[row] ?? {}) ? row : now.findIndex(is);
}
