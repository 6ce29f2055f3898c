/** A page that is still written about (`--live`): it looks for a newer report and shows it. */

import { el } from "../shared/dom.js";

const LEFT = "rlreport-left";

/** Comes back to where the reader was, and looks for a newer report from now on. */
export function stayFresh() {
  const run = /** @type {any} */ (globalThis).rlreportSteps;
  const script = /** @type {HTMLScriptElement | null} */ (document.querySelector('script[src*="data/run.js"]'));
  if (!run?.live || !script) return;
  comeBack();
  const { live, built } = run;
  const look = () => {
    // A script is all that a page of `file://` may load. Its address is new, so that it is read again.
    const again = el("script", { src: `${script.src.split("?")[0]}?${Date.now()}` });
    again.addEventListener("load", () => {
      again.remove();
      if (/** @type {any} */ (globalThis).rlreportSteps.built !== built) leave();
    });
    again.addEventListener("error", () => again.remove());
    document.head.append(again);
  };
  // Nobody reads a hidden page, and one who types is not interrupted.
  setInterval(() => document.hidden || document.activeElement?.matches("input, select, textarea") || look(), live * 1000);
}

/** Sort, filters and the open response are in the address; the place on the page is kept here. */
function leave() {
  try {
    sessionStorage.setItem(LEFT, JSON.stringify([location.href, scrollX, scrollY]));
  } catch {
    // Without storage the browser's own memory of the place has to do.
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
