/** How numbers are written: the same rules as rlreport/text/numbers.py. */

export const MISSING = "–";

/** @param {string} text */
const trueMinus = (text) => text.replace(/-/g, "−");

/**
 * Three significant digits, whole parts kept, thousands separated; NaN is "–".
 * @param {number | null | undefined} value
 * @param {number} [digits]
 */
export function significant(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return MISSING;
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size < 1e-4 || size >= 1e9) {
    return trueMinus(value.toExponential(digits - 1).replace("e+", "e"));
  }
  const rounded = Number(size.toPrecision(digits));
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(rounded)));
  return trueMinus(grouped(value.toFixed(decimals)));
}

/** @param {string} text digits with at most one point */
function grouped(text) {
  const [whole, fraction] = text.split(".");
  const spaced = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  return fraction === undefined ? spaced : `${spaced}.${fraction}`;
}

/** A count with thousands separated. @param {number} value */
export function count(value) {
  return grouped(String(Math.round(value)));
}

/** Columns whose values are counts: those of WHOLE in rlreport/bake/columns.py. */
const WHOLE = new Set(["response_tokens", "response_chars", "finished"]);

/** The value of a response's column, as the baked list shows it. @param {string} key @param {number} value */
export function figure(key, value) {
  return WHOLE.has(key) && Number.isFinite(value) ? count(value) : significant(value);
}

/** "1st", "2nd", "3rd", "11th". @param {number} rank */
export function ordinal(rank) {
  const tens = rank % 100;
  const end = tens >= 11 && tens <= 13 ? "th" : (["th", "st", "nd", "rd"][rank % 10] ?? "th");
  return `${count(rank)}${end}`;
}

/** The value itself with a true minus, for places that show exact figures. @param {number} value */
export function exact(value) {
  return Number.isNaN(value) ? "missing" : trueMinus(String(value));
}
