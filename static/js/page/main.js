/** Starts a page of a report folder. */

import { Address } from "../shared/address.js";
import { mountKeys } from "./keys.js";
import { stayFresh } from "./live.js";
import { mount } from "./page.js";
import { startTerms } from "../shared/terms.js";
import { mountTheme, startTheme } from "./theme.js";

document.documentElement.classList.add("js");
startTheme();

function start() {
  const root = /** @type {HTMLElement | null} */ (document.querySelector("main > .page"));
  const tools = /** @type {HTMLElement | null} */ (document.querySelector(".site-tools"));
  if (!root || !tools) return;
  const page = mount(root, new Address());
  mountTheme(tools);
  startTerms();
  mountKeys(tools, page.bindings);
  document.documentElement.dataset.ready = "true";
  stayFresh();
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
