/** What a search is for: its words and its scope, and the part of a text around a hit. */

/** @typedef {"prompt" | "response" | "tools"} Scope part of a row that a search can be limited to */

/** @type {Scope[]} */
export const SCOPES = ["prompt", "response", "tools"];

/** Maximum number of characters of a text in a cell, and of those before a hit. */
export const SHOWN_CHARS = 120;
const BEFORE_HIT = 40;

/** Normalizes a text for searching: lower case, single spaces. @param {string} text */
export function searchable(text) {
  return text.toLowerCase().replace(/\s+/g, " ");
}

/**
 * Parses a search such as "response:cook", also with a full-width colon. What does not begin with
 * a known name is searched as it is; `scope` is null then.
 * @param {string} text
 * @param {Map<string, Scope>} names in lower case → scope
 * @returns {{scope: Scope | null, query: string}}
 */
export function parseQuery(text, names) {
  const [, name = "", rest = ""] = /^\s*([^\s:：]+)\s*[:：](.*)$/s.exec(text) ?? [];
  const scope = names.get(name.toLowerCase()) ?? null;
  return { scope, query: searchable((scope ? rest : text).trim()) };
}

/**
 * Cuts a text to the part around index `at`, marking what is left out.
 * @param {string} text
 * @param {number} at
 */
export function excerptAround(text, at) {
  const from = at > SHOWN_CHARS - BEFORE_HIT ? at - BEFORE_HIT : 0;
  const to = from + SHOWN_CHARS;
  const part = text.slice(from, to).trimStart();
  return (from > 0 ? "…" : "") + part + (to < text.length ? "…" : "");
}
