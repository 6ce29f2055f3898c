/** A chart of any two columns of the table of steps, or of a step's responses. */

import { LOOK } from "./colours.js";
import { el } from "../shared/dom.js";
import { message, nodes } from "../shared/words.js";

/**
 * @param {HTMLElement} tools
 * @param {import("./charts.js").Hooks} hooks
 * @param {(figure: HTMLElement, spec: any) => import("./charts.js").Chart} make
 * @returns {{update: () => void} | null}
 */
export function mountExplore(tools, hooks, make) {
  const table = hooks.table;
  const columns = table?.rows.columns.filter((column) => column.numbers) ?? [];
  if (columns.length < 2) return null;
  const named = new Map(columns.map((column) => [column.key, column]));
  const id = table.panel ? "n" : "step";
  const pick = (word, at) => {
    const options = columns.map(({ key, label, unit }) =>
      el("option", { value: key }, titled(label, unit)),
    );
    const select = el("select", { "aria-label": word, onchange: () => draw() }, ...options);
    select.selectedIndex = Math.max(
      0,
      columns.findIndex(({ key }) => key.includes(at)),
    );
    return select;
  };
  const [y, x] = [
    pick(message("Column of the y axis"), "reward"),
    pick(message("Column of the x axis"), "kl_k1"),
  ];
  const figure = el(
    "figure",
    { class: "chart", "data-chart": "columns" },
    el("figcaption", {}, el("span")),
    el("div", { class: "plot" }),
  );
  /** @type {import("./charts.js").Chart | null} */
  let chart = null;
  const draw = () => {
    const [xColumn, yColumn] = [named.get(x.value), named.get(y.value)];
    const values = table.rows.passing().map((i) => ({
      [id]: Number(table.view.rowIds[i]),
      x: finite(xColumn.numbers[i]),
      y: finite(yColumn.numbers[i]),
    }));
    const spec = scatter(xColumn, yColumn, id, values);
    figure.dataset.chart = `${yColumn.key}-${xColumn.key}`.replace(/\W+/g, "_");
    figure.querySelector("figcaption > span").textContent = message("{up} against {across}", {
      up: yColumn.label,
      across: xColumn.label,
    });
    if (chart) chart.spec = spec;
    else chart = make(figure, spec);
    chart.draw();
  };
  const details = el(
    "details",
    { class: "explore" },
    el("summary", {}, message("Plot any two columns")),
    el("p", {}, ...nodes("{up} against {across}", { up: y, across: x })),
    figure,
  );
  details.addEventListener("toggle", () => details.open && draw());
  tools.append(details);
  return { update: () => details.open && chart && draw() };
}

/** @param {string} label @param {string} unit */
function titled(label, unit) {
  return unit ? message("{label} ({unit})", { label, unit }) : label;
}

/** @param {number} value */
function finite(value) {
  return Number.isFinite(value) ? value : null;
}

/** Returns the specification of a scatter plot that looks like the other charts. */
function scatter(xColumn, yColumn, id, values) {
  const axis = ({ label, unit }, place) => ({
    field: place,
    type: "quantitative",
    title: titled(label, unit),
    scale: { zero: false, nice: true },
    axis: {
      tickCount: 6,
      labelOverlap: true,
      ...(place === "x"
        ? { titleAnchor: "end", titleY: LOOK.titles.x }
        : { titleX: -LOOK.padding.left, titleY: LOOK.titles.y }),
    },
  });
  const tooltip = (field, title) => ({
    field,
    title,
    type: "quantitative",
    format: field === id ? ",d" : ",.4~r",
  });
  return {
    height: 240,
    padding: { ...LOOK.padding, right: 16 },
    autosize: { type: "none" },
    data: { values: values.filter((row) => row.x !== null && row.y !== null) },
    layer: [
      {
        mark: { type: "circle", color: LOOK.colours.policy, size: 30, opacity: 0.6 },
        encoding: {
          x: axis(xColumn, "x"),
          y: axis(yColumn, "y"),
          tooltip: [
            tooltip(id, id === "n" ? message("response") : message("step")),
            tooltip("x", xColumn.label),
            tooltip("y", yColumn.label),
          ],
        },
      },
    ],
  };
}
