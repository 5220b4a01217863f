// @ts-check
/** The page: what is in view, and what the mouse and the keys do with it. */

import * as address from "./address.js";
import { Drawing } from "./draw.js";
import * as keys from "./keys.js";
import { Marks } from "./marks.js";
import * as panel from "./panel.js";
import * as server from "./server.js";
import { countFrom, duration, firstTick, moment, seconds, step } from "./time.js";
import { LINE, Tracks } from "./tracks.js";

/** Width of the titles, in pixels. */
const TITLES = 220;
/** The shortest stretch of time that is shown, in nanoseconds. */
const SHORTEST = 100;

/** @template {HTMLElement} T @param {string} id @param {new () => T} kind @returns {T} */
function get(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new Error(`The page lacks ${id}.`);
  return found;
}

const picture = get("picture", HTMLCanvasElement);
const ruler = get("ruler", HTMLCanvasElement);
const scroll = get("scroll", HTMLDivElement);
const labels = get("labels", HTMLDivElement);
const detail = get("panel", HTMLElement);
const where = get("where", HTMLSpanElement);
const words = get("words", HTMLInputElement);
const listOfMarks = get("marks", HTMLElement);

const trace = await server.trace().catch((error) => {
  panel.say(detail, String(error.message));
  throw error;
});
countFrom(trace.since_begin_ns);
document.title = `${trace.title} - Kymo`;
get("title", HTMLHeadingElement).textContent = trace.title;
get("about", HTMLSpanElement).textContent =
  `${trace.events.toLocaleString("en")} events in ${duration(trace.span_ns)}`;

const tracks = new Tracks(trace);
const drawing = new Drawing(picture, trace);
const whole = { from: 0, to: Math.max(trace.span_ns, SHORTEST) };
/** What is in view. */
let view = { ...whole };
/** @type {server.Window | null} */
let window_ = null;
/** The stretch of time or the slice that is selected. @type {address.Selection | null} */
let selected = null;
const marks = new Marks();
/** Where the mouse is over the picture. @type {MouseEvent | null} */
let mouse = null;
/** The address is written when it has not changed for a moment. @type {number | undefined} */
let writing;
/** @type {AbortController | null} */
let asking = null;
/** How often something was selected, and which of these the panel shows: older answers are not shown. */
let [selections, told] = [0, 0];
let isDrawn = true;

function width() {
  return Math.max(100, scroll.clientWidth - TITLES);
}

/** @param {number} from @param {number} to */
function show(from, to) {
  const length = Math.min(Math.max(to - from, SHORTEST), whole.to);
  from = Math.min(Math.max(from, 0), whole.to - length);
  view = { from, to: from + length };
  keep();
  draw();
  ask();
}

/** Keeps in the address what is in view, soon: browsers refuse to change it at every frame. */
function keep() {
  clearTimeout(writing);
  writing = setTimeout(() => {
    const hash = address.write({ view, marks: marks.times, selected });
    if (location.hash !== hash) history.replaceState(null, "", hash);
  }, 100);
}

/** Shows what the address has. */
function restore() {
  clearTimeout(writing);
  const kept = address.read(location.hash);
  marks.set(kept.marks);
  listMarks();
  const { from, to } = kept.view ?? whole;
  show(from, to);
  const has = JSON.stringify(kept.selected);
  if (has === JSON.stringify(selected)) return;
  if (kept.selected === null) deselect();
  else if (kept.selected.row === null) selectTime(kept.selected.from, kept.selected.to);
  else findSlice(kept.selected.row, kept.selected.from, kept.selected.to);
}

/** Draws at the next frame. */
function draw() {
  if (!isDrawn) return;
  isDrawn = false;
  requestAnimationFrame(paint);
}

function paint() {
  isDrawn = true;
  const lines = tracks.between(scroll.scrollTop, scroll.scrollTop + scroll.clientHeight);
  drawing.draw(window_, view, lines, scroll.scrollTop, trace.rows);
  select();
  marks.draw(drawing.to, place, picture.height);
  rule();
  where.textContent = `${moment(view.from)} + ${duration(view.to - view.from)}`;
}

