// @ts-check
/** The page: what is in view, and what the mouse and the keys do with it. */

import * as address from "./address.js";
import { Arrows } from "./arrows.js";
import * as compare from "./compare.js";
import { Drawing } from "./draw.js";
import { button } from "./element.js";
import * as growing from "./growing.js";
import * as keys from "./keys.js";
import * as listed from "./listed.js";
import { Marks } from "./marks.js";
import * as panel from "./panel.js";
import { CriticalPath } from "./path.js";
import * as report from "./report.js";
import * as server from "./server.js";
import { countFrom, duration, firstTick, moment, seconds, step } from "./time.js";
import { LINE, Tracks, name } from "./tracks.js";

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
const only = get("only", HTMLInputElement);
const labelsOnTop = get("on-top", HTMLDivElement);
const inView = get("listed", HTMLElement);
const listOfMarks = get("marks", HTMLElement);

const trace = await growing.trace().catch((error) => {
  panel.say(detail, String(error.message));
  throw error;
});
countFrom(trace.since_begin_ns);
document.title = `${trace.title} - Kymo`;
get("title", HTMLHeadingElement).textContent = trace.title;
tellAbout();

const tracks = new Tracks(trace);
const drawing = new Drawing(picture, trace);
const arrows = new Arrows(tracks);
const path = new CriticalPath(tracks);
const whole = { from: 0, to: Math.max(trace.span_ns, SHORTEST) };
/** What is in view. */
let view = { ...whole };
/** @type {server.Window | null} */
let window_ = null;
/** The stretch of time or the slice that is selected. @type {address.Selection | null} */
let selected = null;
/** The stretch of time with which the next one that is selected is compared. @type {{ from: number, to: number } | null} */
let first = null;
/** The report of the whole trace, once it was asked for. @type {Promise<any> | null} */
let ofAll = null;
const marks = new Marks();
/** Where the mouse is over the picture. @type {MouseEvent | null} */
let mouse = null;
/** The address is written when it has not changed for a moment. @type {number | undefined} */
let writing;
/** @type {number | undefined} */
let listing;
let focusesList = false;
/** The track whose title the tabulator reaches. @type {number | null} */
let reached = null;
/** @type {AbortController | null} */
let asking = null;
/** How often something was selected, and which of these the panel shows: older answers are not shown. */
let [selections, told] = [0, 0];
let isDrawn = true;
/** Whether more has been read than the window has. */
let hasMore = false;

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

/** Takes what has been read since. @param {server.Trace} more */
function grow(more) {
  const { rows, is_recorded: wasRecorded } = trace;
  const before = whole.to;
  Object.assign(trace, more);
  whole.to = Math.max(trace.span_ns, SHORTEST);
  view = growing.moved(view, before, whole.to);
  keep();
  if (wasRecorded && !trace.is_recorded) {
    // Rows and names may have other numbers now.
    window_ = null;
    if (selected !== null && selected.row !== null) selected.row = growing.sameRow(selected.row, rows, trace.rows);
  }
  tracks.take(trace);
  drawing.take(trace);
  tellAbout();
  hasMore = true;
  arrange();
}

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
    // Who opens it again sees all there is then.
    const isAll = trace.is_recorded && view.from === 0 && view.to === whole.to;
    const hash = address.write({ view: isAll ? null : view, marks: marks.times, selected, first, top: tracks.onTop, only: only.value });
    if (location.hash !== hash) history.replaceState(null, "", hash);
  }, 100);
}

/** Shows what the address has behind its `#`. @param {string} hash */
function restore(hash) {
  clearTimeout(writing);
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
  if (!trace.is_whole) selected = kept.selected;
  const is = trace.is_whole && JSON.stringify([kept.selected, kept.first]) === JSON.stringify([selected, first]);
  first = kept.first;
  if (is && selected !== null) return;
  if (kept.selected === null && first !== null) askForSecond();
  else if (kept.selected === null) deselect();
  else if (!trace.is_whole) panel.say(detail, "The selection is shown once the trace has been read.");
  else if (kept.selected.row === null) selectTime(kept.selected.from, kept.selected.to);
  else findSlice(kept.selected.row, kept.selected.from, kept.selected.to);
}

