// @ts-check
/** When what is in view is listed as a table. */

import * as listed from "./listed.js";
import { get, inView, scroll, width } from "./page.js";
import * as server from "./server.js";
import { showSlice } from "./slice.js";
import { now, trace, tracks } from "./state.js";

/** @type {number | undefined} */
let listing;
let focusesList = false;

/** Lists what is in view, if that is wanted, once the view stays. */
export function list() {
  clearTimeout(listing);
  if (inView.hidden) return;
  listing = setTimeout(() => {
    // Who reads it is not disturbed.
    if (now.window === null || inView.contains(document.activeElement)) return;
    const lines = tracks.inView(scroll.scrollTop, scroll.clientHeight).map(({ line }) => line);
    listed.show(inView, now.window, now.view, lines, tracks, trace, (row, at) => {
      const asked = { from: Math.floor(now.view.from), to: Math.ceil(now.view.to), columns: Math.round(width()) };
      showSlice((row) => server.at(asked, row, Math.round(at)), row);
    });
    if (focusesList) inView.querySelector("div")?.focus();
    focusesList = false;
  }, 200);
}

/** Shows or hides the list of what is in view. */
export function toggleList() {
  inView.hidden = !inView.hidden;
  get("list", HTMLButtonElement).setAttribute("aria-expanded", String(!inView.hidden));
  focusesList = !inView.hidden;
  if (inView.hidden) scroll.focus();
  list();
}
