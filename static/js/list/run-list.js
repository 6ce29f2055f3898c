/** The list of the run: all responses that steps' pages show; a row leads to its step's page. */

import { unpack } from "../shared/data.js";
import { keepInAddress } from "./state.js";
import { readTable } from "./read-table.js";
import { TableView } from "./table.js";
import { mountTools } from "./toolbar.js";

/** Order of the list until the reader sorts it. */
const AS_GIVEN = "worth";

/**
 * The baked rows can be read while the others are unpacked.
 * @param {HTMLElement} root
 * @param {HTMLElement} section
 * @param {import("../shared/address.js").Address} address
 * @returns {{unmount: () => void}}
 */
export function runList(root, section, address) {
  /** @type {(() => void)[]} */
  const ends = [];
  let gone = false;
  const packed = root.querySelector("script.list-data")?.textContent ?? "";
  unpack(packed).then((bytes) => {
    if (!gone) ends.push(...mountList(section, JSON.parse(new TextDecoder().decode(bytes)), address));
  });
  return {
    unmount() {
      gone = true;
      for (const end of ends) end();
    },
  };
}

/** @param {HTMLElement} section @param {any} data @param {import("../shared/address.js").Address} address */
function mountList(section, data, address) {
  const read = readTable(section, data);
  const href = (i) => data.address.replace("{step}", data.values.step[i]).replace("{n}", data.n[i]);
  const sorted = (sort) => address.set({ sort: sort || null });
  const view = new TableView(section, read, { href, sorted });
  mountTools(section, view);
  const follow = () => view.setSort(address.get("sort") ?? AS_GIVEN);
  const ends = [() => view.unmount(), keepInAddress(read.rows, address), address.onChange(follow)];
  follow();
  return ends;
}