/** Where a time is in the picture, in pixels. @param {number} at */
function place(at) {
  return (at - view.from) * width() / (view.to - view.from);
}

/** Draws the selection over the picture. */
function select() {
  if (selected === null) return;
  const to = drawing.to;
  to.fillStyle = "rgb(0 114 178 / 20%)";
  to.fillRect(place(selected.from), 0, Math.max(1, place(selected.to) - place(selected.from)), picture.height);
}

/** Draws the ruler. */
function rule() {
  const to = ruler.getContext("2d");
  if (to === null) return;
  const scale = devicePixelRatio;
  to.setTransform(scale, 0, 0, scale, 0, 0);
  to.clearRect(0, 0, ruler.clientWidth, ruler.clientHeight);
  const style = getComputedStyle(document.documentElement);
  to.fillStyle = style.getPropertyValue("--faint");
  to.font = "11px system-ui, sans-serif";
  const length = view.to - view.from;
  const each = step(length / (width() / 120));
  const digits = each >= 1e9 ? 0 : each >= 1e6 ? 3 : each >= 1e3 ? 6 : 9;
  for (let at = firstTick(view.from, each); at <= view.to; at += each) {
    const x = TITLES + place(at);
    to.fillRect(x, 16, 1, 8);
    to.fillText(`${seconds(at, digits)} s`, x + 3, 13);
  }
  marks.drawNumbers(to, (at) => TITLES + place(at), TITLES);
}

/** Asks for what is in view, and for as much on both sides, unless it is there. */
async function ask() {
  const rows = tracks.between(scroll.scrollTop - 400, scroll.scrollTop + scroll.clientHeight + 400)
    .flatMap((line) => line.rows).sort((a, b) => a - b);
  const length = view.to - view.from;
  if (window_ !== null && window_.from <= view.from && window_.to >= view.to
    && Math.abs((window_.to - window_.from) / (3 * length) - 1) < 0.3
    && rows.every((row) => window_?.rows.has(row))) return;
  asking?.abort();
  asking = new AbortController();
  const from = Math.max(0, Math.floor(view.from - length));
  const to = Math.ceil(view.to + length);
  const columns = Math.min(1 << 14, Math.round(width() * (to - from) / length));
  try {
    window_ = await server.window(from, to, columns, rows, asking.signal);
    draw();
  } catch (error) {
    if (error instanceof Error && error.name !== "AbortError") panel.say(detail, error.message);
  }
}

/** Makes the titles of the lines anew. */
function title() {
  labels.style.height = `${tracks.height}px`;
  const looked = words.value.toLowerCase();
  labels.replaceChildren(...tracks.lines.map((line) => {
    const made = document.createElement("button");
    made.type = "button";
    made.style.top = `${line.top}px`;
    made.style.paddingLeft = `${6 + 12 * line.depth}px`;
    const mark = line.hasInner ? (line.isOpen ? "\u25be " : "\u25b8 ") : "";
    const number = line.track.tid ?? line.track.pid;
    made.textContent = mark + line.track.name + (number === null ? "" : ` ${number}`);
    made.title = line.track.name;
    if (line.hasInner) made.setAttribute("aria-expanded", String(line.isOpen));
    made.classList.toggle("group", line.depth === 0);
    made.classList.toggle("found", looked !== "" && line.track.name.toLowerCase().includes(looked));
    made.addEventListener("click", () => {
      tracks.toggle(line.track);
      arrange();
    });
    return made;
  }));
}

/** Fits the picture to the page. */
function arrange() {
  title();
  const scale = devicePixelRatio;
  const [wide, high] = [width(), scroll.clientHeight];
  picture.style.width = `${wide}px`;
  picture.style.height = `${high}px`;
  [picture.width, picture.height] = [wide * scale, high * scale];
  [ruler.width, ruler.height] = [ruler.clientWidth * scale, ruler.clientHeight * scale];
  // The canvas stays where it is while the titles scroll beside it.
  labels.style.marginBottom = `${Math.max(0, tracks.height - high)}px`;
  paint();
  ask();
}

