// @ts-check
/** The trace, and what is in view and selected of it. */

import { Arrows } from "./arrows.js";
import { Drawing } from "./draw.js";
import * as growing from "./growing.js";
import { Marks } from "./marks.js";
import { detail, picture } from "./page.js";
import * as panel from "./panel.js";
import { CriticalPath } from "./path.js";
import { countFrom } from "./time.js";
import { Tracks } from "./tracks.js";

/** The shortest stretch of time that is shown, in nanoseconds. */
export const SHORTEST = 100;

export const trace = await growing.trace().catch((error) => {
  panel.say(detail, String(error.message));
  throw error;
});
countFrom(trace.since_begin_ns);

export const tracks = new Tracks(trace);
export const drawing = new Drawing(picture, trace);
export const arrows = new Arrows(tracks);
export const path = new CriticalPath(tracks);
export const marks = new Marks();
export const whole = { from: 0, to: Math.max(trace.span_ns, SHORTEST) };

/** What changes. */
export const now = {
  /** What is in view. */
  view: { ...whole },
  /** What the server has told of it. @type {import("./server.js").Window | null} */
  window: null,
  /** The stretch of time or the slice that is selected. @type {import("./address.js").Selection | null} */
  selected: null,
  /** The stretch of time with which the next one that is selected is compared. @type {{ from: number, to: number } | null} */
  first: null,
  /** Only events that fit this condition are counted; all if it is empty. */
  filter: "",
  /** Whose flame graph is shown in place of a report: `cpu=0`, `thread=5`, or all if it is empty. @type {string | null} */
  flame: null,
  /** Where the mouse is over the picture. @type {MouseEvent | null} */
  mouse: null,
  /** How often something was selected, and which of these the panel shows: older answers are not shown. */
  selections: 0,
  told: 0,
};
