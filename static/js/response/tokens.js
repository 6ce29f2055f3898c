/** The token view of a response: text, plot and table, all with the same current token. */

/** @import { Metric, Span, Turn } from "../shared/types.d.ts" */

import { format } from "../shared/address.js";
import { el } from "../shared/dom.js";
import { precise, written } from "../shared/format.js";
import { partsWithQuote } from "../shared/quote.js";
import { linePlot } from "./line.js";
import { promptTokens } from "./prompt-tokens.js";
import { Scale, extremes, valuesOf } from "./metrics.js";
import { TokenText, visible } from "./token-text.js";
import { TokenTable } from "./token-table.js";
import { TokenTools, legend } from "./token-tools.js";
import { listed, message, withUnit } from "../shared/words.js";

/** With more tokens than this, the text is below the plot and the table. */
const LONG = 1500;
/** Space in pixels for the tooltip below a token that a link opens. */
const ROOM_FOR_TIP_PX = 280;

/**
 * @typedef {object} Tokens what a response's tokens are
 * @property {import("../shared/data.js").TokenData} data
 * @property {number} n
 * @property {Turn[]} turns
 * @property {string} side value of `side` in the URL when it names a token of this response
 * @property {string} name of the response if the panel shows the tokens of two, else ""
 */

/**
 * @typedef {object} Page what views of tokens share
 * @property {import("../shared/address.js").Address} address
 * @property {import("../shared/tip.js").Tip} tip
 */

/** Value of `scale` in the URL for the scale that is not the usual one. */
const OTHER_SCALE = { one: "step", two: "response" };

/** @type {WeakMap<import("../shared/data.js").TokenData, Map<string, Scale>>} */
const scalesOfSteps = new WeakMap();

/**
 * Returns the scales of a whole step by metric, which all its responses share.
 * @param {import("../shared/data.js").TokenData} data
 */
function stepScales(data) {
  const scales = scalesOfSteps.get(data) ?? new Map();
  scalesOfSteps.set(data, scales);
  return scales;
}

export class TokenView {
  /** @param {HTMLElement} root @param {Tokens} tokens @param {Page} page */
  constructor(root, { data, n, turns, side, name }, { address, tip }) {
    this.mounted = new AbortController();
    this.root = root;
    this.data = data;
    this.n = n;
    this.turns = turns;
    this.side = side;
    this.name = name;
    /** @type {Span[]} tokens that the policy did not sample */
    this.given = data.given[n] ?? [];
    this.address = address;
    this.tip = tip;
    /** @type {Map<string, Scale>} */
    this.ownScales = new Map();
    const [start, end] = /** @type {Span} */ (data.spans.get(n));
    this.start = start;
    this.end = end;
    this.texts = Array.from(data.ids.subarray(start, end), (id) => data.vocabulary[id]);
    const { shown: offered, without } = this.withValues(data.metrics);
    this.metrics = offered;
    /** Labels of metrics without a value. */
    this.withoutValues = [...without.map(({ label }) => label), ...data.nan];
    /** @type {Span | null} tokens of the quote that the URL has */
    this.cited = null;
    /** Index of the current token, −1 for none. */
    this.at = -1;
    this.byStep = false;
    /** @type {string | null} metrics and scale that are shown now */
    this.state = null;
    /** @type {Metric[]} metric of each of `views` */
    this.shown = [];
    /** @type {TokenText[]} one text, or two side by side */
    this.views = [];
    /** @type {HTMLElement[]} */
    this.legends = [];
    /** @type {{node: HTMLElement, select: (i: number) => void}[]} */
    this.plots = [];
    /** @type {Map<string, number[]>} metric → its tokens by extremeness */
    this.ranked = new Map();
    /** @type {HTMLElement | null} the token that the tooltip describes */
    this.described = null;
    this.pair = el("div", { class: "token-pair" });
    this.lines = el("div", { class: "lines" });
    this.tools = this.makeTools();
    this.table = this.makeTable();
    root.append(...this.parts());
    this.listen();
    this.sync();
  }

  /**
   * Splits the metrics that the page has into those with a value here and those without.
   * @param {Metric[]} metrics
   */
  withValues(metrics) {
    const available = metrics.filter((metric) => valuesOf(this.data, metric.key));
    const shown = available.filter((metric) =>
      this.values(metric).some((value) => !Number.isNaN(value)),
    );
    // Without any value, the text is still shown, and its metrics have no colours.
    if (!shown.length) return { shown: available, without: [] };
    return { shown, without: available.filter((metric) => !shown.includes(metric)) };
  }

