/** The list of all shown responses of the run; whole texts are loaded when needed. */

/** @import { Address } from "../shared/address.js" */
/** @import { PanelData, RunListData, StepTexts } from "../shared/types.d.ts" */
/** @import { Rows } from "./rows.js" */

import { Panel } from "../response/panel.js";
import { carried } from "../response/same-prompt.js";
import { format } from "../shared/address.js";
import { unpack } from "../shared/data.js";
import { el } from "../shared/dom.js";
import { textsOfStep } from "../shared/texts.js";
import { message } from "../shared/words.js";
import { readTable } from "./read-table.js";
import { fieldsOf } from "./conversation-fields.js";
import { endsOfCutOff } from "./presets.js";
import { notSearched, scopesOf } from "./searched.js";
import { TableView } from "./table.js";
import { keepInUrl } from "./table-state.js";
import { mountToolbar } from "./toolbar.js";

/** Columns of the list that say where a response is, not what it is like. */
const PLACES = ["step", "prompt_id", "worth"];

/**
 * Makes the list interactive; until all rows are unpacked, it shows the rendered ones.
 * @param {HTMLElement} root
 * @param {HTMLElement} section
 * @param {Address} address
 * @param {AbortSignal} signal
 */
export async function mountRunList(root, section, address, signal) {
  const packed = root.querySelector("script.list-data")?.textContent ?? "";
  /** @type {RunListData} */
  const data = JSON.parse(new TextDecoder().decode(await unpack(packed)));
  if (signal.aborted) return null;
  const read = readTable(section, data);
  const { rows, rowIds } = read;
  rows.defaultSort = [{ key: "worth", down: false }];
  const steps = new Steps(data, rowIds);
  const presets = data.presets ?? [];
  rows.scopes = scopesOf(rows, []);
  const search = new Search(rows, data, steps);
  /** @param {number | null} i row to open, null to close the panel */
  const open = (i) => {
    const isListed = i === null || i >= 0;
    if (!isListed) return;
    const replace = address.get("r") !== null && i !== null;
    const r = i === null ? null : rowIds[i];
    address.set({ r, token: null, turn: null, quote: null }, { push: !replace });
  };
  const view = new TableView(section, read, {
    href: (i) => addressOf(data, data.values.step[i], data.n[i]),
    open,
    signal,
    texts: {
      ends: endsOfCutOff(presets, rows),
      // The whole texts are loaded with the first search.
      beginning: (column, i) => data.texts[column.key]?.[i] ?? null,
    },
  });
  const panel = new Panel(/** @type {HTMLElement} */ (root.querySelector("section.response")), {
    data: null,
    rows,
    address,
    go: open,
    signal,
    locate: (i) => steps.locate(i),
    rowOf: (part, at) => rowIds.indexOf(`${part.step}-${part.n[at]}`),
    hrefTo: ([step, n]) => {
      const id = `${step}-${n}`;
      if (!rowIds.includes(id)) return addressOf(data, step, n);
      return format(address.path, new URLSearchParams([["r", id], ...carried(address)]));
    },
    stepLink: (part, at) => stepLink(data, part.step, part.n[at]),
  });
  mountToolbar(section, view, presets);
  section.querySelector(".list-tools")?.append(search.note);
  keepInUrl(rows, address, signal);
  return { section, rows, view, panel, open };
}

/**
 * Returns the address of a response.
 * @param {RunListData} data
 * @param {number | string | null} step
 * @param {number} n
 */
function addressOf(data, step, n) {
  return data.address.replace("{step}", String(step)).replace("{n}", String(n));
}

/**
 * Returns the link to a response on the page of its step.
 * @param {RunListData} data
 * @param {string} step
 * @param {number} n
 */
function stepLink(data, step, n) {
  const href = addressOf(data, step, n);
  return el("a", { class: "related to-step", href }, message("Step {step}", { step }));
}

/** The data of steps for the response panel, each loaded once. */
class Steps {
  /** @param {RunListData} data @param {string[]} rowIds */
  constructor(data, rowIds) {
    this.list = data;
    this.rowIds = rowIds;
    /** @type {Map<number, Promise<PanelData>>} */
    this.loaded = new Map();
  }

