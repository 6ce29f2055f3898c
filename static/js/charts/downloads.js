/** Takes a chart along: as a picture, its data or its specification. All is made in the page. */

import { el } from "../shared/dom.js";
import { csvOf } from "../list/rows.js";

/**
 * Hands a file to the reader. The content policy forbids requests; a download is none.
 * @param {string} name
 * @param {Blob} blob
 */
function hand(name, blob) {
  const href = URL.createObjectURL(blob);
  const anchor = el("a", { href, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

/** Rows of any fields as CSV. @param {Record<string, any>[]} rows */
function rowsToCsv(rows) {
  const fields = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return csvOf(fields, rows.map((row) => fields.map((field) => row[field])));
}

/** What a reader can take: label → maker. @type {Record<string, (chart: import("./charts.js").Chart, name: string) => Promise<void>>} */
export const TAKEN = {
  PNG: async (chart, name) => {
    const canvas = await (await chart.alive()).toCanvas(2);
    canvas.toBlob((blob) => hand(`${name}.png`, blob), "image/png");
  },
  SVG: async (chart, name) => hand(`${name}.svg`, new Blob([await (await chart.alive()).toSVG()], { type: "image/svg+xml" })),
  CSV: async (chart, name) => hand(`${name}.csv`, new Blob([rowsToCsv(chart.values())], { type: "text/csv" })),
  "Vega-Lite": async (chart, name) => {
    const spec = { ...chart.spec, config: chart.config, ...(chart.spec.datasets ? {} : { data: { values: chart.values() } }) };
    hand(`${name}.vl.json`, new Blob([JSON.stringify(spec, null, 1)], { type: "application/json" }));
  },
};
