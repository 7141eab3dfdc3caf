/** What an SVG needs of the page's style to look the same without it. */
const DRAWN_STYLE = ["display", "fill", "stroke", "stroke-width", "stroke-linecap", "font-family", "font-weight"];

/** Hands a text to the reader as a file; nothing leaves the page. */
function saveFile(name, type, text) {
  const link = el("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** A text that is a file name on every system. */
function fileName(...parts) {
  return parts.join("-").replace(/[^\p{L}\p{N}.-]+/gu, "-").slice(0, 80);
}

/** A drawing as a file of its own, with the colours it has on the page. */
function svgText(drawing) {
  const copy = drawing.cloneNode(true);
  const copies = [copy, ...copy.querySelectorAll("*")];
  [drawing, ...drawing.querySelectorAll("*")].forEach((element, i) => {
    const style = getComputedStyle(element);
    copies[i].removeAttribute("style");
    // Attributes, since the page's policy forbids styles in elements.
    for (const name of DRAWN_STYLE) copies[i].setAttribute(name, style.getPropertyValue(name));
  });
  copy.setAttribute("xmlns", SVG);
  copy.setAttribute("width", WIDTH);
  copy.setAttribute("height", HEIGHT);
  return new XMLSerializer().serializeToString(copy);
}

/** A field of a CSV file. A text that a spreadsheet would compute gets a quote before it. */
function csvField(value) {
  if (typeof value === "number") return Number.isFinite(value) ? String(value) : "";
  const text = /^[=+\-@\t\r]/.test(value ?? "") ? `'${value}` : value ?? "";
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** The graphs as a table: what is on their cards, with the sliders where they stand. */
function csvText(graphs, steps) {
  const columns = [
    ["graph", (g) => g],
    ["name", (g) => report.names[g]],
    ["smiles", (g) => report.smiles[g]],
    [`${WORDS.node}s`, (g) => report.nodes[g]],
    [`${WORDS.edge}s`, (g) => report.edges[g]],
    ...(report.classes ? [["predicted", (g) => report.classes[report.predicted[g]]]] : []),
    [report.classes ? "probability" : "prediction", (g) => judged(g, predictionOf(g))],
    ...(report.y ? [["label", (g) => report.classes?.[report.y[g]] ?? report.y[g]]] : []),
    [`kept ${WORDS.unit}s`, (g) => keptAt(g, steps[g])],
    ...Object.entries(report.metrics).map(([name, values]) => [name, (g) => values[g]]),
    ...report.shown.flatMap((explainer) => [
      [`${explainer.name}: kept ${WORDS.unit}s alone`, (g) => judged(g, partOf(explainer.alone, g, steps[g]))],
      [`${explainer.name}: without them`, (g) => judged(g, partOf(explainer.without, g, steps[g]))],
      ...(explainer.verdicts ? [[`${explainer.name}: verdict`, (g) => explainer.verdicts[g]]] : []),
      ...Object.entries(explainer.metrics).map(([name, values]) => [`${explainer.name}: ${name}`, (g) => values[g]]),
    ]),
  ];
  const lines = [columns.map(([name]) => csvField(name)), ...graphs.map((g) => columns.map(([, value]) => csvField(value(g))))];
  return lines.map((line) => line.join(",")).join("\r\n") + "\r\n";
}