  /** Whether the panel shows the tokens of two responses, whose colours are on one scale. */
  get compares() {
    return this.name !== "";
  }

  makeTools() {
    return new TokenTools(this.metrics, {
      set: (changes) => this.address.set(changes),
      jump: () => this.jump(1),
      spaces: (on) => this.root.classList.toggle("spaces", on),
      lines: () => this.drawLines(),
      compares: this.compares,
    });
  }

  makeTable() {
    const source = {
      values: (/** @type {Metric} */ metric) => this.values(metric),
      scale: (/** @type {Metric} */ metric) => this.scale(metric),
    };
    /** @param {number} i */
    const href = (i) => {
      const params = new URLSearchParams({ r: this.address.get("r") ?? String(this.n) });
      params.set("token", String(i));
      if (this.side) params.set("side", this.side);
      return format(this.address.path, params);
    };
    return new TokenTable(this.texts, this.metrics, source, {
      pick: (i) => this.pick(i),
      href,
      signal: this.mounted.signal,
    });
  }

  /** Returns what is below each other in the view. */
  parts() {
    const isPlain = !this.metrics.length;
    const head = el("h3", { dir: "auto" }, this.heading());
    /** @type {HTMLElement[]} */
    const parts = isPlain ? [head, withoutFigures()] : [head, this.tools.node];
    if (this.withoutValues.length) {
      const names = listed(this.withoutValues);
      const words = message("NaN or missing in all tokens: {names}.", { names });
      parts.push(el("p", { class: "note" }, words));
    }
    const prompt = this.data.prompts.get(this.n);
    if (prompt) {
      const texts = prompt.ids.map((id) => this.data.vocabulary[id]);
      parts.push(promptTokens(texts, prompt.count));
    }
    if (isPlain) return [...parts, this.pair];
    // Readers would not find a plot below a long text.
    if (this.texts.length > LONG) parts.push(this.lines, this.table.node, this.pair);
    else parts.push(this.pair, this.lines, this.table.node);
    parts.push(meanings(this.metrics));
    return parts;
  }

  /** Returns how many tokens the response has, and how many of them are masked. */
  heading() {
    const count = written(this.texts.length, "count");
    const masked = this.given.reduce((sum, [from, to]) => sum + to - from, 0);
    const places = { count, masked: written(masked, "count"), name: this.name };
    if (this.compares) {
      return masked
        ? message(
            "{name}: tokens ({count}, of which {masked} grey ones are not trained on)",
            places,
          )
        : message("{name}: tokens ({count})", places);
    }
    if (!masked) return message("Tokens ({count})", { count });
    return message("Tokens ({count}, of which {masked} grey ones are not trained on)", places);
  }

  listen() {
    const { signal } = this.mounted;
    this.root.addEventListener("keydown", (event) => this.key(event));
    const moved = { capture: true, passive: true, signal };
    document.addEventListener("scroll", () => this.moveTip(), moved);
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
    const scales = this.byStep ? stepScales(this.data) : this.ownScales;
    const known = scales.get(metric.key);
    if (known) return known;
    const all = /** @type {Float64Array} */ (valuesOf(this.data, metric.key));
    const made = new Scale(this.byStep ? all : this.values(metric), metric);
    scales.set(metric.key, made);
    return made;
  }

  /** Updates metrics, scale and token to those in the URL. */
  sync() {
    this.syncMetrics();
    const token = this.address.get("token");
    if (token === null || (this.address.get("side") ?? "") !== this.side) return;
    const last = this.texts.length - 1;
    const wanted = Math.max(0, Math.min(last, Number(token) || 0));
    // Show the tooltip of a token that the URL names: below it, not over the text that leads to it.
    if (wanted !== this.at) this.select(wanted, true, ROOM_FOR_TIP_PX);
  }

  syncMetrics() {
    const { address } = this;
    if (!this.metrics.length) {
      if (!this.views.length) this.buildTexts();
      return;
    }
    const chosen = this.metric(address.get("metric"));
    const beside = address.get("b") ? this.metric(address.get("b")) : null;
    const isOther = address.get("scale") === OTHER_SCALE[this.compares ? "two" : "one"];
    const byStep = isOther !== this.compares;
    const state = `${chosen.key} ${beside?.key} ${byStep}`;
    if (state === this.state) return;
    this.state = state;
    this.byStep = byStep;
    const before = this.shown.length;
    this.shown = beside ? [chosen, beside] : [chosen];
    this.tools.show(this.shown, byStep);
    if (this.shown.length !== before) this.buildTexts();
    this.draw();
  }

