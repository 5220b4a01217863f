// @ts-check
/** A slice as text. */

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
  const many = found.category === "sample" ? "samples" : found.longest_ns === 0 ? "events" : "slices";
  if (count > 1) rows.push([many, count.toLocaleString("en")]);
  if (count > 1 && found.longest_ns > 0) {
    rows.push(["together", duration(found.busy_ns)], ["the longest", `${duration(found.longest_ns)}, ${name}`]);
  }
  rows.push(...found.notes);
  if (found.is_cut) rows.push(["", "It reaches out of what was read: zoom out to see all of it."]);
  panel.replaceChildren(table(count > 1 ? `${count.toLocaleString("en")} ${many}` : name, [], rows));
}

/** Says what went wrong. @param {HTMLElement} panel @param {unknown} error */
export function fail(panel, error) {
  say(panel, error instanceof Error ? error.message : String(error));
}

/** @param {HTMLElement} panel @param {string} sentence */
export function say(panel, sentence) {
  panel.replaceChildren(element("p", sentence));
}
