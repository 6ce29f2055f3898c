/** Makes rendered charts interactive with Vega: hover, brush, click. Without Vega the SVG stays. */

/** @import { Embed, Item, Range, Row, Spec, View } from "./spec.d.ts" */

import { shadeFindings, Shared, smoothingTools } from "./chart-tools.js";
import { recolour, themeColours } from "./colours.js";
import { extentOf, specFor, positive } from "./chart-spec.js";
import { el, readJson } from "../shared/dom.js";
import { mountExplore } from "./explore.js";
import { dataTools, pictureOfChart, pictureTools } from "./downloads.js";
import { menu } from "../shared/menu.js";
import { message, nodes } from "../shared/words.js";
import { isSame, stepsOf } from "./zoom.js";

/**
 * @typedef {object} Hooks
 * @property {() => Promise<Embed>} loadVega
 * @property {import("../shared/tip.js").Tip} tip
 * @property {AbortSignal} signal
 * @property {string} page prefix of the names of downloaded files
 * @property {{rows: import("../list/rows.js").Rows, view: import("../list/table.js").TableView,
 *   panel?: object} | null} table the list or table whose columns can be drawn against each other
 * @property {import("../shared/address.js").Address} address
 * @property {number} responses how many there are in the run or at the step, 0 if unknown
 * @property {number[]} steps those that have a page, ascending
 * @property {(step: number) => void} openStep
 * @property {(n: number) => void} openResponse
 * @property {((without: Set<string>) => Row[]) | null} rows the responses, `kept` those that
 *   pass all filters but those on `without`
 * @property {string} partial how many of the step's responses these are, "" for all
 * @property {(ranges: Map<string, Range | null>) => void} brushed
 */

/**
 * @typedef {object} Page what the charts of a page share
 * @property {Hooks} hooks
 * @property {Shared} shared
 * @property {object | undefined} config Vega-Lite's, of charts without their own
 */

/**
 * @typedef {object} Shade
 * @property {number} from
 * @property {number} to NaN for the last step
 * @property {string} colour
 * @property {string} severity
 * @property {string} words
 */

/**
 * Reads a figure's specification, and converts its data from columns to rows.
 * @param {Element} figure
 * @returns {Spec | null} null if the chart is not interactive
 */
function readSpec(figure) {
  const spec = /** @type {Spec | null} */ (readJson(figure, "script.spec"));
  const columns = Object.entries(spec?.data?.columns ?? {});
  if (!spec || !columns.length) return spec;
  const [, first] = columns[0];
  const values = first.map((_, row) =>
    Object.fromEntries(columns.map(([field, cells]) => [field, cells[row]])),
  );
  return { ...spec, data: { values } };
}

/** Time in ms to wait after a click for a second one, which zooms out instead of opening a step. */
const SECOND_CLICK = 250;
/** Time in ms to wait for more changes of a brush before the list is filtered. */
const BRUSH_PAUSE = 30;
/** Movement in pixels between press and release from which on a click is a drag. */
const DRAG_PX = 3;
/** Minimum width of a plot in pixels. */
const LEAST_WIDTH = 80;
/** Widths of charts on A4 with margins of 12 mm, in pixels: across the page, and of two columns. */
const PAPER = { wide: 703, half: 343 };
/** Most padding above a plot without a title of its axis, in pixels. */
const TOP_WITHOUT_TITLE = 12;
/** Distance of the tooltip from the pointer in pixels. */
const TIP_GAP = 12;

