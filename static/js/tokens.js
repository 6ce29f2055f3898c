/** The token view of one response: text, line and matrix around one present token. */

import { el } from "./dom.js";
import { precise, written } from "./format.js";
import { linePlot } from "./line.js";
import { Matrix } from "./matrix.js";
import { Scale, extremes, valuesOf } from "./metrics.js";
import { TokenText, visible } from "./token-text.js";
import { TokenTools, legend } from "./token-tools.js";

/** @typedef {import("./metrics.js").Metric} Metric */

export class TokenView {
  /**
   * @param {HTMLElement} root
   * @param {object} given
   * @param {import("./data.js").TokenData} given.data
   * @param {number} given.n
   * @param {Metric[]} given.metrics
   * @param {import("./address.js").Address} given.address
   * @param {import("./tip.js").Tip} given.tip
   * @param {Map<string, Scale>} given.stepScales scales of the whole step, shared by its views
   */
  constructor(root, { data, n, metrics, address, tip, stepScales }) {
    this.root = root;
    this.data = data;
    this.address = address;
    this.tip = tip;
    this.stepScales = stepScales;
    const [start, end] = /** @type {[number, number]} */ (data.spans.get(n));
    this.start = start;
    this.end = end;
    this.byStep = false;
    /** @type {string | undefined} metrics and scale drawn now */
    this.state = undefined;
    /** @type {Metric[]} the metric of each text */
    this.shown = [];
    /** @type {TokenText[]} one, or two side by side */
    this.views = [];
    /** @type {HTMLElement[]} */
    this.legends = [];
    /** @type {{node: HTMLElement, select: (i: number) => void}[]} */
    this.plots = [];
    this.texts = Array.from(data.ids.subarray(this.start, this.end), (id) => data.vocabulary[id]);
    this.metrics = metrics.filter((metric) => valuesOf(data, metric.key));
    this.at = -1;
    /** @type {Map<string, number[]>} */
    this.ranked = new Map();
    /** @type {Map<string, Scale>} */
    this.ownScales = new Map();
    this.tools = new TokenTools(this.metrics, {
      set: (changes) => address.set(changes),
      jump: () => this.jump(1),
      spaces: (on) => root.classList.toggle("spaces", on),
      lines: () => this.drawLines(),
    });
    this.pair = el("div", { class: "token-pair" });
    this.lines = el("div", { class: "lines" });
    this.matrix = new Matrix(this.texts, (i) => this.pick(i));
    root.append(el("h3", {}, `Tokens (${written(this.texts.length, "count")})`), this.tools.node, this.pair, this.lines, this.matrix.node);
    root.addEventListener("keydown", (event) => this.key(event));
    this.sync();
  }

  unmount() {
    this.matrix.unmount();
    this.tip.hide();
  }

  /** @param {string | null} key @returns {Metric} */
  metric(key) {
    return this.metrics.find((metric) => metric.key === key) ?? this.metrics[0];
  }

  /** @param {Metric} metric */
  values(metric) {
    return /** @type {Float64Array} */ (valuesOf(this.data, metric.key)).subarray(this.start, this.end);
  }

  /** @param {Metric} metric @returns {Scale} */
  scale(metric) {
    const scales = this.byStep ? this.stepScales : this.ownScales;
    const known = scales.get(metric.key);
    if (known) return known;
    const all = /** @type {Float64Array} */ (valuesOf(this.data, metric.key));
    const made = new Scale(this.byStep ? all : this.values(metric), metric);
    scales.set(metric.key, made);
    return made;
  }

  /** Follows the address: metrics, scale and token. */
  sync() {
    const chosen = this.metric(this.address.get("metric"));
    const beside = this.address.get("b") ? this.metric(this.address.get("b")) : null;
    const byStep = this.address.get("scale") === "step";
    const state = `${chosen.key} ${beside?.key} ${byStep}`;
    if (state !== this.state) {
      const layout = this.state === undefined || this.shown.length !== (beside ? 2 : 1);
      [this.state, this.byStep] = [state, byStep];
      this.shown = beside ? [chosen, beside] : [chosen];
      this.tools.show(this.shown, byStep);
      if (layout) this.buildTexts();
      this.draw();
    }
    const token = this.address.get("token");
    const wanted = token === null ? this.at : Math.max(0, Math.min(this.texts.length - 1, Number(token) || 0));
    if (wanted !== this.at) this.select(wanted);
  }

