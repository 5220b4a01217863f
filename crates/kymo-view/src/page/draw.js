// @ts-check
/** Draws rows of a window. */

import { STEPS, WORDS } from "./server.js";
import { LINE } from "./tracks.js";

/** Colours that people with any colour vision can tell apart (Okabe and Ito). */
const STATES = new Map([
  ["running", "#009e73"], ["runnable", "#e69f00"], ["blocked", "#d55e00"],
  ["sleeping", "#9aa5b1"], ["suspended", "#7a7f87"],
]);
const CATEGORIES = new Map([
  ["irq", "#cc79a7"], ["syscall", "#0072b2"], ["lock", "#d55e00"], ["span", "#56b4e9"],
  ["lost", "#c00000"], ["event", "#7a7f87"], ["sample", "#e69f00"],
]);
const THREADS = ["#0072b2", "#009e73", "#e69f00", "#cc79a7", "#56b4e9", "#d55e00", "#8a6fb0", "#b0a03a"];

/** Stands for the colour of idle, which is another one on a dark page. */
const IDLE = "";

/** The colour of each name. @param {[string, string, number | null][]} names */
export function colours(names) {
  return names.map(([category, text, number]) => {
    const state = STATES.get(text.split(":")[0]);
    if (category === "sched" && state !== undefined) return state;
    if (category !== "sched") return CATEGORIES.get(category) ?? "#7a7f87";
    if (number === 0 || text.startsWith("idle")) return IDLE;
    return THREADS[(number ?? 0) % THREADS.length];
  });
}

/**
 * Black or white, whichever is easier to read on a colour: by its relative luminance (WCAG 2).
 * @param {string} colour
 */
function inkOn(colour) {
  const part = (/** @type {number} */ at) => {
    const value = parseInt(colour.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5) > 0.2 ? "#1a1a1a" : "#ffffff";
}

/** The hatching of losses. @param {CanvasRenderingContext2D} to */
function hatched(to) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const lines = tile.getContext("2d");
  if (lines === null) return "#c00000";
  lines.strokeStyle = "#c00000";
  lines.lineWidth = 2;
  lines.beginPath();
  for (const from of [-4, 0, 4, 8]) {
    lines.moveTo(from, 8);
    lines.lineTo(from + 8, 0);
  }
  lines.stroke();
  return to.createPattern(tile, "repeat") ?? "#c00000";
}

export class Drawing {
  /** Category, text and number of each name. @type {[string, string, number | null][]} */
  names = [];
  /** The colour of each name, and that of the text on it. @type {string[]} */
  colours = [];
  /** @type {string[]} */
  inks = [];
  /** The colour of idle. */
  idle = "";
  /** Where the trace was read up to. */
  read = Infinity;

  /**
   * @param {HTMLCanvasElement} canvas
   * @param {import("./server.js").Trace} trace
   */
  constructor(canvas, trace) {
    this.canvas = canvas;
    const to = canvas.getContext("2d", { alpha: false });
    if (to === null) throw new Error("This browser draws no pictures.");
    this.to = to;
    this.lost = hatched(to);
    this.take(trace);
  }

  /** Takes the names of a trace, of which more may have been read. @param {import("./server.js").Trace} trace */
  take(trace) {
    this.names = trace.names;
    this.colours = colours(trace.names);
    this.inks = this.colours.map((colour) => colour === IDLE ? IDLE : inkOn(colour));
    this.read = trace.is_whole ? Infinity : trace.read_ns;
  }

  /**
   * Draws these lines of a window, for a view of it.
   * @param {import("./server.js").Window | null} window
   * @param {{ from: number, to: number }} view
   * @param {{ line: import("./tracks.js").Line, y: number }[]} places
   * @param {import("./server.js").Row[]} rows
   */
  draw(window, view, places, rows) {
    const { to, canvas } = this;
    const scale = devicePixelRatio;
    const [width, height] = [canvas.width / scale, canvas.height / scale];
    const style = getComputedStyle(document.documentElement);
    to.setTransform(scale, 0, 0, scale, 0, 0);
    to.fillStyle = style.getPropertyValue("--back");
    to.fillRect(0, 0, width, height);
    to.font = "11px system-ui, sans-serif";
    to.textBaseline = "middle";
    const text = style.getPropertyValue("--text");
    this.idle = style.getPropertyValue("--idle");
    const bands = ["--back", "--band"].map((name) => style.getPropertyValue(name));
    for (const { line, y: top } of places) {
      to.fillStyle = bands[Number(line.isOdd)];
      to.fillRect(0, top, width, line.height);
      if (window === null) continue;
      // Where a step of the window is in this view.
      const step = (window.to - window.from) / (window.columns * STEPS);
      const unit = step * width / (view.to - view.from);
      const shift = (window.from - view.from) * width / (view.to - view.from);
      for (const row of line.rows) {
        const entries = window.rows.get(row);
        if (entries === undefined) continue;
        const above = top + LINE * rows[row].depth;
        if (rows[row].kind === "slices") this.slices(entries, unit, shift, above, width, text);
        else if (rows[row].kind === "points" && this.names[entries[2]]?.[0] === "sample") this.samples(entries, unit, shift, above, width);
        else if (rows[row].kind === "points") this.points(entries, unit, shift, above, width);
        else this.values(entries, unit, shift, above, width);
      }
    }
    this.unread((this.read - view.from) * width / (view.to - view.from), width, height, style);
  }

