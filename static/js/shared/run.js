/** What pages of steps know about the whole run. */

import { readJson } from "./dom.js";

/**
 * @typedef {object} Steps what pages of steps say about the whole run; see docs/page-data.md
 * @property {number[]} steps
 * @property {(number | null)[]} rewards
 * @property {string} href
 * @property {string} prompt address of the list of responses to a prompt
 * @property {Record<string, string>} findings
 * @property {Record<string, number[]>} prompts
 */

/**
 * The steps of the run: of the script beside the pages, or of the one file's node.
 * @returns {Steps | null}
 */
export function stepsOfRun() {
  // The one file's node is parsed once.
  return (/** @type {any} */ (globalThis).rlreportSteps ??= readJson(document, "script.steps-data"));
}
