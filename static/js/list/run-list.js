/** The list of all shown responses of the run; whole texts are loaded when needed. */

/** @import { Address } from "../shared/address.js" */
/** @import { PanelData, RunListData, StepTexts, Turn } from "../shared/types.d.ts" */
/** @import { Column, Rows } from "./rows.js" */

import { Panel } from "../response/panel.js";
import { carried } from "../response/same-prompt.js";
import { format } from "../shared/address.js";
import { unpack } from "../shared/data.js";
import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { textsOfStep } from "../shared/texts.js";
import { message, plural } from "../shared/words.js";
import { readTable } from "./read-table.js";
import { searchable } from "./rows.js";
import { TableView } from "./table.js";
import { keepInUrl } from "./table-state.js";
import { mountToolbar } from "./toolbar.js";

/** Maximum number of characters of a text in a cell, and of those before a match. */
const SHOWN_CHARS = 120;
const BEFORE_MATCH = 40;

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
    text: (column, i) => search.excerpt(column, i),
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
  mountToolbar(section, view);
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

/** Searches whole texts after loading them, and returns excerpts around the matches. */
class Search {
  /** @param {Rows} rows @param {RunListData} data @param {Steps} steps */
  constructor(rows, data, steps) {
    this.rows = rows;
    this.data = data;
    this.steps = steps;
    /** @type {Promise<void> | null} */
    this.loading = null;
    /** Text of each row's conversation: turns, tool calls and tool outputs. @type {string[]} */
    this.turns = [];
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
    for (let i = 0; i < rows.size; i += 1) {
      const { part, places } = /** @type {Part} */ (parts.get(stepOf(data, i)));
      const place = places.get(data.n[i]) ?? -1;
      for (const { key, strings } of columns) {
        if (strings) strings[i] = part.texts[key]?.[place] ?? strings[i];
      }
      const turns = part.conversation?.[data.n[i]] ?? [];
      this.turns.push(turns.map(textOfTurn).join("\n"));
    }
    this.status = "";
    rows.haystack = null;
    const texts = rows.texts();
    this.turns.forEach((text, i) => (texts[i] += ` ${searchable(text)}`));
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

  /**
   * Returns the part of a text to show in a cell: around the match, else the beginning.
   * @param {Column} column
   * @param {number} i
   */
  excerpt(column, i) {
    const beginning = this.data.texts[column.key]?.[i] ?? column.strings?.[i] ?? null;
    if (beginning === null) return null;
    return this.match(column, i) ?? shortened(beginning, 0);
  }

  /**
   * Returns the part around the match of the search in a text or its turns, null without one.
   * @param {Column} column
   * @param {number} i
   */
  match(column, i) {
    const text = column.strings?.[i];
    const { query } = this.rows;
    if (!query || !text) return null;
    const inText = searchable(text).indexOf(query);
    if (inText >= 0) return shortened(text.replace(/\s+/g, " "), inText);
    if (column.key !== "response") return null;
    const turns = (this.turns[i] ?? "").replace(/\s+/g, " ");
    const inTurns = turns.toLowerCase().indexOf(query);
    return inTurns < 0 ? null : shortened(turns, inTurns);
  }
}

/** Returns a note on how many responses no search finds, "" for none. @param {number} absent */
function notSearched(absent) {
  if (!absent) return "";
  return plural(
    "{count} response that the report does not show is not searched.",
    "{count} responses that the report does not show are not searched.",
    absent,
    { count: written(absent, "count") },
  );
}

/** @param {Turn} turn */
function textOfTurn({ text, thinking = "", calls = [], error = "" }) {
  return [thinking, text, error, ...calls.flat()].filter(Boolean).join("\n");
}

/** Cuts a text to the part around index `at`. @param {string} text @param {number} at */
function shortened(text, at) {
  const from = at > SHOWN_CHARS - BEFORE_MATCH ? at - BEFORE_MATCH : 0;
  const to = from + SHOWN_CHARS;
  const part = text.slice(from, to).trimStart();
  return (from > 0 ? "…" : "") + part + (to < text.length ? "…" : "");
}
