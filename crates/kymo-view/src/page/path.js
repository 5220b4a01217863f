// @ts-check
/** Who held a thread up: the critical path of what is selected, as tables and over the picture. */

import { button, element, table } from "./element.js";
import { duration, moment } from "./time.js";
import { LINE } from "./tracks.js";

/** Rows of a table. */
const MOST = 40;

export class CriticalPath {
  /** @param {import("./tracks.js").Tracks} tracks */
  constructor(tracks) {
    this.tracks = tracks;
    /** @type {import("./server.js").Why | null} */
    this.shown = null;
  }

  /**
   * Draws a line over the followed threads, and from each to the next.
   * @param {CanvasRenderingContext2D} to
   * @param {(at: number) => number} x
   * @param {number} width
   * @param {number} scrolled
   */
  draw(to, x, width, scrolled) {
    if (this.shown === null) return;
    const way = new Path2D();
    let isBegun = false;
    for (const { from_ns: from, to_ns: end, track } of this.shown.segments) {
      const place = track === null ? null : this.tracks.place(track, scrolled);
      const [left, right] = [x(from), x(end)];
      if (place === null || right < 0 || left > width) {
        isBegun = false;
        continue;
      }
      const y = place.y + LINE / 2;
      if (isBegun) way.lineTo(left, y);
      else way.moveTo(left, y);
      way.lineTo(right, y);
      isBegun = true;
    }
    const style = getComputedStyle(document.documentElement);
    to.save();
    to.lineJoin = "round";
    // A rim sets it off from any colour below.
    for (const [colour, thickness] of /** @type {const} */ ([["--back", 5], ["--text", 2]])) {
      to.strokeStyle = style.getPropertyValue(colour);
      to.lineWidth = thickness;
      to.stroke(way);
    }
    to.restore();
  }

  /**
   * The path as tables.
   * @param {(segment: import("./server.js").PathSegment) => void} go
   * @returns {Node[]}
   */
  list(go) {
    if (this.shown === null) return [];
    const { segments, by_who: byWho, is_whole: isWhole, losses } = this.shown;
    const shares = byWho.slice(0, MOST / 4).map(([who, ns, count]) => [who, duration(ns), count]);
    const longest = [...segments].sort((a, b) => (b.to_ns - b.from_ns) - (a.to_ns - a.from_ns)).slice(0, MOST);
    const rows = longest.sort((a, b) => a.from_ns - b.from_ns).map((one) =>
      [button(one.who, `Go to ${moment(one.from_ns)}`, () => go(one)), one.says, one.because,
        duration(one.to_ns - one.from_ns), one.cpu === null ? "" : `CPU ${one.cpu}`]);
    /** @type {Node[]} */
    const parts = [table("Who held it up", ["who", "together", "times"], shares),
      table("Critical path", ["who", "what", "why it counts", "lasts", ""], rows, 3)];
    if (segments.length > rows.length || !isWhole) {
      parts.push(element("p", "These are the longest parts of the path; kymo why has all of them."));
    }
    if (losses > 0) parts.push(element("p", "Events were lost meanwhile: what threads did then is not known."));
    return parts;
  }
}
