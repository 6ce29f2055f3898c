/** The rows of a list as columns of numbers and texts, which can be sorted and filtered. */

/** @import { ColumnData, Kind } from "../shared/types.d.ts" */
/** @import { Scope } from "./query.js" */

import { SCOPES, searchable } from "./query.js";

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} label
 * @property {string} unit
 * @property {string} kind
 * @property {Kind} written
 * @property {string} group heading above the column in menus, "" for computed figures
 * @property {string} help
 * @property {string} term key of its definition, "" without one
 * @property {boolean} shown
 * @property {ColumnData["bad_end"]} [badEnd] the end that the first press on the header sorts first
 * @property {string} [width] class of its width
 * @property {Float64Array | null} numbers NaN for missing values
 * @property {(string | null)[] | null} strings
 * @property {string[]} [prefixes] shared beginnings of the texts, which cells hide
 * @property {Float64Array} [ranks] what a column of texts is sorted by instead of its texts
 * @property {string[]} [ids] names of its values, by which it is filtered in any language
 * @property {number} [largest] largest magnitude of the numbers, once it is known
 */
/** @typedef {Column & {numbers: Float64Array}} NumberColumn */
/** @typedef {{key: string, down: boolean}} SortKey */
/** @typedef {[number, number]} Range either end may be infinite */
/** @typedef {(a: number, b: number) => number} Comparison of two rows by their indices */
/**
 * @typedef {object} Field texts that a search looks at, one per row
 * @property {string} place key of the column, or part of the conversation
 * @property {Scope | ""} scope "" for one that only a search without a scope looks at
 * @property {(string | null)[]} strings
 */
/** @typedef {{place: string, text: string, at: number}} Hit first hit in a row, in single spaces */

/** Matches the start of a text that spreadsheets read as a formula (or a signed number). */
const FORMULA = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;
/** Matches a text that is a number. */
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
/**
 * Column of data splits; branches that were not trained are listed only if its filter selects them.
 * Twins in rlreport/pages/listed.py.
 */
const SPLIT = "extra:split";
export const BRANCH = "branch";
/** Column of the tools that answered in a response, whose text has one of them a line. */
const TOOLS = "tools";

/**
 * Returns the values that a cell's text consists of.
 * @param {string} key column
 * @param {string | null} text
 * @returns {string[]}
 */
export function valuesOf(key, text) {
  if (text === null) return [];
  return key === TOOLS ? text.split("\n") : [text];
}

export class Rows {
  /**
   * @param {Column[]} columns
   * @param {number} size
   */
  constructor(columns, size) {
    this.columns = columns;
    this.size = size;
    /** @type {SortKey[]} */
    this.defaultSort = [];
    /** @type {SortKey[]} */
    this.sort = [];
    /** @type {Map<string, Range>} column key → range */
    this.ranges = new Map();
    /** @type {Map<string, string>} column key → words that its text must contain, in lower case */
    this.words = new Map();
    /** @type {Map<string, Set<string>>} column key → ids, of which a row must have one */
    this.only = new Map();
    /**
     * @type {Map<string, string>} key of a column that is filtered by whole values → label of "all
     *   values"
     */
    this.filters = new Map();
    this.query = "";
    /** @type {Scope | ""} part of the rows that is searched, "" for all */
    this.scope = "";
    /** @type {Scope[]} those that rows have; tables other than lists of responses have none */
    this.scopes = [];
    /** @type {Field[]} parts of conversations, which are no columns */
    this.turns = [];
    /** @type {number[]} indices of the rows that pass the filters, in sorted order */
    this.order = Array.from({ length: size }, (_, i) => i);
    /** @type {number[]} indices of the rows that pass the filters, whatever is searched */
    this.candidates = this.order;
    /** @type {string[][] | null} texts by scope ("" first, then `SCOPES`) and row */
    this.haystacks = null;
    /** @type {{query: string, scopes: Uint8Array} | null} bits of the scopes with a hit, by row */
    this.found = null;
    /** @type {Set<() => void>} */
    this.listeners = new Set();
  }

  /** @param {string} key @returns {Column | undefined} */
  column(key) {
    return this.columns.find((column) => column.key === key);
  }

  /** @param {SortKey[]} sort */
  setSort(sort) {
    const known = sort.filter(({ key }) => this.column(key));
    this.sort = known.length ? known : this.defaultSort;
  }