/** The time at a place of the picture. @param {MouseEvent} event */
function timeAt(event) {
  const x = event.clientX - picture.getBoundingClientRect().left;
  return view.from + x * (view.to - view.from) / width();
}

/** Zooms by a factor, around a time. @param {number} factor @param {number} around */
function zoom(factor, around) {
  show(around - (around - view.from) * factor, around + (view.to - around) * factor);
}

/** Selects the slice at a place. @param {MouseEvent} event */
async function pick(event) {
  const y = event.clientY - picture.getBoundingClientRect().top + scroll.scrollTop;
  const line = tracks.lines.find((line) => line.top <= y && y < line.top + line.height);
  if (line === undefined || window_ === null) return;
  const depth = Math.floor((y - line.top) / LINE);
  const row = line.rows.find((row) => trace.rows[row].depth === depth && trace.rows[row].kind !== "values")
    ?? line.rows.find((row) => trace.rows[row].kind === "points");
  if (row === undefined) return;
  const asked = { from: Math.floor(view.from), to: Math.ceil(view.to), columns: Math.round(width()) };
  const at = Math.max(0, Math.round(timeAt(event)));
  await showSlice((row) => server.at(asked, row, at), row);
}

/** Selects the slice of a row that begins and ends at these times. @param {number} row @param {number} from @param {number} to */
async function findSlice(row, from, to) {
  if (trace.rows[row] === undefined) return selectTime(from, to);
  selected = { from, to, row };
  await showSlice((row) => server.find(row, from, to), row);
}

/**
 * Selects the slice that the server finds.
 * @param {(row: number) => Promise<server.Found | null>} find
 * @param {number} row
 */
async function showSlice(find, row) {
  const selection = ++selections;
  let found;
  try {
    found = await find(row);
  } catch (error) {
    if (selection > told) panel.say(detail, String(error));
    return;
  }
  if (found === null || selection < told) return;
  told = selection;
  selected = { from: found.begin_ns, to: found.end_ns, row };
  const track = trace.tracks.find((track) => track.id === trace.rows[row].track);
  panel.slice(detail, track?.name ?? "", found);
  keep();
  draw();
}

/** Selects a stretch of time, and shows its report. @param {number} from @param {number} to */
async function selectTime(from, to) {
  [from, to] = [Math.round(from), Math.round(to)];
  selected = { from, to, row: null };
  const selection = told = ++selections;
  panel.say(detail, "Reading ...");
  keep();
  draw();
  try {
    const report = await server.report(from, to);
    if (selection === told) panel.report(detail, from, to, report);
  } catch (error) {
    if (selection === told) panel.say(detail, String(error));
  }
}

function deselect() {
  told = ++selections;
  selected = null;
  detail.replaceChildren();
  keep();
  draw();
}

function listMarks() {
  const go = (/** @type {number} */ at) => show(at - (view.to - view.from) / 2, at + (view.to - view.from) / 2);
  marks.list(listOfMarks, go, (at) => {
    marks.remove(at);
    listMarks();
  });
  keep();
  draw();
}

/** The time under the mouse, or else in the middle. */
function here() {
  return mouse === null ? (view.from + view.to) / 2 : timeAt(mouse);
}

function mark() {
  marks.toggle(Math.min(Math.max(here(), whole.from), whole.to), 4 * (view.to - view.from) / width());
  listMarks();
}

