/** What a search of responses looks at, and what it leaves out. */

/** @import { Scope } from "./query.js" */
/** @import { Field, Rows } from "./rows.js" */

import { written } from "../shared/format.js";
import { plural } from "../shared/words.js";
import { SCOPES } from "./query.js";

/**
 * Returns the scopes that a list of responses has.
 * @param {Rows} rows
 * @param {Field[]} turns of its conversations, [] if they are not loaded yet
 */
export function scopesOf(rows, turns) {
  const calls = rows.column("tool_calls")?.numbers;
  const hasTools =
    rows.column("tools")?.strings?.some(Boolean) ||
    calls?.some((count) => count > 0) ||
    turns.some(({ scope, strings }) => scope === "tools" && strings.some(Boolean));
  /** @param {Scope} scope */
  const has = (scope) => (scope === "tools" ? hasTools : rows.column(scope)?.strings);
  return SCOPES.filter(has);
}

/** Returns a note on how many responses no search finds, "" for none. @param {number} absent */
export function notSearched(absent) {
  if (!absent) return "";
  return plural(
    "{count} response that the report does not show is not searched.",
    "{count} responses that the report does not show are not searched.",
    absent,
    { count: written(absent, "count") },
  );
}
