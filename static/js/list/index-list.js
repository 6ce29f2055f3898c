/** The list of an index: chips of the verdicts, and a select of the metric that it shows. */

/** @import { Address } from "../shared/address.js" */
/** @import { IndexMetricData } from "../shared/page-data.d.ts" */
/** @import { TableView } from "./table.js" */

import { unpack } from "../shared/data.js";
import { el, svg } from "../shared/dom.js";
import { MISSING, exact, written } from "../shared/format.js";
import { message } from "../shared/words.js";
import { makeChips } from "./shortcuts.js";

/** Parameter of the address with the metric that is shown. */
const METRIC = "metric";
/** @type {("first" | "best" | "last")[]} columns of a metric's levels, in order */
const LEVELS = ["first", "best", "last"];
/** Column of its curve. */
const TREND = "trend";

/**
 * @param {HTMLElement} section
 * @param {TableView} view
 * @param {{address: Address, signal: AbortSignal}} page
 */
export function mountIndexList(section, view, page) {
  const root = /** @type {HTMLElement} */ (section.closest(".page"));
  const counts = /** @type {HTMLElement | null} */ (root.querySelector(".counts"));
  if (counts) makeChips(counts, view.rows, "verdict");
  const packed = root.querySelector("script.metrics-data")?.textContent;
  if (packed) mountMetrics(section, view, packed, page);
}

/**
 * @param {HTMLElement} section
 * @param {TableView} view
 * @param {string} packed
 * @param {{address: Address, signal: AbortSignal}} page
 */
async function mountMetrics(section, view, packed, { address, signal }) {
  /** @type {IndexMetricData[]} */
  const metrics = JSON.parse(new TextDecoder().decode(await unpack(packed)));
  if (signal.aborted) return;
  const options = metrics.map(({ key, label }) => el("option", { value: key }, label));
  const select = el("select", {}, ...options);
  const usual = metrics.find(({ headers }) => headers[0] === view.rows.column("first")?.label);
  const [first] = metrics;
  const start = usual ?? first;
  let shown = start.key;
  const show = () => {
    const metric = metrics.find(({ key }) => key === address.get(METRIC)) ?? start;
    select.value = metric.key;
    if (metric.key === shown) return;
    shown = metric.key;
    showMetric(view, metric);
  };
  select.addEventListener("change", () => {
    address.set({ [METRIC]: select.value === start.key ? null : select.value });
  });
  address.onChange(show, signal);
  section
    .querySelector(".list-tools")
    ?.prepend(el("label", { class: "metric" }, message("Metric"), " ", select));
  show();
}

/** Fills the columns of levels and curves with another metric. @param {TableView} view @param {IndexMetricData} metric */
function showMetric(view, metric) {
  LEVELS.forEach((key, k) => showLevels(view, metric, key, metric.headers[k]));
  const at = renameColumn(view, TREND, metric.headers[LEVELS.length], "");
  view.nodes.forEach((row, i) => row?.cells[at].replaceChildren(...line(metric.paths[i])));
  view.rows.forgetTexts();
  view.rows.update();
}

/** @param {TableView} view @param {IndexMetricData} metric @param {"first" | "best" | "last"} key @param {string} label */
function showLevels(view, metric, key, label) {
  const at = renameColumn(view, key, label, metric.unit);
  const column = view.rows.column(key);
  if (!column) return;
  const values = Float64Array.from(metric[key], (value) => value ?? NaN);
  column.numbers = values;
  column.strings = null;
  column.written = metric.written;
  view.nodes.forEach((row, i) => {
    const cell = row?.cells[at];
    if (!cell) return;
    const percent = metric.percentages[i] ? "%" : "";
    const isMissing = Number.isNaN(values[i]);
    cell.textContent = isMissing ? MISSING : written(values[i], metric.written) + percent;
    cell.title = isMissing ? message("not in the log") : exact(values[i]);
  });
}

/**
 * Names a column anew and returns its place in the table.
 * @param {TableView} view
 * @param {string} key
 * @param {string} label
 * @param {string} unit
 */
function renameColumn(view, key, label, unit) {
  const at = view.renderedColumns.findIndex((column) => column.key === key);
  Object.assign(view.renderedColumns[at], { label, unit });
  const button = view.head.cells[at].querySelector("button.sort");
  button?.replaceChildren(label, ...(unit ? [el("span", { class: "unit" }, unit)] : []));
  return at;
}

/** Returns the small line of a curve, as in templates/macros/figures.html. @param {string} path */
function line(path) {
  if (!path) return [];
  const box = {
    class: "spark",
    viewBox: "0 0 100 24",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
    focusable: "false",
  };
  return [svg("svg", box, svg("path", { d: path }))];
}
