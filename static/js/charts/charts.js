/** Makes rendered charts interactive with Vega: hover, brush, click. Without Vega the SVG stays. */

import { shadeFindings, Shared, smoothingTools } from "./chart-tools.js";
import { themeColours } from "./colours.js";
import { specFor, positive } from "./chart-spec.js";
import { el, readJson } from "../shared/dom.js";
import { mountExplore } from "./explore.js";
import { FORMATS } from "./downloads.js";
import { menu } from "../shared/menu.js";
import { message } from "../shared/words.js";

/**
 * @typedef {object} Hooks
 * @property {() => Promise<any>} loadVega returns vegaEmbed
 * @property {import("../shared/tip.js").Tip} tip
 * @property {AbortSignal} signal
 * @property {string} page prefix of the names of downloaded files
 * @property {any} table the list or table whose columns can be drawn against each other, or null
 * @property {(step: number) => void} openStep
 * @property {(n: number) => void} openResponse
 * @property {((without: Set<string>) => Record<string, any>[]) | null} rows the responses, `kept` those that
 *   pass all filters but those on `without`
 * @property {string} partial how many of the step's responses these are, "" for all
 * @property {(ranges: Map<string, [number, number] | null>) => void} brushed
 */

/** Reads a figure's specification, and converts its data from columns to rows. @param {HTMLElement} figure */
function readSpec(figure) {
  const spec = readJson(figure, "script.spec");
  const columns = Object.entries(spec.data?.columns ?? {});
  if (columns.length) {
    const values = columns[0][1].map((_, i) =>
      Object.fromEntries(columns.map(([field, cells]) => [field, cells[i]])),
    );
    spec.data = { values };
  }
  return spec;
}

/** Time in ms to wait after a click for a second one, which zooms out instead of opening a step. */
const SECOND_CLICK = 250;

export class Chart {
  /** @param {HTMLElement} figure @param {Hooks} hooks @param {Shared} shared @param {any} config @param {any} [spec] */
  constructor(figure, hooks, shared, config, spec) {
    this.figure = figure;
    this.hooks = hooks;
    this.shared = shared;
    this.log = false;
    this.click = 0;
    this.pointerDownX = 0;
    shared.charts.add(this);
    this.plot = /** @type {HTMLElement} */ (figure.querySelector(".plot"));
    this.rendered = [...this.plot.childNodes];
    this.spec = spec ?? readSpec(figure);
    this.config = this.spec.config ?? config;
    /** @type {Set<string>} columns this chart's brush limits */
    this.brushedKeys = new Set();
    /** @type {any} */
    this.view = null;
    /** Counts calls of `draw`: only the last may show its result. */
    this.draws = 0;
    this.waiting = 0;
    const { signal } = hooks;
    document.addEventListener("rlreport:theme", () => this.view && this.draw(), { signal });
    this.resized = new ResizeObserver(() => this.fit());
    this.plot.addEventListener("pointerdown", (event) => (this.pointerDownX = event.clientX), {
      signal,
    });
    this.plot.addEventListener("pointerup", () => setTimeout(() => this.dragged()), { signal });
    this.plot.addEventListener(
      "dblclick",
      () => {
        clearTimeout(this.click);
        shared.zoomTo(null);
      },
      { signal },
    );
    this.menu = menu("⋯", (sheet) => this.fillMenu(sheet));
    this.menu.node.classList.add("chart-menu");
    this.menu.button.setAttribute(
      "aria-label",
      message("Menu of the chart {title}", { title: this.title }),
    );
    /** Note that the interactive chart has only part of the responses. */
    this.partial = el("span", { class: "smoothed" }, hooks.partial);
    figure.querySelector("figcaption")?.append(this.menu.node);
    signal.addEventListener("abort", () => this.unmount());
  }

  get title() {
    return this.figure.querySelector("figcaption > span")?.textContent ?? "";
  }

  /** Whether the x axis has the steps of the run. */
  get overSteps() {
    return this.has("at");
  }

  /** @param {string} name of a parameter */
  has(name) {
    return Boolean(this.spec.params?.some((param) => param.name === name));
  }

  /** Returns the rows of data that the chart shows. @returns {Record<string, any>[]} */
  values() {
    if (!this.showsResponses)
      return this.spec.data?.values ?? Object.values(this.spec.datasets ?? {}).flat();
    return this.rows()
      .filter(({ kept }) => kept)
      .map(({ kept, ...row }) => row);
  }

