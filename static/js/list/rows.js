/** The rows of a list as columns of numbers and texts: what sorting and filtering work on. */

/**
 * @typedef {object} Column
 * @property {string} key
 * @property {string} label
 * @property {string} unit
 * @property {string} kind
 * @property {import("../shared/format.js").Kind} written
 * @property {string} group what menus list it under, "" for our own figures
 * @property {string} help
 * @property {boolean} shown
 * @property {Float64Array | null} numbers NaN is missing
 * @property {(string | null)[] | null} strings
 * @property {string[]} [prefixes] shared beginnings of its texts, which cells hide
 */
/** @typedef {{key: string, down: boolean}} SortKey */

/** What spreadsheets take for a formula, but for numbers with a sign. */
const FORMULA = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/;
/** A number as text. */
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
/** Branches of rollouts, which do not count, are listed only if this column's filter asks for them. */
const SPLIT = "extra:split";
export const BRANCH = "branch";

/** A text as it is searched: lower case, any white space one blank. @param {string} text */
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
    /** @type {Map<string, string>} column key → what its text must hold, lower case */
    this.words = new Map();
    /** @type {Map<string, string>} column key whose text must be the words, not only hold them → label of all */
    this.filters = new Map();
    this.query = "";
    /** @type {number[]} indices of the rows that pass, in order */
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

  /** @param {string} key @param {string} words what its text must hold; "" for anything */
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

  /** Rows that may be listed: without branches, unless the filter asks for them. @returns {number[]} */
  listable() {
    const splits = this.words.has(SPLIT) ? null : this.column(SPLIT)?.strings;
    return Array.from({ length: this.size }, (_, i) => i).filter((i) => splits?.[i] !== BRANCH);
  }

  /**
   * Rows that pass the search and every range but those of `without`: a brushed chart
   * follows all filters except its own.
   * @param {Set<string>} [without]
   */
  passing(without = new Set()) {
    const limits = [...this.ranges]
      .filter(([key]) => !without.has(key))
      .map(([key, [low, high]]) => ({ numbers: this.column(key)?.numbers, low, high }));
    const texts = this.query ? this.texts() : null;
    const required = [...this.words].map(([key, words]) => ({ strings: this.column(key)?.strings, words, exact: this.filters.has(key) }));
    const found = [];
    for (const i of this.listable()) {
      if (texts && !texts[i].includes(this.query)) continue;
      // NaN fails both comparisons, so a missing value is outside every range.
      const inside = ({ numbers, low, high }) => !numbers || (numbers[i] >= low && numbers[i] <= high);
      const holds = ({ strings, words, exact }) => {
        const text = strings?.[i] ?? "";
        return !strings || (exact ? text === words : text.toLowerCase().includes(words));
      };
      if (limits.every(inside) && required.every(holds)) found.push(i);
    }
    return found;
  }

  /** Lower-cased text of every row, joined once at the first search. */
  texts() {
    if (!this.haystack) {
      const columns = this.columns.filter((column) => column.strings);
      this.haystack = Array.from({ length: this.size }, (_, i) =>
        searchable(columns.map((column) => column.strings?.[i] ?? "").join("\n")),
      );
    }
    return this.haystack;
  }

  /** Missing values come last whichever way a column is sorted. @param {SortKey} key */
  comparison({ key, down }) {
    const column = /** @type {Column} */ (this.column(key));
    const sign = down ? -1 : 1;
    const { numbers, strings } = column;
    if (numbers) {
      return (a, b) => {
        const [x, y] = [numbers[a], numbers[b]];
        if (Number.isNaN(x) || Number.isNaN(y)) return Number(Number.isNaN(x)) - Number(Number.isNaN(y));
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

/** "-reward,kl_k1" → sort keys. @param {string} text @returns {SortKey[]} */
export function parseSort(text) {
  return text
    .split(",")
    .filter(Boolean)
    .map((part) => ({ key: part.replace(/^-/, ""), down: part.startsWith("-") }));
}

/** Sort keys → "-reward,kl_k1". @param {SortKey[]} sort */
export function formatSort(sort) {
  return sort.map(({ key, down }) => (down ? `-${key}` : key)).join(",");
}

/** Whether programs that open CSV would change a text: a formula, "0007", "true". @param {string} text */
function changedByPrograms(text) {
  if (NUMBER.test(text)) return String(Number(text)) !== text;
  return FORMULA.test(text) || /^(true|false|nan|inf(inity)?)$/i.test(text);
}

/**
 * Comma-separated values; a text that programs would change gets an apostrophe
 * before it, as in the exported files.
 * @param {string[]} header
 * @param {any[][]} lines
 */
export function csvOf(header, lines) {
  const safe = (cell) =>
    typeof cell === "string" && changedByPrograms(cell.replace(/^'+/, "")) ? `'${cell}` : String(cell ?? "");
  const quote = (text) => (/[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text);
  const line = (cells) => cells.map((cell) => quote(safe(cell))).join(",");
  return [header, ...lines].map(line).join("\n");
}

/** What is listed, as CSV. @param {Rows} rows */
export function toCsv(rows) {
  const lines = rows.order.map((i) => rows.columns.map((column) => valueAt(column, i)));
  return csvOf(rows.columns.map((column) => column.key), lines);
}

/** What is listed, as JSON. @param {Rows} rows */
export function toJson(rows) {
  const record = (i) => Object.fromEntries(rows.columns.map((column) => [column.key, valueAt(column, i)]));
  return JSON.stringify(rows.order.map(record), null, 1);
}

/** @param {Column} column @param {number} i @returns {number | string | null} */
export function valueAt(column, i) {
  if (!column.numbers) return column.strings?.[i] ?? null;
  return Number.isNaN(column.numbers[i]) ? null : column.numbers[i];
}
