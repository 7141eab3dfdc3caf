/** Verdicts: what a prediction rests on, in words. */
const VERDICTS = {
  carried: "the region carries it",
  part: "the region is part of it",
  several: "several parts carry it",
  absence: "something is missing",
  unclear: "unclear",
};
const MOST_CLASSES = 6;
/** Milliseconds from a new choice of graphs to a new chart. */
const REDRAW = 60;
/** Random regions that are behind by less do as well. */
const AS_WELL = 0.05;

function verdictBadge(verdict) {
  return el("span", { class: `badge verdict-badge v-${verdict}` }, el("i", { class: "dot", "aria-hidden": "true" }), VERDICTS[verdict] ?? verdict);
}

/** Places of a point per graph: shares of the way from left to right, as many above each other as have the same. */
function swarmRow(values, atX, middle, height) {
  const columns = new Map();
  for (const value of values) {
    const x = Math.round(atX(value) / 4) * 4;
    columns.set(x, (columns.get(x) ?? 0) + 1);
  }
  const gap = Math.min(3.4, height / Math.max(1, ...columns.values()));
  return [...columns].flatMap(([x, count]) => Array.from({ length: count }, (_, i) => [x, middle + (i - (count - 1) / 2) * gap]));
}

function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted.length ? sorted[sorted.length >> 1] : NaN;
}

/** The least of values and a number; there may be too many values to spread. */
function least(values, number) {
  return values.reduce((a, b) => (b < a ? b : a), number);
}

/** Graphs by predicted class, the most frequent first; all together where predictions are values. */
function byClass(graphs) {
  if (!report.classes) return [[`all ${WORDS.graph}s`, graphs]];
  const groups = report.classes.map((name, i) => [name, graphs.filter((g) => report.predicted[g] === i)]).filter(([, some]) => some.length);
  if (groups.length <= MOST_CLASSES) return groups;
  groups.sort((a, b) => b[1].length - a[1].length);
  return [...groups.slice(0, MOST_CLASSES - 1), ["others", groups.slice(MOST_CLASSES - 1).flatMap(([, some]) => some)]];
}

