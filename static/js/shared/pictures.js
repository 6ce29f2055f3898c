/**
 * Pictures for papers and slides: a drawing with its title and caption, in light colours, 85 or
 * 170 mm wide (one or two columns), as SVG, as PNG of 300 dpi, or in the clipboard.
 */

import { message } from "./words.js";

/** Widths of pictures in mm: one column of a paper, and two. */
export const WIDTHS = /** @type {const} */ ([85, 170]);
/** Pixels of a drawing per mm: letters of 11 pixels are 2.2 mm high, 6 points. */
const PX_PER_MM = 5;
const DPI = 300;
const MM_PER_INCH = 25.4;

const FONT = "sans-serif";
const TITLE = { size: 13, line: 17, weight: "bold" };
const CAPTION = { size: 11, line: 14, weight: "normal" };
const KEY = { line: 15, sample: 22, gap: 14 };
/** Distance between the parts of a picture. */
const GAP = 4;
/** Empty pixels around all that a picture shows: left and right, above and below. */
const MARGIN = { x: 8, y: 5 };

/**
 * @typedef {object} Words what a picture says about its drawing
 * @property {string} title
 * @property {string} caption
 * @property {KeyEntry[]} [key] names of curves that the drawing lacks
 */
/** @typedef {{title: string, colour: string, dash: string}} KeyEntry */
/** @typedef {{kind: "SVG" | "PNG" | "copy", mm: number}} Format */
/** @typedef {(text: string, size: number, weight: string) => number} Measure width in pixels */

/** Returns the width of a picture's drawing in pixels. @param {number} mm */
export function pixelsOf(mm) {
  return mm * PX_PER_MM - 2 * MARGIN.x;
}

/**
 * Returns how high a drawing is whose picture is twice as wide as it is high, in pixels.
 * @param {Words} words
 * @param {number} mm
 * @param {Measure} [measure]
 */
export function heightOfDrawing(words, mm, measure = measured) {
  const { above, below } = laidOut(words, pixelsOf(mm), measure);
  return (mm * PX_PER_MM) / 2 - above - below - 2 * MARGIN.y;
}

/**
 * Downloads a drawing as a picture, or copies it.
 * @param {string} svg the drawing, in colours of the page (`var(--name)`) or others
 * @param {Words & {name: string, format: Format}} how `name` is that of the file, without suffix
 * @returns {Promise<void>} rejects if the browser cannot
 */
export async function exportPicture(svg, { name, format, ...words }) {
  const picture = composed(svg, words, format.mm);
  const file = `${name}-${format.mm}mm`;
  if (format.kind === "SVG") {
    download(`${file}.svg`, new Blob([picture], { type: "image/svg+xml" }));
    return;
  }
  const png = rasterized(picture, format.mm);
  if (format.kind === "PNG") {
    download(`${file}.png`, await png);
    return;
  }
  // Safari wants the promise, not what it resolves to.
  await navigator.clipboard.write([new ClipboardItem({ "image/png": png })]);
}

/**
 * Returns a picture as SVG: self-contained, with its size in mm.
 * @param {string} svg
 * @param {Words} words
 * @param {number} mm
 * @param {{measure?: Measure, colourOf?: (name: string) => string}} [page] `colourOf` returns the
 *   light colour of a design token
 */
export function composed(svg, words, mm, { measure = measured, colourOf = lightColour } = {}) {
  const inner = pixelsOf(mm);
  const width = mm * PX_PER_MM;
  const layout = laidOut(words, inner, measure);
  const drawing = sizeOf(svg);
  const drawn = (drawing.height * inner) / drawing.width;
  const height = round(layout.above + drawn + layout.below + 2 * MARGIN.y);
  const inside = svg
    .replace(/^\s*(<\?xml[^>]*>\s*)?(<!DOCTYPE[^>]*>\s*)?/i, "")
    .replace(/^<svg\b[^>]*>/, "")
    .replace(/<\/svg>\s*$/, "");
  const nested =
    `<svg y="${layout.above}" width="${inner}" height="${round(drawn)}" overflow="visible" ` +
    `viewBox="0 0 ${drawing.width} ${drawing.height}" fill="none" font-size="11">${inside}</svg>`;
  const picture =
    `<svg xmlns="http://www.w3.org/2000/svg" width="${mm}mm" ` +
    `height="${round(height / PX_PER_MM)}mm" viewBox="0 0 ${width} ${height}" ` +
    `font-family="${FONT}"><title>${escaped(words.title)}</title>` +
    `<rect width="${width}" height="${height}" fill="var(--page)"/>` +
    `<svg x="${MARGIN.x}" y="${MARGIN.y}" width="${inner}" overflow="visible">${layout.head}${nested}` +
    `${belowDrawing(layout, layout.above + drawn)}</svg></svg>`;
  return picture.replace(/var\(--([\w-]+)\)/g, (_, name) => colourOf(name));
}

