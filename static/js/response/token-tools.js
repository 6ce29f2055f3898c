/** The controls of the token view and the legend of its colours. */

/** @import { Metric } from "../shared/types.d.ts" */
/** @import { Scale } from "./metrics.js" */

import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { CLIP, extremeName } from "./metrics.js";
import { message, nodes, plural, withUnit } from "../shared/words.js";

export class TokenTools {
  /**
   * @param {Metric[]} metrics
   * @param {{set: (changes: Record<string, string | null>) => void, jump: () => void,
   *   spaces: (on: boolean) => void, lines: () => void}} on
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
    this.scale = el(
      "select",
      { name: "scale" },
      el("option", { value: "" }, message("response")),
      el("option", { value: "step" }, message("step")),
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
    this.scale.value = byStep ? "step" : "";
    this.next.textContent = extremeName(metric);
  }
}

/**
 * @param {Metric} metric
 * @param {Scale} scale
 * @param {boolean} byStep
 */
export function legend(metric, scale, byStep) {
  const bins = Array.from({ length: scale.bins }, (_, k) =>
    el("span", { class: `${scale.prefix}-${k + 1}` }),
  );
  const low = written(scale.reversed ? scale.high : scale.low);
  const high = written(scale.reversed ? scale.low : scale.high);
  const clip = clipNote(scale, byStep);
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

/**
 * Returns a note on which values the scale covers, and how many are beyond it.
 * @param {Scale} scale
 * @param {boolean} byStep
 */
function clipNote(scale, byStep) {
  const count = scale.clipped;
  if (!count) return byStep ? message("scale of the step") : message("scale of the response");
  const places = { share: CLIP * 100, count: written(count, "count") };
  if (byStep) {
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
