// @ts-check
/** The elements of the page that stay. */

/** Width of the titles, in pixels. */
export const TITLES = 220;

/** @template {HTMLElement} T @param {string} id @param {new () => T} kind @returns {T} */
export function get(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`The page lacks ${id}.`);
  return found;
}

export const picture = get("picture", HTMLCanvasElement);
export const ruler = get("ruler", HTMLCanvasElement);
export const scroll = get("scroll", HTMLDivElement);
export const labels = get("labels", HTMLDivElement);
export const labelsOnTop = get("on-top", HTMLDivElement);
/** Says what is selected. */
export const detail = get("panel", HTMLElement);
/** Lists what is in view, and the marks. */
export const inView = get("listed", HTMLElement);
export const listOfMarks = get("marks", HTMLElement);
/** Says which time is in view. */
export const where = get("where", HTMLSpanElement);
/** Words to search, and parts of names of the tracks to show. */
export const words = get("words", HTMLInputElement);
export const only = get("only", HTMLInputElement);
/** A condition on events. */
export const filter = get("filter", HTMLInputElement);

/** Width of the picture, in pixels. */
export function width() {
  return Math.max(100, scroll.clientWidth - TITLES);
}