  /** @param {number} step */
  load(step) {
    const known = this.loaded.get(step);
    if (known) return known;
    const loading = textsOfStep(step).then((texts) => this.forPanel(texts));
    this.loaded.set(step, loading);
    return loading;
  }

  /** Returns the data of row i's step, and its index in them. @param {number} i */
  async locate(i) {
    const data = await this.load(stepOf(this.list, i));
    return { data, at: data.n.indexOf(this.list.n[i]) };
  }

  /**
   * Returns a step's data for the panel: its texts, and figures from the list.
   * @param {StepTexts} texts
   * @returns {PanelData}
   */
  forPanel(texts) {
    const { columns, strings, values } = this.list;
    const places = texts.n.map((n) => this.rowIds.indexOf(`${texts.step}-${n}`));
    const figures = Object.entries(values).filter(([key]) => !PLACES.includes(key));
    return {
      ...texts,
      columns,
      values: atPlaces(figures, places),
      strings: atPlaces(Object.entries(strings), places),
      ranks: {},
      titles: { row: message("Step {step}, response {n}", { step: texts.step, n: "{n}" }) },
    };
  }
}

/** @param {RunListData} data @param {number} i */
function stepOf(data, i) {
  return /** @type {number} */ (data.values.step[i]);
}

/**
 * Returns columns with the values of some rows only.
 * @template Value
 * @param {[string, (Value | null)[]][]} columns
 * @param {number[]} places of the rows
 */
function atPlaces(columns, places) {
  return Object.fromEntries(
    columns.map(([key, values]) => [key, places.map((place) => values[place] ?? null)]),
  );
}

/** @typedef {{part: PanelData, places: Map<number, number>}} Part data of a step; n → its index */

/** Loads whole texts and conversations for the first search, and says what is not searched. */
class Search {
  /** @param {Rows} rows @param {RunListData} data @param {Steps} steps */
  constructor(rows, data, steps) {
    this.rows = rows;
    this.data = data;
    this.steps = steps;
    /** @type {Promise<void> | null} */
    this.loading = null;
    this.note = el("output", { class: "note", "aria-live": "polite" });
    /** Message while the texts are being loaded, or if some are missing. */
    this.status = "";
    rows.listeners.add(() => this.queryChanged());
  }

  queryChanged() {
    const { rows, data } = this;
    const searching = rows.query || [...rows.words.keys()].some((key) => data.texts[key]);
    if (!searching) {
      this.note.textContent = "";
      return;
    }
    this.loading ??= this.load().catch((error) => {
      console.warn(error);
      this.status = message("The texts could not be loaded: only what the list shows is searched.");
      this.queryChanged();
    });
    this.note.textContent = this.status || notSearched(data.total - rows.size);
  }

  async load() {
    this.status = message("Loading the texts…");
    const { rows, data } = this;
    const parts = await this.loadAll();
    const columns = rows.columns.filter(({ key }) => data.texts[key]);
    const conversations = [];
    for (let i = 0; i < rows.size; i += 1) {
      const { part, places } = /** @type {Part} */ (parts.get(stepOf(data, i)));
      const place = places.get(data.n[i]) ?? -1;
      for (const { key, strings } of columns) {
        if (strings) strings[i] = part.texts[key]?.[place] ?? strings[i];
      }
      conversations.push(part.conversation?.[data.n[i]]);
    }
    this.status = "";
    rows.turns = fieldsOf(conversations);
    rows.forgetTexts();
    rows.update();
  }

  /** @returns {Promise<Map<number, Part>>} */
  async loadAll() {
    /** @type {Map<number, Part>} */
    const parts = new Map();
    const steps = /** @type {Set<number>} */ (new Set(this.data.values.step));
    const loadPart = async (/** @type {number} */ step) => {
      const part = await this.steps.load(step);
      parts.set(step, { part, places: new Map(part.n.map((n, place) => [n, place])) });
    };
    await Promise.all([...steps].map(loadPart));
    return parts;
  }
}
