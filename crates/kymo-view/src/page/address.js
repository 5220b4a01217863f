// @ts-check
/**
 * What the address keeps, so that it can be pasted to a colleague:
 * `#FROM-TO&marks=A,B&selected=FROM-TO&row=N&first=FROM-TO&top=A,B&only=TEXT&where=TEXT&flame=TEXT`. Times are in nanoseconds since the first
 * event; rows and tracks have the numbers of the index, which are the same wherever a trace is opened.
 */

/**
 * A stretch of time, and the row of the slice that it is, if it is one.
 * @typedef {{ from: number, to: number, row: number | null }} Selection
 * @typedef {{ view: { from: number, to: number } | null, marks: number[],
 *   selected: Selection | null, first: { from: number, to: number } | null, top: number[], only: string,
 *   where: string, flame: string | null }} Kept
 */

/** @param {string | null | undefined} text */
function stretch(text) {
  const found = /^(\d{1,16})-(\d{1,16})$/.exec(text ?? "");
  if (found === null) return null;
  const [from, to] = [Number(found[1]), Number(found[2])];
  return from <= to ? { from, to } : null;
}

/** @param {string | null} text */
function numbers(text) {
  return (text ?? "").split(",").filter((part) => /^\d{1,16}$/.test(part)).map(Number);
}

/** Reads an address. What it lacks or has wrong is left out. @param {string} hash @returns {Kept} */
export function read(hash) {
  const [time, ...rest] = hash.replace(/^#/, "").split("&");
  const words = new URLSearchParams(rest.join("&"));
  const selected = stretch(words.get("selected"));
  const [row = null] = numbers(words.get("row"));
  return {
    view: stretch(time),
    marks: numbers(words.get("marks")),
    selected: selected === null ? null : { ...selected, row },
    first: stretch(words.get("first")),
    top: numbers(words.get("top")),
    only: words.get("only") ?? "",
    where: words.get("where") ?? "",
    flame: words.get("flame"),
  };
}

/** @param {Kept} kept */
export function write(kept) {
  const words = new URLSearchParams();
  const { view, selected } = kept;
  const time = (/** @type {{ from: number, to: number }} */ { from, to }) =>
    `${Math.round(from)}-${Math.round(to)}`;
  if (kept.marks.length > 0) words.set("marks", kept.marks.join(","));
  if (selected !== null) words.set("selected", time(selected));
  if (selected !== null && selected.row !== null) words.set("row", String(selected.row));
  if (kept.first !== null) words.set("first", time(kept.first));
  if (kept.top.length > 0) words.set("top", kept.top.join(","));
  if (kept.only !== "") words.set("only", kept.only);
  if (kept.where !== "") words.set("where", kept.where);
  if (kept.flame !== null) words.set("flame", kept.flame);
  const rest = String(words).replaceAll("%2C", ",");
  return `#${view === null ? "" : time(view)}${rest === "" ? "" : `&${rest}`}`;
}
