/** The shown answers to the prompts of a run, and the film strip of a prompt as data. */

/** @import { FilmCurve, FilmRow, FilmStrip, PromptsData } from "../shared/types.d.ts" */

import { Scale } from "../response/metrics.js";
import { written } from "../shared/format.js";
import { listed, marked, message } from "../shared/words.js";
import { excerpt, fitting } from "./film-text.js";

/** Maximum number of dots, and of means, of the curve. */
const MOST_POINTS = 400;
const TITLE_CHARS = 240;
/** Maximum number of characters of an answer in the name of its link. */
const NAME_CHARS = 200;

/** Codes of `which`: an answer of the strip, and which one of its step it is. @type {Record<number, string>} */
const WHICH = { 2: marked("worst"), 3: marked("median"), 4: marked("best") };

const LOG_RATIO = { key: "log_ratio", label: "", unit: "", signed: true, help: "" };

/**
 * @typedef {object} Answers
 * @property {number} id of the prompt
 * @property {number[]} rows index of each answer in the columns of `PromptsData`
 * @property {[number, number][]} means step and mean reward of all responses to the prompt
 */

/**
 * @typedef {object} AnswerText
 * @property {string} text
 * @property {{texts: string[], ratios: Float64Array} | null} tokens null without log-ratios
 */

/** The answers of each prompt. */
export class Prompts {
  /** @param {PromptsData} data */
  constructor(data) {
    this.data = data;
    /** @type {Map<number, Answers>} */
    this.byId = new Map();
    let row = 0;
    let point = 0;
    data.prompts.forEach((id, k) => {
      const rows = rangeOf(row, data.sizes[k]);
      const points = rangeOf(point, data.points[k]);
      row += rows.length;
      point += points.length;
      const means = points.map((i) => pair(data.at[i], data.mean[i]));
      this.byId.set(id, { id, rows, means: means.filter(isKnown) });
    });
  }

  /** @param {string | null} id @returns {Answers | null} */
  of(id) {
    return id === null || !/^\d+$/.test(id) ? null : (this.byId.get(Number(id)) ?? null);
  }

  /** Returns the address of an answer, at the token for which it is cited. @param {number} row */
  href(row) {
    const { address, step, n } = this.data;
    const token = this.cited(row)?.[1] ?? null;
    const place = address.replace("{step}", String(step[row])).replace("{n}", String(n[row]));
    return token === null ? place : `${place}&token=${token}`;
  }

  /** Returns the finding that cites an answer, and the token. @param {number} row */
  cited(row) {
    const { cited, step, n } = this.data;
    return cited[`${step[row]}-${n[row]}`] ?? null;
  }

  /** Returns the answers of the strip, in its order. @param {Answers} answers */
  inStrip({ rows }) {
    const { which } = this.data;
    return rows.filter((row) => which[row]).sort((a, b) => which[a] - which[b] || a - b);
  }
}

/** @param {number} start @param {number} size */
function rangeOf(start, size) {
  return Array.from({ length: size }, (_, k) => start + k);
}

/** @param {number} step @param {number | null} value @returns {[number, number | null]} */
function pair(step, value) {
  return [step, value];
}

/** @param {[number, number | null]} point @returns {point is [number, number]} */
function isKnown(point) {
  return point[1] !== null;
}

/**
 * Returns up to `most` of the items: evenly spaced, with both ends.
 * @template Item
 * @param {Item[]} items
 * @param {number} most
 */
export function evenly(items, most) {
  if (items.length <= most) return items;
  const step = (items.length - 1) / (most - 1);
  return rangeOf(0, most).map((k) => items[Math.round(k * step)]);
}

/** @typedef {{data: FilmStrip, legend: string}} Strip a strip, and what its marks mean */

/**
 * Returns the strip of a prompt.
 * @param {Prompts} prompts
 * @param {Answers} answers
 * @param {string} prompt its text
 * @param {Map<number, AnswerText>} texts by row; a row without one is left out
 * @returns {Strip}
 */
