/** The response panel, which shows one response in full, beside or below the list. */

import { copies } from "../shared/copy.js";
import { menu } from "../shared/menu.js";
import { decodeTokens, unpack } from "../shared/data.js";
import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { stats } from "./stats.js";
import { branchesOf, branchStrip, groupStrip } from "./group.js";
import { hrefOf, samePrompt, samePromptLinks, timelineLink } from "./same-prompt.js";
import { Conversation } from "./conversation.js";
import { textsSection } from "./texts.js";
import { Tip } from "../shared/tip.js";
import { TokenView } from "./tokens.js";
import { marked, message } from "../shared/words.js";

/** Maximum number of characters of a ground truth to show it in the line of figures. */
const SHORT_TRUTH = 80;
const GLYPHS = { critical: "✕", warning: "▲", info: "i" };
/** @type {Record<string, string>} */
const SEVERITIES = {
  critical: marked("critical"),
  warning: marked("warning"),
  info: marked("note"),
};

/** @typedef {{data: any, at: number}} Located row data, and the index of a response in them */

export class Panel {
  /**
   * @param {HTMLElement} node
   * @param {object} given
   * @param {any} given.data the page's row data
   * @param {import("../list/rows.js").Rows} given.rows
   * @param {string} given.packed base64 of the token data, "" when the page has none
   * @param {import("../shared/address.js").Address} given.address
   * @param {(i: number | null) => void} given.go opens row i, or closes the panel
   * @param {AbortSignal} given.signal
   * @param {(i: number) => Located | Promise<Located>} [given.locate] returns the data of row i
   * @param {(data: any, at: number) => number} [given.rowOf] returns the row of a response in such data
   * @param {(data: any, at: number) => (Node | null)[]} [given.links] returns links to related responses
   */
  constructor(node, { data, rows, packed, address, go, signal, locate, rowOf, links }) {
    this.node = node;
    this.data = data;
    this.rows = rows;
    this.packed = packed;
    this.address = address;
    this.go = go;
    /** @type {Promise<import("../shared/data.js").TokenData> | null} */
    this.decoding = null;
    /** @type {TokenView | null} */
    this.tokens = null;
    /** @type {Conversation | null} */
    this.conversation = null;
    const button = (label, key, run, props = {}) =>
      el(
        "button",
        { type: "button", title: message("Key {key}", { key }), onclick: run, ...props },
        label,
      );
    // Reuse the controls of the head for every response, so that they keep the focus.
    this.previous = button(message("← Previous"), "k", () => this.move(-1));
    this.next = button(message("Next →"), "j", () => this.move(1));
    this.closeButton = button(message("Close"), "Escape", () => go(null), { class: "close" });
    this.place = el("output", { class: "count" });
    this.status = el("output", { class: "said" });
    /** Index of the open row, −1 when closed. */
    this.open = -1;
    /** Index of the open response in `data`. */
    this.at = -1;
    this.locate = locate ?? ((i) => ({ data, at: i }));
    this.rowOf = rowOf ?? ((_, at) => at);
    this.links =
      links ?? ((data, at) => [...samePromptLinks(data, at, address), timelineLink(data, at)]);
    this.tip = new Tip(document.body, signal);
    this.stepScales = new Map();
    rows.listeners.add(() => this.showPlace());
    signal.addEventListener("abort", () => this.close());
  }

  /** Shows row i of the page's data. @param {number} i */
  async show(i) {
    if (i === this.open) {
      this.tokens?.sync();
      return;
    }
    this.tokens?.unmount();
    this.tokens = null;
    const was = this.open;
    this.open = i;
    this.node.parentElement?.classList.remove("listing");
    const located = this.locate(i);
    const { data, at } = located instanceof Promise ? await located : located;
    if (this.open !== i) return;
    this.data = data;
    this.at = at;
    const n = data.n[at];
    const text = (key, place = at) => data.texts[key]?.[place] ?? null;
    const turns = data.conversation?.[n];
    this.conversation = turns ? new Conversation(turns, data.errors?.[n] ?? []) : null;
    const truth = text("ground_truth");
    const short =
      truth !== null && truth.trim() !== "" && truth.length <= SHORT_TRUTH && !truth.includes("\n");
    const texts = textsSection(
      {
        prompt: text("prompt"),
        response: turns ? null : text("response"),
        ref_response: text("ref_response"),
        ground_truth: short ? null : truth,
      },
      data.turns[n] ?? [],
      { query: this.rows.query, highlights: data.highlights, titles: data.titles },
    );
    const holder = el("section", { class: "token-view", "aria-label": message("Tokens") });
    const [line, ...folded] = stats(data, at, short ? truth : "");
    const open = (place) => this.go(this.rowOf(data, place));
    const strip = [...branchStrip(data, at, open), ...groupStrip(data, at, { text, open })];
    const focused = /** @type {HTMLElement} */ (document.activeElement);
    const inside = this.node.contains(focused);
    this.node.replaceChildren(
      this.head(n, text),
      ...this.badges(n),
      line,
      ...strip,
      texts.node,
      ...(this.conversation ? [this.conversation.node] : []),
      holder,
      ...folded,
    );
    this.node.hidden = false;
    this.node.setAttribute("aria-label", this.title(n));
    this.node.scrollTop = 0;
    if (was >= 0 && this.node.getBoundingClientRect().top < 0)
      this.node.scrollIntoView({ block: "start" });
    texts.remark();
    this.conversation?.mark(this.rows.query);
    this.showPlace();
    // Re-inserting a focused button blurs it; a disabled one cannot have the focus.
    if (inside)
      (focused.isConnected && !focused.matches(":disabled") ? focused : this.node).focus({
        preventScroll: true,
      });
    const turn = this.address.get("turn");
    if (turn === "error") this.conversation?.error(1);
    else if (turn !== null) this.conversation?.go(Math.min(Number(turn) || 0, turns?.length - 1));
    await this.showTokens(i, n, holder);
  }

