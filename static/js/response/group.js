/** The group of a response (all to its prompt in this step), and the branches of its rollout. */

import { BRANCH } from "../list/rows.js";
import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { differenceButton } from "./texts.js";
import { listed, marked, message } from "../shared/words.js";

/** @typedef {{n: number, at: number, reward: number | null, length: number | null, right: boolean | null}} Sibling */

/**
 * @param {any} data
 * @param {number} i
 * @param {{text: (key: string, i?: number) => string | null, open: (i: number) => void}} on
 * @returns {HTMLElement[]} empty for a response without a group
 */
export function groupStrip(data, i, { text, open }) {
  const group = data.groups?.find((members) => members.includes(data.n[i]));
  if (!group) return [];
  const siblings = group.map((n) => sibling(data, n));
  const rewards = siblings.map(({ reward }) => reward).filter((reward) => reward !== null);
  const [low, high] = [Math.min(...rewards), Math.max(...rewards)];
  const inTokens = Boolean(data.values.response_tokens);
  const cells = siblings.map((one) => {
    const verdict = one.right === null ? "" : one.right ? "right" : "wrong";
    const length = { count: written(one.length, "count") };
    const said = listed([
      message("Response {n}", { n: one.n }),
      message("reward {reward}", { reward: written(one.reward) }),
      inTokens ? message("{count} tokens", length) : message("{count} characters", length),
      verdict && (one.right ? message("right") : message("wrong")),
      one.at < 0 && message("its text is not in the report"),
    ]);
    return el(
      "li",
      {},
      el(
        "button",
        {
          type: "button",
          title: said,
          "aria-label": said,
          disabled: one.at < 0,
          "aria-current": one.n === data.n[i] ? "true" : null,
          onclick: () => open(one.at),
        },
        verdict &&
          el("span", { class: verdict, "aria-hidden": "true" }, verdict === "right" ? "✓ " : "✗ "),
        el("span", { class: "num" }, written(one.reward)),
        el("span", { class: "unit num" }, ` ${written(one.length, "count")}`),
      ),
    );
  });
  const title = inTokens
    ? message("{count} responses of the group: reward, tokens", { count: siblings.length })
    : message("{count} responses of the group: reward, characters", { count: siblings.length });
  const shown = siblings.filter(({ at, reward }) => at >= 0 && reward !== null);
  const best = shown.find(({ reward }) => reward === high);
  const worst = shown.find(({ reward }) => reward === low);
  const node = el(
    "section",
    { class: "group", "aria-label": message("Group") },
    el("p", { class: "group-title" }, title),
    groupLine(data, i, rewards),
    el("ul", {}, ...cells),
  );
  if (best && worst && low < high) node.append(comparison(best, worst, text));
  return [node];
}

/**
 * @param {any} data
 * @param {number} i
 * @returns {number[]} n of the branches of its rollout, the trained one first; empty for one branch
 */
export function branchesOf(data, i) {
  return data.branches?.find((members) => members.includes(data.n[i])) ?? [];
}

/**
 * Creates links to the branches of a response's rollout, with the turn at which they differ.
 * @param {any} data
 * @param {number} i
 * @param {(i: number) => void} open
 * @returns {HTMLElement[]} empty for a rollout of one branch
 */
export function branchStrip(data, i, open) {
  const members = branchesOf(data, i);
  const first = data.n.indexOf(members[0]);
  const logged = (key, at) => data.strings[key]?.[at];
  const cells = members.map((n, k) => {
    const at = data.n.indexOf(n);
    const said = listed([
      logged("extra:split", at) === BRANCH
        ? logged("extra:branch", at) || message("not trained")
        : message("trained"),
      logged("extra:agent", at),
      logged("ending", at),
      data.values.reward?.[at] != null &&
        message("reward {reward}", { reward: written(data.values.reward[at]) }),
      k > 0 && parting(data, first, at),
    ]);
    return el(
      "li",
      {},
      el(
        "button",
        { type: "button", "aria-current": at === i ? "true" : null, onclick: () => open(at) },
        `${k + 1} · ${said}`,
      ),
    );
  });
  if (!cells.length) return [];
  const title = message(
    "{count} branches of this rollout (key {key}); figures include only the trained one",
    { count: cells.length, key: "b" },
  );
  return [
    el(
      "section",
      { class: "group", "aria-label": message("Branches") },
      el("p", { class: "group-title" }, title),
      el("ul", {}, ...cells),
    ),
  ];
}

