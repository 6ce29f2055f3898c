/** Reloads the page when `rlreport watch --live` has written a newer report. */

import { el } from "../shared/dom.js";

const LEFT = "rlreport-left";

/** Restores the scroll position after a reload, and starts to look for newer reports. */
export function stayFresh() {
  const run = globalThis.rlreportSteps;
  const script = /** @type {HTMLScriptElement | null} */ (
    document.querySelector('script[src*="data/run.js"]')
  );
  if (!run?.live || !script) return;
  comeBack();
  const { live, built } = run;
  const look = () => {
    // Pages of `file://` may load scripts only. A new address avoids the cache.
    const again = el("script", { src: `${script.src.split("?")[0]}?${Date.now()}` });
    again.addEventListener("load", () => {
      again.remove();
      if (globalThis.rlreportSteps?.built !== built) leave();
    });
    again.addEventListener("error", () => again.remove());
    document.head.append(again);
  };
  setInterval(() => {
    const isTyping = document.activeElement?.matches("input, select, textarea");
    if (!document.hidden && !isTyping) look();
  }, live * 1000);
}

/** Reloads; the scroll position is stored, while the URL holds sort, filters and open response. */
function leave() {
  try {
    sessionStorage.setItem(LEFT, JSON.stringify([location.href, scrollX, scrollY]));
  } catch {
    // Without storage, the browser may restore the scroll position by itself.
  }
  location.reload();
}

function comeBack() {
  try {
    const [href, x, y] = JSON.parse(sessionStorage.getItem(LEFT) ?? "[]");
    sessionStorage.removeItem(LEFT);
    if (href === location.href) requestAnimationFrame(() => scrollTo(x, y));
  } catch {
    // See above.
  }
}
