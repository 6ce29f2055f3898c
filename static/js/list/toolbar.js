/** The toolbar above a list: search, filters, columns, row height, number of rows, copy buttons. */

/** @import { Preset } from "../shared/types.d.ts" */
/** @import { Scope } from "./query.js" */
/** @import { Column, NumberColumn, Range, Rows } from "./rows.js" */
/** @import { TableView } from "./table.js" */

import { copies } from "../shared/copy.js";
import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { menu } from "../shared/menu.js";
import { columnsOf, isPressed } from "./presets.js";
import { parseQuery } from "./query.js";
import { toCsv, toJson, valuesOf } from "./rows.js";
import { presetButtons, scopeChips, scopeNames } from "./shortcuts.js";
import { message } from "../shared/words.js";

/**
 * Maximum number of distinct values of a column to offer them as options instead of a text field.
 */
const MAX_OPTIONS = 30;
const MAX_OPTION_CHARS = 80;

/**
 * @param {HTMLElement} section
 * @param {TableView} view
 * @param {Preset[]} [presets]
 */
export function mountToolbar(section, view, presets = []) {
  const { rows } = view;
  const title = section.querySelector("caption")?.textContent ?? "";
  const names = scopeNames(rows);
  const search = searchField(view, title, names);
  const filter = filterMenu(rows);
  const selects = filterSelects(rows);
  const count = el("output", { class: "count", "aria-live": "polite" });
  const chips = el("div", { class: "chips" });
  const hasText = rows.columns.some((column) => column.kind === "text");
  const hasStrings = rows.columns.some((column) => column.strings);
  const tools = [
    hasStrings ? search : null,
    hasStrings ? scopeChips(rows) : null,
    ...selects.values(),
    filter.node,
    columnMenu(view).node,
    hasText ? rowHeightButton(view) : null,
    copyButton(message("Copy CSV"), () => toCsv(rows)),
    copyButton(message("Copy JSON"), () => toJson(rows)),
    el("div", { class: "shown-rows" }, presetButtons(rows, presets), chips, count),
  ];
  section.querySelector(".list-tools")?.append(...tools.filter((tool) => tool !== null));
  const show = () => {
    count.textContent = countOf(rows);
    // The chip that is pressed is removed, so the focus needs another place.
    const pressed = columnsOf(presets.find((preset) => isPressed(preset, rows)));
    chips.replaceChildren(...filterChips(rows, pressed, () => filter.button.focus()));
    for (const [key, select] of selects) select.value = rows.words.get(key) ?? "";
    const isBeingTyped = document.activeElement === search;
    if (!isBeingTyped && parseQuery(search.value, names).query !== rows.query)
      search.value = rows.query;
  };
  rows.listeners.add(show);
  show();
}

/**
 * @param {TableView} view
 * @param {string} title of the list
 * @param {Map<string, Scope>} names of scopes, which a search may begin with
 */
function searchField(view, title, names) {
  const { rows } = view;
  const field = el("input", {
    type: "search",
    placeholder: message("Search"),
    "aria-label": message("Search {list}", { list: title }),
  });
  // A scope that was typed goes with its name; one that was pressed stays.
  let isTyped = false;
  field.addEventListener("input", () => {
    const { scope, query } = parseQuery(field.value, names);
    const otherwise = isTyped ? "" : rows.scope;
    isTyped = scope !== null;
    rows.search(query, scope ?? otherwise);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") field.blur();
    else if (event.key === "ArrowDown") view.focusRow(0);
    else return;
    // Prevent the browser from clearing the field or scrolling.
    event.preventDefault();
  });
  return field;
}

/** @param {TableView} view */
function rowHeightButton(view) {
  const button = el("button", { type: "button", "aria-pressed": "false" }, message("Full rows"));
  button.addEventListener("click", () => {
    const pressed = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(pressed));
    view.table.classList.toggle("full", pressed);
    view.render(view.shown);
  });
  return button;
}

/** @param {string} label @param {() => string} text */
function copyButton(label, text) {
  const button = el("button", { type: "button" }, label);
  copies(button, text);
  return button;
}

