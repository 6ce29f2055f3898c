/** The list of the shown responses of a step, or of the prompts of a comparison. */

/** @import { Row } from "../charts/spec.d.ts" */
/** @import { Address } from "../shared/address.js" */
/** @import { RowsData } from "../shared/types.d.ts" */
/** @import { Range, Rows } from "./rows.js" */

import { Panel } from "../response/panel.js";
import { format } from "../shared/address.js";
import { el } from "../shared/dom.js";
import { stepsOfRun } from "../shared/run.js";
import { fieldsOf } from "./conversation-fields.js";
import { endsOfCutOff, isOverpaid, trustworthy } from "./presets.js";
import { readTable } from "./read-table.js";
import { notSearched, scopesOf } from "./searched.js";
import { TableView } from "./table.js";
import { keepInUrl } from "./table-state.js";
import { END_ONLY } from "./text-parts.js";
import { mountToolbar } from "./toolbar.js";

/**
 * @typedef {object} ResponseList a list with the panel that shows one of its responses
 * @property {HTMLElement} section
 * @property {Rows} rows
 * @property {TableView} view
 * @property {Panel} panel
 * @property {(i: number | null) => void} open opens row i, or closes the panel
 */

/**
 * @param {HTMLElement} root
 * @param {HTMLElement} section
 * @param {RowsData} data
 * @param {{address: Address, signal: AbortSignal}} page
 */
export function mountStepList(root, section, data, { address, signal }) {
  const read = readTable(section, data);
  const { rows, rowIds } = read;
  const presets = presetsOf(rows, data);
  addScopes(rows, data);
  // Texts of rendered rows are in the table alone.
  for (const { key, strings } of rows.columns) {
    if (data.texts[key] && strings) data.texts[key] = strings;
  }
  /** @param {number | null} i */
  const open = (i) => {
    const r = i === null ? null : data.n[i];
    // Replace, don't push: Back should close the panel, not replay every response.
    const replace = address.get("r") !== null && i !== null;
    address.set({ r, token: null, side: null, turn: null, quote: null }, { push: !replace });
  };
  const view = new TableView(section, read, {
    open,
    href: (i) => format(address.path, new URLSearchParams({ r: rowIds[i] })),
    signal,
    badges: (i) => badgesOf(data, i),
    texts: { ends: data.titles ? endsOfSides : endsOfCutOff(presets, rows) },
  });
  const node = /** @type {HTMLElement} */ (root.querySelector("section.response"));
  const panel = new Panel(node, { data, rows, address, go: open, signal });
  mountToolbar(section, view, presets);
  section.querySelector(".list-tools")?.append(searchNote(rows, data.total - rows.size));
  keepInUrl(rows, address, signal);
  return {
    section,
    rows,
    view,
    panel,
    open,
    /** @param {Set<string>} without */
    chartRows: (without) => chartRows(rows, data, without),
    /** @param {Map<string, Range | null>} ranges */
    brushed: (ranges) => limit(rows, ranges),
  };
}

/**
 * Returns the presets of a step. Among rewards that are not earned, the highest are the bad ones.
 * @param {Rows} rows
 * @param {RowsData} data
 */
function presetsOf(rows, data) {
  const overpaid = isOverpaid(data.step, stepsOfRun());
  const reward = rows.column("reward");
  if (reward && overpaid) reward.badEnd = "high";
  return trustworthy(data.presets ?? [], overpaid);
}

/** Returns what the list of a comparison shows of responses. @param {{key: string}} column */
function endsOfSides({ key }) {
  return key === "response" || key === "ref_response" ? END_ONLY : null;
}

/** @param {Rows} rows @param {RowsData} data */
function addScopes(rows, data) {
  // A comparison lists prompts, whose texts have titles of their own.
  if (data.titles) return;
  rows.turns = fieldsOf(data.n.map((n) => data.conversation?.[n]));
  rows.scopes = scopesOf(rows, rows.turns);
}

/**
 * Creates the note on what a search does not look at.
 * @param {Rows} rows
 * @param {number} absent number of responses that the page does not have
 */
function searchNote(rows, absent) {
  const note = el("output", { class: "note", "aria-live": "polite" });
  rows.listeners.add(() => (note.textContent = rows.query ? notSearched(absent) : ""));
  return note;
}

/**
 * Returns names of the findings that cite response i, each once.
 * @param {RowsData} data
 * @param {number} i
 */
function badgesOf(data, i) {
  const badges = data.badges[data.n[i]] ?? [];
  return [...new Set(badges.map(({ name }) => name))];
}

/**
 * Returns the figures of the listable responses, for charts.
 * @param {Rows} rows
 * @param {RowsData} data
 * @param {Set<string>} without columns whose filters do not count
 * @returns {Row[]}
 */
function chartRows(rows, data, without) {
  const passing = new Set(rows.passing(without));
  const columns = Object.entries(data.values);
  return rows.listable().map((i) => ({
    n: data.n[i],
    ...Object.fromEntries(columns.map(([key, values]) => [key, values[i]])),
    kept: passing.has(i),
  }));
}

/** @param {Rows} rows @param {Map<string, Range | null>} ranges null removes one */
function limit(rows, ranges) {
  for (const [key, range] of ranges) {
    if (range) rows.ranges.set(key, range);
    else rows.ranges.delete(key);
  }
  rows.update();
}
