/** Menus of drawings that stay as they are: What moved, and charts that are not interactive. */

import { menu } from "../shared/menu.js";
import { pixelsOf } from "../shared/pictures.js";
import { message } from "../shared/words.js";
import { keyOf, pictureTools, runName } from "./downloads.js";
import { fixedWidth, heightOf, inGutters } from "./still.js";

/** @typedef {import("./downloads.js").Picture} Picture */

/** Baseline of a strip's name in the strip, as in rlreport/draw/strips.py. */
const NAME = 13;

/**
 * Adds a menu to What moved, and to each chart without a specification.
 * @param {HTMLElement} root
 * @param {{page: string, signal: AbortSignal}} hooks
 */
export function mountStills(root, { page, signal }) {
  const moved = root.querySelector("section.moved");
  const heading = moved?.querySelector("h2");
  if (moved && heading) addMenu(heading, movedPicture(moved, page), signal);
  for (const figure of root.querySelectorAll("figure.chart:not(:has(script.spec))")) {
    const caption = figure.querySelector("figcaption");
    const drawing = /** @type {SVGSVGElement | null} */ (figure.querySelector(".plot > svg"));
    if (caption && drawing) addMenu(caption, stillPicture(figure, drawing, page), signal);
  }
}

/** @param {Element} place @param {Picture} picture @param {AbortSignal} signal */
function addMenu(place, picture, signal) {
  const { title } = picture.words();
  const { node, button } = menu("⋯", (sheet) =>
    sheet.replaceChildren(pictureTools(picture, () => sheet.hidePopover())),
  );
  node.classList.add("chart-menu");
  button.setAttribute("aria-label", message("Menu of the chart {title}", { title }));
  place.append(node);
  signal.addEventListener("abort", () => node.remove());
}

/**
 * @param {Element} figure
 * @param {SVGSVGElement} drawing
 * @param {string} page
 * @returns {Picture}
 */
function stillPicture(figure, drawing, page) {
  const title = figure.querySelector("figcaption > span")?.textContent ?? "";
  const run = runName();
  const caption = run && message("run {run}", { run });
  return {
    name: () => nameOf(page, figure.getAttribute("data-chart") ?? ""),
    words: () => ({ title, caption, key: keyOf(figure) }),
    draw: async (_words, mm) => fixedWidth(drawing, pixelsOf(mm)),
    sentence: () => listOf([`${title}.`, figure.querySelector(".sr-only")?.textContent ?? ""]),
  };
}

/** @param {Element} section @param {string} page @returns {Picture} */
function movedPicture(section, page) {
  const [words, note] = ["p:not(.note)", ".note"].map(
    (selector) => section.querySelector(selector)?.textContent?.trim() ?? "",
  );
  const title = section.querySelector("h2")?.firstChild?.textContent?.trim() ?? "";
  const run = runName();
  const ofRun = run ? message("Run {run}.", { run }) : "";
  return {
    name: () => nameOf(page, "moved"),
    words: () => ({ title, caption: listOf([words, note, ofRun]) }),
    draw: async (_words, mm) => movedDrawing(section, pixelsOf(mm)),
    sentence: () => listOf([`${title}.`, words, note, ofRun]),
  };
}

/**
 * Returns all strips below each other, as `strips.picture` of rlreport/draw/strips.py does.
 * @param {Element} section
 * @param {number} width
 */
function movedDrawing(section, width) {
  const stack = /** @type {Element} */ (section.querySelector(".stack"));
  /** @type {{y: number, height: number, drawing: SVGElement}[]} */
  const parts = [];
  let y = 0;
  /** @param {SVGElement} drawing */
  const add = (drawing) => {
    const height = heightOf(drawing);
    parts.push({ y, height, drawing });
    y += height;
  };
  const own = /** @type {SVGElement[]} */ (
    [...stack.children].filter((node) => node.matches("svg"))
  );
  const [head, axis] = own.length > 1 ? own : [null, own[0]];
  if (head) add(head);
  for (const strip of section.querySelectorAll("figure.strip")) {
    const drawing = strip.querySelector("svg");
    if (drawing) add(named(drawing, nameIn(strip)));
  }
  add(axis);
  return inGutters(parts, width);
}

/** Returns the name of a strip, without what opens its definition. @param {Element} strip */
function nameIn(strip) {
  const caption = strip.querySelector("figcaption")?.cloneNode(true);
  if (!(caption instanceof Element)) return "";
  for (const button of caption.querySelectorAll(".what")) button.remove();
  return caption.textContent?.trim() ?? "";
}

/** Returns a strip with its name in it. @param {SVGElement} strip @param {string} name */
function named(strip, name) {
  const copy = /** @type {SVGElement} */ (strip.cloneNode(true));
  const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
  text.setAttribute("y", String(NAME));
  text.setAttribute("fill", "var(--text)");
  text.setAttribute("font-weight", "bold");
  text.textContent = name;
  copy.append(text);
  return copy;
}

/** @param {string} page @param {string} name */
function nameOf(page, name) {
  return [page, name]
    .filter(Boolean)
    .join("-")
    .replace(/[^\p{L}\p{N}_-]+/gu, "_");
}

/** @param {string[]} sentences */
function listOf(sentences) {
  return sentences.filter(Boolean).join(" ");
}
