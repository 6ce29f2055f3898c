/** Makes a page show what its address names: a response, a chart or a finding. */

/** @import { Address } from "../shared/address.js" */
/** @import { ResponseList } from "../list/step-list.js" */
/** @import { Panel } from "../response/panel.js" */

import { titleOf } from "../response/panel.js";

/**
 * Updates the page to the state in the URL.
 * @param {HTMLElement} root
 * @param {ResponseList | null} list
 * @param {Address} address
 */
export function follow(root, list, address) {
  const title = root.dataset.title ?? "";
  if (!list) {
    showNamed(root, address);
    document.title = title;
    return;
  }
  const wanted = address.get("r");
  const i = wanted === null ? -1 : list.view.rowIds.indexOf(wanted);
  if (i !== list.panel.open) change(list, i, address);
  else if (i >= 0) list.panel.show(i);
  else if (wanted !== null) list.panel.showMissing(wanted);
  else if (!list.panel.node.hidden) list.panel.close();
  document.title = i < 0 ? title : `${titleOf(list.panel.data, wanted ?? "")} · ${title}`;
}

/**
 * Opens row i instead of the open one, −1 for none.
 * @param {ResponseList} list
 * @param {number} i
 * @param {Address} address
 */
function change(list, i, address) {
  const { panel, view } = list;
  const before = panel.open;
  const focused = document.activeElement;
  const hasFocus = panel.node.contains(focused) || view.table.contains(focused);
  if (i < 0) {
    panel.close();
    view.select(i);
    if (hasFocus) view.focusRow(list.rows.order.indexOf(before));
    return;
  }
  const shown = panel.show(i);
  if (before < 0) scrollToHead(panel, shown, address);
  view.select(i);
  // On a narrow screen the response takes the place of the list.
  if (!list.section.checkVisibility()) panel.node.focus({ preventScroll: true });
}

/**
 * Scrolls to the head of a newly opened response, unless the URL names a token or turn in it.
 * @param {Panel} panel
 * @param {Promise<void>} shown
 * @param {Address} address
 */
async function scrollToHead(panel, shown, address) {
  // Beside the list the panel scrolls by itself, below it the page does.
  const beside = matchMedia("(min-width: 1100px)").matches;
  const namesPart = ["token", "turn", "quote"].some((name) => address.get(name) !== null);
  if (!beside && namesPart) return;
  const toHead = () => {
    const showsMatch = (panel.conversation?.found ?? -1) >= 0;
    if (beside || !showsMatch) panel.node.scrollIntoView({ block: "start" });
  };
  toHead();
  await shown;
  toHead();
}

/**
 * Scrolls to what the URL names, such as a chart or a finding.
 * @param {HTMLElement} root
 * @param {Address} address
 */
function showNamed(root, address) {
  const id = namedIn(address);
  if (id === (root.dataset.named ?? null)) return; // something else of the URL changed
  if (id === null) delete root.dataset.named;
  else root.dataset.named = id;
  const node = id === null ? null : root.querySelector(`[id="${CSS.escape(id)}"]`);
  if (!node) return;
  const own = node.matches(".finding") ? node.querySelector("details") : null;
  if (own) own.open = true;
  openFoldsAround(node);
  node.scrollIntoView({ block: "start" });
}

/**
 * Returns the id of what the URL names, such as a chart or a finding, null for none.
 * @param {Address} address
 */
function namedIn(address) {
  for (const kind of ["chart", "finding", "term", "part"]) {
    const name = address.get(kind);
    if (name !== null) return `${kind}=${name}`;
  }
  return null;
}

/** @param {Element} node */
function openFoldsAround(node) {
  let fold = node.parentElement?.closest("details");
  while (fold) {
    fold.open = true;
    fold = fold.parentElement?.closest("details");
  }
}