export class Chart {
  /** @param {HTMLElement} figure @param {Spec} spec @param {Page} page */
  constructor(figure, spec, { hooks, shared, config }) {
    this.figure = figure;
    this.hooks = hooks;
    this.shared = shared;
    this.spec = spec;
    this.config = spec.config ?? config;
    this.log = false;
    /** Timer of a click that may become a double click. */
    this.click = 0;
    this.pointerDownX = 0;
    this.plot = /** @type {HTMLElement} */ (figure.querySelector(".plot"));
    this.rendered = [...this.plot.childNodes];
    /** @type {Node[]} */
    this.live = [];
    this.isOnPaper = false;
    /** @type {Map<string, string>} */
    this.colours = new Map();
    /** @type {Set<string>} columns this chart's brush limits */
    this.brushedKeys = new Set();
    /** Timer of the filter by the brush. */
    this.waiting = 0;
    /** @type {View | null} */
    this.view = null;
    /** Counts calls of `draw`: only the last may show its result. */
    this.draws = 0;
    this.menu = menu("⋯", (sheet) => this.fillMenu(sheet));
    this.menu.node.classList.add("chart-menu");
    const label = message("Menu of the chart {title}", { title: this.title });
    this.menu.button.setAttribute("aria-label", label);
    figure.querySelector("figcaption")?.append(this.menu.node);
    /** In the plot: shows all steps, or those around the event. */
    this.zoomButton = el("button", { type: "button", class: "zoom", hidden: true });
    this.zoomButton.addEventListener("click", () =>
      this.shared.zoomTo(this.otherZoom()?.zoom ?? null),
    );
    if (this.opensSteps) figure.classList.add("opens");
    /** Note that the interactive chart has only part of the responses. */
    this.partial = el("span", { class: "smoothed" }, hooks.partial);
    this.resized = new ResizeObserver(() => this.fit());
    shared.charts.add(this);
    this.listenToPage(hooks.signal);
  }

  /** Follows the theme and the pointer. @param {AbortSignal} signal */
  listenToPage(signal) {
    const { plot } = this;
    document.addEventListener("rlreport:theme", () => this.view && this.draw(), { signal });
    plot.addEventListener("pointerdown", (event) => (this.pointerDownX = event.clientX), {
      signal,
    });
    plot.addEventListener("pointerup", () => setTimeout(() => this.dragged()), { signal });
    const zoomOut = () => {
      clearTimeout(this.click);
      this.shared.zoomTo(null);
    };
    plot.addEventListener("dblclick", zoomOut, { signal });
    addEventListener("beforeprint", () => this.toPaper(), { signal });
    addEventListener("afterprint", () => this.fromPaper(), { signal });
    signal.addEventListener("abort", () => this.unmount());
  }

  get title() {
    return this.figure.querySelector("figcaption > span")?.textContent ?? "";
  }

  /** Whether the x axis has the steps of the run. */
  get overSteps() {
    return this.has("at");
  }

  /** Whether a click opens the page of a step. */
  get opensSteps() {
    return this.overSteps && this.hooks.steps.length > 0;
  }

  /** The zoom of the page, null where the chart shows its own steps. */
  get zoom() {
    const { zoom } = this.shared;
    return !this.overSteps || isSame(zoom, extentOf(this.spec)) ? null : zoom;
  }

  /**
   * Returns what the button in the plot does: where all steps are shown, and no event has a chart
   * of its own, nothing.
   * @returns {{words: string, zoom: Range | null} | null}
   */
  otherZoom() {
    if (!this.overSteps) return null;
    const own = extentOf(this.spec);
    const whole = stepsOf(this.values());
    const isFocused = own && whole && !(own[0] <= whole[0] && own[1] >= whole[1]);
    if (!this.zoom) {
      return isFocused ? { words: message("Whole run"), zoom: whole } : null;
    }
    if (isFocused && isSame(this.zoom, whole)) {
      const [low, high] = own.map(Math.round);
      return { words: message("Steps {low}–{high} alone", { low, high }), zoom: null };
    }
    const [low, high] = this.zoom.map(Math.round);
    const words = message("Steps {low}–{high}: show all", { low, high });
    return { words, zoom: isFocused ? whole : null };
  }

  /** @param {string} name of a parameter */
  has(name) {
    return Boolean(this.spec.params?.some((param) => param.name === name));
  }

  /** Returns the rows of data that the chart shows. @returns {Row[]} */
  values() {
    if (!this.showsResponses) {
      return this.spec.data?.values ?? Object.values(this.spec.datasets ?? {}).flat();
    }
    const shown = this.rows().filter(({ kept }) => kept);
    return shown.map((row) => {
      const copy = { ...row };
      delete copy.kept;
      return copy;
    });
  }

  /** Name of the chart's downloaded files, without the suffix. */
  get fileName() {
    const words = [this.hooks.page, this.figure.dataset.chart].filter(Boolean);
    return words.join("-").replace(/[^\p{L}\p{N}_-]+/gu, "_");
  }

