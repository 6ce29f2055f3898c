/** Data about the whole run, for the pages of steps. */

import { readJson } from "./dom.js";

/**
 * @typedef {object} Steps data about the whole run; see docs/page-data.md
 * @property {number[]} steps
 * @property {(number | null)[]} rewards
 * @property {string} href
 * @property {string} prompt address of the list of responses to a prompt
 * @property {Record<string, string>} findings
 * @property {Record<string, number[]>} prompts
 */

/**
 * Returns the data about the run, from `data/run.js` or a node of the one-file report.
 * @returns {Steps | null}
 */
export function stepsOfRun() {
  // The one file's node is parsed once.
  return /** @type {any} */ (globalThis.rlreportSteps ??= readJson(document, "script.steps-data"));
}
