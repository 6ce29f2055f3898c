/**
 * Loads the tokens of a step or of a prompt of a comparison, from `data/tokens/STEP.js` or a node of the one-file report; see
 * docs/page-data.md.
 */

import { decodeTokens, unpack } from "./data.js";
import { stepsOfRun } from "./run.js";
import { runScript } from "./scripts.js";

/** @typedef {import("./data.js").TokenData} TokenData */

/** Steps whose tokens are held in memory: those read last. */
const MOST_HELD = 4;

/** @type {Map<string, Promise<TokenData>>} in the order of their last use */
const held = new Map();

/** Returns whether the report has tokens of a step. @param {number | string} step */
export function keepsTokens(step) {
  return step !== "" && (stepsOfRun()?.tokens.includes(Number(step)) ?? false);
}

/** Returns the path of a step's tokens, "" in one file. @param {number | string} step */
export function tokensFile(step) {
  return document.body.dataset.tokens?.replace("{step}", String(step)) ?? "";
}

/**
 * Returns the tokens of a step's responses.
 * @param {number | string} step
 * @returns {Promise<TokenData | null>} null if none are kept; rejects if they cannot be read
 */
export async function tokensOfStep(step) {
  return keepsTokens(step) ? tokensNamed(String(step)) : null;
}

/**
 * Returns the tokens of responses, which the report keeps.
 * @param {string} key the step or, of a comparison, the number of the prompt
 * @returns {Promise<TokenData>} rejects if they cannot be read
 */
export function tokensNamed(key) {
  const reading = held.get(key) ?? read(key);
  held.delete(key);
  held.set(key, reading);
  reading.catch(() => held.delete(key)); // the next call tries again
  for (const other of held.keys()) {
    if (held.size <= MOST_HELD) break;
    held.delete(other);
  }
  return reading;
}

/** @param {string} step @returns {Promise<TokenData>} */
async function read(step) {
  return decodeTokens(await unpack(await packed(step)));
}

/** @param {string} step @returns {Promise<string>} */
async function packed(step) {
  const src = tokensFile(step);
  if (!src) {
    const node = document.querySelector(`script.tokens-data[data-step="${CSS.escape(step)}"]`);
    return node?.textContent ?? "";
  }
  await runScript(src);
  const loaded = globalThis.rlreportTokens?.[step] ?? "";
  // The decoded values are held, the text is not.
  delete globalThis.rlreportTokens?.[step];
  return loaded;
}
