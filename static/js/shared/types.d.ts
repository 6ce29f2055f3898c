/** Types that scripts share: the data of pages under the names that scripts use for them. */

import type { ColumnData, RowsData, RunData } from "./page-data.d.ts";

export type {
  BadgeData as Badge,
  ColumnData,
  FilmCurveData as FilmCurve,
  FilmRowData as FilmRow,
  FilmRuleData as FilmRule,
  FilmStripData as FilmStrip,
  PromptsData,
  MetricData as Metric,
  PromptMapData,
  PresetData as Preset,
  RowsData,
  RunData,
  RunListData,
  SideMapData,
  SideData as Side,
  SidesData as Compared,
  StepTextsData as StepTexts,
  PromptTokens,
  TokensHeader,
  TurnData as Turn,
} from "./page-data.d.ts";

/** How a number is written: with three significant digits, as a count, or as a percentage. */
export type Kind = ColumnData["written"];

/** Start and end of a range of tokens. */
export type Span = [number, number];

/** What a list needs: of the rows of a step, or of those of the run. */
export type ListData = Pick<
  RowsData,
  "n" | "columns" | "values" | "strings" | "texts" | "filters" | "prefixes"
>;

/** What the response panel reads: a step's rows, or its texts with figures from the run's list. */
export type PanelData = Omit<RowsData, "run">;

/** Colours by the names of their design tokens, padding of charts, places of axes' titles. */
export interface Look {
  colours: Record<string, string>;
  padding: { left: number; top: number; bottom: number };
  titles: { x: number; y: number };
}

declare global {
  var rlreportSteps: RunData | null | undefined;
  var rlreportTexts: Record<string, string> | undefined;
  var rlreportTokens: Record<string, string> | undefined;
  var rlreportTerms: string | undefined;
}
