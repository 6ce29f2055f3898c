/** Downloads of a chart: a picture, its data or its specification, made in the page. */

/** @import { Row } from "./spec.d.ts" */

import { el } from "../shared/dom.js";
import { csvOf } from "../list/rows.js";

/** @typedef {import("./charts.js").Chart} Chart */

/**
 * Downloads a blob; the content security policy does not block that.
 * @param {string} name
 * @param {Blob} blob
 */
function download(name, blob) {
  const href = URL.createObjectURL(blob);
  const anchor = el("a", { href, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

/** @param {string} name @param {string} text @param {string} type */
function downloadText(name, text, type) {
  download(name, new Blob([text], { type }));
}

/** Converts rows, which may have different fields, to CSV. @param {Row[]} rows */
function rowsToCsv(rows) {
  const fields = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const lines = rows.map((row) => fields.map((field) => row[field]));
  return csvOf(fields, lines);
}

/** Returns a chart's specification with all that it needs elsewhere. @param {Chart} chart */
function wholeSpec(chart) {
  const whole = { ...chart.spec, config: chart.config };
  if (!whole.datasets) whole.data = { values: chart.values() };
  return whole;
}

/**
 * Label of a format → function that downloads a chart in it.
 * @type {Record<string, (chart: Chart, name: string) => Promise<void>>}
 */
export const FORMATS = {
  PNG: async (chart, name) => {
    const view = await chart.ready();
    const canvas = await view.toCanvas(2);
    canvas.toBlob((blob) => blob && download(`${name}.png`, blob), "image/png");
  },
  SVG: async (chart, name) => {
    const view = await chart.ready();
    downloadText(`${name}.svg`, await view.toSVG(), "image/svg+xml");
  },
  CSV: async (chart, name) => downloadText(`${name}.csv`, rowsToCsv(chart.values()), "text/csv"),
  "Vega-Lite": async (chart, name) => {
    const text = JSON.stringify(wholeSpec(chart), null, 1);
    downloadText(`${name}.vl.json`, text, "application/json");
  },
};
