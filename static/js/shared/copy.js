/**
 * Copies text to the clipboard, also without the clipboard API, as in some browsers on `file://`.
 */

import { el } from "./dom.js";
import { message } from "./words.js";

/** @param {string} text @returns {Promise<boolean>} */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

/** @param {string} text */
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "sr-only";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

/** Shows a text that the browser refused to copy, selected, so that a key copies it. @param {string} text */
function showToCopy(text) {
  const area = el("textarea", { readonly: true, rows: 12, "aria-label": message("Text to copy") });
  area.value = text;
  const dialog = el(
    "dialog",
    { class: "to-copy" },
    el("p", {}, message("The browser refused to copy. The text is selected: copy it by hand.")),
    area,
    el("button", { type: "button", onclick: () => dialog.close() }, message("Close")),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  area.select();
}

/**
 * Makes a button copy a text; its label confirms this briefly, also for screen readers.
 * @param {HTMLButtonElement} button
 * @param {() => string} text
 */
export function copies(button, text) {
  const label = button.textContent;
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    const copied = text();
    if (!(await copyText(copied))) {
      showToCopy(copied);
      return;
    }
    button.textContent = message("Copied");
    setTimeout(() => (button.textContent = label), 1500);
  });
}