export function stripOf(prompts, answers, prompt, texts) {
  const { data } = prompts;
  const rows = prompts.inStrip(answers).filter((row) => texts.has(row));
  const ratios = rows.flatMap((row) => [...(texts.get(row)?.tokens?.ratios ?? [])]);
  const scale = ratios.some(Number.isFinite)
    ? new Scale(Float64Array.from(ratios), LOG_RATIO)
    : null;
  const legend = legendInWords(data, scale, rows.length > 1);
  /** @type {FilmStrip} */
  const strip = {
    title: fitting(prompt.split(/\s+/).filter(Boolean).join(" "), TITLE_CHARS),
    caption: message("Run {run}, steps {low}–{high}. {legend}", {
      run: data.run,
      low: written(data.low, "count"),
      high: written(data.high, "count"),
      legend,
    }),
    ends: scale ? endsOf(scale) : null,
    curve: curveOf(prompts, answers),
    rules: data.rules,
    rows: rows.map((row) => {
      const answer = /** @type {AnswerText} */ (texts.get(row));
      return rowOf(prompts, row, { ...answer, mean: meanBeside(data, answers, row) }, scale);
    }),
  };
  return { data: strip, legend };
}

/**
 * Returns what the marks mean.
 * @param {PromptsData} data
 * @param {Scale | null} scale of the colours
 * @param {boolean} isCompared whether words are compared with the row above
 */
function legendInWords(data, scale, isCompared) {
  const words = isCompared ? message("Underlined: words that the row above does not have.") : "";
  if (!scale) return words;
  const colours = message(
    "Colour: the log-ratio of each token ({how}), clipped at ±{clip} {unit}, the 98th percentile.",
    { how: data.ratioHelp, clip: written(scale.high), unit: data.ratioUnit },
  );
  return words ? message("{colours} {words}", { colours, words }) : colours;
}

/** @param {Scale} scale @returns {[string, string]} */
function endsOf({ high }) {
  const value = written(high);
  return [
    message("less likely −{value}", { value }),
    message("+{value} more likely than under the reference", { value }),
  ];
}

/**
 * Returns the rewards over the steps, null of a prompt with rewards at one step only.
 * @param {Prompts} prompts
 * @param {Answers} answers
 * @returns {FilmCurve | null}
 */
function curveOf({ data }, { rows, means }) {
  if (means.length < 2) return null;
  const dots = rows.map((row) => pair(data.step[row], data.reward[row])).filter(isKnown);
  return {
    low: data.low,
    high: data.high,
    means: evenly(means, MOST_POINTS),
    dots: evenly(dots, MOST_POINTS),
    reach: data.reach,
    words: message("Reward"),
  };
}

/**
 * Returns the mean reward of a prompt at the step of an answer, null unless the row says it: no
 * answer has a reward near to the mean if rewards have two values.
 * @param {PromptsData} data
 * @param {Answers} answers
 * @param {number} row
 */
function meanBeside({ twoRewards, step, reward }, { means }, row) {
  if (!twoRewards) return null;
  const mean = means.find(([at]) => at === step[row])?.[1] ?? null;
  return mean === reward[row] ? null : mean;
}

/**
 * @param {Prompts} prompts
 * @param {number} row
 * @param {AnswerText & {mean: number | null}} answer `mean`: the reward to be said beside its own
 * @param {Scale | null} scale
 * @returns {FilmRow}
 */
function rowOf(prompts, row, { text, tokens, mean }, scale) {
  const { step, reward, which } = prompts.data;
  const [finding, token] = prompts.cited(row) ?? ["", null];
  const part =
    tokens && scale
      ? excerpt(
          tokens.texts,
          [...tokens.ratios].map((value) => binOf(scale, value)),
          token,
        )
      : excerpt([text], [0], null);
  const name = WHICH[which[row]];
  const about = [
    message("reward {reward}", { reward: written(reward[row]) }),
    mean === null ? "" : message("mean {mean}", { mean: written(mean) }),
    name ? message(name) : "",
    finding,
  ];
  const head = message("step {step}", { step: step[row] });
  const said = about.filter(Boolean);
  return {
    name: message("{which}: {text}", {
      which: listed([head, ...said]),
      text: fitting(text.split(/\s+/).filter(Boolean).join(" "), NAME_CHARS),
    }),
    head,
    about: said,
    above: "",
    ...part,
    step: step[row],
    reward: reward[row],
    href: prompts.href(row),
  };
}

/** Returns the bin of a log-ratio, 0 for NaN. @param {Scale} scale @param {number} value */
function binOf(scale, value) {
  return Number.isNaN(value) ? 0 : Number(scale.className(value).replace("div-", ""));
}
