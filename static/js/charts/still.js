/** Drawings of charts that are as wide as their place, at a fixed width for a picture. */

/** Edges of the plots of all charts, and the height of a strip's name: rlreport/draw/theme.py. */
const LEFT = 52;
const RIGHT = 16;

/**
 * Returns a drawing as SVG of a width in pixels. One with a `viewBox` has a width of its own.
 * @param {SVGSVGElement} drawing
 * @param {number} width
 */
export function fixedWidth(drawing, width) {
  const copy = /** @type {SVGSVGElement} */ (drawing.cloneNode(true));
  if (copy.hasAttribute("viewBox")) {
    clean(copy, width);
    return new XMLSerializer().serializeToString(copy);
  }
  return inGutters([{ y: 0, height: heightOf(copy), drawing: copy }], width);
}

/**
 * Returns drawings below each other as one SVG, with the same edges of their plots.
 * @param {{y: number, height: number, drawing: SVGElement}[]} parts
 * @param {number} width
 */
export function inGutters(parts, width) {
  const plot = width - LEFT - RIGHT;
  const height = Math.max(...parts.map((part) => part.y + part.height));
  const texts = parts.map(({ y, height: own, drawing }) => {
    const copy = /** @type {SVGElement} */ (drawing.cloneNode(true));
    clean(copy, plot);
    copy.setAttribute("x", String(LEFT));
    copy.setAttribute("y", String(y));
    copy.setAttribute("width", String(plot));
    copy.setAttribute("height", String(own));
    return new XMLSerializer().serializeToString(copy);
  });
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" ` +
    `fill="none" font-size="11">${texts.join("")}</svg>`
  );
}

/** @param {Element} drawing */
export function heightOf(drawing) {
  return Number(drawing.getAttribute("height")) || drawing.getBoundingClientRect().height;
}

/**
 * Returns the data of a path of straight lines, stretched across.
 * @param {string} path
 * @param {number} factor
 */
export function stretchedPath(path, factor) {
  return path.replace(/([MLHVhvlmZz])([^A-Za-z]*)/g, (_, command, places) => {
    const numbers = (places.match(/-?[\d.]+/g) ?? []).map(Number);
    const isAcross = /** @param {number} k */ (k) =>
      "Hh".includes(command) || (!"Vv".includes(command) && k % 2 === 0);
    const stretched = numbers.map((/** @type {number} */ number, /** @type {number} */ k) =>
      isAcross(k) ? round(number * factor) : number,
    );
    return command + stretched.join(" ");
  });
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 100) / 100;
}

/**
 * Stretches what the browser would stretch, so that lines keep their width at any size.
 * @param {Element} layer an SVG whose `viewBox` is stretched
 * @param {number} width
 */
function stretch(layer, width) {
  const factor = width / Number(layer.getAttribute("viewBox")?.split(" ")[2]);
  for (const name of ["viewBox", "preserveAspectRatio"]) layer.removeAttribute(name);
  for (const shape of layer.querySelectorAll("path, line, rect")) {
    const path = shape.getAttribute("d");
    if (path) shape.setAttribute("d", stretchedPath(path, factor));
    for (const name of ["x", "x1", "x2", "width"]) {
      const value = shape.getAttribute(name);
      if (value !== null) shape.setAttribute(name, String(round(Number(value) * factor)));
    }
    const [, x, y] =
      /translate\(([^,]+),([^)]+)\)/.exec(shape.getAttribute("transform") ?? "") ?? [];
    if (x) shape.setAttribute("transform", `translate(${round(Number(x) * factor)},${y})`);
  }
}

/** Removes what only pages need. @param {Element} drawing @param {number} plot its width */
function clean(drawing, plot) {
  for (const name of ["class", "role", "aria-label", "aria-hidden"]) drawing.removeAttribute(name);
  for (const layer of drawing.querySelectorAll("[preserveAspectRatio=none]")) stretch(layer, plot);
  for (const node of drawing.querySelectorAll("[class]")) node.removeAttribute("class");
  for (const node of drawing.querySelectorAll("[vector-effect]")) {
    node.removeAttribute("vector-effect");
  }
}
