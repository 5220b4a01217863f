// @ts-check
/** What the server is asked for. Times are in nanoseconds since the trace's first event. */

/**
 * @typedef {{ id: number, parent: number | null, kind: string, name: string, rank: number,
 *   pid: number | null, tid: number | null }} Track
 * @typedef {{ track: number, kind: string, depth: number }} Row
 * @typedef {{ title: string, events: number, span_ns: number, read_ns: number, is_whole: boolean,
 *   is_recorded: boolean,
 *   begin_ns: string, since_begin_ns: number, damage: string[], tracks: Track[], rows: Row[],
 *   names: [string, string, number | null][] }} Trace
 * @typedef {{ row: number, begin_ns: number, end_ns: number, count: number, busy_ns: number, longest_ns: number,
 *   category: string, name: string, number: number | null, is_cut: boolean,
 *   notes: [string, string][] }} Found
 * @typedef {{ name: string, from_ns: number, from_track: number, to_ns: number, to_track: number }} Arrow
 * @typedef {{ from_ns: number, to_ns: number, track: number | null, who: string, says: string,
 *   because: string, cpu: number | null }} PathSegment
 * @typedef {{ segments: PathSegment[], by_who: [string, number, number][], is_whole: boolean,
 *   losses: number }} Why
 * @typedef {{ at_ns: number | null, name: string, cpu: number | null, thread: string | null, fields: [string, string][] }} Event
 * @typedef {{ events: Event[], count: number }} Events
 * @typedef {{ total: number, unit: string, account: string[], tree: [number, string, string, number, number][],
 *   left_out: [number, number], cpus: [number, number][], threads: [string, string, number][],
 *   more_threads: number }} Flame
 * @typedef {{ from: number, to: number, columns: number, isExact: boolean,
 *   rows: Map<number, Uint32Array> }} Window
 */

import { STEPS, WORDS } from "./layout.js";
export { STEPS, WORDS };

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
  const answer = await fetch(`api/${what}?${words}`, { signal }).catch((error) => {
    if (error.name === "AbortError") throw error;
    throw new Error("Nobody answers any more: kymo has ended. What was read so far is still here.");
  });
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
 * The slice or point that begins and ends at these times.
 * @param {number} row
 * @param {number} from
 * @param {number} to
 * @returns {Promise<Found | null>}
 */
export async function find(row, from, to) {
  return (await ask("find", { row, from, to })).json();
}

/**
 * The arrows that begin or end in a stretch of time at the thread of a row.
 * @param {number} row
 * @param {number} from
 * @param {number} to
 * @returns {Promise<{ arrows: Arrow[], is_whole: boolean }>}
 */
export async function arrows(row, from, to) {
  return (await ask("arrows", { row, from, to })).json();
}

/**
 * Who held up the thread of a row, in a stretch of time.
 * @param {number} row
 * @param {number} from
 * @param {number} to
 * @returns {Promise<Why>}
 */
export async function why(row, from, to) {
  return (await ask("why", { row, from, to })).json();
}

/**
 * The report of a stretch of time: of the events that fit a condition as of `--where`, or of all.
 * @param {number} from
 * @param {number} to
 * @param {string} where
 * @returns {Promise<any>}
 */
export async function report(from, to, where) {
  return (await ask("report", { from, to, where })).json();
}

/**
 * The first events of a stretch of time that fit a condition, and the number of all.
 * @param {number} from
 * @param {number} to
 * @param {string} where
 * @returns {Promise<Events>}
 */
export async function events(from, to, where) {
  return (await ask("events", { from, to, where })).json();
}

/**
 * The samples of a stretch of time as a tree of functions, likewise.
 * @param {number} from
 * @param {number} to
 * @param {string} where
 * @param {string} of `cpu=0`, `thread=5`, or all
 * @returns {Promise<Flame>}
 */
export async function flame(from, to, where, of) {
  const [kind, number] = of.split("=");
  if (of !== "" && kind !== "cpu" && kind !== "thread") {
    throw new Error(`The address asks for the samples of ${of}. Choose all of them, those of a CPU (cpu=0) or of a thread (thread=5).`);
  }
  return (await ask("flame", { from, to, where, ...(of === "" ? {} : { [kind]: number }) })).json();
}

/**
 * The slice of one of the report's worst cases.
 * @param {import("./report.js").Case} one
 * @returns {Promise<Found | null>}
 */
export async function findCase({ category, tid, begin_ns: from, end_ns: to }) {
  return (await ask("find", { category, ...(tid === null ? {} : { tid }), from, to })).json();
}

/**
 * Two stretches of time compared, likewise.
 * @param {{ from: number, to: number }} first
 * @param {{ from: number, to: number }} second
 * @param {string} where
 * @returns {Promise<any>}
 */
export async function diff(first, second, where) {
  const other = { other_from: second.from, other_to: second.to };
  return (await ask("diff", { from: first.from, to: first.to, where, ...other })).json();
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
