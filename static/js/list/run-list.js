/** The list of all shown responses of the run; whole texts are loaded when needed. */

import { Panel } from "../response/panel.js";
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

/**
 * Makes the list interactive; until all rows are unpacked, it shows the rendered ones.
 * @param {HTMLElement} root
 * @param {HTMLElement} section
 * @param {string} packed
 * @param {import("../shared/address.js").Address} address
 * @param {AbortSignal} signal
 */
export async function mountRunList(root, section, packed, address, signal) {
  const data = JSON.parse(new TextDecoder().decode(await unpack(packed)));
  if (signal.aborted) return null;
  const read = readTable(section, data);
  const { rows, rowIds } = read;
  rows.defaultSort = [{ key: "worth", down: false }];
  /** Step → its data, for steps that were opened. @type {Map<number, Promise<any>>} */
  const loaded = new Map();
  const ofStep = (step) => {
    if (!loaded.has(step))
      loaded.set(
        step,
        textsOfStep(step).then((texts) => forPanel(texts, data, rowIds)),
      );
    return /** @type {Promise<any>} */ (loaded.get(step));
  };
  const hrefOf = (i) =>
    data.address.replace("{step}", data.values.step[i]).replace("{n}", data.n[i]);
  const open = (i) => {
    if (i !== null && i < 0) return; // not in the list
    const replace = address.get("r") !== null && i !== null;
    address.set({ r: i === null ? null : rowIds[i], turn: null }, { push: !replace });
  };
  const search = new Search(rows, data, ofStep);
  const text = (column, i) => search.excerpt(column, i);
  const view = new TableView(section, read, { href: hrefOf, open, signal, text });
  const panel = new Panel(/** @type {HTMLElement} */ (root.querySelector("section.response")), {
    data,
    rows,
    packed: "",
    address,
    go: open,
    signal,
    locate: async (i) => {
      const part = await ofStep(data.values.step[i]);
      return { data: part, at: part.n.indexOf(data.n[i]) };
    },
    rowOf: (part, at) => rowIds.indexOf(`${part.step}-${part.n[at]}`),
    links: (part, at) => [
      el(
        "a",
        {
          class: "related",
          href: data.address.replace("{step}", part.step).replace("{n}", part.n[at]),
        },
        message("Tokens and charts, step {step}", { step: part.step }),
      ),
      el(
        "a",
        { class: "related", href: data.prompt.replaceAll("{prompt}", part.prompts[at]) },
        message("All responses to this prompt"),
      ),
    ],
  });
  mountToolbar(section, view);
  section.querySelector(".list-tools")?.append(search.note);
  keepInUrl(rows, address, signal);
  return { section, rows, view, panel, open };
}

/** Returns a step's data for the response panel: its texts, and figures from the list. */
function forPanel(
  texts,
  { columns, strings, values: { step, prompt_id, worth, ...values } },
  rowIds,
) {
  const places = texts.n.map((n) => rowIds.indexOf(`${texts.step}-${n}`));
  const ofStep = (all) =>
    Object.fromEntries(
      Object.entries(all).map(([key, column]) => [
        key,
        places.map((place) => column[place] ?? null),
      ]),
    );
  const row = message("Step {step}, response {n}", { step: texts.step, n: "{n}" });
  return {
    ...texts,
    columns,
    values: ofStep(values),
    strings: ofStep(strings),
    ranks: {},
    titles: { row },
  };
}

/** Searches whole texts after loading them, and returns excerpts around the matches. */
class Search {
  constructor(rows, data, ofStep) {
    this.rows = rows;
    this.data = data;
    this.ofStep = ofStep;
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
    const absent = data.total - rows.size;
    if (searching)
      this.loading ??= this.load().catch((error) => {
        console.warn(error);
        this.status = message(
          "The texts could not be loaded: only what the list shows is searched.",
        );
        this.queryChanged();
      });
    const unshown = absent
      ? plural(
          "{count} response that the report does not show is not searched.",
          "{count} responses that the report does not show are not searched.",
          absent,
          { count: written(absent, "count") },
        )
      : "";
    this.note.textContent = searching ? this.status || unshown : "";
  }

  async load() {
    const { rows, data } = this;
    this.status = message("Loading the texts…");
    const steps = [...new Set(data.values.step)];
    const parts = new Map(
      await Promise.all(
        steps.map(async (step) => /** @type {[number, any]} */ ([step, await this.ofStep(step)])),
      ),
    );
    const at = new Map(
      [...parts].map(([step, part]) => [step, new Map(part.n.map((n, k) => [n, k]))]),
    );
    const texts = rows.columns.filter(({ key }) => data.texts[key]);
    for (let i = 0; i < rows.size; i += 1) {
      const part = parts.get(data.values.step[i]);
      const k = at.get(data.values.step[i])?.get(data.n[i]);
      for (const { key, strings } of texts) strings[i] = part.texts[key]?.[k] ?? strings[i];
      this.turns.push((part.conversation?.[data.n[i]] ?? []).map(textOfTurn).join("\n"));
    }
    this.status = "";
    rows.haystack = null;
    const joined = rows.texts();
    this.turns.forEach((text, i) => (joined[i] += ` ${searchable(text)}`));
    rows.update();
  }

  /** Returns the part of a text to show in a cell: around the match, else the beginning. */
  excerpt(column, i) {
    const text = column.strings[i];
    const beginning = this.data.texts[column.key]?.[i] ?? text;
    const { query } = this.rows;
    if (!query || !text) return shortened(beginning, 0);
    const own = searchable(text).indexOf(query);
    if (own >= 0) return shortened(text.replace(/\s+/g, " "), own);
    const turns = column.key === "response" ? (this.turns[i] ?? "").replace(/\s+/g, " ") : "";
    const inTurns = turns.toLowerCase().indexOf(query);
    return inTurns < 0 ? shortened(beginning, 0) : shortened(turns, inTurns);
  }
}

/** @param {any} turn */
function textOfTurn({ text, thinking = "", calls = [], error = "" }) {
  return [thinking, text, error, ...calls.flat()].filter(Boolean).join("\n");
}

/** Cuts a text to the part around index `at`. @param {string | null} text @param {number} at */
function shortened(text, at) {
  if (text === null) return null;
  const from = at > SHOWN_CHARS - BEFORE_MATCH ? at - BEFORE_MATCH : 0;
  const part = text.slice(from, from + SHOWN_CHARS).trimStart();
  return (from ? "…" : "") + part + (from + SHOWN_CHARS < text.length ? "…" : "");
}
