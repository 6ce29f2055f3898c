/** The siblings of a response: what else the policy wrote for its prompt in this step. */

import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { differenceButton } from "./texts.js";
import { listed, marked, message } from "../shared/words.js";

/** @typedef {{n: number, at: number, reward: number | null, length: number | null, right: boolean | null}} Sibling */

/**
 * @param {any} data
 * @param {number} i
 * @param {{text: (key: string, i?: number) => string | null, open: (i: number) => void}} on
 * @returns {HTMLElement[]} empty for a response that has no siblings
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
      one.at < 0 && message("not carried with its text"),
    ]);
    return el(
      "li",
      {},
      el(
        "button",
        {
          type: "button", title: said, "aria-label": said, disabled: one.at < 0,
          "aria-current": one.n === data.n[i] ? "true" : null, onclick: () => open(one.at),
        },
        verdict && el("span", { class: verdict, "aria-hidden": "true" }, verdict === "right" ? "✓ " : "✗ "),
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

/** Mean, std and advantage, or that the group gives no signal. */
function groupLine({ values, right, advantage: source }, i, rewards) {
  const [mean, std, advantage] = ["group_mean", "group_std", "group_advantage"].map((key) => values[key]?.[i] ?? null);
  if (mean === null || std === null) return null;
  const figures = { mean: written(mean), std: written(std), advantage: written(advantage) };
  const logged = source === "logged" ? (values.advantage_mean?.[i] ?? null) : null;
  if (logged !== null && (advantage !== null || logged !== 0)) return el("p", { class: "note" }, message("mean {mean}, population std {std}; advantage {logged}, as logged", { ...figures, logged: written(logged) }));
  if (advantage !== null) return el("p", { class: "note" }, message("mean {mean}, population std {std}; advantage (reward − mean) / std = {advantage}, computed", figures));
  if (right?.[i] === 1) return el("p", { class: "note" }, message("all right: equal rewards give no advantage"));
  if (right?.[i] === 0) return el("p", { class: "note" }, message("all wrong: equal rewards give no advantage"));
  return rewards.length > 1 && el("p", { class: "note" }, message("equal rewards ({mean}) give no advantage", figures));
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

/** Best against worst, made when it is asked for. */
function comparison(best, worst, text) {
  const node = el("details", { class: "versus" }, el("summary", {}, message("Best against worst")));
  node.addEventListener("toggle", () => {
    if (node.childElementCount > 1) return;
    const side = ({ n, at, reward }, literal) => {
      const body = el("div", { class: "prose", dir: "auto" }, text("response", at) || message("(empty)"));
      return { body, node: el("div", {}, el("p", { class: "label" }, message(literal, { n, reward: written(reward) })), body) };
    };
    const [one, other] = [
      side(best, marked("Best: response {n}, reward {reward}")),
      side(worst, marked("Worst: response {n}, reward {reward}")),
    ];
    const button = differenceButton(message("Mark differences to the worst"), text("response", best.at) ?? "", text("response", worst.at) ?? "", one.body, other.body);
    node.append(button, el("div", { class: "side-by-side" }, one.node, other.node));
    button.click();
  });
  return node;
}