  /**
   * Fills the chart's menu: logarithmic axis, if it makes sense, and downloads.
   * @param {HTMLElement} sheet
   */
  fillMenu(sheet) {
    const box = el("input", { type: "checkbox" });
    box.checked = this.log;
    box.addEventListener("change", () => {
      this.log = box.checked;
      this.draw();
    });
    const close = () => sheet.hidePopover();
    /** @type {HTMLElement[]} */
    const parts = [
      pictureTools(pictureOfChart(this), close),
      el("p", { class: "label" }, message("Data")),
      dataTools(this, close),
    ];
    if (this.overSteps) parts.unshift(this.zoomFields(close));
    if (positive(this.spec, this.values())) {
      parts.unshift(el("label", {}, box, message("Log y")));
    }
    sheet.replaceChildren(...parts);
  }

  /** Returns fields for the steps to show, for readers who do not drag. @param {() => void} close */
  zoomFields(close) {
    const [low = "", high = ""] = this.shownSteps ?? [];
    /** @param {string} label @param {number | string} value */
    const field = (label, value) =>
      el("input", { type: "number", "aria-label": label, value: String(value), step: "any" });
    const from = field(message("First step"), low);
    const to = field(message("Last step"), high);
    const zoom = () => {
      close();
      if (to.valueAsNumber > from.valueAsNumber) {
        this.shared.zoomTo([from.valueAsNumber, to.valueAsNumber]);
      }
    };
    return el(
      "div",
      { class: "zoom-fields" },
      ...nodes("Steps {from} to {to}", { from, to }),
      " ",
      el("button", { type: "button", onclick: zoom }, message("Zoom")),
    );
  }

  /** First and last step that the chart shows, null if it is none over the steps. */
  get shownSteps() {
    return this.overSteps ? (this.zoom ?? extentOf(this.spec)) : null;
  }

  /** Whether all responses of the page count into the chart: it shows all steps, of rollouts. */
  get showsWhole() {
    if ((this.figure.dataset.chart ?? "").startsWith("metric_")) return false;
    const shown = this.shownSteps;
    const whole = shown && stepsOf(this.values());
    return !whole || (shown[0] <= whole[0] && shown[1] >= whole[1]);
  }

  /** What the bars above the plot mark, in words; zoomed charts have none. */
  get marked() {
    if (this.zoom) return [];
    return [...this.figure.querySelectorAll("figcaption .shaded:not(.pointed)")].map(
      (words) => words.textContent?.trim() ?? "",
    );
  }

  /** How the chart's curves are smoothed, "" if they are as logged. */
  get smoothingInWords() {
    const { smoothing } = this.shared;
    if (!this.has("smoothing") || smoothing === 0) return "";
    if (smoothing !== "auto")
      return message("moving average, factor {factor}", { factor: smoothing });
    const said = /** @type {HTMLElement | null} */ (
      this.figure.querySelector("figcaption .smoothed[title]")
    );
    return said?.title ?? "";
  }

  /** Returns the drawing that came with the page. @returns {SVGSVGElement} */
  stillDrawing() {
    const found = this.rendered.find((node) => node instanceof SVGSVGElement);
    if (!found) throw new Error("the chart has no drawing");
    return /** @type {SVGSVGElement} */ (found);
  }

  /**
   * Draws the chart as it is now, in light colours and another size.
   * @param {number} width
   * @param {number} height
   * @returns {Promise<string>} SVG
   */
  async drawnAs(width, height) {
    const embed = await this.hooks.loadVega();
    const { smoothing } = this.shared;
    const source = { ...this.spec, config: this.config };
    if (this.showsResponses) source.data = { name: "rows", values: this.rows() };
    if (source.mark || source.layer) {
      const { left = 0, right = 0, bottom = 0 } = this.paddingOfPlot;
      // The title of the picture has the quantity; without it, the axis needs less room.
      const top = Math.min(this.paddingOfPlot.top ?? 0, TOP_WITHOUT_TITLE);
      if (this.spec.padding) source.padding = { ...this.spec.padding, top };
      source.width = width - left - right;
      source.height = height - top - bottom;
    }
    const state = { zoom: this.zoom, smoothing, log: this.log, placesLabels: true, bare: true };
    const spec = specFor(source, new Map(), state);
    const { view } = await embed(el("div"), spec, {
      ast: true,
      actions: false,
      renderer: "svg",
      logLevel: 1,
      defaultStyle: false,
      // Vega's own would add a style sheet.
      tooltip: () => {},
    });
    const svg = await view.toSVG();
    view.finalize();
    return svg;
  }

