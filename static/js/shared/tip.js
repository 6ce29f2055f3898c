/** A tooltip with figures, beside the pointer or the focused element. */

import { el, uid } from "./dom.js";

/** @typedef {{label: string, value: string, picked?: boolean}} Line */
/**
 * @typedef {{left: number, right: number, top: number, bottom: number}} Box in the window, in
 *   pixels
 */

export class Tip {
  /** @param {HTMLElement} root @param {AbortSignal} signal removes it */
  constructor(root, signal) {
    this.node = el("div", { class: "tip", role: "tooltip", id: uid("tip"), hidden: true });
    root.append(this.node);
    signal.addEventListener("abort", () => this.node.remove());
  }

  get id() {
    return this.node.id;
  }

  /**
   * @param {string} title shown in monospace above the lines, may be ""
   * @param {Line[]} lines
   * @param {Box} beside
   * @param {string} [hint] what a click does
   */
  show(title, lines, beside, hint = "") {
    const rows = lines.map(({ label, value, picked }) =>
      el(
        "tr",
        { class: picked && "picked" },
        el("th", { scope: "row" }, label),
        el("td", {}, value),
      ),
    );
    const table = el("table", {}, el("tbody", {}, ...rows));
    const head = title && el("p", { class: "raw" }, title);
    const foot = hint && el("p", { class: "hint" }, hint);
    this.node.replaceChildren(...[head, table, foot].filter((part) => part !== ""));
    this.node.hidden = false;
    this.place(beside);
  }

  /** Places the tooltip below its element, above it if there is no room. @param {Box} beside */
  place(beside) {
    const { offsetWidth: width, offsetHeight: height } = this.node;
    const left = Math.max(4, Math.min(beside.left, innerWidth - width - 4));
    const below = beside.bottom + 8;
    const top = below + height < innerHeight ? below : Math.max(4, beside.top - height - 8);
    this.node.style.left = `${left}px`;
    this.node.style.top = `${top}px`;
  }

  hide() {
    this.node.hidden = true;
  }
}
