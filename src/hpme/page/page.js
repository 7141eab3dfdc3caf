const PAGE_CARDS = 12;
/** Cards drawn without waiting for the browser to say that they can be seen. */
const DRAWN_AT_ONCE = 2;
/** Edges drawn on a page of cards, about; with large graphs a page has fewer cards. */
const PAGE_EDGES = 8000;

const perPage = Math.max(1, Math.min(PAGE_CARDS, Math.floor(
  PAGE_EDGES / Math.max(1, (report.edgeStart[report.count] / report.count) * report.shown.length),
)));
const state = {
  steps: new Uint16Array(report.count),
  order: /** @type {number[]} */ ([]),
  page: 0,
  descending: false,
  verdict: /** @type {{explainer: Explainer, verdict: string} | null} */ (null),
};
/** @type {{graph: number, element: HTMLElement, draw: () => void, update: (step: number) => void}[]} */
let cards = [];
/** Draws cards when they are about to come into view. */
const watcher = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (!entry.isIntersecting) continue;
    watcher.unobserve(entry.target);
    cards.find((card) => card.element === entry.target)?.draw();
  }
}, { rootMargin: "500px" });
const showEvidence = buildEvidence(byId("verdicts"), chooseVerdict);
const showDeletion = buildDeletion(byId("deletion"));
/** Verdicts in the order of how much is known. */
const RANKS = Object.fromEntries(Object.keys(VERDICTS).map((verdict, i) => [verdict, i]));

/** What graphs can be sorted by; values are read when sorting, since some follow the sliders. */
const sorts = [
  { group: "Graph", name: "Given order", value: (g) => g },
  { group: "Graph", name: "Name", value: (g) => report.names[g] },
  report.classes
    ? { group: "Graph", name: "Confidence of the prediction", value: (g) => predictionOf(g)[report.predicted[g]] }
    : { group: "Graph", name: "Predicted value", value: (g) => predictionOf(g)[0] },
  { group: "Graph", name: `Number of ${WORDS.node}s`, value: (g) => report.nodes[g] },
  { group: "Graph", name: `Number of ${WORDS.edge}s`, value: (g) => report.edges[g] },
  ...(report.y && !report.classes ? [{ group: "Graph", name: "Error of the prediction", value: (g) => Math.abs(report.y[g] - predictionOf(g)[0]) }] : []),
  ...Object.entries(report.metrics).map(([name, values]) => ({ group: "Graph", name, value: (g) => values[g] })),
  ...report.shown.flatMap((explainer) => [
    ...(explainer.verdicts ? [{ group: explainer.name, name: "Verdict", value: (g) => RANKS[explainer.verdicts[g]] ?? NaN }] : []),
    ...Object.entries(explainer.metrics).map(([name, values]) => ({ group: explainer.name, name, value: (g) => values[g] })),
    { group: explainer.name, name: `Fidelity−: change with these ${WORDS.unit}s alone`, value: (g) => change(g, partOf(explainer.alone, g, state.steps[g])) },
    { group: explainer.name, name: "Fidelity+: change without them", value: (g) => change(g, partOf(explainer.without, g, state.steps[g])) },
  ]),
];

/** Made once: it compares much faster than texts do themselves. */
const COLLATOR = new Intl.Collator("en", { numeric: true });
/** Names and predictions as they are searched. */
const lowered = report.names.map((name, g) => `${name}\n${report.classes ? report.classes[report.predicted[g]] : ""}`.toLowerCase());

/** NaN comes last, whatever the direction. */
function compare(a, b) {
  if (typeof a === "string") return COLLATOR.compare(a, b) * (state.descending ? -1 : 1);
  if (Number.isNaN(a) || Number.isNaN(b)) return Number(Number.isNaN(a)) - Number(Number.isNaN(b));
  return (a - b) * (state.descending ? -1 : 1);
}

/** Whether a graph is looked for: SMILES are compared letter by letter, other texts are not. */
function matches(graph, query, lower) {
  return !query || lowered[graph].includes(lower) || (report.smiles[graph] ?? "").includes(query);
}

