// @ts-check
/** Where the time of a stretch goes: its samples as a flame graph, and the same as a table. */

import { button, element, table } from "./element.js";

/**
 * A function of the tree, called by the one that `caller` is the place of. `from` is where it begins,
 * in weights of all.
 * @typedef {{ name: string, image: string, depth: number, own: number, total: number, from: number,
 *   caller: number, inner: number[] }} Frame
 */

/** Height of a function, in pixels. */
const HIGH = 18;
/** The narrowest function that is drawn, in pixels. */
const NARROW = 1;
/** Rows of the table. */
const MOST = 20;
/** Kernel and programs: the kernel's colour, and those of others by their name. */
const KERNEL = "#e69f00";
const OTHERS = ["#56b4e9", "#009e73", "#cc79a7", "#f0e442"];

/** @param {number} number */
const count = (number) => number.toLocaleString("en");

/** @param {number} part @param {number} all */
const percent = (part, all) => `${(100 * part / Math.max(all, 1)).toFixed(1)}%`;

/** The tree that the server sends, each function with its caller. @param {import("./server.js").Flame} flame */
export function grown(flame) {
  /** @type {Frame[]} */
  const frames = [];
  /** Of each depth, the function that was the last, and where its next callee begins. @type {[number, number][]} */
  const open = [];
  for (const [depth, name, image, own, total] of flame.tree) {
    const [caller, from] = depth === 0 ? [-1, 0] : open[depth - 1];
    frames.push({ name: depth === 0 ? "all" : name === "" ? "unknown" : name, image, depth, own, total, from, caller, inner: [] });
    const place = frames.length - 1;
    if (depth > 0) {
      open[depth - 1][1] += total;
      frames[caller].inner.push(place);
    }
    open[depth] = [place, from];
  }
  return frames;
}

/** @param {Frame} frame */
function colour(frame) {
  if (frame.depth === 0) return "#b8bec6";
  if (frame.image === "kernel") return KERNEL;
  let sum = 0;
  for (const letter of frame.image) sum = (sum * 31 + letter.charCodeAt(0)) % 65536;
  return OTHERS[sum % OTHERS.length];
}

