/** Lets the small charts of what moved open the step under the pointer. */

import { message } from "../shared/words.js";

/** Distance of the tooltip from the pointer in pixels. */
const TIP_GAP = 12;

/**
 * Shows the step under the pointer on each strip, and opens its page on a click.
 * @param {HTMLElement} root
 * @param {{steps: number[], open: (step: number) => void, tip: import("../shared/tip.js").Tip,
 *   signal: AbortSignal}} page `steps` have a page each, ascending
 */
export function mountStrips(root, { steps, open, tip, signal }) {
  const section = /** @type {HTMLElement | null} */ (root.querySelector("section.moved"));
  if (!section || !steps.length) return;
  const low = Number(section.dataset.low);
  const high = Number(section.dataset.high);
  /** @param {MouseEvent} event */
  const stepAt = (event) => {
    const plot = /** @type {Element} */ (event.currentTarget).getBoundingClientRect();
    return nearest(steps, low + ((event.clientX - plot.left) / plot.width) * (high - low));
  };
  for (const plot of /** @type {NodeListOf<SVGElement>} */ (
    section.querySelectorAll(".strip > svg")
  )) {
    plot.parentElement?.classList.add("opens");
    plot.addEventListener("click", (event) => open(stepAt(event)), { signal });
    plot.addEventListener("pointerleave", () => tip.hide(), { signal });
    const show = (/** @type {PointerEvent} */ event) => {
      const { clientX: x, clientY: y } = event;
      const hint = message("Click opens step {step}", { step: stepAt(event) });
      tip.show("", [], { left: x + TIP_GAP, right: x, top: y - TIP_GAP, bottom: y }, hint);
    };
    plot.addEventListener("pointermove", show, { signal });
  }
}

/**
 * Returns the number that is nearest to a place.
 * @param {number[]} numbers ascending, not empty
 * @param {number} place
 */
export function nearest(numbers, place) {
  const after = numbers.findIndex((number) => number >= place);
  if (after < 0) return numbers[numbers.length - 1];
  const before = numbers[Math.max(after - 1, 0)];
  return place - before < numbers[after] - place ? before : numbers[after];
}
