/** State that the charts of a page share: zoom, smoothing, shaded findings. */

import { el } from "../shared/dom.js";
import { message, nodes } from "../shared/words.js";

/** @typedef {import("./charts.js").Chart} Chart */

/** State of all charts of a page: the zoom, the smoothing, and signals passed between them. */
export class Shared {
  constructor() {
    /** @type {Set<Chart>} */
    this.charts = new Set();
    /** @type {[number, number] | null} */
    this.zoom = null;
    /** @type {number | "auto"} */
    this.smoothing = "auto";
    /** @type {Set<() => void>} */
    this.listeners = new Set();
  }

  /** Zooms all charts over the steps to a range of steps; null shows all. */
  zoomTo(zoom) {
    if (zoom === this.zoom) return;
    this.zoom = zoom;
    for (const chart of this.charts) if (chart.overSteps && chart.view) chart.draw();
    for (const listener of this.listeners) listener();
  }

  smooth(factor) {
    this.smoothing = factor;
    this.signal("smoothing", factor, null);
  }

  /** Sets a signal in all charts that have it, except `source`. */
  signal(name, value, source) {
    for (const chart of this.charts) {
      if (chart !== source && chart.view && chart.has(name))
        chart.view.signal(name, value).runAsync();
    }
  }
}

/** Adds the control for smoothing and the button that resets the zoom. */
export function smoothingTools(tools, charts, shared) {
  const params = [...charts].flatMap((chart) => chart.spec.params ?? []);
  const { options, labels } = params.find(({ name }) => name === "smoothing").bind;
  const select = el("select", {}, ...options.map((value, i) => el("option", { value }, labels[i])));
  select.addEventListener("change", () => shared.smooth(options[select.selectedIndex]));
  const back = el("button", { type: "button", hidden: true, onclick: () => shared.zoomTo(null) });
  shared.listeners.add(() => {
    back.hidden = !shared.zoom;
    back.textContent = shared.zoom ? zoomed(shared.zoom) : "";
  });
  tools.append(
    el("label", {}, ...nodes("Smoothing {choice}", { choice: select })),
    back,
    el("span", { class: "note" }, message("Drag over a chart to zoom, double-click to zoom out.")),
  );
}

/** @param {[number, number]} zoom */
function zoomed(zoom) {
  const [low, high] = zoom.map((x) => Math.round(x));
  return message("Steps {low}–{high}: show all", { low, high });
}

/** Returns the colour of a finding's severity in the current theme. @param {Element} finding */
function inkOf(finding) {
  return getComputedStyle(finding.querySelector(".severity") ?? finding).color;
}

/** @param {Element} finding */
function severityOf(finding) {
  return ["critical", "warning"].find((word) => finding.classList.contains(word)) ?? "info";
}

/** Shades the steps of the finding under the pointer or with the focus. */
export function shadeFindings(root, charts, signal) {
  const all = [...charts];
  /** @type {Element | null | undefined} */
  let current = null;
  const show = (event) => {
    const leaves = event.type === "pointerout" || event.type === "focusout";
    const target = leaves ? event.relatedTarget : event.target;
    const finding = /** @type {HTMLElement | null | undefined} */ (
      target?.closest?.(".finding[data-charts]")
    );
    if (finding === current) return;
    current = finding;
    const { charts: names = "", from, to, words = "" } = finding?.dataset ?? {};
    for (const chart of all) {
      const named = finding && names.split(" ").includes(chart.figure.dataset.chart ?? "");
      chart.point(
        named
          ? {
              from: Number(from),
              to: Number(to),
              colour: inkOf(finding),
              severity: severityOf(finding),
            }
          : null,
        words,
      );
    }
  };
  for (const name of ["pointerover", "pointerout", "focusin", "focusout"]) {
    root.querySelector(".verdict")?.addEventListener(name, show, { signal });
  }
}
