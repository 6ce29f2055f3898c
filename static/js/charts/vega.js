/** Loads Vega's bundle once, when the first chart needs it. */

/** @import { Embed } from "./spec.d.ts" */

import { unpack } from "../shared/data.js";

/** @type {Promise<Embed> | null} */
let loading = null;

/** @returns {Promise<Embed>} rejects if the report has no bundle */
export function loadVega() {
  loading ??= load();
  return loading;
}

/** Returns whether the report contains Vega; mail attachments do not. */
export function hasVega() {
  return (
    document.querySelector("script.vega-data") !== null || document.body.dataset.vega !== undefined
  );
}

async function load() {
  const packed = document.querySelector("script.vega-data")?.textContent;
  const src = document.body.dataset.vega;
  if (packed) await runPacked(packed);
  else if (src) await runLinked(src);
  const embed = globalThis.vegaEmbed;
  if (!embed) throw new Error("this report has no Vega, or Vega did not start");
  return embed;
}

/**
 * Runs the bundle of a one-file report; its content security policy lists the script's hash.
 * @param {string} packed
 */
async function runPacked(packed) {
  const script = document.createElement("script");
  script.textContent = new TextDecoder().decode(await unpack(packed));
  document.head.append(script);
}

/**
 * Runs the bundle of a report folder.
 * @param {string} src
 * @returns {Promise<void>}
 */
function runLinked(src) {
  return new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = src;
    script.addEventListener("load", () => resolve());
    script.addEventListener("error", () => reject(new Error("Vega could not be loaded")));
    document.head.append(script);
  });
}
