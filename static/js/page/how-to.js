/** "How to read this" on the overview: once dismissed, it is there only when asked for. */

/** @import { Address } from "../shared/address.js" */

import { el } from "../shared/dom.js";
import { message } from "../shared/words.js";

const KEY = "rlreport-how-to";
const STATE = "how-to-read";

/** Hides it before the page is drawn, if it was dismissed. */
export function startHowTo() {
  if (isDismissed()) document.documentElement.classList.add("knows-how-to");
}

function isDismissed() {
  try {
    return localStorage.getItem(KEY) === "dismissed";
  } catch {
    return false;
  }
}

/** @param {HTMLElement} root @param {Address} address @param {AbortSignal} signal */
export function mountHowTo(root, address, signal) {
  /** @type {HTMLDetailsElement | null} */
  const details = root.querySelector("details.how-to");
  if (!details) return;
  const dismiss = el("button", { type: "button" }, message("Do not show this again"));
  dismiss.addEventListener("click", () => {
    try {
      localStorage.setItem(KEY, "dismissed");
    } catch {
      // Dismissed on this page only.
    }
    document.documentElement.classList.add("knows-how-to");
    details.classList.remove("asked-for");
    details.open = false;
    address.set({ [STATE]: null });
    /** @type {HTMLElement | null} */ (document.querySelector("main"))?.focus({
      preventScroll: true,
    });
  });
  details.append(dismiss);
  const show = () => {
    if (address.get(STATE) === null) return;
    details.classList.add("asked-for");
    details.open = true;
    details.scrollIntoView({ block: "nearest" });
  };
  address.onChange(show, signal);
  show();
}
