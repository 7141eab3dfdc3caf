const WIDTH = 320;
const HEIGHT = 220;
const MARGIN = 22;
const LONGEST_BOND = 34;
/** Kinds of bonds, as drawing.py numbers them. */
const BOND = {
  link: 0, single: 1, double: 2, triple: 3, left: 4, right: 5,
  wedge: 6, wedgeBack: 7, hash: 8, hashBack: 9,
};

/** Places of a graph's nodes in a panel, its edges, and the typical length of an edge. */
function frame(source, graph) {
  const first = source.nodeStart[graph];
  const xs = [];
  const ys = [];
  for (let i = first; i < source.nodeStart[graph + 1]; i++) {
    xs.push(source.places[2 * i]);
    ys.push(source.places[2 * i + 1]);
  }
  const edges = [];
  for (let p = source.edgeStart[graph]; p < source.edgeStart[graph + 1]; p++) {
    edges.push([source.ends[2 * p], source.ends[2 * p + 1]]);
  }
  const lengths = edges.map(([a, b]) => Math.hypot(xs[a] - xs[b], ys[a] - ys[b])).sort((a, b) => a - b);
  const typical = lengths[lengths.length >> 1] || 65534;
  const [width, height] = [Math.max(...xs), Math.max(...ys)];
  const scale = Math.min(
    (WIDTH - 2 * MARGIN) / Math.max(width, 1),
    (HEIGHT - 2 * MARGIN) / Math.max(height, 1),
    (source.molecule[graph] ? LONGEST_BOND : 2 * LONGEST_BOND) / typical,
  );
  const place = (values, extent, room) => values.map((v) => room / 2 + (v - extent / 2) * scale);
  return { x: place(xs, width, WIDTH), y: place(ys, height, HEIGHT), edges, unit: typical * scale };
}

/** A line between two points. */
function segment(x1, y1, x2, y2, name) {
  const at = (v) => v.toFixed(1);
  return svg("line", { x1: at(x1), y1: at(y1), x2: at(x2), y2: at(y2), class: name });
}

/** Ends of a bond, pulled back from atoms with letters. */
function trimmed(source, graph, { x, y, unit }, a, b) {
  const [dx, dy] = [x[b] - x[a], y[b] - y[a]];
  const length = Math.hypot(dx, dy) || 1;
  const [ux, uy] = [dx / length, dy / length];
  const first = source.nodeStart[graph];
  const gap = (node) => (source.label[first + node] ? 0.3 * unit : 0);
  return {
    x1: x[a] + ux * gap(a), y1: y[a] + uy * gap(a),
    x2: x[b] - ux * gap(b), y2: y[b] - uy * gap(b),
    nx: -uy * unit, ny: ux * unit,
  };
}

/** Lines of a bond. */
function bondLines(kind, { x1, y1, x2, y2, nx, ny }) {
  const parallel = (side, inset = 0) => segment(
    x1 + side * nx + inset * (x2 - x1), y1 + side * ny + inset * (y2 - y1),
    x2 + side * nx - inset * (x2 - x1), y2 + side * ny - inset * (y2 - y1), "bond",
  );
  switch (kind) {
    case BOND.double: return [parallel(0.08), parallel(-0.08)];
    case BOND.triple: return [parallel(0), parallel(0.15), parallel(-0.15)];
    case BOND.left: return [parallel(0), parallel(0.17, 0.14)];
    case BOND.right: return [parallel(0), parallel(-0.17, 0.14)];
    case BOND.wedge: return [wedge(x1, y1, x2, y2, nx, ny)];
    case BOND.wedgeBack: return [wedge(x2, y2, x1, y1, nx, ny)];
    case BOND.hash: return hashes(x1, y1, x2, y2, nx, ny);
    case BOND.hashBack: return hashes(x2, y2, x1, y1, nx, ny);
    default: return [parallel(0)];
  }
}