/**
 * Returns the texts of a picture in lines, and their heights.
 * @param {Words} words
 * @param {number} width
 * @param {Measure} measure
 */
function laidOut({ title, caption, key = [] }, width, measure) {
  const titles = wrapped(title, width, (text) => measure(text, TITLE.size, TITLE.weight));
  const captions = wrapped(caption, width, (text) => measure(text, CAPTION.size, CAPTION.weight));
  const rows = keyRows(key, width, measure);
  const titled = titles.length * TITLE.line;
  const head =
    textLines(titles, TITLE, "var(--text)", 0) +
    rows.flatMap((row, k) => row.map((entry) => keyEntry(entry, titled + k * KEY.line))).join("");
  return {
    head,
    captions,
    above: titled + rows.length * KEY.line + GAP,
    below: captions.length * CAPTION.line + (captions.length ? GAP : 0),
  };
}

/** @param {ReturnType<typeof laidOut>} layout @param {number} top */
function belowDrawing({ captions }, top) {
  return textLines(captions, CAPTION, "var(--muted)", top + GAP);
}

/**
 * @param {string[]} lines
 * @param {{size: number, line: number, weight: string}} look
 * @param {string} colour
 * @param {number} top
 */
function textLines(lines, { size, line, weight }, colour, top) {
  return lines
    .map((text, k) => {
      const y = round(top + k * line + size);
      return `<text y="${y}" font-size="${size}" font-weight="${weight}" fill="${colour}">${escaped(text)}</text>`;
    })
    .join("");
}

/**
 * Returns the entries of a key in rows, each with its place.
 * @param {KeyEntry[]} key
 * @param {number} width
 * @param {Measure} measure
 */
function keyRows(key, width, measure) {
  /** @type {(KeyEntry & {x: number})[][]} */
  const rows = [];
  let x = Infinity;
  for (const entry of key) {
    const own = KEY.sample + 5 + measure(entry.title, CAPTION.size, CAPTION.weight);
    if (x + own > width) {
      rows.push([]);
      x = 0;
    }
    rows[rows.length - 1].push({ ...entry, x });
    x += own + KEY.gap;
  }
  return rows;
}

/** @param {KeyEntry & {x: number}} entry @param {number} top */
function keyEntry({ title, colour, dash, x }, top) {
  const dashes = dash ? ` stroke-dasharray="${escaped(dash)}"` : "";
  return (
    `<path d="M${round(x)} ${top + 8}h${KEY.sample}" stroke="${escaped(colour)}" stroke-width="1.75"${dashes}/>` +
    `<text x="${round(x + KEY.sample + 5)}" y="${top + 12}" font-size="${CAPTION.size}" fill="var(--text)">${escaped(title)}</text>`
  );
}

/**
 * Breaks a text into lines that are no wider than `width`: between words, and beside Chinese
 * characters, but not at a no-break space; within a word that is wider than a line.
 * @param {string} text
 * @param {number} width
 * @param {(text: string) => number} widthOf
 */
export function wrapped(text, width, widthOf) {
  const pieces = text
    .split(/(?<=[^\S\u00a0])|(?<=[\u2e80-\u9fff\uff00-\uffef])/u)
    .flatMap((piece) => (widthOf(piece.trimEnd()) > width ? [...piece] : [piece]));
  /** @type {string[]} */
  const lines = [];
  let line = "";
  for (const piece of pieces) {
    if (line && widthOf((line + piece).trimEnd()) > width) {
      lines.push(line.trim());
      line = "";
    }
    line += piece;
  }
  return [...lines, line.trim()].filter(Boolean);
}

