// @ts-check
/** Selects a slice: what it is, its arrows, and who held its thread up. */

import { button } from "./element.js";
import { detail, picture, scroll, width } from "./page.js";
import * as panel from "./panel.js";
import { draw } from "./picture.js";
import * as server from "./server.js";
import { SHORTEST, arrows, now, path, trace, tracks } from "./state.js";
import { selectTime } from "./stretch.js";
import { scrollToTrack } from "./titles.js";
import { LINE } from "./tracks.js";
import { keep, show, timeAt } from "./view.js";

/** Selects the slice at a place. @param {MouseEvent} event */
export async function pick(event) {
  const y = event.clientY - picture.getBoundingClientRect().top;
  const found = tracks.at(y, scroll.scrollTop);
  if (found === undefined || now.window === null) return;
  const { line } = found;
  const depth = Math.floor((y - found.y) / LINE);
  const row = line.rows.find((row) => trace.rows[row].depth === depth && trace.rows[row].kind !== "values")
    ?? line.rows.find((row) => trace.rows[row].kind === "points");
  if (row === undefined) return;
  const asked = { from: Math.floor(now.view.from), to: Math.ceil(now.view.to), columns: Math.round(width()) };
  const at = Math.max(0, Math.round(timeAt(event)));
  await showSlice((row) => server.at(asked, row, at), row);
}

/** Selects the slice of a row that begins and ends at these times. @param {number} row @param {number} from @param {number} to */
export async function findSlice(row, from, to) {
  if (trace.rows[row] === undefined) return selectTime(from, to);
  now.selected = { from, to, row };
  await showSlice((row) => server.find(row, from, to), row);
  scrollToTrack(trace.rows[row].track);
}

/**
 * Selects the slice that the server finds.
 * @param {(row: number) => Promise<server.Found | null>} find
 * @param {number} row
 */
export async function showSlice(find, row) {
  const selection = ++now.selections;
  let found;
  try {
    found = await find(row);
  } catch (error) {
    if (selection > now.told) panel.fail(detail, error);
    return;
  }
  if (found === null || selection < now.told) return;
  now.told = selection;
  now.selected = { from: found.begin_ns, to: found.end_ns, row };
  const track = tracks.byId.get(trace.rows[row].track);
  panel.slice(detail, track === undefined ? "" : tracks.path(track), found);
  if (track !== undefined && tracks.isOfThread(track) && found.count === 1 && found.end_ns > found.begin_ns) {
    detail.append(button("Why?", "Who held this thread up meanwhile: the critical path (Y)", why));
  }
  arrows.shown = [];
  path.shown = null;
  keep();
  draw();
  // The slice is there already, whether or not its arrows can be had.
  showArrows(found, selection).catch((error) => {
    if (selection === now.told) detail.append(String(error));
  });
}

/** Shows who held up the thread of what is selected. */
export async function why() {
  if (now.selected === null || now.selected.row === null) {
    return panel.say(detail, "Select a slice of a thread first, by a click: the critical path is that of its time.");
  }
  const { row, from, to } = now.selected;
  const selection = now.told;
  panel.say(detail, "Reading the trace for the critical path ...");
  let found;
  try {
    found = await server.why(row, from, to);
  } catch (error) {
    if (selection === now.told) panel.fail(detail, error);
    return;
  }
  if (selection !== now.told) return;
  path.shown = found;
  arrows.shown = [];
  detail.replaceChildren(...path.list(({ from_ns: begin, to_ns: end, track }) => {
    const [middle, length] = [(begin + end) / 2, Math.max(end - begin, SHORTEST / 5)];
    show(middle - 2.5 * length, middle + 2.5 * length);
    if (track !== null) scrollToTrack(track);
  }));
  draw();
}

/** Shows the arrows of the slice that is selected. @param {server.Found} found @param {number} selection */
async function showArrows(found, selection) {
  if (found.count > 1) return;
  const { row, begin_ns: from, end_ns: to } = found;
  const { arrows: shown, is_whole: isWhole } = await server.arrows(row, from, to);
  if (selection !== now.told) return;
  arrows.shown = shown;
  const length = now.view.to - now.view.from;
  detail.append(...arrows.list(isWhole, (at, track) => {
    show(at - length / 2, at + length / 2);
    scrollToTrack(track);
  }));
  draw();
}
