// @ts-check
/** The page: what keys and buttons do, and how it begins and grows. */

import * as address from "./address.js";
import * as growing from "./growing.js";
import * as keys from "./keys.js";
import { toggleList } from "./listing.js";
import * as mouse from "./mouse.js";
import { detail, filter, get, listOfMarks, only, scroll, width, words } from "./page.js";
import * as panel from "./panel.js";
import { arrange, draw, drawMore } from "./picture.js";
import { findSlice, why } from "./slice.js";
import { SHORTEST, drawing, marks, now, trace, tracks, whole } from "./state.js";
import { askForSecond, compareNext, deselect, filterBy, selectBetween, selectTime, showAgain, toggleFlame } from "./stretch.js";
import { duration } from "./time.js";
import { changeTrack, moveFocus, title } from "./titles.js";
import { name } from "./tracks.js";
import { here, keep, keepNothing, move, show, showLength, showSelected, zoom } from "./view.js";

document.title = `${trace.title} - Kymo`;
get("title", HTMLHeadingElement).textContent = trace.title;
tellAbout();

/** Says how much there is of the trace. */
function tellAbout() {
  const events = `${trace.events.toLocaleString("en")} events`;
  get("about", HTMLSpanElement).textContent = trace.is_whole ? `${events} in ${duration(trace.span_ns)}`
    : trace.is_recorded ? `recording: ${events} in ${duration(trace.span_ns)} so far`
    : `${events} read, up to ${duration(trace.read_ns)} of ${duration(trace.span_ns)}`;
  const damaged = get("damaged", HTMLButtonElement);
  damaged.hidden = trace.damage.length === 0;
  damaged.textContent = trace.is_recorded ? trace.damage[0] : `damaged: ${trace.damage[0]}`;
  damaged.title = trace.damage.join("\n");
}

/** Takes what has been read since. @param {import("./server.js").Trace} more */
function grow(more) {
  const { rows, tracks: known, is_recorded: wasRecorded } = trace;
  const before = whole.to;
  Object.assign(trace, more);
  whole.to = Math.max(trace.span_ns, SHORTEST);
  now.view = growing.moved(now.view, before, whole.to);
  keep();
  if (wasRecorded && !trace.is_recorded) {
    // Rows and names may have other numbers now.
    now.window = null;
    const same = growing.sameTracks(known, trace.tracks);
    tracks.renumber(same);
    const { selected } = now;
    if (selected !== null && selected.row !== null) selected.row = growing.sameRow(selected.row, rows, trace.rows, same);
  }
  tracks.take(trace);
  drawing.take(trace);
  tellAbout();
  drawMore();
}

/** Shows what the address has behind its `#`. @param {string} hash */
function restore(hash) {
  keepNothing();
  const kept = address.read(hash);
  marks.set(kept.marks);
  listMarks();
  tracks.onTop = kept.top;
  only.value = kept.only;
  tracks.filter(kept.only);
  arrange();
  const { from, to } = kept.view ?? whole;
  show(from, to);
  // What has not been read cannot be found yet.
  if (!trace.is_whole) now.selected = kept.selected;
  const shown = (/** @type {Pick<address.Kept, "selected" | "first" | "where" | "flame">} */ { selected, first, where, flame }) =>
    JSON.stringify([selected, first, where, flame]);
  const is = trace.is_whole && shown(kept) === shown({ ...now, where: now.filter });
  now.flame = kept.flame;
  now.filter = filter.value = kept.where;
  now.first = kept.first;
  if (is && now.selected !== null) return;
  if (kept.selected === null && now.first !== null) askForSecond();
  else if (kept.selected === null) deselect();
  else if (!trace.is_whole) panel.say(detail, "The selection is shown once the trace has been read.");
  else if (kept.selected.row === null) selectTime(kept.selected.from, kept.selected.to);
  else findSlice(kept.selected.row, kept.selected.from, kept.selected.to);
}

function listMarks() {
  const go = (/** @type {number} */ at) => show(at - (now.view.to - now.view.from) / 2, at + (now.view.to - now.view.from) / 2);
  marks.list(listOfMarks, go, (at) => {
    marks.remove(at);
    listMarks();
  });
  keep();
  draw();
}

function mark() {
  marks.toggle(Math.min(Math.max(here(), whole.from), whole.to), 4 * (now.view.to - now.view.from) / width());
  listMarks();
}

