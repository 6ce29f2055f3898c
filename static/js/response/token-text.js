/** The text of a response, with tokens coloured by one metric. */

/** @import { Span, Turn } from "../shared/types.d.ts" */

import { el } from "../shared/dom.js";
import { message, plural } from "../shared/words.js";

/**
 * Minimum number of tokens in a block. The browser skips blocks that are not visible. A block ends
 * at the next line break, so that its end does not show, but after BLOCK_TO tokens in any case.
 */
const BLOCK_FROM = 250;
const BLOCK_TO = 2000;

/** Matches special tokens of common tokenizers, which are not text. */
const SPECIAL = /^(<\|.*\|>|<｜.*｜>|<\/?[a-zA-Z_]+>|\[[A-Z]+\]|<0x[0-9A-F]{2}>)$/;

/** Makes white space visible; line breaks and tabs keep their effect. @param {string} text */
export function visible(text) {
  if (!/\s/.test(text)) return text;
  const spaced = /^\s+$/.test(text) ? text.replace(/[ \u00a0\u3000]/g, "␣") : text;
  return spaced.replace(/\r/g, "␍").replace(/\n/g, "↵\n").replace(/\t/g, "⇥\t");
}

/**
 * @typedef {object} Listeners
 * @property {(i: number) => void} pick
 * @property {(i: number, node: Element) => void} hover
 * @property {() => void} leave
 */

export class TokenText {
  /**
   * @param {string[]} texts readable text of each token, "" if a later token completes its
   *   character
   * @param {Turn[]} turns turns whose headings are between the tokens
   * @param {Span[]} given tokens that the policy did not sample
   * @param {Listeners} on
   */
  constructor(texts, turns, given, on) {
    this.size = texts.length;
    /** @type {HTMLElement[]} */
    this.blocks = [];
    /** @type {number[]} index of each block's first token */
    this.starts = [];
    /** @type {string[]} classes of each token that do not depend on its colour */
    this.kinds = [];
    this.at = -1;
    /** @type {Span | null} tokens of a quote */
    this.cited = null;
    this.node = el("div", { class: "token-text", role: "group", dir: "auto" });
    /** @type {Set<HTMLElement>} blocks of tokens that have no colours */
    this.grey = new Set();
    this.build(texts, turns, given);
    this.foldGrey();
    this.node.classList.toggle("long", this.blocks.length > 1);
    this.listen(on);
  }

  /** @param {Listeners} on */
  listen(on) {
    this.node.addEventListener("click", (event) => {
      const i = this.indexOf(event.target);
      if (i >= 0) on.pick(i);
    });
    this.node.addEventListener("pointerover", (event) => {
      const i = this.indexOf(event.target);
      if (i >= 0) on.hover(i, /** @type {Element} */ (event.target));
      else on.leave();
    });
    this.node.addEventListener("pointerleave", () => on.leave());
  }

  /** @param {string[]} texts @param {Turn[]} turns @param {Span[]} given */
  build(texts, turns, given) {
    const heads = headsOf(turns);
    /** @type {Map<number, boolean>} token → whether it and those after it are grey */
    const turnsGrey = new Map();
    for (const [from, to] of given) turnsGrey.set(from, true).set(to, false);
    const look = lookCache();
    let block = this.open(0, false, heads.get(0) ?? null);
    heads.delete(0);
    let isGrey = false;
    let endsLine = false;
    texts.forEach((text, i) => {
      const mustCut = turnsGrey.has(i) || heads.has(i);
      isGrey = turnsGrey.get(i) ?? isGrey;
      if (mustCut || this.isFull(i, isGrey, endsLine)) {
        block = this.open(i, isGrey, heads.get(i) ?? null);
      }
      const { kind, shown } = look(text);
      const span = document.createElement("span");
      span.textContent = shown;
      if (isGrey) span.className = kind;
      this.kinds.push(kind);
      block.append(span);
      endsLine = text.endsWith("\n");
    });
  }

  /**
   * Returns whether the last block ends before token i.
   * @param {number} i
   * @param {boolean} isGrey
   * @param {boolean} endsLine whether the token before i does
   */
  isFull(i, isGrey, endsLine) {
    const length = i - this.starts[this.starts.length - 1];
    // Grey blocks are short, so that most of a long text of the environment can be folded.
    const most = isGrey ? BLOCK_FROM : BLOCK_TO;
    return (endsLine && length >= BLOCK_FROM) || length >= most;
  }

  /** Folds long texts of the environment to their first and last block. */
  foldGrey() {
    /** @type {HTMLElement[]} neighbouring grey blocks without a heading between them */
    let run = [];
    for (const block of this.blocks) {
      const isGrey = this.grey.has(block);
      const goesOn = isGrey && block.previousElementSibling === run.at(-1);
      if (!goesOn) {
        this.fold(run);
        run = [];
      }
      if (isGrey) run.push(block);
    }
    this.fold(run);
  }

  /** @param {HTMLElement[]} run */
  fold(run) {
    if (run.length > 3) this.hide(run.slice(1, -1));
  }

  /** @param {HTMLElement[]} blocks */
  hide(blocks) {
    const tokens = blocks.reduce((sum, block) => sum + block.childElementCount, 0);
    const button = el(
      "button",
      { type: "button", class: "fold" },
      plural("… {count} token more …", "… {count} tokens more …", tokens, { count: tokens }),
    );
    for (const block of blocks) block.hidden = true;
    button.addEventListener("click", () => {
      for (const block of blocks) block.hidden = false;
      button.remove();
    });
    blocks[0].before(button);
  }

