// @ts-check
/** The arrows of what is selected: from who wakes to who is woken, and from a lock's release to the wait. */

import { button, element, table } from "./element.js";
import { moment } from "./time.js";
import { LINE } from "./tracks.js";

/**
 * @typedef {import("./server.js").Arrow} Arrow
 * @typedef {import("./tracks.js").Tracks} Tracks
 */

/** Half the width of an arrow's head, in pixels. */
const HEAD = 4;

export class Arrows {
  /** @param {Tracks} tracks */
  constructor(tracks) {
    this.tracks = tracks;
    /** @type {Arrow[]} */
    this.shown = [];
  }

  /**
   * Draws those of which an end is in view.
   * @param {CanvasRenderingContext2D} to
   * @param {(at: number) => number} x
   * @param {number} width
   * @param {number} scrolled
   */
  draw(to, x, width, scrolled) {
    const style = getComputedStyle(document.documentElement);
    for (const arrow of this.shown) {
      to.save();
      to.beginPath();
      // Lines on top cover what scrolls below them, arrows too, unless one ends there.
      const isBelow = ![arrow.from_track, arrow.to_track].some((id) => this.tracks.place(id, scrolled)?.line.isOnTop);
      to.rect(0, isBelow ? this.tracks.topHeight : 0, width, to.canvas.height);
      to.clip();
      this.drawOne(arrow, to, x, width, scrolled, style);
      to.restore();
    }
  }

  /**
   * @param {Arrow} arrow
   * @param {CanvasRenderingContext2D} to
   * @param {(at: number) => number} x
   * @param {number} width
   * @param {number} scrolled
   * @param {CSSStyleDeclaration} style
   */
  drawOne(arrow, to, x, width, scrolled, style) {
    const [left, right] = [x(arrow.from_ns), x(arrow.to_ns)];
    if (right < 0 && left < 0 || left > width && right > width) return;
    const [from, end] = [arrow.from_track, arrow.to_track].map((id) => this.tracks.place(id, scrolled));
    if (from === null || end === null) return;
    const [above, below] = [from.y + LINE / 2, end.y + LINE / 2];
    // Both ends are often at the same time: the arrow bends to the left of it.
    const bend = Math.max(14, Math.abs(right - left) / 3);
    const way = new Path2D();
    way.moveTo(left, above);
    way.bezierCurveTo(left - bend, above, right - bend, below, right - HEAD, below);
    const head = new Path2D();
    head.moveTo(right, below);
    head.lineTo(right - 2 * HEAD, below - HEAD);
    head.lineTo(right - 2 * HEAD, below + HEAD);
    head.closePath();
    // A rim sets it off from any colour below.
    to.strokeStyle = style.getPropertyValue("--back");
    to.lineWidth = 4;
    to.stroke(way);
    to.stroke(head);
    to.strokeStyle = to.fillStyle = style.getPropertyValue("--text");
    to.lineWidth = 1.5;
    to.stroke(way);
    to.fill(head);
  }

  /**
   * The arrows as a table.
   * @param {boolean} isWhole whether these are all
   * @param {(at: number, track: number) => void} go
   * @returns {Node[]}
   */
  list(isWhole, go) {
    const end = (/** @type {number} */ at, /** @type {number} */ id) => {
      const track = this.tracks.byId.get(id);
      const names = track === undefined ? [] : this.tracks.path(track).split(" / ");
      return button(names.slice(-2).join(" / "), `Go to ${moment(at)}`, () => go(at, id));
    };
    const rows = this.shown.slice(0, 20).map((arrow) =>
      [moment(arrow.from_ns), end(arrow.from_ns, arrow.from_track), arrow.name || "releases the lock",
        end(arrow.to_ns, arrow.to_track)]);
    /** @type {Node[]} */
    const parts = rows.length === 0 ? [] : [table("Arrows", ["at", "from", "", "to"], rows)];
    if (!isWhole) parts.push(element("p", "Arrows in the middle of a long slice are not shown."));
    return parts;
  }
}