/** @type {keys.Binding[]} */
const bindings = [
  { keys: ["w"], shown: "wheel, W", does: "zoom in", act: () => zoom(0.7, here()) },
  { keys: ["s"], shown: "wheel, S", does: "zoom out", act: () => zoom(1 / 0.7, here()) },
  { keys: ["a", "ArrowLeft"], shown: "drag, A, left arrow", does: "move to earlier times", act: () => move(-0.2) },
  { keys: ["d", "ArrowRight"], shown: "drag, D, right arrow", does: "move to later times", act: () => move(0.2) },
  { keys: ["ArrowUp"], shown: "up arrow", does: "the track above, if the title of one has the focus, or else scroll", act: () => moveFocus(-1) },
  { keys: ["ArrowDown"], shown: "down arrow", does: "the track below, or scroll", act: () => moveFocus(1) },
  { keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"], shown: "1 to 9",
    does: "zoom to a decade: 1 shows 100 ns, 2 shows 1 us, 3 shows 10 us, ..., 9 shows 10 s",
    act: (key) => showLength(SHORTEST * 10 ** (Number(key) - 1)) },
  { keys: ["0"], shown: "0", does: "the whole trace", act: () => show(whole.from, whole.to) },
  { keys: [], shown: "click", does: "select a slice" },
  { keys: [], shown: "shift and drag", does: "select a stretch of time: its report" },
  { keys: ["z"], shown: "Z", does: "zoom to the selection", act: showSelected },
  { keys: ["Escape"], shown: "Escape", does: "select nothing", act: deselect },
  { keys: ["m"], shown: "M", does: "mark the time under the mouse or in the middle, or remove its mark", act: mark },
  { keys: ["r"], shown: "R", does: "select the time between the marks around the mouse or the middle, or all that is in view: its report",
    act: selectBetween },
  { keys: ["y"], shown: "Y", does: "who held up the thread of the selected slice: the critical path", act: why },
  { keys: ["g"], shown: "G", act: toggleFlame,
    does: "the flame graph of the selected stretch of time or of all, by its samples, or the report again" },
  { keys: ["f"], shown: "F", act: () => filter.focus(),
    does: "filter: reports, comparisons and flame graphs count only events that fit a condition, such as irq = 5 or "
      + "is = \"lock_wait\", on_cpu = 0, as of kymo report --where; the picture has all" },
  { keys: ["c"], shown: "C", does: "compare the selected stretch of time with the one that is selected next, or no more", act: compareNext },
  { keys: ["/"], shown: "/", does: "search tracks by name", act: () => words.focus() },
  { keys: ["l"], shown: "L", does: "show only tracks whose name has one of the parts, between commas", act: () => only.focus() },
  { keys: ["p"], shown: "P", does: "let the track under the mouse or with the focus stay on top, or go back",
    act: () => changeTrack((track) => tracks.pin(track)) },
  { keys: ["["], shown: "[", does: "move a track on top up", act: () => changeTrack((track) => tracks.move(track, -1)) },
  { keys: ["]"], shown: "]", does: "move a track on top down", act: () => changeTrack((track) => tracks.move(track, 1)) },
  { keys: [], shown: "click, Enter on a title", does: "show or hide what is inside a track" },
  { keys: ["t"], shown: "T", does: "list what is in view as a table, whose buttons select slices", act: toggleList },
  { keys: ["?"], shown: "?", does: "these keys", act: () => get("keys", HTMLDialogElement).showModal() },
];
keys.explain(get("bindings", HTMLTableElement), bindings);
keys.listen(bindings);
mouse.listen();

words.addEventListener("input", () => {
  title();
  const found = tracks.lines.find((line) => !line.isOnTop && name(line.track).toLowerCase().includes(words.value.toLowerCase()));
  if (words.value !== "" && found !== undefined) scroll.scrollTop = Math.max(0, found.top - tracks.topHeight - 40);
});
only.addEventListener("input", () => {
  tracks.filter(only.value);
  arrange();
  keep();
});
filter.addEventListener("change", () => filterBy(filter.value.trim()));
get("search", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  words.blur();
  only.blur();
  filter.blur();
});
get("fit", HTMLButtonElement).addEventListener("click", () => show(whole.from, whole.to));
get("help", HTMLButtonElement).addEventListener("click", () => get("keys", HTMLDialogElement).showModal());

get("damaged", HTMLButtonElement).addEventListener("click", deselect);
get("list", HTMLButtonElement).addEventListener("click", toggleList);
new ResizeObserver(arrange).observe(scroll);
// By now the address may be that of the view again, which is written with a delay.
addEventListener("hashchange", (event) => restore(new URL(event.newURL).hash));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
// Screen readers say what was selected, and not the tables below it.
new MutationObserver(() => {
  get("said", HTMLParagraphElement).textContent = detail.querySelector("h2, p")?.textContent ?? "";
}).observe(detail, { childList: true });

arrange();
restore(location.hash);
// For tests: there is something to see, and there is everything.
document.documentElement.dataset.ready = "yes";
const isGrowing = !trace.is_whole;
growing.follow(trace, grow).then(() => {
  if (isGrowing) showAgain();
  document.documentElement.dataset.whole = "yes";
}, (error) => panel.say(detail, String(error.message)));
