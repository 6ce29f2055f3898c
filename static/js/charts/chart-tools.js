/** State that the charts of a page share: zoom, smoothing, shaded findings. */

/** @import { Range } from "./spec.d.ts" */

import { el } from "../shared/dom.js";
import { message, nodes } from "../shared/words.js";
import { isSame, ZOOM, zoomOf, zoomText } from "./zoom.js";

/** @typedef {import("./charts.js").Chart} Chart */

/** State of all charts of a page: the zoom, the smoothing, and signals passed between them. */
export class Shared {
  /** @param {import("../shared/address.js").Address} address @param {AbortSignal} signal */
  constructor(address, signal) {
    this.address = address;
    /** @type {Set<Chart>} */
    this.charts = new Set();
    /** @type {Range | null} */
    this.zoom = zoomOf(address.get(ZOOM));
    /** @type {number | "auto"} */
    this.smoothing = "auto";
    address.onChange(() => this.followAddress(), signal);
  }

  /**
   * Zooms all charts over the steps to a range of steps; null shows all.
   * @param {Range | null} zoom
   */
  zoomTo(zoom) {
    this.address.set({ [ZOOM]: zoom && zoomText(zoom) }, { push: true });
  }

  followAddress() {
    const zoom = zoomOf(this.address.get(ZOOM));
    if (isSame(zoom, this.zoom)) return;
    this.zoom = zoom;
    for (const chart of this.charts) if (chart.overSteps && chart.view) chart.draw();
  }

  /** @param {number | "auto"} factor */
  smooth(factor) {
    this.smoothing = factor;
    this.signal("smoothing", factor, null);
  }

  /**
   * Sets a signal in all charts that have it, except `source`.
   * @param {string} name
   * @param {unknown} value
   * @param {Chart | null} source
   */
  signal(name, value, source) {
    for (const chart of this.charts) {
      if (chart === source || !chart.view || !chart.has(name)) continue;
      chart.view.signal(name, value).runAsync();
    }
  }
}

/**
 * Adds the control for smoothing, if a chart can be smoothed, and says what the pointer does.
 * @param {HTMLElement} tools
 * @param {Chart[]} charts
 * @param {Shared} shared
 */
export function smoothingTools(tools, charts, shared) {
  const parameters = charts.flatMap((chart) => chart.spec.params ?? []);
  const bind = parameters.find(({ name }) => name === "smoothing")?.bind;
  if (!bind) return;
  const { options, labels } = bind;
  const select = el("select", {}, ...options.map((value, k) => el("option", { value }, labels[k])));
  select.addEventListener("change", () => shared.smooth(options[select.selectedIndex]));
  const opens = charts.some((chart) => chart.opensSteps);
  tools.append(
    el("label", {}, ...nodes("Smoothing {choice}", { choice: select })),
    el(
      "span",
      { class: "note" },
      opens
        ? message("Drag over a chart to zoom, double-click to zoom out, click to open a step.")
        : message("Drag over a chart to zoom, double-click to zoom out."),
    ),
  );
}

/** Returns the colour of a finding's severity in the current theme. @param {Element} finding */
function inkOf(finding) {
  return getComputedStyle(finding.querySelector(".severity") ?? finding).color;
}

/** @param {Element} finding @returns {"critical" | "warning" | "info"} */
function severityOf(finding) {
  if (finding.classList.contains("critical")) return "critical";
  return finding.classList.contains("warning") ? "warning" : "info";
}

/**
 * Shades the steps of the finding under the pointer or with the focus.
 * @param {HTMLElement} root
 * @param {Chart[]} charts
 * @param {AbortSignal} signal
 */
export function shadeFindings(root, charts, signal) {
  /** @type {HTMLElement | null} */
  let current = null;
  /** @param {Event} event */
  const show = (event) => {
    const finding = findingOf(event);
    if (finding === current) return;
    current = finding;
    for (const chart of charts) chart.shade(finding && shadeOf(finding, chart));
  };
  for (const name of ["pointerover", "pointerout", "focusin", "focusout"]) {
    root.querySelector(".verdict")?.addEventListener(name, show, { signal });
  }
}

/**
 * Returns the finding that the pointer or the focus is in after an event.
 * @param {Event} event
 * @returns {HTMLElement | null}
 */
function findingOf(event) {
  const leaves = event.type === "pointerout" || event.type === "focusout";
  const { target, relatedTarget } = /** @type {PointerEvent | FocusEvent} */ (event);
  const now = leaves ? relatedTarget : target;
  return now instanceof Element ? now.closest(".finding[data-charts]") : null;
}

/**
 * Returns what a chart shades for a finding, null if it does not show it.
 * @param {HTMLElement} finding
 * @param {Chart} chart
 */
function shadeOf(finding, chart) {
  const { charts = "", from, to, words = "" } = finding.dataset;
  if (!charts.split(" ").includes(chart.figure.dataset.chart ?? "")) return null;
  return {
    from: Number(from),
    to: Number(to),
    colour: inkOf(finding),
    severity: severityOf(finding),
    words,
  };
}
