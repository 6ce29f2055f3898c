/** The columns of the map of prompts × sides: which is where, and what it says. */

/** @import { SideMapData } from "../shared/types.d.ts" */
/** @import { Box, Cell } from "./cell-map.js" */

import { MISSING, written } from "../shared/format.js";
import { message } from "../shared/words.js";

/** Columns that a page key moves by. */
const PAGE = 10;

/**
 * Returns the column at a part of the map's width.
 * @param {SideMapData} data
 * @param {number} across
 * @returns {Cell}
 */
export function columnAt(data, across) {
  const count = data.prompts.length;
  return { row: 0, column: Math.min(Math.max(Math.floor(across * count), 0), count - 1) };
}

/**
 * Returns where a column is; it is as high as the map.
 * @param {SideMapData} data
 * @param {Cell} cell
 * @param {number} height
 * @returns {Box}
 */
export function boxOf(data, { column }, height) {
  const width = 1 / data.prompts.length;
  return { left: column * width, top: 0, width, height };
}

/**
 * Returns the column that a key leads to, null for other keys.
 * @param {SideMapData} data
 * @param {Cell} cell
 * @param {string} key
 * @returns {Cell | null}
 */
export function moved(data, { column }, key) {
  const last = data.prompts.length - 1;
  const places = new Map([
    ["ArrowLeft", column - 1],
    ["ArrowRight", column + 1],
    ["PageUp", column - PAGE],
    ["PageDown", column + PAGE],
    ["Home", 0],
    ["End", last],
  ]);
  const place = places.get(key);
  return place === undefined ? null : { row: 0, column: Math.min(Math.max(place, 0), last) };
}

/** Returns what became of a prompt. @param {SideMapData} data @param {Cell} cell */
export function changeOf(data, { column }) {
  return data.words[data.change[column]] ?? "";
}

/**
 * Returns the mean rewards of a prompt, each with the name of its side.
 * @param {SideMapData} data
 * @param {Cell} cell
 * @returns {{label: string, value: string}[]}
 */
export function rewardsOf(data, { column }) {
  return [data.base, data.new].map((values, side) => {
    const value = values[column];
    return { label: data.sides[side], value: value === null ? MISSING : written(value) };
  });
}

/** Returns the name of a prompt and how it begins. @param {SideMapData} data @param {Cell} cell */
export function promptOf(data, { column }) {
  return { label: message("Prompt {id}", { id: data.prompts[column] }), value: data.names[column] };
}

/** Returns a column as a sentence for screen readers. @param {SideMapData} data @param {Cell} cell */
export function spoken(data, cell) {
  const { label, value } = promptOf(data, cell);
  const rewards = rewardsOf(data, cell).map((one) => `${one.label}: ${one.value}`);
  return [value || label, changeOf(data, cell), ...rewards].join(", ");
}
