/** The conversation after the prompt: role, text, tool calls and cost of each turn. */

/** @import { Turn } from "../shared/types.d.ts" */

import { searchable } from "../list/query.js";
import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { mark, markQuote } from "../shared/marks.js";
import { quoteSpan } from "../shared/quote.js";
import { message, nodes } from "../shared/words.js";

/** Longer outputs of the environment (in characters) are folded to their head and tail. */
const FOLD_FROM = 1600;
const HEAD = 800;
const TAIL = 400;

const OPEN = "<think>";
const CLOSE = "</think>";
/** Maximum number of thinking parts of a text; with more, they are not thinking. */
const MOST_PARTS = 200;

export class Conversation {
  /** @param {Turn[]} turns @param {string[]} errors of the whole rollout */
  constructor(turns, errors) {
    this.turns = turns;
    this.at = -1;
    /** Index of the first turn that contains the search text, −1 if none does. */
    this.found = -1;
    this.items = turns.map(item);
    const errorList = el(
      "ul",
      { class: "errors" },
      ...errors.map((error) => el("li", { dir: "auto" }, error)),
    );
    this.node = el(
      "section",
      { class: "spine", "aria-label": message("Turns") },
      this.tools(),
      errors.length > 0 && errorList,
      el("ol", {}, ...this.items),
    );
  }

  /** Returns the heading, and buttons that go to turns. */
  tools() {
    /** @param {string} label @param {string} key @param {() => void} go */
    const button = (label, key, go) => {
      const title = message("Key {key}", { key });
      return el("button", { type: "button", title, onclick: go }, label);
    };
    const counts = {
      count: written(this.turns.length, "count"),
      sampled: written(this.turns.filter((turn) => turn.sampled).length, "count"),
    };
    const wrong = this.turns.filter((turn) => turn.error).length;
    const nextError = message("Next error ({count})", { count: wrong });
    return el(
      "div",
      { class: "spine-tools" },
      el("h3", {}, message("Turns ({count}, {sampled} of the policy)", counts)),
      button(message("Next turn"), "t", () => this.next(1)),
      wrong > 0 && button(nextError, "e", () => this.error(1)),
      wrong > 1 && button(message("Previous error"), "E", () => this.error(-1)),
      button(message("Last answer"), "a", () => this.lastAnswer()),
    );
  }

  /**
   * Highlights a search text, unfolds its turns and scrolls to the first.
   * @param {string} query lower case
   */
  mark(query) {
    this.turns.forEach((turn, k) => {
      if (!query || !searchable(Object.values(turn).flat(2).join("\n")).includes(query)) return;
      if (this.found < 0) this.found = k;
      unfold(this.items[k]);
    });
    mark("found", this.node, [query]);
    if (this.found >= 0) this.show(this.found);
  }

