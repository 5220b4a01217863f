// @ts-check
/** What the mouse does in the picture. */

import { picture, scroll, width } from "./page.js";
import { ask, draw } from "./picture.js";
import { pick } from "./slice.js";
import { now } from "./state.js";
import { selectTime } from "./stretch.js";
import { show, timeAt, zoom } from "./view.js";

/** @type {{ x: number, from: number, selects: boolean, moved: boolean } | null} */
let drag = null;

/** Listens to it. */
export function listen() {
  picture.addEventListener("pointerdown", (event) => {
    drag = { x: event.clientX, from: event.shiftKey ? timeAt(event) : now.view.from, selects: event.shiftKey, moved: false };
    picture.setPointerCapture(event.pointerId);
  });
  scroll.addEventListener("pointerleave", () => {
    now.mouse = null;
  });
  scroll.addEventListener("pointermove", (event) => {
    now.mouse = event;
  });
  picture.addEventListener("pointermove", (event) => {
    if (drag === null) return;
    drag.moved ||= Math.abs(event.clientX - drag.x) > 3;
    if (!drag.moved) return;
    if (drag.selects) {
      const at = timeAt(event);
      now.selected = { from: Math.max(0, Math.min(drag.from, at)), to: Math.max(drag.from, at), row: null };
      draw();
    } else {
      const moved = (event.clientX - drag.x) * (now.view.to - now.view.from) / width();
      show(drag.from - moved, drag.from - moved + (now.view.to - now.view.from));
    }
  });
  picture.addEventListener("pointerup", (event) => {
    const ended = drag;
    drag = null;
    if (ended === null) return;
    if (!ended.moved) pick(event);
    else if (ended.selects && now.selected !== null) selectTime(now.selected.from, now.selected.to);
  });
  picture.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const moved = (event.deltaX || event.deltaY) * (now.view.to - now.view.from) / width();
      show(now.view.from + moved, now.view.to + moved);
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
}
