/**
 * Copies text to the clipboard, also without the clipboard API, as in some browsers on `file://`.
 */

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

/**
 * Makes a button copy a text; its label confirms this briefly, also for screen readers.
 * @param {HTMLButtonElement} button
 * @param {() => string} text
 */
export function copies(button, text) {
  const label = button.textContent;
  button.setAttribute("aria-live", "polite");
  button.addEventListener("click", async () => {
    button.textContent = (await copyText(text()))
      ? message("Copied")
      : message("The browser refused to copy");
    setTimeout(() => (button.textContent = label), 1500);
  });
}
