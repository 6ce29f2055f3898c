/** Colours of the current theme, for charts, which cannot use CSS custom properties. */

/** @import { Look } from "../shared/types.d.ts" */

/**
 * Light colours by the names of their design tokens, padding of charts and places of their axes'
 * titles; filled when the report is built.
 * @type {Look}
 */
// @ts-expect-error: empty until then
export const LOOK = {};

/**
 * Specifications have the colours of the light theme, each of which belongs to one design token.
 * Returns a map of light colours to those of the current theme, both as #rrggbb.
 * @returns {Map<string, string>}
 */
export function themeColours() {
  const probe = document.createElement("span");
  document.body.append(probe);
  const now = new Map();
  for (const [name, light] of Object.entries(LOOK.colours)) {
    probe.style.color = `var(--${name})`;
    now.set(light, hex(getComputedStyle(probe).color));
  }
  probe.remove();
  return now;
}

/**
 * Gives a drawing the light colours.
 * @param {Element} drawing
 * @param {Map<string, string>} colours those that it has, by the light ones
 */
export function recolour(drawing, colours) {
  for (const svg of drawing.querySelectorAll("svg")) svg.style.backgroundColor = "transparent";
  // Of two that are one colour in the dark, the first, which is that of charts, remains.
  const light = new Map([...colours].reverse().map(([own, now]) => [now, own]));
  for (const node of drawing.querySelectorAll("[fill], [stroke]")) {
    for (const name of ["fill", "stroke"]) {
      const colour = light.get(node.getAttribute(name) ?? "");
      if (colour) node.setAttribute(name, colour);
    }
  }
}

/** @param {string} colour "rgb(1, 2, 3)" */
function hex(colour) {
  const parts = colour.match(/\d+/g) ?? [];
  return `#${parts
    .slice(0, 3)
    .map((part) => Number(part).toString(16).padStart(2, "0"))
    .join("")}`;
}

/**
 * Returns a copy of a specification with its colours replaced.
 * @template Value
 * @param {Value} value
 * @param {Map<string, string>} colours
 * @returns {Value}
 */
export function recoloured(value, colours) {
  return /** @type {Value} */ (copyOf(value, colours));
}

/** @param {unknown} value @param {Map<string, string>} colours @returns {unknown} */
function copyOf(value, colours) {
  if (typeof value === "string") return colours.get(value.toLowerCase()) ?? value;
  if (Array.isArray(value)) return value.map((item) => copyOf(item, colours));
  if (!value || typeof value !== "object") return value;
  const entries = Object.entries(value).map(([key, item]) => [key, copyOf(item, colours)]);
  return Object.fromEntries(entries);
}
