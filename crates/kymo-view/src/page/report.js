// @ts-check
/** The report of a stretch of time as tables, and its worst cases, each with a way there. */

import { button, element, table } from "./element.js";
import { duration, moment } from "./time.js";

/**
 * @typedef {{ kind: string, category: string, name: string, thread: string | null, tid: number | null,
 *   cpu: number | null, begin_ns: number, end_ns: number }} Case
 */

/** Rows of a table. */
const MOST = 10;

/** Times of a histogram. @param {any} of */
function times(of) {
  return [of?.p50_ns, of?.p99_ns, of?.max_ns].map((ns) => ns === null || ns === undefined ? "" : duration(ns));
}

/** What something is called. @param {any} of @param {string} number */
function called(of, number) {
  return of.name === null || of.name === undefined ? String(of[number]) : `${of.name} (${of[number]})`;
}

/** What the trace lacks, in words. @param {any} losses */
function lost(losses) {
  const parts = [[losses.events, "events lost"], [losses.packets, "packets missing"],
    [losses.missing, "events counted that are missing"]];
  const some = parts.filter(([count]) => count > 0);
  return some.length === 0 ? "none lost" : some.map(([count, what]) => `${count} ${what}`).join(", ");
}

/** @param {Case[]} cases @param {(one: Case) => void} go */
function worst(cases, go) {
  const rows = cases.map((one) => {
    const length = one.end_ns - one.begin_ns;
    const what = [one.kind, one.name].filter((part) => part !== "").join(" ");
    const where = one.thread ?? (one.cpu === null ? "" : `CPU ${one.cpu}`);
    return [button(what, `Go to ${moment(one.begin_ns)} and select it`, () => go(one)), duration(length), where];
  });
  return table("Worst cases", ["what", "lasts", "where"], rows);
}

/**
 * Events as a table.
 * @param {import("./server.js").Events} found
 * @param {(at: number) => void} go
 */
export function events({ events: first, count }, go) {
  if (count === 0) return element("p", "No event of this time fits.");
  const rows = first.map(({ at_ns: at, name, cpu, thread, fields }) => [
    at === null ? "" : button(moment(at), "Go there", () => go(at)), name, cpu === null ? "" : `CPU ${cpu}`, thread ?? "",
    fields.map(([name, value]) => `${name} = ${value}`).join(", ")]);
  const title = count > first.length ? `The first ${first.length} of ${count.toLocaleString("en")} events that fit` : "Events that fit";
  return table(title, ["at", "event", "on", "thread", "fields"], rows, 5);
}

/**
 * @param {HTMLElement} panel
 * @param {{ from: number, to: number } | null} time `null` for the whole trace
 * @param {any} report
 * @param {(one: Case) => void} go
 */
export function show(panel, time, report, go) {
  const length = time === null ? report.end_ns - report.begin_ns : time.to - time.from;
  const what = time === null ? "All of it" : `${moment(time.from)} to ${moment(time.to)}`;
  /** @type {Node[]} */
  const parts = [element("h2", `${what}: ${duration(length)}, ${report.events.toLocaleString("en")} events, ${lost(report.losses)}`)];
  for (const sentence of report.damage.slice(0, MOST)) parts.push(element("p", `Damaged: ${sentence}.`));
  if (time === null && report.worst.length > 0) parts.push(worst(report.worst, go));
  const threads = report.threads.filter((/** @type {any} */ thread) => thread.cpu_ns > 0 && !thread.idle);
  if (threads.length > 0) {
    parts.push(table("Threads", ["thread", "on a CPU", "share"], threads.slice(0, MOST).map((/** @type {any} */ thread) =>
      [called(thread, "tid"), duration(thread.cpu_ns), `${(100 * thread.cpu_ns / length).toFixed(1)}%`])));
  }
  /** @type {[string, string, string][]} */
  const timed = [["System calls", "system_calls", "id"], ["Interrupts", "interrupts", "irq"]];
  for (const [title, member, number] of timed) {
    const rows = report[member];
    if (rows.length === 0) continue;
    parts.push(table(title, ["", "number", "p50", "p99", "max"], rows.slice(0, MOST).map((/** @type {any} */ row) =>
      [called(row, number), row.count, ...times(row.durations)])));
  }
  const wakes = report.wake_latency?.durations;
  if (wakes?.count > 0) {
    parts.push(table("Wake-up latency", ["", "number", "p50", "p99", "max"], [["all threads", wakes.count, ...times(wakes)]]));
  }
  const locks = report.locks.filter((/** @type {any} */ lock) => lock.wait.count > 0);
  if (locks.length > 0) {
    parts.push(table("Lock waits", ["lock", "waits", "p50", "p99", "max"], locks.slice(0, MOST).map((/** @type {any} */ lock) =>
      [lock.name ?? `0x${lock.lock.toString(16)}`, lock.wait.count, ...times(lock.wait)])));
  }
  if (time !== null && report.worst.length > 0) parts.push(worst(report.worst, go));
  panel.replaceChildren(...parts);
}
