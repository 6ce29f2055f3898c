/** Presets of a list: a filter and a sort that one button applies, and takes away again. */

/** @import { Preset, RunData } from "../shared/types.d.ts" */
/** @import { Range, Rows } from "./rows.js" */
/** @import { Shown } from "./text-parts.js" */

import { allOf, formatSort, parseSort } from "./rows.js";
import { BOTH_ENDS } from "./text-parts.js";

/** Key of the preset whose responses were stopped by a limit. */
const CUT_OFF = "cut_off";

/** @param {[number | null, number | null]} ends @returns {Range} */
function rangeOf([low, high]) {
  return [low ?? -Infinity, high ?? Infinity];
}

/**
 * Returns whether the filter of a preset is in force; readers may sort its rows otherwise.
 * @param {Preset} preset
 * @param {Rows} rows
 */
export function isPressed({ ranges = {}, words = {} }, rows) {
  const hasRanges = Object.entries(ranges).every(([key, ends]) => {
    const [low, high] = rangeOf(ends);
    const [currentLow, currentHigh] = rows.ranges.get(key) ?? [NaN, NaN];
    return low === currentLow && high === currentHigh;
  });
  return (
    hasRanges &&
    Object.entries(words).every(([key, value]) => rows.words.get(key) === rows.asWords(key, value))
  );
}

/** Returns the columns that a preset filters. @param {Preset | undefined} preset */
export function columnsOf(preset) {
  return new Set(Object.keys({ ...preset?.ranges, ...preset?.words }));
}

/**
 * Applies a preset instead of the pressed one, or takes it away if it is that.
 * @param {Preset} preset
 * @param {Preset[]} presets
 * @param {Rows} rows
 */
export function press(preset, presets, rows) {
  const pressed = presets.find((one) => isPressed(one, rows));
  if (pressed) remove(pressed, rows);
  if (pressed !== preset) {
    for (const [key, ends] of Object.entries(preset.ranges ?? {}))
      rows.ranges.set(key, rangeOf(ends));
    for (const [key, value] of Object.entries(preset.words ?? {}))
      rows.words.set(key, rows.asWords(key, value));
    rows.setSort(parseSort(preset.sort));
  }
  rows.update();
}

/** @param {Preset} preset @param {Rows} rows */
function remove(preset, rows) {
  for (const key of columnsOf(preset)) {
    rows.ranges.delete(key);
    rows.words.delete(key);
  }
  if (formatSort(rows.sort) === preset.sort) rows.setSort([]);
}

/**
 * Returns a test whether a row passes a preset's filter.
 * @param {Preset} preset
 * @param {Rows} rows
 * @returns {(i: number) => boolean}
 */
function testOf({ ranges = {}, words = {} }, rows) {
  const tests = [
    ...Object.entries(ranges).map(([key, ends]) => rows.rangeTest(key, rangeOf(ends))),
    ...Object.entries(words).map(([key, value]) => rows.wordTest(key, rows.asWords(key, value))),
  ];
  return allOf(tests);
}

/**
 * Returns how many rows each preset would list, given the search and the reader's own filters.
 * @param {Preset[]} presets
 * @param {Rows} rows
 */
export function countsOf(presets, rows) {
  const pressed = presets.find((one) => isPressed(one, rows));
  const others = pressed ? rows.passing(columnsOf(pressed)) : rows.order;
  return presets.map((preset) => {
    const passes = testOf(preset, rows);
    let count = 0;
    for (const i of others) if (passes(i)) count += 1;
    return count;
  });
}

/**
 * Returns a test whether a row's response was cut off, by the preset that lists these.
 * @param {Preset[]} presets
 * @param {Rows} rows
 * @returns {(i: number) => boolean}
 */
export function cutOffTest(presets, rows) {
  const preset = presets.find(({ key }) => key === CUT_OFF);
  return preset ? testOf(preset, rows) : () => false;
}

/**
 * Returns what lists show of responses: both ends of those that were cut off.
 * @param {Preset[]} presets
 * @param {Rows} rows
 * @returns {(column: {key: string}, i: number) => Shown | null}
 */
export function endsOfCutOff(presets, rows) {
  const isCut = cutOffTest(presets, rows);
  return ({ key }, i) => (key === "response" && isCut(i) ? BOTH_ENDS : null);
}

/**
 * Returns whether high rewards of a step are not earned, by the run's leading finding.
 * @param {string} step
 * @param {Pick<RunData, "overpaid"> | null} run
 */
export function isOverpaid(step, run) {
  const [first, last] = run?.overpaid ?? [Infinity, null];
  return Number(step) >= first && Number(step) <= (last ?? Infinity);
}

/**
 * Returns the presets of a step without its lowest rewards, if these are no bad responses.
 * @param {Preset[]} presets
 * @param {boolean} overpaid
 */
export function trustworthy(presets, overpaid) {
  return presets.filter(({ key, ranges }) => !(overpaid && key === "worst" && ranges));
}
