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
 * The numbers that tracks have now, by those that they had: the index of a recorded trace is made
 * again at the end, and numbers are in order of appearance.
 * @param {server.Track[]} before
 * @param {server.Track[]} now
 * @returns {Map<number, number>}
 */
export function sameTracks(before, now) {
  const numbers = new Map([...names(now)].map(([id, name]) => [name, id]));
  /** @type {Map<number, number>} */
  const same = new Map();
  for (const [id, name] of names(before)) {
    const number = numbers.get(name);
    if (number !== undefined) same.set(id, number);
  }
  return same;
}

/** A name for each track that no other one has. @param {server.Track[]} tracks */
function names(tracks) {
  const byId = new Map(tracks.map((track) => [track.id, track]));
  /** @type {Map<number, string>} */
  const found = new Map();
  /** @type {Map<string, number>} */
  const often = new Map();
  // Tracks come behind those around them.
  for (const { id, parent, kind, name, rank, tid, pid } of [...byId.values()].sort((a, b) => a.id - b.id)) {
    const own = [parent === null ? "" : found.get(parent), kind, tid ?? pid ?? `${rank} ${name}`].join("/");
    const number = often.get(own) ?? 0;
    often.set(own, number + 1);
    found.set(id, `${own} ${number}`);
  }
  return found;
}

/**
 * The number that a row has now; -1 if there is none like it.
 * @param {number} row
 * @param {server.Row[]} before
 * @param {server.Row[]} now
 * @param {Map<number, number>} tracks
 */
export function sameRow(row, before, now, tracks) {
  const was = before[row];
  const track = was === undefined ? undefined : tracks.get(was.track);
  return now.findIndex((other) => other.track === track && other.kind === was.kind && other.depth === was.depth);
}