/** The graph, drawn in a canvas: arrows move in it, Enter and a click zoom. */
class Graph {
  /** @param {Frame[]} frames @param {(frame: Frame, isZoomed: boolean) => void} tell */
  constructor(frames, tell) {
    this.frames = frames;
    this.tell = tell;
    /** The function that has all of the width, and the one that is chosen. */
    this.zoomed = 0;
    this.chosen = 0;
    this.canvas = document.createElement("canvas");
    this.canvas.className = "flame";
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", "Flame graph: arrows move, Enter zooms, Backspace zooms out; the table below has the same");
    this.canvas.addEventListener("click", (event) => this.zoom(this.at(event)));
    this.canvas.addEventListener("mousemove", (event) => this.choose(this.at(event)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  /** How far the tree goes above what has all of the width. */
  get deepest() {
    let deepest = this.frames[this.zoomed].depth;
    for (const frame of this.frames) if (this.isInside(frame)) deepest = Math.max(deepest, frame.depth);
    return deepest;
  }

  /** @param {Frame} frame */
  isInside(frame) {
    const { from, total, depth } = this.frames[this.zoomed];
    return frame.depth >= depth && frame.from >= from && frame.from + frame.total <= from + total;
  }

  /** Where a function is: left, top and width, in pixels. Callers of what is zoomed to have all of the width. @param {Frame} frame */
  place(frame) {
    const { from, total } = this.frames[this.zoomed];
    const unit = this.canvas.clientWidth / Math.max(total, 1);
    const left = Math.max(0, (frame.from - from) * unit);
    const right = Math.min(this.canvas.clientWidth, (frame.from + frame.total - from) * unit);
    return { left, top: frame.depth * HIGH, wide: right - left };
  }

  draw() {
    const { canvas } = this;
    const to = canvas.getContext("2d");
    const high = (this.deepest + 1) * HIGH;
    canvas.style.height = `${high}px`;
    const scale = devicePixelRatio;
    [canvas.width, canvas.height] = [canvas.clientWidth * scale, high * scale];
    if (to === null) return;
    to.setTransform(scale, 0, 0, scale, 0, 0);
    to.font = "11px system-ui, sans-serif";
    to.textBaseline = "middle";
    const text = getComputedStyle(document.documentElement).getPropertyValue("--text");
    for (const [place, frame] of this.frames.entries()) {
      const { left, top, wide } = this.place(frame);
      if (wide < NARROW) continue;
      to.globalAlpha = frame.depth < this.frames[this.zoomed].depth ? 0.5 : 1;
      to.fillStyle = colour(frame);
      to.fillRect(left, top, Math.max(wide - 0.5, NARROW), HIGH - 1);
      to.globalAlpha = 1;
      if (place === this.chosen) {
        to.strokeStyle = text;
        to.lineWidth = 2;
        to.strokeRect(left + 1, top + 1, Math.max(wide - 2, 1), HIGH - 3);
      }
      if (wide < 24) continue;
      to.save();
      to.beginPath();
      to.rect(left, top, wide - 3, HIGH);
      to.clip();
      // All colours are light.
      to.fillStyle = "#1a1a1a";
      to.fillText(frame.name, left + 4, top + HIGH / 2);
      to.restore();
    }
  }

  /** The function at a place of the canvas. @param {MouseEvent} event */
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, depth] = [event.clientX - box.left, Math.floor((event.clientY - box.top) / HIGH)];
    return this.frames.findIndex((frame) => {
      const { left, wide } = this.place(frame);
      return frame.depth === depth && wide >= NARROW && left <= x && x < left + wide;
    });
  }

  /** @param {number} place */
  choose(place) {
    if (place < 0 || place === this.chosen) return;
    this.chosen = place;
    this.tell(this.frames[place], false);
    this.draw();
  }

  /** @param {number} place */
  zoom(place) {
    if (place < 0) return;
    // What has all of the width already lets its caller have it.
    this.zoomed = place === this.zoomed ? Math.max(0, this.frames[place].caller) : place;
    this.chosen = place;
    this.tell(this.frames[this.zoomed], true);
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const { caller, inner } = this.frames[this.chosen];
    const beside = this.frames[caller]?.inner ?? [];
    const here = beside.indexOf(this.chosen);
    const acts = new Map([
      ["ArrowDown", () => this.choose(inner[0] ?? -1)],
      ["ArrowUp", () => this.choose(caller)],
      ["ArrowLeft", () => this.choose(beside[here - 1] ?? -1)],
      ["ArrowRight", () => this.choose(beside[here + 1] ?? -1)],
      ["Enter", () => this.zoom(this.chosen)],
      ["Backspace", () => this.zoom(this.zoomed)],
    ]);
    const act = acts.get(event.key);
    if (act === undefined) return;
    event.preventDefault();
    // The timeline has other meanings for them.
    event.stopPropagation();
    act();
  }
}

/** Functions with their weights, those with the most of their own first. @param {Frame[]} frames */
function functions(frames) {
  /** @type {Map<string, { name: string, image: string, own: number, total: number }>} */
  const all = new Map();
  for (const frame of frames.slice(1)) {
    const key = `${frame.name}\n${frame.image}`;
    const one = all.get(key) ?? { name: frame.name, image: frame.image, own: 0, total: 0 };
    one.own += frame.own;
    // Several times on a stack counts once.
    let outer = frames[frame.caller];
    while (outer !== undefined && (outer.name !== frame.name || outer.image !== frame.image)) outer = frames[outer.caller];
    if (outer === undefined) one.total += frame.total;
    all.set(key, one);
  }
  return [...all.values()].sort((a, b) => b.own - a.own || b.total - a.total);
}

/** The choice of a CPU or a thread. @param {import("./server.js").Flame} flame @param {string} chosen @param {(of: string) => void} choose */
function choice(flame, chosen, choose) {
  const made = document.createElement("select");
  made.setAttribute("aria-label", "Whose samples");
  const option = (/** @type {string} */ value, /** @type {string} */ text) => made.append(new Option(text, value, false, value === chosen));
  option("", "all CPUs and threads");
  for (const [cpu, weight] of flame.cpus) option(`cpu=${cpu}`, `CPU ${cpu}: ${count(weight)}`);
  for (const [tid, label, weight] of flame.threads) option(`thread=${tid}`, `${label}: ${count(weight)}`);
  // The address may choose what has no samples in this stretch, or too few for the list.
  if (made.value !== chosen) {
    const [kind, number] = chosen.split("=");
    option(chosen, `${kind === "cpu" ? "CPU" : "thread"} ${number}: ${flame.total === 0 ? "no samples" : count(flame.total)}`);
  }
  made.addEventListener("change", () => choose(made.value));
  return made;
}

/**
 * @param {HTMLElement} panel
 * @param {string} title
 * @param {import("./server.js").Flame} flame
 * @param {string} chosen
 * @param {(of: string) => void} choose what is shown instead: `cpu=0`, `thread=5`, or all
 */
export function show(panel, title, flame, chosen, choose) {
  const frames = grown(flame);
  /** @type {Node[]} */
  const parts = [element("h2", `${title}: ${count(flame.total)} ${flame.unit}`)];
  const hasChoice = chosen !== "" || flame.cpus.length + flame.threads.length > 0;
  if (hasChoice) {
    const choices = element("p");
    choices.className = "choices";
    choices.append(choice(flame, chosen, choose));
    parts.push(choices);
  }
  parts.push(element("p", `${chosen === "" ? "" : "Of all CPUs and threads: "}${flame.account.join(" ")}`));
  if (flame.total > 0) {
    const line = element("p");
    line.className = "chosen";
    const tell = (/** @type {Frame} */ { name, image, own, total }) => {
      const where = image === "" ? "" : ` (${image})`;
      const share = `${count(total)} ${flame.unit}, ${percent(total, flame.total)}`;
      line.textContent = `${name}${where}: ${share}; ${count(own)} of its own`;
    };
    const graph = new Graph(frames, tell);
    tell(frames[0]);
    parts.push(line, graph.canvas);
    const all = functions(frames);
    parts.push(table("Functions", ["function", "in", "of its own", "share", "with what it calls", "share"],
      all.slice(0, MOST).map(({ name, image, own, total }) => {
        const place = frames.findIndex((frame) => frame.name === name && frame.image === image);
        return [button(name, `Zoom to ${name}`, () => graph.zoom(place)), image,
          own, percent(own, flame.total), total, percent(total, flame.total)];
      }), 2));
    if (all.length > MOST) parts.push(element("p", `${all.length - MOST} more functions are in the graph only.`));
    const [number, weight] = flame.left_out;
    if (number > 0) {
      const left = `${count(number)} functions with few samples (${count(weight)} together) are left out, with what they call`;
      parts.push(element("p", `${left}; select less time to see them.`));
    }
  }
  if (flame.more_threads > 0) parts.push(element("p", `${flame.more_threads} threads with fewer samples are not in the list.`));
  panel.replaceChildren(...parts);
}
