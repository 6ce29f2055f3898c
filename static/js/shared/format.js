/** Formats numbers in the browser, like rlreport/text/numbers.py. */

import { marked, message } from "./words.js";

export const MISSING = "–";
export const NAN = "NaN";
const MINUS = "−";

/** @typedef {"number" | "count" | "share"} Kind */

const DIGITS = 3;

/**
 * Formats a number for display: three significant digits, a count or a percentage.
 * @param {number | null | undefined} value
 * @param {Kind} [kind]
 */
export function written(value, kind = "number") {
  if (value === null || value === undefined || Number.isNaN(value)) return MISSING;
  if (kind === "count" && Math.abs(value) < 1e15) return decimal(value, 0);
  if (kind === "share") return `${percentage(100 * value)}%`;
  return significant(value);
}

/** Returns the shortest text that parses to exactly this value. @param {number} value */
export function exact(value) {
  if (Number.isNaN(value)) return message("not logged, not a number, or not in the sample");
  const size = Math.abs(value);
  const plain = size === 0 || !Number.isFinite(value) || (size >= 1e-4 && size < 1e16);
  return plain ? String(value) : value.toExponential().replace("e+", "e");
}

/** Formats a number with four significant digits, for tooltips. @param {number} value */
export function precise(value) {
  if (Number.isNaN(value)) return NAN;
  return exact(Number(value.toPrecision(4)))
    .replace(/-/g, MINUS)
    .replace("Infinity", "∞");
}

/** Formats a rank: "1st", "2nd", "3rd", "11th". @param {number} rank */
export function ordinal(rank) {
  const tens = rank % 100;
  const end = tens >= 11 && tens <= 13 ? 0 : rank % 10;
  const literal =
    { 1: marked("{n}st"), 2: marked("{n}nd"), 3: marked("{n}rd") }[end] ?? marked("{n}th");
  return message(literal, { n: written(rank, "count") });
}

/** @param {number} value */
function significant(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size === Infinity) return value > 0 ? "∞" : `${MINUS}∞`;
  const exponent = Number(size.toExponential(DIGITS - 1).split("e")[1]);
  if (size < 1e-4 || size >= 1e9) {
    return value
      .toExponential(DIGITS - 1)
      .replace("e+", "e")
      .replace(/-/g, MINUS);
  }
  return decimal(value, Math.max(0, DIGITS - 1 - exponent));
}

/** @param {number} shown */
function percentage(shown) {
  const size = Math.abs(shown);
  if (size >= 99.95 && size < 100.05) return decimal(shown, 0);
  return size >= 1 && size < 1e9 ? decimal(shown, 1) : significant(shown);
}

/** @param {number} value @param {number} decimals */
function decimal(value, decimals) {
  const [whole, fraction] = Math.abs(value).toFixed(decimals).split(".");
  const grouped = whole.replace(/\B(?=(\d{3})+$)/g, ",");
  const text = fraction === undefined ? grouped : `${grouped}.${fraction}`;
  return value < 0 && /[1-9]/.test(text) ? MINUS + text : text;
}
