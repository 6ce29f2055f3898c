/** Data about the whole run, for the pages of steps. */

/** @import { RunData } from "./types.d.ts" */

import { readJson } from "./dom.js";

/**
 * Returns the data about the run, from `data/run.js` or a node of the one-file report.
 * @returns {RunData | null}
 */
export function stepsOfRun() {
  // The one file's node is parsed once.
  globalThis.rlreportSteps ??= /** @type {RunData | null} */ (
    readJson(document, "script.steps-data")
  );
  return globalThis.rlreportSteps;
}
