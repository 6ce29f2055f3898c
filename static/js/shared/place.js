/** Places in a report as text: what a reader sends to a colleague, and what that leads to. */

import { format } from "./address.js";
import { listed, marked, message } from "./words.js";

/**
 * @typedef {object} Place
 * @property {string | null} page path of the page: "" for the overview, "steps/44", "responses";
 *   null if the text names none
 * @property {URLSearchParams} params its state, such as r=1 and token=31
 */

/** @typedef {{step: string | null, response: string | null, token: string | null}} Words */

const STEP = marked("step {n}");
const RESPONSE = marked("response {n}");
const TOKEN = marked("token {n}");

/** Patterns of numbers. The hyphen of "step-5" is no minus. */
const COUNT = "\\d+";
const SIGNED = "(?:(?<![a-z])-)?\\d+";

/** What a chat or a sentence puts behind an address. */
const TRAILING = /[.,;:!?)\]}>"'”’，。；：）】》]+$/;

/**
 * Returns the place that an address names.
 * @param {string} path of the document, such as "/home/me/report/steps/44.html"
 * @param {string} hash
 * @returns {Place}
 */
export function placeAt(path, hash) {
  const text = hash.replace(/^#/, "");
  if (!text.startsWith("/")) return { page: pageOf(path), params: new URLSearchParams(text) };
  const [page, query = ""] = text.slice(1).split(/\?(.*)/s);
  return { page, params: new URLSearchParams(query) };
}

/**
 * Returns a place as a line: in words, where it is in the log, and its file with the state.
 * @param {string} path of the document
 * @param {string} hash
 * @param {{where: string, title: string}} about place in the log, "" for none; title of the page
 */
export function placeText(path, hash, { where, title }) {
  const file = fileOf(path);
  const words = inWords(placeAt(path, hash));
  return [words || title, where, file + hash].filter(Boolean).join(" · ");
}

/**
 * Returns the place that a text names: an address or its end, such as `#r=1`, words such as
 * "step 44, response 1", or numbers such as "44/1" or "-5/1". Null if it names none.
 * @param {string} text
 * @returns {Place | null}
 */
export function readPlace(text) {
  const said = text.trim();
  const plain = said.replaceAll("−", "-");
  const numbers = /^(-?\d+)(?:\s*[/,，、-]\s*(\d+))?(?:\s*[/,，、-]\s*(\d+))?$/.exec(plain);
  if (numbers) return ofWords({ step: numbers[1], response: numbers[2], token: numbers[3] });
  const words = {
    step: numberIn(plain, STEP, SIGNED),
    response: numberIn(plain, RESPONSE),
    token: numberIn(plain, TOKEN),
  };
  const address = addressIn(said);
  const { step } = words;
  if (!address) return step === null ? null : ofWords({ ...words, step });
  if (address.page === null && step !== null) address.page = `steps/${step}`;
  return address;
}

/**
 * Returns the part of an address that leads to a place, relative to the report's root.
 * @param {Place} place with a page
 * @param {boolean} oneFile whether the report is one file
 */
export function hrefOf({ page, params }, oneFile) {
  if (oneFile) return format(`/${page}`, params);
  const hash = format("", params);
  return `${page || "index"}.html${hash === "#" ? "" : hash}`;
}

/** @param {Place} place */
function inWords({ page, params }) {
  const [, ofPage] = /^steps\/(-?\d+)$/.exec(page ?? "") ?? [];
  const [, ofRow, n] = /^(?:(-?\d+)-)?(\d+)$/.exec(params.get("r") ?? "") ?? [];
  const step = ofPage ?? ofRow;
  if (!step) return "";
  const words = [message(STEP, { n: step })];
  const token = params.get("token");
  if (n) words.push(message(RESPONSE, { n }));
  if (n && token) words.push(message(TOKEN, { n: token }));
  return listed(words);
}

/** @param {{step: string, response?: string | null, token?: string | null}} words @returns {Place} */
function ofWords({ step, response, token }) {
  const params = new URLSearchParams();
  if (response) params.set("r", response);
  if (response && token) params.set("token", token);
  return { page: `steps/${step}`, params };
}

/**
 * Returns the number that stands where a message has it, in English or the report's language.
 * @param {string} text
 * @param {string} literal with one place, `{n}`
 * @param {string} [number] pattern of the number
 */
function numberIn(text, literal, number = COUNT) {
  for (const said of [literal, message(literal, { n: "{n}" })]) {
    const found = patternOf(said, number).exec(text);
    if (found) return found[1];
  }
  return null;
}

/**
 * @param {string} said with `{n}`
 * @param {string} number pattern of the number
 * @returns {RegExp} that matches it, with or without spaces
 */
function patternOf(said, number) {
  const parts = said.split("{n}").map((part) => part.trim().replace(/[^\p{L}]/gu, "\\$&"));
  return new RegExp(parts.join(`\\s*#?(${number})\\s*`), "i");
}

/** Returns the place of the address in a text, null without one. @param {string} said @returns {Place | null} */
function addressIn(said) {
  const at = said.lastIndexOf("#");
  if (at < 0) return fileIn(said);
  const before = said.slice(0, at);
  const [fragment] = said.slice(at + 1).split(/\s/);
  const state = fragment.replace(TRAILING, "");
  const hasFile = /\.html?$/i.test(before);
  if (!state) return hasFile ? placeAt(before, "") : null;
  if (!/^\/|^[\w.-]+=/.test(state)) return null;
  const place = placeAt(before, `#${state}`);
  return hasFile || state.startsWith("/") ? place : { ...place, page: null };
}

/** Returns the place of a page named without a state. @param {string} said @returns {Place | null} */
function fileIn(said) {
  const [file] = /\S+\.html?(?=$|[\s.,;:)，。；）])/i.exec(said) ?? [];
  return file ? placeAt(file, "") : null;
}

/** Returns the page that a file of a folder has. @param {string} path */
function pageOf(path) {
  const name = fileOf(path).replace(/\.html?$/i, "");
  return name === "index" ? "" : name;
}

/** Returns a document's file, with the folder of pages of steps. @param {string} path */
function fileOf(path) {
  const [file = ""] = /(?:steps[/\\]-?\d+\.html?|[^/\\]*)$/i.exec(path) ?? [];
  return file.replaceAll("\\", "/");
}
