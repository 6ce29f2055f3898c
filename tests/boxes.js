// Evaluates to a function that returns a line for each fault of the boxes of a page's texts.
() => {
  const MARGIN = 1.5; // boxes end at fractions of a pixel
  const CORE = 0.25; // at the top and bottom of a line there is room without ink
  const MOST = 12; // faults that are named
  const faults = new Set();
  const styles = new Map();
  const styleOf = (node) => {
    if (!styles.has(node)) styles.set(node, getComputedStyle(node));
    return styles.get(node);
  };
  const isSeen = (node) =>
    node.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const words = (node) => `“${node.textContent.trim().replace(/\s+/g, " ").slice(0, 40)}”`;
  const place = (node) => {
    const names = [];
    for (let at = node; at && at !== document.body && names.length < 3; at = at.parentElement) {
      const name = typeof at.className === "string" ? at.className.split(" ")[0] : "";
      const key = at.dataset?.chart ?? at.dataset?.table ?? at.dataset?.key ?? "";
      if (name || key) names.unshift(`${at.localName}.${name}${key && `[${key}]`}`);
    }
    return names.join(" ");
  };
  const describe = (box) => `${words(box.text)} in ${place(box.node)}`;

  // The boxes of lines of text, each cut to what its ancestors show of it
  const boxes = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  while (walker.nextNode()) {
    const text = walker.currentNode;
    const node = text.parentElement;
    if (!text.data.trim() || node.closest("svg, script, style, caption, .sr-only, .skip, select")) continue;
    if (!isSeen(node)) continue;
    range.selectNodeContents(text);
    for (const rect of range.getClientRects()) {
      if (rect.width < 1 || rect.height < 1) continue;
      const box = { text, node, left: rect.left, right: rect.right, top: rect.top, bottom: rect.bottom };
      if (cutToAncestors(box)) boxes.push(box);
    }
  }

  // Cuts a box; notes what is cut without showing it; returns whether anything is left.
  function cutToAncestors(box) {
    let scrollsAside = false;
    let fixed = false;
    for (let at = box.node; at && at !== document.body; at = at.parentElement) {
      const style = styleOf(at);
      if (style.position === "fixed") fixed = true;
      const [x, y] = [style.overflowX, style.overflowY];
      if (x === "visible" && y === "visible") continue;
      const outer = at.getBoundingClientRect();
      const isCutAside = box.right > outer.right + MARGIN || box.left < outer.left - MARGIN;
      const isCutBelow = box.bottom > outer.bottom + MARGIN || box.top < outer.top - MARGIN;
      if (["auto", "scroll"].includes(x)) scrollsAside = true;
      else if (isCutAside && !scrollsAside && style.textOverflow !== "ellipsis")
        faults.add(`cut at its side: ${describe(box)}`);
      const shows =
        style.webkitLineClamp !== "none" ||
        style.maskImage !== "none" ||
        ["auto", "scroll"].includes(y);
      // A clipped line below a clamp is not shown at all, which the ellipsis says.
      if (isCutBelow && !shows && box.top < outer.bottom - MARGIN && !scrolledAlong(at))
        faults.add(`cut at its end: ${describe(box)}`);
      box.left = Math.max(box.left, outer.left);
      box.right = Math.min(box.right, outer.right);
      box.top = Math.max(box.top, outer.top);
      box.bottom = Math.min(box.bottom, outer.bottom);
    }
    const isLeft = box.right - box.left > MARGIN && box.bottom - box.top > MARGIN;
    if (isLeft && !scrollsAside && !fixed && (box.right > innerWidth + MARGIN || box.left < -MARGIN))
      faults.add(`outside of the window: ${describe(box)}`);
    return isLeft;
  }

  function scrolledAlong(node) {
    for (let at = node; at; at = at.parentElement)
      if (["auto", "scroll"].includes(styleOf(at).overflowY)) return true;
    return false;
  }

  // A label of a chart may have a copy below it, drawn as an outline.
  const isOutline = (box, other) =>
    box.text.textContent === other.text.textContent &&
    Math.abs(box.left - other.left) + Math.abs(box.top - other.top) < 6;

  // Two texts lie over each other where the middles of their lines do.
  function compare(all, name) {
    const cores = all.map((box) => {
      const room = (box.bottom - box.top) * CORE;
      return { ...box, top: box.top + room, bottom: box.bottom - room };
    });
    cores.sort((one, other) => one.top - other.top);
    cores.forEach((box, i) => {
      for (let k = i + 1; k < cores.length && cores[k].top < box.bottom - MARGIN; k += 1) {
        const other = cores[k];
        if (other.text === box.text || isOutline(box, other)) continue;
        const over = Math.min(box.right, other.right) - Math.max(box.left, other.left);
        if (over > MARGIN) faults.add(`${name}: ${describe(box)} and ${describe(other)}`);
      }
    });
  }
  compare(boxes, "one over the other");

  for (const svg of document.querySelectorAll("svg")) {
    if (!isSeen(svg)) continue;
    const labels = [];
    for (const text of svg.querySelectorAll("text")) {
      if (!text.textContent.trim() || !isSeen(text)) continue;
      const { left, right, top, bottom } = text.getBoundingClientRect();
      const label = { text, node: svg, left, right, top, bottom };
      if (right - left > 1 && cutToAncestors(label)) labels.push(label);
    }
    compare(labels, "one label over the other");
  }

  const { scrollWidth } = document.documentElement;
  if (scrollWidth > innerWidth) faults.add(`the page is ${scrollWidth} pixels wide`);
  const found = [...faults];
  return found.length > MOST ? [...found.slice(0, MOST), `and ${found.length - MOST} more`] : found;
}
