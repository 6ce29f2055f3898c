/** Metrics × tokens as a table of numbers on colours; only the columns in view exist. */

import { el } from "../shared/dom.js";
import { NAN, exact, written } from "../shared/format.js";
import { visible } from "./token-text.js";
import { message } from "../shared/words.js";

const CELL_PX = 64;
const HEAD_PX = 144;
const MARGIN = 6;

/** @typedef {{label: string, unit: string, values: Float64Array, scale: import("./metrics.js").Scale}} Line */

export class Matrix {
  /**
   * @param {string[]} texts
   * @param {(i: number) => void} pick
   */
  constructor(texts, pick) {
    this.texts = texts;
    this.at = -1;
    /** Columns that are drawn: from this one up to, not including, the other. */
    this.from = -1;
    this.to = -1;
    this.waiting = 0;
    /** @type {Line[]} */
    this.lines = [];
    /** @type {() => Line[]} */
    this.source = () => [];
    this.seen = false;
    this.caption = el("caption", {}, message("Every metric of every token; each row on its own scale, dark where a value is unusual"));
    this.head = el("tr");
    this.body = el("tbody");
    this.table = el("table", { class: "matrix", "aria-colcount": texts.length + 1 }, this.caption);
    this.table.append(el("thead", {}, this.head), this.body);
    this.table.style.width = `${HEAD_PX + CELL_PX * texts.length}px`;
    this.node = el(
      "div",
      { class: "matrix-scroll", tabindex: 0, role: "region", "aria-label": message("Matrix of metrics and tokens") },
      this.table,
    );
    this.node.addEventListener("scroll", () => this.soon(), { passive: true });
    this.table.addEventListener("click", (event) => {
      const i = Number(event.target.closest("[data-i]")?.dataset.i ?? NaN);
      if (!Number.isNaN(i)) pick(i);
    });
    this.resized = new ResizeObserver(() => this.soon());
    this.resized.observe(this.node);
    // Every metric's scale takes a sort of all tokens: that waits until the matrix comes near.
    this.near = new IntersectionObserver(
      ([entry]) => {
        if (!entry.isIntersecting) return;
        this.near.disconnect();
        this.seen = true;
        this.show(this.source);
      },
      { rootMargin: "100px" },
    );
    this.near.observe(this.node);
  }

  unmount() {
    this.resized.disconnect();
    this.near.disconnect();
  }

  /** @param {() => Line[]} source asked once the matrix comes near the view */
  show(source) {
    this.source = source;
    if (!this.seen) return;
    this.lines = source();
    this.from = -1;
    this.render();
  }

  soon() {
    this.waiting ||= requestAnimationFrame(() => {
      this.waiting = 0;
      this.render();
    });
  }

  render() {
    if (!this.seen) return;
    const size = this.texts.length;
    const first = Math.floor(this.node.scrollLeft / CELL_PX) - MARGIN;
    const from = Math.max(0, Math.min(first, size - 1));
    const to = Math.min(size, from + Math.ceil(this.node.clientWidth / CELL_PX) + 2 * MARGIN);
    if (from === this.from && to === this.to) return;
    [this.from, this.to] = [from, to];
    const places = Array.from({ length: to - from }, (_, k) => from + k);
    const cell = (tag, i, props, text) =>
      el(tag, { "data-i": i, "aria-colindex": i + 2, ...props }, text);
    this.head.replaceChildren(
      el("th", { scope: "col" }, message("Metric")),
      gap("th", from),
      ...places.map((i) => cell("th", i, { scope: "col", class: this.at === i && "at" }, visible(this.texts[i]).trim() || "·")),
      gap("th", size - to),
    );
    this.body.replaceChildren(
      ...this.lines.map(({ label, unit, values, scale }) =>
        el(
          "tr",
          {},
          el("th", { scope: "row", title: unit }, label),
          gap("td", from),
          ...places.map((i) => {
            const at = this.at === i ? " at" : "";
            return cell("td", i, { class: scale.className(values[i]) + at, title: exact(values[i]) }, Number.isNaN(values[i]) ? NAN : written(values[i]));
          }),
          gap("td", size - to),
        ),
      ),
    );
  }

  /** @param {number} i */
  select(i) {
    this.at = i;
    const left = i * CELL_PX;
    const seen = this.node.clientWidth - HEAD_PX;
    if (left < this.node.scrollLeft || left + CELL_PX > this.node.scrollLeft + seen) {
      this.node.scrollLeft = Math.max(0, left - seen / 2);
    }
    this.from = -1;
    this.render();
  }
}

/** Keeps the room of columns that are not there. @param {string} tag @param {number} columns */
function gap(tag, columns) {
  const node = el(tag, { class: "gap", "aria-hidden": "true" });
  node.style.width = `${columns * CELL_PX}px`;
  return node;
}
