/** The panel of a prompt: its text, its rewards and answers over the steps. */

/** @import { StepTexts } from "../shared/types.d.ts" */
/** @import { AnswerText, Answers, Prompts } from "./answers.js" */

import { valuesOf } from "../response/metrics.js";
import { textsSection } from "../response/texts.js";
import { el } from "../shared/dom.js";
import { exact, written } from "../shared/format.js";
import { tokensOfStep } from "../shared/step-tokens.js";
import { textsOfStep } from "../shared/texts.js";
import { message } from "../shared/words.js";
import { evenly, stripOf } from "./answers.js";
import { filmFigure } from "./film-figure.js";

/** Maximum number of answers in the table, and of characters of the end of one. */
const MOST_ANSWERS = 24;
const END_CHARS = 160;

/** @typedef {{prompt: string, turns: [string, string][], answers: Map<number, string>}} Texts answers by row */

export class PromptPanel {
  /**
   * @param {HTMLElement} node
   * @param {Prompts} prompts
   * @param {HTMLElement[]} buttons of its head
   */
  constructor(node, prompts, buttons) {
    this.node = node;
    this.prompts = prompts;
    this.buttons = buttons;
    /** @type {string | null} id of the prompt that is shown */
    this.open = null;
    /** Ends what belongs to the open prompt. */
    this.shown = new AbortController();
  }

  close() {
    this.open = null;
    this.shown.abort();
    this.node.replaceChildren();
    this.node.hidden = true;
    this.node.parentElement?.classList.remove("listing");
  }

  /** @param {string} id */
  async show(id) {
    if (id === this.open) return;
    this.open = id;
    this.shown.abort();
    this.shown = new AbortController();
    const { signal } = this.shown;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    const hadFocus = this.node.contains(focused);
    const answers = this.prompts.of(id);
    const body = el("div", { class: "prompt-body", "aria-busy": answers !== null });
    const head = el(
      "div",
      { class: "response-head" },
      el("h2", {}, message("Prompt {id}", { id })),
      ...this.buttons,
    );
    this.node.parentElement?.classList.remove("listing");
    this.node.replaceChildren(head, body);
    this.node.setAttribute("aria-label", message("Prompt {id}", { id }));
    this.node.hidden = false;
    this.node.scrollTop = 0;
    // Re-inserting a focused button blurs it.
    if (hadFocus) (focused?.isConnected ? focused : this.node).focus({ preventScroll: true });
    if (!answers) {
      body.append(note(message("The report shows no response to this prompt.")));
      return;
    }
    await this.fill(body, answers, signal);
    body.removeAttribute("aria-busy");
  }

  /** @param {HTMLElement} body @param {Answers} answers @param {AbortSignal} signal */
  async fill(body, answers, signal) {
    const listed = evenly(answers.rows, MOST_ANSWERS);
    const inStrip = this.prompts.inStrip(answers);
    /** @type {Texts | null} */
    let texts = null;
    try {
      texts = await this.texts([...inStrip, ...listed]);
    } catch (error) {
      console.warn(error);
    }
    const tokens = texts ? await this.tokens(inStrip) : new Map();
    if (signal.aborted) return;
    if (texts) body.append(promptText(texts));
    else body.append(note(message("The texts could not be loaded.")));
    body.append(...this.strip(answers, texts, tokens, signal));
    body.append(this.table(answers, listed, texts));
  }

  /**
   * Returns the heading and the strip of a prompt, only its rewards without texts.
   * @param {Answers} answers
   * @param {Texts | null} texts
   * @param {Map<number, AnswerText["tokens"]>} tokens by row
   * @param {AbortSignal} signal
   */
  strip(answers, texts, tokens, signal) {
    const { prompts } = this;
    const { redacted, step } = prompts.data;
    /** @type {Map<number, AnswerText>} */
    const shown = new Map();
    if (texts && !redacted) {
      for (const [row, text] of texts.answers)
        shown.set(row, { text, tokens: tokens.get(row) ?? null });
    }
    const title = texts ? questionOf(texts) : message("Prompt {id}", { id: answers.id });
    const { data, legend } = stripOf(prompts, answers, title, shown);
    if (!data.rows.length && !data.curve) return [];
    const steps = new Set(answers.rows.map((row) => step[row]));
    const parts = [
      el("h3", {}, message("Answers across the run")),
      filmFigure(data, `prompt-${answers.id}`, signal),
    ];
    if (steps.size === 1)
      parts.push(note(message("The report has answers to this prompt at one step only.")));
    if (legend) parts.push(note(legend));
    return parts;
  }

