/** Downloads of a chart: a picture, its data or its specification, made in the page. */

import { el } from "../shared/dom.js";
import { csvOf } from "../list/rows.js";

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

/** Converts rows, which may have different fields, to CSV. @param {Record<string, any>[]} rows */
function rowsToCsv(rows) {
  const fields = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return csvOf(
    fields,
    rows.map((row) => fields.map((field) => row[field])),
  );
}

/** Label of a format → function that downloads a chart in it. @type {Record<string, (chart: import("./charts.js").Chart, name: string) => Promise<void>>} */
export const FORMATS = {
  PNG: async (chart, name) => {
    const canvas = await (await chart.ready()).toCanvas(2);
    canvas.toBlob((blob) => download(`${name}.png`, blob), "image/png");
  },
  SVG: async (chart, name) =>
    download(
      `${name}.svg`,
      new Blob([await (await chart.ready()).toSVG()], { type: "image/svg+xml" }),
    ),
  CSV: async (chart, name) =>
    download(`${name}.csv`, new Blob([rowsToCsv(chart.values())], { type: "text/csv" })),
  "Vega-Lite": async (chart, name) => {
    const spec = {
      ...chart.spec,
      config: chart.config,
      ...(chart.spec.datasets ? {} : { data: { values: chart.values() } }),
    };
    download(
      `${name}.vl.json`,
      new Blob([JSON.stringify(spec, null, 1)], { type: "application/json" }),
    );
  },
};
