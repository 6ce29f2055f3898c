/** The conversation after the prompt: role, text, tool calls and cost of each turn. */

import { searchable } from "../list/rows.js";
import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { mark } from "../shared/marks.js";
import { message, nodes } from "../shared/words.js";

/**
 * @typedef {object} Turn as docs/page-data.md has it
 * @property {string} role
 * @property {string} text
 * @property {boolean} [sampled]
 * @property {[number, number]} [tokens]
 * @property {string} [thinking]
 * @property {[string, string][]} [calls]
 * @property {string} [tool]
 * @property {string} [error]
 * @property {number} [seconds]
 * @property {number} [reward]
 */

/** Longer outputs of the environment (in characters) are folded to their head and tail. */
const FOLD_FROM = 1600;
const HEAD = 800;
const TAIL = 400;

const [OPEN, CLOSE] = ["<think>", "</think>"];
/** Maximum number of thinking parts of a text; with more, they are not thinking. */
const MOST_PARTS = 200;

export class Conversation {
  /** @param {Turn[]} turns @param {string[]} errors of the whole rollout */
  constructor(turns, errors) {
    this.turns = turns;
    this.at = -1;
    /** Index of the first turn that contains the search text, -1 if none does. */
    this.found = -1;
    this.items = turns.map((turn, k) => item(turn, k));
    const go = (label, key, run) =>
      el("button", { type: "button", title: message("Key {key}", { key }), onclick: run }, label);
    const sampled = turns.filter((turn) => turn.sampled).length;
    const wrong = turns.filter((turn) => turn.error).length;
    this.node = el(
      "section",
      { class: "spine", "aria-label": message("Turns") },
      el(
        "div",
        { class: "spine-tools" },
        el(
          "h3",
          {},
          message("Turns ({count}, {sampled} of the policy)", {
            count: written(turns.length, "count"),
            sampled: written(sampled, "count"),
          }),
        ),
        go(message("Next turn"), "t", () => this.next(1)),
        wrong > 0 &&
          go(message("Next error ({count})", { count: wrong }), "e", () => this.error(1)),
        wrong > 1 && go(message("Previous error"), "E", () => this.error(-1)),
        go(message("Last answer"), "a", () => this.lastAnswer()),
      ),
      errors.length > 0 &&
        el("ul", { class: "errors" }, ...errors.map((error) => el("li", { dir: "auto" }, error))),
      el("ol", {}, ...this.items),
    );
  }

  /** Highlights a search text, unfolds its turns and scrolls to the first. @param {string} query lower case */
  mark(query) {
    this.turns.forEach((turn, k) => {
      if (!query || !searchable(Object.values(turn).flat(2).join("\n")).includes(query)) return;
      if (this.found < 0) this.found = k;
      for (const fold of this.items[k].querySelectorAll("button.fold, details > summary"))
        /** @type {HTMLElement} */ (fold).click();
    });
    mark("found", this.node, [query]);
    if (this.found >= 0) this.show(this.found);
  }

  /** @param {number} way */
  next(way) {
    this.go(Math.max(0, Math.min(this.turns.length - 1, this.at + way)));
  }

  /** Goes to the next (1) or previous (-1) error, cyclically. @param {number} way */
  error(way) {
    const wrong = this.turns.flatMap((turn, k) => (turn.error ? [k] : []));
    const ahead = way > 0 ? wrong.find((k) => k > this.at) : wrong.findLast((k) => k < this.at);
    this.go(ahead ?? wrong.at(way > 0 ? 0 : -1) ?? -1);
  }

  lastAnswer() {
    this.go(this.turns.findLastIndex((turn) => turn.sampled));
  }

  /** Scrolls to a turn and focuses it. @param {number} k */
  go(k) {
    if (k < 0) return;
    this.items[k].focus({ preventScroll: true });
    this.show(k);
  }

  /** @param {number} k */
  show(k) {
    this.items[this.at]?.classList.remove("at");
    this.at = k;
    const node = this.items[k];
    node.classList.add("at");
    // The browser estimates heights of turns that are not visible, so scroll several times.
    for (let turn = 0; turn < 3; turn += 1) node.scrollIntoView({ block: "start" });
  }
}

