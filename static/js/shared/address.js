/**
 * The page's address is its state. Both forms share it: `#r=17&metric=kl&sort=-reward` in a
 * folder, `#/steps/100?r=17&metric=kl&sort=-reward` in one file.
 */

/**
 * Splits a hash into the view's path ("" in the folder form) and its parameters.
 * @param {string} hash
 */
export function parse(hash) {
  const text = hash.replace(/^#/, "");
  if (!text.startsWith("/")) return { path: "", params: new URLSearchParams(text) };
  const [path, query = ""] = text.split(/\?(.*)/s);
  return { path, params: new URLSearchParams(query) };
}

/**
 * Joins a path and parameters to a hash; "#" where there is nothing to say.
 * @param {string} path
 * @param {URLSearchParams} params
 */
export function format(path, params) {
  const query = params.toString();
  if (!path) return `#${query}`;
  return query ? `#${path}?${query}` : `#${path}`;
}

/** Reads and writes the address, and tells listeners of every change of it. */
export class Address {
  constructor() {
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    this.seen = location.hash;
    const changed = () => {
      if (location.hash === this.seen) return;
      this.seen = location.hash;
      this.tell();
    };
    // Moving back fires both, editing the hash by hand fires both: `seen` makes it once.
    addEventListener("popstate", changed);
    addEventListener("hashchange", changed);
  }

  get path() {
    return parse(location.hash).path;
  }

  /** @param {string} key @returns {string | null} */
  get(key) {
    return parse(location.hash).params.get(key);
  }

  /** All parameters whose name starts with `prefix`, without it. @param {string} prefix */
  starting(prefix) {
    const found = [...parse(location.hash).params].filter(([key]) => key.startsWith(prefix));
    return new Map(found.map(([key, value]) => [key.slice(prefix.length), value]));
  }

  /**
   * Changes parameters; null takes one out. Opening something makes an entry in the history
   * (`push`), settings only replace the present one.
   * @param {Record<string, string | number | null>} changes
   * @param {{push?: boolean}} [how]
   */
  set(changes, { push = false } = {}) {
    const { path, params } = parse(location.hash);
    for (const [key, value] of Object.entries(changes)) {
      if (value === null) params.delete(key);
      else params.set(key, String(value));
    }
    const hash = format(path, params);
    if (hash === (location.hash || "#")) return;
    const bare = location.href.split("#")[0];
    const href = hash === "#" ? bare : bare + hash;
    if (push) history.pushState(null, "", href);
    else history.replaceState(null, "", href);
    this.seen = location.hash;
    this.tell();
  }

  tell() {
    for (const listener of [...this.listeners]) {
      // One listener may have put another's view away.
      if (this.listeners.has(listener)) listener();
    }
  }

  /** @param {() => void} listener @returns {() => void} stops listening */
  onChange(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}