  /**
   * Opens a block.
   * @param {number} start
   * @param {boolean} isGrey
   * @param {HTMLElement | null} heading
   */
  open(start, isGrey, heading) {
    const block = el("div", { class: isGrey ? "block given" : "block" });
    if (isGrey) this.grey.add(block);
    if (heading) this.node.append(heading);
    this.node.append(block);
    this.blocks.push(block);
    this.starts.push(start);
    return block;
  }

  /** @param {(i: number) => string} className of the bin of token i */
  colour(className) {
    this.blocks.forEach((block, b) => {
      if (this.grey.has(block)) return;
      let i = this.starts[b];
      for (let span = block.firstElementChild; span; span = span.nextElementSibling, i += 1) {
        span.className = `${this.kinds[i]} ${className(i)}`;
      }
    });
    if (this.at >= 0) this.span(this.at).classList.add("at");
    this.cite(this.cited);
  }

  /** Marks the tokens of a quote. @param {Span | null} cited */
  cite(cited) {
    this.cited = cited;
    if (!cited) return;
    for (let i = cited[0]; i < cited[1]; i += 1) {
      const span = this.span(i);
      span.classList.add("cited");
      if (span.parentElement) span.parentElement.hidden = false;
    }
  }

  /** @param {EventTarget | null} target @returns {number} index of the token, −1 if it is none */
  indexOf(target) {
    const span = target instanceof Element ? target.closest(".t") : null;
    const block = span?.parentElement;
    const b = this.blocks.indexOf(/** @type {HTMLElement} */ (block));
    return b < 0 ? -1 : this.starts[b] + Array.prototype.indexOf.call(block?.children, span);
  }

  /** @param {number} i @returns {HTMLElement} */
  span(i) {
    let b = this.starts.length - 1;
    while (this.starts[b] > i) b -= 1;
    return /** @type {HTMLElement} */ (this.blocks[b].children[i - this.starts[b]]);
  }

  /**
   * Marks token i as the current one, the only one that Tab reaches; arrow keys move from it.
   * @param {number} i
   * @param {{focus?: boolean, describedBy?: string, room?: number}} [how] `room`: pixels that
   *   are to be free below the token
   */
  select(i, { focus = false, describedBy = "", room } = {}) {
    if (this.at >= 0) {
      const before = this.span(this.at);
      before.classList.remove("at");
      before.removeAttribute("tabindex");
      before.removeAttribute("aria-describedby");
    }
    this.at = i;
    const span = this.span(i);
    if (span.parentElement) span.parentElement.hidden = false;
    span.classList.add("at");
    span.tabIndex = 0;
    if (describedBy) span.setAttribute("aria-describedby", describedBy);
    if (focus) span.focus({ preventScroll: true });
    reveal(span, room);
  }

  /**
   * Returns the token nearest to i one line up (−1) or down (1).
   * @param {number} i
   * @param {number} way
   */
  vertical(i, way) {
    const from = this.span(i).getBoundingClientRect();
    let best = i;
    let gap = Infinity;
    let line = NaN;
    for (let k = i + way; k >= 0 && k < this.size; k += way) {
      const rect = this.span(k).getBoundingClientRect();
      if (Math.abs(rect.top - from.top) < 4) continue;
      if (Number.isNaN(line)) line = rect.top;
      if (Math.abs(rect.top - line) >= 4) break;
      const distance = Math.abs(rect.left - from.left);
      if (distance >= gap) continue;
      best = k;
      gap = distance;
    }
    return best;
  }
}

/** Returns the headings of turns by their first token. @param {Turn[]} turns */
function headsOf(turns) {
  /** @type {Map<number, HTMLElement>} */
  const heads = new Map();
  turns.forEach((turn, k) => {
    if (turn.tokens) heads.set(turn.tokens[0], head(turn, k));
  });
  return heads;
}

/** @param {Turn} turn @param {number} k */
function head({ role, tool, error }, k) {
  const words = [`${k + 1} · ${role}`, tool, error && message("✕ error")].filter(Boolean);
  return el("p", { class: "role" }, words.join(" "));
}

/** Returns a function that returns a token's look; cached, as most tokens recur. */
function lookCache() {
  /** @type {Map<string, {kind: string, shown: string}>} */
  const known = new Map();
  /** @param {string} text */
  return (text) => {
    const found = known.get(text);
    if (found) return found;
    const look = { kind: kindOf(text), shown: visible(text) };
    known.set(text, look);
    return look;
  };
}

/** Returns the classes of a token with this text. @param {string} text */
export function kindOf(text) {
  if (text === "") return "t part";
  if (SPECIAL.test(text)) return "t special";
  return text.length > 1 && text.startsWith(" ") ? "t lead" : "t";
}

/** Space in pixels above a token, for sticky controls, and the least below it. */
const ROOM_PX = { above: 96, below: 48 };

/**
 * Scrolls to a token, in the page and in every scrollable element.
 * @param {HTMLElement} span
 * @param {number} [below] space below it
 */
function reveal(span, below = ROOM_PX.below) {
  // The browser estimates heights of blocks that are not visible, so scroll several times.
  for (let turn = 0; turn < 3 && !inSight(span, below); turn += 1)
    span.scrollIntoView({ block: "center", inline: "nearest" });
}

/** @param {HTMLElement} span @param {number} below */
function inSight(span, below) {
  const { top, bottom } = span.getBoundingClientRect();
  const box = span.closest(".response")?.getBoundingClientRect();
  return (
    top >= Math.max(0, box?.top ?? 0) + ROOM_PX.above &&
    bottom <= Math.min(innerHeight, box?.bottom ?? innerHeight) - below
  );
}
