/** Text of a prediction: class and probability, or value. */
function predictionText(values) {
  if (!report.classes) return decimal(values[0]);
  if (Number.isNaN(values[0])) return "no number";
  const best = argmax(values);
  return `${report.classes[best]} · ${percent(values[best])}`;
}

/** What a prediction rests on, in words, by the verdict of an explainer. */
const VERDICTS = {
  carried: "carried by the marked nodes",
  part: "rests on the marked nodes in part",
  several: "several parts carry it",
  absence: "rests on something missing",
  unclear: "unclear what carries it",
};

/** A graph with its slider and a panel per explainer; panels stay empty until `draw` is called. */
function buildCard(graph, step, onStep) {
  const size = buildSlider(graph, step);
  const holder = el("div", { class: "panels" });
  const element = el("li", { class: "card", tabindex: "0", id: `graph-${graph}`, "data-graph": graph, "aria-label": report.names[graph] },
    buildHead(graph), size.element, holder);
  let panels = null;
  let current = step;
  const card = {
    graph,
    element,
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
      report.insight?.changes?.[graph].length ? el("a", { class: "chip", href: `#change-${graph}` }, "what would change it") : null),
    el("p", { class: "meta muted" },
      `${counted(report.nodes[graph], "node")} · ${counted(report.edges[graph], "edge")}`,
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
    "aria-label": `Edges kept of ${report.names[graph]}` }); // a label would name the output inside it
  const total = counted(report.edges[graph], "edge");
  return {
    input,
    element: el("div", { class: "slider" }, el("span", {}, "Keep the top ", number, ` of ${total}`), input),
    update(to) {
      const kept = keptAt(graph, to);
      input.value = String(to);
      number.textContent = String(kept);
      input.setAttribute("aria-valuetext", `${kept} of ${total}`);
    },
  };
}

function buildPanel(graph, explainer) {
  const drawing = drawGraph(graph, explainer);
  const chart = drawChart(graph, explainer);
  const alone = buildPart(graph, explainer, "alone", "These edges alone");
  const without = buildPart(graph, explainer, "without", "Without them");
  drawing.element.setAttribute("aria-label", `${report.names[graph]} explained by ${explainer.name}`);
  const save = el("button", { type: "button", class: "plain save", "aria-label": `Save the drawing of ${report.names[graph]} by ${explainer.name} as SVG` }, "↓ SVG");
  save.addEventListener("click", () => saveFile(fileName(report.names[graph], explainer.name) + ".svg", "image/svg+xml", svgText(drawing.element)));
  const metrics = Object.entries(explainer.metrics).flatMap(([name, values]) => (
    Number.isFinite(values[graph]) && !explainer.told.includes(name) ? [el("span", { class: "metric" }, `${name} ${metricText(values[graph])}`)] : []
  ));
  const verdict = explainer.verdicts?.[graph];
  const sentence = explainer.sentences?.[graph];
  return {
    element: el("figure", { class: "panel", "data-explainer": explainer.name },
      el("figcaption", {}, el("strong", {}, explainer.name),
        verdict ? el("span", { class: "metric verdict" }, VERDICTS[verdict] ?? verdict) : null, ...metrics, save),
      sentence ? el("p", { class: "sentence" }, sentence) : null,
      drawing.element, alone.element, without.element, chart.element),
    update(step) {
      drawing.update(keptAt(graph, step));
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
