/** The steps that all charts of a page are limited to, as text in its address: `#zoom=20-48`. */

/** @import { Range, Row } from "./spec.d.ts" */

/** Name of the parameter in the page's address. */
export const ZOOM = "zoom";

const RANGE = /^(-?\d+(?:\.\d+)?)-(-?\d+(?:\.\d+)?)$/;
/** A range of fewer steps keeps decimal places: its limits may lie between two steps. */
const FEW_STEPS = 4;

/** @param {Range} range */
export function zoomText([low, high]) {
  const places = high - low < FEW_STEPS ? 2 : 0;
  return [low, high].map((step) => String(Number(step.toFixed(places)))).join("-");
}

/**
 * Returns the range that a text names, null for none or one that is no range.
 * @param {string | null} text
 * @returns {Range | null}
 */
export function zoomOf(text) {
  const found = RANGE.exec(text ?? "");
  if (!found) return null;
  const low = Number(found[1]);
  const high = Number(found[2]);
  return high > low ? [low, high] : null;
}

/** @param {Range | null} one @param {Range | null} other */
export function isSame(one, other) {
  if (!one || !other) return one === other;
  return one[0] === other[0] && one[1] === other[1];
}

/**
 * Returns the first and the last step of rows, null if they have fewer than two.
 * @param {Row[]} rows
 * @returns {Range | null}
 */
export function stepsOf(rows) {
  let low = Infinity;
  let high = -Infinity;
  for (const { step } of rows) {
    if (step === undefined || !Number.isFinite(step)) continue;
    low = Math.min(low, step);
    high = Math.max(high, step);
  }
  return high > low ? [low, high] : null;
}
