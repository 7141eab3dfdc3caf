/** Text of a prediction: class and probability, or value. */
function predictionText(values) {
  if (!report.classes) return decimal(values[0]);
  if (Number.isNaN(values[0])) return "no number";
  const best = argmax(values);
  return `${report.classes[best]} · ${percent(values[best])}`;
}

/** A graph with its slider and a panel per explainer; panels stay empty until `draw` is called. */
function buildCard(graph, step, onStep) {
  const size = buildSlider(graph, step);
  const holder = el("div", { class: "panels" });
  const proven = report.shown.filter((explainer) => proofOf(graph, explainer));
  const stage = el("div", { class: "proofs", hidden: true });
  const button = el("button", { type: "button", class: "plain prove", "aria-expanded": "false", "aria-keyshortcuts": "t", "aria-label": `Proof: the region of ${report.names[graph]} in other ${WORDS.graph}s` }, "Show the proof");
  const element = el("li", { class: "card", tabindex: "0", id: `graph-${graph}`, "data-graph": graph, "aria-label": report.names[graph] },
    buildHead(graph), holder, size.element, proven.length ? button : null, stage);
  let panels = null;
  let current = step;
  const card = {
    graph,
    element,
    prove() {
      if (!proven.length) return;
      if (!stage.firstChild) stage.append(...proven.map((explainer) => buildProof(graph, explainer)));
      stage.hidden = !stage.hidden;
      element.classList.toggle("open", !stage.hidden);
      button.setAttribute("aria-expanded", String(!stage.hidden));
      button.textContent = stage.hidden ? "Show the proof" : "Hide the proof";
      if (!stage.hidden) element.scrollIntoView({ block: "nearest" });
    },
    draw() {
      if (panels) return;
      panels = report.shown.map((explainer) => buildPanel(graph, explainer));
      for (const panel of panels) panel.update(current);
      holder.append(...panels.map((panel) => panel.element));
    },
    update(to) {
      current = to;
      size.update(to);
      for (const panel of panels ?? []) panel.update(to);
    },
  };
  button.addEventListener("click", () => card.prove());
  size.input.addEventListener("input", () => onStep(card, Number(size.input.value)));
  size.update(step);
  return card;
}

function buildHead(graph) {
  const smiles = report.smiles[graph];
  return el("header", {},
    el("div", { class: "line" },
      el("h3", {}, el("a", { href: `#graph-${graph}`, title: "Link to this graph", tabindex: "-1" }, report.names[graph])),
      el("span", { class: "chip prediction" }, predictionText(predictionOf(graph))),
      labelChip(graph),
      showChange && report.insight.changes[graph].length ? el("a", { class: "chip", href: `#change-${graph}` }, "what would change it") : null),
    el("p", { class: "meta muted" },
      `${counted(report.nodes[graph], WORDS.node)} · ${counted(report.edges[graph], WORDS.edge)}`,
      ...Object.entries(report.metrics).map(([name, values]) => ` · ${name} ${metricText(values[graph])}`)),
    smiles && smiles !== report.names[graph] ? el("code", { class: "smiles", title: smiles }, smiles) : null);
}

function labelChip(graph) {
  const label = report.y ? report.y[graph] : NaN;
  if (!Number.isFinite(label)) return null;
  if (!report.classes) return el("span", { class: "chip" }, `label ${decimal(label)}`);
  const right = label === report.predicted[graph];
  const name = report.classes[label] ?? String(label);
  return el("span", { class: right ? "chip" : "chip wrong" }, right ? `label ${name} ✓` : `label ${name} ✗ wrong`);
}

function buildSlider(graph, step) {
  const last = report.stepCounts[graph] - 1;
  const number = el("output", { class: "kept-edges" });
  const input = el("input", { type: "range", min: 0, max: last, step: 1, value: step, disabled: last === 0,
    "aria-label": `Highest ${WORDS.unit}s of ${report.names[graph]}` }); // a label would name the output inside it
  const total = counted(report.units[graph], WORDS.unit);
  return {
    input,
    element: el("div", { class: "slider" }, el("span", {}, "Top ", number, ` of ${total} by score`), input),
    update(to) {
      const kept = keptAt(graph, to);
      input.value = String(to);
      number.textContent = String(kept);
      input.setAttribute("aria-valuetext", `${kept} of ${total}`);
    },
  };
}

