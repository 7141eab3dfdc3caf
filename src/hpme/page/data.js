/**
 * The report's numbers. Columns of nodes, edges and steps lie end to end, graph after graph.
 *
 * @typedef {{type: "u8" | "u16" | "u32" | "f32", data: string, low?: number, high?: number}} Column
 * @typedef {{name: string, baseline: boolean, rank: ArrayLike<number>, score?: ArrayLike<number>,
 *   pooled?: ArrayLike<number> | null, rest?: ArrayLike<number> | null, direction?: ArrayLike<number> | null,
 *   verdicts?: (string | null)[] | null, sentences?: (string | null)[] | null, points?: Float32Array[] | null,
 *   alone: Float32Array, without: Float32Array, broken?: number, metrics: Record<string, Float32Array>,
 *   evidence: string | null, warnings: string[], good: boolean | null}} Explainer
 */

const ARRAYS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array, f32: Float32Array };
const NOT_A_NUMBER = 65535;

/** @param {Column} column */
function decode({ type, data, low, high }) {
  const letters = atob(data);
  const bytes = new Uint8Array(letters.length);  // plain loops: there are millions of letters
  for (let i = 0; i < letters.length; i++) bytes[i] = letters.charCodeAt(i);
  const values = new ARRAYS[type](bytes.buffer);
  if (low === undefined || high === undefined) return values;
  const unit = (high - low) / (NOT_A_NUMBER - 1);
  const result = new Float32Array(values.length);
  for (let i = 0; i < values.length; i++) result[i] = values[i] === NOT_A_NUMBER ? NaN : low + values[i] * unit;
  return result;
}

/** @param {Record<string, Column>} columns */
function decodeAll(columns) {
  return Object.fromEntries(Object.entries(columns).map(([name, c]) => [name, decode(c)]));
}

/** @param {any} raw @returns {Explainer} */
function decodeExplainer(raw) {
  return {
    ...raw,
    rank: decode(raw.rank),
    score: raw.score && decode(raw.score),
    range: raw.score && { low: raw.score.low, high: raw.score.high },
    pooled: raw.pooled && decode(raw.pooled),
    rest: raw.rest && decode(raw.rest),
    direction: raw.direction && decode(raw.direction),
    points: raw.points && raw.points.map(decode),
    verdicts: raw.verdicts ?? null,
    sentences: raw.sentences ?? null,
    alone: decode(raw.alone),
    without: decode(raw.without),
    metrics: decodeAll(raw.metrics ?? {}),
  };
}

/** Start of every block when blocks of the given lengths are laid end to end. */
function starts(counts) {
  const result = new Uint32Array(counts.length + 1);
  for (let i = 0; i < counts.length; i++) result[i + 1] = result[i] + counts[i];
  return result;
}

/** Position of the largest value. */
function argmax(values) {
  let best = 0;
  for (let i = 1; i < values.length; i++) if (values[i] > values[best]) best = i;
  return best;
}

/** What is needed to draw graphs: those of the page, or others. */
function decodeDrawn(given) {
  const drawn = {
    nodes: decode(given.nodes),
    edges: decode(given.edges),
    ends: decode(given.ends),
    places: decode(given.places),
    label: decode(given.label),
    labels: given.labels,
    bond: decode(given.bond),
    molecule: decode(given.molecule),
    type: given.type ? decode(given.type) : null,
  };
  return { ...drawn, nodeStart: starts(drawn.nodes), edgeStart: starts(drawn.edges) };
}

const raw = JSON.parse(document.getElementById("data").textContent);
const report = {
  ...raw,
  count: raw.names.length,
  width: raw.classes ? raw.classes.length : 1,
  ...decodeDrawn(raw),
  drawn: raw.insight?.drawn ? decodeDrawn(raw.insight.drawn) : null,
  truth: raw.truth && decodeAll(raw.truth),
  stepCounts: decode(raw.stepCounts),
  steps: decode(raw.steps),
  prediction: decode(raw.prediction),
  y: raw.y && decode(raw.y),
  metrics: decodeAll(raw.metrics),
  explainers: raw.explainers.map(decodeExplainer),
};
report.atoms = raw.unit === "atom";
report.units = report.atoms ? report.nodes : report.edges;
report.stepStart = starts(report.stepCounts);
report.shown = report.explainers.filter((explainer) => !explainer.baseline);
report.baseline = report.explainers.find((explainer) => explainer.baseline);
report.predicted = Array.from({ length: report.count }, (_, g) => argmax(predictionOf(g)));

/** Class probabilities of a graph, or its value. */
function predictionOf(graph) {
  return report.prediction.subarray(graph * report.width, (graph + 1) * report.width);
}

/** What the model predicts on a part of a graph: `column` is an explainer's alone or without. */
function partOf(column, graph, step) {
  const row = report.stepStart[graph] + step;
  return column.subarray(row * report.width, (row + 1) * report.width);
}

/** Words for nodes, edges and what scores are about: chemists say atoms and bonds. */
const WORDS = report.molecules
  ? { graph: "molecule", node: "atom", edge: "bond", unit: report.atoms ? "atom" : "bond" }
  : { graph: "graph", node: "node", edge: "edge", unit: "edge" };

/** Number of atoms or edges kept at a step of a graph's slider. */
function keptAt(graph, step) {
  return report.steps[report.stepStart[graph] + step];
}

/** The step nearest to a share of a graph's atoms or edges; at least one if the share is above 0. */
function stepNear(graph, share) {
  const wanted = share > 0 ? Math.max(1, share * report.units[graph]) : 0;
  let best = 0;
  for (let step = 1; step < report.stepCounts[graph]; step++) {
    const gap = Math.abs(keptAt(graph, step) - wanted);
    if (gap < Math.abs(keptAt(graph, best) - wanted)) best = step;
  }
  return best;
}

/** The number a part is judged by: the probability of the class predicted on the whole, or the value. */
function judged(graph, values) {
  return values[report.classes ? report.predicted[graph] : 0];
}

/** How far a part's prediction is from the whole's: lost probability, or absolute difference. */
function change(graph, values) {
  const difference = judged(graph, predictionOf(graph)) - judged(graph, values);
  return report.classes ? difference : Math.abs(difference);
}

/** Whether a part has the prediction of the whole; null if the model gave no number. */
function samePrediction(graph, values) {
  return Number.isNaN(values[0]) ? null : argmax(values) === report.predicted[graph];
}