/** Returns the size of an SVG in pixels. @param {string} svg */
function sizeOf(svg) {
  const head = /<svg\b[^>]*>/.exec(svg)?.[0] ?? "";
  const box = /\bviewBox="([^"]*)"/
    .exec(head)?.[1]
    .trim()
    .split(/[\s,]+/)
    .map(Number);
  if (box?.length === 4) return { width: box[2], height: box[3] };
  const [width, height] = ["width", "height"].map((name) =>
    parseFloat(new RegExp(`\\b${name}="([\\d.]+)(?:px)?"`).exec(head)?.[1] ?? ""),
  );
  if (!(width > 0 && height > 0)) throw new Error("the drawing has no size in pixels");
  return { width, height };
}

/** @param {number} value */
function round(value) {
  return Math.round(value * 10) / 10;
}

/** @param {string} text */
function escaped(text) {
  /** @type {Record<string, string>} */
  const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  // eslint-disable-next-line no-control-regex -- XML cannot hold control characters
  return text.replace(/[\u0000-\u001f]/g, " ").replace(/[&<>"]/g, (found) => entities[found]);
}

/** @type {CanvasRenderingContext2D | null} */
let context = null;

/** @type {Measure} */
function measured(text, size, weight) {
  context ??= document.createElement("canvas").getContext("2d");
  if (!context) return text.length * size * 0.55;
  context.font = `${weight} ${size}px ${FONT}`;
  return context.measureText(text).width;
}

/** Returns the colour of a design token in light mode. @param {string} name */
function lightColour(name) {
  const probe = document.createElement("span");
  probe.style.colorScheme = "light";
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

/**
 * Returns a picture as PNG that says how large it is.
 * @param {string} svg
 * @param {number} mm
 * @returns {Promise<Blob>}
 */
async function rasterized(svg, mm) {
  const { width, height } = sizeOf(svg);
  const pixels = Math.round((mm / MM_PER_INCH) * DPI);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = pixels;
  canvas.height = Math.round((pixels * height) / width);
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  /** @type {Blob | null} */
  const blob = await new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  if (!blob) throw new Error("the browser made no picture");
  const bytes = withDensity(new Uint8Array(await blob.arrayBuffer()));
  return new Blob([bytes], { type: "image/png" });
}

/** End of a PNG's first chunk, after which its density may stand. */
const AFTER_HEAD = 33;

/**
 * Returns a PNG with its density, from which programs take its size in mm.
 * @param {Uint8Array<ArrayBuffer>} png
 */
export function withDensity(png) {
  const perMeter = Math.round((DPI / MM_PER_INCH) * 1000);
  const chunk = new DataView(new ArrayBuffer(21));
  chunk.setUint32(0, 9);
  [..."pHYs"].forEach((letter, k) => chunk.setUint8(4 + k, letter.charCodeAt(0)));
  chunk.setUint32(8, perMeter);
  chunk.setUint32(12, perMeter);
  chunk.setUint8(16, 1);
  chunk.setUint32(17, crcOf(new Uint8Array(chunk.buffer, 4, 13)));
  const result = new Uint8Array(png.length + 21);
  result.set(png.subarray(0, AFTER_HEAD));
  result.set(new Uint8Array(chunk.buffer), AFTER_HEAD);
  result.set(png.subarray(AFTER_HEAD), AFTER_HEAD + 21);
  return result;
}

/** Returns the checksum of a chunk of a PNG (CRC-32). @param {Uint8Array} bytes */
function crcOf(bytes) {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

/**
 * Downloads a blob; the content security policy does not block that.
 * @param {string} name
 * @param {Blob} blob
 */
export function download(name, blob) {
  const href = URL.createObjectURL(blob);
  const anchor = document.createElement("a");
  anchor.href = href;
  anchor.download = name;
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(href), 10_000);
}

/** Returns what a page says where a picture cannot be made or copied. @param {Format} format */
export function failureOf({ kind }) {
  return kind === "copy"
    ? message("The browser refused to copy the picture; PNG downloads it.")
    : message("The browser could not make the picture.");
}