function wedge(x1, y1, x2, y2, nx, ny) {
  const corners = [[x1, y1], [x2 + 0.13 * nx, y2 + 0.13 * ny], [x2 - 0.13 * nx, y2 - 0.13 * ny]];
  return svg("polygon", { points: corners.map((c) => c.map((v) => v.toFixed(1)).join()).join(" "), class: "wedge" });
}

function hashes(x1, y1, x2, y2, nx, ny) {
  return [0.15, 0.32, 0.49, 0.66, 0.83, 1].map((t) => {
    const [x, y, w] = [x1 + t * (x2 - x1), y1 + t * (y2 - y1), 0.13 * t];
    return segment(x - w * nx, y - w * ny, x + w * nx, y + w * ny, "bond");
  });
}

/** Letters of an atom; those beside it stand on the side without bonds. */
function atomLetters([symbol, beside, left], x, y, unit) {
  const size = Math.max(8, 0.5 * unit);
  const letters = (text, at, anchor) => svg("text", {
    x: at.toFixed(1), y: (y + 0.36 * size).toFixed(1), "font-size": size.toFixed(1), "text-anchor": anchor, class: "atom",
  }, text);
  const half = 0.36 * size * Math.max(1, 0.8 * symbol.length);
  const result = [letters(symbol, x, "middle")];
  if (beside) result.push(letters(beside, left ? x - half : x + half, left ? "end" : "start"));
  return result;
}

/** A region as an outline: lines and discs in a colour, and a little smaller ones of the card above them. */
function outline(name, edges, nodes, { x, y }, radius) {
  const layer = (part, grow) => svg("g", { class: part },
    ...edges.map(([a, b]) => {
      const line = segment(x[a], y[a], x[b], y[b]);
      line.style.strokeWidth = `${(2 * (radius + grow)).toFixed(1)}px`;
      return line;
    }),
    ...nodes.map((n) => svg("circle", { cx: x[n].toFixed(1), cy: y[n].toFixed(1), r: (radius + grow).toFixed(1) })));
  return svg("g", { class: `region ${name}` }, layer("rim", 1.4), layer("inside", 0));
}

const DIRECTIONS = ["lowers", "neutral", "raises"];

/** The map of what raises and lowers: discs under nodes, and bands under bonds between atoms that do the same. */
function directionMap(explainer, graph, { x, y, edges }, radius) {
  const map = svg("g", { class: "map" });
  if (!explainer.direction) return map;
  const first = report.nodeStart[graph];
  const kind = (n) => DIRECTIONS[explainer.direction[first + n]];
  const strength = (n) => (report.atoms ? shareOf(explainer, first + n) : explainer.pooled?.[first + n] ? 1 : 0.5);
  const add = (element, name, share) => {
    element.setAttribute("class", name);
    element.style.setProperty("--score", `${Math.round(100 * share)}%`);
    map.append(element);
  };
  if (report.atoms) {
    edges.forEach(([a, b]) => {
      if (kind(a) === kind(b)) add(segment(x[a], y[a], x[b], y[b]), kind(a), Math.min(strength(a), strength(b)));
    });
  }
  x.forEach((_, n) => {
    if (report.atoms || report.types) add(svg("circle", { cx: x[n].toFixed(1), cy: y[n].toFixed(1), r: radius.toFixed(1) }), kind(n), strength(n));
  });
  return map;
}

