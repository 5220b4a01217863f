// @ts-check
/** The selection as text: a slice, or the report of a stretch of time. */

import { element, table } from "./element.js";
import { duration, moment } from "./time.js";

/**
 * A slice, or several that stand as one.
 * @param {HTMLElement} panel
 * @param {string} track
 * @param {import("./server.js").Found} found
 */
export function slice(panel, track, found) {
  const { begin_ns: begin, end_ns: end, count } = found;
  const name = found.number === null ? found.name : `${found.name} (${found.number})`;
  const rows = [["track", track], ["begins at", moment(begin)], ["lasts", duration(end - begin)]];
  if (count > 1) {
    rows.push(["slices", String(count)], ["together", duration(found.busy_ns)],
      ["the longest", `${duration(found.longest_ns)}, ${name}`]);
  }
  rows.push(...found.notes);
  if (found.is_cut) rows.push(["", "It reaches out of what was read: zoom out to see all of it."]);
  panel.replaceChildren(table(count > 1 ? `${count} slices` : name, [], rows));
}

/** Times of a histogram. @param {any} of */
function times(of) {
  return of === null || of === undefined ? ["", "", ""] : [duration(of.p50_ns), duration(of.p99_ns), duration(of.max_ns)];
}

/** What something is called. @param {any} of @param {string} number */
function called(of, number) {
  return of.name === null || of.name === undefined ? String(of[number]) : `${of.name} (${of[number]})`;
}

/**
 * The report of a stretch of time.
 * @param {HTMLElement} panel
 * @param {number} from
 * @param {number} to
 * @param {any} report
 */
export function report(panel, from, to, report) {
  const length = to - from;
  const lost = report.losses?.events > 0 ? `, ${report.losses.events} lost` : ", none lost";
  const all = element("h2", `${moment(from)} to ${moment(to)}: ${duration(length)}, ${report.events} events${lost}`);
  /** @type {Node[]} */
  const parts = [all];
  const threads = report.threads.filter((/** @type {any} */ thread) => thread.cpu_ns > 0 && !thread.idle);
  if (threads.length > 0) {
    parts.push(table("Threads", ["thread", "on a CPU", "share"], threads.slice(0, 10).map((/** @type {any} */ thread) =>
      [called(thread, "tid"), duration(thread.cpu_ns), `${(100 * thread.cpu_ns / length).toFixed(1)}%`])));
  }
  /** @type {[string, string, string][]} */
  const timed = [["System calls", "system_calls", "id"], ["Interrupts", "interrupts", "irq"]];
  for (const [title, member, number] of timed) {
    const rows = report[member] ?? [];
    if (rows.length === 0) continue;
    parts.push(table(title, ["", "number", "p50", "p99", "max"], rows.slice(0, 10).map((/** @type {any} */ row) =>
      [called(row, number), row.calls ?? row.count, ...times(row.durations)])));
  }
  panel.replaceChildren(...parts);
}

/** @param {HTMLElement} panel @param {string} sentence */
export function say(panel, sentence) {
  panel.replaceChildren(element("p", sentence));
}