/** @param {Rows} rows */
function countOf(rows) {
  return message("{shown} of {all}", {
    shown: written(rows.order.length, "count"),
    all: written(rows.listable().length, "count"),
  });
}

/**
 * Returns a button for each filter, which removes it.
 * @param {Rows} rows
 * @param {Set<string>} ofPreset columns that the pressed preset filters, whose button removes them
 * @param {() => void} removed called after it
 */
function filterChips(rows, ofPreset, removed) {
  /** @param {string} words @param {() => void} remove */
  const chip = (words, remove) => {
    const label = message("Remove the filter {words}", { words });
    const onclick = () => {
      remove();
      removed();
    };
    const properties = { type: "button", dir: "auto", "aria-label": label, onclick };
    return el("button", properties, `${words} ✕`);
  };
  const ranges = [...rows.ranges].filter(([key]) => !ofPreset.has(key));
  const words = [...rows.words].filter(([key]) => !ofPreset.has(key));
  const ofRanges = ranges.map(([key, range]) =>
    chip(between(rows, key, range), () => rows.limit(key, null)),
  );
  const ofWords = words.map(([key, value]) =>
    chip(message("{name}: {value}", { name: nameOf(rows, key), value }), () =>
      rows.require(key, ""),
    ),
  );
  return [...ofRanges, ...ofWords];
}

/** @param {Rows} rows @param {string} key */
function nameOf(rows, key) {
  return rows.column(key)?.label ?? key;
}

/** Returns a range in words. @param {Rows} rows @param {string} key @param {Range} range */
function between(rows, key, [low, high]) {
  const kind = rows.column(key)?.written;
  const places = { name: nameOf(rows, key), low: written(low, kind), high: written(high, kind) };
  if (low === high) return message("{name} {low}", places);
  if (!Number.isFinite(high)) return message("{name} from {low}", places);
  if (!Number.isFinite(low)) return message("{name} to {high}", places);
  return message("{name} from {low} to {high}", places);
}

/** Returns the selects of columns that are filtered by whole values, by key. @param {Rows} rows */
function filterSelects(rows) {
  /** @type {Map<string, HTMLSelectElement>} */
  const selects = new Map();
  for (const [key, all] of rows.filters) {
    const column = rows.column(key);
    if (column) selects.set(key, filterSelect(rows, column, all));
  }
  return selects;
}

/**
 * Creates a select of a column's values.
 * @param {Rows} rows
 * @param {Column} column
 * @param {string} all
 */
