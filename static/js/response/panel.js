/** The response panel, which shows one response in full, beside or below the list. */

/** @import { Badge, PanelData } from "../shared/types.d.ts" */

import { copies } from "../shared/copy.js";
import { menu } from "../shared/menu.js";
import { el } from "../shared/dom.js";
import { linkText } from "../shared/link.js";
import { written } from "../shared/format.js";
import { stepsOfRun } from "../shared/run.js";
import { keepsTokens, tokensFile, tokensNamed } from "../shared/step-tokens.js";
import { TEXT_OF_SIDE, ends, figures } from "./compared.js";
import { judgedTexts } from "./grading.js";
import { stats } from "./stats.js";
import { branchesOf, branchStrip, groupStrip } from "./group.js";
import { hrefOf, samePrompt, samePromptLinks, timelineLink } from "./same-prompt.js";
import { Conversation } from "./conversation.js";
import { textsSection } from "./texts.js";
import { Tip } from "../shared/tip.js";
import { TokenView } from "./tokens.js";
import { marked, message } from "../shared/words.js";

/** Maximum number of characters of a ground truth to show it in the line of figures. */
const SHORT_TRUTH = 80;
/** @type {Record<string, string>} */
const GLYPHS = { critical: "✕", warning: "▲", info: "i" };
/** @type {Record<string, string>} */
const SEVERITIES = {
  critical: marked("critical"),
  warning: marked("warning"),
  info: marked("note"),
};

/** @typedef {{data: PanelData, at: number}} Located data, and the index of a response in them */

/**
 * @typedef {object} Options
 * @property {PanelData | null} data of the page, null if those of each step are loaded
 * @property {import("../list/rows.js").Rows} rows
 * @property {import("../shared/address.js").Address} address
 * @property {(i: number | null) => void} go opens row i, or closes the panel
 * @property {AbortSignal} signal
 * @property {(i: number) => Promise<Located>} [locate] loads the data of row i
 * @property {(data: PanelData, at: number) => number} [rowOf] returns the row of a response in
 *   such data
 * @property {(id: [number, number]) => string} [hrefTo] returns the address of a response, given
 *   its step and n
 * @property {(data: PanelData, at: number) => Node} [stepLink] returns the link to the
 *   response on the page of its step
 */

export class Panel {
  /** @param {HTMLElement} node @param {Options} options */
  constructor(node, { data, rows, address, go, signal, locate, rowOf, hrefTo, stepLink }) {
    this.node = node;
    /** Data of the open response; before, those of the page. */
    this.data = data;
    this.rows = rows;
    this.address = address;
    this.go = go;
    /** @type {TokenView[]} of the open response or, in a comparison, of both */
    this.tokenViews = [];
    /** @type {Conversation | null} */
    this.conversation = null;
    // Reuse the controls of the head for every response, so that they keep the focus.
    this.previous = keyButton(message("← Previous"), "k", () => this.move(-1));
    this.next = keyButton(message("Next →"), "j", () => this.move(1));
    this.closeButton = keyButton(message("Close"), "Escape", () => go(null));
    this.closeButton.className = "close";
    this.place = el("output", { class: "count" });
    this.status = el("output", { class: "said" });
    /** Index of the open row, −1 when closed. */
    this.open = -1;
    /** Index of the open response in `data`. */
    this.at = -1;
    this.locate = locate ?? null;
    this.rowOf = rowOf ?? ((_, at) => at);
    this.hrefTo = hrefTo ?? ((id) => hrefOf(address, id));
    this.stepLink = stepLink ?? null;
    this.tip = new Tip(document.body, signal);
    rows.listeners.add(() => this.showPlace());
    signal.addEventListener("abort", () => this.close());
  }

  /** Shows row i of the page's data. @param {number} i */
  async show(i) {
    if (i === this.open) {
      for (const view of this.tokenViews) view.sync();
      return;
    }
    this.dropTokens();
    const wasOpen = this.open >= 0;
    this.open = i;
    this.node.parentElement?.classList.remove("listing");
    // Without waiting where the data are here, so that the panel is there at once.
    const located = this.locate
      ? await this.locate(i)
      : { data: /** @type {PanelData} */ (this.data), at: i };
    if (this.open !== i) return;
    this.data = located.data;
    this.at = located.at;
    const focused = this.focusedPart();
    const { texts, holder } = this.showParts(located);
    if (wasOpen) this.scrollToTop();
    texts.remark();
    this.conversation?.mark(this.rows.query);
    this.showPlace();
    if (focused) this.focusAgain(focused);
    this.goToTurn();
    await this.showTokens(located, holder);
    this.goToQuote(texts.cite);
  }

