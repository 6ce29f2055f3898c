/** A chart of any two columns of the table of steps, or of a step's responses. */

/** @import { Chart, Hooks } from "./charts.js" */
/** @import { Channel, Spec } from "./spec.d.ts" */
/** @import { Column, NumberColumn } from "../list/rows.js" */

import { LOOK } from "./colours.js";
import { el } from "../shared/dom.js";
import { message, nodes } from "../shared/words.js";

/**
 * @param {HTMLElement} tools
 * @param {Hooks} hooks
 * @param {(figure: HTMLElement, spec: Spec) => Chart} make
 * @returns {{update: () => void} | null}
 */
export function mountExplore(tools, hooks, make) {
  const { table } = hooks;
  const columns = table?.rows.columns.filter(hasNumbers) ?? [];
  if (!table || columns.length < 2) return null;
  const id = table.panel ? "n" : "step";
  const up = columnSelect(message("Column of the y axis"), columns, "reward");
  const across = columnSelect(message("Column of the x axis"), columns, "kl_k1");
  const title = el("span");
  const figure = el(
    "figure",
    { class: "chart", "data-chart": "columns" },
    el("figcaption", {}, title),
    el("div", { class: "plot" }),
  );
  /** @type {Chart | null} */
  let chart = null;
  const draw = () => {
    const x = columns[across.selectedIndex];
    const y = columns[up.selectedIndex];
    const rows = table.rows.passing().map((i) => ({
      [id]: Number(table.view.rowIds[i]),
      x: x.numbers[i],
      y: y.numbers[i],
    }));
    const known = rows.filter((row) => Number.isFinite(row.x) && Number.isFinite(row.y));
    const spec = scatter(x, y, id, known);
    figure.dataset.chart = `${y.key}-${x.key}`.replace(/\W+/g, "_");
    title.textContent = message("{up} against {across}", { up: y.label, across: x.label });
    if (chart) chart.spec = spec;
    else chart = make(figure, spec);
    chart.draw();
  };
  for (const select of [up, across]) select.addEventListener("change", draw);
  const details = el(
    "details",
    { class: "explore" },
    el("summary", {}, message("Plot any two columns")),
    el("p", {}, ...nodes("{up} against {across}", { up, across })),
    figure,
  );
  details.addEventListener("toggle", () => details.open && draw());
  tools.append(details);
  return { update: () => details.open && chart && draw() };
}

/** @param {Column} column @returns {column is NumberColumn} */
function hasNumbers(column) {
  return column.numbers !== null;
}

/**
 * Creates a select of columns; the first whose key contains `wanted` is chosen.
 * @param {string} label
 * @param {NumberColumn[]} columns
 * @param {string} wanted
 */
function columnSelect(label, columns, wanted) {
  const options = columns.map((column) => el("option", { value: column.key }, titled(column)));
  const select = el("select", { "aria-label": label }, ...options);
  const chosen = columns.findIndex(({ key }) => key.includes(wanted));
  select.selectedIndex = Math.max(0, chosen);
  return select;
}

/** @param {Column} column */
function titled({ label, unit }) {
  return unit ? message("{label} ({unit})", { label, unit }) : label;
}

/**
 * Returns the specification of a scatter plot that looks like the other charts.
 * @param {NumberColumn} xColumn
 * @param {NumberColumn} yColumn
 * @param {"n" | "step"} id
 * @param {Record<string, number>[]} values
 * @returns {Spec}
 */
function scatter(xColumn, yColumn, id, values) {
  const word = id === "n" ? message("response") : message("step");
  return {
    height: 240,
    padding: { ...LOOK.padding, right: 16 },
    autosize: { type: "none" },
    data: { values },
    layer: [
      {
        mark: { type: "circle", color: LOOK.colours.policy, size: 30, opacity: 0.6 },
        encoding: {
          x: channel("x", xColumn, { titleAnchor: "end", titleY: LOOK.titles.x }),
          y: channel("y", yColumn, { titleX: -LOOK.padding.left, titleY: LOOK.titles.y }),
          tooltip: [
            { field: id, title: word, type: "quantitative", format: ",d" },
            { field: "x", title: xColumn.label, type: "quantitative", format: ",.4~r" },
            { field: "y", title: yColumn.label, type: "quantitative", format: ",.4~r" },
          ],
        },
      },
    ],
  };
}

/**
 * @param {"x" | "y"} field
 * @param {NumberColumn} column
 * @param {object} title its place
 * @returns {Channel}
 */
function channel(field, column, title) {
  return {
    field,
    type: "quantitative",
    title: titled(column),
    scale: { zero: false, nice: true },
    axis: { tickCount: 6, labelOverlap: true, ...title },
  };
}
