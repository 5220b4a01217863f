// @ts-check
/** Two stretches of time side by side. */

import { element, table } from "./element.js";
import { duration, moment } from "./time.js";

/** Rows of a table. */
const MOST = 10;

/** What a test says of a difference. @type {Record<string, string>} */
const SAYS = { too_few: "too few to tell", noise: "no more than chance", less: "less", more: "more" };
/** @type {Record<string, string>} */
const LASTS = { ...SAYS, less: "shorter", more: "longer" };

/** @param {number} number */
function count(number) {
  return number.toLocaleString("en");
}

/** A figure of both. @param {any} pair @param {(value: any) => string} text */
function both(pair, text) {
  return [pair.before, pair.after].map((value) => value === null || value === undefined ? "" : text(value));
}

/**
 * @param {HTMLElement} panel
 * @param {{ from: number, to: number }} first
 * @param {{ from: number, to: number }} second
 * @param {any} diff
 */
export function show(panel, first, second, diff) {
  const span = (/** @type {{ from: number, to: number }} */ { from, to }) =>
    `${moment(from)} + ${duration(to - from)}`;
  /** @type {Node[]} */
  const parts = [element("h2", `First: ${span(first)}. Second: ${span(second)}`),
    table("Both", ["", "first", "second"], [["events", ...both(diff.events, count)],
      ["lost", ...both(diff.lost, count)]])];
  /** @type {[string, string, string][]} */
  const members = [["Threads", "threads", "wake-up latency"], ["System calls", "system_calls", "duration"],
    ["Interrupts", "interrupts", "duration"], ["Lock waits", "lock_waits", "duration"],
    ["Locks held", "lock_holds", "duration"]];
  for (const [title, member, what] of members) {
    const all = diff[member].filter((/** @type {any} */ row) => row.count.before + row.count.after > 0);
    if (all.length === 0) continue;
    // What differs for sure comes first, and then what is most frequent.
    const differs = (/** @type {any} */ row) => Number([row.counts_test, row.durations_test].some((test) =>
      test.difference === "less" || test.difference === "more"));
    const number = (/** @type {any} */ row) => row.count.before + row.count.after;
    all.sort((/** @type {any} */ a, /** @type {any} */ b) => differs(b) - differs(a) || number(b) - number(a));
    const hasShares = all.some((/** @type {any} */ row) => row.share_percent !== null);
    const share = (/** @type {any} */ row) => !hasShares ? []
      : both(row.share_percent ?? {}, (value) => `${value.toFixed(1)}%`);
    const rows = all.slice(0, MOST).map((/** @type {any} */ row) => [row.name, ...share(row),
      ...both(row.per_second, (value) => value.toLocaleString("en", { maximumSignificantDigits: 4 })), SAYS[row.counts_test.difference],
      ...both({ before: row.durations.before.p99_ns, after: row.durations.after.p99_ns }, duration),
      LASTS[row.durations_test.difference]]);
    const head = ["", ...(hasShares ? ["share", "then"] : []), "per second", "then", "second has",
      `p99 ${what}`, "then", "second is"];
    parts.push(table(title, head, rows));
    if (all.length > MOST) parts.push(element("p", `${all.length - MOST} more are not shown.`));
  }
  panel.replaceChildren(...parts);
}