function isShown(graph, chosen) {
  if (chosen === "") return true;
  if (chosen === "wrong") return report.y[graph] !== report.predicted[graph];
  return report.predicted[graph] === Number(chosen);
}

/** Filters and sorts anew, and shows the first page; `same` if only the order may have changed. */
function refresh(same = false) {
  const query = byId("search").value.trim();
  const lower = query.toLowerCase();
  const chosen = byId("predicted").value;
  const { value } = sorts[Number(byId("sort").value)];
  const keyed = [];
  const counts = new Map(report.shown.map((explainer) => [explainer, {}]));
  for (let graph = 0; graph < report.count; graph++) {
    if (!isShown(graph, chosen) || !matches(graph, query, lower)) continue;
    for (const [explainer, count] of counts) {
      const verdict = explainer.verdicts?.[graph];
      if (verdict) count[verdict] = (count[verdict] ?? 0) + 1;
    }
    if (!state.verdict || state.verdict.explainer.verdicts[graph] === state.verdict.verdict) keyed.push({ graph, key: value(graph) });
  }
  keyed.sort((a, b) => compare(a.key, b.key) || a.graph - b.graph);
  state.order = keyed.map(({ graph }) => graph);
  byId("scope").textContent = keyed.length === report.count ? "" : `About the ${counted(keyed.length, WORDS.graph)} found below.`;
  if (!same) showEvidence(state.order, counts, state.verdict);
  if (!same && byId("other").open) showDeletion(state.steps, state.order);
  showPage(0);
}

/** Shows graphs of one verdict only, or all again. */
function chooseVerdict(explainer, verdict) {
  const same = state.verdict?.explainer === explainer && state.verdict.verdict === verdict;
  state.verdict = same ? null : { explainer, verdict };
  refresh();
}

function pages() {
  return Math.max(1, Math.ceil(state.order.length / perPage));
}

function showPage(page) {
  state.page = Math.max(0, Math.min(page, pages() - 1));
  const graphs = state.order.slice(state.page * perPage, (state.page + 1) * perPage);
  cards = graphs.map((graph) => buildCard(graph, state.steps[graph], setStep));
  watcher.disconnect();
  byId("list").replaceChildren(...cards.map((card) => card.element));
  cards.slice(0, DRAWN_AT_ONCE).forEach((card) => card.draw());
  cards.slice(DRAWN_AT_ONCE).forEach((card) => watcher.observe(card.element));
  const total = counted(report.count, WORDS.graph);
  byId("status").textContent = state.order.length === report.count ? total
    : state.order.length ? `${state.order.length.toLocaleString("en")} of ${total}` : `No ${WORDS.graph} matches; there are ${total}.`;
  byId("page").textContent = `Page ${state.page + 1} of ${pages()}`;
  byId("previous").disabled = state.page === 0;
  byId("next").disabled = state.page === pages() - 1;
}

function turnPage(by) {
  const before = state.page;
  showPage(state.page + by);
  if (state.page === before) return;
  cards[0]?.element.focus({ preventScroll: true });
  byId("list").scrollIntoView({ block: "start" });
}

