/** Brings one page, or one view of the one-file form, to life, and puts it to rest again. */

import { mountCharts } from "../charts/charts.js";
import { readJson } from "../shared/dom.js";
import { keepInAddress } from "../list/state.js";
import { Panel } from "../response/panel.js";
import { runList } from "../list/run-list.js";
import { readTable } from "../list/read-table.js";
import { keepPrompt } from "../response/same-prompt.js";
import { mountScrubber, stepsOfRun } from "./scrubber.js";
import { TableView } from "../list/table.js";
import { Tip } from "../shared/tip.js";
import { mountTools } from "../list/toolbar.js";
import { loadVega } from "../charts/vega.js";
import { message } from "../shared/words.js";

/** A table shorter than this needs no tools, only sorting. */
const TOOLS_FROM = 8;

/** @typedef {ReturnType<typeof responseList>} ResponseList */
/** @typedef {ReturnType<typeof plainTable>} PlainTable */

/**
 * @param {HTMLElement} root the page's element, `.page`
 * @param {import("../shared/address.js").Address} address
 * @returns {{unmount: () => void, bindings: () => import("./keys.js").Binding[]}}
 */
export function mount(root, address) {
  const data = readJson(root, "script.rows-data");
  const tables = [...root.querySelectorAll("section.list")].map((node) => {
    const section = /** @type {HTMLElement} */ (node);
    if (root.querySelector("script.list-data")) return runList(root, section, address);
    const response = section.classList.contains("responses");
    return response ? responseList(root, section, data, address) : plainTable(section);
  });
  const list = /** @type {ResponseList | undefined} */ (tables.find((table) => "panel" in table));
  const scrubber = /** @type {HTMLElement | null} */ (root.querySelector(".scrubber"));
  const steps = scrubber && stepsOfRun();
  if (steps) {
    mountScrubber(scrubber, steps, data?.step ?? "");
    for (const node of root.querySelectorAll(".finding")) {
      // What is found in the whole run by now; the page itself names it only.
      const title = steps.findings[/** @type {HTMLElement} */ (node).dataset.finding ?? ""];
      const place = node.querySelector(".title");
      if (title && place) place.textContent = title;
    }
  }
  const tip = new Tip(document.body);
  const charts = mountCharts(root, {
    loadVega,
    tip,
    openStep: (step) => /** @type {any} */ (root.querySelector(`.steps tr[data-n="${step}"] a`))?.click(),
    openResponse: (n) => list?.open(data.n.indexOf(n)),
    page: root.dataset.title ?? "",
    table: list ?? tables.find((table) => /** @type {Partial<PlainTable>} */ (table).section?.classList.contains("steps")) ?? null,
    rows: list?.chartRows ?? null,
    brushed: (ranges) => list?.brushed(ranges),
  });
  list?.rows.listeners.add(charts.follow);
  if (list) keepPrompt(root, data, address, () => list.panel.open);
  const stop = address.onChange(() => follow(root, list, address));
  follow(root, list, address);
  return {
    bindings: () => bindings(root, list),
    unmount() {
      stop();
      charts.unmount();
      for (const table of tables) table.unmount();
      tip.node.remove();
    },
  };
}

/** @param {HTMLElement} section */
function plainTable(section) {
  const read = readTable(section, null);
  const view = new TableView(section, read);
  if (read.rows.size >= TOOLS_FROM) mountTools(section, view);
  view.render(true);
  return { section, rows: read.rows, view, unmount: () => view.unmount() };
}

/**
 * @param {HTMLElement} root
 * @param {HTMLElement} section
 * @param {any} data
 * @param {import("../shared/address.js").Address} address
 */
function responseList(root, section, data, address) {
  const read = readTable(section, data);
  const { rows } = read;
  const open = (i) => {
    // From one response to the next the address is replaced, else "back" would step through all.
    const replace = address.get("r") !== null && i !== null;
    address.set({ r: i === null ? null : data.n[i], token: null, turn: null }, { push: !replace });
  };
  const view = new TableView(section, read, { open, sorted: (sort) => address.set({ sort: sort || null }) });
  const packed = root.querySelector("script.tokens-data")?.textContent?.trim() ?? "";
  const panel = new Panel(/** @type {HTMLElement} */ (root.querySelector("section.response")), {
    data, rows, packed, address, go: open,
  });
  mountTools(section, view);
  const stop = keepInAddress(rows, address);
  const keys = Object.keys(data.values);
  return {
    rows,
    view,
    panel,
    open,
    chartRows: (without) =>
      markedRows(rows.size, rows.passing(without), (i) => [["n", data.n[i]], ...keys.map((key) => [key, data.values[key][i]])]),
    brushed(ranges) {
      for (const [key, range] of ranges) {
        if (range) rows.ranges.set(key, range);
        else rows.ranges.delete(key);
      }
      rows.update();
    },
    unmount() {
      stop();
      view.unmount();
      panel.unmount();
    },
  };
}