/** Shows what is selected, once all of the trace has been read. */
function showAgain() {
  if (selected === null && first === null) deselect();
  else if (selected !== null && selected.row === null) selectTime(selected.from, selected.to);
  else if (selected !== null && selected.row !== null) findSlice(selected.row, selected.from, selected.to);
}

/** Draws at the next frame. */
function draw() {
  if (!isDrawn) return;
  isDrawn = false;
  requestAnimationFrame(paint);
}

function paint() {
  isDrawn = true;
  drawing.draw(window_, view, tracks.inView(scroll.scrollTop, scroll.clientHeight), trace.rows);
  drawing.to.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--faint");
  if (tracks.topHeight > 0) drawing.to.fillRect(0, tracks.topHeight, width(), 2);
  select();
  path.draw(drawing.to, place, width(), scroll.scrollTop);
  arrows.draw(drawing.to, place, width(), scroll.scrollTop);
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
  const to = drawing.to;
  for (const [time, colour] of /** @type {const} */ ([[first, "230 159 0"], [selected, "0 114 178"]])) {
    if (time === null) continue;
    const [left, right] = [place(time.from), Math.max(place(time.to), place(time.from) + 1)];
    // Of a slice, its outline says more.
    to.fillStyle = `rgb(${colour} / ${time === selected && selected.row !== null ? 8 : 22}%)`;
    to.fillRect(left, 0, right - left, picture.height);
    to.fillStyle = `rgb(${colour})`;
    for (const x of [left, right - 1]) to.fillRect(x, 0, 1, picture.height);
  }
  // Which of the rows it is.
  const row = selected?.row ?? null;
  const at = row === null || trace.rows[row] === undefined ? null : tracks.place(trace.rows[row].track, scroll.scrollTop);
  if (selected === null || row === null || at === null || !at.line.rows.includes(row)) return;
  const [left, right] = [place(selected.from), Math.max(place(selected.to), place(selected.from) + 2)];
  to.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--text");
  to.lineWidth = 2;
  to.strokeRect(left - 1, at.y + LINE * trace.rows[row].depth + 1, right - left + 2, LINE - 2);
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
  // Those next to what is in view too: they are scrolled to next.
  const near = tracks.lines.filter((line) => line.isOnTop
    || line.top < scroll.scrollTop + scroll.clientHeight + 400 && line.top + line.height > scroll.scrollTop - 400);
  const rows = near.flatMap((line) => line.rows).sort((a, b) => a - b);
  const length = view.to - view.from;
  if (!hasMore && window_ !== null && window_.from <= view.from && window_.to >= view.to
    && Math.abs((window_.to - window_.from) / (3 * length) - 1) < 0.3
    && rows.every((row) => window_?.rows.has(row))) return list();
  // A trace that grows quickly must not end each request for the next one.
  if (hasMore && asking !== null) return;
  asking?.abort();
  const abort = asking = new AbortController();
  hasMore = false;
  const from = Math.max(0, Math.floor(view.from - length));
  const to = Math.ceil(view.to + length);
  const columns = Math.min(1 << 14, Math.round(width() * (to - from) / length));
  try {
    window_ = await server.window(from, to, columns, rows, abort.signal);
    draw();
    list();
  } catch (error) {
    if (error instanceof Error && error.name !== "AbortError") panel.say(detail, error.message);
  }
  if (asking !== abort) return;
  asking = null;
  if (hasMore) ask();
}