/** @param {Turn} turn @param {number} k */
function item(turn, k) {
  const { role, tool, error, seconds, reward, tokens } = turn;
  const facts = [
    tokens && message("{count} tokens", { count: written(tokens[1] - tokens[0], "count") }),
    seconds !== undefined && message("{seconds} s", { seconds: written(seconds) }),
    reward !== undefined && message("reward {reward}", { reward: written(reward) }),
  ].filter(Boolean);
  const side = error ? "wrong" : turn.sampled ? "sampled" : "given";
  return el(
    "li",
    { class: `turn ${side}`, tabindex: -1 },
    el(
      "p",
      { class: "role" },
      `${k + 1} · ${tool ? `${role} ${tool}` : role}`,
      error && el("span", { class: "severity critical" }, ` ${message("✕ error")}`),
      facts.length > 0 && el("span", { class: "facts" }, ` ${facts.join(" · ")}`),
    ),
    error &&
      !turn.text.startsWith(error) &&
      el("p", { class: "error", dir: "auto" }, ...folded(error)),
    turn.thinking && thought(turn.thinking, true),
    turn.text &&
      el(
        "div",
        { class: "prose", dir: "auto" },
        ...(turn.sampled ? splitThinking(turn.text) : folded(turn.text)),
      ),
    !turn.text && !error && !turn.sampled && el("p", { class: "note" }, message("(empty)")),
    ...(turn.calls ?? []).map(([name, given]) => call(name, given)),
  );
}

/** Splits a text of the policy into nodes, with its thinking folded. @param {string} text @returns {(Node | string)[]} */
export function splitThinking(text) {
  const parts = [];
  let at = 0;
  while (at < text.length) {
    const opened = text.indexOf(OPEN, at);
    const closed = text.indexOf(CLOSE, opened < 0 ? at : opened);
    // If the chat template opens the thinking, the text has only the closing tag.
    const begun =
      at === 0 && text.indexOf(CLOSE) >= 0 && (opened < 0 || text.indexOf(CLOSE) < opened);
    if (begun) {
      at = text.indexOf(CLOSE);
      parts.push(thought(text.slice(0, at), true));
      at += CLOSE.length;
      continue;
    }
    if (opened < 0 || parts.length > MOST_PARTS) {
      parts.push(text.slice(at));
      break;
    }
    if (opened > at) parts.push(text.slice(at, opened));
    const end = closed < 0 ? text.length : closed;
    parts.push(thought(text.slice(opened + OPEN.length, end), closed >= 0));
    at = end + CLOSE.length;
  }
  return parts
    .map((part, k) => (k && typeof part === "string" ? part.replace(/^\n+/, "") : part))
    .filter(Boolean);
}

/** @param {string} text @param {boolean} closed */
function thought(text, closed) {
  const places = { count: written(text.length, "count") };
  const length = closed
    ? message("Thinking, {count} characters", places)
    : message("Thinking, {count} characters, never closed", places);
  return el(
    "details",
    { class: "thought" },
    el("summary", {}, length),
    el("div", { class: "prose", dir: "auto" }, text.trim()),
  );
}

/** Returns head and tail of a long text, and a button that shows the rest. @param {string} text */
function folded(text) {
  if (text.length <= FOLD_FROM) return [text];
  const [from, to] = [whole(text, HEAD), whole(text, text.length - TAIL)];
  const button = el(
    "button",
    { type: "button", class: "fold" },
    message("… {count} characters more …", { count: written(to - from, "count") }),
  );
  button.addEventListener("click", () => button.replaceWith(text.slice(from, to)));
  return [text.slice(0, from), button, text.slice(to)];
}

/** Returns an index near `at` that does not split a surrogate pair. @param {string} text @param {number} at */
function whole(text, at) {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code < 0xe000 ? at + 1 : at;
}

/** @param {string} name @param {string} given */
function call(name, given) {
  return el(
    "div",
    { class: "call" },
    el(
      "span",
      { class: "role" },
      ...nodes("calls {tool}", { tool: el("code", { dir: "auto" }, name || "?") }),
    ),
    el("pre", { dir: "auto" }, ...folded(laidOut(given))),
  );
}

/** Indents a JSON text; other texts, and numbers that parsing would change, stay as they are. @param {string} text */
function laidOut(text) {
  try {
    const value = JSON.parse(text);
    if (typeof value !== "object" || /\d{16}|\d[eE]/.test(text)) return text;
    return JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}
