/**
 * Loads the texts of all shown responses, from `data/texts.js` or a node of the one-file report.
 */

/** @import { StepTexts } from "./types.d.ts" */

import { unpack } from "./data.js";
import { readJson } from "./dom.js";
import { runScript } from "./scripts.js";

/** @type {Promise<Record<string, string>> | null} */
let loading = null;

/**
 * @returns {Promise<Record<string, string>>} packed texts by step; rejects if the file is missing
 */
function packedTexts() {
  loading ??= load();
  return loading;
}

async function load() {
  const src = document.body.dataset.texts;
  if (src) await runScript(src);
  const found = src ? globalThis.rlreportTexts : readJson(document, "script.texts-data");
  if (!found) throw new Error("this report carries no texts for its list");
  return /** @type {Record<string, string>} */ (found);
}

/**
 * Returns the texts and turns of a step's shown responses; see docs/page-data.md.
 * @param {number | string} step
 * @returns {Promise<StepTexts>}
 */
export async function textsOfStep(step) {
  const packed = (await packedTexts())[step];
  return JSON.parse(new TextDecoder().decode(await unpack(packed)));
}