/** Lists what is in view, if that is wanted, once the view stays. */
function list() {
  clearTimeout(listing);
  if (inView.hidden) return;
  listing = setTimeout(() => {
    // Who reads it is not disturbed.
    if (window_ === null || inView.contains(document.activeElement)) return;
    const lines = tracks.inView(scroll.scrollTop, scroll.clientHeight).map(({ line }) => line);
    listed.show(inView, window_, view, lines, tracks, trace, (row, at) => {
      const asked = { from: Math.floor(view.from), to: Math.ceil(view.to), columns: Math.round(width()) };
      showSlice((row) => server.at(asked, row, Math.round(at)), row);
    });
    if (focusesList) inView.querySelector("div")?.focus();
    focusesList = false;
  }, 200);
}

/** Shows or hides the list of what is in view. */
function toggleList() {
  inView.hidden = !inView.hidden;
  get("list", HTMLButtonElement).setAttribute("aria-expanded", String(!inView.hidden));
  focusesList = !inView.hidden;
  if (inView.hidden) scroll.focus();
  list();
}

/** Makes the titles of the lines anew; the one with the focus keeps it. */
function title() {
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
  if (mouse === null) return null;
  const over = mouse.target instanceof HTMLElement ? mouse.target.dataset.track : undefined;
  if (over !== undefined) return tracks.byId.get(Number(over)) ?? null;
  return tracks.at(mouse.clientY - picture.getBoundingClientRect().top, scroll.scrollTop)?.line.track ?? null;
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
  const y = event.clientY - picture.getBoundingClientRect().top;
  const found = tracks.at(y, scroll.scrollTop);
  if (found === undefined || window_ === null) return;
  const { line } = found;
  const depth = Math.floor((y - found.y) / LINE);
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
  scrollToTrack(trace.rows[row].track);
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
    if (selection === told) detail.append(String(error));
  });
}

/** Shows who held up the thread of what is selected. */
async function why() {
  if (selected === null || selected.row === null) {
    return panel.say(detail, "Select a slice of a thread first, by a click: the critical path is that of its time.");
  }
  const { row, from, to } = selected;
  const selection = told;
  panel.say(detail, "Reading the trace for the critical path ...");
  let found;
  try {
    found = await server.why(row, from, to);
  } catch (error) {
    if (selection === told) panel.say(detail, String(error));
    return;
  }
  if (selection !== told) return;
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
  if (selection !== told) return;
  arrows.shown = shown;
  const length = view.to - view.from;
  detail.append(...arrows.list(isWhole, (at, track) => {
    show(at - length / 2, at + length / 2);
    scrollToTrack(track);
  }));
  draw();
}

/** Scrolls to a track, unless it is in view. @param {number} track */
function scrollToTrack(track) {
  const found = tracks.place(track, scroll.scrollTop);
  if (found === null || found.line.isOnTop) return;
  const isInView = found.y >= tracks.topHeight && found.y + LINE <= scroll.clientHeight;
  if (!isInView) scroll.scrollTop = found.line.top - scroll.clientHeight / 2;
}

/** Selects a stretch of time, and shows its report. @param {number} from @param {number} to */
async function selectTime(from, to) {
  [from, to] = [Math.round(from), Math.round(to)];
  selected = { from, to, row: null };
  arrows.shown = [];
  path.shown = null;
  const selection = told = ++selections;
  panel.say(detail, "Reading ...");
  keep();
  draw();
  const before = first;
  try {
    if (before === null) {
      const of = await server.report(from, to);
      if (selection === told) report.show(detail, { from, to }, of, showCase);
    } else {
      const diff = await server.diff(before, { from, to });
      if (selection === told) compare.show(detail, before, { from, to }, diff);
    }
  } catch (error) {
    if (selection === told) panel.say(detail, String(error));
  }
}

/** Compares the stretch that is selected with the next one, or no more. */
function compareNext() {
  if (first === null && (selected === null || selected.row !== null)) return;
  if (first !== null) {
    first = null;
    if (selected === null) deselect();
    else selectTime(selected.from, selected.to);
    return;
  }
  if (selected !== null) first = { from: selected.from, to: selected.to };
  askForSecond();
}

