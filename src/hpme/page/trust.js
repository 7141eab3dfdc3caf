/** Of every graph and step: whether the prediction stays (1 or 0), or how far it moves; or NaN. */
function judgements(column) {
  const result = new Float32Array(report.steps.length);
  for (let graph = 0; graph < report.count; graph++) {
    for (let step = 0; step < report.stepCounts[graph]; step++) {
      const values = partOf(column, graph, step);
      const found = report.classes ? samePrediction(graph, values) : change(graph, values);
      result[report.stepStart[graph] + step] = found === null ? NaN : Number(found);
    }
  }
  return result;
}

/** Mean judgement over some graphs at the chosen steps. */
function overall(judged, steps, graphs) {
  let [total, defined] = [0, 0];
  for (const graph of graphs) {
    const value = judged[report.stepStart[graph] + steps[graph]];
    if (Number.isNaN(value)) continue;
    total += value;
    defined += 1;
  }
  return defined ? total / defined : NaN;
}

function judgedParts(explainer) {
  return { alone: judgements(explainer.alone), without: judgements(explainer.without) };
}

const overallText = (value) => (report.classes ? percent(value, 0) : decimal(value));

/** One card per explainer; returns what fills in the numbers. */
function buildVerdicts(container) {
  const cards = report.shown.map((explainer) => {
    const [alone, without] = [el("strong"), el("strong")];
    const [randomAlone, randomWithout] = [el("span"), el("span")];
    container.append(el("article", { class: "verdict", "data-explainer": explainer.name },
      el("header", {}, el("h3", {}, explainer.name), badge(explainer)),
      el("div", { class: "numbers" },
        statistic(alone, report.classes ? "same prediction from these edges alone" : "mean change with these edges alone", randomAlone),
        statistic(without, report.classes ? "same prediction without them" : "mean change without them", randomWithout)),
      ...explainer.warnings.map((warning) => el("p", { class: "warning" }, `Warning: ${warning}.`.replace("..", "."))),
      explainer.broken ? el("p", { class: "warning" }, `${counted(explainer.broken, "edge")} without a usable score; they come last.`) : null,
      aucLine(explainer),
      evidence(explainer)));
    return { judged: judgedParts(explainer), alone, without, randomAlone, randomWithout };
  });
  const random = judgedParts(report.baseline);
  return (steps, graphs) => {
    const text = (judged) => overallText(overall(judged, steps, graphs));
    for (const card of cards) {
      card.alone.textContent = text(card.judged.alone);
      card.without.textContent = text(card.judged.without);
      card.randomAlone.textContent = `random edges ${text(random.alone)}`;
      card.randomWithout.textContent = `random edges ${text(random.without)}`;
    }
  };
}

function statistic(number, text, random) {
  random.className = "muted";
  return el("div", {}, number, el("span", {}, text), random);
}

function badge(explainer) {
  if (explainer.good === null) return el("span", { class: "badge" }, "no self-check");
  return explainer.good
    ? el("span", { class: "badge good" }, "good evidence")
    : el("span", { class: "badge care" }, "trust with care");
}

function aucLine(explainer) {
  const defined = Array.from(explainer.metrics.AUC ?? []).filter(Number.isFinite);
  if (!defined.length) return null;
  const mean = defined.reduce((a, b) => a + b, 0) / defined.length;
  return el("p", { class: "muted" }, `Against the ground truth of ${counted(defined.length, "graph")}: mean AUC ${mean.toFixed(3)} (0.5 is chance, 1 perfect).`);
}

function evidence(explainer) {
  if (explainer.evidence === null) return el("p", { class: "muted" }, "This explainer does not check its own fit.");
  return el("details", {},
    el("summary", {}, "What the explainer found out about itself"),
    el("p", {}, explainer.evidence));
}

/** Explains the page in plain words. */
function buildHelp(container) {
  const what = report.classes
    ? "the probability of the class the model predicts on the whole graph"
    : "the value the model predicts";
  const note = report.classes
    ? " A class the model predicts for almost any graph stays, whatever is deleted: choose another prediction above the list, and the numbers on top are about those graphs alone."
    : "";
  const paragraphs = [
    "An explainer gives every edge a score: how much the model’s prediction rests on it. The slider of a graph keeps the edges with the highest scores; the two directions between two nodes count as one edge, with their mean score.",
    `“These edges alone”: all other edges are deleted and the model is asked again. “Without them”: the kept edges are deleted instead. Both numbers are ${what}, computed by the model itself. No node is ever removed, self-loops stay.`,
    "A good explanation keeps the prediction alone, and the prediction changes without it. Deleting edges also makes graphs that the model has never seen, so compare with random edges: an explainer that does no better says little." + note,
    "A verdict says what a prediction rests on, by transplants between graphs: “carried by the marked nodes” if they take most of the way to it along into other graphs, more than random nodes do; “in part” if they clearly contribute; “something missing” if nothing in the graph does; “unclear” if little and much are both possible, or if the explainer found no evidence for such regions.",
    "Colours: a kept edge is blue, the darker (on a dark page, the lighter) the higher its score among all graphs of that explainer. Edges with the same score are ordered at random.",
    "Keys: / search, j and k next and previous graph, ← and → fewer and more edges of the graph in focus, n and p next and previous page, g ground truth, ? this help.",
  ];
  container.append(...paragraphs.map((text) => el("p", {}, text)));
}
