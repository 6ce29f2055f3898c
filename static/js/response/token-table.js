/** A folded table of all metrics of all tokens, built when it is first opened. */

/** @import { Column, NumberColumn } from "../list/rows.js" */
/** @import { Metric } from "../shared/types.d.ts" */
/** @import { Scale } from "./metrics.js" */

import { Rows } from "../list/rows.js";
import { TableView, headerCell } from "../list/table.js";
import { mountToolbar } from "../list/toolbar.js";
import { el } from "../shared/dom.js";
import { message } from "../shared/words.js";
import { visible } from "./token-text.js";

/**
 * @typedef {object} Source of the values of a response's tokens, and of their colours
 * @property {(metric: Metric) => Float64Array} values
 * @property {(metric: Metric) => Scale} scale
 */

export class TokenTable {
  /**
   * @param {string[]} texts
   * @param {Metric[]} metrics
   * @param {Source} source
   * @param {{pick: (i: number) => void, href: (i: number) => string, signal: AbortSignal}} options
   */
  constructor(texts, metrics, source, { pick, href, signal }) {
    this.columns = tokenColumns(texts, metrics, source);
    this.byKey = new Map(metrics.map((metric) => [metric.key, metric]));
    this.source = source;
    this.size = texts.length;
    this.at = -1;
    /** @type {TableView | null} */
    this.view = null;
    /** @type {import("../list/table.js").Options} */
    this.options = {
      open: pick,
      href,
      signal,
      cellClass: (column, i) => this.cellClass(column, i),
    };
    this.node = el(
      "details",
      { class: "token-table" },
      el("summary", {}, message("Every metric of every token")),
    );
    this.node.addEventListener("toggle", () => this.node.open && this.build());
    addEventListener("beforeprint", () => this.build(), { signal });
  }

  build() {
    if (this.view) return;
    const caption = message("Every metric of every token");
    const table = el(
      "table",
      {},
      el("caption", {}, caption),
      el(
        "colgroup",
        {},
        ...this.columns.map(({ key, kind }) => el("col", { class: kind, "data-key": key })),
      ),
      el("thead", {}, el("tr", {}, ...this.columns.map(headerCell))),
      el("tbody"),
    );
    const box = el("div", { class: "scroll", role: "region", "aria-label": caption }, table);
    const section = el("div", { class: "list" }, el("div", { class: "list-tools" }), box);
    this.node.append(section);
    const rowIds = Array.from({ length: this.size }, (_, i) => String(i));
    const rows = new Rows(this.columns, this.size);
    this.view = new TableView(
      section,
      { rows, nodes: rowIds.map(() => null), rowIds },
      this.options,
    );
    mountToolbar(section, this.view);
    this.view.render();
    this.view.select(this.at);
  }

  /** Updates the colours of the cells after the scale changed. */
  recolour() {
    if (!this.view) return;
    this.view.nodes.fill(null);
    this.view.render();
    this.view.select(this.at);
  }

  /**
   * Returns the class of a cell's colour, "" for what is not a metric.
   * @param {NumberColumn} column
   * @param {number} i
   */
  cellClass({ key, numbers }, i) {
    const metric = this.byKey.get(key);
    return metric ? this.source.scale(metric).className(numbers[i]) : "";
  }

  /** @param {number} i */
  select(i) {
    this.at = i;
    this.view?.select(i);
  }
}

/** @param {string[]} texts @param {Metric[]} metrics @param {Source} source @returns {Column[]} */
function tokenColumns(texts, metrics, { values }) {
  const common = { unit: "", group: "", help: "", term: "", shown: true };
  return [
    {
      ...common,
      key: "n",
      label: message("Position"),
      kind: "number",
      written: "count",
      numbers: Float64Array.from(texts.keys()),
      strings: null,
    },
    {
      ...common,
      key: "text",
      label: message("Token"),
      kind: "token",
      written: "number",
      numbers: null,
      strings: texts.map((text) => visible(text).trim() || "·"),
    },
    ...metrics.map((metric) => ({
      ...common,
      ...metric,
      term: `token.${metric.key}`,
      kind: "number",
      written: /** @type {const} */ ("number"),
      numbers: values(metric),
      strings: null,
    })),
  ];
}