  /** Padding around the plot, none where Vega fits the chart into its width. */
  get paddingOfPlot() {
    return this.spec.autosize?.contains === "padding" ? {} : (this.spec.padding ?? {});
  }

  /** Returns the chart's Vega view, once it is drawn. */
  async ready() {
    if (!this.view) await this.draw();
    if (!this.view) throw new Error("the chart could not be drawn");
    return this.view;
  }

  /** Zooms when the reader drags over the steps. */
  dragged() {
    if (!this.overSteps || !this.view) return;
    const zoom = /** @type {{step?: Range} | undefined} */ (this.view.signal("zoom"));
    if (!zoom?.step) return;
    const low = Math.min(...zoom.step);
    const high = Math.max(...zoom.step);
    if (high > low) this.shared.zoomTo([low, high]);
  }

  /** Whether the chart shows the page's responses. */
  get showsResponses() {
    return this.hooks.rows !== null && this.spec.data?.name === "rows";
  }

  /** Returns the responses that pass all filters except this chart's brush. */
  rows() {
    return this.hooks.rows?.(this.brushedKeys) ?? [];
  }

  async draw() {
    this.draws += 1;
    const draw = this.draws;
    try {
      const embed = await this.hooks.loadVega();
      const place = el("div");
      const { view } = await embed(place, this.specNow(), {
        ast: true,
        actions: false,
        renderer: "svg",
        // Errors only: Vega would also warn of a series without values, which is harmless.
        logLevel: 1,
        defaultStyle: false,
        /**
         * @param {unknown} _handler
         * @param {MouseEvent} event
         * @param {Item} _item
         * @param {unknown} value
         */
        tooltip: (_handler, event, _item, value) => this.showTip(event, value),
      });
      const isOutdated = draw !== this.draws || this.hooks.signal.aborted;
      if (isOutdated) view.finalize();
      else this.showView(view, place);
    } catch (error) {
      this.showRendered();
      this.figure.dataset.live = "failed";
      console.warn(`Chart ${this.figure.dataset.chart} stays as it was rendered:`, error);
    }
  }

  /** Returns the chart's specification in the current theme, state and width. */
  specNow() {
    const { smoothing } = this.shared;
    const { zoom } = this;
    this.colours = themeColours();
    const source = { ...this.spec, config: this.config };
    if (this.showsResponses) source.data = { name: "rows", values: this.rows() };
    const spec = specFor(source, this.colours, { zoom, smoothing, log: this.log });
    if (spec.mark || spec.layer) spec.width = this.inner();
    return spec;
  }

  /** @param {View} view @param {HTMLElement} place where it is drawn */
  showView(view, place) {
    this.view?.finalize();
    this.view = view;
    // Screen readers have the figure's description, and would read Vega's marks one by one.
    place.querySelector("svg")?.setAttribute("aria-hidden", "true");
    const other = this.otherZoom();
    this.zoomButton.hidden = !other;
    this.zoomButton.textContent = other?.words ?? "";
    this.live = [place, this.zoomButton];
    this.plot.replaceChildren(...this.live);
    if (this.showsResponses && this.hooks.partial) this.menu.node.before(this.partial);
    this.listen(view);
    this.resized.observe(this.figure);
    this.figure.dataset.live = "true";
  }

  /** Width of the plot inside its padding (with it where Vega fits the chart), in CSS pixels. */
  inner() {
    const { left = 0, right = 0 } = this.paddingOfPlot;
    return Math.max(LEAST_WIDTH, this.figure.clientWidth - left - right);
  }

  /** Draws the chart in the width that it has now. */
  fit() {
    // Charts of several plots have a width each.
    const isOnePlot = this.spec.mark || this.spec.layer;
    if (!this.view || !isOnePlot || this.isOnPaper) return;
    const width = this.inner();
    if (this.view.width() !== width) this.view.width(width).runAsync();
  }

