/** The step picker: the reward curve with a slider under it. */

import { el, svg } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { marked, message } from "../shared/words.js";

/**
 * @param {HTMLElement} place
 * @param {import("../shared/run.js").Steps} run
 * @param {string} current the step shown now
 */
export function mountScrubber(place, { steps, rewards, href }, current) {
  if (steps.length < 2) return;
  const hrefs = steps.map((step) => href.replace("{step}", String(step)));
  const last = /** @type {HTMLAnchorElement | null | undefined} */ (
    place.parentElement?.querySelector(".step-nav a.last")
  );
  if (last && String(steps.at(-1)) !== current) {
    last.href = /** @type {string} */ (hrefs.at(-1));
    last.hidden = false;
  }
  const finite = rewards.filter((reward) => reward !== null);
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const x = (k) => (100 * k) / (steps.length - 1);
  const y = (reward) => 26 - (24 * (reward - low)) / (high - low || 1);
  let d = "";
  rewards.forEach((reward, k) => {
    if (reward !== null)
      d += `${d && rewards[k - 1] !== null ? "L" : "M"}${x(k).toFixed(2)} ${y(reward).toFixed(2)}`;
  });
  const start = Math.max(0, steps.map(String).indexOf(current));
  const line = svg("path", { class: "at", d: `M${x(start)} 0V28` });
  const box = { viewBox: "0 0 100 28", preserveAspectRatio: "none", "aria-hidden": "true" };
  const slider = el("input", {
    type: "range",
    min: 0,
    max: steps.length - 1,
    "aria-label": message("Step"),
  });
  slider.value = String(start);
  const words = el("output", { "aria-hidden": "true" });
  const describe = () => {
    const k = Number(slider.value);
    const places = { step: steps[k], reward: written(rewards[k]) };
    const known = rewards[k] !== null;
    line.setAttribute("d", `M${x(k)} 0V28`);
    const here = known
      ? message("Step {step}, reward {reward}", places)
      : message("Step {step}", places);
    words.textContent =
      k === start ? here : message("{here} · release or Enter opens it", { here });
    const aloud = known
      ? marked("step {step}, reward {reward}; Enter opens it")
      : marked("step {step}; Enter opens it");
    slider.setAttribute("aria-valuetext", message(aloud, places));
  };
  // Keys move the slider over many steps, so only Enter or releasing the pointer opens one.
  const go = () => {
    if (Number(slider.value) !== start) location.href = hrefs[Number(slider.value)];
  };
  slider.addEventListener("input", describe);
  slider.addEventListener("pointerup", go);
  slider.addEventListener("keydown", (event) => {
    if (event.key === "Enter") go();
  });
  describe();
  place.append(svg("svg", box, svg("path", { d }), line), slider, words);
}