/** Shows the graph that the address names, as in #graph-17; one that is filtered away is found again. */
function followAddress() {
  if (followTab(location.hash)) return;
  const graph = Number(/^#graph-(\d+)$/.exec(location.hash)?.[1] ?? NaN);
  if (!(graph < report.count)) return;
  openTab("graphs");
  if (!state.order.includes(graph)) {
    byId("search").value = byId("predicted").value = "";
    state.verdict = null;
    refresh();
  }
  const page = Math.floor(state.order.indexOf(graph) / perPage);
  if (page !== state.page) showPage(page);
  const card = cards.find((one) => one.graph === graph);
  card.draw();
  card.element.focus({ preventScroll: true });
  card.element.scrollIntoView({ block: "start" });
}

function setStep(card, step) {
  state.steps[card.graph] = Math.max(0, Math.min(step, report.stepCounts[card.graph] - 1));
  card.update(state.steps[card.graph]);
}

/** Sets every slider to the size of its region; to nothing where something missing decides. */
function startAtRegions() {
  const { pooled } = report.shown.find((one) => one.pooled);
  for (let graph = 0; graph < report.count; graph++) {
    const first = report.nodeStart[graph];
    const inside = pooled.subarray(first, report.nodeStart[graph + 1]);
    const ends = report.ends.subarray(2 * report.edgeStart[graph], 2 * report.edgeStart[graph + 1]);
    let size = 0;
    if (report.atoms) for (const one of inside) size += one;
    else for (let e = 0; e < ends.length; e += 2) size += inside[ends[e]] & inside[ends[e + 1]];
    state.steps[graph] = stepNear(graph, size / report.units[graph] || 0);
  }
  byId("share-value").textContent = "as many as in each region";
}

/** Sets all sliders to a share of the edges. */
function setShare(share) {
  byId("share").value = String(Math.round(100 * share));
  byId("share-value").textContent = percent(share, 0);
  for (let graph = 0; graph < report.count; graph++) state.steps[graph] = stepNear(graph, share);
  for (const card of cards) card.update(state.steps[card.graph]);
  if (byId("other").open) showDeletion(state.steps, state.order);
}

function focusCard(by) {
  const at = cards.findIndex((card) => card.element.contains(document.activeElement));
  const next = cards[at < 0 ? 0 : Math.max(0, Math.min(at + by, cards.length - 1))];
  next?.element.focus();
  next?.element.scrollIntoView({ block: "nearest" });
}

/** Keys that act on the card in focus; true if one did. */
function onCardKey(key) {
  const card = cards.find((one) => one.element === document.activeElement);
  const by = { ArrowLeft: -1, ArrowRight: 1 }[key];
  if (!card) return false;
  if (by) setStep(card, state.steps[card.graph] + by);
  else if (key === "ArrowDown") focusCard(1);
  else if (key === "ArrowUp") focusCard(-1);
  else if (key === "Enter") location.hash = card.element.id;
  return Boolean(by) || ["ArrowDown", "ArrowUp", "Enter"].includes(key);
}

const KEYS = {
  "/": () => byId("search").focus(),
  j: () => focusCard(1),
  k: () => focusCard(-1),
  n: () => turnPage(1),
  p: () => turnPage(-1),
  g: () => byId("truth").click(),
  t: () => (cards.find((card) => card.element.contains(document.activeElement)) ?? cards[0])?.prove(),
  "?": () => { byId("help").open = !byId("help").open; },
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const typing = event.target.matches?.("input[type=search], select");
  if (typing && event.key === "Escape") {
    if (event.target.id === "search") {
      event.target.value = "";
      refresh();
    }
    event.target.blur();
  }
  if (typing || currentTab() !== "graphs") return;
  if (onCardKey(event.key)) event.preventDefault();
  else if (KEYS[event.key]) {
    event.preventDefault();
    KEYS[event.key]();
  }
});

/** Light or dark: as the system says until someone chooses. */
function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = theme === "dark" ? "◐ Light" : "◐ Dark";
  byId("theme").setAttribute("aria-label", theme === "dark" ? "Use light colours" : "Use dark colours");
}

function startTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try { chosen = localStorage.getItem("hpme-theme"); } catch { /* some browsers forbid it in files */ }
  setTheme(chosen === "dark" || chosen === "light" ? chosen : system.matches ? "dark" : "light");
  system.addEventListener("change", () => { if (!chosen) setTheme(system.matches ? "dark" : "light"); });
  byId("theme").addEventListener("click", () => {
    chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    setTheme(chosen);
    try { localStorage.setItem("hpme-theme", chosen); } catch { /* as above */ }
  });
}

function fillChoices() {
  const count = (chosen) => report.predicted.reduce((n, _, graph) => n + Number(isShown(graph, chosen)), 0);
  const option = (value, text) => el("option", { value }, text);
  if (report.classes) {
    byId("predicted").append(option("", "anything"),
      ...report.classes.map((name, i) => option(String(i), `${name} (${count(String(i))})`)));
    if (report.y) byId("predicted").append(option("wrong", `wrong (${count("wrong")})`));
  } else {
    byId("predicted").append(option("", "anything"));
    byId("predicted").parentElement.hidden = true;
  }
  const groups = new Map();
  sorts.forEach(({ group, name }, i) => {
    if (!groups.has(group)) groups.set(group, el("optgroup", { label: group }));
    const text = group === "Graph" || report.shown.length === 1 ? name : `${name} (${group})`;
    groups.get(group).append(option(String(i), text));
  });
  byId("sort").append(...groups.values());
}

