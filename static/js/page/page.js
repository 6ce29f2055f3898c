/** Makes one page, or one view of a one-file report, interactive. */

/** @import { Hooks } from "../charts/charts.js" */
/** @import { ResponseList } from "../list/step-list.js" */
/** @import { PromptList } from "../prompts/prompt-list.js" */
/** @import { Address } from "../shared/address.js" */
/** @import { Rows } from "../list/rows.js" */
/** @import { RowsData } from "../shared/types.d.ts" */

import { mountCharts } from "../charts/charts.js";
import { mountStills } from "../charts/stills.js";
import { mountStrips } from "../charts/strips.js";
import { hasVega, loadVega } from "../charts/vega.js";
import { readTable } from "../list/read-table.js";
import { mountIndexList } from "../list/index-list.js";
import { mountRunList } from "../list/run-list.js";
import { mountStepList } from "../list/step-list.js";
import { TableView } from "../list/table.js";
import { keepInUrl } from "../list/table-state.js";
import { mountToolbar } from "../list/toolbar.js";
import { mountFilms } from "../prompts/film-figure.js";
import { mountPromptMap } from "../prompts/map.js";
import { mountPromptList } from "../prompts/prompt-list.js";
import { mountSideMap } from "../prompts/side-map.js";
import { keepPrompt } from "../response/same-prompt.js";
import { copies } from "../shared/copy.js";
import { readJson } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { stepsOfRun } from "../shared/run.js";
import { mountTerms } from "../shared/terms.js";
import { Tip } from "../shared/tip.js";
import { message } from "../shared/words.js";
import { bindingsOf } from "./bindings.js";
import { follow } from "./follow.js";
import { mountHowTo } from "./how-to.js";
import { mountListScrubber, mountScrubber } from "./scrubber.js";

/** Minimum number of rows of a table with a toolbar; shorter tables can only be sorted. */
const TOOLBAR_FROM = 30;

/** @typedef {ReturnType<typeof mountTable>} Table */
/** @typedef {ReturnType<typeof mountStepList>} StepList */

/**
 * Mounts the interactive parts of a page; `unmount` undoes it.
 * @param {HTMLElement} root the page's element, `.page`
 * @param {Address} address
 * @returns {{unmount: () => void, bindings: () => import("./keys.js").Binding[], where: () => string}}
 *   `where`: the place of the open response in the log, "" for none
 */
export function mount(root, address) {
  const mounted = new AbortController();
  const { signal } = mounted;
  const page = { address, signal };
  const data = /** @type {RowsData | null} */ (readJson(root, "script.rows-data"));
  /** @type {ResponseList | null} */
  let list = null;
  if (root.querySelector("script.list-data")) {
    const section = /** @type {HTMLElement} */ (root.querySelector("section.list"));
    mountRunList(root, section, address, signal).then((runList) => {
      list = runList;
      if (!runList) return;
      follow(root, runList, address);
      mountListPicker(root, runList.rows);
    });
  }
  const { steps, stepList, prompts } = mountTables(root, data, page);
  list = stepList;
  mountPicker(root, data);
  mountHowTo(root, address, signal);
  mountAssistant(root);
  const hooks = chartHooks(root, data, { steps, stepList }, page);
  const charts = mountCharts(root, hooks);
  mountStills(root, hooks);
  mountStrips(root, { steps: hooks.steps, open: hooks.openStep, tip: hooks.tip, signal });
  mountPromptMap(root, { address, tip: hooks.tip, signal });
  mountSideMap(root, { open: hooks.openResponse, tip: hooks.tip, signal });
  mountFilms(root, signal);
  if (stepList && data) {
    stepList.rows.listeners.add(charts.update);
    keepPrompt(root, data, address, () => stepList.panel.open);
  }
  mountTerms(root);
  mountTermsOfPanel(root, signal);
  address.onChange(() => follow(root, list, address), signal);
  follow(root, list, address);
  return {
    bindings: () => bindingsOf(root, list, prompts),
    unmount: () => mounted.abort(),
    where: () => list?.panel.where ?? "",
  };
}

/**
 * Makes the tables of a page interactive.
 * @param {HTMLElement} root
 * @param {RowsData | null} data
 * @param {{address: Address, signal: AbortSignal}} page
 */
function mountTables(root, data, page) {
  /** @type {Table | null} */
  let steps = null;
  /** @type {StepList | null} */
  let stepList = null;
  /** @type {PromptList | null} */
  let prompts = null;
  /** @type {NodeListOf<HTMLElement>} */
  const sections = root.querySelectorAll("section.list");
  for (const section of sections) {
    if (section.classList.contains("responses")) {
      // Those of the run are mounted once their rows are unpacked.
      if (data) stepList = mountStepList(root, section, data, page);
      continue;
    }
    if (section.classList.contains("prompt-table")) {
      prompts = mountPromptList(root, section, page);
      continue;
    }
    const table = mountTable(section, page);
    if (section.classList.contains("steps")) steps = table;
  }
  return { steps, stepList, prompts };
}

