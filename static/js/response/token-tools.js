/** The controls of the token view and the legend of its colours. */

/** @import { Metric } from "../shared/types.d.ts" */
/** @import { Scale } from "./metrics.js" */

import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { CLIP, extremeName } from "./metrics.js";
import { marked, message, nodes, plural, withUnit } from "../shared/words.js";

/** @typedef {"response" | "step" | "both"} ScaleOf what a scale covers: `both` responses */

export class TokenTools {
  /**
   * @param {Metric[]} metrics
   * @param {{set: (changes: Record<string, string | null>) => void, jump: () => void,
   *   spaces: (on: boolean) => void, lines: () => void, compares: boolean}} on `compares`: whether
   *   there are two responses, whose colours are usually on one scale
   */
  constructor(metrics, on) {
    /** @param {string} name @param {Node[]} first options before the metrics */
    const choice = (name, first) => {
      const options = metrics.map(({ key, label, help }) =>
        el("option", { value: key, title: help }, label),
      );
      const select = el("select", { name }, ...first, ...options);
      select.addEventListener("change", () => on.set({ [name]: select.value || null }));
      return select;
    };
    this.metric = choice("metric", []);
    this.beside = choice("b", [el("option", { value: "" }, message("none"))]);
    /** @type {[string, string][]} value in the URL, and label; the usual scale is first */
    const scales = on.compares
      ? [
          ["", message("both responses")],
          ["response", message("response")],
        ]
      : [
          ["", message("response")],
          ["step", message("step")],
        ];
    this.scale = el(
      "select",
      { name: "scale" },
      ...scales.map(([value, label]) => el("option", { value }, label)),
    );
    this.scale.addEventListener("change", () => on.set({ scale: this.scale.value || null }));
    this.next = el("button", {
      type: "button",
      title: message("Key n; N goes back"),
      onclick: on.jump,
    });
    this.spaces = el("input", { type: "checkbox", onchange: () => on.spaces(this.spaces.checked) });
    this.everyLine = el("input", { type: "checkbox", onchange: on.lines });
    this.node = el(
      "div",
      { class: "token-tools" },
      el("label", {}, ...nodes("Metric {choice}", { choice: this.metric })),
      el("label", {}, ...nodes("compare with {choice}", { choice: this.beside })),
      el("label", {}, ...nodes("colour scale: {choice}", { choice: this.scale })),
      this.next,
      el("label", {}, this.spaces, message("spaces")),
      el("label", {}, this.everyLine, message("a line for each metric")),
    );
  }

  /** @param {Metric[]} shown @param {boolean} byStep */
  show([metric, beside], byStep) {
    this.metric.value = metric.key;
    this.beside.value = beside?.key ?? "";
    // The other scale of a response is that of its step; of two, that of each.
    this.scale.selectedIndex = Number(byStep === (this.scale.options[1].value === "step"));
    this.next.textContent = extremeName(metric);
  }
}

/**
 * @param {Metric} metric
 * @param {Scale} scale
 * @param {ScaleOf} of
 */
export function legend(metric, scale, of) {
  const bins = Array.from({ length: scale.bins }, (_, k) =>
    el("span", { class: `${scale.prefix}-${k + 1}` }),
  );
  const low = written(scale.reversed ? scale.high : scale.low);
  const high = written(scale.reversed ? scale.low : scale.high);
  const clip = clipNote(scale, of);
  const middle = written(scale.middle);
  const note = scale.middle
    ? message("centred on the median, {middle}; {clip}", { middle, clip })
    : clip;
  const label = message("colours from {low} to {high}", { low, high });
  return [
    el("strong", { "data-term": `token.${metric.key}` }, metric.label),
    el("span", { class: "ends" }, low),
    el("span", { class: "bins", role: "img", "aria-label": label }, ...bins),
    el("span", { class: "ends" }, withUnit(high, metric.unit)),
    el("span", { class: "unit" }, note),
  ];
}

/** @type {Record<ScaleOf, string>} */
const SCALES = {
  response: marked("scale of the response"),
  step: marked("scale of the step"),
  both: marked("scale of both responses"),
};

/**
 * Returns a note on which values the scale covers, and how many are beyond it.
 * @param {Scale} scale
 * @param {ScaleOf} of
 */
function clipNote(scale, of) {
  const count = scale.clipped;
  if (!count) return message(SCALES[of]);
  const places = { share: CLIP * 100, count: written(count, "count") };
  if (of === "both") {
    return plural(
      "clipped at the {share}th percentile of both responses, {count} token beyond",
      "clipped at the {share}th percentile of both responses, {count} tokens beyond",
      count,
      places,
    );
  }
  if (of === "step") {
    return plural(
      "clipped at the {share}th percentile of the step, {count} token beyond",
      "clipped at the {share}th percentile of the step, {count} tokens beyond",
      count,
      places,
    );
  }
  return plural(
    "clipped at the {share}th percentile of the response, {count} token beyond",
    "clipped at the {share}th percentile of the response, {count} tokens beyond",
    count,
    places,
  );
}
