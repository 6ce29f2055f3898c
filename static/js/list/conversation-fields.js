/** What a search reads of conversations: the policy's turns, its calls, and what answered them. */

/** @import { Turn } from "../shared/types.d.ts" */
/** @import { Field } from "./rows.js" */
/** @import { Scope } from "./query.js" */

/**
 * Places of texts in a conversation, in the order in which hits are shown, and their scopes. What
 * neither the policy nor a tool wrote is found without a scope only.
 * @type {[string, Scope | ""][]}
 */
const PLACES = [
  ["turn", "response"],
  ["thinking", "response"],
  ["call", "tools"],
  ["output", "tools"],
  ["later", ""],
];

/**
 * @param {(Turn[] | undefined)[]} conversations of each row
 * @returns {Field[]}
 */
export function fieldsOf(conversations) {
  if (!conversations.some((turns) => turns?.length)) return [];
  const texts = conversations.map((turns) => textsOf(turns ?? []));
  return PLACES.map(([place, scope]) => ({
    place,
    scope,
    strings: texts.map((row) => row.get(place)?.join("\n") ?? null),
  }));
}

/** Returns the texts of a conversation by place. @param {Turn[]} turns */
function textsOf(turns) {
  /** @type {Map<string, string[]>} */
  const texts = new Map();
  /** @param {string} place @param {string | undefined} text */
  const add = (place, text) => {
    if (!text) return;
    const found = texts.get(place);
    if (found) found.push(text);
    else texts.set(place, [text]);
  };
  for (const turn of turns) {
    add(placeOf(turn), turn.text);
    add("thinking", turn.thinking);
    add("output", turn.error);
    for (const call of turn.calls ?? []) add("call", call.join(" "));
  }
  return texts;
}

/** Returns where the text of a turn belongs. @param {Turn} turn */
function placeOf({ role, sampled, tool }) {
  if (sampled || role === "assistant") return "turn";
  return tool || role === "tool" ? "output" : "later";
}
