/** The map of prompts × steps: says what a cell is, and opens its prompt. */

/** @import { Address } from "../shared/address.js" */
/** @import { PromptMapData } from "../shared/types.d.ts" */
/** @import { Cells } from "./cell-map.js" */

import { unpack } from "../shared/data.js";
import { el } from "../shared/dom.js";
import { message } from "../shared/words.js";
import { CellMap } from "./cell-map.js";
import { addressOf, boxOf, cellAt, moved, wordsOf } from "./map-cells.js";

/**
 * @param {HTMLElement} root
 * @param {{address: Address, tip: import("../shared/tip.js").Tip, signal: AbortSignal}} page
 */
export function mountPromptMap(root, { address, tip, signal }) {
  mountCourses(root, address, signal);
  const plot = /** @type {HTMLElement | null} */ (root.querySelector(".prompt-map .cells"));
  const packed = root.querySelector("script.map-data")?.textContent ?? "";
  if (!plot || !packed) return;
  unpack(packed).then((bytes) => {
    if (signal.aborted) return;
    const data = JSON.parse(new TextDecoder().decode(bytes));
    // What else the URL says of the page stays.
    const open = (/** @type {number} */ p) => address.set({ p }, { push: true });
    new CellMap(plot, cellsOf(data, open), { tip, signal });
  });
}

/**
 * @param {PromptMapData} data
 * @param {(prompt: number) => void} open
 * @returns {Cells}
 */
function cellsOf(data, open) {
  return {
    at: (across, down) => cellAt(data, across, down),
    box: (cell) => boxOf(data, cell),
    moved: (cell, key) => moved(data, cell, key),
    words: (cell) => {
      const name = message("Prompt {id}", { id: data.prompts[cell.row] });
      return { title: wordsOf(data, cell), lines: [{ label: name, value: data.names[cell.row] }] };
    },
    spoken: (cell) => `${data.names[cell.row]}, ${wordsOf(data, cell)}`,
    opener: ({ row }) => (addressOf(data, row) === null ? null : () => open(data.prompts[row])),
  };
}

/**
 * Makes the counts of prompts buttons that select these prompts in the list.
 * @param {HTMLElement} root
 * @param {Address} address
 * @param {AbortSignal} signal
 */
function mountCourses(root, address, signal) {
  const list = /** @type {HTMLElement | null} */ (root.querySelector("section.prompt-table"));
  if (!list) return;
  const key = `${list.dataset.table}.has.course`;
  /** @type {NodeListOf<HTMLElement>} */
  const items = root.querySelectorAll(".courses > li");
  const buttons = [...items].map((item) => {
    const words = (item.dataset.course ?? "").toLowerCase();
    const button = el("button", { type: "button" }, ...item.childNodes);
    button.addEventListener("click", () => {
      const isOn = address.get(key) === words;
      address.set({ [key]: isOn ? null : words });
      if (!isOn) list.scrollIntoView({ block: "nearest" });
    });
    item.replaceChildren(button);
    return { button, words };
  });
  const show = () => {
    for (const { button, words } of buttons) {
      button.setAttribute("aria-pressed", String(address.get(key) === words));
    }
  };
  address.onChange(show, signal);
  show();
}
