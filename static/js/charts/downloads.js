/** What readers take from a chart: a picture with its caption, the caption, data, a specification. */

/** @import { Row, Spec } from "./spec.d.ts" */
/** @import { Format, KeyEntry, Words } from "../shared/pictures.js" */

import { copies } from "../shared/copy.js";
import { el } from "../shared/dom.js";
import { written } from "../shared/format.js";
import {
  download,
  exportPicture,
  failureOf,
  heightOfDrawing,
  pixelsOf,
  WIDTHS,
} from "../shared/pictures.js";
import { message, nodes, plural } from "../shared/words.js";
import { csvOf } from "../list/rows.js";
import { fixedWidth } from "./still.js";

/** @typedef {import("./charts.js").Chart} Chart */

/**
 * @typedef {object} Picture what can be taken as a picture
 * @property {() => string} name of the file, without suffix
 * @property {() => Words} words
 * @property {(words: Words, mm: number) => Promise<string>} draw returns the drawing as SVG
 * @property {() => string} sentence the caption for a paper
 */

/** Least height of a chart in a picture: labels and titles of its axes take half of it. */
const LEAST_HEIGHT = 130;

/** Converts rows, which may have different fields, to CSV. @param {Row[]} rows */
function rowsToCsv(rows) {
  const fields = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  const lines = rows.map((row) => fields.map((field) => row[field]));
  return csvOf(fields, lines);
}

/** Returns a chart's specification with all that it needs elsewhere. @param {Chart} chart */
function wholeSpec(chart) {
  const whole = { ...chart.spec, config: chart.config };
  if (!whole.datasets) whole.data = { values: chart.values() };
  return whole;
}

/** @param {string} name @param {string} text @param {string} type */
function downloadText(name, text, type) {
  download(name, new Blob([text], { type }));
}

/**
 * Returns the controls for a picture: its width, its format, and its caption.
 * @param {Picture} picture
 * @param {() => void} close
 */
export function pictureTools(picture, close) {
  const widths = WIDTHS.map((mm) => el("option", { value: mm }, widthLabel(mm)));
  const select = el("select", { "aria-label": message("Width of the picture") }, ...widths);
  const said = el("p", { class: "note", role: "status" });
  /** @param {Format["kind"]} kind */
  const take = async (kind) => {
    /** @type {Format} */
    const format = { kind, mm: WIDTHS[select.selectedIndex] };
    try {
      const words = picture.words();
      const svg = await picture.draw(words, format.mm);
      await exportPicture(svg, { ...words, name: picture.name(), format });
      if (kind === "copy") said.textContent = message("Copied");
      else close();
    } catch {
      said.textContent = failureOf(format);
    }
  };
  const text = el("button", { type: "button" }, message("Copy figure text"));
  copies(text, picture.sentence);
  return el(
    "div",
    { class: "picture-tools" },
    el("label", {}, ...nodes("Picture {width}", { width: select })),
    el(
      "div",
      { class: "formats" },
      el("button", { type: "button", onclick: () => take("PNG") }, "PNG"),
      el("button", { type: "button", onclick: () => take("SVG") }, "SVG"),
      el("button", { type: "button", onclick: () => take("copy") }, message("Copy image")),
    ),
    said,
    el("div", { class: "formats" }, text),
  );
}

/** @param {number} mm */
function widthLabel(mm) {
  return mm === WIDTHS[0]
    ? message("{mm} mm, one column", { mm })
    : message("{mm} mm, two columns", { mm });
}

/**
 * Returns the controls for the data of a chart.
 * @param {Chart} chart
 * @param {() => void} close
 */
export function dataTools(chart, close) {
  const take = {
    CSV: () => downloadText(`${chart.fileName}.csv`, rowsToCsv(chart.values()), "text/csv"),
    "Vega-Lite": () => {
      const text = JSON.stringify(wholeSpec(chart), null, 1);
      downloadText(`${chart.fileName}.vl.json`, text, "application/json");
    },
  };
  const buttons = Object.entries(take).map(([label, run]) => {
    const onclick = () => {
      close();
      run();
    };
    return el("button", { type: "button", onclick }, label);
  });
  return el("div", { class: "formats" }, ...buttons);
}

