/** The step picker: the reward curve with a slider under it. */

/** @import { RunData } from "../shared/types.d.ts" */

import { el, svg } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { message } from "../shared/words.js";

/**
 * Size of the curve's box, in its own units; the curve keeps a distance from its upper and lower
 * end.
 */
const WIDTH = 100;
const HEIGHT = 28;
const AIR = 2;

/**
 * Adds the picker to the page of a step; another step is another page.
 * @param {HTMLElement} place
 * @param {RunData} run
 * @param {string} current the step shown now
 */
export function mountScrubber(place, run, current) {
  const { steps } = run;
  if (steps.length < 2) return;
  const hrefs = steps.map((step) => run.href.replace("{step}", String(step)));
  if (String(steps.at(-1)) !== current) linkToLast(place, /** @type {string} */ (hrefs.at(-1)));
  picker(place, run, (at) => (location.href = hrefs[at])).show(steps.map(String).indexOf(current));
}

/**
 * Adds the picker to the list of the run, as long as it shows one step only; another step becomes
 * the one that it shows.
 * @param {HTMLElement} place
 * @param {RunData} run
 * @param {import("../list/rows.js").Rows} rows
 */
export function mountListScrubber(place, run, rows) {
  const { steps } = run;
  if (steps.length < 2) return;
  const { show } = picker(place, run, (at) => rows.limit("step", [steps[at], steps[at]]));
  const update = () => {
    const [low, high] = rows.ranges.get("step") ?? [];
    const at = low === high && low !== undefined ? steps.indexOf(low) : -1;
    place.hidden = at < 0;
    if (at >= 0) show(at);
  };
  rows.listeners.add(update);
  update();
}

/**
 * Adds a slider over the steps below the curve of the reward.
 * @param {HTMLElement} place
 * @param {RunData} run
 * @param {(at: number) => void} open goes to another step, by its index
 * @returns {{show: (at: number) => void}} marks the step that is shown
 */
function picker(place, { steps, rewards }, open) {
  let start = 0;
  const last = steps.length - 1;
  const slider = el("input", { type: "range", min: 0, max: last, "aria-label": message("Step") });
  const line = svg("path", { class: "at" });
  const words = el("output", { "aria-hidden": "true" });
  const describe = () => {
    const at = Number(slider.value);
    const { here, aloud } = describedStep(steps[at], rewards[at]);
    line.setAttribute("d", `M${(WIDTH * at) / last} 0V${HEIGHT}`);
    words.textContent =
      at === start ? here : message("{here} · release or Enter opens it", { here });
    slider.setAttribute("aria-valuetext", aloud);
  };
  // Keys move the slider over many steps, so only Enter or releasing the pointer opens one.
  const go = () => {
    const at = Number(slider.value);
    if (at !== start) open(at);
  };
  slider.addEventListener("input", describe);
  slider.addEventListener("pointerup", go);
  slider.addEventListener("keydown", (event) => {
    if (event.key === "Enter") go();
  });
  const box = {
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  };
  place.append(svg("svg", box, svg("path", { d: curve(rewards) }), line), slider, words);
  return {
    show(at) {
      start = Math.max(0, at);
      slider.value = String(start);
      describe();
    },
  };
}

/**
 * Shows the link to the last step, which was not known when the page was written.
 * @param {HTMLElement} place
 * @param {string} href
 */
function linkToLast(place, href) {
  const link = /** @type {HTMLAnchorElement | null | undefined} */ (
    place.parentElement?.querySelector(".step-nav a.last")
  );
  if (!link) return;
  link.href = href;
  link.hidden = false;
}

/**
 * Returns a step in words, to be shown and to be read aloud.
 * @param {number} step
 * @param {number | null} reward
 */
function describedStep(step, reward) {
  const places = { step, reward: written(reward) };
  if (reward === null) {
    return {
      here: message("Step {step}", places),
      aloud: message("step {step}; Enter opens it", places),
    };
  }
  return {
    here: message("Step {step}, reward {reward}", places),
    aloud: message("step {step}, reward {reward}; Enter opens it", places),
  };
}

/**
 * Returns SVG path data of the rewards over the steps, with gaps at missing ones.
 * @param {(number | null)[]} rewards
 */
export function curve(rewards) {
  const known = rewards.filter((reward) => reward !== null);
  const low = Math.min(...known);
  const extent = Math.max(...known) - low || 1;
  const bottom = HEIGHT - AIR;
  let path = "";
  let pen = "M";
  rewards.forEach((reward, k) => {
    if (reward === null) {
      pen = "M";
      return;
    }
    const x = (WIDTH * k) / (rewards.length - 1);
    const y = bottom - ((bottom - AIR) * (reward - low)) / extent;
    path += `${pen}${x.toFixed(2)} ${y.toFixed(2)}`;
    pen = "L";
  });
  return path;
}
