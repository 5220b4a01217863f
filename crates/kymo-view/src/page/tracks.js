// @ts-check
/** The tracks as lines of the picture, in the order of their groups. */

/** @typedef {import("./server.js").Trace} Trace */
/** @typedef {import("./server.js").Track} Track */

/** Height of a line, and of one that has a title only, in pixels. */
export const LINE = 20;
/** Depths of nesting that are drawn. */
const DEPTHS = 6;

/**
 * @typedef {{ track: Track, depth: number, rows: number[], kind: string, top: number, height: number,
 *   isOpen: boolean, hasInner: boolean }} Line
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
  /** @type {Line[]} */
  lines = [];
  /** Of all lines together, in pixels. */
  height = 0;

  /** @param {Trace} trace */
  constructor(trace) {
    this.take(trace);
  }

  /** Takes the tracks of a trace, of which more may have been read. @param {Trace} trace */
  take(trace) {
    this.inner = new Map();
    this.rows = new Map();
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
    let top = 0;
    /** @param {number | null} parent @param {number} depth */
    const add = (parent, depth) => {
      for (const track of this.inner.get(parent) ?? []) {
        const rows = (this.rows.get(track.id) ?? []).filter((row) => this.all[row].depth < DEPTHS);
        rows.sort((a, b) => this.all[a].depth - this.all[b].depth);
        const hasInner = this.inner.has(track.id);
        const depths = rows.map((row) => this.all[row].depth + 1);
        const height = LINE * Math.max(1, ...depths);
        const isOpen = !this.closed.has(track.id);
        const kind = rows.length > 0 ? this.all[rows[0]].kind : "none";
        this.lines.push({ track, depth, rows, kind, top, height, isOpen, hasInner });
        top += height;
        if (isOpen) add(track.id, depth + 1);
      }
    };
    add(null, 0);
    this.height = top;
  }

  /** Shows or hides what is inside a track. @param {Track} track */
  toggle(track) {
    if (!this.closed.delete(track.id)) this.closed.add(track.id);
    this.layOut();
  }

  /** The lines between two heights. @param {number} top @param {number} bottom */
  between(top, bottom) {
    return this.lines.filter((line) => line.top < bottom && line.top + line.height > top);
  }
}

/** CPUs first, then the kernel's own, threads, processes, counters and losses. @param {Track} track */
function order(track) {
  return track.parent === null && track.kind === "process" ? 2.5 : track.parent === null ? track.rank : 0;
}