  /** Marks a quote in the turn that has it, and unfolds that. @param {string} quote */
  cite(quote) {
    const k = this.turns.findIndex((turn) =>
      Object.values(turn)
        .flat(2)
        .some((text) => typeof text === "string" && quoteSpan(text, quote)),
    );
    if (k < 0) return;
    unfold(this.items[k]);
    this.show(k);
    markQuote(this.items[k], quote);
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

/** @param {HTMLElement} node */
function unfold(node) {
  /** @type {NodeListOf<HTMLElement>} */
  const folds = node.querySelectorAll("button.fold, details > summary");
  for (const fold of folds) fold.click();
}

/** @param {Turn} turn @param {number} k */
function item(turn, k) {
  return el(
    "li",
    { class: `turn ${sideOf(turn)}`, tabindex: -1 },
    roleOf(turn, k),
    ...contentOf(turn),
    ...(turn.calls ?? []).map(([name, given]) => call(name, given)),
  );
}

/** Returns the class of a turn. @param {Turn} turn */
function sideOf({ error, sampled }) {
  if (error) return "wrong";
  return sampled ? "sampled" : "given";
}

/**
 * Returns the line above a turn: its number, its role and its facts.
 * @param {Turn} turn
 * @param {number} k
 */
function roleOf(turn, k) {
  const { role, tool, error } = turn;
  const facts = factsOf(turn);
  return el(
    "p",
    { class: "role" },
    `${k + 1} · ${tool ? `${role} ${tool}` : role}`,
    error && el("span", { class: "severity critical" }, ` ${message("✕ error")}`),
    facts.length > 0 && el("span", { class: "facts" }, ` ${facts.join(" · ")}`),
  );
}

/** @param {Turn} turn */
function factsOf({ tokens, seconds, reward }) {
  const facts = [];
  if (tokens) {
    const [from, to] = tokens;
    facts.push(message("{count} tokens", { count: written(to - from, "count") }));
  }
  if (seconds !== undefined) facts.push(message("{seconds} s", { seconds: written(seconds) }));
  if (reward !== undefined) facts.push(message("reward {reward}", { reward: written(reward) }));
  return facts;
}

/** Returns what a turn says: its error, its thinking and its text. @param {Turn} turn */
function contentOf({ text, thinking, error, sampled }) {
  const parts = [];
  if (error && !text.startsWith(error)) {
    parts.push(el("p", { class: "error", dir: "auto" }, ...folded(error)));
  }
  if (thinking) parts.push(thought({ text: thinking, closed: true }));
  if (text) {
    const content = sampled ? thinkingFolded(text) : folded(text);
    parts.push(el("div", { class: "prose", dir: "auto" }, ...content));
  } else if (!error && !sampled) {
    parts.push(el("p", { class: "note" }, message("(empty)")));
  }
  return parts;
}

/** @typedef {{text: string, closed: boolean}} Thought text between the tags of thinking */

/** Returns a text of the policy as nodes, with its thinking folded. @param {string} text */
export function thinkingFolded(text) {
  return splitThinking(text).map((part) => (typeof part === "string" ? part : thought(part)));
}

/**
 * Splits a text of the policy into texts and thinking.
 * @param {string} text
 * @returns {(string | Thought)[]}
 */
export function splitThinking(text) {
  /** @type {(string | Thought)[]} */
  const parts = [];
  let at = 0;
  // If the chat template opens the thinking, the text has only the closing tag.
  const firstOpen = text.indexOf(OPEN);
  const firstClose = text.indexOf(CLOSE);
  if (firstClose >= 0 && (firstOpen < 0 || firstClose < firstOpen)) {
    parts.push({ text: text.slice(0, firstClose), closed: true });
    at = firstClose + CLOSE.length;
  }
  for (let opened = text.indexOf(OPEN, at); opened >= 0; opened = text.indexOf(OPEN, at)) {
    if (parts.length > MOST_PARTS) break;
    if (opened > at) parts.push(text.slice(at, opened));
    const closed = text.indexOf(CLOSE, opened);
    const end = closed < 0 ? text.length : closed;
    parts.push({ text: text.slice(opened + OPEN.length, end), closed: closed >= 0 });
    at = end + CLOSE.length;
  }
  parts.push(text.slice(at));
  return tidied(parts);
}

/** Removes the line breaks after thinking, and empty texts. @param {(string | Thought)[]} parts */
function tidied(parts) {
  const lines = parts.map((part, k) =>
    k > 0 && typeof part === "string" ? part.replace(/^\n+/, "") : part,
  );
  return lines.filter((part) => part !== "");
}

/** @param {Thought} thought */
function thought({ text, closed }) {
  const places = { count: written(text.length, "count") };
  const summary = closed
    ? message("Thinking, {count} characters", places)
    : message("Thinking, {count} characters, never closed", places);
  return el(
    "details",
    { class: "thought" },
    el("summary", {}, summary),
    el("div", { class: "prose", dir: "auto" }, text.trim()),
  );
}

/** Returns head and tail of a long text, and a button that shows the rest. @param {string} text */
export function folded(text) {
  if (text.length <= FOLD_FROM) return [text];
  const from = whole(text, HEAD);
  const to = whole(text, text.length - TAIL);
  const button = el(
    "button",
    { type: "button", class: "fold" },
    message("… {count} characters more …", { count: written(to - from, "count") }),
  );
  button.addEventListener("click", () => button.replaceWith(text.slice(from, to)));
  return [text.slice(0, from), button, text.slice(to)];
}

/**
 * Returns an index near `at` that does not split a surrogate pair.
 * @param {string} text
 * @param {number} at
 */
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

/**
 * Indents a JSON text; other texts, and numbers that parsing would change, stay as they are.
 * @param {string} text
 */
function laidOut(text) {
  try {
    const value = JSON.parse(text);
    if (typeof value !== "object" || /\d{16}|\d[eE]/.test(text)) return text;
    return JSON.stringify(value, null, 2);
  } catch {
    return text;
  }
}
