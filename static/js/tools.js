/** The tools above a list: search, ranges, columns, row height, count, copies. */

import { copies } from "./copy.js";
import { el } from "./dom.js";
import { written } from "./format.js";
import { toCsv, toJson } from "./rows.js";

/** @typedef {import("./rows.js").Rows} Rows */

/**
 * @param {HTMLElement} section
 * @param {import("./table.js").TableView} view
 * @param {{searched?: (query: string) => void}} [on]
 */
export function mountTools(section, view, on = {}) {
  const { rows } = view;
  const label = section.querySelector("caption")?.textContent ?? "list";
  const search = el("input", { type: "search", placeholder: "Search", "aria-label": `Search ${label}` });
  search.addEventListener("input", () => {
    rows.search(search.value);
    on.searched?.(search.value.trim());
  });
  const total = el("output", { class: "count", "aria-live": "polite" });
  const chips = el("div", { class: "chips" });
  const full = el("button", { type: "button", "aria-pressed": "false" }, "Full rows");
  full.addEventListener("click", () => {
    const pressed = full.getAttribute("aria-pressed") !== "true";
    full.setAttribute("aria-pressed", String(pressed));
    view.setFull(pressed);
  });
  const csv = el("button", { type: "button" }, "Copy CSV");
  const json = el("button", { type: "button" }, "Copy JSON");
  copies(csv, () => toCsv(rows));
  copies(json, () => toJson(rows));
  const hasText = rows.columns.some((column) => column.kind === "text");
  const tools = [search, rangeMenu(rows), columnMenu(view), hasText && full, csv, json, total, chips];
  section.querySelector(".list-tools")?.append(...tools.filter(Boolean));
  const show = () => {
    const [shown, all] = [rows.order.length, rows.size];
    total.textContent = shown === all ? `${written(all, "count")} of ${written(all, "count")}` : `${written(shown, "count")} of ${written(all, "count")}`;
    chips.replaceChildren(...[...rows.ranges].map(([key, range]) => chip(rows, key, range)));
    if (document.activeElement !== search && search.value.trim().toLowerCase() !== rows.query) {
      search.value = rows.query;
    }
  };
  rows.listeners.add(show);
  show();
}

/** @param {Rows} rows @param {string} key @param {[number, number]} range */
function chip(rows, key, [low, high]) {
  const words = `${rows.column(key)?.label ?? key} ${bound(low, "from")} ${bound(high, "to")}`.trim();
  return el(
    "button",
    { type: "button", "aria-label": `Remove the filter ${words}`, onclick: () => rows.limit(key, null) },
    `${words} ✕`,
  );
}

function bound(value, word) {
  return Number.isFinite(value) ? `${word} ${written(value)}` : "";
}

/** @param {string} title @param {(sheet: HTMLElement) => void} build run when first opened */
export function menu(title, build) {
  const sheet = el("div", { class: "sheet" });
  const node = el("details", { class: "menu" }, el("summary", {}, title), sheet);
  node.addEventListener("toggle", () => {
    if (node.open) build(sheet);
  });
  node.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    node.open = false;
    node.querySelector("summary").focus();
    event.stopPropagation();
  });
  node.addEventListener("focusout", (event) => {
    if (event.relatedTarget && !node.contains(event.relatedTarget)) node.open = false;
  });
  return node;
}

/** @param {Rows} rows */
function rangeMenu(rows) {
  const columns = rows.columns.filter((column) => column.numbers);
  if (!columns.length) return null;
  return menu("Filter", (sheet) => {
    const grid = el("div", { class: "range" }, el("span"), el("span", {}, "from"), el("span", {}, "to"));
    for (const column of columns) grid.append(el("span", {}, column.label), ...rangeInputs(rows, column));
    sheet.replaceChildren(grid);
  });
}

/** @param {Rows} rows @param {import("./rows.js").Column} column */
function rangeInputs(rows, column) {
  const finite = [.../** @type {Float64Array} */ (column.numbers)].filter(Number.isFinite);
  const ends = [Math.min(...finite), Math.max(...finite)];
  const present = rows.ranges.get(column.key) ?? [-Infinity, Infinity];
  const inputs = ["from", "to"].map((word, k) => {
    const input = el("input", {
      type: "number",
      step: "any",
      placeholder: finite.length ? written(ends[k]) : "",
      "aria-label": `${column.label} ${word}`,
    });
    if (Number.isFinite(present[k])) input.value = String(present[k]);
    return input;
  });
  const read = (text, otherwise) => (text === "" ? otherwise : Number(text));
  const apply = () => {
    const range = /** @type {[number, number]} */ ([
      read(inputs[0].value, -Infinity),
      read(inputs[1].value, Infinity),
    ]);
    rows.limit(column.key, range.some(Number.isFinite) ? range : null);
  };
  for (const input of inputs) input.addEventListener("input", apply);
  return inputs;
}

/** @param {import("./table.js").TableView} view */
function columnMenu(view) {
  return menu("Columns", (sheet) => {
    const boxes = view.rows.columns.slice(1).map((column) => {
      const box = el("input", { type: "checkbox" });
      box.checked = column.shown;
      box.addEventListener("change", () => view.showColumn(column.key, box.checked));
      const unit = column.unit && el("span", { class: "unit" }, ` ${column.unit}`);
      return el("label", { title: column.help }, box, column.label, unit);
    });
    sheet.replaceChildren(...boxes);
  });
}