  /** The token view that keys act on: the one with the focus, else the one that the URL names. */
  get tokens() {
    const { tokenViews, address } = this;
    const side = address.get("side") ?? "";
    const focused = tokenViews.find((view) => view.root.contains(document.activeElement));
    return focused ?? tokenViews.find((view) => view.side === side) ?? tokenViews[0] ?? null;
  }

  /** Marks the quote that the URL has. @param {() => boolean} inText marks it in the texts */
  goToQuote(inText) {
    const quote = this.address.get("quote");
    if (!quote) return;
    this.tokens?.cite(quote);
    if (!inText()) this.conversation?.cite(quote);
  }

  /**
   * What the report has of the open response's step or, if its data come with a response and none
   * is open, of the run.
   */
  get has() {
    const { data } = this;
    const run = stepsOfRun();
    if (!data) {
      const prompts = Object.keys(run?.prompts ?? {}).length > 0;
      const tokens = (run?.tokens.length ?? 0) > 0;
      return { prompts, tokens, turns: false, branches: false };
    }
    return {
      prompts: Boolean(run && data.prompts),
      tokens: this.tokens ? this.tokens.metrics.length > 0 : hasTokens(data),
      turns: Boolean(data.conversation),
      branches: Boolean(data.branches),
    };
  }

  /** Returns the element of the panel that has the focus, null if it is elsewhere. */
  focusedPart() {
    const focused = /** @type {HTMLElement} */ (document.activeElement);
    return this.node.contains(focused) ? focused : null;
  }

  /**
   * Keeps the focus in the panel after its parts were replaced.
   * @param {HTMLElement} part that had it
   */
  focusAgain(part) {
    // Re-inserting a focused button blurs it; a disabled one cannot have the focus.
    const canKeep = part.isConnected && !part.matches(":disabled");
    (canKeep ? part : this.node).focus({ preventScroll: true });
  }

  /** Scrolls to the top of the panel, if it is above the window. */
  scrollToTop() {
    const { top } = this.node.getBoundingClientRect();
    if (top < 0) this.node.scrollIntoView({ block: "start" });
  }

  /**
   * Fills the panel with a response; returns its texts and the place of its tokens.
   * @param {Located} located
   */
  showParts({ data, at }) {
    const n = data.n[at];
    /** @param {string} key @param {number} [place] */
    const text = (key, place = at) => data.texts[key]?.[place] ?? null;
    this.conversation = conversationOf(data, n);
    const truth = text("ground_truth");
    const shortTruth = isShortTruth(truth) ? truth : null;
    const texts = textsSection(
      {
        prompt: text("prompt"),
        response: this.conversation ? null : text("response"),
        ref_response: text("ref_response"),
        ground_truth: shortTruth === null ? truth : null,
      },
      data.turns[n] ?? [],
      {
        query: this.rows.query,
        quote: this.address.get("quote") ?? "",
        highlights: data.highlights,
        titles: data.titles,
        repeated: keepsTokens(data.step),
      },
    );
    const holder = el("section", { class: "token-view", "aria-label": message("Tokens") });
    const { above, below } = data.compared
      ? aroundBoth(data.compared, { data, at })
      : this.aroundTexts({ data, at }, shortTruth, text);
    const parts = [
      this.head({ data, at }, text),
      ...above,
      texts.node,
      this.conversation?.node ?? null,
      judgedTexts(data, at),
      holder,
      below,
    ];
    this.node.replaceChildren(...parts.filter((part) => part !== null));
    this.node.hidden = false;
    this.node.setAttribute("aria-label", titleOf(data, n));
    this.node.scrollTop = 0;
    return { texts, holder };
  }

  /**
   * Returns what stands above the texts of a response, and its other figures below them.
   * @param {Located} located
   * @param {string | null} shortTruth
   * @param {(key: string, place?: number) => string | null} text
   */
  aroundTexts({ data, at }, shortTruth, text) {
    /** @param {number} place */
    const open = (place) => this.go(this.rowOf(data, place));
    const { line, rest } = stats(data, at, shortTruth);
    const above = [
      this.badges(data.badges[data.n[at]] ?? [], data.step),
      line,
      branchStrip(data, at, open),
      groupStrip(data, at, { text, open }),
    ];
    return { above, below: rest };
  }

  /** Goes to the turn that the URL names. */
  goToTurn() {
    const turn = this.address.get("turn");
    const { conversation } = this;
    if (turn === null || !conversation) return;
    if (turn === "error") conversation.error(1);
    else conversation.go(Math.min(Number(turn) || 0, conversation.turns.length - 1));
  }

  dropTokens() {
    for (const view of this.tokenViews) view.unmount();
    this.tokenViews = [];
  }

  close() {
    this.open = -1;
    this.at = -1;
    this.dropTokens();
    this.conversation = null;
    this.node.replaceChildren();
    this.node.hidden = true;
    this.node.parentElement?.classList.remove("listing");
  }