/** Numbers of a verdict in words; others have their own names. */
const NUMBERS = {
  carried: "share of the way that the region carries, beyond random regions",
  lost: "share of the way that is lost without it, beyond random regions",
  effect: "change of the output of others by the region",
  random: "change of the output of others by random regions",
  removal: "change of the output without the region",
  p: "chance of that if the region did no more than random ones",
  stable: "agreement of independent searches on the region",
};

function buildPanel(graph, explainer) {
  const drawing = drawGraph(graph, explainer);
  drawing.element.setAttribute("aria-label", `${report.names[graph]} explained by ${explainer.name}`);
  const save = el("button", { type: "button", class: "plain save", "aria-label": `Save the drawing of ${report.names[graph]} by ${explainer.name} as SVG` }, "↓ SVG");
  save.addEventListener("click", () => saveFile(fileName(report.names[graph], explainer.name) + ".svg", "image/svg+xml", svgText(drawing.element)));
  const verdict = explainer.verdicts?.[graph];
  const sentence = explainer.sentences?.[graph];
  const numbers = buildNumbers(graph, explainer);
  return {
    element: el("figure", { class: "panel", "data-explainer": explainer.name },
      el("figcaption", {}, report.shown.length > 1 ? el("strong", {}, explainer.name) : null, verdict ? verdictBadge(verdict) : null, save),
      sentence ? el("p", { class: "sentence" }, sentence) : null,
      drawing.element, verdict === "absence" ? missing(graph) : null, numbers.element),
    update(step) {
      drawing.update(keptAt(graph, step));
      numbers.update(step);
    },
  };
}

/** What would have to be there, where a prediction rests on something missing. */
function missing(graph) {
  const found = report.insight?.changes?.[graph];
  return el("div", { class: "missing" }, el("p", { class: "small" }, found?.length
    ? "What would have to be there: the smallest change found that gives another answer."
    : found
      ? "No change was found that would give another answer."
      : `What would have to be there was not looked for; hpme explain --with counterfactuals${report.classes ? "" : " --threshold VALUE"} shows it.`),
  found?.length ? changeFigure(graph, found[0]) : null);
}

/** Numbers on demand: those of the verdict, and what deleting says. */
function buildNumbers(graph, explainer) {
  const chart = drawChart(graph, explainer);
  const alone = buildPart(graph, explainer, "alone", `These ${WORDS.unit}s alone`);
  const without = buildPart(graph, explainer, "without", "Without them");
  const metrics = Object.entries(explainer.metrics).filter(([, values]) => Number.isFinite(values[graph]));
  const list = el("dl", {}, ...metrics.flatMap(([name, values]) => [
    el("dt", {}, NUMBERS[name] ?? name), el("dd", { class: "metric", "data-name": name }, metricText(values[graph]))]));
  return {
    element: el("details", { class: "more" }, el("summary", {}, "Numbers"), metrics.length ? list : null,
      el("p", { class: "muted small" }, `If ${WORDS.edge}s are deleted, which makes ${WORDS.graph}s unlike any the model knows:`),
      alone.element, without.element, chart.element),
    update(step) {
      chart.update(step);
      alone.update(step);
      without.update(step);
    },
  };
}

/** A line with what the model predicts on a part of the graph. */
function buildPart(graph, explainer, name, text) {
  const value = el("span", { class: "value" });
  const flip = el("span", { class: "flip" });
  const bar = el("span", { class: "bar" }, el("span"));
  const element = el("div", { class: `part ${name}` },
    el("span", { class: "what" }, el("i", { class: "swatch" }), text), value, report.classes ? bar : null, flip);
  return {
    element,
    update(step) {
      const values = partOf(explainer[name], graph, step);
      const number = judged(graph, values);
      value.textContent = report.classes ? percent(number) : decimal(number);
      bar.firstChild.style.width = `${Number.isFinite(number) ? 100 * number : 0}%`;
      flip.textContent = comparison(graph, values);
      element.classList.toggle("flipped", report.classes !== null && samePrediction(graph, values) === false);
    },
  };
}

/** How a part's prediction compares with the whole's. */
function comparison(graph, values) {
  const difference = judged(graph, values) - judged(graph, predictionOf(graph));
  if (!Number.isFinite(difference)) return "the model gave no number";
  if (!report.classes) return `${signed(decimal(difference), difference)} from the whole graph`;
  return samePrediction(graph, values) ? `still ${report.classes[report.predicted[graph]]}` : `now ${report.classes[argmax(values)]}`;
}
