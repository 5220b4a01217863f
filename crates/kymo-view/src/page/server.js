// @ts-check
/** What the server is asked for. Times are in nanoseconds since the trace's first event. */

/**
 * @typedef {{ id: number, parent: number | null, kind: string, name: string, rank: number,
 *   pid: number | null, tid: number | null }} Track
 * @typedef {{ track: number, kind: string, depth: number }} Row
 * @typedef {{ title: string, events: number, span_ns: number, read_ns: number, is_whole: boolean,
 *   begin_ns: string, tracks: Track[], rows: Row[], names: [string, string, number | null][] }} Trace
 * @typedef {{ begin_ns: number, end_ns: number, count: number, busy_ns: number, longest_ns: number,
 *   category: string, name: string, number: number | null, is_cut: boolean,
 *   notes: [string, string][] }} Found
 * @typedef {{ from: number, to: number, columns: number, isExact: boolean,
 *   rows: Map<number, Uint32Array> }} Window
 */

/** Words of an entry of a window, and into how many steps a column is divided. */
export const WORDS = 5;
export const STEPS = 16;

/** The status of answers before anything has been read. */
const NOTHING_YET = 503;

/**
 * @param {string} what
 * @param {Record<string, string | number>} query
 * @param {AbortSignal} [signal]
 */
async function ask(what, query, signal) {
  const words = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) words.set(name, String(value));
  const answer = await fetch(`api/${what}?${words}`, { signal });
  if (!answer.ok && answer.status !== NOTHING_YET) throw new Error((await answer.text()).trim());
  return answer;
}

/** The trace; null if nothing of it has been read yet. @returns {Promise<Trace | null>} */
export async function trace() {
  const answer = await ask("trace", {});
  return answer.status === NOTHING_YET ? null : answer.json();
}

/**
 * What rows have in a stretch of time.
 * @param {number} from
 * @param {number} to
 * @param {number} columns
 * @param {number[]} rows
 * @param {AbortSignal} [signal]
 * @returns {Promise<Window>}
 */
export async function window(from, to, columns, rows, signal) {
  const list = ranges(rows);
  const answer = await ask("window", { from, to, columns, rows: list }, signal);
  const words = new Uint32Array(await answer.arrayBuffer());
  const found = new Map();
  let at = 1;
  for (const row of rows) {
    const length = (words[at] ?? 0) * WORDS;
    found.set(row, words.subarray(at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { from, to, columns, isExact: words[0] === 1, rows: found };
}

/**
 * What a row has at a point in time.
 * @param {{ from: number, to: number, columns: number }} view
 * @param {number} row
 * @param {number} at
 * @returns {Promise<Found | null>}
 */
export async function at(view, row, at) {
  const { from, to, columns } = view;
  return (await ask("at", { from, to, columns, row, at })).json();
}

/**
 * The report of a stretch of time.
 * @param {number} from
 * @param {number} to
 * @returns {Promise<any>}
 */
export async function report(from, to) {
  return (await ask("report", { from, to })).json();
}

/**
 * Numbers as a list of ranges: `0-4,7`.
 * @param {number[]} numbers
 */
function ranges(numbers) {
  /** @type {string[]} */
  const parts = [];
  for (let first = 0; first < numbers.length;) {
    let last = first;
    while (numbers[last + 1] === numbers[last] + 1) last += 1;
    parts.push(first === last ? `${numbers[first]}` : `${numbers[first]}-${numbers[last]}`);
    first = last + 1;
  }
  return parts.join(",");
}
