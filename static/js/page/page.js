/** Makes one page, or one view of a one-file report, interactive. */

import { mountCharts } from "../charts/charts.js";
import { hasVega, loadVega } from "../charts/vega.js";
import { readTable } from "../list/read-table.js";
import { mountRunList } from "../list/run-list.js";
import { TableView } from "../list/table.js";
import { keepInUrl } from "../list/table-state.js";
import { mountToolbar } from "../list/toolbar.js";
import { Panel } from "../response/panel.js";
import { keepPrompt } from "../response/same-prompt.js";
import { format } from "../shared/address.js";
import { readJson } from "../shared/dom.js";
import { written } from "../shared/format.js";
import { stepsOfRun } from "../shared/run.js";
import { Tip } from "../shared/tip.js";
import { message } from "../shared/words.js";
import { mountScrubber } from "./scrubber.js";

/** Minimum number of rows of a table with a toolbar; shorter tables can only be sorted. */
const TOOLBAR_FROM = 30;

/**
 * Mounts the interactive parts of a page; `unmount` undoes it.
 * @param {HTMLElement} root the page's element, `.page`
 * @param {import("../shared/address.js").Address} address
 * @returns {{unmount: () => void, bindings: () => import("./keys.js").Binding[]}}
 */
export function mount(root, address) {
  const mounted = new AbortController();
  const { signal } = mounted;
  const data = readJson(root, "script.rows-data");
  const packed = root.querySelector("script.list-data")?.textContent;
  /** @type {any} what `mountResponses` returns */
  let list = null;
  /** @type {ReturnType<typeof mountTable> | null} */
  let steps = null;
  for (const section of /** @type {NodeListOf<HTMLElement>} */ (
    root.querySelectorAll("section.list")
  )) {
    if (packed) {
      mountRunList(root, section, packed, address, signal).then((mounted) => {
        list = mounted;
        if (list) update(root, list, address);
      });
    } else if (section.classList.contains("responses"))
      list = mountResponses(root, section, data, address, signal);
    else {
      const table = mountTable(section, address, signal);
      if (section.classList.contains("steps")) steps = table;
    }
  }
  showRun(root, data);
  const tip = new Tip(document.body, signal);
  const openStep = (step) => {
    // The row need not be in the document: the table may be filtered.
    const link = steps?.view.nodes[steps.view.rowIds.indexOf(String(step))]?.querySelector("a");
    if (link) location.assign(link.href);
  };
  const charts = mountCharts(root, {
    loadVega,
    tip,
    signal,
    openStep,
    openResponse: (n) => list?.open(data.n.indexOf(n)),
    page: root.dataset.title ?? "",
    table: hasVega() ? (list ?? steps) : null,
    rows: list?.chartRows ?? null,
    partial:
      data?.total > data?.n.length
        ? message("{shown} of {all} responses", {
            shown: written(data.n.length, "count"),
            all: written(data.total, "count"),
          })
        : "",
    brushed: (ranges) => list?.brushed(ranges),
  });
  list?.rows.listeners.add(charts.update);
  if (list) keepPrompt(root, data, address, () => list.panel.open);
  address.onChange(() => update(root, list, address), signal);
  update(root, list, address);
  return { bindings: () => bindings(root, list), unmount: () => mounted.abort() };
}

/** Adds parts of a step's page that need data of the whole run: the step picker and findings. */
function showRun(root, data) {
  const scrubber = root.querySelector(".scrubber");
  const run = scrubber && stepsOfRun();
  if (!run) return;
  mountScrubber(scrubber, run, data?.step ?? "");
  for (const node of root.querySelectorAll(".finding")) {
    const title = run.findings[node.dataset.finding ?? ""];
    const place = node.querySelector(".title");
    if (title && place) place.textContent = title;
  }
}

/**
 * @param {HTMLElement} section
 * @param {import("../shared/address.js").Address} address
 * @param {AbortSignal} signal
 */
function mountTable(section, address, signal) {
  const read = readTable(section, null);
  const view = new TableView(section, read, { signal, href: () => "" });
  const hides = section.closest(".runs") && read.rows.columns.some((column) => !column.shown);
  if (hides || read.rows.size >= TOOLBAR_FROM) mountToolbar(section, view);
  keepInUrl(read.rows, address, signal, `${section.dataset.table}.`);
  return { rows: read.rows, view };
}

/**
 * @param {HTMLElement} root
 * @param {HTMLElement} section
 * @param {any} data
 * @param {import("../shared/address.js").Address} address
 * @param {AbortSignal} signal
 */
function mountResponses(root, section, data, address, signal) {
  const read = readTable(section, data);
  const { rows } = read;
  for (const { key, strings } of rows.columns) if (data.texts[key]) data.texts[key] = strings;
  const open = (i) => {
    // Replace, don't push: Back should close the panel, not replay every response.
    const replace = address.get("r") !== null && i !== null;
    address.set({ r: i === null ? null : data.n[i], token: null, turn: null }, { push: !replace });
  };
  const href = (i) => format(address.path, new URLSearchParams({ r: read.rowIds[i] }));
  const badges = (i) => [...new Set((data.badges[data.n[i]] ?? []).map(({ name }) => name))];
  const view = new TableView(section, read, { open, href, signal, badges });
  const packed = root.querySelector("script.tokens-data")?.textContent?.trim() ?? "";
  const panel = new Panel(/** @type {HTMLElement} */ (root.querySelector("section.response")), {
    data,
    rows,
    packed,
    address,
    go: open,
    signal,
  });
  mountToolbar(section, view);
  keepInUrl(rows, address, signal);
  const keys = Object.keys(data.values);
  const chartRows = (without) => {
    const passing = new Set(rows.passing(without));
    return rows
      .listable()
      .map((i) =>
        Object.fromEntries([
          ["n", data.n[i]],
          ...keys.map((key) => [key, data.values[key][i]]),
          ["kept", passing.has(i)],
        ]),
      );
  };
  const brushed = (ranges) => {
    for (const [key, range] of ranges) {
      if (range) rows.ranges.set(key, range);
      else rows.ranges.delete(key);
    }
    rows.update();
  };
  return { section, rows, view, panel, open, chartRows, brushed };
}

