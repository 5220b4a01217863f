// @ts-check
/** The page: what is in view, and what the mouse and the keys do with it. */

import { Drawing } from "./draw.js";
import * as growing from "./growing.js";
import * as panel from "./panel.js";
import * as server from "./server.js";
import { duration, moment, step } from "./time.js";
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

const trace = await growing.trace().catch((error) => {
  panel.say(detail, String(error.message));
  throw error;
});
document.title = `${trace.title} - Kymo`;
get("title", HTMLHeadingElement).textContent = trace.title;
tellAbout();

const tracks = new Tracks(trace);
const drawing = new Drawing(picture, trace);
const whole = { from: 0, to: Math.max(trace.span_ns, SHORTEST) };
/** What is in view. */
let view = { ...whole };
/** @type {server.Window | null} */
let window_ = null;
/** The stretch of time or the slice that is selected. @type {{ from: number, to: number } | null} */
let selected = null;
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
  get("about", HTMLSpanElement).textContent = trace.is_whole
    ? `${events} in ${duration(trace.span_ns)}`
    : `${events} read, up to ${duration(trace.read_ns)} of ${duration(trace.span_ns)}`;
}

/** Takes what has been read since. @param {server.Trace} more */
function grow(more) {
  Object.assign(trace, more);
  whole.to = Math.max(trace.span_ns, SHORTEST);
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
  const hash = `#${Math.round(view.from)}-${Math.round(view.to)}`;
  if (location.hash !== hash) history.replaceState(null, "", hash);
  draw();
  ask();
}

/** The view that the address has. */
function fromAddress() {
  const found = /^#(\d+)-(\d+)$/.exec(location.hash);
  return found === null ? whole : { from: Number(found[1]), to: Number(found[2]) };
}

/** Draws at the next frame. */
function draw() {
  if (!isDrawn) return;
  isDrawn = false;
  requestAnimationFrame(() => {
    isDrawn = true;
    const lines = tracks.between(scroll.scrollTop, scroll.scrollTop + scroll.clientHeight);
    drawing.draw(window_, view, lines, scroll.scrollTop, trace.rows);
    select();
    rule();
    where.textContent = `${moment(view.from)} + ${duration(view.to - view.from)}`;
  });
}

/** Draws the selection over the picture. */
function select() {
  if (selected === null) return;
  const x = (/** @type {number} */ at) => (at - view.from) * width() / (view.to - view.from);
  const to = drawing.to;
  to.fillStyle = "rgb(0 114 178 / 20%)";
  to.fillRect(x(selected.from), 0, Math.max(1, x(selected.to) - x(selected.from)), picture.height);
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
  for (let at = Math.ceil(view.from / each) * each; at <= view.to; at += each) {
    const x = TITLES + (at - view.from) * width() / length;
    to.fillRect(x, 16, 1, 8);
    to.fillText(at === 0 ? "0" : `${(at / 1e9).toFixed(each >= 1e9 ? 0 : each >= 1e6 ? 3 : each >= 1e3 ? 6 : 9)} s`, x + 3, 13);
  }
}

/** Asks for what is in view, and for as much on both sides, unless it is there. */
async function ask() {
  const rows = tracks.between(scroll.scrollTop - 400, scroll.scrollTop + scroll.clientHeight + 400)
    .flatMap((line) => line.rows).sort((a, b) => a - b);
  const length = view.to - view.from;
  if (!hasMore && window_ !== null && window_.from <= view.from && window_.to >= view.to
    && Math.abs((window_.to - window_.from) / (3 * length) - 1) < 0.3
    && rows.every((row) => window_?.rows.has(row))) return;
  asking?.abort();
  asking = new AbortController();
  hasMore = false;
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
  draw();
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
  const selection = ++selections;
  const found = await server.at(asked, row, Math.max(0, Math.round(timeAt(event))));
  if (found === null || selection < told) return;
  told = selection;
  selected = { from: found.begin_ns, to: found.end_ns };
  panel.slice(detail, line.track.name, found);
  arrange();
}

/** Shows the report of the selection. */
async function tell() {
  if (selected === null) return;
  const { from, to } = { from: Math.round(selected.from), to: Math.round(selected.to) };
  const selection = told = ++selections;
  panel.say(detail, "Reading ...");
  arrange();
  try {
    const report = await server.report(from, to);
    if (selection === told) panel.report(detail, from, to, report);
  } catch (error) {
    if (selection === told) panel.say(detail, String(error));
  }
  arrange();
}

/** @type {{ x: number, from: number, selects: boolean, moved: boolean } | null} */
let drag = null;
picture.addEventListener("pointerdown", (event) => {
  drag = { x: event.clientX, from: event.shiftKey ? timeAt(event) : view.from, selects: event.shiftKey, moved: false };
  picture.setPointerCapture(event.pointerId);
});
picture.addEventListener("pointermove", (event) => {
  if (drag === null) return;
  drag.moved ||= Math.abs(event.clientX - drag.x) > 3;
  if (!drag.moved) return;
  if (drag.selects) {
    const at = timeAt(event);
    selected = { from: Math.max(0, Math.min(drag.from, at)), to: Math.max(drag.from, at) };
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
  else if (ended.selects) tell();
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
addEventListener("resize", arrange);
addEventListener("hashchange", () => {
  const { from, to } = fromAddress();
  show(from, to);
});
addEventListener("keydown", (event) => {
  if (event.target === words) {
    if (event.key === "Escape") words.blur();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const [length, middle] = [view.to - view.from, (view.from + view.to) / 2];
  /** @type {Record<string, () => void>} */
  const keys = {
    w: () => zoom(0.7, middle),
    s: () => zoom(1 / 0.7, middle),
    a: () => show(view.from - length / 5, view.to - length / 5),
    d: () => show(view.from + length / 5, view.to + length / 5),
    ArrowLeft: () => show(view.from - length / 5, view.to - length / 5),
    ArrowRight: () => show(view.from + length / 5, view.to + length / 5),
    f: () => selected !== null && show(selected.from - (selected.to - selected.from) / 10,
      selected.to + (selected.to - selected.from) / 10),
    0: () => show(whole.from, whole.to),
    "/": () => words.focus(),
    "?": () => get("keys", HTMLDialogElement).showModal(),
    Escape: () => {
      told = ++selections;
      selected = null;
      detail.replaceChildren();
      arrange();
    },
  };
  const act = keys[event.key];
  if (act === undefined) return;
  event.preventDefault();
  act();
});
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

view = fromAddress();
arrange();
show(view.from, view.to);
// For tests: there is something to see, and there is everything.
document.documentElement.dataset.ready = "yes";
growing.follow(trace, grow).then(() => {
  document.documentElement.dataset.whole = "yes";
}, (error) => panel.say(detail, String(error.message)));
