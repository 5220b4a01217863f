// @ts-check
/** Selects a stretch of time, all of it, or a second one: their reports. */

import * as compare from "./compare.js";
import { button, element } from "./element.js";
import * as flame from "./flame.js";
import { detail } from "./page.js";
import * as panel from "./panel.js";
import { draw } from "./picture.js";
import * as report from "./report.js";
import * as server from "./server.js";
import { findSlice, showSlice } from "./slice.js";
import { SHORTEST, arrows, marks, now, path, trace } from "./state.js";
import { moment } from "./time.js";
import { scrollToTrack } from "./titles.js";
import { here, keep, show } from "./view.js";

/** The report of the whole trace, once it was asked for, and the condition of its events. @type {{ where: string, report: Promise<any> } | null} */
let ofAll = null;

/** Selects a stretch of time, and shows what is in it. @param {number} from @param {number} to */
export async function selectTime(from, to) {
  [from, to] = [Math.round(from), Math.round(to)];
  now.selected = { from, to, row: null };
  const selection = begin();
  panel.say(detail, "Reading ...");
  await tell(selection, { from, to });
}

/** Selects nothing: the panel shows what is in the whole trace. */
export async function deselect() {
  now.selected = null;
  now.first = null;
  const selection = begin();
  const what = now.flame === null ? "worst cases are" : "flame graph is";
  if (trace.is_recorded && now.flame === null) {
    return panel.say(detail, "The worst cases are shown once the recording has ended. A stretch of time has its report already: select one.");
  }
  if (!trace.is_whole && !trace.is_recorded) return panel.say(detail, `The ${what} shown once the trace has been read.`);
  panel.say(detail, now.flame === null ? "Reading the trace for its worst cases ..." : "Reading the trace for its samples ...");
  await tell(selection, null);
}

/** Begins to show something else; its number. */
function begin() {
  arrows.shown = [];
  path.shown = null;
  keep();
  draw();
  return now.told = ++now.selections;
}

/**
 * Shows the report of a stretch of time or of all, its flame graph, or how it differs from the first one.
 * @param {number} selection
 * @param {{ from: number, to: number } | null} time
 */
async function tell(selection, time) {
  const { from, to } = time ?? { from: 0, to: trace.span_ns };
  const { first, flame: whose, filter: where } = now;
  try {
    const shown = await (first !== null && time !== null ? differing(first, time, where)
      : whose !== null ? flaming(from, to, where, whose)
      : reported(time, from, to, where));
    if (selection !== now.told) return;
    shown();
    const heading = detail.querySelector("h2");
    if (first === null || time === null) choices(heading).prepend(other());
    if (where !== "") heading?.after(element("p", `Only events that fit ${where} are counted. The picture has all of them.`));
  } catch (error) {
    if (selection === now.told) panel.fail(detail, error);
  }
}

/** @param {{ from: number, to: number }} first @param {{ from: number, to: number }} time @param {string} where */
async function differing(first, time, where) {
  const diff = await server.diff(first, time, where);
  return () => compare.show(detail, first, time, diff);
}

/** @param {number} from @param {number} to @param {string} where @param {string} whose */
async function flaming(from, to, where, whose) {
  const tree = await server.flame(from, to, where, whose);
  const title = `Flame graph of ${moment(from)} to ${moment(to)}`;
  return () => flame.show(detail, title, tree, whose, (of) => {
    now.flame = of;
    showAgain();
  });
}

/** @param {{ from: number, to: number } | null} time @param {number} from @param {number} to @param {string} where */
async function reported(time, from, to, where) {
  if (time === null && (ofAll === null || ofAll.where !== where)) ofAll = { where, report: server.report(from, to, where) };
  const asked = ofAll;
  try {
    const [of, fit] = await Promise.all([time === null && asked !== null ? asked.report : server.report(from, to, where),
      where === "" ? null : server.events(from, to, where)]);
    return () => {
      report.show(detail, time, of, showCase);
      if (fit !== null) detail.append(report.events(fit, showMoment));
    };
  } catch (error) {
    // The next time, it is asked for again.
    if (time === null && ofAll === asked) ofAll = null;
    throw error;
  }
}

/** Where the panel has what can be chosen. @param {Element | null} heading */
function choices(heading) {
  const there = detail.querySelector(".choices");
  if (there !== null) return there;
  const made = element("p");
  made.className = "choices";
  heading?.after(made);
  return made;
}

/** The way from the report to the flame graph, or back. */
function other() {
  return now.flame === null ? button("Flame graph", "Where the time goes, by its samples (G)", toggleFlame)
    : button("Report", "The tables of this stretch (G)", toggleFlame);
}

/** Shows the flame graph in place of the report, or the report again. */
export function toggleFlame() {
  now.flame = now.flame === null ? "" : null;
  const { selected } = now;
  // Of a slice, its time.
  if (selected !== null) selectTime(selected.from, selected.to);
  else showAgain();
}

/** Counts only events that fit a condition, or all. @param {string} where */
export function filterBy(where) {
  if (where === now.filter) return;
  now.filter = where;
  keep();
  showAgain();
}

/** Compares the stretch that is selected with the next one, or no more. */
export function compareNext() {
  if (now.first === null && (now.selected === null || now.selected.row !== null)) return;
  if (now.first !== null) {
    now.first = null;
    if (now.selected === null) deselect();
    else selectTime(now.selected.from, now.selected.to);
    return;
  }
  if (now.selected !== null) now.first = { from: now.selected.from, to: now.selected.to };
  askForSecond();
}

export function askForSecond() {
  now.selected = null;
  begin();
  panel.say(detail, "Select a second stretch of time, with shift and the mouse or by marks and R; it is compared with the first one.");
}

/** Selects the time between the two marks around the mouse or the middle. */
export function selectBetween() {
  const after = marks.times.findIndex((time) => time > here());
  const [from, to] = [marks.times[after - 1], marks.times[after]];
  if (from !== undefined && to !== undefined) selectTime(from, to);
  else selectTime(Math.max(now.view.from, 0), now.view.to);
}

/** Shows what is selected, once all of the trace has been read. */
export function showAgain() {
  if (now.selected === null && now.first === null) deselect();
  else if (now.selected !== null && now.selected.row === null) selectTime(now.selected.from, now.selected.to);
  else if (now.selected !== null && now.selected.row !== null) findSlice(now.selected.row, now.selected.from, now.selected.to);
}

/** Shows a time in the middle, as much around it as is shown now. @param {number} at */
function showMoment(at) {
  const length = now.view.to - now.view.from;
  show(at - length / 2, at + length / 2);
}

/** Goes to a case and selects it. @param {report.Case} one */
async function showCase(one) {
  const [middle, length] = [(one.begin_ns + one.end_ns) / 2, Math.max(one.end_ns - one.begin_ns, SHORTEST / 5)];
  // It has a fifth of the width.
  show(middle - 2.5 * length, middle + 2.5 * length);
  const selection = ++now.selections;
  const found = await server.findCase(one).catch(() => null);
  if (selection !== now.selections) return;
  if (found === null) return selectTime(one.begin_ns, one.end_ns);
  await showSlice(() => Promise.resolve(found), found.row);
  scrollToTrack(trace.rows[found.row].track);
}