/** Returns a chart as a picture. @param {Chart} chart @returns {Picture} */
export function pictureOfChart(chart) {
  return {
    name: () => chart.fileName,
    words: () => wordsOf(chart),
    draw: async (words, mm) => {
      try {
        // The whole picture is twice as wide as it is high, where its texts leave room for that.
        const height = Math.max(LEAST_HEIGHT, heightOfDrawing(words, mm));
        return await chart.drawnAs(pixelsOf(mm), height);
      } catch {
        return fixedWidth(chart.stillDrawing(), pixelsOf(mm));
      }
    },
    sentence: () => sentenceOf(chart),
  };
}

/** @param {Chart} chart @returns {Words} */
function wordsOf(chart) {
  const { quantity, steps, run, smoothing, count } = factsOf(chart);
  const facts = [
    steps,
    count,
    run && message("run {run}", { run }),
    smoothing && message("smoothed"),
    ...chart.marked,
  ];
  const { title } = chart;
  return {
    title: quantity ? message("{title}, {quantity}", { title, quantity }) : title,
    caption: facts.filter(Boolean).map(kept).join("; "),
    key: keyOf(chart.figure),
  };
}

/** Longest fact of a caption that stays on one line. */
const ONE_LINE = 32;

/** Returns a fact of a caption; a short one has no-break spaces. @param {string} fact */
function kept(fact) {
  return fact.length <= ONE_LINE ? fact.replaceAll(" ", "\u00a0") : fact;
}

/** Returns a caption as sentences, ready for a paper. @param {Chart} chart */
function sentenceOf(chart) {
  const { quantity, steps, run, smoothing, count, marks } = factsOf(chart);
  const about = [quantity, steps, count].filter(Boolean).join("; ");
  const names = keyOf(chart.figure).map(({ title }) => title);
  const places = { title: chart.title, about, run };
  return [
    run
      ? message("{title} of the run {run} ({about}).", places)
      : message("{title} ({about}).", places),
    names.length ? message("Curves: {names}.", { names: names.join(", ") }) : "",
    smoothing && message("Noisy curves are smoothed ({how}).", { how: smoothing }),
    marks.length ? message("Vertical lines: {marks}.", { marks: marks.join("; ") }) : "",
  ]
    .filter(Boolean)
    .join(" ");
}

/**
 * Returns what a chart shows, in words.
 * @param {Chart} chart
 */
function factsOf(chart) {
  const [low, high] = (chart.shownSteps ?? []).map((step) => written(step, "count"));
  const { spec } = chart;
  const axis = axisTitle(spec, "y");
  const responses = chart.showsWhole ? chart.hooks.responses : 0;
  return {
    quantity: chart.log ? message("{axis}, logarithmic", { axis }) : axis,
    steps:
      low === undefined
        ? message("against {what}", { what: axisTitle(spec, "x") })
        : message("steps {low}–{high}", { low, high }),
    run: runName(),
    smoothing: chart.smoothingInWords,
    count:
      responses > 0
        ? plural("n = {n} response", "n = {n} responses", responses, {
            n: written(responses, "count"),
          })
        : "",
    marks: marksOf(spec),
  };
}

/** Returns the labels of a chart's rules. @param {Spec} spec */
function marksOf(spec) {
  return (spec.layer ?? [])
    .filter(({ name }) => name === "rule_label" || name === "event_label")
    .flatMap(({ data }) => data?.values ?? [])
    .map((row) => String(row.label ?? row.event ?? ""));
}

/** Returns the name of the run, "" on a page without one. */
export function runName() {
  return document.querySelector("header.site .run")?.textContent?.trim() ?? "";
}

/** @param {Spec} spec @param {"x" | "y"} channel */
function axisTitle(spec, channel) {
  const titled = spec.layer?.find(({ encoding }) => encoding?.[channel]?.title);
  return titled?.encoding[channel]?.title ?? "";
}

/** Returns the key above a chart's plot. @param {Element} figure @returns {KeyEntry[]} */
export function keyOf(figure) {
  return [...figure.querySelectorAll(".key li")].map((entry) => {
    const sample = entry.querySelector("path");
    return {
      title: entry.textContent?.trim() ?? "",
      colour: sample?.getAttribute("stroke") ?? "",
      dash: sample?.getAttribute("stroke-dasharray") ?? "",
    };
  });
}
