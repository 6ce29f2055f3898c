/**
 * The JSON in pages, as docs/page-data.md explains it. Made by `python -m tools.page_types`;
 * change rlreport/pages/page_data.py, not this file.
 */

/** The rewards above a film strip. */
export interface FilmCurveData {
  low: number;
  high: number;
  means: [number, number][];
  dots: [number, number][];
  reach: number;
  words: string;
}

/** A vertical rule through the rewards above a film strip. */
export interface FilmRuleData {
  step: number;
  words: string;
  colour: string;
  dashed: boolean;
}

/** A film strip, drawn by `rlreport/draw/film_strip.py` and `prompts/film-strip.js`. */
export interface FilmStripData {
  title: string;
  caption: string;
  ends: [string, string] | null;
  curve: FilmCurveData | null;
  rules: FilmRuleData[];
  rows: FilmRowData[];
}

/** An answer of a film strip; `name` is what a screen reader says of its link. */
export interface FilmRowData {
  name: string;
  head: string;
  about: string[];
  above: string;
  pieces: string[][];
  bins: number[][];
  cited: [number, number] | null;
  step: number;
  reward: number | null;
  href: string | null;
}

/** A column of a list. */
export interface ColumnData {
  key: string;
  label: string;
  unit: string;
  kind: string;
  help: string;
  hidden: boolean;
  written: "number" | "count" | "share";
  group: string;
  term: string;
  bad_end: "" | "low" | "high";
  width: string;
}

/** A filter and a sort of a list, which one button applies. */
export interface PresetData {
  key: string;
  label: string;
  help: string;
  sort: string;
  ranges?: Record<string, [number | null, number | null]>;
  words?: Record<string, string>;
}

/** A finding that cites a response. */
export interface BadgeData {
  id: string;
  severity: string;
  name: string;
  title: string;
  token: number | null;
}

/** A token figure that a page offers. */
export interface MetricData {
  key: string;
  label: string;
  unit: string;
  signed: boolean;
  help: string;
}

/** A turn of a conversation, after the prompt. */
export interface TurnData {
  role: string;
  text: string;
  sampled?: boolean;
  tokens?: [number, number];
  thinking?: string;
  calls?: [string, string][];
  tool?: string;
  error?: string;
  seconds?: number;
  reward?: number;
}

/** The conversations of responses, each by the response's n. */
export interface ConversationData {
  conversation?: Record<string, TurnData[]>;
  errors?: Record<string, string[]>;
}

/** How responses were graded, each by the response's n. */
export interface GradingData {
  judged?: Record<string, [string, string][]>;
  answers?: Record<string, [string, number | null]>;
}

/** The groups of a step's responses. */
export interface GroupData {
  groups?: number[][];
  siblings?: Record<string, (number | null)[]>;
  right?: (number | null)[];
}

/** The branches of a step's rollouts. */
export interface BranchData {
  branches?: number[][];
}

/** Names of what the response panel shows, where it is not a response and its reference. */
export interface TitlesData {
  row: string;
  response?: string;
  ref_response?: string;
  other?: string;
}

/** The responses of one run to the prompts of a comparison. */
export interface SideData {
  key: string;
  name: string;
  values: Record<string, (number | null)[]>;
  answers: Record<string, string>;
}

/** What the panel of a comparison shows of both responses to each prompt. */
export interface SidesData {
  columns: ColumnData[];
  sides: SideData[];
  tokens: number[];
}

/** Responses as the response panel shows them, with their conversations, groups and branches. */
export interface PanelData {
  step: string;
  total: number;
  n: number[];
  texts: Record<string, (string | null)[]>;
  turns: Record<string, [string, string][]>;
  where: string[];
  badges: Record<string, BadgeData[]>;
  highlights: string[];
  conversation?: Record<string, TurnData[]>;
  errors?: Record<string, string[]>;
  judged?: Record<string, [string, string][]>;
  answers?: Record<string, [string, number | null]>;
  groups?: number[][];
  siblings?: Record<string, (number | null)[]>;
  right?: (number | null)[];
  branches?: number[][];
}

