// @ts-check
/**
 * Stands in the place of `server.js` in a page that was written as a file: answers from what the
 * file has. Its element `trace` is base64 of gzip: the length of a text in 4 bytes (little-endian)
 * and 4 of zeros; the text in JSON, filled up to 8 bytes; and the rows' entries as floating-point
 * numbers of 64 bits.
 */

import { STEPS, WORDS } from "./layout.js";
export { STEPS, WORDS };

/**
 * @typedef {import("./server.js").Found} Found
 * @typedef {{ begin: number, end: number, name: number, count: number, busy: number, longest: number,
 *   isCut: boolean }} Run
 * @typedef {{ kind: string, entries: Float64Array }} Stored
 */

/** Numbers of an entry: of slices as in {@link Run}, and of values begin, end, least, greatest, last. */
const NUMBERS = { runs: 7, values: 5 };
/** What is said of a condition. */
const NO_FILTER = "This file has no events to filter. Open the trace with kymo view.";
/** Behind what a window shows. */
const OUTSIDE = 2 ** 28;

const { head, rows } = await read();

/** Unpacks what the file has. */
async function read() {
  const text = document.getElementById("trace")?.textContent ?? "";
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = await new Response(unpacked).arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 8, length)));
  let at = 8 + Math.ceil(length / 8) * 8;
  const rows = head.rows.map((/** @type {{ kind: "runs" | "values", length: number }} */ { kind, length }) => {
    const entries = new Float64Array(bytes, at, length * NUMBERS[kind]);
    at += entries.byteLength;
    return { kind, entries };
  });
  return { head, rows: /** @type {Stored[]} */ (rows) };
}

