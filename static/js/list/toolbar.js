/** The toolbar above a list: search, filters, columns, row height, number of rows, copy buttons. */

import { copies } from "../shared/copy.js";
import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { menu } from "../shared/menu.js";
import { searchable, toCsv, toJson, valuesOf } from "./rows.js";
import { message } from "../shared/words.js";

/** @typedef {import("./rows.js").Rows} Rows */

/** Maximum number of distinct values of a column to offer them as options instead of a text field. */
const MAX_OPTIONS = 30;
const MAX_OPTION_CHARS = 80;

/**
 * @param {HTMLElement} section
 * @param {import("./table.js").TableView} view
 */
export function mountToolbar(section, view) {
  const { rows } = view;
  const label = section.querySelector("caption")?.textContent ?? "";
  const search = el("input", {
    type: "search",
    placeholder: message("Search"),
    "aria-label": message("Search {list}", { list: label }),
  });
  search.addEventListener("input", () => rows.search(search.value));
  search.addEventListener("keydown", (event) => {
    if (event.key === "Escape") search.blur();
    else if (event.key === "ArrowDown") view.focusRow(0);
    else return;
    // Prevent the browser from clearing the field or scrolling.
    event.preventDefault();
  });
  const total = el("output", { class: "count", "aria-live": "polite" });
  const chips = el("div", { class: "chips" });
  const full = el("button", { type: "button", "aria-pressed": "false" }, message("Full rows"));
  full.addEventListener("click", () => {
    const pressed = full.getAttribute("aria-pressed") !== "true";
    full.setAttribute("aria-pressed", String(pressed));
    view.table.classList.toggle("full", pressed);
  });
  const csv = el("button", { type: "button" }, message("Copy CSV"));
  const json = el("button", { type: "button" }, message("Copy JSON"));
  copies(csv, () => toCsv(rows));
  copies(json, () => toJson(rows));
  const hasText = rows.columns.some((column) => column.kind === "text");
  const hasStrings = rows.columns.some((column) => column.strings);
  const filter = filterMenu(rows);
  const selects = [...rows.filters].flatMap(([key, all]) => {
    const column = rows.column(key);
    return column ? [{ key, node: filterSelect(rows, column, all) }] : [];
  });
  const tools = [
    hasStrings && search,
    ...selects.map(({ node }) => node),
    filter.node,
    columnMenu(view).node,
    hasText && full,
    csv,
    json,
    total,
    chips,
  ];
  section.querySelector(".list-tools")?.append(...tools.filter(Boolean));
  const remove = (change) => {
    change();
    filter.button.focus();
  };
  const show = () => {
    const [shown, all] = [rows.order.length, rows.listable().length];
    total.textContent = message("{shown} of {all}", {
      shown: written(shown, "count"),
      all: written(all, "count"),
    });
    chips.replaceChildren(
      ...[...rows.ranges].map(([key, range]) =>
        chip(between(rows, key, range), () => remove(() => rows.limit(key, null))),
      ),
      ...[...rows.words].map(([key, words]) =>
        chip(message("{name}: {value}", { name: nameOf(rows, key), value: words }), () =>
          remove(() => rows.require(key, "")),
        ),
      ),
    );
    for (const { key, node } of selects) node.value = rows.words.get(key) ?? "";
    if (document.activeElement !== search && searchable(search.value.trim()) !== rows.query) {
      search.value = rows.query;
    }
  };
  rows.listeners.add(show);
  show();
}

/** @param {string} words @param {() => void} remove */
function chip(words, remove) {
  return el(
    "button",
    {
      type: "button",
      dir: "auto",
      "aria-label": message("Remove the filter {words}", { words }),
      onclick: remove,
    },
    `${words} ✕`,
  );
}

/** @param {Rows} rows @param {string} key */
function nameOf(rows, key) {
  return rows.column(key)?.label ?? key;
}

/** @param {Rows} rows @param {string} key @param {[number, number]} range */
function between(rows, key, [low, high]) {
  const kind = rows.column(key)?.written;
  const places = { name: nameOf(rows, key), low: written(low, kind), high: written(high, kind) };
  if (low === high) return message("{name} {low}", places);
  if (!Number.isFinite(high)) return message("{name} from {low}", places);
  if (!Number.isFinite(low)) return message("{name} to {high}", places);
  return message("{name} from {low} to {high}", places);
}

/** Creates a select of a column's values. @param {Rows} rows @param {import("./rows.js").Column} column @param {string} all */
function filterSelect(rows, column, all) {
  const texts = [...new Set(column.strings)];
  const names = [...new Set(texts.flatMap((text) => valuesOf(column.key, text)))].sort();
  const options = names.map((name) => el("option", { value: name }, name));
  const select = el(
    "select",
    { "aria-label": column.label },
    el("option", { value: "" }, all),
    ...options,
  );
  select.addEventListener("change", () => rows.require(column.key, select.value));
  return select;
}