function filterSelect(rows, column, all) {
  const texts = [...new Set(column.strings)];
  const names = new Set(texts.flatMap((text) => valuesOf(column.key, text)));
  const options = [...names].sort().map((name) => el("option", { value: name }, name));
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
  const numeric = rows.columns.find((column) => column.numbers);
  const first = rows.column("reward") ?? numeric ?? rows.columns[0];
  let current = first.key;
  return menu(message("Filter"), (sheet) => {
    const groups = grouped(rows.columns, ({ key, label }) =>
      el("option", { value: key, selected: key === current }, label),
    );
    const options = groups.flatMap(([name, items]) =>
      name ? [el("optgroup", { label: name }, ...items)] : items,
    );
    const pick = el("select", {}, ...options);
    const fields = el("div", { class: "range" });
    const show = () => {
      const column = /** @type {Column} */ (rows.column(current));
      fields.replaceChildren(...filterFields(rows, column));
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
 * @template Item
 * @param {Column[]} columns
 * @param {(column: Column) => Item} make
 * @returns {[string, Item[]][]}
 */
function grouped(columns, make) {
  /** @type {Map<string, Item[]>} */
  const found = new Map([["", []]]);
  for (const column of columns) {
    const group = column.group ?? "";
    const items = found.get(group) ?? [];
    items.push(make(column));
    found.set(group, items);
  }
  return [...found];
}

/** @param {Rows} rows @param {Column} column */
function filterFields(rows, column) {
  if (column.numbers) return rangeFields(rows, /** @type {NumberColumn} */ (column));
  return [el("label", {}, message("contains"), wordsInput(rows, column))];
}

/**
 * Creates the filter of a text column: a select for few values, else a text field.
 * @param {Rows} rows
 * @param {Column} column
 */
function wordsInput(rows, column) {
  const label = message("{column} contains", { column: column.label });
  const current = rows.words.get(column.key) ?? "";
  const values = optionsOf(rows, column);
  const input = values
    ? wordsSelect(label, values, current)
    : el("input", { type: "text", "aria-label": label, value: current });
  input.addEventListener("input", () => rows.require(column.key, input.value.trim()));
  return input;
}

/** @param {string} label @param {string[]} values @param {string} current in lower case or whole */
function wordsSelect(label, values, current) {
  const any = el("option", { value: "" }, message("anything"));
  const options = values.map((value) => {
    const selected = value === current || value.toLowerCase() === current;
    return el("option", { value, selected }, value);
  });
  return el("select", { "aria-label": label }, any, ...options);
}

/**
 * Returns the values to offer for a text column, null if they are too many or too long.
 * @param {Rows} rows
 * @param {Column} column
 */
function optionsOf(rows, column) {
  // A part of a value would find nothing where whole values are compared.
  const isWhole = rows.filters.has(column.key);
  /** @type {Set<string>} */
  const values = new Set();
  for (const text of column.strings ?? []) {
    for (const value of valuesOf(column.key, text)) values.add(value);
    if (values.size > MAX_OPTIONS && !isWhole) return null;
  }
  const areShort = [...values].every((value) => value.length <= MAX_OPTION_CHARS);
  return isWhole || areShort ? [...values].sort() : null;
}

/**
 * Creates the two ends of the filter of a column of numbers.
 * @param {Rows} rows
 * @param {NumberColumn} column
 */
function rangeFields(rows, column) {
  const finite = column.numbers.filter(Number.isFinite);
  const [low, high] = rows.ranges.get(column.key) ?? [-Infinity, Infinity];
  const name = { column: column.label };
  const from = endInput(message("{column} from", name), low, extreme(finite, Math.min));
  const to = endInput(message("{column} to", name), high, extreme(finite, Math.max));
  const apply = () => {
    /** @type {Range} */
    const range = [endOf(from, -Infinity), endOf(to, Infinity)];
    rows.limit(column.key, range.some(Number.isFinite) ? range : null);
  };
  for (const input of [from, to]) input.addEventListener("input", apply);
  return [el("label", {}, message("from"), from), el("label", {}, message("to"), to)];
}

/**
 * Returns the least or largest number, written, "" for none.
 * @param {Float64Array} numbers
 * @param {(a: number, b: number) => number} most
 */
function extreme(numbers, most) {
  return numbers.length ? written(numbers.reduce((a, b) => most(a, b))) : "";
}

/** @param {string} label @param {number} current @param {string} placeholder */
function endInput(label, current, placeholder) {
  const input = el("input", { type: "number", step: "any", placeholder, "aria-label": label });
  if (Number.isFinite(current)) input.value = String(current);
  return input;
}

/** @param {HTMLInputElement} input @param {number} otherwise if it is empty */
function endOf(input, otherwise) {
  return input.value === "" ? otherwise : Number(input.value);
}

/** @param {TableView} view */
function columnMenu(view) {
  return menu(message("Columns"), (sheet) => {
    const groups = grouped(view.rows.columns.slice(1), (column) => columnBox(view, column));
    /** @type {HTMLElement[]} */
    const boxes = [];
    for (const [name, items] of groups) {
      if (name) boxes.push(el("fieldset", {}, el("legend", {}, name), ...items));
      else boxes.push(...items);
    }
    sheet.replaceChildren(...boxes);
  });
}

/** Creates the box that shows or hides a column. @param {TableView} view @param {Column} column */
function columnBox(view, column) {
  const box = el("input", { type: "checkbox" });
  box.checked = column.shown;
  box.addEventListener("change", () => view.showColumn(column.key, box.checked));
  const unit = column.unit && el("span", { class: "unit" }, ` ${column.unit}`);
  return el("label", { title: column.help }, box, column.label, unit);
}
