/** Shows one view of a one-file report at a time in `<main>`; views are unpacked on demand. */

import { unpack } from "../shared/data.js";
import { el } from "../shared/dom.js";
import { mount } from "./page.js";
import { message } from "../shared/words.js";

export class Router {
  /**
   * @param {HTMLElement} main holds the overview when the document opens
   * @param {import("../shared/address.js").Address} address
   */
  constructor(main, address) {
    this.main = main;
    this.address = address;
    const overview = /** @type {HTMLElement} */ (main.querySelector(".page"));
    /** Unmodified copy of the overview, as mounting it adds nodes. */
    this.overview = /** @type {HTMLElement} */ (overview.cloneNode(true));
    /** @type {HTMLElement | null} the overview in the document, until it was shown once */
    this.opened = overview;
    /** @type {ReturnType<typeof mount> | null} */
    this.page = null;
    /** @type {string | null} path of the view that is shown or being unpacked */
    this.path = null;
    /** @type {Map<string, number>} path of a view → scroll position when it was left */
    this.left = new Map();
    history.scrollRestoration = "manual";
    address.onChange(() => this.follow());
  }

  /** Shows the view that the URL names. */
  async follow() {
    const path = this.address.path.replace(/^\//, "");
    if (path === this.path) return;
    const first = this.path === null;
    if (!first) this.left.set(/** @type {string} */ (this.path), scrollY);
    this.path = path;
    this.page?.unmount();
    this.page = null;
    const root = await this.view(path);
    // Unpacking takes a moment; the reader may have gone on meanwhile.
    if (this.path !== path) return;
    this.main.replaceChildren(root);
    this.page = mount(root, this.address);
    this.mark(path);
    if (first) return;
    this.main.focus({ preventScroll: true });
    scrollTo(0, this.left.get(path) ?? 0);
  }

  /** @param {string} path @returns {Promise<HTMLElement>} */
  async view(path) {
    const opened = this.opened;
    this.opened = null;
    if (path === "") return opened ?? /** @type {HTMLElement} */ (this.overview.cloneNode(true));
    const node = document.querySelector(`script.view[data-view="${CSS.escape(path)}"]`);
    if (!node) return missing(message("This report has no page “{path}”.", { path }));
    try {
      const text = new TextDecoder().decode(await unpack(node.textContent ?? ""));
      const parsed = new DOMParser().parseFromString(text, "text/html");
      return document.adoptNode(/** @type {HTMLElement} */ (parsed.querySelector(".page")));
    } catch (error) {
      console.warn(error);
      return missing(
        message(
          "This page could not be unpacked: the file is damaged, or the browser is older than 2023.",
        ),
      );
    }
  }

  /** Marks the current view in the navigation. @param {string} path */
  mark(path) {
    document.querySelector("header.site nav .step")?.remove();
    for (const link of document.querySelectorAll("header.site nav a")) {
      if (link.getAttribute("href") === `#/${path}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    const [, step] = /^steps\/(-?\d+)$/.exec(path) ?? [];
    if (!step) return;
    const label = message("Step {step}", { step });
    const link = el("a", { href: `#/${path}`, "aria-current": "page" }, label);
    document.querySelector("header.site nav ul")?.append(el("li", { class: "step" }, link));
  }
}

/** @param {string} words @returns {HTMLElement} */
function missing(words) {
  return el(
    "div",
    { class: "page", "data-title": message("Not found") },
    el("h1", {}, message("Not found")),
    el("p", {}, words, " ", el("a", { href: "#/" }, message("To the overview"))),
  );
}