function fillLegend() {
  const item = (name, text) => el("span", {}, el("i", { class: `key ${name}` }), text);
  const shape = (type) => svg("svg", { class: "key type", viewBox: "-8 -8 16 16", "aria-hidden": "true" },
    svg("g", { class: "node" }, typedNode(0, 0, 4.4, type)[0]));
  document.body.classList.toggle("typed", Boolean(report.types));
  const directed = report.shown.some((e) => e.direction);
  byId("legend").append(
    ...(directed ? [item("raises", "raises the output"), item("lowers", "lowers it")] : []),
    ...(report.atoms ? [item("neutral", directed ? "neither clearly" : "by score")] : [item("kept", `${WORDS.edge} with a high score`)]),
    ...(report.types ?? []).map((name, type) => el("span", { class: "type-name" }, shape(type), name)),
    ...(report.shown.some((e) => e.pooled) ? [item("pooled", "the region")] : []),
    ...(report.shown.some((e) => e.rest) ? [item("rest", `${WORDS.node}s it relies on`)] : []),
    ...(report.truth ? [item("truth", "ground truth")] : []));
}

function setDirection(descending) {
  state.descending = descending;
  byId("direction").textContent = descending ? "↓ high first" : "↑ low first";
  byId("direction").setAttribute("aria-label", descending ? "Sorted from high to low" : "Sorted from low to high");
}

function start() {
  byId("title").textContent = report.title;
  const explainers = report.shown.map((explainer) => explainer.name).join(", ");
  byId("facts").textContent = `${counted(report.count, WORDS.graph)} · model ${report.model} · explained by ${explainers}`;
  byId("footer").textContent = `Written by hpme ${report.version}. Everything is in this file; nothing is loaded or sent.`;
  document.body.style.setProperty("--explainers", String(report.shown.length));
  if (report.count > 1) buildHero(byId("hero"));
  buildHelp(byId("help-text"));
  buildInsight();
  fillChoices();
  fillLegend();
  setDirection(false);
  startTheme();
  if (report.keep === null && report.shown.some((one) => one.pooled)) startAtRegions();
  else setShare(report.keep ?? 0.2);
  byId("share").addEventListener("input", () => setShare(Number(byId("share").value) / 100));
  byId("other").addEventListener("toggle", () => showDeletion(state.steps, state.order));
  byId("unit").textContent = report.atoms ? "Atoms" : report.molecules ? "Bonds" : "Edges";
  byId("search").addEventListener("input", () => refresh());
  byId("predicted").addEventListener("change", () => refresh());
  byId("sort").addEventListener("change", () => refresh(true));
  byId("direction").addEventListener("click", () => { setDirection(!state.descending); refresh(true); });
  byId("previous").addEventListener("click", () => turnPage(-1));
  byId("next").addEventListener("click", () => turnPage(1));
  byId("truth").hidden = !report.truth;
  byId("truth").addEventListener("click", () => {
    const on = document.body.classList.toggle("with-truth");
    byId("truth").setAttribute("aria-pressed", String(on));
  });
  byId("csv").addEventListener("click", () => (
    saveFile(fileName(report.title) + ".csv", "text/csv", csvText(state.order, state.steps))));
  addEventListener("hashchange", followAddress);
  addEventListener("beforeprint", () => cards.forEach((card) => card.draw()));
  refresh();
  if (report.count === 1) showAlone();
  followAddress();
}

/** A page of a single graph begins with it and its proof; there is nothing to find. */
function showAlone() {
  document.body.classList.add("alone");
  byId("view-graphs").prepend(byId("list"), byId("legend"));
  cards[0].prove();
}

start();
