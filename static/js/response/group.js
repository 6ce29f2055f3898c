/** The group of a response (all to its prompt in this step), and the branches of its rollout. */

/** @import { PanelData, Turn } from "../shared/types.d.ts" */

import { BRANCH } from "../list/rows.js";
import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { differenceButton } from "./texts.js";
import { listed, marked, message } from "../shared/words.js";

/**
 * @typedef {object} Sibling a response of the group
 * @property {number} n
 * @property {number} at its index in the data, −1 if its text is not in the report
 * @property {number | null} reward
 * @property {number | null} length in tokens, or else in characters
 * @property {boolean | null} right null where it is not known
 */

/**
 * Creates the list of a response's group, with its figures and a comparison.
 * @param {PanelData} data
 * @param {number} i
 * @param {{text: (key: string, i?: number) => string | null, open: (i: number) => void}} on
 * @returns {HTMLElement | null} null for a response without a group
 */
export function groupStrip(data, i, { text, open }) {
  const group = data.groups?.find((members) => members.includes(data.n[i]));
  if (!group) return null;
  const siblings = group.map((n) => sibling(data, n));
  const inTokens = Boolean(data.values.response_tokens);
  const cells = siblings.map((one) =>
    el("li", {}, siblingButton(one, { inTokens, isOpen: one.at === i, open })),
  );
  const count = siblings.length;
  const title = inTokens
    ? message("{count} responses of the group: reward, tokens", { count })
    : message("{count} responses of the group: reward, characters", { count });
  const note = groupNote(data, i, siblings);
  const node = el(
    "section",
    { class: "group", "aria-label": message("Group") },
    el("p", { class: "group-title" }, title),
    note === null ? null : el("p", { class: "note" }, note),
    el("ul", {}, ...cells),
  );
  const ends = bestAndWorst(siblings);
  if (ends) node.append(comparison(ends, text));
  return node;
}

/** @param {PanelData} data @param {number} n @returns {Sibling} */
function sibling(data, n) {
  const at = data.n.indexOf(n);
  if (at < 0) {
    const [reward, length, right] = data.siblings?.[n] ?? [null, null];
    return { n, at, reward, length, right: isRight(right) };
  }
  const { values } = data;
  const lengths = values.response_tokens ?? values.response_chars;
  return {
    n,
    at,
    reward: values.reward?.[at] ?? null,
    length: lengths?.[at] ?? null,
    right: isRight(data.right?.[at]),
  };
}

/** @param {number | null | undefined} logged 1 or 0 */
function isRight(logged) {
  return logged === null || logged === undefined ? null : Boolean(logged);
}

/**
 * @param {Sibling} one
 * @param {{inTokens: boolean, isOpen: boolean, open: (i: number) => void}} how
 */
function siblingButton(one, { inTokens, isOpen, open }) {
  const said = describedSibling(one, inTokens);
  return el(
    "button",
    {
      type: "button",
      title: said,
      "aria-label": said,
      disabled: one.at < 0,
      "aria-current": isOpen ? "true" : null,
      onclick: () => open(one.at),
    },
    one.right === null ? null : verdictMark(one.right),
    el("span", { class: "num" }, written(one.reward)),
    el("span", { class: "unit num" }, ` ${written(one.length, "count")}`),
  );
}

/** Returns a response of the group in words. @param {Sibling} one @param {boolean} inTokens */
function describedSibling({ n, at, reward, length, right }, inTokens) {
  const count = written(length, "count");
  const parts = [
    message("Response {n}", { n }),
    message("reward {reward}", { reward: written(reward) }),
    inTokens ? message("{count} tokens", { count }) : message("{count} characters", { count }),
  ];
  if (right !== null) parts.push(right ? message("right") : message("wrong"));
  if (at < 0) parts.push(message("its text is not in the report"));
  return listed(parts);
}

/** @param {boolean} right */
function verdictMark(right) {
  return right
    ? el("span", { class: "right", "aria-hidden": "true" }, "✓ ")
    : el("span", { class: "wrong", "aria-hidden": "true" }, "✗ ");
}

/**
 * Returns a group's mean and std and the advantage, or that it gives no signal; null where nothing
 * is known.
 * @param {PanelData} data
 * @param {number} i
 * @param {Sibling[]} siblings
 */
function groupNote(data, i, siblings) {
  /** @param {string} key */
  const figure = (key) => data.values[key]?.[i] ?? null;
  const mean = figure("group_mean");
  const std = figure("group_std");
  if (mean === null || std === null) return null;
  const advantage = figure("group_advantage");
  const logged = data.advantage === "logged" ? figure("advantage_mean") : null;
  const places = { mean: written(mean), std: written(std) };
  // A logged advantage of 0 says nothing where none can be computed, as all rewards are equal.
  if (logged !== null && (advantage !== null || logged !== 0)) {
    return message("mean {mean}, population std {std}; advantage {logged}, as logged", {
      ...places,
      logged: written(logged),
    });
  }
  if (advantage !== null) {
    return message(
      "mean {mean}, population std {std}; advantage (reward − mean) / std = {advantage}, computed",
      { ...places, advantage: written(advantage) },
    );
  }
  return equalRewardsNote(isRight(data.right?.[i]), siblings, places);
}

