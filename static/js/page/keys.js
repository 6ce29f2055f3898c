/** Keyboard shortcuts, and the dialog that lists them. */

import { el, isTyping } from "../shared/dom.js";
import { message, nodes } from "../shared/words.js";

/** @typedef {{keys: string[], what: string, run: (key: string) => void, shown?: string}} Binding */

/**
 * @param {HTMLElement} place parent of the button that opens the list of keys
 * @param {() => Binding[]} bindings returns the shortcuts that the page has now
 */
export function mountKeys(place, bindings) {
  const button = el(
    "button",
    { type: "button", onclick: open },
    ...nodes("Keys {key}", { key: el("kbd", {}, "?") }),
  );
  place.append(button);
  /** @type {Binding[]} */
  const always = [{ keys: ["?"], what: message("show this list"), run: open }];

  function open() {
    const items = [...always, ...bindings()].flatMap(({ keys, what, shown }) => [
      el("dt", {}, el("kbd", {}, shown ?? keys.join(" "))),
      el("dd", {}, what),
    ]);
    const close = el("button", { type: "button", onclick: () => dialog.close() }, message("Close"));
    const dialog = el(
      "dialog",
      { class: "keys", "aria-label": message("Keys") },
      el("h2", {}, message("Keys")),
      el("dl", {}, ...items),
      close,
    );
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || isForBrowser(event)) return;
    if (isTyping(event)) {
      leaveField(event);
      return;
    }
    // The browser closes the open menu, unless the event is prevented.
    if (event.key === "Escape" && document.querySelector(":popover-open")) return;
    const found = [...always, ...bindings()].find(({ keys }) => keys.includes(event.key));
    if (!found) return;
    event.preventDefault();
    found.run(event.key);
  });
}

/** Returns whether a key is the browser's. @param {KeyboardEvent} event */
function isForBrowser(event) {
  // Brackets need Option or AltGr on many keyboards.
  const isBracket = event.altKey && "[]{}".includes(event.key);
  return event.metaKey || ((event.ctrlKey || event.altKey) && !isBracket);
}

/** Leaves a field on Escape; a dialog closes by itself. @param {KeyboardEvent} event */
function leaveField(event) {
  const field = /** @type {HTMLElement} */ (event.target);
  if (event.key === "Escape" && field.matches("input, select")) field.blur();
}
