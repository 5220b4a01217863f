// @ts-check
/** What is in view as a table: for screen readers, and for everybody without a mouse. */

import { button, element, table } from "./element.js";
import { STEPS, WORDS } from "./server.js";
import { duration, moment } from "./time.js";

/** Most entries of a row, and of all rows. */
const [MOST_OF_ROW, MOST] = [20, 400];

/**
 * @param {HTMLElement} panel
 * @param {import("./server.js").Window} window
 * @param {{ from: number, to: number }} view
 * @param {import("./tracks.js").Line[]} lines
 * @param {import("./tracks.js").Tracks} tracks
 * @param {import("./server.js").Trace} trace
 * @param {(row: number, at: number) => void} go
 */
export function show(panel, window, view, lines, tracks, trace, go) {
  const step = (window.to - window.from) / (window.columns * STEPS);
  /** @type {(string | number | Node)[][]} */
  const all = [];
  let left = 0;
  for (const line of lines) {
    for (const row of line.rows) {
      const entries = window.rows.get(row);
      if (entries === undefined) continue;
      const hasValues = trace.rows[row].kind === "values";
      const numbers = new Float32Array(entries.buffer, entries.byteOffset, entries.length);
      let count = 0;
      for (let at = 0; at < entries.length; at += WORDS) {
        const [begin, end] = [window.from + entries[at] * step, window.from + entries[at + 1] * step];
        if (end < view.from || begin > view.to) continue;
        count += 1;
        if (count > MOST_OF_ROW || all.length >= MOST) {
          left += 1;
          continue;
        }
        const track = count === 1 ? tracks.path(line.track) : "";
        if (hasValues) {
          all.push([track, `value ${numbers[at + 4]}`, moment(begin), "", ""]);
          continue;
        }
        const name = trace.names[entries[at + 2]]?.[1] ?? "";
        const middle = Math.min(Math.max((begin + end) / 2, view.from), view.to);
        // What stands for several slices has the name of the longest.
        const many = entries[at + 3] > 1 ? String(entries[at + 3]) : "";
        all.push([track, button(name, `Select it at ${moment(begin)}`, () => go(row, middle)), moment(begin),
          duration(end - begin), many]);
      }
    }
  }
  const made = table("In view", ["track", "what", "begins at", "lasts", "slices"], all, 2);
  made.tabIndex = -1;
  panel.replaceChildren(made);
  if (left > 0) panel.append(element("p", `${left} more are not listed: zoom in, or show only some tracks.`));
}