  close() {
    this.open = -1;
    this.at = -1;
    this.tokens?.unmount();
    this.tokens = null;
    this.conversation = null;
    this.node.replaceChildren();
    this.node.hidden = true;
    this.node.parentElement?.classList.remove("listing");
  }

  /** @param {number | string} n */
  title(n) {
    const other = this.data.titles?.row;
    return other ? other.replace("{n}", String(n)) : message("Response {n}", { n });
  }

  /** Shows a message that the URL names a response which the report does not show. @param {string} n */
  showMissing(n) {
    this.close();
    this.node.replaceChildren(
      el("div", { class: "response-head" }, el("h2", {}, this.title(n)), this.closeButton),
      el("p", { class: "note" }, message("The report does not include the text of this response.")),
    );
    this.node.hidden = false;
  }

  /** @param {number} n @param {(key: string) => string | null} text */
  head(n, text) {
    const copy = (label, what) => {
      const button = el("button", { type: "button" }, label);
      copies(button, what);
      return button;
    };
    const copyMenu = menu(message("Copy"), (sheet) =>
      sheet.replaceChildren(
        copy(message("Response"), () => text("response") ?? ""),
        copy(message("Link"), () => location.href),
        copy(message("Log location"), () => where),
      ),
    );
    this.status.textContent = "";
    const where = this.data.where[this.at];
    const list = el(
      "button",
      { type: "button", class: "to-list", "aria-pressed": "false" },
      message("List"),
    );
    list.addEventListener("click", () => {
      const on = this.node.parentElement?.classList.toggle("listing") ?? false;
      list.setAttribute("aria-pressed", String(on));
    });
    return el(
      "div",
      { class: "response-head" },
      el("h2", {}, this.title(n)),
      list,
      this.previous,
      this.next,
      this.place,
      this.closeButton,
      el(
        "div",
        { class: "response-more" },
        ...this.links(this.data, this.at).filter(Boolean),
        this.status,
        copyMenu.node,
        el("span", { class: "place" }, where),
      ),
    );
  }

  /** Shows the position of the response in the sorted and filtered list. */
  showPlace() {
    if (this.open < 0) return;
    const { order } = this.rows;
    const at = order.indexOf(this.open);
    this.place.textContent =
      at < 0
        ? message("not in the filtered list")
        : message("{place} of {all} listed", {
            place: written(at + 1, "count"),
            all: written(order.length, "count"),
          });
    this.previous.disabled = at === 0 || !order.length;
    this.next.disabled = at === order.length - 1;
  }

  /** Goes to the next (1) or previous (−1) response of the list. @param {number} delta */
  move(delta) {
    const { order } = this.rows;
    const at = this.open < 0 ? -1 : order.indexOf(this.open);
    const next = at < 0 ? 0 : at + delta;
    if (next >= 0 && next < order.length) this.go(order[next]);
  }

  /** Goes to the next branch of the open response's rollout. */
  nextBranch() {
    const branches = branchesOf(this.data, this.at);
    const next = branches[(branches.indexOf(this.data.n[this.at]) + 1) % branches.length];
    if (next !== undefined) this.go(this.rowOf(this.data, this.data.n.indexOf(next)));
  }

  /** Goes to a response to the same prompt at an earlier (−1) or later (1) step. @param {number} way */
  samePrompt(way) {
    const there = samePrompt(this.data, this.at)[way < 0 ? 0 : 1];
    if (there) location.assign(hrefOf(this.address, there));
    else if (this.open >= 0) {
      this.status.textContent =
        way < 0
          ? message("No earlier step shows this prompt.")
          : message("No later step shows this prompt.");
    }
  }

  /** @param {number} n */
  badges(n) {
    const found = this.data.badges[n] ?? [];
    if (!found.length) return [];
    const items = found.map(({ severity, title, token }) =>
      el(
        "li",
        {},
        el(
          "span",
          { class: `severity ${severity}` },
          el("span", { class: "glyph", "aria-hidden": "true" }, GLYPHS[severity]),
          ` ${message(SEVERITIES[severity] ?? severity)}`,
        ),
        ` ${title} `,
        token !== null &&
          this.packed &&
          el(
            "button",
            { type: "button", onclick: () => this.tokens?.pick(token) },
            message("Go to token {token}", { token }),
          ),
      ),
    );
    return [el("ul", { class: "findings" }, ...items)];
  }

  /** @param {number} i @param {number} n @param {HTMLElement} holder */
  async showTokens(i, n, holder) {
    if (!this.packed) return;
    this.decoding ??= unpack(this.packed).then(decodeTokens);
    const tokens = await this.decoding;
    if (this.open !== i) return;
    if (!tokens.spans.has(n)) {
      holder.append(
        el(
          "p",
          { class: "note" },
          message("The report contains no token values of this response."),
        ),
      );
      return;
    }
    const { address, tip, stepScales } = this;
    const about = { turns: this.data.conversation?.[n] ?? [], given: this.data.given?.[n] ?? [] };
    this.tokens = new TokenView(holder, {
      ...about,
      data: tokens,
      n,
      metrics: this.data.metrics,
      nan: this.data.nan ?? [],
      address,
      tip,
      stepScales,
    });
  }
}
