/** The map of prompts × sides of a comparison: says what a column is, and opens its prompt. */

/** @import { SideMapData } from "../shared/types.d.ts" */
/** @import { Cells } from "./cell-map.js" */

import { unpack } from "../shared/data.js";
import { CellMap } from "./cell-map.js";
import { boxOf, changeOf, columnAt, moved, promptOf, rewardsOf, spoken } from "./side-cells.js";

/**
 * @param {HTMLElement} root
 * @param {{open: (row: number) => void, tip: import("../shared/tip.js").Tip, signal: AbortSignal}} page
 *   `open`: opens a row of the list, by its number
 */
export function mountSideMap(root, { open, tip, signal }) {
  const plot = /** @type {HTMLElement | null} */ (root.querySelector(".side-map .cells"));
  const packed = root.querySelector("script.side-map-data")?.textContent ?? "";
  if (!plot || !packed) return;
  unpack(packed).then((bytes) => {
    if (signal.aborted) return;
    const data = JSON.parse(new TextDecoder().decode(bytes));
    new CellMap(plot, cellsOf(data, plot, open), { tip, signal });
  });
}

/**
 * @param {SideMapData} data
 * @param {HTMLElement} plot
 * @param {(row: number) => void} open
 * @returns {Cells}
 */
function cellsOf(data, plot, open) {
  return {
    at: (across) => columnAt(data, across),
    box: (cell) => boxOf(data, cell, plot.clientHeight),
    moved: (cell, key) => moved(data, cell, key),
    words: (cell) => {
      const prompt = promptOf(data, cell);
      return { title: changeOf(data, cell), lines: [...rewardsOf(data, cell), prompt] };
    },
    spoken: (cell) => spoken(data, cell),
    opener: ({ column }) => {
      const row = data.rows[column];
      return row ? () => open(row) : null;
    },
  };
}
