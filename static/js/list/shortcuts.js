/** One quiet row above a list: the presets with their counts; and the chips of the search scopes. */

/** @import { Preset } from "../shared/types.d.ts" */
/** @import { Scope } from "./query.js" */
/** @import { Rows } from "./rows.js" */

import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { marked, message } from "../shared/words.js";
import { countsOf, isPressed, press } from "./presets.js";

/** @type {Record<Scope, string>} */
const SCOPE_LABELS = {
  prompt: marked("Prompt"),
  response: marked("Response"),
  tools: marked("Tools"),
};

/** Returns the names of scopes in lower case, English and translated. @param {Rows} rows */
export function scopeNames(rows) {
  /** @type {Map<string, Scope>} */
  const names = new Map();
  for (const scope of rows.scopes) {
    names.set(scope, scope);
    names.set(message(SCOPE_LABELS[scope]).toLowerCase(), scope);
  }
  return names;
}

/**
 * Creates the chips that limit the search to a part of the rows; null if there is one part only.
 * @param {Rows} rows
 * @returns {HTMLElement | null}
 */
export function scopeChips(rows) {
  if (rows.scopes.length < 2) return null;
  const chips = rows.scopes.map((scope) => {
    const chip = counted(message(SCOPE_LABELS[scope]));
    chip.button.addEventListener("click", () =>
      rows.search(rows.query, rows.scope === scope ? "" : scope),
    );
    return { scope, ...chip };
  });
  const show = () => {
    const counts = rows.query ? rows.scopeCounts() : [];
    chips.forEach(({ scope, button, count }, k) => {
      button.setAttribute("aria-pressed", String(rows.scope === scope));
      count.textContent = rows.query ? written(counts[k], "count") : "";
    });
  };
  rows.listeners.add(show);
  show();
  return group(message("Search in"), "scopes", chips);
}

/**
 * Creates the buttons of presets; null without any.
 * @param {Rows} rows
 * @param {Preset[]} presets
 * @returns {HTMLElement | null}
 */
export function presetButtons(rows, presets) {
  if (!presets.length) return null;
  const chips = presets.map((preset) => {
    const chip = counted(preset.label, preset.help);
    chip.button.addEventListener("click", () => press(preset, presets, rows));
    return { preset, ...chip };
  });
  const show = () => {
    const counts = countsOf(presets, rows);
    chips.forEach(({ preset, button, count }, k) => {
      button.setAttribute("aria-pressed", String(isPressed(preset, rows)));
      count.textContent = written(counts[k], "count");
    });
  };
  rows.listeners.add(show);
  show();
  return group(message("Show only"), "presets", chips);
}

/**
 * Makes buttons of labels with counts, each of which lists the rows with an id, too.
 * @param {HTMLElement} node contains a `[data-level]` for each id, with its count in `.hits`
 * @param {Rows} rows
 * @param {string} key column of the ids
 */
export function makeChips(node, rows, key) {
  const chips = [...node.querySelectorAll("[data-level]")].map((label) => {
    const id = /** @type {HTMLElement} */ (label).dataset.level ?? "";
    const properties = { type: "button", class: label.className, "aria-pressed": "false" };
    const button = el("button", properties, ...label.childNodes);
    button.addEventListener("click", () => rows.toggleOnly(key, id));
    return { id, button, count: button.querySelector(".hits") };
  });
  const ids = rows.column(key)?.ids ?? [];
  const show = () => {
    /** @type {Map<string, number>} */
    const counts = new Map();
    for (const i of rows.passing(new Set([key]))) counts.set(ids[i], (counts.get(ids[i]) ?? 0) + 1);
    for (const { id, button, count } of chips) {
      button.setAttribute("aria-pressed", String(rows.only.get(key)?.has(id) ?? false));
      if (count) count.textContent = written(counts.get(id) ?? 0, "count");
    }
  };
  rows.listeners.add(show);
  show();
  node.replaceWith(group(message("Show only"), "levels", chips));
}

/** @param {string} label @param {string} [title] */
function counted(label, title) {
  const count = el("span", { class: "hits" });
  const properties = { type: "button", "aria-pressed": "false", title };
  return { button: el("button", properties, label, " ", count), count };
}

/** @param {string} label @param {string} name @param {{button: HTMLElement}[]} chips */
function group(label, name, chips) {
  return el(
    "div",
    { class: `shortcuts ${name}`, role: "group", "aria-label": label },
    ...chips.map(({ button }) => button),
  );
}