/** @type {{ x: number, from: number, selects: boolean, moved: boolean } | null} */
let drag = null;
picture.addEventListener("pointerdown", (event) => {
  drag = { x: event.clientX, from: event.shiftKey ? timeAt(event) : view.from, selects: event.shiftKey, moved: false };
  picture.setPointerCapture(event.pointerId);
});
picture.addEventListener("pointerleave", () => {
  mouse = null;
});
picture.addEventListener("pointermove", (event) => {
  mouse = event;
  if (drag === null) return;
  drag.moved ||= Math.abs(event.clientX - drag.x) > 3;
  if (!drag.moved) return;
  if (drag.selects) {
    const at = timeAt(event);
    selected = { from: Math.max(0, Math.min(drag.from, at)), to: Math.max(drag.from, at), row: null };
    draw();
  } else {
    const moved = (event.clientX - drag.x) * (view.to - view.from) / width();
    show(drag.from - moved, drag.from - moved + (view.to - view.from));
  }
});
picture.addEventListener("pointerup", (event) => {
  const ended = drag;
  drag = null;
  if (ended === null) return;
  if (!ended.moved) pick(event);
  else if (ended.selects && selected !== null) selectTime(selected.from, selected.to);
});
picture.addEventListener("wheel", (event) => {
  event.preventDefault();
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    const moved = (event.deltaX || event.deltaY) * (view.to - view.from) / width();
    show(view.from + moved, view.to + moved);
  } else if (event.altKey) {
    scroll.scrollTop += event.deltaY;
  } else {
    zoom(Math.exp(event.deltaY / 400), timeAt(event));
  }
}, { passive: false });

scroll.addEventListener("scroll", () => {
  draw();
  ask();
});
new ResizeObserver(arrange).observe(scroll);
addEventListener("hashchange", restore);

/** Zooms to what is selected. */
function showSelected() {
  if (selected === null) return;
  const beside = Math.max((selected.to - selected.from) / 10, 1);
  show(selected.from - beside, selected.to + beside);
}

/** @param {number} parts of the view's length */
function move(parts) {
  const length = view.to - view.from;
  show(view.from + parts * length, view.to + parts * length);
}

/** Shows so many nanoseconds, around the mouse. @param {number} length */
function showLength(length) {
  zoom(Math.min(length, whole.to) / (view.to - view.from), here());
}

/** @type {keys.Binding[]} */
const bindings = [
  { keys: ["w"], shown: "wheel, W", does: "zoom in", act: () => zoom(0.7, here()) },
  { keys: ["s"], shown: "wheel, S", does: "zoom out", act: () => zoom(1 / 0.7, here()) },
  { keys: ["a", "ArrowLeft"], shown: "drag, A, left arrow", does: "move to earlier times", act: () => move(-0.2) },
  { keys: ["d", "ArrowRight"], shown: "drag, D, right arrow", does: "move to later times", act: () => move(0.2) },
  { keys: ["1", "2", "3", "4", "5", "6", "7", "8", "9"], shown: "1 to 9",
    does: "zoom to a decade: 1 shows 100 ns, 2 shows 1 us, 3 shows 10 us, ..., 9 shows 10 s",
    act: (key) => showLength(SHORTEST * 10 ** (Number(key) - 1)) },
  { keys: ["0"], shown: "0", does: "the whole trace", act: () => show(whole.from, whole.to) },
  { keys: [], shown: "click", does: "select a slice" },
  { keys: [], shown: "shift and drag", does: "select a stretch of time: its report" },
  { keys: ["f"], shown: "F", does: "zoom to the selection", act: showSelected },
  { keys: ["Escape"], shown: "Escape", does: "select nothing", act: deselect },
  { keys: ["m"], shown: "M", does: "mark the time under the mouse or in the middle, or remove its mark", act: mark },
  { keys: ["/"], shown: "/", does: "search tracks by name", act: () => words.focus() },
  { keys: ["?"], shown: "?", does: "these keys", act: () => get("keys", HTMLDialogElement).showModal() },
];
keys.explain(get("bindings", HTMLTableElement), bindings);
keys.listen(bindings);

words.addEventListener("input", () => {
  title();
  const found = tracks.lines.find((line) => line.track.name.toLowerCase().includes(words.value.toLowerCase()));
  if (words.value !== "" && found !== undefined) scroll.scrollTop = Math.max(0, found.top - 40);
});
get("search", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  words.blur();
});
get("fit", HTMLButtonElement).addEventListener("click", () => show(whole.from, whole.to));
get("help", HTMLButtonElement).addEventListener("click", () => get("keys", HTMLDialogElement).showModal());

arrange();
restore();
// For tests: what is in view, once it is drawn.
document.documentElement.dataset.ready = "yes";