/** Two distributions for each class: how far regions, and random regions, take others to the prediction. */
function distributions(explainer, graphs) {
  const [chosen, random] = explainer.points;
  const known = graphs.filter((g) => Number.isFinite(chosen[g]) && Number.isFinite(random[g]));
  const groups = byClass(known);
  const [width, row, left, top] = [640, 30, 172, 26];
  const all = known.flatMap((g) => [chosen[g], random[g]]);
  const [low, high] = [Math.max(-0.5, least(all, -0.05)), Math.min(1.5, -least(all.map((v) => -v), -1.05))];
  const atX = (share) => left + 10 + ((Math.max(low, Math.min(high, share)) - low) / (high - low)) * (width - left - 90);
  const lines = groups.flatMap(([name, some], i) => {
    const at = top + i * (2 * row + 12);
    const pair = [[chosen, "chosen", "chosen regions"], [random, "control", "random regions"]];
    return [
      svg("text", { class: "class", x: 0, y: at + row - 6 }, name.length > 22 ? `${name.slice(0, 21)}…` : name, svg("title", {}, name)),
      svg("text", { x: 0, y: at + row + 10 }, counted(some.length, WORDS.graph)),
      ...pair.flatMap(([column, kind, text], k) => {
        const values = some.map((g) => column[g]);
        const middle = at + (k + 0.5) * row;
        const centre = atX(median(values));
        return [
          svg("text", { x: left - 4, y: middle + 3, "text-anchor": "end" }, text),
          dotsPath(swarmRow(values, atX, middle, row - 6), kind),
          svg("line", { class: `median ${kind}`, x1: centre, x2: centre, y1: middle - row / 2 + 2, y2: middle + row / 2 - 2 })];
      })];
  });
  const height = top + groups.length * (2 * row + 12) + 16;
  const words = groups.map(([name, some]) => `${name}: chosen ${percent(median(some.map((g) => chosen[g])), 0)}, random ${percent(median(some.map((g) => random[g])), 0)}`);
  const tick = (share, text) => [
    svg("line", { class: share ? "level" : "zero", x1: atX(share), x2: atX(share), y1: 14, y2: height - 16 }),
    svg("text", { x: atX(share), y: height - 3, "text-anchor": "middle" }, text)];
  return svg("svg", { class: "strip wide", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Medians of the way to the prediction: ${words.join("; ")}` },
    ...tick(0, "0 %: as it was"), ...tick(1, `100 %: as the explained ${WORDS.graph}`), ...tick(0.5, "50 %"), ...lines);
}

/** What the two distributions say, the class with the largest difference first. */
function evidenceWords(explainer, graphs) {
  const known = graphs.filter((g) => explainer.points.every((column) => Number.isFinite(column[g])));
  if (!known.length) return `No region of these ${WORDS.graph}s could be moved.`;
  const groups = byClass(known).map(([name, some]) => [name, ...explainer.points.map((column) => median(some.map((g) => column[g])))]);
  const [first, ...others] = groups.sort((a, b) => b[1] - b[2] - (a[1] - a[2]));
  const of = (name) => (report.classes ? ` of ${name}` : "");
  const rest = others.map(([name, chosen, random]) => ` Those${of(name)}: ${percent(chosen, 0)}, random regions ${percent(random, 0)}${chosen - random < AS_WELL ? (random > 0.5 ? ", so it rests on what is missing" : ", so they do not carry it") : ""}.`);
  return `Moved into other ${WORDS.graph}s, the chosen regions${of(first[0])} take them ${percent(first[1], 0)} of the way to the prediction (median), random regions ${percent(first[2], 0)}.${rest.join("")}`;
}

/** One card per explainer; returns what shows the evidence for some graphs. */
function buildEvidence(container, onVerdict) {
  const cards = report.shown.map((explainer) => {
    const [words, chart] = [el("p", { class: "lead-words" }), el("div", { class: "scroll" })];
    const chips = explainer.verdicts ? Object.keys(VERDICTS).map((verdict) => {
      const count = el("b", {});
      const chip = el("button", { type: "button", class: `verdict-chip v-${verdict}`, "aria-pressed": "false" }, el("i", { class: "dot", "aria-hidden": "true" }), count, ` ${VERDICTS[verdict]}`);
      chip.addEventListener("click", () => onVerdict(explainer, verdict));
      return { verdict, chip, count };
    }) : [];
    container.append(el("article", { class: "verdict", "data-explainer": explainer.name },
      el("header", {}, el("h3", {}, explainer.name), badge(explainer)),
      explainer.points ? words : el("p", { class: "muted" }, `Regions of this explainer were not moved into other ${WORDS.graph}s; what is known is under “other measures”.`),
      chart,
      ...explainer.warnings.map((warning) => el("p", { class: "warning" }, `Warning: ${warning}.`.replace("..", "."))),
      chips.length ? el("div", { class: "verdict-chips", role: "group", "aria-label": `What predictions rest on, by ${explainer.name}: show only` }, ...chips.map(({ chip }) => chip)) : null,
      explainer.evidence === null ? null : el("details", {}, el("summary", {}, "What the explainer found out about itself"), el("p", {}, explainer.evidence))));
    return { explainer, words, chart, chips };
  });
  let waiting = null;
  const draw = (graphs) => {
    for (const { explainer, words, chart } of cards) {
      if (!explainer.points) continue;
      words.textContent = evidenceWords(explainer, graphs);
      chart.replaceChildren(distributions(explainer, graphs));
    }
  };
  return (graphs, counts, chosen) => {
    for (const { explainer, chips } of cards) {
      for (const { verdict, chip, count } of chips) {
        const on = chosen?.explainer === explainer && chosen.verdict === verdict;
        count.textContent = (counts.get(explainer)?.[verdict] ?? 0).toLocaleString("en");
        chip.setAttribute("aria-pressed", String(on));
        chip.disabled = !on && !counts.get(explainer)?.[verdict];
      }
    }
    // Thousands of points wait until the list stands and no other letter is typed.
    clearTimeout(waiting);
    if (waiting === null) draw(graphs);
    waiting = waiting === null ? 0 : setTimeout(draw, REDRAW, graphs);
  };
}

function badge(explainer) {
  if (explainer.good === null) return el("span", { class: "badge" }, "no self-check");
  return explainer.good
    ? el("span", { class: "badge good" }, "good evidence")
    : el("span", { class: "badge care" }, "trust with care");
}
