/** The list of the run: all responses that steps' pages show; a row leads to its step's page. */

import { unpack } from "../shared/data.js";
import { readTable } from "./read-table.js";
import { TableView } from "./table.js";
import { keepInUrl } from "./table-state.js";
import { mountToolbar } from "./toolbar.js";

/**
 * Makes the list interactive; the rendered rows can be read while the others are unpacked.
 * @param {HTMLElement} section
 * @param {string} packed
 * @param {import("../shared/address.js").Address} address
 * @param {AbortSignal} signal
 */
export async function mountRunList(section, packed, address, signal) {
  const data = JSON.parse(new TextDecoder().decode(await unpack(packed)));
  if (signal.aborted) return;
  const read = readTable(section, data);
  const href = (i) => data.address.replace("{step}", data.values.step[i]).replace("{n}", data.n[i]);
  read.rows.defaultSort = [{ key: "worth", down: false }];
  mountToolbar(section, new TableView(section, read, { href, signal }));
  keepInUrl(read.rows, address, signal);
}
