/** The parts of Vega-Lite's specifications and of Vega's views that the scripts touch. */

export type Range = [number, number];

/** A row of a chart's data: its values by field. */
export interface Row {
  n?: number;
  step?: number;
  series?: string;
  value?: number | null;
  low?: number | null;
  high?: number | null;
  /** False for a response that a filter leaves out. */
  kept?: boolean;
  [field: string]: unknown;
}

export interface Scale {
  type?: string;
  domain?: Range;
  zero?: boolean;
  nice?: boolean;
}

/** How a layer encodes a field, or a value, as a place, a colour or a text. */
export interface Channel {
  field?: string;
  type?: string;
  value?: string;
  title?: string;
  axis?: object | null;
  scale?: Scale | null;
  format?: string;
}

/** A channel with an axis. */
export interface Axis extends Channel {
  field: string;
  title: string;
  axis: object;
  scale: Scale;
}

export interface Mark {
  type: string;
  clip?: boolean;
  [property: string]: unknown;
}

export interface Layer {
  name?: string;
  mark: Mark;
  encoding: Record<string, Channel | Channel[]> & { x?: Channel; y?: Channel };
  data?: { name?: string; values: Row[] };
  transform?: object[];
}

export interface Parameter {
  name: string;
  value?: unknown;
  /** Choices of the parameter's value, and their names. */
  bind?: { options: (number | "auto")[]; labels: string[] };
  select?: object;
  views?: string[];
}

export interface Spec {
  config?: object;
  data?: { name?: string; values?: Row[]; columns?: Record<string, unknown[]> };
  datasets?: Record<string, Row[]>;
  width?: number;
  height?: number;
  padding?: { left?: number; right?: number; top?: number; bottom?: number };
  autosize?: { type?: string; contains?: string };
  params?: Parameter[];
  mark?: Mark;
  layer?: Layer[];
}

/** A specification as charts of the report have it: layers over one list of rows. */
export interface LayeredSpec extends Spec {
  data: { values: Row[] };
  height: number;
  params: Parameter[];
  layer: Layer[];
}

/** What the pointer is over: a mark, whose datum is a row, or a row in a row. */
export interface Item {
  datum?: Row & { datum?: Row };
}

/** A running chart. */
export interface View {
  signal(name: string): unknown;
  signal(name: string, value: unknown): View;
  data(name: string, rows: object[]): View;
  width(): number;
  width(pixels: number): View;
  scale(name: string): { domain(): number[] };
  addEventListener(name: string, listener: (event: MouseEvent, item?: Item) => void): View;
  addSignalListener(name: string, listener: (name: string, value: unknown) => void): View;
  runAsync(): Promise<View>;
  finalize(): View;
  toCanvas(scale: number): Promise<HTMLCanvasElement>;
  toSVG(): Promise<string>;
}

/** The function of Vega's bundle that draws a chart. */
export type Embed = (place: HTMLElement, spec: Spec, options: object) => Promise<{ view: View }>;

declare global {
  var vegaEmbed: Embed | undefined;
}