  /** Fills the chart's menu: logarithmic axis, if it makes sense, and downloads. */
  fillMenu(sheet) {
    const name = [this.hooks.page, this.figure.dataset.chart]
      .filter(Boolean)
      .join("-")
      .replace(/[^\p{L}\p{N}_-]+/gu, "_");
    const box = el("input", {
      type: "checkbox",
      onchange: () => {
        this.log = box.checked;
        this.draw();
      },
    });
    box.checked = this.log;
    const formats = Object.entries(FORMATS).map(([label, download]) =>
      el(
        "button",
        {
          type: "button",
          onclick: () => {
            sheet.hidePopover();
            download(this, name).catch((error) => console.warn("Download failed:", error));
          },
        },
        label,
      ),
    );
    sheet.replaceChildren(
      ...(positive(this.spec, this.values()) ? [el("label", {}, box, message("Log y"))] : []),
      el("div", { class: "formats" }, ...formats),
    );
  }

  /** Returns the chart's Vega view, once it is drawn. */
  async ready() {
    if (!this.view) await this.draw();
    if (!this.view) throw new Error("the chart could not be drawn");
    return this.view;
  }

  /** Zooms when the reader drags over the steps. */
  dragged() {
    const range = this.overSteps && this.view?.signal("zoom")?.step;
    if (!range) return;
    const [low, high] = [Math.min(...range), Math.max(...range)];
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
    const draw = (this.draws += 1);
    try {
      const embed = await this.hooks.loadVega();
      const colours = themeColours();
      const { zoom, smoothing } = this.shared;
      const source = this.showsResponses
        ? { ...this.spec, data: { name: "rows", values: this.rows() } }
        : this.spec;
      const spec = specFor({ ...source, config: this.config }, colours, {
        zoom,
        smoothing,
        log: this.log,
      });
      if (spec.mark || spec.layer) spec.width = this.inner();
      const place = el("div");
      const result = await embed(place, spec, {
        ast: true,
        actions: false,
        renderer: "svg",
        // Errors only: Vega would also warn of a series without values, which is harmless.
        logLevel: 1,
        defaultStyle: false,
        tooltip: (_handler, event, _item, value) => this.showTip(event, value),
      });
      // Unmounted or drawn again while embedding.
      if (draw !== this.draws || this.hooks.signal.aborted) return void result.view.finalize();
      this.view?.finalize();
      this.view = result.view;
      // Screen readers have the figure's description, and would read Vega's marks one by one.
      place.querySelector("svg")?.setAttribute("aria-hidden", "true");
      this.plot.replaceChildren(place);
      if (this.showsResponses && this.hooks.partial) this.menu.node.before(this.partial);
      this.listen();
      this.resized.observe(this.figure);
      this.figure.dataset.live = "true";
    } catch (error) {
      this.showRendered();
      this.figure.dataset.live = "failed";
      console.warn(`Chart ${this.figure.dataset.chart} stays as it was rendered:`, error);
    }
  }

  /** Width of the plot inside its padding (with it where Vega fits the chart), in CSS pixels. */
  inner() {
    if (this.spec.autosize?.contains === "padding") return Math.max(80, this.figure.clientWidth);
    const padding = this.spec.padding ?? {};
    return Math.max(80, this.figure.clientWidth - (padding.left ?? 0) - (padding.right ?? 0));
  }

  fit() {
    const width = this.inner();
    if (this.view && (this.spec.mark || this.spec.layer) && this.view.width() !== width)
      this.view.width(width).runAsync();
  }

  listen() {
    const { view, hooks } = this;
    view.addEventListener("click", (event, item) => {
      clearTimeout(this.click);
      if (Math.abs(event.clientX - this.pointerDownX) > 3) return; // the end of a drag
      const datum = item?.datum?.datum ?? item?.datum;
      this.click = setTimeout(() => {
        if (Number.isInteger(datum?.n)) hooks.openResponse(datum.n);
        else if (!this.showsResponses) {
          const step = Number.isInteger(datum?.step) ? datum.step : this.hovered();
          if (step !== undefined) hooks.openStep(step);
        }
      }, SECOND_CLICK);
    });
    if (this.overSteps) {
      // One crosshair on all charts of the page: the one under the pointer leads.
      view.addSignalListener(
        "at",
        (_name, step) => this.plot.matches(":hover") && this.shared.signal("at", step, this),
      );
      view.addEventListener("mouseout", () => this.shared.signal("at", null, this));
    }
    if (!this.showsResponses) return;
    try {
      view.addSignalListener("brush", (_name, value) => this.brush(value));
    } catch {
      // Charts without a brush have no such signal.
    }
  }

