/** The response panel: one response in full, beside or below the list it came from. */

import { copies } from "./copy.js";
import { decodeTokens, unpack } from "./data.js";
import { el } from "./dom.js";
import { exact, ordinal, written } from "./format.js";
import { textsSection } from "./texts.js";
import { Tip } from "./tip.js";
import { TokenView } from "./tokens.js";

const GLYPHS = { critical: "✕", warning: "▲", info: "i" };

export class Panel {
  /**
   * @param {HTMLElement} node
   * @param {object} given
   * @param {any} given.data the page's row data
   * @param {import("./rows.js").Rows} given.rows
   * @param {string} given.packed base64 of the token data, "" when the page has none
   * @param {import("./address.js").Address} given.address
   * @param {(i: number | null) => void} given.go opens row i, or closes the panel
   */
  constructor(node, { data, rows, packed, address, go }) {
    this.node = node;
    this.data = data;
    this.rows = rows;
    this.packed = packed;
    this.address = address;
    this.go = go;
    /** @type {Promise<import("./data.js").TokenData> | null} */
    this.decoding = null;
    /** @type {TokenView | null} */
    this.tokens = null;
    /** @type {HTMLElement | null} */
    this.place = null;
    /** @type {HTMLButtonElement | null} */
    this.before = null;
    /** @type {HTMLButtonElement | null} */
    this.after = null;
    /** Index of the open row, −1 when closed. */
    this.open = -1;
    this.tip = new Tip(document.body);
    this.stepScales = new Map();
    rows.listeners.add(() => this.showPlace());
  }

  unmount() {
    this.close();
    this.tip.node.remove();
  }

  /** Shows row i of the page's data. @param {number} i */
  async show(i) {
    if (i === this.open) {
      this.tokens?.sync();
      return;
    }
    this.tokens?.unmount();
    this.tokens = null;
    this.open = i;
    const { data } = this;
    const n = data.n[i];
    const text = (key) => this.rows.column(key)?.strings?.[i] ?? null;
    const texts = textsSection(
      { prompt: text("prompt"), response: text("response"), ref_response: text("ref_response"), ground_truth: text("ground_truth") },
      data.turns[n] ?? [],
      { query: this.rows.query, highlights: data.highlights },
    );
    const holder = el("section", { class: "token-view", "aria-label": "Tokens" });
    this.node.replaceChildren(this.head(i, n), ...this.badges(n), this.figures(i), texts.node, holder);
    this.node.hidden = false;
    this.node.setAttribute("aria-label", `Response ${n}`);
    this.node.scrollTop = 0;
    texts.remark();
    this.showPlace();
    await this.showTokens(i, n, holder);
  }

  close() {
    this.open = -1;
    this.tokens?.unmount();
    this.tokens = null;
    this.node.replaceChildren();
    this.node.hidden = true;
  }

  /** @param {number} i @param {number} n */
  head(i, n) {
    const step = (label, way, key) =>
      el("button", { type: "button", title: `Key ${key}`, onclick: () => this.step(way) }, label);
    this.place = el("span", { class: "count" });
    this.before = step("← Previous", -1, "k");
    this.after = step("Next →", 1, "j");
    const where = this.data.where[i];
    const copy = el("button", { type: "button" }, "Copy place in the logs");
    copies(copy, () => where);
    return el(
      "div",
      { class: "response-head" },
      el("h2", {}, `Response ${n}`),
      this.before,
      this.after,
      this.place,
      copy,
      el("span", { class: "place" }, where),
      el("button", { type: "button", class: "close", title: "Key Escape", onclick: () => this.go(null) }, "Close"),
    );
  }

  /** Where the response stands in the list as it is now sorted and filtered. */
  showPlace() {
    if (this.open < 0 || !this.place || !this.before || !this.after) return;
    const { order } = this.rows;
    const at = order.indexOf(this.open);
    this.place.textContent = at < 0 ? "not in the filtered list" : `${at + 1} of ${order.length} listed`;
    this.before.disabled = at === 0 || !order.length;
    this.after.disabled = at === order.length - 1;
  }

  /** To the next (1) or previous (−1) response of the list. @param {number} way */
  step(way) {
    const { order } = this.rows;
    const at = this.open < 0 ? -1 : order.indexOf(this.open);
    const next = at < 0 ? 0 : at + way;
    if (next >= 0 && next < order.length) this.go(order[next]);
  }

  /** @param {number} n */
  badges(n) {
    const found = this.data.badges[n] ?? [];
    if (!found.length) return [];
    const items = found.map(({ severity, title, token }) =>
      el(
        "li",
        {},
        el("span", { class: `severity ${severity}` }, el("span", { class: "glyph", "aria-hidden": "true" }, GLYPHS[severity]), ` ${severity}`),
        ` ${title} `,
        token !== null && el("button", { type: "button", onclick: () => this.tokens?.pick(token) }, `Go to token ${token}`),
      ),
    );
    return [el("ul", { class: "findings" }, ...items)];
  }

  /** Figures with their rank in the whole step, also where the page shows a part of it. */
  figures(i) {
    const items = this.data.columns
      .filter(({ key }) => this.data.values[key] && this.data.values[key][i] !== null)
      .map(({ key, label, unit, help, written: how }) => {
        const value = this.data.values[key][i];
        const rank = this.data.ranks[key]?.[i];
        return el(
          "div",
          { "data-figure": key },
          el("dt", { title: help }, label),
          el(
            "dd",
            {},
            el("span", { title: exact(value) }, written(value, how)),
            unit && el("span", { class: "unit" }, ` ${unit}`),
            rank && el("span", { class: "rank" }, `, ${ordinal(rank)} of ${this.data.total}`),
          ),
        );
      });
    return el("dl", { class: "response-figures" }, ...items);
  }

  /** @param {number} i @param {number} n @param {HTMLElement} holder */
  async showTokens(i, n, holder) {
    if (!this.packed) return;
    this.decoding ??= unpack(this.packed).then(decodeTokens);
    const tokens = await this.decoding;
    if (this.open !== i) return;
    if (!tokens.spans.has(n)) {
      holder.append(el("p", { class: "note" }, "No token values of this response are carried in the report."));
      return;
    }
    const { address, tip, stepScales } = this;
    this.tokens = new TokenView(holder, { data: tokens, n, metrics: this.data.metrics, address, tip, stepScales });
  }
}