/** Returns the turn from which on a branch differs from the first branch. */
function parting(data, first, at) {
  const prompts = data.texts.prompt;
  if (prompts && prompts[first] !== prompts[at]) return message("another prompt");
  const [one, other] = [first, at].map((place) => data.conversation?.[data.n[place]] ?? []);
  const alike = (turn, k) =>
    ["role", "text", "calls"].every((key) => String(turn[key]) === String(one[k]?.[key]));
  const turn = other.findIndex((each, k) => !alike(each, k));
  return turn >= 0 && message("differs from turn {turn} on", { turn: turn + 1 });
}

/** Returns a line with the group's mean and std and the advantage, or that it gives no signal. */
function groupLine({ values, right, advantage: source }, i, rewards) {
  const [mean, std, advantage] = ["group_mean", "group_std", "group_advantage"].map(
    (key) => values[key]?.[i] ?? null,
  );
  if (mean === null || std === null) return null;
  const figures = { mean: written(mean), std: written(std), advantage: written(advantage) };
  const logged = source === "logged" ? (values.advantage_mean?.[i] ?? null) : null;
  if (logged !== null && (advantage !== null || logged !== 0))
    return el(
      "p",
      { class: "note" },
      message("mean {mean}, population std {std}; advantage {logged}, as logged", {
        ...figures,
        logged: written(logged),
      }),
    );
  if (advantage !== null)
    return el(
      "p",
      { class: "note" },
      message(
        "mean {mean}, population std {std}; advantage (reward − mean) / std = {advantage}, computed",
        figures,
      ),
    );
  if (right?.[i] === 1)
    return el("p", { class: "note" }, message("all correct: equal rewards give no advantage"));
  if (right?.[i] === 0)
    return el("p", { class: "note" }, message("all wrong: equal rewards give no advantage"));
  return (
    rewards.length > 1 &&
    el("p", { class: "note" }, message("equal rewards ({mean}) give no advantage", figures))
  );
}

/** @returns {Sibling} */
function sibling(data, n) {
  const at = data.n.indexOf(n);
  const { values } = data;
  const right = (value) => (value === null || value === undefined ? null : Boolean(value));
  if (at < 0) {
    const [reward, length, correct] = data.siblings[n];
    return { n, at, reward, length, right: right(correct) };
  }
  const length = (values.response_tokens ?? values.response_chars)?.[at] ?? null;
  return { n, at, reward: values.reward?.[at] ?? null, length, right: right(data.right?.[at]) };
}

/** Creates a comparison of the best and the worst response, filled when it is opened. */
function comparison(best, worst, text) {
  const node = el("details", { class: "versus" }, el("summary", {}, message("Best against worst")));
  node.addEventListener("toggle", () => {
    if (node.childElementCount > 1) return;
    const side = ({ n, at, reward }, literal) => {
      const body = el(
        "div",
        { class: "prose", dir: "auto" },
        text("response", at) || message("(empty)"),
      );
      return {
        body,
        node: el(
          "div",
          {},
          el("p", { class: "label" }, message(literal, { n, reward: written(reward) })),
          body,
        ),
      };
    };
    const [one, other] = [
      side(best, marked("Best: response {n}, reward {reward}")),
      side(worst, marked("Worst: response {n}, reward {reward}")),
    ];
    const button = differenceButton(
      message("Mark differences from the worst"),
      text("response", best.at) ?? "",
      text("response", worst.at) ?? "",
      one.body,
      other.body,
    );
    node.append(button, el("div", { class: "side-by-side" }, one.node, other.node));
    button.click();
  });
  return node;
}
