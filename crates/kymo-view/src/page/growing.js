// @ts-check
/** A trace that is still being read. */

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
