const CHART_WIDTH = 300;
const CHART_HEIGHT = 64;

/** Predictions on the parts of a graph at all steps of its slider, and a marker of the chosen one. */
function drawChart(graph, explainer) {
  const count = report.stepCounts[graph];
  const series = ["alone", "without"].map((name) => (
    Array.from({ length: count }, (_, step) => judged(graph, partOf(explainer[name], graph, step)))
  ));
  const whole = judged(graph, predictionOf(graph));
  const [low, high] = bounds(series.flat(), whole);
  const atX = (step) => (count > 1 ? (step / (count - 1)) * CHART_WIDTH : CHART_WIDTH / 2);
  const atY = (value) => 3 + (1 - (value - low) / (high - low)) * (CHART_HEIGHT - 6);
  const marker = svg("line", { class: "marker", y1: 0, y2: CHART_HEIGHT });
  const level = svg("line", { class: "level", x1: 0, x2: CHART_WIDTH, y1: atY(whole), y2: atY(whole) });
  const element = svg("svg", {
    class: "chart", viewBox: `0 0 ${CHART_WIDTH} ${CHART_HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true",
  }, level, marker, curve(series[1], atX, atY, "without"), curve(series[0], atX, atY, "alone"));
  const axis = report.classes ? ["100 %", "0 %"] : [decimal(high), decimal(low)];
  const figure = el("div", { class: "chart-frame" },
    el("div", { class: "axis" }, el("span", {}, axis[0]), el("span", {}, axis[1])),
    element,
    el("div", { class: "ticks" }, el("span", {}, "0"), el("span", {}, counted(report.units[graph], WORDS.unit))));
  return {
    element: figure,
    update(step) {
      marker.setAttribute("x1", atX(step));
      marker.setAttribute("x2", atX(step));
    },
  };
}

/** Probabilities have the range of all; values that of the graph. */
function bounds(values, whole) {
  if (report.classes) return [0, 1];
  const finite = [...values, whole].filter(Number.isFinite);
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  return high > low ? [low, high] : [low - 1, high + 1];
}

function curve(values, atX, atY, name) {
  const points = values.flatMap((value, step) => (Number.isFinite(value) ? [`${atX(step).toFixed(1)},${atY(value).toFixed(1)}`] : []));
  return svg("polyline", { class: `curve ${name}`, points: points.join(" ") });
}
