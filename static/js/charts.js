/** Makes baked charts live with Vega: hover, brush, click. Without Vega the baked SVG stays. */

import { recoloured, themeColours } from "./colours.js";
import { el, readJson } from "./dom.js";

/**
 * @typedef {object} Hooks
 * @property {() => Promise<any>} loadVega gives vegaEmbed
 * @property {import("./tip.js").Tip} tip
 * @property {(step: number) => void} openStep
 * @property {(n: number) => void} openResponse
 * @property {((without: Set<string>) => object[]) | null} rows the responses that pass all
 *   filters but those on `without`
 * @property {(ranges: Map<string, [number, number] | null>) => void} brushed
 */

export class Chart {
  /** @param {HTMLElement} figure @param {Hooks} hooks */
  constructor(figure, hooks) {
    this.figure = figure;
    this.hooks = hooks;
    this.plot = /** @type {HTMLElement} */ (figure.querySelector(".plot"));
    this.baked = [...this.plot.childNodes];
    this.spec = readJson(figure, "script.spec");
    /** @type {Set<string>} columns this chart's brush limits */
    this.own = new Set();
    /** @type {any} */
    this.view = null;
    this.waiting = 0;
    this.gone = false;
    this.again = () => this.view && this.draw();
    document.addEventListener("rlreport:theme", this.again);
    this.resized = new ResizeObserver(() => this.fit());
  }

  /** Whether the chart shows the page's responses. */
  get fed() {
    return this.hooks.rows !== null && this.spec.data?.name === "rows";
  }

  /** Responses that pass all filters but this chart's own brush. */
  rows() {
    return this.hooks.rows?.(this.own) ?? [];
  }

  async draw() {
    try {
      const embed = await this.hooks.loadVega();
      const colours = themeColours();
      const spec = recoloured(this.spec, colours);
      spec.width = this.inner();
      if (this.fed) spec.data = { name: "rows", values: this.rows() };
      const place = el("div");
      const result = await embed(place, spec, {
        ast: true,
        actions: false,
        renderer: "svg",
        // Errors only: a series without values is drawn empty and no cause to warn readers.
        logLevel: 1,
        defaultStyle: false,
        tooltip: (_handler, event, _item, value) => this.showTip(event, value),
      });
      this.view?.finalize();
      this.view = result.view;
      // The reader may have left the page while Vega was at work.
      if (this.gone) return this.rest();
      // The figure's words say it; Vega's marks would be read out one by one, without names.
      place.querySelector("svg")?.setAttribute("aria-hidden", "true");
      this.plot.replaceChildren(place);
      this.listen();
      this.resized.observe(this.figure);
      this.figure.dataset.live = "true";
    } catch (error) {
      this.rest();
      this.figure.dataset.live = "failed";
      console.warn(`Chart ${this.figure.dataset.chart} stays as it was drawn:`, error);
    }
  }

  /** Width of the plot inside its padding, in CSS pixels. */
  inner() {
    const padding = this.spec.padding ?? {};
    return Math.max(80, this.figure.clientWidth - (padding.left ?? 0) - (padding.right ?? 0));
  }

  fit() {
    const width = this.inner();
    if (this.view && this.view.width() !== width) this.view.width(width).runAsync();
  }

  listen() {
    const { view, hooks } = this;
    view.addEventListener("click", (_event, item) => {
      const datum = item?.datum?.datum ?? item?.datum;
      if (this.fed && Number.isInteger(datum?.n)) hooks.openResponse(datum.n);
      else if (!this.fed) {
        const step = Number.isInteger(datum?.step) ? datum.step : this.hovered();
        if (step !== undefined) hooks.openStep(step);
      }
    });
    if (!this.fed) return;
    try {
      view.addSignalListener("brush", (_name, value) => this.brush(value));
    } catch {
      // Charts without a brush have no such signal.
    }
  }

  /** The step the pointer is nearest to, where the chart tells. */
  hovered() {
    try {
      return this.view.signal("hover")?.step?.[0];
    } catch {
      return undefined;
    }
  }

  /** @param {Record<string, [number, number]>} value */
  brush(value) {
    const ranges = new Map([...this.own].map((key) => [key, null]));
    this.own = new Set();
    for (const [key, range] of Object.entries(value ?? {})) {
      if (!Array.isArray(range) || range.length !== 2) continue;
      ranges.set(key, /** @type {any} */ ([Math.min(...range), Math.max(...range)]));
      this.own.add(key);
    }
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.hooks.brushed(ranges), 30);
  }

  /** Follows the filters of the list. */
  follow() {
    if (!this.view || !this.fed) return;
    this.view.data("rows", this.rows()).runAsync();
  }

  showTip(event, value) {
    if (value === null || value === undefined || value === "") {
      this.hooks.tip.hide();
      return;
    }
    const { clientX: x, clientY: y } = event;
    const lines = typeof value === "object" ? Object.entries(value) : [["", value]];
    this.hooks.tip.show(
      "",
      lines.map(([label, text]) => ({ label, value: String(text) })),
      { left: x + 12, right: x, top: y - 12, bottom: y },
    );
  }

  unmount() {
    clearTimeout(this.waiting);
    document.removeEventListener("rlreport:theme", this.again);
    this.resized.disconnect();
    this.gone = true;
    this.rest();
  }

  /** Shows the chart as it was baked. */
  rest() {
    this.view?.finalize();
    this.view = null;
    this.plot.replaceChildren(...this.baked);
  }
}

/**
 * Makes the charts below `root` live once they come near the view and the page is idle.
 * @param {HTMLElement} root
 * @param {Hooks} hooks
 */
export function mountCharts(root, hooks) {
  /** @type {Map<Element, Chart>} */
  const charts = new Map();
  for (const figure of root.querySelectorAll("figure.chart")) {
    if (figure.querySelector("script.spec")) charts.set(figure, new Chart(/** @type {HTMLElement} */ (figure), hooks));
  }
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
  const seen = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      queue.push(/** @type {Chart} */ (charts.get(target)));
    }
    work();
  }, { rootMargin: "200px" });
  for (const figure of charts.keys()) seen.observe(figure);
  return {
    follow: () => charts.forEach((chart) => chart.follow()),
    unmount() {
      seen.disconnect();
      queue.length = 0;
      charts.forEach((chart) => chart.unmount());
    },
  };
}
