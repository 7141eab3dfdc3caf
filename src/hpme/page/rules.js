const STRIP_WIDTH = 320;
const STRIP_HEIGHT = 84;
/** Width of the columns into which points of nearly the same effect are stacked. */
const COLUMN = 0.025;

/** Points of a strip: those of a column stand one above the other around the middle. */
function swarm(values) {
  const columns = new Map();
  for (const value of values) {
    const column = Math.round(Math.max(-1, Math.min(1, value)) / COLUMN);
    columns.set(column, (columns.get(column) ?? 0) + 1);
  }
  const most = Math.max(...columns.values());
  const gap = Math.min(5, (STRIP_HEIGHT - 24) / most);
  return [...columns].flatMap(([column, count]) => (
    Array.from({ length: count }, (_, i) => ({ effect: column * COLUMN, lift: (i - (count - 1) / 2) * gap }))
  ));
}

/** A point per graph: how much nearer the match brings others to the prediction than random nodes do. */
function effectStrip(rule) {
  const atX = (effect) => (12 + ((effect + 1) / 2) * (STRIP_WIDTH - 24)).toFixed(1);
  const middle = STRIP_HEIGHT / 2 - 6;
  const line = (effect, name) => svg("line", { class: name, x1: atX(effect), x2: atX(effect), y1: 2, y2: 2 * middle - 2 });
  const points = swarm(rule.effects).map(({ effect, lift }) => svg("circle", { cx: atX(effect), cy: (middle + lift).toFixed(1), r: 2.6 }));
  const tick = (effect, text) => svg("text", { x: atX(effect), y: STRIP_HEIGHT - 2, "text-anchor": "middle" }, text);
  const mean = rule.effect === null ? null : line(rule.effect, "mean");
  return svg("svg", { class: "strip", viewBox: `0 0 ${STRIP_WIDTH} ${STRIP_HEIGHT}`, role: "img",
    "aria-label": `effect of rule ${rule.names.join(" AND ")} on ${counted(rule.effects.length, "graph")}, mean ${signedNumber(rule.effect)}` },
  line(0, "zero"), line(1, "level"), line(-1, "level"), svg("g", { class: "points" }, ...points), mean,
  tick(-1, "−1"), tick(0, "as random nodes"), tick(1, "+1"));
}

function signedNumber(value) {
  return value === null ? "unknown" : signed(Math.abs(value).toFixed(2), value);
}

function coverageBar(rule) {
  const right = rule.coverage * (rule.precision ?? 1);
  const bar = el("span", { class: "bar cover" }, el("span", { class: "right" }), el("span", { class: "wrong" }));
  bar.firstChild.style.width = `${100 * right}%`;
  bar.lastChild.style.width = `${100 * (rule.coverage - right)}%`;
  const numbers = rule.precision === null ? "" : ` · precision ${rule.precision.toFixed(2)} · lift ${decimal(Number((rule.lift ?? NaN).toFixed(2)))}`;
  return el("div", { class: "coverage" }, el("p", {}, el("strong", {}, percent(rule.coverage, 0)), ` of graphs${numbers}`), bar);
}

function ruleRow(rule, number) {
  const words = rule.names.flatMap((name, i) => [i ? el("b", {}, " AND ") : el("b", {}, "IF "), el("code", {}, name)]);
  return el("li", { class: "rule" },
    el("div", { class: "condition" },
      el("p", {}, el("span", { class: "number" }, String(number + 1)), ...words),
      el("p", {}, el("span", { class: "chip prediction" }, `→ ${rule.label}`))),
    sketch(report.drawn, rule.graph, rule.nodes, "exemplar", `a graph with ${rule.names.join(" and ")}`),
    el("div", { class: "facts" }, coverageBar(rule),
      effectStrip(rule),
      el("p", { class: "muted" }, el("strong", {}, `effect ${signedNumber(rule.effect)}`), `: put into other graphs, it ${rule.role}`)));
}

/** The rules that say what the model predicts, with what shows them. */
function buildRules(container, book) {
  const graphs = book.unseen_graphs ? `${counted(book.unseen_graphs, "graph")} that were not used to learn them` : "the graphs they were learned from";
  const shown = book.rules.length ? book.rules : book.contributors;
  const rows = shown.map((rule, i) => ruleRow({ ...rule, names: rule.if }, i));
  const last = el("li", { class: "rule otherwise" }, el("p", {}, el("span", { class: "number" }, String(rows.length + 1)), el("b", {}, book.rules.length ? "OTHERWISE " : "ALWAYS "), el("span", { class: "chip prediction" }, `→ ${book.default_label}`)));
  const worth = report.classes
    ? `They agree with the model on ${percent(book.fidelity)} of ${graphs}.`
    : `They explain ${percent(book.fidelity)} of the variance of the values of ${graphs}.`;
  container.append(el("section", { class: "trust", "aria-labelledby": "rules-title" },
    el("h2", { id: "rules-title" }, "What the model has learned"),
    book.note ? el("p", { class: "warning" }, book.note) : null,
    el("p", {}, book.rules.length ? `${counted(book.rules.length, "rule")}; the first that holds decides. ${worth} How its other answers come about they do not say.` : `Each row holds for itself. The last alone: ${worth}`),
    el("ol", { class: "rules" }, ...rows, last),
    el("details", {}, el("summary", {}, "How to read this"), el("div", { class: "prose" },
      el("p", {}, "A graph on the left has what the rule asks for, marked. The bar is the share of all graphs that it decides: blue where the model predicts what the rule says, amber where it does not."),
      el("p", {}, "Every point is a graph. Its match was put into other graphs, which the model predicts differently: +1 means that all of them get the prediction then, 0 that as many random nodes do as much. A rule of high precision without effect tells classes apart, but the model does not read it."),
      el("p", {}, "All numbers are of graphs that the rules were not learned from.")))));
}
