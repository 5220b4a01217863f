// @ts-check
/** How a window's entries lie in memory. */

/** Words of an entry, and into how many steps a column is divided. */
export const WORDS = 5;
export const STEPS = 16;