/** The first entry that ends at or behind a time. @param {Stored} row @param {number} size @param {number} from */
function firstAt({ entries }, size, from) {
  let [low, high] = [0, entries.length / size];
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    if (entries[middle * size + 1] < from) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The entry at an index. @param {Stored} row @param {number} index @returns {Run} */
function run({ entries }, index) {
  const [begin, end, name, count, busy, longest, isCut] = entries.subarray(index * NUMBERS.runs);
  return { begin, end, name, count, busy, longest, isCut: isCut !== 0 };
}

/**
 * The slices of a stretch of time; what is shorter than a column is merged.
 * @param {Stored} row @param {number} from @param {number} to @param {number} columns
 */
function runs(row, from, to, columns) {
  const column = (to - from) / columns;
  /** @type {Run[]} */
  const found = [];
  const length = row.entries.length / NUMBERS.runs;
  for (let index = firstAt(row, NUMBERS.runs, from); index < length; index += 1) {
    const next = run(row, index);
    if (next.begin > to) break;
    const last = found.at(-1);
    if (last === undefined || last.isCut || next.isCut || next.end - last.begin > column) {
      found.push(next);
      continue;
    }
    last.end = next.end;
    last.count += next.count;
    last.busy += next.busy;
    if (next.longest > last.longest) [last.longest, last.name] = [next.longest, next.name];
  }
  return found;
}

/** The trace. */
export async function trace() {
  return head.trace;
}

/** @type {typeof import("./server.js").window} */
export async function window(from, to, columns, wanted) {
  const unit = columns * STEPS / Math.max(to - from, 1);
  const place = (/** @type {number} */ at) => Math.min(Math.max(0, Math.floor((at - from) * unit)), OUTSIDE);
  /** @type {Map<number, Uint32Array<ArrayBuffer>>} */
  const found = new Map();
  for (const number of wanted) {
    const row = rows[number];
    if (row === undefined) continue;
    const words = row.kind === "values"
      ? values(row, from, to, columns, place)
      : runs(row, from, to, columns).flatMap(({ begin, end, name, count, busy }) => {
        const part = end > begin ? Math.min(busy / (end - begin), 1) : 1;
        return [place(begin), place(end), name, count, Math.floor(part * 65536)];
      });
    found.set(number, Uint32Array.from(words));
  }
  return { from, to, columns, isExact: head.is_exact, rows: found };
}

/**
 * The values of a stretch of time, from the one that the counter has at its beginning.
 * @param {Stored} row @param {number} from @param {number} to @param {number} columns
 * @param {(at: number) => number} place
 */
function values(row, from, to, columns, place) {
  const [column, size] = [(to - from) / columns, NUMBERS.values];
  /** @type {number[][]} */
  const found = [];
  for (let at = Math.max(0, firstAt(row, size, from) - 1); at < row.entries.length / size; at += 1) {
    const [begin, end, min, max, last] = row.entries.subarray(at * size);
    if (begin > to) break;
    const before = found.at(-1);
    if (before === undefined || end - before[0] > column) found.push([begin, end, min, max, last]);
    else found[found.length - 1] = [before[0], end, Math.min(before[2], min), Math.max(before[3], max), last];
  }
  const bits = new DataView(new ArrayBuffer(4));
  const word = (/** @type {number} */ value) => {
    bits.setFloat32(0, value);
    return bits.getUint32(0);
  };
  return found.flatMap(([begin, end, ...numbers]) => [place(begin), place(end), ...numbers.map(word)]);
}

/** What a slice is. @param {number} row @param {Run} run @returns {Found} */
function found(row, { begin, end, name, count, busy, longest, isCut }) {
  const [category, text, number] = head.trace.names[name] ?? ["", "", null];
  return { row, begin_ns: begin, end_ns: end, count, busy_ns: busy, longest_ns: longest, category,
    name: text, number, is_cut: isCut, notes: [] };
}

/** @param {Run[]} all @param {(run: Run) => number} distance */
function nearest(all, distance) {
  return all.reduce((best, next) => best !== null && distance(best) <= distance(next) ? best : next,
    /** @type {Run | null} */ (null));
}

/** @type {typeof import("./server.js").at} */
export async function at({ from, to, columns }, row, at) {
  const stored = rows[row];
  if (stored === undefined || stored.kind === "values") return null;
  const best = nearest(runs(stored, from, to, columns), ({ begin, end }) => Math.max(begin - at, at - end, 0));
  return best === null ? null : found(row, best);
}

/** All slices that reach into a stretch of time. @param {number} row @param {number} from @param {number} to */
function whole(row, from, to) {
  return rows[row]?.kind === "runs" ? runs(rows[row], from, to, Infinity) : [];
}

/** @type {typeof import("./server.js").find} */
export async function find(row, from, to) {
  const best = nearest(whole(row, from, to), ({ begin, end }) => Math.abs(begin - from) + Math.abs(end - to));
  return best === null ? null : found(row, best);
}

/** @type {typeof import("./server.js").findCase} */
export async function findCase({ category, tid, begin_ns: from, end_ns: to }) {
  const { rows: all, names } = /** @type {import("./server.js").Trace} */ (head.trace);
  for (const [row, { track }] of all.entries()) {
    if (tid !== null && !isOf(track, tid)) continue;
    const best = whole(row, from, to).find(({ begin, end, name }) =>
      begin === from && end === to && names[name]?.[0] === category);
    if (best !== undefined) return found(row, best);
  }
  return null;
}

/** Whether a track is one of the thread of this number. @param {number} track @param {number} tid */
function isOf(track, tid) {
  const byId = new Map(/** @type {import("./server.js").Trace} */ (head.trace).tracks.map((one) => [one.id, one]));
  let home = byId.get(track);
  for (;;) {
    const outer = home?.parent == null ? undefined : byId.get(home.parent);
    if (outer === undefined || outer.kind === "group" || outer.kind === "process") break;
    home = outer;
  }
  // Threads without a process are in the order of their numbers.
  return (home?.kind === "thread" ? home.tid : home?.rank) === tid;
}

/** @type {typeof import("./server.js").arrows} */
export async function arrows() {
  return { arrows: [], is_whole: true };
}

/** @type {typeof import("./server.js").why} */
export async function why() {
  throw new Error("This file does not have what other threads did outside of it. Open the trace with kymo view.");
}

/** @type {typeof import("./server.js").report} */
export async function report(from, to, where) {
  if (where !== "") throw new Error(NO_FILTER);
  if (from > 0 || to < head.trace.span_ns) {
    throw new Error("This file has the report of all of it only. For that of another stretch, open the trace with kymo view.");
  }
  return head.report;
}

/** @type {typeof import("./server.js").events} */
export async function events() {
  throw new Error(NO_FILTER);
}

/** @type {typeof import("./server.js").flame} */
export async function flame(from, to, where, of) {
  if (where !== "") throw new Error(NO_FILTER);
  if (from > 0 || to < head.trace.span_ns || of !== "") {
    throw new Error("This file has the flame graph of all of it only. For that of another stretch, a CPU or a thread, "
      + "open the trace with kymo view.");
  }
  if (head.flame === null) throw new Error(`This file has no flame graph. ${head.no_flame} Open the trace with kymo view.`);
  return { ...head.flame, cpus: [], threads: [], more_threads: 0 };
}

/** @type {typeof import("./server.js").diff} */
export async function diff() {
  throw new Error("This file cannot compare two stretches. Open the trace with kymo view.");
}

/** @satisfies {typeof import("./server.js")} */
export default { STEPS, WORDS, trace, window, at, find, findCase, arrows, why, report, events, flame, diff };