  /**
   * Shows a message that the URL names a response which the report does not show.
   * @param {string} n
   */
  showMissing(n) {
    this.close();
    this.node.replaceChildren(
      el("div", { class: "response-head" }, el("h2", {}, titleOf(this.data, n)), this.closeButton),
      el("p", { class: "note" }, message("The report does not include the text of this response.")),
    );
    this.node.hidden = false;
  }

  /** @param {Located} located @param {(key: string) => string | null} text */
  head({ data, at }, text) {
    const where = data.where[at];
    this.status.textContent = "";
    return el(
      "div",
      { class: "response-head" },
      el("h2", {}, titleOf(data, data.n[at])),
      listButton(this.node),
      this.previous,
      this.next,
      this.place,
      this.closeButton,
      el(
        "div",
        { class: "response-more" },
        this.stepLink?.(data, at) ?? null,
        ...samePromptLinks(data, at, this.hrefTo),
        timelineLink(data, at),
        this.status,
        copyMenu(copiesOf(data, text), where),
        el("span", { class: "place" }, where),
      ),
    );
  }

  /** Shows the position of the response in the sorted and filtered list. */
  showPlace() {
    if (this.open < 0) return;
    const { order } = this.rows;
    const at = order.indexOf(this.open);
    const place = { place: written(at + 1, "count"), all: written(order.length, "count") };
    this.place.textContent =
      at < 0 ? message("not in the filtered list") : message("{place} of {all} listed", place);
    this.previous.disabled = at === 0 || !order.length;
    this.next.disabled = at === order.length - 1;
  }

  /** Goes to the next (1) or previous (−1) response of the list. @param {number} delta */
  move(delta) {
    const { order } = this.rows;
    const at = this.open < 0 ? -1 : order.indexOf(this.open);
    const next = at < 0 ? 0 : at + delta;
    if (next >= 0 && next < order.length) this.go(order[next]);
  }

  /** Place of the open response in the log, "" for none. */
  get where() {
    return this.data?.where[this.at] ?? "";
  }

  /** Goes to the next branch of the open response's rollout. */
  nextBranch() {
    const { data, at } = this;
    if (!data || at < 0) return;
    const branches = branchesOf(data, at);
    if (!branches.length) return;
    const next = branches[(branches.indexOf(data.n[at]) + 1) % branches.length];
    this.go(this.rowOf(data, data.n.indexOf(next)));
  }

  /**
   * Goes to a response to the same prompt at an earlier (−1) or later (1) step.
   * @param {number} way
   */
  samePrompt(way) {
    const { data, at } = this;
    if (!data || at < 0) return;
    const { earlier, later } = samePrompt(data, at);
    const there = way < 0 ? earlier : later;
    if (there) {
      location.assign(this.hrefTo(there));
      return;
    }
    this.status.textContent =
      way < 0
        ? message("No earlier step shows this prompt.")
        : message("No later step shows this prompt.");
  }

  /**
   * Returns the findings that cite the response, null for none.
   * @param {Badge[]} badges
   * @param {string} step
   */
  badges(badges, step) {
    if (!badges.length) return null;
    return el("ul", { class: "findings" }, ...badges.map((badge) => this.badge(badge, step)));
  }

  /** @param {Badge} badge @param {string} step */
  badge({ severity, title, token }, step) {
    const glyph = el("span", { class: "glyph", "aria-hidden": "true" }, GLYPHS[severity]);
    const name = ` ${message(SEVERITIES[severity] ?? severity)}`;
    const item = el(
      "li",
      {},
      el("span", { class: `severity ${severity}` }, glyph, name),
      ` ${title} `,
    );
    if (token !== null && keepsTokens(step)) {
      const onclick = () => this.tokens?.pick(token);
      const label = message("Go to token {token}", { token });
      item.append(el("button", { type: "button", onclick }, label));
    }
    return item;
  }

  /** @param {Located} located @param {HTMLElement} holder */
  async showTokens({ data, at }, holder) {
    const i = this.open;
    const key = tokensKey(data, data.n[at]);
    if (!key) return;
    let tokens = null;
    try {
      tokens = await tokensNamed(key);
    } catch {
      if (this.open === i) holder.append(note(unreadable(key, data)));
    }
    if (this.open !== i || !tokens) return;
    for (const side of tokenSides(data, data.n[at])) this.showTokensOf(side, data, tokens, holder);
  }

  /**
   * Shows the tokens of a response.
   * @param {TokenSide} tokenSide
   * @param {PanelData} data
   * @param {import("../shared/data.js").TokenData} tokens
   * @param {HTMLElement} holder
   */
  showTokensOf({ n, side, name }, data, tokens, holder) {
    if (!tokens.spans.has(n)) {
      const missing = name
        ? message("The report contains no token values of {name}.", { name })
        : message("The report contains no token values of this response.");
      holder.append(note(missing));
      return;
    }
    const root = name ? holder.appendChild(el("section", { "aria-label": name })) : holder;
    const own = { data: tokens, n, turns: data.conversation?.[n] ?? [], side, name };
    this.tokenViews.push(new TokenView(root, own, { address: this.address, tip: this.tip }));
  }
}