/** Updates the page to the state in the URL. */
function update(root, list, address) {
  const base = root.dataset.title ?? "";
  if (!list) {
    showNamed(root, address);
    document.title = base;
    return;
  }
  const wanted = address.get("r");
  const i = wanted === null ? -1 : list.view.rowIds.indexOf(wanted);
  if (i !== list.panel.open) {
    const before = list.panel.open;
    const focused = [list.panel.node, list.view.table].some((part) =>
      part.contains(document.activeElement),
    );
    if (i < 0) list.panel.close();
    else scrollToResponse(list.panel, list.panel.show(i), before < 0, address);
    list.view.select(i);
    if (i < 0 && focused) list.view.focusRow(list.rows.order.indexOf(before));
    // On a narrow screen the response takes the place of the list.
    if (i >= 0 && !list.section.checkVisibility()) list.panel.node.focus({ preventScroll: true });
  } else if (i >= 0) {
    list.panel.show(i);
  } else if (wanted !== null) {
    list.panel.showMissing(wanted);
  } else if (!list.panel.node.hidden) {
    list.panel.close();
  }
  document.title = i < 0 ? base : message("Response {n} · {page}", { n: wanted ?? "", page: base });
}

/** Scrolls to the head of a newly opened response, unless the URL names a token or turn in it. */
async function scrollToResponse(panel, shown, fresh, address) {
  if (!fresh) return;
  // Beside the list the panel scrolls by itself, below it the page does.
  const beside = matchMedia("(min-width: 1100px)").matches;
  if (!beside && (address.get("token") ?? address.get("turn")) !== null) return;
  const toHead = () =>
    (beside || !(panel.conversation?.found >= 0)) && panel.node.scrollIntoView({ block: "start" });
  toHead();
  await shown;
  toHead();
}

/** Scrolls to the chart or finding that the URL names. */
function showNamed(root, address) {
  const name = ["chart", "finding"].flatMap((kind) =>
    address.get(kind) === null ? [] : [`${kind}=${address.get(kind)}`],
  )[0];
  if (name === root.dataset.named) return; // something else of the URL changed
  root.dataset.named = name ?? "";
  const node = name && root.querySelector(`[id="${CSS.escape(name)}"]`);
  if (!node) return;
  const own = node.matches(".finding") && node.querySelector("details");
  if (own) own.open = true;
  for (
    let fold = node.parentElement?.closest("details");
    fold;
    fold = fold.parentElement?.closest("details")
  )
    fold.open = true;
  node.scrollIntoView({ block: "start" });
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
    found.push({
      keys: ["/"],
      what: message("search"),
      run: () => root.querySelector("input[type=search]").focus(),
    });
  }
  if (!list) return found;
  if (root.querySelector(".step-nav")) {
    found.push({
      keys: ["{"],
      what: message("the same prompt at an earlier step"),
      run: () => list.panel.samePrompt(-1),
    });
    found.push({
      keys: ["}"],
      what: message("the same prompt at a later step"),
      run: () => list.panel.samePrompt(1),
    });
  }
  return [
    ...found,
    { keys: ["j"], what: message("next response"), run: () => list.panel.move(1) },
    { keys: ["k"], what: message("previous response"), run: () => list.panel.move(-1) },
    {
      keys: ["n"],
      what: message("next most extreme token"),
      run: () => list.panel.tokens?.jump(1),
    },
    {
      keys: ["N"],
      what: message("previous most extreme token"),
      run: () => list.panel.tokens?.jump(-1),
    },
    {
      keys: ["w"],
      what: message("most extreme token of the metric"),
      run: () => list.panel.tokens?.worst(),
    },
    { keys: ["t"], what: message("next turn"), run: () => list.panel.conversation?.next(1) },
    { keys: ["T"], what: message("previous turn"), run: () => list.panel.conversation?.next(-1) },
    {
      keys: ["e"],
      what: message("next error of a tool"),
      run: () => list.panel.conversation?.error(1),
    },
    {
      keys: ["E"],
      what: message("previous error of a tool"),
      run: () => list.panel.conversation?.error(-1),
    },
    {
      keys: ["b"],
      what: message("next branch of the rollout"),
      run: () => list.panel.nextBranch(),
    },
    { keys: ["a"], what: message("last answer"), run: () => list.panel.conversation?.lastAnswer() },
    {
      keys: ["Escape"],
      what: message("close"),
      run: () => !list.panel.node.hidden && list.open(null),
    },
    {
      keys: [],
      shown: "← → ↑ ↓",
      what: message("move between tokens, once one has the focus"),
      run: () => {},
    },
    { keys: [], shown: "↑ ↓", what: message("move between the rows of a list"), run: () => {} },
  ];
}