  /**
   * Returns the texts of answers and of their prompt.
   * @param {number[]} rows
   * @returns {Promise<Texts>}
   */
  async texts(rows) {
    const { step, n } = this.prompts.data;
    const steps = [...new Set(rows.map((row) => step[row]))];
    const read = await Promise.all(steps.map((one) => textsOfStep(one)));
    const byStep = new Map(steps.map((one, k) => [one, read[k]]));
    /** @type {Texts} */
    const found = { prompt: "", turns: [], answers: new Map() };
    for (const row of rows) {
      const texts = /** @type {StepTexts} */ (byStep.get(step[row]));
      const at = texts.n.indexOf(n[row]);
      if (at < 0) continue;
      found.prompt ||= texts.texts.prompt?.[at] ?? "";
      if (!found.turns.length) found.turns = texts.turns[n[row]] ?? [];
      found.answers.set(row, texts.texts.response?.[at] ?? "");
    }
    return found;
  }

  /**
   * Returns the tokens of answers that have log-ratios, by row.
   * @param {number[]} rows
   */
  async tokens(rows) {
    /** @type {Map<number, AnswerText["tokens"]>} */
    const found = new Map();
    if (this.prompts.data.redacted) return found;
    const { step, n } = this.prompts.data;
    for (const row of rows) {
      // Answers are shown without colours where tokens cannot be read.
      const data = await tokensOfStep(step[row]).catch(() => null);
      const span = data?.spans.get(n[row]);
      const ratios = data && valuesOf(data, "log_ratio");
      if (!span || !ratios) continue;
      const ofAnswer = ratios.subarray(...span);
      if (!ofAnswer.some(Number.isFinite)) continue;
      const ids = data.ids.subarray(...span);
      found.set(row, {
        texts: Array.from(ids, (id) => data.vocabulary[id]),
        ratios: ofAnswer,
      });
    }
    return found;
  }

  /**
   * Returns the table of answers, with a link to the list of all.
   * @param {Answers} answers
   * @param {number[]} listed rows
   * @param {Texts | null} texts
   */
  table({ id, rows }, listed, texts) {
    const { data } = this.prompts;
    const heads = [message("Step"), message("Reward"), data.lengthLabel];
    const cells = heads.map((label, k) =>
      el("th", { scope: "col", class: k ? "number" : "link" }, label),
    );
    cells.push(el("th", { scope: "col", class: "text" }, message("End of the response")));
    const body = listed.map((row) => this.tableRow(row, texts?.answers.get(row) ?? null));
    const count = { shown: written(listed.length, "count"), all: written(rows.length, "count") };
    const all = el(
      "a",
      { class: "related", href: data.all.replaceAll("{prompt}", String(id)) },
      message("All responses to this prompt"),
    );
    return el(
      "section",
      { class: "answers" },
      el("h3", {}, message("Answers")),
      el(
        "div",
        { class: "scroll" },
        el("table", {}, el("thead", {}, el("tr", {}, ...cells)), el("tbody", {}, ...body)),
      ),
      el(
        "p",
        { class: "note" },
        listed.length < rows.length && `${message("{shown} of {all} responses", count)} · `,
        all,
      ),
    );
  }

  /** @param {number} row @param {string | null} text */
  tableRow(row, text) {
    const { data } = this.prompts;
    const reward = data.reward[row];
    const length = data.length[row];
    const href = this.prompts.href(row);
    const name = message("step {step}, response {n}", { step: data.step[row], n: data.n[row] });
    return el(
      "tr",
      {},
      el("td", { class: "link" }, el("a", { href }, name)),
      el("td", { class: "number", title: exact(reward ?? NaN) }, written(reward)),
      el("td", { class: "number", title: exact(length ?? NaN) }, written(length, "count")),
      el("td", { class: "text" }, el("div", { class: "clamp", dir: "auto" }, endOf(text))),
    );
  }
}

/** @param {string} words */
function note(words) {
  return el("p", { class: "note" }, words);
}

/** Returns the prompt, cut if it is long. @param {Texts} texts */
function promptText({ prompt, turns }) {
  const shown = { prompt, response: null, ref_response: null, ground_truth: null };
  return textsSection(shown, turns, { query: "", quote: "", highlights: [], repeated: false }).node;
}

/** Returns what a prompt asks, without system turns. @param {Texts} texts */
function questionOf({ prompt, turns }) {
  const asked = turns.filter(([role]) => role !== "system").map(([, text]) => text);
  return asked.join(" ") || prompt;
}

/** @param {string | null} text */
function endOf(text) {
  if (text === null) return "–";
  const line = text.trim().split(/\s+/).join(" ");
  if (!line) return message("(empty)");
  const characters = [...line.slice(-2 * END_CHARS)];
  if (line.length <= END_CHARS) return line;
  return `…${characters.slice(1 - END_CHARS).join("")}`;
}
