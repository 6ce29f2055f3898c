/** The cells of the map of prompts × steps: which is where, and what it says. */

/** @import { PromptMapData } from "../shared/types.d.ts" */
/** @import { Box, Cell } from "./cell-map.js" */

import { written } from "../shared/format.js";
import { message, plural } from "../shared/words.js";

/**
 * Returns the cell at a place of the map, null between the rows of training and validation.
 * @param {PromptMapData} data
 * @param {number} across part of the map's width, 0 to 1
 * @param {number} down pixels below its upper edge
 * @returns {Cell | null}
 */
export function cellAt(data, across, down) {
  const columns = data.low.length;
  const column = Math.min(Math.max(Math.floor(across * columns), 0), columns - 1);
  const above = data.training * data.row;
  const isInGap = data.gap > 0 && down >= above && down < above + data.gap;
  if (isInGap) return null;
  const row = Math.floor((down < above ? down : down - data.gap) / data.row);
  return { row: Math.min(Math.max(row, 0), data.prompts.length - 1), column };
}

/**
 * Returns where a cell is, across as a part of the map's width, down in pixels.
 * @param {PromptMapData} data
 * @param {Cell} cell
 * @returns {Box}
 */
export function boxOf(data, { row, column }) {
  const width = 1 / data.low.length;
  const gap = row >= data.training ? data.gap : 0;
  return { left: column * width, top: row * data.row + gap, width, height: data.row };
}

/**
 * Returns the cell that a key leads to from another one, null for other keys.
 * @param {PromptMapData} data
 * @param {Cell} cell
 * @param {string} key
 * @returns {Cell | null}
 */
export function moved(data, { row, column }, key) {
  const lastRow = data.prompts.length - 1;
  const lastColumn = data.low.length - 1;
  switch (key) {
    case "ArrowUp":
      return { row: Math.max(row - 1, 0), column };
    case "ArrowDown":
      return { row: Math.min(row + 1, lastRow), column };
    case "ArrowLeft":
      return { row, column: Math.max(column - 1, 0) };
    case "ArrowRight":
      return { row, column: Math.min(column + 1, lastColumn) };
    case "PageUp":
      return { row: Math.max(row - 10, 0), column };
    case "PageDown":
      return { row: Math.min(row + 10, lastRow), column };
    case "Home":
      return { row, column: 0 };
    case "End":
      return { row, column: lastColumn };
    default:
      return null;
  }
}

/**
 * Returns the steps of a cell and what the responses there earned.
 * @param {PromptMapData} data
 * @param {Cell} cell
 */
export function wordsOf(data, { row, column }) {
  const place = row * data.low.length + column;
  return message("{steps}: {what}", {
    steps: stepsOf(data.low[column], data.high[column]),
    what: earned(data, data.count[place], data.value[place]),
  });
}

/** @param {number} low @param {number} high */
function stepsOf(low, high) {
  return low === high
    ? message("step {step}", { step: low })
    : message("steps {low}–{high}", { low, high });
}

/** @param {PromptMapData} data @param {number} count @param {number | null} value */
function earned(data, count, value) {
  if (!count || value === null) return message("no response");
  if (data.measure === "solved") {
    return message("{solved} of {all} solved", { solved: value, all: count });
  }
  return plural(
    "mean reward {value} of {count} response",
    "mean reward {value} of {count} responses",
    count,
    { value: written(value), count },
  );
}

/**
 * Returns the address of the prompt of a row, null if the report shows no response to it.
 * @param {PromptMapData} data
 * @param {number} row
 */
export function addressOf(data, row) {
  return data.linked[row] ? data.address.replaceAll("{prompt}", String(data.prompts[row])) : null;
}
