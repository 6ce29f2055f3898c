/** The keyboard shortcuts of a page. */

/** @import { ResponseList } from "../list/step-list.js" */
/** @import { Binding } from "./keys.js" */

import { message } from "../shared/words.js";

/** @param {HTMLElement} root @param {ResponseList | null} list @returns {Binding[]} */
export function bindingsOf(root, list) {
  const hasSteps = root.querySelector(".step-nav") !== null;
  return [
    ...(hasSteps ? stepBindings(root) : []),
    ...searchBindings(root),
    ...(list && hasSteps ? promptBindings(list) : []),
    ...(list ? responseBindings(list) : []),
  ];
}

/** @param {HTMLElement} root @returns {Binding[]} */
function stepBindings(root) {
  /** @param {string} selector */
  const follow = (selector) => {
    const link = /** @type {HTMLAnchorElement | null} */ (root.querySelector(selector));
    link?.click();
  };
  return [
    { keys: ["["], what: message("previous step"), run: () => follow("a[rel=prev]") },
    { keys: ["]"], what: message("next step"), run: () => follow("a[rel=next]") },
  ];
}

/** @param {HTMLElement} root @returns {Binding[]} */
function searchBindings(root) {
  const field = /** @type {HTMLInputElement | null} */ (root.querySelector("input[type=search]"));
  return field ? [{ keys: ["/"], what: message("search"), run: () => field.focus() }] : [];
}

/** @param {ResponseList} list @returns {Binding[]} */
function promptBindings({ panel }) {
  return [
    {
      keys: ["{"],
      what: message("the same prompt at an earlier step"),
      run: () => panel.samePrompt(-1),
    },
    {
      keys: ["}"],
      what: message("the same prompt at a later step"),
      run: () => panel.samePrompt(1),
    },
  ];
}

/** @param {ResponseList} list @returns {Binding[]} */
function responseBindings({ panel, open }) {
  const close = () => {
    if (!panel.node.hidden) open(null);
  };
  /** @type {[string, string, () => void][]} */
  const found = [
    ["j", message("next response"), () => panel.move(1)],
    ["k", message("previous response"), () => panel.move(-1)],
    ["n", message("next most extreme token"), () => panel.tokens?.jump(1)],
    ["N", message("previous most extreme token"), () => panel.tokens?.jump(-1)],
    ["w", message("most extreme token of the metric"), () => panel.tokens?.worst()],
    ["t", message("next turn"), () => panel.conversation?.next(1)],
    ["T", message("previous turn"), () => panel.conversation?.next(-1)],
    ["e", message("next error of a tool"), () => panel.conversation?.error(1)],
    ["E", message("previous error of a tool"), () => panel.conversation?.error(-1)],
    ["b", message("next branch of the rollout"), () => panel.nextBranch()],
    ["a", message("last answer"), () => panel.conversation?.lastAnswer()],
    ["Escape", message("close"), close],
  ];
  return [
    ...found.map(([key, what, run]) => ({ keys: [key], what, run })),
    listedOnly("← → ↑ ↓", message("move between tokens, once one has the focus")),
    listedOnly("↑ ↓", message("move between the rows of a list")),
  ];
}

/**
 * Returns keys that are handled where they have an effect.
 * @param {string} shown
 * @param {string} what
 * @returns {Binding}
 */
function listedOnly(shown, what) {
  return { keys: [], shown, what, run: () => {} };
}
