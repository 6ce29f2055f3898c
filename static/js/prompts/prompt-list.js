/** The list of prompts, and the panel of the one that the URL names. */

/** @import { Address } from "../shared/address.js" */
/** @import { PromptsData } from "../shared/types.d.ts" */

import { readTable } from "../list/read-table.js";
import { TableView } from "../list/table.js";
import { keepInUrl } from "../list/table-state.js";
import { mountToolbar } from "../list/toolbar.js";
import { keyButton, listButton } from "../response/panel.js";
import { unpack } from "../shared/data.js";
import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { message } from "../shared/words.js";
import { Prompts } from "./answers.js";
import { PromptPanel } from "./prompt-panel.js";

/** Minimum number of rows of a list with a toolbar. */
const TOOLBAR_FROM = 30;

/**
 * @param {HTMLElement} root
 * @param {HTMLElement} section
 * @param {{address: Address, signal: AbortSignal}} page
 */
export function mountPromptList(root, section, page) {
  const list = new PromptList(root, section, page);
  list.start();
  return list;
}

export class PromptList {
  /**
   * @param {HTMLElement} root
   * @param {HTMLElement} section
   * @param {{address: Address, signal: AbortSignal}} page
   */
  constructor(root, section, { address, signal }) {
    this.root = root;
    this.section = section;
    this.address = address;
    this.signal = signal;
    this.node = /** @type {HTMLElement} */ (root.querySelector("section.response"));
    const read = readTable(section, null);
    this.rows = read.rows;
    this.view = new TableView(section, read, {
      signal,
      href: () => "",
      open: (i) => this.go(this.view.rowIds[i]),
    });
    if (this.rows.size >= TOOLBAR_FROM) mountToolbar(section, this.view);
    keepInUrl(this.rows, address, signal, `${section.dataset.table}.`);
    this.previous = keyButton(message("← Previous"), "k", () => this.move(-1));
    this.next = keyButton(message("Next →"), "j", () => this.move(1));
    this.closeButton = keyButton(message("Close"), "Escape", () => this.close());
    this.closeButton.className = "close";
    this.place = el("output", { class: "count" });
    /** @type {PromptPanel | null} until the data are unpacked */
    this.panel = null;
  }

  async start() {
    const packed = this.root.querySelector("script.prompts-data")?.textContent ?? "";
    const text = new TextDecoder().decode(await unpack(packed));
    if (this.signal.aborted) return;
    const data = /** @type {PromptsData} */ (JSON.parse(text));
    this.panel = new PromptPanel(this.node, new Prompts(data), [
      listButton(this.node),
      this.previous,
      this.next,
      this.place,
      this.closeButton,
    ]);
    this.address.onChange(() => this.follow(), this.signal);
    this.rows.listeners.add(() => this.showPlace());
    this.follow();
  }

  /** Opens a prompt; going to another one is not an entry of the history. @param {string} id */
  go(id) {
    this.address.set({ p: id }, { push: this.address.get("p") === null });
  }

  close() {
    if (this.address.get("p") !== null) this.address.set({ p: null }, { push: true });
  }

  /** Goes to the next (1) or previous (−1) prompt of the list. @param {number} delta */
  move(delta) {
    const { order } = this.rows;
    const at = order.indexOf(this.row());
    const next = at < 0 ? 0 : at + delta;
    if (next >= 0 && next < order.length) this.go(this.view.rowIds[order[next]]);
  }

  /** Returns the row of the open prompt, −1 if it is not listed. */
  row() {
    return this.view.rowIds.indexOf(this.address.get("p") ?? "");
  }

  /** Shows the prompt that the URL names. */
  follow() {
    const { panel, address } = this;
    if (!panel) return;
    const id = address.get("p");
    const title = this.root.dataset.title ?? "";
    document.title = id === null ? title : message("Prompt {id} · {page}", { id, page: title });
    if (id === panel.open) return;
    if (id === null) {
      const focused = document.activeElement;
      const hasFocus = this.node.contains(focused) || this.view.table.contains(focused);
      const before = this.rows.order.indexOf(this.view.selected);
      panel.close();
      this.view.select(-1);
      if (hasFocus) this.view.focusRow(before);
      return;
    }
    const wasClosed = panel.open === null;
    const shown = panel.show(id);
    this.view.select(this.row());
    this.showPlace();
    if (wasClosed) this.scrollToHead(shown);
    // On a narrow screen the prompt takes the place of the list.
    if (!this.section.checkVisibility()) this.node.focus({ preventScroll: true });
  }

  /**
   * Scrolls to the head of the panel, again once its parts are there: before, the page may be too
   * short.
   * @param {Promise<void>} shown
   */
  async scrollToHead(shown) {
    this.node.scrollIntoView({ block: "start" });
    await shown;
    if (this.node.getBoundingClientRect().top > 0) this.node.scrollIntoView({ block: "start" });
  }

  showPlace() {
    const { order } = this.rows;
    const at = order.indexOf(this.row());
    const place = { place: written(at + 1, "count"), all: written(order.length, "count") };
    this.place.textContent =
      at < 0 ? message("not in the filtered list") : message("row {place} of {all}", place);
    this.previous.disabled = at === 0 || !order.length;
    this.next.disabled = at === order.length - 1;
  }
}