  /** Covers what has not been read. @param {number} from @param {number} width @param {number} height
   *  @param {CSSStyleDeclaration} style */
  unread(from, width, height, style) {
    if (from >= width) return;
    const { to } = this;
    const left = Math.max(from, 0);
    to.fillStyle = style.getPropertyValue("--unread");
    to.fillRect(left, 0, width - left, height);
    to.fillStyle = style.getPropertyValue("--text");
    to.fillText("not read yet", left + 6, LINE / 2);
  }

  /** @param {Uint32Array} runs @param {number} unit @param {number} shift @param {number} top
   *  @param {number} width @param {string} text */
  slices(runs, unit, shift, top, width, text) {
    const { to } = this;
    for (let at = 0; at < runs.length; at += WORDS) {
      const left = Math.max(-1, runs[at] * unit + shift);
      const right = Math.min(width + 1, runs[at + 1] * unit + shift);
      if (right < 0 || left > width) continue;
      const [name, count, part] = [runs[at + 2], runs[at + 3], runs[at + 4] / 65536];
      const wide = Math.max(right - left, 0.8);
      to.fillStyle = this.names[name]?.[0] === "lost" ? this.lost : this.colours[name] || this.idle;
      // What stands for several slices is as full as these are dense.
      to.globalAlpha = count > 1 ? 0.25 + 0.75 * part : 1;
      to.fillRect(left, top + 2, wide, LINE - 4);
      to.globalAlpha = 1;
      if (wide < 28) continue;
      const title = count > 1 ? `${count} slices` : this.names[name]?.[1] ?? "";
      to.save();
      to.beginPath();
      to.rect(left, top, wide - 2, LINE);
      to.clip();
      to.fillStyle = count > 1 ? text : this.inks[name] || text;
      to.fillText(title, Math.max(left, 0) + 3, top + LINE / 2 + 1);
      to.restore();
    }
  }

  /** @param {Uint32Array} runs @param {number} unit @param {number} shift @param {number} top
   *  @param {number} width */
  points(runs, unit, shift, top, width) {
    const { to } = this;
    for (let at = 0; at < runs.length; at += WORDS) {
      const [left, right] = [runs[at] * unit + shift, runs[at + 1] * unit + shift];
      if (right < 0 || left > width) continue;
      to.fillStyle = this.names[runs[at + 2]]?.[0] === "lost" ? "#c00000" : this.colours[runs[at + 2]] || this.idle;
      to.fillRect(left, top + 6, Math.max(right - left, 1.5), LINE - 12);
    }
  }

  /** Samples as bars: the more in a pixel, the higher. @param {Uint32Array} runs @param {number} unit
   *  @param {number} shift @param {number} top @param {number} width */
  samples(runs, unit, shift, top, width) {
    const columns = new Float32Array(Math.ceil(width));
    for (let at = 0; at < runs.length; at += WORDS) {
      const [left, right] = [runs[at] * unit + shift, runs[at + 1] * unit + shift];
      if (right < 0 || left > width) continue;
      const [first, last] = [Math.floor(left), Math.max(Math.floor(left), Math.ceil(right) - 1)];
      for (let x = Math.max(first, 0); x <= Math.min(last, columns.length - 1); x += 1) columns[x] += runs[at + 3] / (last - first + 1);
    }
    const { to } = this;
    const most = columns.reduce((most, count) => Math.max(most, count), 1);
    to.fillStyle = this.colours[runs[2]];
    for (const [x, count] of columns.entries()) {
      // One is seen too.
      const high = count === 0 ? 0 : Math.max(2, count / most * (LINE - 4));
      to.fillRect(x, top + LINE - 2 - high, 1, high);
    }
  }

  /** @param {Uint32Array} entries @param {number} unit @param {number} shift @param {number} top
   *  @param {number} width */
  values(entries, unit, shift, top, width) {
    const numbers = new Float32Array(entries.buffer, entries.byteOffset, entries.length);
    let [least, most] = [0, 1];
    for (let at = 0; at < entries.length; at += WORDS) {
      least = Math.min(least, numbers[at + 2]);
      most = Math.max(most, numbers[at + 3]);
    }
    const { to } = this;
    const y = (/** @type {number} */ value) => top + LINE - 2 - (value - least) / (most - least) * (LINE - 4);
    to.fillStyle = "#56b4e9";
    for (let at = 0; at < entries.length; at += WORDS) {
      const left = Math.max(0, entries[at] * unit + shift);
      const next = at + WORDS < entries.length ? entries[at + WORDS] * unit + shift : width;
      const right = Math.min(width, next);
      if (right < 0 || left > width) continue;
      const high = y(numbers[at + 3]);
      to.fillRect(left, high, Math.max(right - left, 0.8), y(least) - high + 1);
    }
  }
}