  /** @param {View} view */
  listen(view) {
    view.addEventListener("click", (event, item) => this.clicked(event, item));
    if (this.overSteps) {
      // One crosshair on all charts of the page: the one under the pointer leads.
      view.addSignalListener("at", (_name, step) => {
        if (this.plot.matches(":hover")) this.shared.signal("at", step, this);
      });
      view.addEventListener("mouseout", () => this.shared.signal("at", null, this));
    }
    if (!this.showsResponses) return;
    try {
      view.addSignalListener("brush", (_name, value) =>
        this.brush(/** @type {Record<string, Range> | null} */ (value)),
      );
    } catch {
      // Charts without a brush have no such signal.
    }
  }

  /**
   * Opens the response or step that was clicked, unless a second click follows.
   * @param {MouseEvent} event
   * @param {Item} [item]
   */
  clicked(event, item) {
    clearTimeout(this.click);
    if (Math.abs(event.clientX - this.pointerDownX) > DRAG_PX) return;
    const row = item?.datum?.datum ?? item?.datum;
    this.click = setTimeout(() => this.open(row), SECOND_CLICK);
  }

  /** @param {Row | undefined} row what was clicked, undefined for the empty plot */
  open(row) {
    if (row?.n !== undefined && Number.isInteger(row.n)) {
      this.hooks.openResponse(row.n);
    } else if (!this.showsResponses) {
      const step = Number.isInteger(row?.step) ? row?.step : this.hovered();
      if (step !== undefined) this.hooks.openStep(step);
    }
  }

  /** Returns the step nearest to the pointer, if the chart has this signal. */
  hovered() {
    try {
      const hover = /** @type {{step?: number[]} | undefined} */ (this.view?.signal("hover"));
      return hover?.step?.[0];
    } catch {
      return undefined;
    }
  }

  /**
   * Filters the list by what the reader brushed over, by column.
   * @param {Record<string, Range> | null} value
   */
  brush(value) {
    /** @type {Map<string, Range | null>} */
    const ranges = new Map();
    for (const key of this.brushedKeys) ranges.set(key, null);
    this.brushedKeys = new Set();
    for (const [key, range] of Object.entries(value ?? {})) {
      if (!Array.isArray(range) || range.length !== 2) continue;
      ranges.set(key, [Math.min(...range), Math.max(...range)]);
      this.brushedKeys.add(key);
    }
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.hooks.brushed(ranges), BRUSH_PAUSE);
  }

  /** Shades steps, none for null. @param {Shade | null} shade */
  shade(shade) {
    if (!this.overSteps) return;
    this.figure.querySelector(".pointed")?.remove();
    if (this.view) this.view.data("pointed", shade ? [this.withEnd(shade)] : []).runAsync();
    if (!shade) return;
    const words = message("shaded: {words}", { words: shade.words });
    this.menu.node.before(el("span", { class: `shaded pointed ${shade.severity}` }, words));
  }

  /** @param {Shade} shade @returns {Shade} */
  withEnd(shade) {
    const end = this.view?.scale("x").domain()[1] ?? NaN;
    return Number.isNaN(shade.to) ? { ...shade, to: end } : shade;
  }

  /** Updates the chart's responses after the list's filters changed. */
  update() {
    if (!this.view || !this.showsResponses) return;
    this.view.data("rows", this.rows()).runAsync();
  }

  /**
   * Shows a tooltip beside the pointer.
   * @param {MouseEvent} event
   * @param {unknown} value a text or texts by label
   */
  showTip(event, value) {
    if (value === null || value === undefined || value === "") {
      this.hooks.tip.hide();
      return;
    }
    /** @type {[string, unknown][]} */
    const entries = typeof value === "object" ? Object.entries(value) : [["", value]];
    const known = entries.filter(([, text]) => text !== "NaN");
    const lines = known.map(([label, text]) => ({ label, value: String(text) }));
    const { clientX: x, clientY: y } = event;
    const box = { left: x + TIP_GAP, right: x, top: y - TIP_GAP, bottom: y };
    const step = this.opensSteps ? this.hovered() : undefined;
    const opens = step !== undefined && this.hooks.steps.includes(step);
    const hint = opens ? message("Click opens step {step}", { step }) : "";
    this.hooks.tip.show("", lines, box, hint);
  }

  unmount() {
    clearTimeout(this.waiting);
    clearTimeout(this.click);
    this.menu.node.remove();
    this.resized.disconnect();
    this.showRendered();
  }

  /**
   * Shows the rendered SVG, which is light and as wide as its place. A chart in another state than
   * it is drawn anew, in the width that it will have on paper.
   */
  async toPaper() {
    if (!this.view) return;
    this.isOnPaper = true;
    const isAsRendered = !this.zoom && !this.log && this.shared.smoothing === "auto";
    if (isAsRendered) {
      this.plot.replaceChildren(...this.rendered);
      return;
    }
    const { left = 0, right = 0 } = this.paddingOfPlot;
    const paper = this.figure.classList.contains("wide") ? PAPER.wide : PAPER.half;
    // Vega draws in microtasks, which run before the browser prints.
    await this.view.width(paper - left - right).runAsync();
    recolour(this.plot, this.colours);
  }

  fromPaper() {
    this.isOnPaper = false;
    if (!this.view) return;
    if (this.plot.contains(this.live[0])) this.draw();
    else this.plot.replaceChildren(...this.live);
  }

  /** Puts the rendered SVG back. */
  showRendered() {
    this.view?.finalize();
    this.view = null;
    this.partial.remove();
    this.plot.replaceChildren(...this.rendered);
  }
}

