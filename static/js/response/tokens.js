/** The token view of a response: text, plot and table, all with the same current token. */

import { format } from "../shared/address.js";
import { el } from "../shared/dom.js";
import { precise, written } from "../shared/format.js";
import { linePlot } from "./line.js";
import { Scale, extremes, valuesOf } from "./metrics.js";
import { TokenText, visible } from "./token-text.js";
import { TokenTable } from "./token-table.js";
import { TokenTools, legend } from "./token-tools.js";
import { listed, message, withUnit } from "../shared/words.js";

/** @typedef {import("./metrics.js").Metric} Metric */

/** With more tokens than this, the text is below the plot and the table. */
const LONG = 1500;

export class TokenView {
  /**
   * @param {HTMLElement} root
   * @param {object} given
   * @param {import("../shared/data.js").TokenData} given.data
   * @param {number} given.n
   * @param {Metric[]} given.metrics
   * @param {string[]} given.nan labels of metrics that are NaN in every token of the page
   * @param {import("./conversation.js").Turn[]} [given.turns]
   * @param {[number, number][]} [given.given] tokens that the policy did not sample
   * @param {import("../shared/address.js").Address} given.address
   * @param {import("../shared/tip.js").Tip} given.tip
   * @param {Map<string, Scale>} given.stepScales scales of the whole step, shared by its views
   */
  constructor(root, { data, n, metrics, nan, turns = [], given = [], address, tip, stepScales }) {
    this.mounted = new AbortController();
    const { signal } = this.mounted;
    this.root = root;
    this.data = data;
    this.address = address;
    this.tip = tip;
    this.stepScales = stepScales;
    const [start, end] = /** @type {[number, number]} */ (data.spans.get(n));
    this.start = start;
    this.end = end;
    this.byStep = false;
    this.turns = turns;
    this.given = given;
    /** @type {string | undefined} metrics and scale that are shown now */
    this.state = undefined;
    /** @type {Metric[]} metric of each of `views` */
    this.shown = [];
    /** @type {TokenText[]} one text, or two side by side */
    this.views = [];
    /** @type {HTMLElement[]} */
    this.legends = [];
    /** @type {{node: HTMLElement, select: (i: number) => void}[]} */
    this.plots = [];
    this.texts = Array.from(data.ids.subarray(this.start, this.end), (id) => data.vocabulary[id]);
    const available = metrics.filter((metric) => valuesOf(data, metric.key));
    const withValues = available.filter((metric) =>
      this.values(metric).some((value) => !Number.isNaN(value)),
    );
    this.metrics = withValues.length ? withValues : available;
    this.withoutValues = [
      ...available.filter((metric) => !this.metrics.includes(metric)).map(({ label }) => label),
      ...nan,
    ];
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
    const href = (i) =>
      format(address.path, new URLSearchParams({ r: String(n), token: String(i) }));
    const source = {
      values: (metric) => this.values(metric),
      scale: (metric) => this.scale(metric),
    };
    this.table = new TokenTable(this.texts, this.metrics, source, {
      pick: (i) => this.pick(i),
      href,
      signal,
    });
    const head = el(
      "h3",
      {},
      message("Tokens ({count})", { count: written(this.texts.length, "count") }),
    );
    const meanings = el(
      "details",
      { class: "folded" },
      el("summary", {}, message("What these figures mean")),
      el(
        "dl",
        { class: "meanings" },
        ...this.metrics.flatMap((metric) => [
          el(
            "dt",
            {},
            metric.label,
            metric.unit && el("span", { class: "unit" }, ` ${metric.unit}`),
          ),
          el("dd", {}, metric.help),
        ]),
      ),
    );
    const empty =
      this.withoutValues.length &&
      el(
        "p",
        { class: "note" },
        message("NaN or missing in all tokens: {names}.", { names: listed(this.withoutValues) }),
      );
    // Readers would not find a plot below a long text.
    const body =
      this.texts.length > LONG
        ? [this.lines, this.table.node, this.pair]
        : [this.pair, this.lines, this.table.node];
    root.append(...[head, this.tools.node, empty, ...body, meanings].filter(Boolean));
    root.addEventListener("keydown", (event) => this.key(event));
    /** @type {HTMLElement | null} the token that the tooltip describes */
    this.described = null;
    document.addEventListener("scroll", () => this.moveTip(), {
      capture: true,
      passive: true,
      signal,
    });
    this.sync();
  }

