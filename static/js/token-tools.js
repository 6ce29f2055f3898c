/** The controls of the token view and the legend of its colours. */

import { el } from "./dom.js";
import { written } from "./format.js";
import { CLIP, extremeName } from "./metrics.js";

/** @typedef {import("./metrics.js").Metric} Metric */

export class TokenTools {
  /**
   * @param {Metric[]} metrics
   * @param {{set: (changes: Record<string, string | null>) => void, jump: () => void,
   *   spaces: (on: boolean) => void, lines: () => void}} on
   */
  constructor(metrics, on) {
    const choice = (name, first) => {
      const options = metrics.map(({ key, label, help }) => el("option", { value: key, title: help }, label));
      const select = el("select", { name }, ...first, ...options);
      select.addEventListener("change", () => on.set({ [name]: select.value || null }));
      return select;
    };
    this.metric = choice("metric", []);
    this.beside = choice("b", [el("option", { value: "" }, "none")]);
    this.scale = el("select", { name: "scale" }, el("option", { value: "" }, "response"), el("option", { value: "step" }, "step"));
    this.scale.addEventListener("change", () => on.set({ scale: this.scale.value || null }));
    this.next = el("button", { type: "button", title: "Key n; N goes back", onclick: on.jump });
    this.spaces = el("input", { type: "checkbox", onchange: () => on.spaces(this.spaces.checked) });
    this.everyLine = el("input", { type: "checkbox", onchange: on.lines });
    this.node = el(
      "div",
      { class: "token-tools" },
      el("label", {}, "Metric ", this.metric),
      el("label", {}, "beside ", this.beside),
      el("label", {}, "scale of the ", this.scale),
      this.next,
      el("label", {}, this.spaces, "spaces"),
      el("label", {}, this.everyLine, "a line for each metric"),
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
  const bins = Array.from({ length: scale.bins }, (_, k) => el("span", { class: `${scale.prefix}-${k + 1}` }));
  const ends = [written(scale.low), written(scale.high)];
  const [low, high] = scale.reversed ? ends.reverse() : ends;
  const where = byStep ? "step" : "response";
  const beyond = scale.clipped === 1 ? "1 token" : `${written(scale.clipped, "count")} tokens`;
  const clip =
    scale.clipped > 0
      ? `clipped at the ${CLIP * 100}th percentile of the ${where}, ${beyond} beyond`
      : `scale of the ${where}`;
  const middle = scale.middle ? `centred on the median, ${written(scale.middle)}; ` : "";
  return [
    el("strong", {}, metric.label),
    el("span", { class: "ends" }, low),
    el("span", { class: "bins", role: "img", "aria-label": `colours from ${low} to ${high}` }, ...bins),
    el("span", { class: "ends" }, metric.unit ? `${high} ${metric.unit}` : high),
    el("span", { class: "unit" }, middle, clip),
  ];
}
