/** A film strip in the page: drawn for the width there is, with buttons that export it. */

/** @import { FilmStrip } from "../shared/types.d.ts" */
/** @import { Mark } from "./film-strip.js" */

import { LOOK } from "../charts/colours.js";
import { el, readJson, svg } from "../shared/dom.js";
import { exportPicture, pixelsOf } from "../shared/pictures.js";
import { message } from "../shared/words.js";
import { WIDTH, filmStrip, picture } from "./film-strip.js";

/** Width of a picture in mm: two columns of a paper. */
const PICTURE_MM = 170;
/** A strip's picture has its title and its caption inside. */
const NO_WORDS = { title: "", caption: "" };

/** @typedef {import("../shared/pictures.js").Format["kind"]} FormatKind */

/**
 * Makes the strips that a page was rendered with as wide as the window lets them be.
 * @param {HTMLElement} root
 * @param {AbortSignal} signal
 */
export function mountFilms(root, signal) {
  /** @type {NodeListOf<HTMLElement>} */
  const sections = root.querySelectorAll("section.film");
  for (const section of sections) {
    const data = /** @type {FilmStrip | null} */ (readJson(section, "script.film-data"));
    const box = /** @type {HTMLElement | null} */ (section.querySelector(".film-strip"));
    if (!data || !box) continue;
    fitToWidth(box, data, signal);
    box.after(exportButtons(data, "film-strip"));
  }
}

/**
 * Returns a strip with its buttons.
 * @param {FilmStrip} data
 * @param {string} name of its files
 * @param {AbortSignal} signal
 */
export function filmFigure(data, name, signal) {
  const box = el("div", { class: "film-strip" });
  fitToWidth(box, data, signal);
  return el("div", { class: "film" }, box, exportButtons(data, name));
}

/** @param {HTMLElement} box @param {FilmStrip} data @param {AbortSignal} signal */
function fitToWidth(box, data, signal) {
  let drawn = box.firstElementChild ? WIDTH : 0;
  const draw = () => {
    const width = Math.min(WIDTH, Math.floor(box.clientWidth));
    if (!width || width === drawn) return;
    drawn = width;
    box.replaceChildren(nodeOf(filmStrip(data, width)));
  };
  const observer = new ResizeObserver(draw);
  observer.observe(box);
  signal.addEventListener("abort", () => observer.disconnect());
}

/** @param {Mark} mark @returns {SVGElement} */
function nodeOf({ name, attributes, children }) {
  const parts = children.map((child) => (typeof child === "string" ? child : nodeOf(child)));
  return svg(/** @type {keyof SVGElementTagNameMap} */ (name), attributes, ...parts);
}

/** @param {FilmStrip} data @param {string} name */
function exportButtons(data, name) {
  /** @param {FormatKind} kind */
  const exported = (kind) => {
    const drawn = picture(data, pixelsOf(PICTURE_MM), LOOK.colours);
    // All colours are resolved: what looks like one is the text of an answer.
    const svgText = drawn.replaceAll("var(--", "var&#40;--");
    return exportPicture(svgText, { ...NO_WORDS, name, format: { kind, mm: PICTURE_MM } });
  };
  /** @param {"SVG" | "PNG"} kind */
  const button = (kind) => {
    const label = message("Download as {format}", { format: kind });
    const onclick = () => exported(kind);
    return el("button", { type: "button", onclick, "aria-label": label }, kind);
  };
  const copy = el("button", { type: "button", "aria-live": "polite" }, message("Copy image"));
  copy.addEventListener("click", async () => {
    const label = copy.textContent;
    try {
      await exported("copy");
      copy.textContent = message("Copied");
    } catch {
      copy.textContent = message("The browser refused to copy");
    }
    setTimeout(() => (copy.textContent = label), 1500);
  });
  return el("div", { class: "film-tools" }, button("SVG"), button("PNG"), copy);
}
