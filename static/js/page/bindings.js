/** The keyboard shortcuts of a page. */

/** @import { ResponseList } from "../list/step-list.js" */
/** @import { Panel } from "../response/panel.js" */
/** @import { PromptList } from "../prompts/prompt-list.js" */
/** @import { Binding } from "./keys.js" */

import { message } from "../shared/words.js";

/**
 * @param {HTMLElement} root
 * @param {ResponseList | null} list
 * @param {PromptList | null} prompts
 * @returns {Binding[]}
 */
export function bindingsOf(root, list, prompts) {
  const hasSteps = root.querySelector(".step-nav") !== null;
  return [
    ...(hasSteps ? stepBindings(root) : []),
    ...searchBindings(root),
    ...(list ? responseBindings(list) : []),
    ...(prompts ? promptListBindings(prompts) : []),
  ];
}

/** @typedef {[string, string, () => void][]} Keys key, what it does, and how */

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

/** @param {PromptList} prompts @returns {Binding[]} */
function promptListBindings(prompts) {
  return [
    { keys: ["j"], what: message("next prompt"), run: () => prompts.move(1) },
    { keys: ["k"], what: message("previous prompt"), run: () => prompts.move(-1) },
    { keys: ["Escape"], what: message("close"), run: () => prompts.close() },
    listedOnly("↑ ↓", message("move between the rows of a list")),
  ];
}

/**
 * Returns the keys of a list of responses: only those for what the report has of the responses.
 * @param {ResponseList} list
 * @returns {Binding[]}
 */
function responseBindings({ panel, open }) {
  const { has } = panel;
  const close = () => {
    if (!panel.node.hidden) open(null);
  };
  /** @type {Keys} */
  const found = [
    ...(has.prompts ? promptKeys(panel) : []),
    ...rowKeys(panel),
    ...(has.tokens ? tokenKeys(panel) : []),
    ...(has.turns ? turnKeys(panel) : []),
    ...(has.branches ? branchKeys(panel) : []),
    ["Escape", message("close"), close],
  ];
  const inTokens = listedOnly("← → ↑ ↓", message("move between tokens, once one has the focus"));
  return [
    ...found.map(([key, what, run]) => ({ keys: [key], what, run })),
    ...(has.tokens ? [inTokens] : []),
    listedOnly("↑ ↓", message("move between the rows of a list")),
  ];
}

/** @param {Panel} panel @returns {Keys} */
function rowKeys(panel) {
  // Rows of a comparison are prompts, each with two responses.
  const [next, previous] = panel.data?.compared
    ? [message("next prompt"), message("previous prompt")]
    : [message("next response"), message("previous response")];
  return [
    ["j", next, () => panel.move(1)],
    ["k", previous, () => panel.move(-1)],
  ];
}

/** @param {Panel} panel @returns {Keys} */
function promptKeys(panel) {
  return [
    ["{", message("the same prompt at an earlier step"), () => panel.samePrompt(-1)],
    ["}", message("the same prompt at a later step"), () => panel.samePrompt(1)],
  ];
}

/** @param {Panel} panel @returns {Keys} */
function tokenKeys(panel) {
  return [
    ["n", message("next most extreme token"), () => panel.tokens?.jump(1)],
    ["N", message("previous most extreme token"), () => panel.tokens?.jump(-1)],
    ["w", message("most extreme token of the metric"), () => panel.tokens?.worst()],
  ];
}

/** @param {Panel} panel @returns {Keys} */
function turnKeys(panel) {
  return [
    ["t", message("next turn"), () => panel.conversation?.next(1)],
    ["T", message("previous turn"), () => panel.conversation?.next(-1)],
    ["e", message("next error of a tool"), () => panel.conversation?.error(1)],
    ["E", message("previous error of a tool"), () => panel.conversation?.error(-1)],
    ["a", message("last answer"), () => panel.conversation?.lastAnswer()],
  ];
}

/** @param {Panel} panel @returns {Keys} */
function branchKeys(panel) {
  return [["b", message("next branch of the rollout"), () => panel.nextBranch()]];
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
