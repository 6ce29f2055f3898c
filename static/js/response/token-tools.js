/** The controls of the token view and the legend of its colours. */

import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { CLIP, extremeName } from "./metrics.js";
import { message, nodes, plural, withUnit } from "../shared/words.js";

/** @typedef {import("./metrics.js").Metric} Metric */

export class TokenTools {
  /**
   * @param {Metric[]} metrics
   * @param {{set: (changes: Record<string, string | null>) => void, jump: () => void,
   *   spaces: (on: boolean) => void, lines: () => void}} on
   */
  constructor(metrics, on) {
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
 * @param {import("./metrics.js").Scale} scale
 * @param {boolean} byStep
 */
export function legend(metric, scale, byStep) {
  const bins = Array.from({ length: scale.bins }, (_, k) =>
    el("span", { class: `${scale.prefix}-${k + 1}` }),
  );
  const ends = [written(scale.low), written(scale.high)];
  const [low, high] = scale.reversed ? ends.reverse() : ends;
  const clip = clipped(scale, byStep);
  const middle = scale.middle
    ? message("centred on the median, {middle}; {clip}", { middle: written(scale.middle), clip })
    : clip;
  return [
    el("strong", {}, metric.label),
    el("span", { class: "ends" }, low),
    el(
      "span",
      {
        class: "bins",
        role: "img",
        "aria-label": message("colours from {low} to {high}", { low, high }),
      },
      ...bins,
    ),
    el("span", { class: "ends" }, withUnit(high, metric.unit)),
    el("span", { class: "unit" }, middle),
  ];
}

/** Returns a note on which values the scale covers, and how many are beyond it. */
function clipped(scale, byStep) {
  const places = { share: CLIP * 100, count: written(scale.clipped, "count") };
  if (!scale.clipped)
    return byStep ? message("scale of the step") : message("scale of the response");
  return byStep
    ? plural(
        "clipped at the {share}th percentile of the step, {count} token beyond",
        "clipped at the {share}th percentile of the step, {count} tokens beyond",
        scale.clipped,
        places,
      )
    : plural(
        "clipped at the {share}th percentile of the response, {count} token beyond",
        "clipped at the {share}th percentile of the response, {count} tokens beyond",
        scale.clipped,
        places,
      );
}
