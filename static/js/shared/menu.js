/** A button that opens a popover with controls below it. */

import { el, uid } from "./dom.js";

/**
 * @param {string} title
 * @param {(sheet: HTMLElement) => void} build fills the sheet each time it opens
 */
export function menu(title, build) {
  const sheet = el("div", { class: "sheet", id: uid("sheet"), popover: true });
  const button = el("button", { type: "button", popovertarget: sheet.id }, title);
  sheet.addEventListener("beforetoggle", (event) => {
    if (event.newState !== "open") return;
    build(sheet);
    const { left, bottom } = button.getBoundingClientRect();
    sheet.style.left = `${left + scrollX}px`;
    sheet.style.top = `${bottom + scrollY + 4}px`;
  });
  sheet.addEventListener("toggle", (event) => {
    if (event.newState !== "open") return;
    // Move the popover left if it would extend beyond the window.
    const over = sheet.getBoundingClientRect().right + 8 - document.documentElement.clientWidth;
    if (over > 0) sheet.style.left = `${parseFloat(sheet.style.left) - over}px`;
  });
  return { node: el("div", { class: "menu" }, button, sheet), button, sheet };
}
