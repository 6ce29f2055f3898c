/** The rows of a list as columns of numbers and texts, which can be sorted and filtered. */

/** @import { Kind } from "../shared/types.d.ts" */

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
 * @property {Float64Array | null} numbers NaN for missing values
 * @property {(string | null)[] | null} strings
 * @property {string[]} [prefixes] shared beginnings of the texts, which cells hide
 * @property {number} [largest] largest magnitude of the numbers, once it is known
 */
/** @typedef {Column & {numbers: Float64Array}} NumberColumn */
/** @typedef {{key: string, down: boolean}} SortKey */
/** @typedef {[number, number]} Range either end may be infinite */
/** @typedef {(a: number, b: number) => number} Comparison of two rows by their indices */

/** Matches the start of a text that spreadsheets read as a formula (or a signed number). */
const FORMULA = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;
/** Matches a text that is a number. */
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
/**
 * Column of data splits; branches that were not trained are listed only if its filter selects them.
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

/** Normalizes a text for searching: lower case, single spaces. @param {string} text */
export function searchable(text) {
  return text.toLowerCase().replace(/\s+/g, " ");
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
    /**
     * @type {Map<string, string>} key of a column that is filtered by whole values → label of "all
     *   values"
     */
    this.filters = new Map();
    this.query = "";
    /** @type {number[]} indices of the rows that pass the filters, in sorted order */
    this.order = Array.from({ length: size }, (_, i) => i);
    /** @type {string[] | null} */
    this.haystack = null;
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

  /** @param {string} query */
  search(query) {
    this.query = searchable(query.trim());
    this.update();
  }

  /** @param {string} key @param {Range | null} range */
  limit(key, range) {
    if (range) this.ranges.set(key, range);
    else this.ranges.delete(key);
    this.update();
  }

  /** @param {string} key @param {string} words that the column's text must contain; "" for any */
  require(key, words) {
    if (words) this.words.set(key, this.filters.has(key) ? words : words.toLowerCase());
    else this.words.delete(key);
    this.update();
  }

  update() {
    this.order = this.passing();
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
    return Array.from({ length: this.size }, (_, i) => i).filter((i) => splits?.[i] !== BRANCH);
  }

  /**
   * Returns the rows that pass the search and every filter except those on the columns `without`,
   * as a brushed chart shows also the responses that only its own brush excludes.
   * @param {Set<string>} [without]
   */
  passing(without = new Set()) {
    const tests = [...this.rangeTests(without), ...this.wordTests()];
    if (this.query) {
      const texts = this.texts();
      tests.unshift((i) => texts[i].includes(this.query));
    }
    return this.listable().filter((i) => tests.every((passes) => passes(i)));
  }

  /**
   * Returns a test of rows for each range, except those on the columns `without`.
   * @param {Set<string>} without
   */
  rangeTests(without) {
    /** @type {((i: number) => boolean)[]} */
    const tests = [];
    for (const [key, [low, high]] of this.ranges) {
      const numbers = this.column(key)?.numbers;
      // NaN fails both comparisons, so a missing value is outside every range.
      if (numbers && !without.has(key)) tests.push((i) => numbers[i] >= low && numbers[i] <= high);
    }
    return tests;
  }

  /** Returns a test of rows for each column whose text must contain words. */
  wordTests() {
    /** @type {((i: number) => boolean)[]} */
    const tests = [];
    for (const [key, words] of this.words) {
      const strings = this.column(key)?.strings;
      if (!strings) continue;
      const isWhole = this.filters.has(key);
      tests.push((i) =>
        isWhole
          ? valuesOf(key, strings[i]).includes(words)
          : (strings[i] ?? "").toLowerCase().includes(words),
      );
    }
    return tests;
  }

  /** Returns the lower-case text of every row, computed at the first search. */
  texts() {
    if (!this.haystack) {
      const columns = this.columns.filter((column) => column.strings);
      this.haystack = Array.from({ length: this.size }, (_, i) =>
        searchable(columns.map((column) => column.strings?.[i] ?? "").join("\n")),
      );
    }
    return this.haystack;
  }

  /**
   * Returns a comparison of two rows by one column; missing values are last.
   * @param {SortKey} key
   * @returns {Comparison}
   */
  comparison({ key, down }) {
    const { numbers, strings } = /** @type {Column} */ (this.column(key));
    return numbers ? byNumber(numbers, down) : byText(strings ?? [], down);
  }
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