  /** @param {SortKey[]} sort */
  sortBy(sort) {
    this.setSort(sort);
    this.update();
  }

  /** @param {string} query @param {Scope | ""} [scope] */
  search(query, scope = this.scope) {
    this.query = searchable(query.trim());
    this.scope = scope;
    this.update();
  }

  /** Makes the next search read all texts again. */
  forgetTexts() {
    this.haystacks = null;
    this.found = null;
  }

  /** @param {string} key @param {Range | null} range */
  limit(key, range) {
    if (range) this.ranges.set(key, range);
    else this.ranges.delete(key);
    this.update();
  }

  /** @param {string} key @param {string} words that the column's text must contain; "" for any */
  require(key, words) {
    if (words) this.words.set(key, this.asWords(key, words));
    else this.words.delete(key);
    this.update();
  }

  /** Lists rows with this id in a column, too, or no longer. @param {string} key @param {string} id */
  toggleOnly(key, id) {
    const ids = new Set(this.only.get(key));
    if (!ids.delete(id)) ids.add(id);
    if (ids.size) this.only.set(key, ids);
    else this.only.delete(key);
    this.update();
  }

  /** Returns words as the filter of a column compares them. @param {string} key @param {string} words */
  asWords(key, words) {
    return this.filters.has(key) ? words : words.toLowerCase();
  }

  update() {
    this.candidates = this.filtered();
    this.order = this.query
      ? this.candidates.filter(this.searchTest(this.scope))
      : [...this.candidates];
    if (this.sort.length) {
      const comparisons = this.sort.map((key) => this.comparison(key));
      this.order.sort((a, b) => {
        for (const compare of comparisons) {
          const sign = compare(a, b);
          if (sign !== 0) return sign;
        }
        return a - b; // as logged
      });
    }
    for (const listener of [...this.listeners]) listener();
  }

  /**
   * Returns the rows to list: without branches, unless the split filter selects them.
   * @returns {number[]}
   */
  listable() {
    const splits = this.words.has(SPLIT) ? null : this.column(SPLIT)?.strings;
    const all = Array.from({ length: this.size }, (_, i) => i);
    return splits ? all.filter((i) => splits[i] !== BRANCH) : all;
  }

  /**
   * Returns the rows that pass the search and every filter except those on the columns `without`,
   * as a brushed chart shows also the responses that only its own brush excludes.
   * @param {Set<string>} [without]
   */
  passing(without = new Set()) {
    const rows = this.filtered(without);
    return this.query ? rows.filter(this.searchTest(this.scope)) : rows;
  }

  /**
   * Returns the rows that pass every filter except those on the columns `without`.
   * @param {Set<string>} [without]
   */
  filtered(without = new Set()) {
    const ranges = [...this.ranges].filter(([key]) => !without.has(key));
    const words = [...this.words].filter(([key]) => !without.has(key));
    const only = [...this.only].filter(([key]) => !without.has(key));
    const tests = [
      ...ranges.map(([key, range]) => this.rangeTest(key, range)),
      ...words.map(([key, text]) => this.wordTest(key, text)),
      ...only.map(([key, ids]) => this.idTest(key, ids)),
    ];
    return tests.length ? this.listable().filter(allOf(tests)) : this.listable();
  }

  /** @param {string} key @param {Range} range @returns {(i: number) => boolean} */
  rangeTest(key, [low, high]) {
    const numbers = this.column(key)?.numbers;
    if (!numbers) return () => true;
    // NaN fails both comparisons, so a missing value is outside every range.
    return (i) => numbers[i] >= low && numbers[i] <= high;
  }

  /**
   * Returns a test whether a column's text contains words, or has them as a whole value.
   * @param {string} key
   * @param {string} words
   * @returns {(i: number) => boolean}
   */
  wordTest(key, words) {
    const strings = this.column(key)?.strings;
    if (!strings) return () => true;
    if (this.filters.has(key)) return (i) => valuesOf(key, strings[i]).includes(words);
    return (i) => (strings[i] ?? "").toLowerCase().includes(words);
  }

  /** @param {string} key @param {Set<string>} ids @returns {(i: number) => boolean} */
  idTest(key, ids) {
    const own = this.column(key)?.ids;
    return own ? (i) => ids.has(own[i]) : () => true;
  }

