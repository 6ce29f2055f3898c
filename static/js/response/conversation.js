/** The conversation after the prompt: who spoke, what, with which tool, at what cost. */

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

/** A longer output of the environment shows its head and its tail. */
const FOLD_FROM = 1600;
const HEAD = 800;
const TAIL = 400;

const [OPEN, CLOSE] = ["<think>", "</think>"];
/** Thoughts of one text that are folded; more are no thinking. */
const MOST_PARTS = 200;

export class Conversation {
  /** @param {Turn[]} turns @param {string[]} errors what went wrong in the whole rollout */
  constructor(turns, errors) {
    this.turns = turns;
    this.at = -1;
    /** The first turn with what was searched for. */
    this.found = -1;
    this.items = turns.map((turn, k) => item(turn, k));
    const go = (label, key, run) => el("button", { type: "button", title: message("Key {key}", { key }), onclick: run }, label);
    const sampled = turns.filter((turn) => turn.sampled).length;
    const wrong = turns.filter((turn) => turn.error).length;
    this.node = el(
      "section",
      { class: "spine", "aria-label": message("Turns") },
      el(
        "div",
        { class: "spine-tools" },
        el("h3", {}, message("Turns ({count}, {sampled} of the policy)", { count: written(turns.length, "count"), sampled: written(sampled, "count") })),
        go(message("Next turn"), "t", () => this.next(1)),
        wrong > 0 && go(message("Next error ({count})", { count: wrong }), "e", () => this.error(1)),
        wrong > 1 && go(message("Previous error"), "E", () => this.error(-1)),
        go(message("Last answer"), "a", () => this.lastAnswer()),
      ),
      errors.length > 0 && el("ul", { class: "errors" }, ...errors.map((error) => el("li", { dir: "auto" }, error))),
      el("ol", {}, ...this.items),
    );
  }

  /** Marks what was searched for, unfolds it and scrolls to the first. @param {string} query lower case */
  mark(query) {
    this.turns.forEach((turn, k) => {
      if (!query || !searchable(Object.values(turn).flat(2).join("\n")).includes(query)) return;
      if (this.found < 0) this.found = k;
      for (const fold of this.items[k].querySelectorAll("button.fold, details > summary")) /** @type {HTMLElement} */ (fold).click();
    });
    mark("found", this.node, [query]);
    if (this.found >= 0) this.show(this.found);
  }

  /** @param {number} way */
  next(way) {
    this.go(Math.max(0, Math.min(this.turns.length - 1, this.at + way)));
  }

  /** To the next (1) or previous (-1) error; from the last to the first again. @param {number} way */
  error(way) {
    const wrong = this.turns.flatMap((turn, k) => (turn.error ? [k] : []));
    const ahead = way > 0 ? wrong.find((k) => k > this.at) : wrong.findLast((k) => k < this.at);
    this.go(ahead ?? wrong.at(way > 0 ? 0 : -1) ?? -1);
  }

  lastAnswer() {
    this.go(this.turns.findLastIndex((turn) => turn.sampled));
  }

  /** Brings a turn into sight, and the focus to it. @param {number} k */
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
    // Turns out of sight have guessed heights: the first scroll lays them out.
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
    error && !turn.text.startsWith(error) && el("p", { class: "error", dir: "auto" }, ...folded(error)),
    turn.thinking && thought(turn.thinking, true),
    turn.text && el("div", { class: "prose", dir: "auto" }, ...(turn.sampled ? splitThinking(turn.text) : folded(turn.text))),
    !turn.text && !error && !turn.sampled && el("p", { class: "note" }, message("(empty)")),
    ...(turn.calls ?? []).map(([name, given]) => call(name, given)),
  );
}

/** A text of the policy, its thinking folded. @param {string} text @returns {(Node | string)[]} */
export function splitThinking(text) {
  const parts = [];
  let at = 0;
  while (at < text.length) {
    const opened = text.indexOf(OPEN, at);
    const closed = text.indexOf(CLOSE, opened < 0 ? at : opened);
    // A chat template often opens the thinking itself: then the text has only its end.
    const begun = at === 0 && text.indexOf(CLOSE) >= 0 && (opened < 0 || text.indexOf(CLOSE) < opened);
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
  return parts.map((part, k) => (k && typeof part === "string" ? part.replace(/^\n+/, "") : part)).filter(Boolean);
}

/** @param {string} text @param {boolean} closed */
function thought(text, closed) {
  const places = { count: written(text.length, "count") };
  const length = closed ? message("Thinking, {count} characters", places) : message("Thinking, {count} characters, never closed", places);
  return el("details", { class: "thought" }, el("summary", {}, length), el("div", { class: "prose", dir: "auto" }, text.trim()));
}

/** Head and tail of a long text, and a button for what lies between. @param {string} text */
function folded(text) {
  if (text.length <= FOLD_FROM) return [text];
  const [from, to] = [whole(text, HEAD), whole(text, text.length - TAIL)];
  const button = el("button", { type: "button", class: "fold" }, message("… {count} characters more …", { count: written(to - from, "count") }));
  button.addEventListener("click", () => button.replaceWith(text.slice(from, to)));
  return [text.slice(0, from), button, text.slice(to)];
}

/** A place that does not cut a character in two. @param {string} text @param {number} at */
function whole(text, at) {
  const code = text.charCodeAt(at);
  return code >= 0xdc00 && code < 0xe000 ? at + 1 : at;
}

/** @param {string} name @param {string} given */
function call(name, given) {
  return el(
    "div",
    { class: "call" },
    el("span", { class: "role" }, ...nodes("calls {tool}", { tool: el("code", { dir: "auto" }, name || "?") })),
    el("pre", { dir: "auto" }, ...folded(laidOut(given))),
  );
}

/** JSON with a line for each member; other texts, and numbers that would change, stay. @param {string} text */
function laidOut(text) {
  try {
    const value = JSON.parse(text);
    if (typeof value !== "object" || /\d{16}|\d[eE]/.test(text)) return text;
    return JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}
