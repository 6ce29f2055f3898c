/** Texts in cells: what differs between rows, how a cut text ends, and where the search hit. */

/** @import { Column, Hit, Rows } from "./rows.js" */
/** @import { Shown } from "./text-parts.js" */

import { el } from "../shared/dom.js";
import { message } from "../shared/words.js";
import { excerptAround } from "./query.js";
import { valuesOf } from "./rows.js";
import { partsOf } from "./text-parts.js";

/**
 * @typedef {object} TextOptions
 * @property {(column: Column, i: number) => Shown | null} [ends] what is shown of both ends of a
 *   text, null for its beginning
 * @property {(column: Column, i: number) => string | null} [beginning] text to show without a hit,
 *   if it is not the whole one
 */

/**
 * @typedef {object} Look how the table is shown
 * @property {boolean} isFull whether cells show whole texts
 * @property {Set<string>} visible keys of the columns in sight
 */

export class CellTexts {
  /** @param {Rows} rows @param {TextOptions} options */
  constructor(rows, { ends = () => null, beginning }) {
    this.rows = rows;
    this.ends = ends;
    this.beginning = beginning;
    /** @type {WeakMap<Element, string>} what a cell shows now, if it is not what it was made with */
    this.shown = new WeakMap();
  }

  /**
   * Returns the content of a cell's text without a search.
   * @param {Column} column
   * @param {number} i
   * @returns {(HTMLElement | string | false)[]}
   */
  plain(column, i) {
    const whole = column.strings?.[i] ?? "";
    const own = this.beginning?.(column, i) ?? whole;
    const text = valuesOf(column.key, own).join(", ");
    const shown = this.ends(column, i);
    const { shared, head, middle, end } = partsOf(text, column.prefixes ?? [], shown);
    const hidden = shared !== "" && el("span", { class: "shared" }, shared);
    if (!end) return [hidden, head];
    return [
      hidden,
      head !== "" && el("span", { class: "head" }, head),
      middle !== "" && el("span", { class: "middle" }, middle),
      el("span", { class: "end" }, el("span", {}, end)),
    ];
  }

  /**
   * Shows in a cell the part around a hit of the search, or its text without one.
   * @param {Element} cell
   * @param {Column} column
   * @param {number} i
   * @param {Look} look
   */
  update(cell, column, i, look) {
    const clamp = isText(column, i) && cell.querySelector(".clamp");
    if (!clamp) return;
    const hit = this.hitIn(column, i, look.isFull);
    const { state, content } = hit ? this.found(hit, column, i, look) : this.usual(column, i);
    if ((this.shown.get(cell) ?? "") === state) return;
    this.shown.set(cell, state);
    fill(clamp, content());
  }

  /** Returns what a cell shows without a hit. @param {Column} column @param {number} i */
  usual(column, i) {
    return { state: "", content: () => this.plain(column, i) };
  }

  /**
   * Returns what a cell shows of a hit, with a name by which it is recognized.
   * @param {Hit} hit
   * @param {Column} column
   * @param {number} i
   * @param {Look} look
   */
  found(hit, column, i, look) {
    const isSeen = hit.place !== column.key && look.visible.has(hit.place);
    return {
      state: `${hit.place} ${hit.at} ${hit.text.length} ${isSeen}`,
      content: () => this.around(hit, column, isSeen ? i : null),
    };
  }

  /**
   * Returns the part around a hit, and where it is.
   * @param {Hit} hit
   * @param {Column} column of the cell that shows it
   * @param {number | null} row whose own text is shown, as another cell shows the hit
   */
  around(hit, column, row) {
    const where = hit.place === column.key ? "" : this.whereOf(hit.place);
    if (!where) return ownExcerpt(hit, column);
    const excerpt =
      row === null
        ? excerptAround(hit.text, hit.at)
        : excerptAround(this.beginning?.(column, row) ?? column.strings?.[row] ?? "", 0);
    return [el("span", { class: "where" }, where), " ", excerpt];
  }

  /**
   * Returns the hit that a cell shows: its own, and in the cell of the answer one elsewhere.
   * @param {Column} column
   * @param {number} i
   * @param {boolean} isFull
   * @returns {Hit | null}
   */
  hitIn(column, i, isFull) {
    const { rows } = this;
    if (!rows.query) return null;
    const hit = column.key === "response" ? rows.hit(i) : rows.hitOfColumn(column, i);
    // A whole text shows its own hits.
    return isFull && hit?.place === column.key ? null : hit;
  }

  /** Says in which part of a row a hit is, "" for the answer. @param {string} place */
  whereOf(place) {
    /** @type {Record<string, string>} */
    const known = {
      turn: "",
      prompt: message("in the prompt"),
      ref_response: message("in the reference response"),
      ground_truth: message("in the ground truth"),
      thinking: message("in the thinking"),
      call: message("in a tool call"),
      output: message("in a tool's output"),
      later: message("in a later turn"),
    };
    return known[place] ?? message("in {column}", { column: this.rows.column(place)?.label ?? "" });
  }
}

/** Returns whether the cell of row i has a text. @param {Column} column @param {number} i */
function isText({ kind, strings }, i) {
  return kind === "text" && typeof strings?.[i] === "string";
}

/** @param {Element} clamp @param {(HTMLElement | string | false)[]} content */
function fill(clamp, content) {
  clamp.replaceChildren(...content.filter((part) => part !== false));
}

/**
 * Returns the part of a cell's own text around a hit, without the beginning that rows share unless
 * the hit is in it.
 * @param {Hit} hit
 * @param {Column} column
 */
function ownExcerpt({ text, at }, { prefixes = [] }) {
  // The text of a hit is in one line.
  const inOneLine = prefixes.map((prefix) => prefix.replace(/\s+/g, " "));
  const { shared } = partsOf(text, inOneLine, null);
  if (at < shared.length) return [excerptAround(text, at)];
  const rest = excerptAround(text.slice(shared.length), at - shared.length);
  return shared ? [el("span", { class: "shared" }, shared), rest] : [rest];
}
