// @ts-check
/** The titles of the tracks, which the tabulator and arrows reach. */

import { labels, labelsOnTop, picture, scroll, words } from "./page.js";
import { arrange } from "./picture.js";
import { now, tracks } from "./state.js";
import { LINE, name } from "./tracks.js";
import { keep } from "./view.js";

/** The track whose title the tabulator reaches. @type {number | null} */
let reached = null;

/** Makes the titles of the lines anew; the one with the focus keeps it. */
export function title() {
  const focused = focusedTrack();
  labels.style.height = `${tracks.height}px`;
  labelsOnTop.style.height = `${tracks.topHeight}px`;
  labelsOnTop.hidden = tracks.topHeight === 0;
  const looked = words.value.toLowerCase();
  // One title can be reached by the tabulator, and the others from there by arrows.
  reached = focused?.id ?? reached;
  if (!tracks.lines.some((line) => line.track.id === reached)) reached = tracks.lines[0]?.track.id ?? null;
  /** @type {[HTMLElement[], HTMLElement[]]} */
  const made = [[], []];
  for (const line of tracks.lines) made[Number(line.isOnTop)].push(label(line, looked));
  labels.replaceChildren(...made[0]);
  labelsOnTop.replaceChildren(...made[1]);
  if (focused !== null) labelOf(focused.id)?.focus();
}

/** The title of a line. @param {import("./tracks.js").Line} line @param {string} looked */
function label(line, looked) {
  const made = document.createElement("button");
  made.type = "button";
  made.style.top = `${line.top}px`;
  made.style.paddingLeft = `${6 + 12 * line.depth}px`;
  const sign = line.hasInner ? (line.isOpen ? "\u25be " : "\u25b8 ") : "";
  made.textContent = sign + line.title;
  made.title = tracks.path(line.track);
  made.tabIndex = line.track.id === reached ? 0 : -1;
  made.dataset.track = String(line.track.id);
  if (line.hasInner) made.setAttribute("aria-expanded", String(line.isOpen));
  made.classList.toggle("group", line.depth === 0 && !line.isOnTop);
  made.classList.toggle("found", looked !== "" && name(line.track).toLowerCase().includes(looked));
  made.addEventListener("click", () => {
    tracks.toggle(line.track);
    arrange();
  });
  return made;
}

/** @param {number} id @returns {HTMLElement | null} */
function labelOf(id) {
  return scroll.querySelector(`[data-track="${id}"]`);
}

/** The track whose title has the focus. */
function focusedTrack() {
  const focused = document.activeElement;
  const id = focused instanceof HTMLElement ? focused.dataset.track : undefined;
  return id === undefined ? null : tracks.byId.get(Number(id)) ?? null;
}

/** The track whose title has the focus from the keyboard, or else the one under the mouse. */
function trackHere() {
  if (document.activeElement?.matches(":focus-visible")) {
    const track = focusedTrack();
    if (track !== null) return track;
  }
  if (now.mouse === null) return null;
  const over = now.mouse.target instanceof HTMLElement ? now.mouse.target.dataset.track : undefined;
  if (over !== undefined) return tracks.byId.get(Number(over)) ?? null;
  return tracks.at(now.mouse.clientY - picture.getBoundingClientRect().top, scroll.scrollTop)?.line.track ?? null;
}

/** Scrolls to a track, unless it is in view. @param {number} track */
export function scrollToTrack(track) {
  const found = tracks.place(track, scroll.scrollTop);
  if (found === null || found.line.isOnTop) return;
  const isInView = found.y >= tracks.topHeight && found.y + LINE <= scroll.clientHeight;
  if (!isInView) scroll.scrollTop = found.line.top - scroll.clientHeight / 2;
}

/** Moves the focus to the next title, or scrolls by a line. @param {number} by */
export function moveFocus(by) {
  const focused = focusedTrack();
  if (focused === null) {
    scroll.scrollTop += by * LINE;
    return;
  }
  const next = tracks.lines[tracks.lines.findIndex((line) => line.track === focused) + by];
  if (next === undefined) return;
  const [from, to] = [labelOf(focused.id), labelOf(next.track.id)];
  if (from === null || to === null) return;
  [from.tabIndex, to.tabIndex, reached] = [-1, 0, next.track.id];
  to.focus({ preventScroll: true });
  scrollToTrack(next.track.id);
}

/** @param {(track: import("./tracks.js").Track) => void} change */
export function changeTrack(change) {
  const track = trackHere();
  if (track === null) return;
  change(track);
  arrange();
  keep();
}