/** The parts of a drawing that never change: truth, region, map, bonds or lines, letters or dots. */
function drawGraph(graph, explainer) {
  const placed = frame(report, graph);
  const { x, y, edges, unit } = placed;
  const [firstEdge, firstNode] = [report.edgeStart[graph], report.nodeStart[graph]];
  const molecule = Boolean(report.molecule[graph]);
  const radius = Math.max(2.2, Math.min(5.5, 0.2 * unit));
  const disc = molecule ? 0.3 * unit : radius + 2.5;
  const [truth, bands, lines, nodes] = ["truth", "bands", "lines", "nodes"].map((part) => svg("g", { class: part }));
  const marks = [];
  edges.forEach(([a, b], e) => {
    if (report.truth?.pair[firstEdge + e]) truth.append(segment(x[a], y[a], x[b], y[b]));
    const band = segment(x[a], y[a], x[b], y[b], "band");
    if (!report.atoms) {
      band.style.setProperty("--score", `${Math.round(100 * shareOf(explainer, firstEdge + e))}%`);
      bands.append(band);
    }
    const line = svg("g", { class: "edge" }, svg("title", {}, edgeTitle(explainer, graph, e, a, b)));
    line.append(...bondLines(report.bond[firstEdge + e], trimmed(report, graph, placed, a, b)));
    lines.append(line);
    marks.push({ rank: rankOf(explainer, graph, e, a, b), band, line, a, b });
  });
  const regions = ["rest", "pooled"].map((name) => {
    const found = x.flatMap((_, n) => (explainer[name]?.[firstNode + n] ? [n] : []));
    const inside = new Set(found);
    return outline(name, edges.filter(([a, b]) => inside.has(a) && inside.has(b)), found, placed, disc + (molecule ? 0.1 * unit : 2));
  });
  const dots = x.map((_, n) => drawNode(x[n], y[n], radius, unit, molecule, {
    label: report.labels[report.label[firstNode + n]],
    type: report.type?.[firstNode + n],
    title: report.atoms ? nodeTitle(explainer, graph, n) : null,
  }));
  if (!molecule && explainer.direction) dots.forEach((dot, n) => dot.classList.add(DIRECTIONS[explainer.direction[firstNode + n]], explainer.pooled?.[firstNode + n] ? "chosen" : "other"));
  dots.forEach((dot, n) => {
    nodes.append(dot);
    if (report.truth?.node[firstNode + n]) {
      truth.append(svg("circle", { cx: x[n].toFixed(1), cy: y[n].toFixed(1), r: (molecule ? 0.5 * unit : radius + 7).toFixed(1) }));
    }
  });
  const element = svg("svg", {
    class: molecule ? "drawing molecule" : "drawing", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
  }, truth, ...regions, bands, directionMap(explainer, graph, placed, disc), lines, nodes);
  element.style.setProperty("--unit", `${unit.toFixed(1)}px`);
  return { element, update: (kept) => highlight(marks, dots, kept, explainer, graph) };
}

/** When an edge is kept: by its own rank, or with the later of its two atoms. */
function rankOf(explainer, graph, edge, a, b) {
  if (!report.atoms) return explainer.rank[report.edgeStart[graph] + edge];
  const first = report.nodeStart[graph];
  return Math.max(explainer.rank[first + a], explainer.rank[first + b]);
}

/** A score between the lowest and the highest of its explainer; 0 if it is no number. */
function shareOf(explainer, unit) {
  const { low, high } = explainer.range;
  const score = explainer.score[unit];
  return Number.isNaN(score) ? 0 : (score - low) / (high - low);
}

function scoreText(explainer, unit) {
  const score = explainer.score[unit];
  return `rank ${explainer.rank[unit] + 1}, score ${Number.isNaN(score) ? "no number" : score.toFixed(3)}`;
}

function edgeTitle(explainer, graph, edge, a, b) {
  const ends = `${WORDS.node}s ${a} and ${b}`;
  return report.atoms ? `bond of ${ends}` : `${ends}: ${scoreText(explainer, report.edgeStart[graph] + edge)}`;
}

function nodeTitle(explainer, graph, n) {
  const at = report.nodeStart[graph] + n;
  const does = explainer.direction && explainer.direction[at] !== 1 ? `, ${DIRECTIONS[explainer.direction[at]]} the output` : "";
  return `atom ${n}: ${scoreText(explainer, at)}${does}`;
}

/** Corners of the shapes of types, around a node of radius 1; the first is a circle. */
const SHAPES = [
  null,
  [[-0.9, -0.9], [0.9, -0.9], [0.9, 0.9], [-0.9, 0.9]],
  [[0, -1.25], [1.15, 0.8], [-1.15, 0.8]],
  [[0, -1.3], [1.3, 0], [0, 1.3], [-1.3, 0]],
  [[0, 1.25], [1.15, -0.8], [-1.15, -0.8]],
  [[-0.6, -1.1], [0.6, -1.1], [1.2, 0], [0.6, 1.1], [-0.6, 1.1], [-1.2, 0]],
];

