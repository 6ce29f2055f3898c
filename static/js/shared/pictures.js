/** Pictures of drawings in the page: downloaded as SVG or PNG, or copied. */

import { el } from "./dom.js";

/** Pixels of a PNG for each of the drawing's. */
const DENSITY = 2;

/** @typedef {"SVG" | "PNG"} PictureFormat */

/**
 * Downloads a blob; the content security policy does not block that.
 * @param {string} name
 * @param {Blob} blob
 */
export function download(name, blob) {
  const href = URL.createObjectURL(blob);
  const anchor = el("a", { href, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

/**
 * Downloads a drawing.
 * @param {string} svgText a whole SVG, which needs no style sheet
 * @param {string} name of the file, without suffix
 * @param {PictureFormat} format
 */
export async function downloadPicture(svgText, name, format) {
  if (format === "PNG") download(`${name}.png`, await toPng(svgText));
  else download(`${name}.svg`, new Blob([svgText], { type: "image/svg+xml" }));
}

/**
 * Copies a drawing as PNG; returns whether the browser did.
 * @param {string} svgText
 */
export async function copyPicture(svgText) {
  try {
    // Safari wants the promise, not what it becomes: else it no longer knows of the click.
    const item = new ClipboardItem({ "image/png": toPng(svgText) });
    await navigator.clipboard.write([item]);
    return true;
  } catch {
    return false;
  }
}

/** @param {string} svgText @returns {Promise<Blob>} */
async function toPng(svgText) {
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = DENSITY * image.width;
  canvas.height = DENSITY * image.height;
  const context = canvas.getContext("2d");
  context?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve, reject) => {
    canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("no picture"))), "image/png");
  });
}
