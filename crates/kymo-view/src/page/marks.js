// @ts-check
/** Marks: numbered points in time, over all tracks, and the times between them. */

import { button, table } from "./element.js";
import { duration, moment } from "./time.js";

export class Marks {
  constructor() {
    /** In nanoseconds, the earliest first. @type {number[]} */
    this.times = [];
  }

  /** @param {number[]} times */
  set(times) {
    this.times = [...new Set(times)].sort((a, b) => a - b);
  }

  /**
   * Marks a time, or removes the mark that is there.
   * @param {number} at
   * @param {number} near how far from a mark is still there
   */
  toggle(at, near) {
    const there = this.times.find((time) => Math.abs(time - at) <= near);
    if (there === undefined) this.set([...this.times, Math.round(at)]);
    else this.remove(there);
  }

  /** @param {number} at */
  remove(at) {
    this.times = this.times.filter((time) => time !== at);
  }

  /**
   * Draws the marks' lines.
   * @param {CanvasRenderingContext2D} to
   * @param {(at: number) => number} x
   * @param {number} height
   */
  draw(to, x, height) {
    to.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--text");
    for (const at of this.times) to.fillRect(Math.round(x(at)), 0, 1, height);
  }

  /**
   * Draws the marks' numbers.
   * @param {CanvasRenderingContext2D} to
   * @param {(at: number) => number} x
   * @param {number} least where the numbers begin
   */
  drawNumbers(to, x, least) {
    const style = getComputedStyle(document.documentElement);
    to.font = "bold 11px system-ui, sans-serif";
    for (const [place, at] of this.times.entries()) {
      const [left, number] = [Math.round(x(at)), String(place + 1)];
      if (left < least) continue;
      const wide = to.measureText(number).width + 6;
      to.fillStyle = style.getPropertyValue("--text");
      to.fillRect(left, 10, wide, 14);
      to.fillStyle = style.getPropertyValue("--back");
      to.fillText(number, left + 3, 21);
    }
  }

  /**
   * The marks as a table.
   * @param {HTMLElement} panel
   * @param {(at: number) => void} go
   * @param {(at: number) => void} remove
   */
  list(panel, go, remove) {
    if (this.times.length === 0) return panel.replaceChildren();
    const rows = this.times.map((at, place) => {
      const before = this.times[place - 1];
      return [button(`${place + 1}`, `Go to mark ${place + 1}`, () => go(at)), moment(at),
        before === undefined ? "" : `+ ${duration(at - before)}`,
        button("remove", `Remove mark ${place + 1}`, () => remove(at))];
    });
    panel.replaceChildren(table("Marks", ["mark", "time", "since the one before", ""], rows));
  }
}