  /** Whether any filter is in force, apart from the search. */
  get isFiltered() {
    return this.ranges.size + this.words.size + this.only.size > 0;
  }

  /** Removes all filters, without updating the rows. */
  clearFilters() {
    this.ranges.clear();
    this.words.clear();
    this.only.clear();
  }

  /**
   * Returns a test whether a row has a hit of the search.
   * @param {Scope | ""} scope "" for any
   * @returns {(i: number) => boolean}
   */
  searchTest(scope) {
    const hits = this.hits();
    const bits = scope ? bitOf(scope) : -1;
    return (i) => (hits[i] & bits) !== 0;
  }

  /** Returns the scopes in which each row has a hit of the search, as bits. */
  hits() {
    const { found, size, query } = this;
    if (found?.query === query) return found.scopes;
    // A longer query has its hits among those of its beginning.
    const before = found && query.startsWith(found.query) ? found.scopes : null;
    const scopes = new Uint8Array(size);
    this.texts().forEach((texts, k) => {
      const bit = 1 << k;
      for (let i = 0; i < texts.length; i += 1) {
        if (before && !(before[i] & bit)) continue;
        if (texts[i].includes(query)) scopes[i] |= bit;
      }
    });
    this.found = { query: this.query, scopes };
    return scopes;
  }

  /** Returns how many of the rows that pass the filters have a hit in each of `scopes`. */
  scopeCounts() {
    const hits = this.hits();
    return this.scopes.map((scope) => {
      const bit = bitOf(scope);
      return this.candidates.reduce((count, i) => count + (hits[i] & bit ? 1 : 0), 0);
    });
  }

  /** Returns what a search looks at, the answer first. @returns {Field[]} */
  fields() {
    /** @type {Field[]} */
    const ofColumns = [];
    for (const { key, strings, shown } of this.columns) {
      const scope = this.scopes.find((one) => one === key && one !== "tools") ?? "";
      // In a list without scopes no cell shows a hit elsewhere.
      if (strings && (this.scopes.length || shown !== false))
        ofColumns.push({ place: key, scope, strings });
    }
    const answers = ofColumns.filter(({ scope }) => scope === "response");
    const others = ofColumns.filter(({ scope }) => scope !== "response");
    return [...answers, ...this.turns, ...others];
  }

  /** Returns the lower-case texts by scope and row, computed at the first search. */
  texts() {
    if (!this.haystacks) {
      const fields = this.fields();
      this.haystacks = ["", ...SCOPES].map((scope) => {
        const own = fields.filter((field) => field.scope === scope);
        if (!own.length) return [];
        return Array.from({ length: this.size }, (_, i) => joined(own, i));
      });
    }
    return this.haystacks;
  }

  /**
   * Returns the first hit of the search in a row, in the answer if there is one.
   * @param {number} i
   * @returns {Hit | null}
   */
  hit(i) {
    const fields = this.fields().filter(({ scope }) => !this.scope || scope === this.scope);
    for (const { place, strings } of fields) {
      const found = hitIn(place, strings[i], this.query);
      if (found) return found;
    }
    return null;
  }

  /**
   * Returns the hit of the search in the text of a column, null without one or in another scope.
   * @param {Column} column
   * @param {number} i
   * @returns {Hit | null}
   */
  hitOfColumn({ key, strings }, i) {
    return this.scope && this.scope !== key ? null : hitIn(key, strings?.[i], this.query);
  }

  /**
   * Returns a comparison of two rows by one column; missing values are last.
   * @param {SortKey} key
   * @returns {Comparison}
   */
  comparison({ key, down }) {
    const { numbers, strings, ranks } = /** @type {Column} */ (this.column(key));
    if (ranks) return byNumber(ranks, down);
    return numbers ? byNumber(numbers, down) : byText(strings ?? [], down);
  }
}

/**
 * Returns a test that passes if all of `tests` do.
 * @param {((i: number) => boolean)[]} tests one at least
 * @returns {(i: number) => boolean}
 */
export function allOf(tests) {
  // Most often there is one, of thousands of rows.
  return tests.length === 1 ? tests[0] : (i) => tests.every((passes) => passes(i));
}

/**
 * @param {string} place
 * @param {string | null | undefined} text
 * @param {string} query
 * @returns {Hit | null}
 */