/** @param {boolean | null} right @param {Sibling[]} siblings @param {{mean: string}} places */
function equalRewardsNote(right, siblings, places) {
  if (right === true) return message("all correct: equal rewards give no advantage");
  if (right === false) return message("all wrong: equal rewards give no advantage");
  const rewards = siblings.filter(({ reward }) => reward !== null);
  if (rewards.length < 2) return null;
  return message("equal rewards ({mean}) give no advantage", places);
}

/**
 * Returns the shown responses with the best and the worst reward of the group; null if there are
 * none, or if all rewards are alike.
 * @param {Sibling[]} siblings
 */
function bestAndWorst(siblings) {
  const rewards = siblings.map(({ reward }) => reward).filter((reward) => reward !== null);
  const low = Math.min(...rewards);
  const high = Math.max(...rewards);
  const shown = siblings.filter(({ at }) => at >= 0);
  const best = shown.find(({ reward }) => reward === high);
  const worst = shown.find(({ reward }) => reward === low);
  return best && worst && low < high ? { best, worst } : null;
}

/**
 * Creates a comparison of the best and the worst response, filled when it is opened.
 * @param {{best: Sibling, worst: Sibling}} ends
 * @param {(key: string, i?: number) => string | null} text
 */
function comparison({ best, worst }, text) {
  const node = el("details", { class: "versus" }, el("summary", {}, message("Best against worst")));
  /** @param {Sibling} one @param {string} literal */
  const side = ({ n, at, reward }, literal) => {
    const own = text("response", at) ?? "";
    const body = el("div", { class: "prose", dir: "auto" }, own || message("(empty)"));
    const label = message(literal, { n, reward: written(reward) });
    return {
      text: own,
      body,
      node: el("div", {}, el("p", { class: "label" }, label), body),
    };
  };
  node.addEventListener("toggle", () => {
    const isFilled = node.childElementCount > 1;
    if (isFilled) return;
    const left = side(best, marked("Best: response {n}, reward {reward}"));
    const right = side(worst, marked("Worst: response {n}, reward {reward}"));
    const button = differenceButton(message("Mark differences from the worst"), left, right);
    node.append(button, el("div", { class: "side-by-side" }, left.node, right.node));
    button.click();
  });
  return node;
}

/**
 * @param {PanelData} data
 * @param {number} i
 * @returns {number[]} n of the branches of its rollout, the trained one first; empty for one branch
 */
export function branchesOf(data, i) {
  return data.branches?.find((members) => members.includes(data.n[i])) ?? [];
}

/**
 * Creates links to the branches of a response's rollout, with the turn at which they differ.
 * @param {PanelData} data
 * @param {number} i
 * @param {(i: number) => void} open
 * @returns {HTMLElement | null} null for a rollout of one branch
 */
export function branchStrip(data, i, open) {
  const places = branchesOf(data, i).map((n) => data.n.indexOf(n));
  if (!places.length) return null;
  const [first] = places;
  const cells = places.map((at, k) => {
    const facts = branchFacts(data, at);
    if (k > 0) facts.push(parting(data, first, at));
    const current = at === i ? "true" : null;
    const properties = { type: "button", "aria-current": current, onclick: () => open(at) };
    return el("li", {}, el("button", properties, `${k + 1} · ${listed(facts)}`));
  });
  const title = message(
    "{count} branches of this rollout (key {key}); figures include only the trained one",
    { count: cells.length, key: "b" },
  );
  return el(
    "section",
    { class: "group", "aria-label": message("Branches") },
    el("p", { class: "group-title" }, title),
    el("ul", {}, ...cells),
  );
}

/**
 * Returns what is known of a branch; null for what is not.
 * @param {PanelData} data
 * @param {number} at
 */
function branchFacts(data, at) {
  /** @param {string} key */
  const logged = (key) => data.strings[key]?.[at] ?? null;
  const isTrained = logged("extra:split") !== BRANCH;
  const reward = data.values.reward?.[at] ?? null;
  return [
    isTrained ? message("trained") : logged("extra:branch") || message("not trained"),
    logged("extra:agent"),
    logged("ending"),
    reward === null ? null : message("reward {reward}", { reward: written(reward) }),
  ];
}

/**
 * Returns the turn from which on a branch differs from the first branch, null if none does.
 * @param {PanelData} data
 * @param {number} first
 * @param {number} at
 */
function parting(data, first, at) {
  const prompts = data.texts.prompt;
  if (prompts && prompts[first] !== prompts[at]) return message("another prompt");
  /** @param {number} place */
  const turnsOf = (place) => data.conversation?.[data.n[place]] ?? [];
  const firstTurns = turnsOf(first);
  const differing = turnsOf(at).findIndex((turn, k) => !areAlike(turn, firstTurns[k]));
  if (differing < 0) return null;
  return message("differs from turn {turn} on", { turn: differing + 1 });
}

/** @param {Turn} one @param {Turn | undefined} other */
function areAlike(one, other) {
  if (!other) return false;
  const areSameCalls = String(one.calls) === String(other.calls);
  return one.role === other.role && one.text === other.text && areSameCalls;
}