/** @param {HTMLElement} section @param {{address: Address, signal: AbortSignal}} page */
function mountTable(section, { address, signal }) {
  const read = readTable(section, null);
  const { rows } = read;
  const view = new TableView(section, read, { signal, href: () => "" });
  const hidesColumns = section.closest(".runs") && rows.columns.some((column) => !column.shown);
  if (hidesColumns || rows.size >= TOOLBAR_FROM) mountToolbar(section, view);
  if (section.classList.contains("runs-table")) mountIndexList(section, view, { address, signal });
  keepInUrl(rows, address, signal, `${section.dataset.table}.`);
  return { rows, view };
}

/**
 * Returns what charts need of the page, and what they do to it.
 * @param {HTMLElement} root
 * @param {RowsData | null} data
 * @param {{steps: Table | null, stepList: StepList | null}} tables
 * @param {{address: Address, signal: AbortSignal}} page
 * @returns {Hooks}
 */
function chartHooks(root, data, { steps, stepList }, { address, signal }) {
  return {
    loadVega,
    tip: new Tip(document.body, signal),
    signal,
    address,
    page: root.dataset.title ?? "",
    table: hasVega() ? (stepList ?? steps) : null,
    rows: stepList?.chartRows ?? null,
    partial: data ? partOf(data) : "",
    responses: responsesOf(root, data),
    steps: steps ? stepsWithPage(steps.view) : [],
    openStep: (step) => steps && openStep(steps.view, step),
    openResponse: (n) => data && stepList?.open(data.n.indexOf(n)),
    brushed: (ranges) => stepList?.brushed(ranges),
  };
}

/**
 * Makes the names in the response panel, which is filled later, open their definitions.
 * @param {HTMLElement} root
 * @param {AbortSignal} signal
 */
function mountTermsOfPanel(root, signal) {
  const panel = root.querySelector("section.response");
  if (!panel) return;
  const observer = new MutationObserver(() => mountTerms(panel));
  observer.observe(panel, { childList: true, subtree: true });
  signal.addEventListener("abort", () => observer.disconnect());
}

/** Returns the steps that have a page, ascending. @param {TableView} view of the steps */
function stepsWithPage(view) {
  const ids = view.rowIds.filter((_, row) => view.nodes[row]?.querySelector("a"));
  return ids.map(Number).sort((a, b) => a - b);
}

/** Goes to the page of a step. @param {TableView} view of the steps @param {number} step */
function openStep(view, step) {
  // The row need not be in the document: the table may be filtered.
  const row = view.nodes[view.rowIds.indexOf(String(step))];
  const link = row?.querySelector("a");
  if (link) location.assign(link.href);
}

/**
 * Returns how many responses the run or the step has, 0 if the page does not say.
 * @param {HTMLElement} root
 * @param {RowsData | null} data
 */
function responsesOf(root, data) {
  return data?.total ?? Number(root.dataset.responses ?? 0);
}

/** Returns how many of a step's responses the page has, "" for all. @param {RowsData} data */
function partOf({ n, total }) {
  if (total <= n.length) return "";
  const counts = { shown: written(n.length, "count"), all: written(total, "count") };
  return message("{shown} of {all} responses", counts);
}

/**
 * Adds the step picker, which needs data of the whole run, to a step's page.
 * @param {HTMLElement} root
 * @param {RowsData | null} data
 */
function mountPicker(root, data) {
  if (!data) return;
  const scrubber = /** @type {HTMLElement | null} */ (root.querySelector(".scrubber"));
  const run = scrubber && stepsOfRun();
  if (scrubber && run) mountScrubber(scrubber, run, data.step);
}

/** Adds the step picker to the list of the run. @param {HTMLElement} root @param {Rows} rows */
function mountListPicker(root, rows) {
  const scrubber = /** @type {HTMLElement | null} */ (root.querySelector(".scrubber"));
  const run = scrubber && stepsOfRun();
  if (scrubber && run) mountListScrubber(scrubber, run, rows);
}

/** Lets the button of the overview copy the text for an assistant. @param {HTMLElement} root */
function mountAssistant(root) {
  /** @type {HTMLButtonElement | null} */
  const button = root.querySelector("button.for-assistant");
  const text = readJson(root, "script.assistant-text");
  if (!button || !text) return;
  button.hidden = false;
  copies(button, () => String(text));
}
