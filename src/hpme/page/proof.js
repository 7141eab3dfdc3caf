let drawnProofs = null;
const provenOutputs = new Map();

/** What was measured for a graph by moving its region; null if nothing was. */
function proofOf(graph, explainer) {
  const found = raw.proofs?.of[explainer.name];
  return found?.trials[graph]?.length ? found : null;
}

/** Outputs of all hosts of a graph: as they are, with the region, with random regions. */
function provenOf(graph, explainer) {
  const { outputs, names, trials } = proofOf(graph, explainer);
  if (!provenOutputs.has(explainer.name)) provenOutputs.set(explainer.name, ["own", "hosts", "chosen", "random"].map((name) => decode(outputs[name])));
  const [own, ...columns] = provenOutputs.get(explainer.name);
  const [first, width] = [graph * outputs.width, outputs.width];
  const rows = Array.from({ length: width }, (_, i) => columns.map((column) => column[first + i])).filter((row) => row.every(Number.isFinite));
  const side = (place) => rows.map((row) => row[place]);
  return { own: own[graph], name: names[graph], trials: trials[graph], hosts: side(0), chosen: side(1), random: side(2) };
}

const mean = (values) => values.reduce((a, b) => a + b, 0) / values.length;
const outputText = (value) => (Math.abs(value) < 100 ? value.toFixed(2) : decimal(value));

/** The proof in one sentence. */
function proofWords({ hosts, chosen, random, name }) {
  const others = counted(hosts.length, `other ${WORDS.graph}`);
  const [before, after, control] = [hosts, chosen, random].map((values) => outputText(mean(values)));
  return `Moved into ${others}, the region takes ${name} from ${before} to ${after}; random regions take it to ${control}.`;
}

/** Dots as one path: thousands of elements would be slow. */
function dotsPath(points, name) {
  return svg("path", { class: `dots ${name}`, d: points.map(([x, y]) => `M${x.toFixed(1)} ${y.toFixed(1)}h0`).join("") });
}

/** Outputs of all hosts, a point for each, and the output of the graph itself. */
function proofStrip({ own, hosts, chosen, random, name }, tint) {
  const [width, row, left] = [640, 22, 118];
  const all = [own, ...hosts, ...chosen, ...random];
  const [low, high] = report.classes ? [0, 1] : [Math.min(...all), Math.max(...all)];
  const atX = (value) => left + 8 + ((value - low) / (high - low || 1)) * (width - left - 24);
  const rows = [[hosts, "before", "as they are"], [chosen, tint, "with the region"], [random, "control", "random regions"]];
  const bottom = 16 + rows.length * row;
  const tick = (value) => [
    svg("line", { class: "level", x1: atX(value), x2: atX(value), y1: 12, y2: bottom }),
    svg("text", { x: atX(value), y: bottom + 12, "text-anchor": "middle" }, outputText(value))];
  return svg("svg", { class: "strip wide", viewBox: `0 0 ${width} ${bottom + 16}`, role: "img", "aria-label": `${name} in ${hosts.length} others: ${proofWords({ own, hosts, chosen, random, name })}` },
    ...[0, 0.25, 0.5, 0.75, 1].flatMap((share) => tick(low + share * (high - low))),
    svg("line", { class: "own", x1: atX(own), x2: atX(own), y1: 10, y2: bottom }),
    svg("text", { x: atX(own), y: 8, "text-anchor": atX(own) > width - 60 ? "end" : "middle" }, `this ${WORDS.graph}`),
    ...rows.flatMap(([values, kind, text], i) => [
      svg("text", { x: left, y: 16 + (i + 0.5) * row + 3, "text-anchor": "end" }, text),
      dotsPath(values.map((value, k) => [atX(value), 16 + (i + 0.5) * row + 10 * (((k * 0.618) % 1) - 0.5)]), kind)]));
}

/** The region of a graph in others: before, after, and random regions in the same place. */
function buildProof(graph, explainer) {
  const proof = provenOf(graph, explainer);
  drawnProofs ??= decodeDrawn(raw.proofs.drawn);
  const tint = proof.own >= mean(proof.hosts) ? "raises" : "lowers";
  const panel = (drawing, output, kind) => el("figure", { class: `step ${kind}` }, drawing, el("figcaption", {}, output));
  const region = Array.from({ length: report.nodes[graph] }, (_, n) => n).filter((n) => explainer.pooled?.[report.nodeStart[graph] + n]);
  const name = report.names[graph];
  const own = panel(sketch(report, graph, region, `${tint} whole`, `${name} with its region`), `${proof.name} ${outputText(proof.own)}`, tint);
  const steps = [["before", "before"], [tint, "with the region"], ["control", "with a random region"]];
  const rows = proof.trials.map((trial, i) => el("div", { class: "trial" }, ...steps.map(([kind, text], k) => (
    panel(sketch(drawnProofs, trial[3 * k], trial[3 * k + 2], kind, `${WORDS.graph} ${i + 1} of others, ${text}`), outputText(trial[3 * k + 1]), kind)))));
  const heads = [`another ${WORDS.graph}`, "with the region in it", "with a random region"];
  return el("section", { class: "proof", "aria-label": `Proof: the region of ${name} in other ${WORDS.graph}s` },
    el("p", { class: "lead-words" }, proofWords(proof)),
    el("div", { class: "stage" },
      el("div", { class: "origin" }, el("p", { class: `head ${tint}` }, name), own),
      el("div", { class: "trials" },
        el("div", { class: "trial heads", "aria-hidden": "true" }, ...heads.map((text, k) => el("p", { class: `head ${steps[k][0]}` }, text))),
        ...rows)),
    el("div", { class: "scroll" }, proofStrip(proof, tint)),
    el("p", { class: "muted small" }, `Drawn are ${proof.trials.length} of ${counted(proof.hosts.length, `${WORDS.graph}`)}: of a low, a middle and a high effect. The model was asked about each of them.`));
}

/** The clearest proof of the page, large. */
function buildHero(container) {
  const explainer = report.shown.find((one) => Number.isInteger(raw.proofs?.of[one.name]?.best));
  if (!explainer) return;
  const graph = raw.proofs.of[explainer.name].best;
  container.append(
    el("h2", { id: "hero-title" }, "What carries a prediction takes it along"),
    buildProof(graph, explainer),
    el("p", { class: "small" }, el("a", { href: `#graph-${graph}` }, `To the explanation of ${report.names[graph]}`),
      `. Every ${WORDS.graph} below has such a proof, where its region could be moved.`));
  container.hidden = false;
}
