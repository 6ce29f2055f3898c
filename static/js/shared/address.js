/**
 * Keeps the page's state in the URL's hash: `#r=17&metric=kl&sort=-reward` in a report folder,
 * `#/steps/100?r=17&metric=kl&sort=-reward` in a one-file report.
 */

/** Browsers limit calls of `replaceState`: Safari throws at 100 in 10 s. */
const WRITE_EVERY_MS = 300;

/**
 * Splits a hash into the view's path ("" in a report folder) and its parameters.
 * @param {string} hash
 */
function parse(hash) {
  const text = hash.replace(/^#/, "");
  if (!text.startsWith("/")) return { path: "", params: new URLSearchParams(text) };
  const [path, query = ""] = text.split(/\?(.*)/s);
  return { path, params: new URLSearchParams(query) };
}

/**
 * Joins a path and parameters to a hash, "#" if both are empty.
 * @param {string} path
 * @param {URLSearchParams} params
 */
export function format(path, params) {
  const query = params.toString();
  if (!path) return `#${query}`;
  return query ? `#${path}?${query}` : `#${path}`;
}

/** The state of the page, held in memory and written to the URL with a delay. */
export class Address {
  constructor() {
    /** @type {Set<() => void>} */
    this.listeners = new Set();
    this.hash = location.hash;
    /** The hash that was last written to or read from the URL. */
    this.written = location.hash;
    this.timer = 0;
    const changed = () => {
      if (location.hash === this.written) return;
      this.hash = this.written = location.hash;
      this.notify();
    };
    // Going back or editing the hash fires both events; `written` ignores the second one.
    addEventListener("popstate", changed);
    addEventListener("hashchange", changed);
    // Before the reader leaves the page or copies its URL, the URL must have the current state.
    addEventListener("pagehide", () => this.write());
    addEventListener("click", () => this.write(), true);
  }

  get path() {
    return parse(this.hash).path;
  }

  /** @param {string} key @returns {string | null} */
  get(key) {
    return parse(this.hash).params.get(key);
  }

  /** @returns {[string, string][]} */
  entries() {
    return [...parse(this.hash).params];
  }

  /**
   * Changes parameters; null removes one. With `push` the change becomes an entry in the history.
   * @param {Record<string, string | number | null>} changes
   * @param {{push?: boolean}} [how]
   */
  set(changes, { push = false } = {}) {
    const { params } = parse(this.hash);
    for (const [key, value] of Object.entries(changes)) {
      if (value === null) params.delete(key);
      else params.set(key, String(value));
    }
    this.update(params, push);
  }

  /**
   * Replaces all parameters whose key matches.
   * @param {(key: string) => boolean} matches
   * @param {[string, string][]} entries
   */
  replace(matches, entries) {
    const others = this.entries().filter(([key]) => !matches(key));
    this.update(new URLSearchParams([...others, ...entries]), false);
  }

  /** @param {URLSearchParams} params @param {boolean} push */
  update(params, push) {
    const hash = format(this.path, params);
    if (hash === (this.hash || "#")) return;
    if (push) this.write();
    this.hash = hash === "#" ? "" : hash;
    if (push) this.write("pushState");
    else if (!this.timer) {
      this.write();
      this.timer = setTimeout(() => {
        this.timer = 0;
        this.write();
      }, WRITE_EVERY_MS);
    }
    this.notify();
  }

  /** @param {"replaceState" | "pushState"} method */
  write(method = "replaceState") {
    if (this.hash === this.written) return;
    history[method](null, "", location.href.split("#")[0] + this.hash);
    this.hash = this.written = location.hash;
  }

  notify() {
    for (const listener of [...this.listeners]) {
      // A listener may have unsubscribed another.
      if (this.listeners.has(listener)) listener();
    }
  }

  /** @param {() => void} listener @param {AbortSignal} [signal] ends the subscription */
  onChange(listener, signal) {
    this.listeners.add(listener);
    signal?.addEventListener("abort", () => this.listeners.delete(listener));
  }
}
