// @ts-check
/** Draws what is in view, and asks the server for it. */

import { list } from "./listing.js";
import { TITLES, detail, labels, picture, ruler, scroll, where, width } from "./page.js";
import * as panel from "./panel.js";
import * as server from "./server.js";
import { arrows, drawing, marks, now, path, trace, tracks } from "./state.js";
import { duration, firstTick, moment, seconds, step } from "./time.js";
import { title } from "./titles.js";
import { LINE } from "./tracks.js";
import { place } from "./view.js";

/** @type {AbortController | null} */
let asking = null;
let isDrawn = true;
/** Whether more has been read than the window has. */
let hasMore = false;

/** Draws at the next frame. */
export function draw() {
  if (!isDrawn) return;
  isDrawn = false;
  requestAnimationFrame(paint);
}

function paint() {
  isDrawn = true;
  drawing.draw(now.window, now.view, tracks.inView(scroll.scrollTop, scroll.clientHeight), trace.rows);
  drawing.to.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--faint");
  if (tracks.topHeight > 0) drawing.to.fillRect(0, tracks.topHeight, width(), 2);
  select();
  path.draw(drawing.to, place, width(), scroll.scrollTop);
  arrows.draw(drawing.to, place, width(), scroll.scrollTop);
  marks.draw(drawing.to, place, picture.height);
  rule();
  where.textContent = `${moment(now.view.from)} + ${duration(now.view.to - now.view.from)}`;
}

/** Draws the selection over the picture. */
function select() {
  const to = drawing.to;
  for (const [time, colour] of /** @type {const} */ ([[now.first, "230 159 0"], [now.selected, "0 114 178"]])) {
    if (time === null) continue;
    const [left, right] = [place(time.from), Math.max(place(time.to), place(time.from) + 1)];
    // Of a slice, its outline says more.
    to.fillStyle = `rgb(${colour} / ${time === now.selected && now.selected.row !== null ? 8 : 22}%)`;
    to.fillRect(left, 0, right - left, picture.height);
    to.fillStyle = `rgb(${colour})`;
    for (const x of [left, right - 1]) to.fillRect(x, 0, 1, picture.height);
  }
  // Which of the rows it is.
  const row = now.selected?.row ?? null;
  const at = row === null || trace.rows[row] === undefined ? null : tracks.place(trace.rows[row].track, scroll.scrollTop);
  if (now.selected === null || row === null || at === null || !at.line.rows.includes(row)) return;
  const [left, right] = [place(now.selected.from), Math.max(place(now.selected.to), place(now.selected.from) + 2)];
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
  const length = now.view.to - now.view.from;
  const each = step(length / (width() / 120));
  const digits = each >= 1e9 ? 0 : each >= 1e6 ? 3 : each >= 1e3 ? 6 : 9;
  for (let at = firstTick(now.view.from, each); at <= now.view.to; at += each) {
    const x = TITLES + place(at);
    to.fillRect(x, 16, 1, 8);
    to.fillText(`${seconds(at, digits)} s`, x + 3, 13);
  }
  marks.drawNumbers(to, (at) => TITLES + place(at), TITLES);
}

/** Asks for what is in view, and for as much on both sides, unless it is there. */
export async function ask() {
  // Those next to what is in view too: they are scrolled to next.
  const near = tracks.lines.filter((line) => line.isOnTop
    || line.top < scroll.scrollTop + scroll.clientHeight + 400 && line.top + line.height > scroll.scrollTop - 400);
  const rows = near.flatMap((line) => line.rows).sort((a, b) => a - b);
  const length = now.view.to - now.view.from;
  if (!hasMore && now.window !== null && now.window.from <= now.view.from && now.window.to >= now.view.to
    && Math.abs((now.window.to - now.window.from) / (3 * length) - 1) < 0.3
    && rows.every((row) => now.window?.rows.has(row))) return list();
  // A trace that grows quickly must not end each request for the next one.
  if (hasMore && asking !== null) return;
  asking?.abort();
  const abort = asking = new AbortController();
  hasMore = false;
  const from = Math.max(0, Math.floor(now.view.from - length));
  const to = Math.ceil(now.view.to + length);
  const columns = Math.min(1 << 14, Math.round(width() * (to - from) / length));
  try {
    now.window = await server.window(from, to, columns, rows, abort.signal);
    draw();
    list();
  } catch (error) {
    if (error instanceof Error && error.name !== "AbortError") panel.say(detail, error.message);
  }
  if (asking !== abort) return;
  asking = null;
  if (hasMore) ask();
}

/** Fits the picture to the page. */
export function arrange() {
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

/** Draws more that has been read. */
export function drawMore() {
  hasMore = true;
  arrange();
}