function hitIn(place, text, query) {
  const flat = (text ?? "").replace(/\s+/g, " ");
  const at = flat.toLowerCase().indexOf(query);
  return at < 0 ? null : { place, text: flat, at };
}

/** @param {Scope} scope */
function bitOf(scope) {
  return 1 << (SCOPES.indexOf(scope) + 1);
}

/** Returns the texts of a row as one. @param {Field[]} fields @param {number} i */
function joined(fields, i) {
  return searchable(fields.map(({ strings }) => strings[i] ?? "").join("\n"));
}

// The next two are alike, but one function for both would be slower by a fifth.

/**
 * @param {Float64Array} numbers NaN for missing ones
 * @param {boolean} down
 * @returns {Comparison}
 */
function byNumber(numbers, down) {
  const smallerFirst = down ? 1 : -1;
  return (a, b) => {
    const x = numbers[a];
    const y = numbers[b];
    if (Number.isNaN(x) || Number.isNaN(y))
      return Number(Number.isNaN(x)) - Number(Number.isNaN(y));
    if (x === y) return 0;
    return x < y ? smallerFirst : -smallerFirst;
  };
}

/** @param {(string | null)[]} texts @param {boolean} down @returns {Comparison} */
function byText(texts, down) {
  const smallerFirst = down ? 1 : -1;
  return (a, b) => {
    const x = texts[a] ?? null;
    const y = texts[b] ?? null;
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    if (x === y) return 0;
    return x < y ? smallerFirst : -smallerFirst;
  };
}

/** Parses sort keys such as "-reward,kl_k1". @param {string} text @returns {SortKey[]} */
export function parseSort(text) {
  return text
    .split(",")
    .filter(Boolean)
    .map((part) => ({ key: part.replace(/^-/, ""), down: part.startsWith("-") }));
}

/** Formats sort keys as a text such as "-reward,kl_k1". @param {SortKey[]} sort */
export function formatSort(sort) {
  return sort.map(({ key, down }) => (down ? `-${key}` : key)).join(",");
}

/**
 * Returns whether CSV readers would change a text: a formula, "0007", "true".
 * @param {string} text
 */
function changedByPrograms(text) {
  if (NUMBER.test(text)) return String(Number(text)) !== text;
  return FORMULA.test(text) || /^(true|false|nan|inf(inity)?)$/i.test(text);
}

/** C0 without tab and line ends, DEL and C1; a CR alone. As in rlreport/text/clean.py. */
// eslint-disable-next-line no-control-regex -- they are what it is about
const CONTROL = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)/g;

/** Writes control characters out, which a terminal would obey. @param {string} text */
function withoutControls(text) {
  return text.replace(CONTROL, (control) => {
    const code = control.charCodeAt(0).toString(16);
    return `\\x${code.padStart(2, "0")}`;
  });
}

/**
 * Formats lines as CSV. As in the exported files, an apostrophe is put before a text that CSV
 * readers would change, and control characters are written out.
 * @param {string[]} header
 * @param {unknown[][]} lines
 */
export function csvOf(header, lines) {
  return [header, ...lines].map((cells) => cells.map(csvCell).join(",")).join("\n");
}

/** @param {unknown} cell */
function csvCell(cell) {
  const text = typeof cell === "string" ? safeText(cell) : String(cell ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/** @param {string} cell */
function safeText(cell) {
  const text = withoutControls(cell);
  return changedByPrograms(text.replace(/^'+/, "")) ? `'${text}` : text;
}

/** Returns the listed rows as CSV. @param {Rows} rows */
export function toCsv(rows) {
  const header = rows.columns.map((column) => column.key);
  const lines = rows.order.map((i) => rows.columns.map((column) => valueAt(column, i)));
  return csvOf(header, lines);
}

/** Returns the listed rows as JSON. @param {Rows} rows */
export function toJson(rows) {
  const records = rows.order.map((i) =>
    Object.fromEntries(rows.columns.map((column) => [column.key, valueAt(column, i)])),
  );
  return JSON.stringify(records, null, 1);
}

/** @param {Column} column @param {number} i @returns {number | string | null} */
export function valueAt(column, i) {
  if (!column.numbers) return column.strings?.[i] ?? null;
  return Number.isNaN(column.numbers[i]) ? null : column.numbers[i];
}
