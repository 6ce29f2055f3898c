/** The rows of a list as columns of numbers and texts, which can be sorted and filtered. */

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} label
 * @property {string} unit
 * @property {string} kind
 * @property {import("../shared/format.js").Kind} written
 * @property {string} group heading above the column in menus, "" for computed figures
 * @property {string} help
 * @property {boolean} shown
 * @property {Float64Array | null} numbers NaN for missing values
 * @property {(string | null)[] | null} strings
 * @property {string[]} [prefixes] shared beginnings of the texts, which cells hide
 */
/** @typedef {{key: string, down: boolean}} SortKey */

/** Matches the start of a text that spreadsheets read as a formula (or a signed number). */
const FORMULA = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;
/** Matches a text that is a number. */
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
/** Column of data splits; branches that were not trained are listed only if its filter selects them. */
const SPLIT = "extra:split";
export const BRANCH = "branch";
/** Column of the tools that answered in a response, whose text has one of them a line. */
const TOOLS = "tools";

/** Returns the values that a cell's text consists of. @param {string} key column @param {string | null} text @returns {string[]} */
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
    /** @type {Map<string, [number, number]>} column key → range, either end may be infinite */
    this.ranges = new Map();
    /** @type {Map<string, string>} column key → words that its text must contain, in lower case */
    this.words = new Map();
    /** @type {Map<string, string>} key of a column that is filtered by whole values → label of "all values" */
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

  /** @param {string} key @param {[number, number] | null} range */
  limit(key, range) {
    if (range) this.ranges.set(key, range);
    else this.ranges.delete(key);
    this.update();
  }

  /** @param {string} key @param {string} words that the column's text must contain; "" for any text */
  require(key, words) {
    if (words) this.words.set(key, this.filters.has(key) ? words : words.toLowerCase());
    else this.words.delete(key);
    this.update();
  }

  update() {
    this.order = this.passing();
    if (this.sort.length) {
      const compare = this.sort.map((key) => this.comparison(key));
      this.order.sort((a, b) => {
        for (const by of compare) {
          const sign = by(a, b);
          if (sign) return sign;
        }
        return a - b;
      });
    }
    for (const listener of [...this.listeners]) listener();
  }

  /** Returns the rows to list: without branches, unless the split filter selects them. @returns {number[]} */
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
    const limits = [...this.ranges]
      .filter(([key]) => !without.has(key))
      .map(([key, [low, high]]) => ({ numbers: this.column(key)?.numbers, low, high }));
    const texts = this.query ? this.texts() : null;
    const required = [...this.words].map(([key, words]) => ({
      key,
      strings: this.column(key)?.strings,
      words,
      exact: this.filters.has(key),
    }));
    const found = [];
    for (const i of this.listable()) {
      if (texts && !texts[i].includes(this.query)) continue;
      // NaN fails both comparisons, so a missing value is outside every range.
      const inside = ({ numbers, low, high }) =>
        !numbers || (numbers[i] >= low && numbers[i] <= high);
      const holds = ({ key, strings, words, exact }) => {
        if (!strings) return true;
        return exact
          ? valuesOf(key, strings[i]).includes(words)
          : (strings[i] ?? "").toLowerCase().includes(words);
      };
      if (limits.every(inside) && required.every(holds)) found.push(i);
    }
    return found;
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

  /** Returns a comparison of two rows by one column; missing values are last. @param {SortKey} key */
  comparison({ key, down }) {
    const column = /** @type {Column} */ (this.column(key));
    const sign = down ? -1 : 1;
    const { numbers, strings } = column;
    if (numbers) {
      return (a, b) => {
        const [x, y] = [numbers[a], numbers[b]];
        if (Number.isNaN(x) || Number.isNaN(y))
          return Number(Number.isNaN(x)) - Number(Number.isNaN(y));
        return x === y ? 0 : x < y ? -sign : sign;
      };
    }
    return (a, b) => {
      const [x, y] = [strings?.[a] ?? null, strings?.[b] ?? null];
      if (x === null || y === null) return Number(x === null) - Number(y === null);
      return x === y ? 0 : x < y ? -sign : sign;
    };
  }
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

/** Returns whether CSV readers would change a text: a formula, "0007", "true". @param {string} text */
function changedByPrograms(text) {
  if (NUMBER.test(text)) return String(Number(text)) !== text;
  return FORMULA.test(text) || /^(true|false|nan|inf(inity)?)$/i.test(text);
}

/** C0 without tab and line ends, DEL and C1; a CR alone. As in rlreport/text/clean.py. */
const CONTROL = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)/g;

/** Writes control characters out, which a terminal would obey. @param {string} text */
function withoutControls(text) {
  return text.replace(
    CONTROL,
    (control) => `\\x${control.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
}

/**
 * Formats lines as CSV. As in the exported files, an apostrophe is put before a text that CSV
 * readers would change, and control characters are written out.
 * @param {string[]} header
 * @param {any[][]} lines
 */
export function csvOf(header, lines) {
  const safe = (cell) => {
    if (typeof cell !== "string") return String(cell ?? "");
    const text = withoutControls(cell);
    return changedByPrograms(text.replace(/^'+/, "")) ? `'${text}` : text;
  };
  const quote = (text) => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
  const line = (cells) => cells.map((cell) => quote(safe(cell))).join(",");
  return [header, ...lines].map(line).join("\n");
}

/** Returns the listed rows as CSV. @param {Rows} rows */
export function toCsv(rows) {
  const lines = rows.order.map((i) => rows.columns.map((column) => valueAt(column, i)));
  return csvOf(
    rows.columns.map((column) => column.key),
    lines,
  );
}

/** Returns the listed rows as JSON. @param {Rows} rows */
export function toJson(rows) {
  const record = (i) =>
    Object.fromEntries(rows.columns.map((column) => [column.key, valueAt(column, i)]));
  return JSON.stringify(rows.order.map(record), null, 1);
}

/** @param {Column} column @param {number} i @returns {number | string | null} */
export function valueAt(column, i) {
  if (!column.numbers) return column.strings?.[i] ?? null;
  return Number.isNaN(column.numbers[i]) ? null : column.numbers[i];
}
