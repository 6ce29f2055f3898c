/** Token metrics, stored in the page or derived from stored ones, and their colour scales. */

/** @import { Metric } from "../shared/types.d.ts" */

import { message } from "../shared/words.js";

/** @typedef {import("../shared/data.js").TokenData} TokenData */

/** Coefficients (−1)ⁿ / n! of the series of k3, from n = 12 down to 2. @type {number[]} */
const SERIES = [];
for (let n = 2, factor = 0.5; n <= 12; n += 1, factor /= -n) SERIES.unshift(factor);

/** Log-ratios below this are small; the formula of larger ones cancels few digits. */
const SMALL_RATIO = 0.125;

/**
 * Returns exp(−x) − 1 + x; of small log-ratios by its series, like k3 in figures/tokens.py.
 * @param {number} ratio
 */
function k3(ratio) {
  const isSmall = Math.abs(ratio) < SMALL_RATIO; // NaN is not
  if (!isSmall) return Math.expm1(-ratio) + ratio;
  return ratio * ratio * SERIES.reduce((total, factor) => total * ratio + factor, 0);
}

/**
 * Metric → those it is derived from, and how.
 * @type {Record<string, [string[], (...x: number[]) => number]>}
 */
const DERIVED = {
  ref_logp: [["logp", "log_ratio"], (logp, ratio) => logp - ratio],
  // k3 of the inverse ratio, an estimate of KL(policy‖reference).
  kl: [["log_ratio"], k3],
  prob: [["logp"], Math.exp],
  ref_prob: [["ref_logp"], Math.exp],
  surprisal: [["logp"], (logp) => -logp],
  return: [["value", "advantage"], (value, advantage) => value + advantage],
  value_error: [["value", "return"], (value, target) => value - target],
};

/**
 * Returns the values of a metric for all tokens of the page; derived values are cached.
 * @param {TokenData} data
 * @param {string} key
 * @returns {Float64Array | null} null if the page lacks the data
 */
export function valuesOf(data, key) {
  const known = data.columns.get(key);
  if (known) return known;
  const derived = DERIVED[key];
  if (!derived) return null;
  const [names, rule] = derived;
  const inputs = names.map((name) => valuesOf(data, name));
  if (inputs.some((input) => input === null)) return null;
  const values = new Float64Array(data.ids.length);
  const [first, second] = /** @type {Float64Array[]} */ (inputs);
  for (let i = 0; i < values.length; i += 1) values[i] = rule(first[i], second?.[i]);
  data.columns.set(key, values);
  return values;
}

/** Metrics whose smallest values are the extremes. */
const SMALL_IS_EXTREME = new Set(["logp", "ref_logp", "prob", "ref_prob", "sampler_logp"]);

/**
 * Metrics whose extremes are the values furthest from the median, as their usual level is not 0.
 */
const AROUND_MEDIAN = new Set(["value", "return"]);

/** Metrics that are between 0 and 1 in any response. */
const PROBABILITIES = new Set(["prob", "ref_prob"]);

/**
 * Returns the usual level of a metric: 0 or the median.
 * @param {Float64Array} values
 * @param {Metric} metric
 */
function middleOf(values, metric) {
  if (!AROUND_MEDIAN.has(metric.key)) return 0;
  return quantile(values.filter(Number.isFinite).sort(), 0.5);
}

/**
 * Returns the indices sorted by extremeness: largest, largest magnitude if signed, furthest
 * from the median for values and returns, or least likely for probabilities.
 * @param {Float64Array} values
 * @param {Metric} metric
 */
export function extremes(values, metric) {
  const middle = middleOf(values, metric);
  /** @param {number} i */
  const size = (i) => {
    if (metric.signed) return Math.abs(values[i] - middle);
    return SMALL_IS_EXTREME.has(metric.key) ? -values[i] : values[i];
  };
  const known = [...values.keys()].filter((i) => !Number.isNaN(values[i]));
  return known.sort((a, b) => size(b) - size(a) || a - b);
}

/** Returns the label of the button that jumps to the most extreme token. @param {Metric} metric */
export function extremeName(metric) {
  if (SMALL_IS_EXTREME.has(metric.key)) return message("Next least likely");
  if (AROUND_MEDIAN.has(metric.key)) return message("Next furthest from the median");
  return metric.signed ? message("Next largest ±") : message("Next largest");
}

/** Share of the values that the colours of a scale cover. */
export const CLIP = 0.98;

/**
 * Returns a quantile, rounded outwards to a value that occurs, so that no value of fewer than 50
 * is beyond the 98th percentile.
 * @param {Float64Array} sorted ascending
 * @param {number} share
 */
function quantile(sorted, share) {
  if (!sorted.length) return NaN;
  const place = share * (sorted.length - 1);
  return sorted[share > 0.5 ? Math.ceil(place) : Math.floor(place)];
}

/**
 * A colour scale in bins, darker for unusual values: 11 centred on zero (values and returns: on
 * their median) for signed metrics; for the others 9 from the usual end to the other, which is
 * the low end for log-probabilities and probabilities.
 * It is clipped at the 98th percentile, so that an outlier does not make all other values pale.
 */
export class Scale {
  /** @param {Float64Array} values @param {Metric} metric */
  constructor(values, metric) {
    const finite = values.filter(Number.isFinite);
    const { signed } = metric;
    this.prefix = signed ? "div" : "seq";
    this.bins = signed ? 11 : 9;
    this.reversed = !signed && SMALL_IS_EXTREME.has(metric.key);
    this.middle = signed ? middleOf(values, metric) || 0 : 0;
    const [low, high] = this.ends(finite, metric);
    this.low = low;
    this.high = high;
    const beyond = finite.filter((x) => x < low || x > high);
    this.clipped = beyond.length;
  }

  /**
   * Returns the values at both ends of the colours.
   * @param {Float64Array} finite
   * @param {Metric} metric
   * @returns {[number, number]}
   */
  ends(finite, metric) {
    if (PROBABILITIES.has(metric.key)) return [0, 1];
    if (!metric.signed) return oneSidedEnds(finite.toSorted());
    const distances = finite.map((x) => Math.abs(x - this.middle)).sort();
    const end = quantile(distances, CLIP) || distances.at(-1) || 1;
    return [this.middle - end, this.middle + end];
  }

  /** Returns the CSS class of a value's bin, "none" if it is missing. @param {number} value */
  className(value) {
    if (Number.isNaN(value)) return "none";
    // Halved first: the range of large values may be infinite.
    const share = (value / 2 - this.low / 2) / (this.high / 2 - this.low / 2);
    const bin = Math.min(this.bins - 1, Math.max(0, Math.floor(share * this.bins)));
    return `${this.prefix}-${this.reversed ? this.bins - bin : bin + 1}`;
  }
}

/**
 * Returns ends that hold 0 and most values.
 * @param {Float64Array} sorted
 * @returns {[number, number]}
 */
function oneSidedEnds(sorted) {
  const low = Math.min(0, quantile(sorted, 1 - CLIP));
  // If most values are 0, the largest counts, unless there are smaller ones to colour.
  const usual = quantile(sorted, CLIP) || (low < 0 ? 0 : sorted.at(-1)) || 0;
  const high = Math.max(0, usual);
  return [low, high > low ? high : low + 1];
}
