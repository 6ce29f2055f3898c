/** Theme (light, dark or that of the system); the choice is stored if the browser allows it. */

import { el } from "../shared/dom.js";
import { marked, message } from "../shared/words.js";

const KEY = "rlreport-theme";
const NAMES = [marked("system"), marked("light"), marked("dark")];

function remembered() {
  try {
    return localStorage.getItem(KEY) ?? "system";
  } catch {
    return "system";
  }
}

/** @param {string} name */
function apply(name) {
  const root = document.documentElement;
  if (name === "system") delete root.dataset.theme;
  else root.dataset.theme = name;
  document.dispatchEvent(new CustomEvent("rlreport:theme"));
}

/** Applies the theme before the page is drawn, so that it does not flash in another one. */
export function startTheme() {
  apply(remembered());
}

/** @param {Element} place */
export function mountTheme(place) {
  let now = remembered();
  const button = el("button", { type: "button", class: "theme" });
  const label = () => (button.textContent = message("Theme: {name}", { name: message(now) }));
  button.addEventListener("click", () => {
    now = NAMES[(NAMES.indexOf(now) + 1) % NAMES.length];
    try {
      localStorage.setItem(KEY, now);
    } catch {
      // Kept for this page only.
    }
    apply(now);
    label();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(now));
  label();
  place.append(button);
}