  /** Returns the step nearest to the pointer, if the chart has this signal. */
  hovered() {
    try {
      return this.view.signal("hover")?.step?.[0];
    } catch {
      return undefined;
    }
  }

  /** @param {Record<string, [number, number]>} value */
  brush(value) {
    const ranges = new Map([...this.brushedKeys].map((key) => [key, null]));
    this.brushedKeys = new Set();
    for (const [key, range] of Object.entries(value ?? {})) {
      if (!Array.isArray(range) || range.length !== 2) continue;
      ranges.set(key, /** @type {any} */ ([Math.min(...range), Math.max(...range)]));
      this.brushedKeys.add(key);
    }
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.hooks.brushed(ranges), 30);
  }

  /**
   * Shades the steps of a finding, none for null.
   * @param {{from: number, to: number, colour: string, severity: string} | null} span
   * @param {string} words
   */
  point(span, words) {
    if (!this.overSteps) return;
    const end = this.view?.scale("x").domain()[1];
    const whole = span && { ...span, to: Number.isNaN(span.to) ? end : span.to };
    this.view?.data("pointed", whole ? [whole] : []).runAsync();
    this.figure.querySelector(".pointed")?.remove();
    if (span)
      this.menu.node.before(
        el(
          "span",
          { class: `shaded pointed ${span.severity}` },
          message("shaded: {words}", { words }),
        ),
      );
  }

  /** Updates the chart's responses after the list's filters changed. */
  update() {
    if (!this.view || !this.showsResponses) return;
    this.view.data("rows", this.rows()).runAsync();
  }

  showTip(event, value) {
    if (value === null || value === undefined || value === "") {
      this.hooks.tip.hide();
      return;
    }
    const { clientX: x, clientY: y } = event;
    const entries = typeof value === "object" ? Object.entries(value) : [["", value]];
    const lines = entries.filter(([, text]) => text !== "NaN"); // no value there
    this.hooks.tip.show(
      "",
      lines.map(([label, text]) => ({ label, value: String(text) })),
      { left: x + 12, right: x, top: y - 12, bottom: y },
    );
  }

  unmount() {
    clearTimeout(this.waiting);
    clearTimeout(this.click);
    this.menu.node.remove();
    this.resized.disconnect();
    this.showRendered();
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
  /** @type {Map<Element, Chart>} */
  const charts = new Map();
  const shared = new Shared();
  const config = readJson(root, "script.chart-config");
  for (const figure of root.querySelectorAll("figure.chart")) {
    if (figure.querySelector("script.spec"))
      charts.set(figure, new Chart(/** @type {HTMLElement} */ (figure), hooks, shared, config));
  }
  const tools = el("div", { class: "chart-tools" });
  (
    root.querySelector("section.charts:not(.alone)") ?? root.querySelector("section.charts")
  )?.before(tools);
  if ([...charts.values()].some((chart) => chart.has("smoothing")))
    smoothingTools(tools, charts.values(), shared);
  const explore = mountExplore(
    tools,
    hooks,
    (figure, spec) => new Chart(figure, hooks, shared, config, spec),
  );
  shadeFindings(root, charts.values(), hooks.signal);
  const idle = globalThis.requestIdleCallback ?? ((run) => setTimeout(run, 50));
  /** @type {Chart[]} */
  const queue = [];
  let busy = false;
  const work = async () => {
    if (busy) return;
    busy = true;
    for (let chart = queue.shift(); chart; chart = queue.shift()) {
      await new Promise((resolve) => idle(resolve));
      await chart.draw();
    }
    busy = false;
  };
  const seen = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        seen.unobserve(target);
        queue.push(/** @type {Chart} */ (charts.get(target)));
      }
      work();
    },
    { rootMargin: "200px" },
  );
  for (const figure of charts.keys()) seen.observe(figure);
  hooks.signal.addEventListener("abort", () => {
    tools.remove();
    seen.disconnect();
    queue.length = 0;
  });
  return {
    update() {
      charts.forEach((chart) => chart.update());
      explore?.update();
    },
  };
}
