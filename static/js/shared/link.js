/** The link to what the reader sees: its address, or a text where an address leads nowhere else. */

import { placeText } from "./place.js";

/**
 * Returns what to send to a colleague: the address of a report on a server, else a text that
 * "Go to" of the same report reads, as the path of a file is another one elsewhere.
 * @param {string} where place of the open response in the log, "" for none
 */
export function linkText(where) {
  if (/^https?:$/.test(location.protocol)) return location.href;
  const path = decoded(location.pathname);
  return placeText(path, location.hash, { where, title: document.title });
}

/** @param {string} path */
function decoded(path) {
  try {
    return decodeURIComponent(path);
  } catch {
    return path; // not of UTF-8
  }
}