/** A node of a type, in the type's shape and colour. */
function typedNode(x, y, radius, type) {
  const number = type % SHAPES.length;
  const corners = SHAPES[number];
  const size = radius * 1.25;
  const shape = corners
    ? svg("polygon", { points: corners.map(([dx, dy]) => `${(x + dx * size).toFixed(1)},${(y + dy * size).toFixed(1)}`).join(" ") })
    : svg("circle", { cx: x.toFixed(1), cy: y.toFixed(1), r: size.toFixed(1) });
  shape.setAttribute("class", `type-${number}`);
  return [shape, svg("title", {}, report.types[type])];
}

function drawNode(x, y, radius, unit, molecule, { label, type, title }) {
  const at = { cx: x.toFixed(1), cy: y.toFixed(1) };
  const group = svg("g", { class: "node" });
  if (type !== undefined) group.append(...typedNode(x, y, radius, type));
  else if (!molecule) group.append(svg("circle", { ...at, r: radius.toFixed(1) }));
  else if (title) group.append(svg("circle", { ...at, r: (0.4 * unit).toFixed(1), class: "touch" }));
  if (title) group.append(svg("title", {}, title));
  if (label[0]) group.append(...atomLetters(label, x, y, unit));
  return group;
}

/** Marks what is kept: atoms and the bonds between them, or edges and the nodes they join. */
function highlight(marks, dots, kept, explainer, graph) {
  const joined = new Set();
  for (const { rank, band, line, a, b } of marks) {
    const on = rank < kept;
    band.classList.toggle("kept", on);
    line.classList.toggle("kept", on);
    if (on) joined.add(a).add(b);
  }
  const first = report.nodeStart[graph];
  dots.forEach((dot, n) => dot.classList.toggle("kept", report.atoms ? explainer.rank[first + n] < kept : joined.has(n)));
}

/** A graph of any source with some nodes marked: `marked` is a list of numbers, `name` their class. */
function sketch(source, graph, marked, name, text) {
  const placed = frame(source, graph);
  const { x, y, edges, unit } = placed;
  const chosen = new Set(marked);
  const molecule = Boolean(source.molecule[graph]);
  const radius = Math.max(2.2, Math.min(5.5, 0.2 * unit));
  const [marks, lines, nodes] = ["marks", "lines", "nodes"].map((part) => svg("g", { class: part }));
  edges.forEach(([a, b], e) => {
    const inside = chosen.has(a) && chosen.has(b);
    if (inside) marks.append(segment(x[a], y[a], x[b], y[b]));
    const kind = source.bond[source.edgeStart[graph] + e];
    lines.append(svg("g", { class: inside ? "edge kept" : "edge" }, ...bondLines(kind, trimmed(source, graph, placed, a, b))));
  });
  x.forEach((_, n) => {
    const at = source.nodeStart[graph] + n;
    const dot = drawNode(x[n], y[n], radius, unit, molecule, { label: source.labels[source.label[at]], type: source.type?.[at] });
    if (chosen.has(n)) {
      dot.classList.add("kept");
      marks.append(svg("circle", { cx: x[n].toFixed(1), cy: y[n].toFixed(1), r: (molecule ? 0.36 * unit : radius + 3.5).toFixed(1) }));
    }
    nodes.append(dot);
  });
  const used = Math.max(HEIGHT / 2, Math.max(...y) - Math.min(...y) + 2 * MARGIN); // it stands in the middle
  const element = svg("svg", {
    class: `drawing ${name}${molecule ? " molecule" : ""}`, viewBox: `0 ${(HEIGHT - used) / 2} ${WIDTH} ${used}`, role: "img", "aria-label": text,
  }, marks, lines, nodes);
  element.style.setProperty("--unit", `${unit.toFixed(1)}px`);
  return element;
}