function askForSecond() {
  selected = null;
  arrows.shown = [];
  path.shown = null;
  told = ++selections;
  panel.say(detail, "Select a second stretch of time, with shift and the mouse or by marks and R; it is compared with the first one.");
  keep();
  draw();
}

/** Selects nothing: the panel shows the whole trace's report. */
async function deselect() {
  const selection = told = ++selections;
  selected = null;
  first = null;
  arrows.shown = [];
  path.shown = null;
  keep();
  draw();
  if (trace.is_recorded) {
    return panel.say(detail, "The worst cases are shown once the recording has ended. A stretch of time has its report already: select one.");
  }
  if (!trace.is_whole) return panel.say(detail, "The worst cases are shown once the trace has been read.");
  if (ofAll === null) panel.say(detail, "Reading the trace for its worst cases ...");
  ofAll ??= server.report(0, trace.span_ns);
  try {
    const of = await ofAll;
    if (selection === told) report.show(detail, null, of, showCase);
  } catch (error) {
    ofAll = null;
    if (selection === told) panel.say(detail, String(error));
  }
}

/** Goes to a case and selects it. @param {report.Case} one */
async function showCase(one) {
  const [middle, length] = [(one.begin_ns + one.end_ns) / 2, Math.max(one.end_ns - one.begin_ns, SHORTEST / 5)];
  // It has a fifth of the width.
  show(middle - 2.5 * length, middle + 2.5 * length);
  const selection = ++selections;
  const found = await server.findCase(one).catch(() => null);
  if (selection !== selections) return;
  if (found === null) return selectTime(one.begin_ns, one.end_ns);
  await showSlice(() => Promise.resolve(found), found.row);
  scrollToTrack(trace.rows[found.row].track);
}

/** Selects the time between the two marks around the mouse or the middle. */
function selectBetween() {
  const after = marks.times.findIndex((time) => time > here());
  const [from, to] = [marks.times[after - 1], marks.times[after]];
  if (from !== undefined && to !== undefined) selectTime(from, to);
  else selectTime(Math.max(view.from, 0), view.to);
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
  return mouse === null || mouse.target !== picture ? (view.from + view.to) / 2 : timeAt(mouse);
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
scroll.addEventListener("pointerleave", () => {
  mouse = null;
});
scroll.addEventListener("pointermove", (event) => {
  mouse = event;
});
picture.addEventListener("pointermove", (event) => {
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
// By now the address may be that of the view again, which is written with a delay.
addEventListener("hashchange", (event) => restore(new URL(event.newURL).hash));

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

/** Moves the focus to the next title, or scrolls by a line. @param {number} by */
function moveFocus(by) {
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

/** @param {(track: server.Track) => void} change */
function changeTrack(change) {
  const track = trackHere();
  if (track === null) return;
  change(track);
  arrange();
  keep();
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
  { keys: ["f"], shown: "F", does: "zoom to the selection", act: showSelected },
  { keys: ["Escape"], shown: "Escape", does: "select nothing", act: deselect },
  { keys: ["m"], shown: "M", does: "mark the time under the mouse or in the middle, or remove its mark", act: mark },
  { keys: ["r"], shown: "R", does: "select the time between the marks around the mouse or the middle, or all that is in view: its report",
    act: selectBetween },
  { keys: ["y"], shown: "Y", does: "who held up the thread of the selected slice: the critical path", act: why },
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
get("search", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  words.blur();
  only.blur();
});
get("fit", HTMLButtonElement).addEventListener("click", () => show(whole.from, whole.to));
get("help", HTMLButtonElement).addEventListener("click", () => get("keys", HTMLDialogElement).showModal());

get("damaged", HTMLButtonElement).addEventListener("click", deselect);
get("list", HTMLButtonElement).addEventListener("click", toggleList);
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
