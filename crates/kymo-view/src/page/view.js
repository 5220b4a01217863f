// @ts-check
/** What is in view, and how it moves. */

import * as address from "./address.js";
import { only, picture, width } from "./page.js";
import { ask, draw } from "./picture.js";
import { SHORTEST, marks, now, trace, tracks, whole } from "./state.js";

/** The address is written when it has not changed for a moment. @type {number | undefined} */
let writing;

/** @param {number} from @param {number} to */
export function show(from, to) {
  const length = Math.min(Math.max(to - from, SHORTEST), whole.to);
  from = Math.min(Math.max(from, 0), whole.to - length);
  now.view = { from, to: from + length };
  keep();
  draw();
  ask();
}

/** Keeps in the address what is in view, soon: browsers refuse to change it at every frame. */
export function keep() {
  clearTimeout(writing);
  writing = setTimeout(() => {
    // Who opens it again sees all there is then.
    const isAll = trace.is_recorded && now.view.from === 0 && now.view.to === whole.to;
    const { selected, first, filter: where, flame } = now;
    const shown = isAll ? null : now.view;
    const hash = address.write({ view: shown, marks: marks.times, selected, first, top: tracks.onTop, only: only.value, where, flame });
    if (location.hash !== hash) history.replaceState(null, "", hash);
  }, 100);
}

/** Writes nothing that was to be written: the address has changed. */
export function keepNothing() {
  clearTimeout(writing);
}

/** Where a time is in the picture, in pixels. @param {number} at */
export function place(at) {
  return (at - now.view.from) * width() / (now.view.to - now.view.from);
}

/** The time at a place of the picture. @param {MouseEvent} event */
export function timeAt(event) {
  const x = event.clientX - picture.getBoundingClientRect().left;
  return now.view.from + x * (now.view.to - now.view.from) / width();
}

/** The time under the mouse, or else in the middle. */
export function here() {
  return now.mouse === null || now.mouse.target !== picture ? (now.view.from + now.view.to) / 2 : timeAt(now.mouse);
}

/** Zooms by a factor, around a time. @param {number} factor @param {number} around */
export function zoom(factor, around) {
  show(around - (around - now.view.from) * factor, around + (now.view.to - around) * factor);
}

/** @param {number} parts of the view's length */
export function move(parts) {
  const length = now.view.to - now.view.from;
  show(now.view.from + parts * length, now.view.to + parts * length);
}

/** Shows so many nanoseconds, around the mouse. @param {number} length */
export function showLength(length) {
  zoom(Math.min(length, whole.to) / (now.view.to - now.view.from), here());
}

/** Zooms to what is selected. */
export function showSelected() {
  if (now.selected === null) return;
  const beside = Math.max((now.selected.to - now.selected.from) / 10, 1);
  show(now.selected.from - beside, now.selected.to + beside);
}