  buildTexts() {
    this.views = this.shown.map(
      () =>
        new TokenText(this.texts, {
          pick: (i) => this.pick(i),
          hover: (i, node) => this.describe(i, node.getBoundingClientRect()),
          leave: () => this.tip.hide(),
        }),
    );
    this.legends = this.shown.map(() => el("div", { class: "legend" }));
    this.pair.replaceChildren(
      ...this.views.map((text, k) => el("div", {}, this.legends[k], text.node)),
    );
    // The first token can be reached with Tab before any has been picked.
    if (this.at < 0) for (const text of this.views) text.span(0).tabIndex = 0;
    else for (const text of this.views) text.select(this.at);
  }

  draw() {
    this.shown.forEach((metric, k) => {
      const [values, scale] = [this.values(metric), this.scale(metric)];
      this.views[k].node.setAttribute("aria-label", `Tokens coloured by ${metric.label}`);
      this.views[k].colour((i) => scale.className(values[i]));
      this.legends[k].replaceChildren(...legend(metric, scale, this.byStep));
    });
    this.drawLines();
    this.matrix.show(() =>
      this.metrics.map((metric) => ({ ...metric, values: this.values(metric), scale: this.scale(metric) })),
    );
  }

  drawLines() {
    const line = (metric) => ({ ...metric, values: this.values(metric) });
    const sameUnit = this.shown[1] && this.shown[1].unit === this.shown[0].unit;
    const sets = this.tools.everyLine.checked
      ? this.metrics.map((metric) => [metric])
      : sameUnit
        ? [this.shown]
        : this.shown.map((metric) => [metric]);
    this.plots = sets.map((set) => linePlot(set.map(line), (i) => this.pick(i)));
    this.lines.replaceChildren(...this.plots.map((plot) => plot.node));
    if (this.at >= 0) for (const plot of this.plots) plot.select(this.at);
  }

  /** The reader chose a token. @param {number} i */
  pick(i) {
    this.select(i, true);
    this.address.set({ token: i });
  }

  /** @param {number} i @param {boolean} [focus] */
  select(i, focus = false) {
    if (i < 0) return;
    this.at = i;
    const [first] = this.views;
    const held = this.views.find((text) => text.node.contains(document.activeElement)) ?? first;
    for (const text of this.views) text.select(i, { focus: focus && text === held, describedBy: this.tip.id });
    for (const plot of this.plots) plot.select(i);
    this.matrix.select(i);
    if (focus) this.describe(i, held.span(i).getBoundingClientRect());
  }

  /** All values of token i. @param {number} i @param {DOMRect} beside */
  describe(i, beside) {
    const raw = this.data.raw(this.data.ids[this.start + i]);
    const lines = this.metrics.map((metric) => {
      const value = this.values(metric)[i];
      const unit = metric.unit ? ` ${metric.unit}` : "";
      const text = precise(value) + (Number.isNaN(value) ? "" : unit);
      return { label: metric.label, value: text, picked: this.shown.includes(metric) };
    });
    const shown = visible(this.texts[i]).trimEnd() || "part of a character";
    const logged = raw === this.texts[i] ? "" : `  (logged as ${raw})`;
    this.tip.show(`${i}: ${shown}${logged}`, lines, beside);
  }

  /** To the next most extreme token of the metric. @param {number} way 1 or −1 */
  jump(way) {
    const [metric] = this.shown;
    const order = this.ranked.get(metric.key) ?? extremes(this.values(metric), metric);
    this.ranked.set(metric.key, order);
    if (!order.length) return;
    const place = order.indexOf(this.at);
    const next = place < 0 ? 0 : (place + way + order.length) % order.length;
    this.pick(order[next]);
  }

  /** Arrows walk tokens while one of them has the focus. @param {KeyboardEvent} event */
  key(event) {
    const text = this.views.find((one) => one.indexOf(event.target) >= 0);
    if (!text || event.ctrlKey || event.metaKey || event.altKey) return;
    const i = text.indexOf(event.target);
    const last = this.texts.length - 1;
    const to = {
      ArrowLeft: () => Math.max(0, i - 1),
      ArrowRight: () => Math.min(last, i + 1),
      ArrowUp: () => text.vertical(i, -1),
      ArrowDown: () => text.vertical(i, 1),
      Home: () => 0,
      End: () => last,
    }[event.key];
    if (event.key === "Escape") this.tip.hide();
    if (!to) return;
    event.preventDefault();
    this.pick(to());
  }
}
