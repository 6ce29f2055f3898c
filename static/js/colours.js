/** Colours as the theme has them now, for charts that cannot read custom properties. */

const NAMES = [
  ..."page panel line text muted policy reference critical warning info healthy".split(" "),
  ...Array.from({ length: 11 }, (_, k) => `div-${k + 1}`),
  ...Array.from({ length: 9 }, (_, k) => `seq-${k + 1}`),
];

/**
 * Specifications are written in the light theme's colours, each of one design token only.
 * Returns light colour → colour now, both as #rrggbb.
 * @returns {Map<string, string>}
 */
export function themeColours() {
  const probe = document.createElement("span");
  document.body.append(probe);
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return hex(getComputedStyle(probe).color);
  };
  const now = NAMES.map(read);
  probe.style.colorScheme = "light";
  const pairs = NAMES.map((name, k) => /** @type {[string, string]} */ ([read(name), now[k]]));
  probe.remove();
  return new Map(pairs);
}

/** @param {string} colour "rgb(1, 2, 3)" */
function hex(colour) {
  const parts = colour.match(/\d+/g) ?? [];
  return `#${parts.slice(0, 3).map((part) => Number(part).toString(16).padStart(2, "0")).join("")}`;
}

/**
 * A copy of a specification with its colours replaced.
 * @param {any} value
 * @param {Map<string, string>} colours
 * @returns {any}
 */
export function recoloured(value, colours) {
  if (typeof value === "string") return colours.get(value.toLowerCase()) ?? value;
  if (Array.isArray(value)) return value.map((item) => recoloured(item, colours));
  if (!value || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, recoloured(item, colours)]));
}