/**
 * Makes the charts below `root` interactive when they are near the viewport and the page is idle.
 * @param {HTMLElement} root
 * @param {Hooks} hooks
 */
export function mountCharts(root, hooks) {
  const config = /** @type {object | undefined} */ (readJson(root, "script.chart-config"));
  const page = { hooks, shared: new Shared(hooks.address, hooks.signal), config };
  /** @type {Chart[]} */
  const charts = [];
  for (const figure of root.querySelectorAll("figure.chart")) {
    const spec = readSpec(figure);
    if (spec) charts.push(new Chart(/** @type {HTMLElement} */ (figure), spec, page));
  }
  const tools = el("div", { class: "chart-tools" });
  const section =
    root.querySelector("section.charts:not(.alone)") ?? root.querySelector("section.charts");
  section?.before(tools);
  smoothingTools(tools, charts, page.shared);
  const explore = mountExplore(tools, hooks, (figure, spec) => new Chart(figure, spec, page));
  shadeFindings(root, charts, hooks.signal);
  drawWhenNear(charts, hooks.signal);
  hooks.signal.addEventListener("abort", () => tools.remove());
  return {
    update() {
      for (const chart of charts) chart.update();
      explore?.update();
    },
  };
}

/**
 * Draws each chart once it is near the viewport, one after another.
 * @param {Chart[]} charts
 * @param {AbortSignal} signal
 */
function drawWhenNear(charts, signal) {
  const byFigure = new Map(charts.map((chart) => [/** @type {Element} */ (chart.figure), chart]));
  /** @type {Chart[]} */
  const queue = [];
  let isDrawing = false;
  const drawQueued = async () => {
    if (isDrawing) return;
    isDrawing = true;
    for (let chart = queue.shift(); chart; chart = queue.shift()) {
      await untilIdle();
      await chart.draw();
    }
    isDrawing = false;
  };
  /** @param {IntersectionObserverEntry[]} entries */
  const seen = (entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      observer.unobserve(target);
      queue.push(/** @type {Chart} */ (byFigure.get(target)));
    }
    drawQueued();
  };
  const observer = new IntersectionObserver(seen, { rootMargin: "200px" });
  for (const figure of byFigure.keys()) observer.observe(figure);
  signal.addEventListener("abort", () => {
    observer.disconnect();
    queue.length = 0;
  });
}

/** @returns {Promise<unknown>} */
function untilIdle() {
  // Safari has no idle callbacks.
  const whenIdle = globalThis.requestIdleCallback;
  return new Promise((resolve) => (whenIdle ? whenIdle(resolve) : setTimeout(resolve, 50)));
}