/** The part of a step's rows that the responses page loads, too: `data/texts.js`. */
export interface StepTextsData {
  step: string;
  total: number;
  n: number[];
  texts: Record<string, (string | null)[]>;
  turns: Record<string, [string, string][]>;
  where: string[];
  badges: Record<string, BadgeData[]>;
  highlights: string[];
  conversation?: Record<string, TurnData[]>;
  errors?: Record<string, string[]>;
  judged?: Record<string, [string, string][]>;
  answers?: Record<string, [string, number | null]>;
  groups?: number[][];
  siblings?: Record<string, (number | null)[]>;
  right?: (number | null)[];
  branches?: number[][];
  prompts: number[];
}

/** The rows of a step's page, or of a comparison: `script.rows-data`. */
export interface RowsData {
  step: string;
  total: number;
  n: number[];
  texts: Record<string, (string | null)[]>;
  turns: Record<string, [string, string][]>;
  where: string[];
  badges: Record<string, BadgeData[]>;
  highlights: string[];
  conversation?: Record<string, TurnData[]>;
  errors?: Record<string, string[]>;
  judged?: Record<string, [string, string][]>;
  answers?: Record<string, [string, number | null]>;
  groups?: number[][];
  siblings?: Record<string, (number | null)[]>;
  right?: (number | null)[];
  branches?: number[][];
  run: string;
  columns: ColumnData[];
  values: Record<string, (number | null)[]>;
  strings: Record<string, (string | null)[]>;
  ranks: Record<string, (number | null)[]>;
  prompts?: number[];
  prefixes?: Record<string, string[]>;
  filters?: Record<string, string>;
  presets?: PresetData[];
  advantage?: "logged";
  titles?: TitlesData;
  compared?: SidesData;
}

/** The rows of the responses page: `script.list-data`. */
export interface RunListData {
  run: string;
  total: number;
  n: number[];
  columns: ColumnData[];
  values: Record<string, (number | null)[]>;
  strings: Record<string, (string | null)[]>;
  texts: Record<string, (string | null)[]>;
  filters?: Record<string, string>;
  presets?: PresetData[];
  address: string;
  prompt: string;
}

/** The shown responses to each prompt: `script.prompts-data`. */
export interface PromptsData {
  run: string;
  prompts: number[];
  sizes: number[];
  step: number[];
  n: number[];
  reward: (number | null)[];
  length: (number | null)[];
  lengthLabel: string;
  ratioHelp: string;
  ratioUnit: string;
  which: number[];
  cited: Record<string, [string, number | null]>;
  points: number[];
  at: number[];
  mean: (number | null)[];
  low: number;
  high: number;
  reach: number;
  twoRewards: boolean;
  rules: FilmRuleData[];
  address: string;
  all: string;
  redacted: boolean;
}

/** What pages of steps say about the whole run: `data/run.js`. */
export interface RunData {
  steps: number[];
  tokens: number[];
  rewards: (number | null)[];
  prompts: Record<string, number[]>;
  href: string;
  prompt: string;
  overpaid?: [number, number | null];
  live?: number;
  built?: string;
}

/** The tokens of a prompt, which responses share. */
export interface PromptTokens {
  n: number[];
  count: number;
  ids: number[];
}

/** The header of a step's token values: `data/tokens/STEP.js`. */
export interface TokensHeader {
  digits: number;
  metrics: MetricData[];
  nan?: string[];
  given?: Record<string, [number, number][]>;
  n: number[];
  lengths: number[];
  text: string[];
  raw: (string | null)[];
  columns: string[];
  prompts?: PromptTokens[];
}

/** The rows of a chart, as columns: `data` of the specification in `script.spec`. */
export interface ChartRows {
  columns: Record<string, any[]>;
}

/** The cells of the map of prompts × steps, row by row: `script.map-data`. */
export interface PromptMapData {
  prompts: number[];
  names: string[];
  linked: number[];
  low: number[];
  high: number[];
  count: number[];
  value: (number | null)[];
  measure: string;
  training: number;
  gap: number;
  row: number;
  address: string;
}

/** The columns of the map of prompts × sides: `script.side-map-data`. */
export interface SideMapData {
  prompts: number[];
  names: string[];
  rows: number[];
  base: (number | null)[];
  new: (number | null)[];
  change: string[];
  words: Record<string, string>;
  sides: string[];
}

/** A metric of the runs of an index; its lists have a value for each row of the list. */
export interface IndexMetricData {
  key: string;
  label: string;
  headers: string[];
  unit: string;
  written: "number" | "count" | "share";
  first: (number | null)[];
  best: (number | null)[];
  last: (number | null)[];
  percentages: boolean[];
  paths: string[];
}
