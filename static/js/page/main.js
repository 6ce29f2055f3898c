/** Starts a page of a report folder. */

import { Address } from "../shared/address.js";
import { startHowTo } from "./how-to.js";
import { mountKeys } from "./keys.js";
import { stayFresh } from "./live.js";
import { mount } from "./page.js";
import { startTerms } from "../shared/terms.js";
import { mountShare } from "./share.js";
import { mountTheme, startTheme } from "./theme.js";

document.documentElement.classList.add("js");
startTheme();
startHowTo();

function start() {
  const root = /** @type {HTMLElement | null} */ (document.querySelector("main > .page"));
  const tools = /** @type {HTMLElement | null} */ (document.querySelector(".site-tools"));
  if (!root || !tools) return;
  const page = mount(root, new Address());
  const share = mountShare(tools, { where: page.where, oneFile: false });
  mountTheme(tools);
  startTerms();
  mountKeys(tools, () => [...share, ...page.bindings()]);
  document.documentElement.dataset.ready = "true";
  stayFresh();
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