  buildTexts() {
    const makeText = () =>
      new TokenText(this.texts, this.turns, this.given, {
        pick: (i) => this.pick(i),
        hover: (i, node) => this.describe(i, /** @type {HTMLElement} */ (node)),
        leave: () => this.tip.hide(),
      });
    this.legends = this.shown.map(() => el("div", { class: "legend" }));
    if (this.shown.length) {
      this.views = this.shown.map(makeText);
      this.pair.replaceChildren(
        ...this.views.map((text, k) => el("div", {}, this.legends[k], text.node)),
      );
    } else {
      const text = makeText();
      text.colour(() => "");
      text.node.setAttribute("aria-label", message("Tokens"));
      this.views = [text];
      this.pair.replaceChildren(text.node);
    }
    for (const text of this.views) text.cite(this.cited);
    // Until a token is selected, Tab reaches the first one.
    if (this.at < 0) for (const text of this.views) text.span(0).tabIndex = 0;
    else for (const text of this.views) text.select(this.at);
  }

  draw() {
    this.shown.forEach((metric, k) => {
      const values = this.values(metric);
      const scale = this.scale(metric);
      this.views[k].node.setAttribute(
        "aria-label",
        message("Tokens coloured by {metric}", { metric: metric.label }),
      );
      this.views[k].colour((i) => scale.className(values[i]));
      this.legends[k].replaceChildren(...legend(metric, scale, this.scaleOf()));
    });
    this.drawLines();
    this.table.recolour();
  }

  /** Returns what the colours are scaled to. @returns {import("./token-tools.js").ScaleOf} */
  scaleOf() {
    if (!this.byStep) return "response";
    return this.compares ? "both" : "step";
  }

  drawLines() {
    /** @param {Metric} metric */
    const line = (metric) => ({ ...metric, values: this.values(metric) });
    this.plots = this.plotted().map((together) =>
      linePlot(together.map(line), (i) => this.pick(i)),
    );
    this.lines.replaceChildren(...this.plots.map((plot) => plot.node));
    if (this.at >= 0) for (const plot of this.plots) plot.select(this.at);
  }

  /** Returns the metrics of each plot: those of the text are together if they have one unit. */
  plotted() {
    if (this.tools.everyLine.checked) return this.metrics.map((metric) => [metric]);
    const [first, second] = this.shown;
    if (second && second.unit === first.unit) return [this.shown];
    return this.shown.map((metric) => [metric]);
  }

  /** Marks the tokens of a quote. @param {string} quote */
  cite(quote) {
    this.cited = partsWithQuote(this.texts, quote);
    for (const text of this.views) text.cite(this.cited);
  }

  /** Selects a token on the reader's request. @param {number} i */
  pick(i) {
    this.select(i, true);
    this.address.set({ token: i, side: this.side || null });
  }

  /** @param {number} i @param {boolean} [focus] @param {number} [room] space below the token */
  select(i, focus = false, room) {
    if (i < 0) return;
    this.at = i;
    const [first] = this.views;
    const held = this.views.find((text) => text.node.contains(document.activeElement)) ?? first;
    for (const text of this.views)
      text.select(i, { focus: focus && text === held, describedBy: this.tip.id, room });
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
    if (!metric) return;
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
    if (event.key === "Escape" && !this.tip.node.hidden) {
      this.tip.hide();
      event.preventDefault(); // the next one closes the response
    }
    const to = this.moved(event.key, text, text.indexOf(event.target));
    if (to === null) return;
    event.preventDefault();
    this.pick(to);
  }

  /**
   * Returns the token that a key moves to from token i, null for other keys.
   * @param {string} key
   * @param {TokenText} text
   * @param {number} i
   */
  moved(key, text, i) {
    const last = this.texts.length - 1;
    switch (key) {
      case "ArrowLeft":
        return Math.max(0, i - 1);
      case "ArrowRight":
        return Math.min(last, i + 1);
      case "ArrowUp":
        return text.vertical(i, -1);
      case "ArrowDown":
        return text.vertical(i, 1);
      case "Home":
        return 0;
      case "End":
        return last;
      default:
        return null;
    }
  }
}

function withoutFigures() {
  return el("p", { class: "note" }, message("No values of these tokens are logged."));
}

/** Creates the folded list of what metrics mean. @param {Metric[]} metrics */
function meanings(metrics) {
  const terms = metrics.flatMap(({ label, unit, help }) => [
    el("dt", {}, label, unit && el("span", { class: "unit" }, ` ${unit}`)),
    el("dd", {}, help),
  ]);
  return el(
    "details",
    { class: "folded" },
    el("summary", {}, message("What these figures mean")),
    el("dl", { class: "meanings" }, ...terms),
  );
}