/** Creates the menu in which filters on one column at a time are edited. @param {Rows} rows */
function filterMenu(rows) {
  let current =
    rows.column("reward")?.key ??
    rows.columns.find((column) => column.numbers)?.key ??
    rows.columns[0].key;
  return menu(message("Filter"), (sheet) => {
    const options = grouped(rows.columns, ({ key, label }) =>
      el("option", { value: key, selected: key === current }, label),
    );
    const groups = options
      .map(([name, items]) => (name ? el("optgroup", { label: name }, ...items) : items))
      .flat();
    const pick = el("select", {}, ...groups);
    const fields = el("div", { class: "range" });
    const show = () => {
      const column = /** @type {import("./rows.js").Column} */ (rows.column(current));
      const inputs = column.numbers ? rangeInputs(rows, column) : [wordsInput(rows, column)];
      fields.replaceChildren(...inputs.map(([word, input]) => el("label", {}, word, input)));
    };
    pick.addEventListener("change", () => {
      current = pick.value;
      show();
    });
    sheet.replaceChildren(el("label", {}, message("Column"), pick), fields);
    show();
  });
}

/**
 * Groups columns by their heading in menus, computed figures first.
 * @param {import("./rows.js").Column[]} columns
 * @param {(column: import("./rows.js").Column) => any} make
 * @returns {[string, any[]][]}
 */
function grouped(columns, make) {
  /** @type {Map<string, any[]>} */
  const found = new Map([["", []]]);
  for (const column of columns) {
    const group = column.group ?? "";
    if (!found.has(group)) found.set(group, []);
    found.get(group)?.push(make(column));
  }
  return [...found];
}

/** Creates the filter of a text column: a select for few values, else a text field. */
function wordsInput(rows, column) {
  const current = rows.words.get(column.key) ?? "";
  const whole = rows.filters.has(column.key);
  const distinct = new Set();
  for (const text of column.strings ?? []) {
    for (const value of valuesOf(column.key, text)) distinct.add(value);
    if (distinct.size > MAX_OPTIONS && !whole) break;
  }
  // A part of a value would find nothing where whole values are compared.
  const few =
    whole ||
    (distinct.size <= MAX_OPTIONS &&
      [...distinct].every((text) => text.length <= MAX_OPTION_CHARS));
  const any = el("option", { value: "" }, message("anything"));
  const option = (text) =>
    el("option", { value: text, selected: [text, text.toLowerCase()].includes(current) }, text);
  const input = few
    ? el(
        "select",
        { "aria-label": message("{column} contains", { column: column.label }) },
        any,
        ...[...distinct].sort().map(option),
      )
    : el("input", {
        type: "text",
        "aria-label": message("{column} contains", { column: column.label }),
        value: current,
      });
  input.addEventListener("input", () => rows.require(column.key, input.value.trim()));
  return [message("contains"), input];
}

/** @param {Rows} rows @param {import("./rows.js").Column} column */
function rangeInputs(rows, column) {
  const finite = /** @type {Float64Array} */ (column.numbers).filter(Number.isFinite);
  const ends = [Math.min, Math.max].map((most) => finite.reduce((a, b) => most(a, b), finite[0]));
  const current = rows.ranges.get(column.key) ?? [-Infinity, Infinity];
  const labels = [
    message("{column} from", { column: column.label }),
    message("{column} to", { column: column.label }),
  ];
  const inputs = labels.map((label, k) => {
    const input = el("input", {
      type: "number",
      step: "any",
      placeholder: finite.length ? written(ends[k]) : "",
      "aria-label": label,
    });
    if (Number.isFinite(current[k])) input.value = String(current[k]);
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
  return [
    [message("from"), inputs[0]],
    [message("to"), inputs[1]],
  ];
}

/** @param {import("./table.js").TableView} view */
function columnMenu(view) {
  return menu(message("Columns"), (sheet) => {
    const boxes = grouped(view.rows.columns.slice(1), (column) => {
      const box = el("input", { type: "checkbox" });
      box.checked = column.shown;
      box.addEventListener("change", () => view.showColumn(column.key, box.checked));
      const unit = column.unit && el("span", { class: "unit" }, ` ${column.unit}`);
      return el("label", { title: column.help }, box, column.label, unit);
    });
    sheet.replaceChildren(
      ...boxes.flatMap(([name, items]) =>
        name ? [el("fieldset", {}, el("legend", {}, name), ...items)] : items,
      ),
    );
  });
}
