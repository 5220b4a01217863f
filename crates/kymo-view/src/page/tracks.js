// @ts-check
/** The tracks as lines of the picture, in the order of their groups. */

/** @typedef {import("./server.js").Trace} Trace */
/** @typedef {import("./server.js").Track} Track */

/** Height of a line, and of one that has a title only, in pixels. */
export const LINE = 20;
/** Depths of nesting that are drawn. */
const DEPTHS = 6;

/**
 * A line of the picture. `top` is where it is among its kind: lines on top, or all others.
 * @typedef {{ track: Track, title: string, depth: number, rows: number[], kind: string, top: number,
 *   height: number, isOpen: boolean, hasInner: boolean, isOnTop: boolean, isOdd: boolean }} Line
 */

export class Tracks {
  /** Tracks by the one that contains them. @type {Map<number | null, Track[]>} */
  inner = new Map();
  /** Numbers of rows by their track. @type {Map<number, number[]>} */
  rows = new Map();
  /** All rows, by number. @type {import("./server.js").Row[]} */
  all = [];
  /** Tracks whose inner ones are not shown. @type {Set<number>} */
  closed = new Set();
  /** Those on top first. @type {Line[]} */
  lines = [];
  /** Tracks by number. @type {Map<number, Track>} */
  byId = new Map();
  /** Tracks that stay on top, in their order. Those that nothing was read of are passed over. @type {number[]} */
  onTop = [];
  /** Parts of names: only tracks with one of them are shown; all if there are none. @type {string[]} */
  wanted = [];
  /** Of all lines together, and of those on top, in pixels. */
  height = 0;
  topHeight = 0;

  /** @param {Trace} trace */
  constructor(trace) {
    this.take(trace);
  }

  /** Takes the tracks of a trace, of which more may have been read. @param {Trace} trace */
  take(trace) {
    this.inner = new Map();
    this.rows = new Map();
    this.byId = new Map(trace.tracks.map((track) => [track.id, track]));
    for (const track of trace.tracks) {
      const siblings = this.inner.get(track.parent) ?? [];
      siblings.push(track);
      this.inner.set(track.parent, siblings);
    }
    for (const siblings of this.inner.values()) {
      siblings.sort((a, b) => order(a) - order(b) || a.rank - b.rank || a.id - b.id);
    }
    trace.rows.forEach((row, number) => {
      const rows = this.rows.get(row.track) ?? [];
      rows.push(number);
      this.rows.set(row.track, rows);
    });
    this.all = trace.rows;
    this.layOut();
  }

  /** Places the lines below one another. */
  layOut() {
    this.lines = [];
    const kept = this.kept();
    let top = 0;
    /** @param {Track} track @param {number} depth @param {boolean} isOnTop @param {string} title */
    const add = (track, depth, isOnTop, title) => {
      const rows = (this.rows.get(track.id) ?? []).filter((row) => this.all[row].depth < DEPTHS);
      rows.sort((a, b) => this.all[a].depth - this.all[b].depth);
      const inner = (this.inner.get(track.id) ?? []).filter((track) =>
        (kept === null || isOnTop || kept.has(track.id)) && !this.onTop.includes(track.id));
      const depths = rows.map((row) => this.all[row].depth + 1);
      const height = LINE * Math.max(1, ...depths);
      const isOpen = !this.closed.has(track.id);
      const kind = rows.length > 0 ? this.all[rows[0]].kind : "none";
      const isOdd = this.lines.length % 2 === 1;
      this.lines.push({ track, title, depth, rows, kind, top, height, isOpen, hasInner: inner.length > 0,
        isOnTop, isOdd });
      top += height;
      if (isOpen) for (const track of inner) add(track, depth + 1, isOnTop, name(track));
    };
    for (const id of this.onTop) {
      const track = this.byId.get(id);
      if (track !== undefined) add(track, 0, true, this.path(track));
    }
    this.topHeight = top;
    for (const track of this.inner.get(null) ?? []) {
      if ((kept === null || kept.has(track.id)) && !this.onTop.includes(track.id)) add(track, 0, false, name(track));
    }
    this.height = top;
  }