  unmount() {
    this.mounted.abort();
    this.tip.hide();
  }

  /** @param {string | null} key @returns {Metric} */
  metric(key) {
    return this.metrics.find((metric) => metric.key === key) ?? this.metrics[0];
  }

  /** @param {Metric} metric */
  values(metric) {
    return /** @type {Float64Array} */ (valuesOf(this.data, metric.key)).subarray(
      this.start,
      this.end,
    );
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

  /** Updates metrics, scale and token to those in the URL. */
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
    const wanted =
      token === null ? this.at : Math.max(0, Math.min(this.texts.length - 1, Number(token) || 0));
    // Show the tooltip of a token that the URL names.
    if (wanted !== this.at) this.select(wanted, true);
  }

  buildTexts() {
    this.views = this.shown.map(
      () =>
        new TokenText(this.texts, this.turns, this.given, {
          pick: (i) => this.pick(i),
          hover: (i, node) => this.describe(i, /** @type {HTMLElement} */ (node)),
          leave: () => this.tip.hide(),
        }),
    );
    this.legends = this.shown.map(() => el("div", { class: "legend" }));
    this.pair.replaceChildren(
      ...this.views.map((text, k) => el("div", {}, this.legends[k], text.node)),
    );
    // Until a token is selected, Tab reaches the first one.
    if (this.at < 0) for (const text of this.views) text.span(0).tabIndex = 0;
    else for (const text of this.views) text.select(this.at);
  }

  draw() {
    this.shown.forEach((metric, k) => {
      const [values, scale] = [this.values(metric), this.scale(metric)];
      this.views[k].node.setAttribute(
        "aria-label",
        message("Tokens coloured by {metric}", { metric: metric.label }),
      );
      this.views[k].colour((i) => scale.className(values[i]));
      this.legends[k].replaceChildren(...legend(metric, scale, this.byStep));
    });
    this.drawLines();
    this.table.recolour();
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

  /** Selects a token on the reader's request. @param {number} i */
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
    for (const text of this.views)
      text.select(i, { focus: focus && text === held, describedBy: this.tip.id });
    for (const plot of this.plots) plot.select(i);
    this.table.select(i);
    if (focus) this.describe(i, held.span(i));
  }

  /** Moves the tooltip with its token, or hides it if the token is out of view. */
  moveTip() {
    if (!this.described || this.tip.node.hidden) return;
    const rect = this.described.getBoundingClientRect();
    if (rect.bottom < 0 || rect.top > innerHeight) this.tip.hide();
    else this.tip.place(rect);
  }

  /** Shows the tooltip with all values of token i. @param {number} i @param {HTMLElement} beside */
  describe(i, beside) {
    const raw = this.data.raw(this.data.ids[this.start + i]);
    const lines = this.metrics.map((metric) => {
      const value = this.values(metric)[i];
      const text = withUnit(precise(value), Number.isNaN(value) ? "" : metric.unit);
      return { label: metric.label, value: text, picked: this.shown.includes(metric) };
    });
    const shown = visible(this.texts[i]).trimEnd() || message("part of a character");
    const places = { i, shown, raw };
    const head =
      raw === this.texts[i]
        ? message("{i}: {shown}", places)
        : message("{i}: {shown}  (logged as {raw})", places);
    this.tip.show(head, lines, beside.getBoundingClientRect());
    this.described = beside;
  }

  /** Goes to the next (1) or previous (−1) most extreme token of the metric. @param {number} way */
  jump(way) {
    const [metric] = this.shown;
    const order = this.ranked.get(metric.key) ?? extremes(this.values(metric), metric);
    this.ranked.set(metric.key, order);
    if (!order.length) return;
    const place = order.indexOf(this.at);
    const next = place < 0 ? 0 : (place + way + order.length) % order.length;
    this.pick(order[next]);
  }

  /** Goes to the most extreme token of the metric. */
  worst() {
    this.at = -1;
    this.jump(1);
  }

  /** Handles arrow keys while a token has the focus. @param {KeyboardEvent} event */
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
    if (event.key === "Escape" && !this.tip.node.hidden) {
      this.tip.hide();
      event.preventDefault(); // the next one closes the response
    }
    if (!to) return;
    event.preventDefault();
    this.pick(to());
  }
}
