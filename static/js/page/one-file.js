/** Starts a one-file report: shows the overview at once, other views on demand. */

import { Address } from "../shared/address.js";
import { startHowTo } from "./how-to.js";
import { mountKeys } from "./keys.js";
import { Router } from "./router.js";
import { startTerms } from "../shared/terms.js";
import { mountShare } from "./share.js";
import { mountTheme, startTheme } from "./theme.js";

document.documentElement.classList.add("js");
startTheme();
startHowTo();

async function start() {
  const main = /** @type {HTMLElement} */ (document.querySelector("main"));
  const tools = /** @type {HTMLElement} */ (document.querySelector(".site-tools"));
  const router = new Router(main, new Address());
  const share = mountShare(tools, { where: () => router.page?.where() ?? "", oneFile: true });
  mountTheme(tools);
  startTerms();
  mountKeys(tools, () => [...share, ...(router.page?.bindings() ?? [])]);
  // A link to `#main` would be taken for the address of a view.
  document.querySelector(".skip")?.addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  await router.follow();
  document.documentElement.dataset.ready = "true";
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