/**
 * Returns what stands above the texts of both responses of a comparison, and below them.
 * @param {import("../shared/types.d.ts").Compared} compared
 * @param {Located} located
 */
function aroundBoth(compared, { data, at }) {
  const { table, rest } = figures(compared, at);
  return { above: [ends(compared, data, at), table], below: rest };
}

/** @param {string} words */
function note(words) {
  return el("p", { class: "note" }, words);
}

/** Returns whether the report keeps tokens of some of the responses. @param {PanelData} data */
function hasTokens({ compared, step }) {
  return compared ? compared.tokens.length > 0 : keepsTokens(step);
}

/**
 * Returns what names the tokens of a response, "" if the report keeps none.
 * @param {PanelData} data
 * @param {number} n
 */
function tokensKey({ compared, step }, n) {
  if (compared) return compared.tokens.includes(n) ? String(n) : "";
  return keepsTokens(step) ? step : "";
}

/**
 * @typedef {object} TokenSide a response whose tokens the panel shows
 * @property {number} n its number among the tokens
 * @property {string} side value of `side` in the URL that names a token of it
 * @property {string} name "" if it is the only one
 */

/** @param {PanelData} data @param {number} n @returns {TokenSide[]} */
function tokenSides({ compared }, n) {
  if (!compared) return [{ n, side: "", name: "" }];
  // A URL without a side names a token of NEW.
  return compared.sides.map(({ key, name }, i) => ({ n: i, side: key === "new" ? "" : key, name }));
}

/** @param {PanelData} data @param {number} n */
function conversationOf(data, n) {
  const turns = data.conversation?.[n];
  return turns ? new Conversation(turns, data.errors?.[n] ?? []) : null;
}

/**
 * Returns a note that tokens cannot be read.
 * @param {string} key
 * @param {PanelData} data
 */
function unreadable(key, { compared }) {
  const file = tokensFile(key).replace(/^(\.\.\/)+/, "");
  if (compared) return message("The token values of this prompt are missing or damaged.");
  if (!file) return message("The token values of this step are damaged and cannot be shown.");
  return message("{file} is missing or damaged: the token values of this step are not shown.", {
    file,
  });
}

/**
 * Returns the button that shows the list in place of a panel, on a narrow screen.
 * @param {HTMLElement} panel beside the list
 */
export function listButton(panel) {
  const properties = { type: "button", class: "to-list", "aria-pressed": "false" };
  const button = el("button", properties, message("List"));
  button.addEventListener("click", () => {
    const on = panel.parentElement?.classList.toggle("listing") ?? false;
    button.setAttribute("aria-pressed", String(on));
  });
  return button;
}

/** @param {string} label @param {string} key @param {() => void} run */
export function keyButton(label, key, run) {
  const title = message("Key {key}", { key });
  return el("button", { type: "button", title, onclick: run }, label);
}

/** Returns whether a ground truth fits into the line of figures. @param {string | null} truth */
function isShortTruth(truth) {
  if (truth === null) return false;
  return truth.trim() !== "" && truth.length <= SHORT_TRUTH && !truth.includes("\n");
}

/** @param {PanelData | null} data @param {number | string} n */
export function titleOf(data, n) {
  const other = data?.titles?.row;
  return other ? other.replace("{n}", String(n)) : message("Response {n}", { n });
}

/**
 * Returns name → text of what can be copied: the response or, in a comparison, both.
 * @param {PanelData} data
 * @param {(key: string) => string | null} text
 * @returns {[string, () => string][]}
 */
function copiesOf({ compared }, text) {
  if (!compared) return [[message("Response"), () => text("response") ?? ""]];
  return compared.sides.map(({ key, name }) => [name, () => text(TEXT_OF_SIDE[key]) ?? ""]);
}

/**
 * Creates the menu that copies responses, their link or their place in the log.
 * @param {[string, () => string][]} responses name → text
 * @param {string} where
 */
function copyMenu(responses, where) {
  /** @param {string} label @param {() => string} text */
  const copyButton = (label, text) => {
    const button = el("button", { type: "button" }, label);
    copies(button, text);
    return button;
  };
  const { node } = menu(message("Copy"), (sheet) =>
    sheet.replaceChildren(
      ...responses.map(([name, text]) => copyButton(name, text)),
      copyButton(message("Link"), () => linkText(where)),
      copyButton(message("Log location"), () => where),
    ),
  );
  return node;
}
