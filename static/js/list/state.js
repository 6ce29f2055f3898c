/** Search and filters of a list stand in the address: `q`, `min.KEY`, `max.KEY`, `has.KEY`. */

/** @typedef {import("./rows.js").Rows} Rows */
/** @typedef {import("../shared/address.js").Address} Address */

/**
 * Takes search and filters from the address, now and whenever it changes, and writes them there.
 * @param {Rows} rows
 * @param {Address} address
 * @returns {() => void} stops
 */
export function keepInAddress(rows, address) {
  const follow = () => {
    if (same(said(address), parameters(rows))) return;
    read(rows, address);
    rows.update();
  };
  const write = () => {
    const [before, now] = [said(address), parameters(rows)];
    if (same(before, now)) return;
    const gone = Object.keys(before).filter((key) => !(key in now));
    address.set({ ...Object.fromEntries(gone.map((key) => [key, null])), ...now });
  };
  read(rows, address);
  rows.update();
  rows.listeners.add(write);
  return address.onChange(follow);
}

/** @param {Rows} rows @param {Address} address */
function read(rows, address) {
  rows.query = (address.get("q") ?? "").trim().toLowerCase();
  rows.ranges.clear();
  rows.words.clear();
  for (const [end, at] of /** @type {[string, 0 | 1][]} */ ([["min.", 0], ["max.", 1]])) {
    for (const [key, value] of address.starting(end)) {
      const range = rows.ranges.get(key) ?? [-Infinity, Infinity];
      range[at] = Number(value);
      if (rows.column(key)?.numbers) rows.ranges.set(key, range);
    }
  }
  for (const [key, words] of address.starting("has.")) {
    if (rows.column(key)?.strings) rows.words.set(key, words.toLowerCase());
  }
}

/** Search and filters as parameters of the address. @param {Rows} rows */
function parameters(rows) {
  /** @type {Record<string, string>} */
  const found = rows.query ? { q: rows.query } : {};
  for (const [key, [low, high]] of rows.ranges) {
    if (Number.isFinite(low)) found[`min.${key}`] = String(low);
    if (Number.isFinite(high)) found[`max.${key}`] = String(high);
  }
  for (const [key, words] of rows.words) found[`has.${key}`] = words;
  return found;
}

/** What the address says of them. @param {Address} address @returns {Record<string, string>} */
function said(address) {
  const found = [...address.starting("")].filter(([key]) => key === "q" || /^(min|max|has)\./.test(key));
  return Object.fromEntries(found.map(([key, value]) => [key, value.trim().toLowerCase()]).filter(([, value]) => value));
}

/** @param {Record<string, string>} a @param {Record<string, string>} b */
function same(a, b) {
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => a[key] === b[key]);
}