  /** The tracks that are wanted, with those around and inside them; `null` for all. */
  kept() {
    if (this.wanted.length === 0) return null;
    /** @type {Set<number>} */
    const kept = new Set();
    /** @param {Track} track @param {boolean} isInside */
    const look = (track, isInside) => {
      const is = isInside || this.wanted.some((part) => name(track).toLowerCase().includes(part));
      let has = is;
      for (const inner of this.inner.get(track.id) ?? []) has = look(inner, is) || has;
      if (has) kept.add(track.id);
      return has;
    };
    for (const track of this.inner.get(null) ?? []) look(track, false);
    return kept;
  }

  /** Shows only tracks whose name has one of these parts, between commas. @param {string} parts */
  filter(parts) {
    this.wanted = parts.toLowerCase().split(",").map((part) => part.trim()).filter((part) => part !== "");
    this.layOut();
  }

  /** Takes other numbers for the tracks. @param {Map<number, number>} numbers by those so far */
  renumber(numbers) {
    const renumbered = (/** @type {Iterable<number>} */ ids) => [...ids].flatMap((id) => numbers.get(id) ?? []);
    this.closed = new Set(renumbered(this.closed));
    this.onTop = renumbered(this.onTop);
  }

  /** Shows or hides what is inside a track. @param {Track} track */
  toggle(track) {
    if (!this.closed.delete(track.id)) this.closed.add(track.id);
    this.layOut();
  }

  /** Lets a track stay on top, or go back to its place. @param {Track} track */
  pin(track) {
    const others = this.onTop.filter((id) => id !== track.id);
    this.onTop = others.length < this.onTop.length ? others : [...others, track.id];
    this.layOut();
  }

  /** Moves a track on top up or down. @param {Track} track @param {number} by */
  move(track, by) {
    const from = this.onTop.indexOf(track.id);
    const to = Math.min(Math.max(from + by, 0), this.onTop.length - 1);
    if (from < 0 || to === from) return;
    this.onTop.splice(to, 0, ...this.onTop.splice(from, 1));
    this.layOut();
  }

  /** The name of a track behind those of the tracks around it, but groups. @param {Track} track */
  path(track) {
    const names = [name(track)];
    for (let at = this.outer(track); at !== undefined && at.kind !== "group"; at = this.outer(at)) {
      names.unshift(name(at));
    }
    return names.join(" / ");
  }

  /** @param {Track} track */
  outer(track) {
    return track.parent === null ? undefined : this.byId.get(track.parent);
  }

  /** Whether a track is one of a thread. @param {Track} track */
  isOfThread(track) {
    let home = track;
    for (let at = this.outer(home); at !== undefined && at.kind !== "group" && at.kind !== "process"; at = this.outer(at)) home = at;
    return home.kind === "thread" || this.outer(home)?.name === "Threads";
  }

  /**
   * The lines in view with where they are in the picture: those on top last, as they cover others.
   * @param {number} scrolled
   * @param {number} height
   * @returns {{ line: Line, y: number }[]}
   */
  inView(scrolled, height) {
    const all = this.lines.map((line) => ({ line, y: line.isOnTop ? line.top : line.top - scrolled }));
    const shown = all.filter(({ line, y }) =>
      y < height && y + line.height > (line.isOnTop ? 0 : this.topHeight));
    return shown.sort((a, b) => Number(a.line.isOnTop) - Number(b.line.isOnTop));
  }

  /**
   * The line at a height of the picture.
   * @param {number} y
   * @param {number} scrolled
   */
  at(y, scrolled) {
    const found = this.inView(scrolled, y + 1).reverse();
    return found.find((place) => place.y <= y && y < place.y + place.line.height);
  }

  /**
   * Where a track is, or the nearest around it that is shown.
   * @param {number} id
   * @param {number} scrolled
   */
  place(id, scrolled) {
    for (let track = this.byId.get(id); track !== undefined; track = this.outer(track)) {
      const line = this.lines.find((line) => line.track === track);
      if (line !== undefined) return { line, y: line.isOnTop ? line.top : line.top - scrolled };
    }
    return null;
  }
}

/** What a track is called: threads and processes with their number. @param {Track} track */
export function name(track) {
  const number = track.tid ?? track.pid;
  return number === null ? track.name : `${track.name} ${number}`;
}

/** CPUs first, then the kernel's own, threads, processes, counters and losses. @param {Track} track */
function order(track) {
  return track.parent === null && track.kind === "process" ? 2.5 : track.parent === null ? track.rank : 0;
}