/** Rows of charts: `kept` says which of them the filters leave. */
function markedRows(size, passing, entries) {
  const kept = new Set(passing);
  return Array.from({ length: size }, (_, i) => Object.fromEntries([...entries(i), ["kept", kept.has(i)]]));
}

/** Makes the page show what the address says. */
function follow(root, list, address) {
  const base = root.dataset.title ?? "";
  if (!list) {
    openDetail(root, address);
    document.title = base;
    return;
  }
  list.view.setSort(address.get("sort"));
  const wanted = address.get("r");
  const i = wanted === null ? -1 : list.view.names.indexOf(wanted);
  if (i !== list.panel.open) {
    const fresh = list.panel.open < 0 && i >= 0;
    if (i < 0) list.panel.close();
    else arrive(list.panel, list.panel.show(i), fresh, address);
    list.view.select(i);
  } else if (i >= 0) {
    list.panel.show(i);
  } else if (wanted !== null) {
    list.panel.showMissing(wanted);
  } else if (!list.panel.node.hidden) {
    list.panel.close();
  }
  document.title = i < 0 ? base : message("Response {n} · {page}", { n: wanted ?? "", page: base });
}

/** Brings a response that was opened afresh into sight: its head, or the token that is asked for. */
async function arrive(panel, shown, fresh, address) {
  if (!fresh) return;
  // Beside the list the panel scrolls by itself, below it the page does.
  const beside = matchMedia("(min-width: 1100px)").matches;
  if (!beside && (address.get("token") ?? address.get("turn")) !== null) return;
  panel.node.scrollIntoView({ block: "start" });
  await shown;
  panel.node.scrollIntoView({ block: "start" });
}

/** Opens the folded prompt that `p` names. */
function openDetail(root, address) {
  const wanted = address.get("p");
  const inside = wanted === null ? null : root.querySelector(`[id="p=${CSS.escape(wanted)}"]`);
  const details = inside?.closest("details");
  if (!details) return;
  details.open = true;
  details.scrollIntoView({ block: "start" });
}

/** @returns {import("./keys.js").Binding[]} */
function bindings(root, list) {
  const link = (selector) => () => /** @type {any} */ (root.querySelector(selector))?.click();
  const found = [];
  if (root.querySelector(".step-nav")) {
    found.push({ keys: ["["], what: message("previous step"), run: link("a[rel=prev]") });
    found.push({ keys: ["]"], what: message("next step"), run: link("a[rel=next]") });
  }
  if (root.querySelector("input[type=search]")) {
    found.push({ keys: ["/"], what: message("search"), run: () => root.querySelector("input[type=search]").focus() });
  }
  if (!list) return found;
  return [
    ...found,
    { keys: ["{"], what: message("the same prompt at an earlier step"), run: () => list.panel.samePrompt(-1) },
    { keys: ["}"], what: message("the same prompt at a later step"), run: () => list.panel.samePrompt(1) },
    { keys: ["j"], what: message("next response"), run: () => list.panel.step(1) },
    { keys: ["k"], what: message("previous response"), run: () => list.panel.step(-1) },
    { keys: ["n"], what: message("next most extreme token"), run: () => list.panel.tokens?.jump(1) },
    { keys: ["N"], what: message("the one before"), run: () => list.panel.tokens?.jump(-1) },
    { keys: ["w"], what: message("the worst token of the metric"), run: () => list.panel.tokens?.worst() },
    { keys: ["t"], what: message("next turn"), run: () => list.panel.spine?.next(1) },
    { keys: ["T"], what: message("previous turn"), run: () => list.panel.spine?.next(-1) },
    { keys: ["e"], what: message("first error of a tool"), run: () => list.panel.spine?.firstError() },
    { keys: ["a"], what: message("last answer"), run: () => list.panel.spine?.lastAnswer() },
    { keys: ["Escape"], what: message("leave the field, close the response"), run: () => !list.panel.node.hidden && list.open(null) },
    { keys: [], shown: "← → ↑ ↓", what: message("from token to token, once one has the focus"), run: () => {} },
    { keys: [], shown: "Shift", what: message("with a press on a header: sort by several columns"), run: () => {} },
  ];
}
