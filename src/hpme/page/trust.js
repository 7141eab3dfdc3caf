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
    if (Number.isNaN(value) || !steps[graph]) continue; // nothing was deleted
    total += value;
    defined += 1;
  }
  return defined ? total / defined : NaN;
}

const overallText = (value) => (report.classes ? percent(value, 0) : decimal(value));

/** What deleting says, a line per explainer; returns what fills in the numbers. */
function buildDeletion(container) {
  const unit = WORDS.unit;
  const cells = (count) => Array.from({ length: count }, () => el("td"));
  const rows = [...report.shown, report.baseline].map((explainer) => {
    const [alone, without] = cells(2);
    const row = el("tr", { class: explainer.baseline ? "muted" : "" }, el("th", { scope: "row" }, explainer.name), alone, without, el("td", {}, aucText(explainer)));
    return { explainer, row, alone, without, judged: null };
  });
  const heads = report.classes
    ? [`same prediction from these ${unit}s alone`, "same prediction without them"]
    : [`mean change with these ${unit}s alone`, "mean change without them"];
  container.append(el("div", { class: "scroll" }, el("table", { class: "deletion" },
    el("thead", {}, el("tr", {}, el("td"), ...heads.map((text) => el("th", { scope: "col" }, text)), el("th", { scope: "col" }, report.truth ? "AUC against ground truth" : ""))),
    el("tbody", {}, ...rows.map(({ row }) => row)))),
  ...report.shown.filter((explainer) => explainer.broken).map((explainer) => (
    el("p", { class: "warning" }, `${explainer.name}: ${counted(explainer.broken, unit)} without a usable score; they come last.`))));
  return (steps, graphs) => {
    for (const one of rows) { // many numbers: judged when first asked for
      one.judged ??= { alone: judgements(one.explainer.alone), without: judgements(one.explainer.without) };
      for (const part of ["alone", "without"]) one[part].textContent = overallText(overall(one.judged[part], steps, graphs));
    }
  };
}

function aucText(explainer) {
  const defined = Array.from(explainer.metrics?.AUC ?? []).filter(Number.isFinite);
  return defined.length ? `${mean(defined).toFixed(3)} (${counted(defined.length, WORDS.graph)})` : "";
}

/** Explains the page in plain words. */
function buildHelp(container) {
  const what = report.classes
    ? "the probability of the class the model predicts on the whole graph"
    : "the value the model predicts";
  const note = report.classes
    ? " A class the model predicts for almost anything stays, whatever is deleted."
    : "";
  const { graph, unit, node } = WORDS;
  const paragraphs = [
    `The proof of an explanation is a transplant: its region is moved into other ${graph}s, and the model is asked about them before and after. A region that a prediction rests on takes the prediction along; a random region, as large, does not. Each ${graph} has a button for its proof.`,
    `On top, every point is a ${graph}: how far its region takes others on the way from their own output to that of the ${graph}, the mean over up to 16 of them. The other row is the same for random regions. Where the two rows look alike, the explanations say little.`,
    "Verdicts: “the region carries it” if it takes most of the way along, more than random regions do; “part of it” if it clearly contributes; “several parts” if the rest does as well without it; “something is missing” if nothing in the graph carries the prediction; “unclear” if little and much are both possible, or the fit found no evidence.",
    `Colours: what raises the output is orange, what lowers it blue, what does neither clearly is grey; the stronger the colour, the higher the score. The region has a dark outline, ${node}s it relies on a purple one.`,
    `The slider marks the ${unit}s with the highest scores. Under “numbers”: “these alone” is ${what} when all other ${report.atoms ? "bonds" : `${WORDS.edge}s`} are deleted, “without them” when theirs are. No ${node} is removed.` + note,
    `Keys: / search, j and k next and previous ${graph}, t its proof, ← and → fewer and more ${unit}s, n and p next and previous page, g ground truth, ? this help.`,
  ];
  container.append(...paragraphs.map((text) => el("p", {}, text)));
}
