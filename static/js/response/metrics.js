/** Token metrics, stored in the page or derived from stored ones, and their colour scales. */

import { message } from "../shared/words.js";

/** @typedef {import("../shared/data.js").TokenData} TokenData */
/** @typedef {{key: string, label: string, unit: string, signed: boolean, help: string}} Metric */

/** Coefficients (−1)ⁿ / n! of the series of k3, from n = 12 down to 2. */
const SERIES = [];
for (let n = 2, factor = 0.5; n <= 12; n += 1, factor /= -n) SERIES.unshift(factor);

/**
 * Returns exp(−x) − 1 + x; of small log-ratios by its series, like k3 in figures/tokens.py.
 * @param {number} ratio
 */
function k3(ratio) {
  if (!(Math.abs(ratio) < 0.125)) return Math.expm1(-ratio) + ratio;
  return ratio * ratio * SERIES.reduce((total, factor) => total * ratio + factor, 0);
}

/** @type {Record<string, [string[], (...x: number[]) => number]>} */
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
  const rule = DERIVED[key];
  if (!rule) return null;
  const inputs = rule[0].map((name) => valuesOf(data, name));
  if (inputs.some((input) => input === null)) return null;
  const values = new Float64Array(data.ids.length);
  const [first, second] = /** @type {Float64Array[]} */ (inputs);
  for (let i = 0; i < values.length; i += 1) values[i] = rule[1](first[i], second?.[i]);
  data.columns.set(key, values);
  return values;
}

/** Metrics whose smallest values are the extremes. */
const SMALL_IS_EXTREME = new Set(["logp", "ref_logp", "prob", "ref_prob", "sampler_logp"]);

/** Metrics whose extremes are the values furthest from the median, as their usual level is not 0. */
const AROUND_MEDIAN = new Set(["value", "return"]);

/** Returns the usual level of a metric: 0 or the median. @param {Float64Array} values @param {Metric} metric */
function middleOf(values, metric) {
  return AROUND_MEDIAN.has(metric.key) ? quantile(values.filter(Number.isFinite).sort(), 0.5) : 0;
}

/**
 * Returns the indices sorted by extremeness: largest, largest magnitude if signed, furthest
 * from the median for values and returns, or least likely for probabilities.
 * @param {Float64Array} values
 * @param {Metric} metric
 */
export function extremes(values, metric) {
  const middle = middleOf(values, metric);
  const size = (x) =>
    metric.signed ? Math.abs(x - middle) : SMALL_IS_EXTREME.has(metric.key) ? -x : x;
  return [...values.keys()]
    .filter((i) => !Number.isNaN(values[i]))
    .sort((a, b) => size(values[b]) - size(values[a]) || a - b);
}

/** Returns the label of the button that jumps to the most extreme token. @param {Metric} metric */
export function extremeName(metric) {
  if (SMALL_IS_EXTREME.has(metric.key)) return message("Next least likely");
  if (AROUND_MEDIAN.has(metric.key)) return message("Next furthest from the median");
  return metric.signed ? message("Next largest ±") : message("Next largest");
}

export const CLIP = 0.98;

/**
 * Returns a quantile, rounded outwards to a value that occurs, so that no value of fewer than 50
 * is beyond the 98th percentile.
 * @param {Float64Array} sorted ascending
 * @param {number} share
 */
function quantile(sorted, share) {
  const place = share * (sorted.length - 1);
  return sorted.length ? sorted[share > 0.5 ? Math.ceil(place) : Math.floor(place)] : NaN;
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
    const sorted = (signed ? finite.map((x) => Math.abs(x - this.middle)) : finite.slice()).sort();
    const clip = quantile(sorted, CLIP);
    this.largest = sorted.at(-1) ?? NaN;
    if (metric.key === "prob" || metric.key === "ref_prob") {
      [this.low, this.high] = [0, 1];
    } else if (signed) {
      const end = clip || this.largest || 1;
      [this.low, this.high] = [this.middle - end, this.middle + end];
    } else {
      this.low = Math.min(0, quantile(sorted, 1 - CLIP));
      this.high = Math.max(0, clip || (this.low < 0 ? 0 : this.largest));
      if (!(this.high > this.low)) this.high = this.low + 1;
    }
    this.clipped = finite.reduce((n, x) => n + Number(x < this.low || x > this.high), 0);
  }

  /** Returns the CSS class of a value's bin, "none" if it is missing. @param {number} value */
  className(value) {
    if (Number.isNaN(value)) return "none";
    const share = (value - this.low) / (this.high - this.low);
    const bin = Math.min(this.bins - 1, Math.max(0, Math.floor(share * this.bins)));
    return `${this.prefix}-${this.reversed ? this.bins - bin : bin + 1}`;
  }
}
