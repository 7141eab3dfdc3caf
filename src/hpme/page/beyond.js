const CHANGES_PER_PAGE = 12;

/** An answer in words. */
function answerText(value) {
  if (value === null) return "no number";
  return report.classes ? report.classes[value] : decimal(value);
}

function changeFigure(graph, change) {
  const name = report.names[graph];
  const words = [counted(change.size, report.molecule[graph] ? "changed atom" : "changed node")];
  if (report.classes) words.push(`p ${change.outputs.map((one) => one.toFixed(2)).join(" → ")}`);
  if (change.similarity !== null) words.push(`similarity ${change.similarity.toFixed(2)}`);
  if (change.accessibility !== null) words.push(`accessibility ${change.accessibility.toFixed(1)} of 10`);
  return el("figure", { class: "change" },
    el("figcaption", {}, el("span", { class: "chip prediction" }, `→ ${answerText(change.after)}`),
      change.known ? el("span", { class: "chip" }, "you have this one already") : null,
      change.exchanged ? el("span", {}, change.exchanged.replace("->", "→")) : null,
      el("span", { class: "muted" }, words.join(" · "))),
    el("div", { class: "pair" },
      sketch(report, graph, change.removed, "gone", `${name}: what goes`),
      el("span", { class: "arrow", "aria-hidden": "true" }, "→"),
      sketch(report.drawn, change.graph, change.changed, "come", `${name}: what comes`)),
    change.smiles ? el("code", { class: "smiles", title: change.smiles }, change.smiles) : null);
}

function changeCard(graph, changes) {
  return el("li", { class: "card", id: `change-${graph}`, "data-graph": graph, "aria-label": report.names[graph] },
    el("div", { class: "line" },
      el("h3", {}, el("a", { href: `#graph-${graph}`, title: "To the explanation of this graph" }, report.names[graph])),
      el("span", { class: "chip" }, answerText(report.classes ? report.predicted[graph] : predictionOf(graph)[0]))),
    ...changes.map((change) => changeFigure(graph, change)),
    changes.length ? null : el("p", { class: "muted" }, "Nothing was found that changes the answer."));
}

/** What would change the answer of each graph; returns what shows the page of a graph. */
function buildChanges(container, changes) {
  const order = changes.map((_, graph) => graph).sort((a, b) => Number(changes[b].length > 0) - Number(changes[a].length > 0) || a - b);
  const hits = changes.filter((some) => some.length).length;
  const sizes = changes.flatMap((some) => some.slice(0, 1).map((one) => one.size)).sort((a, b) => a - b);
  const pages = Math.ceil(order.length / CHANGES_PER_PAGE);
  const made = report.molecules ? "Groups were exchanged for those of other molecules" : "Small regions were replaced by regions of other real graphs";
  const list = el("ol", { class: "list changes" });
  const text = el("span", { class: "muted" });
  const button = (name, by) => {
    const element = el("button", { type: "button", class: "plain" }, name);
    element.addEventListener("click", () => { show(page + by); list.scrollIntoView({ block: "start" }); });
    return element;
  };
  const [previous, next] = [button("Previous", -1), button("Next", 1)];
  let page = 0;
  function show(to) {
    page = Math.max(0, Math.min(to, pages - 1));
    const graphs = order.slice(page * CHANGES_PER_PAGE, (page + 1) * CHANGES_PER_PAGE);
    list.replaceChildren(...graphs.map((graph) => changeCard(graph, changes[graph])));
    text.textContent = `Page ${page + 1} of ${pages}`;
    previous.disabled = page === 0;
    next.disabled = page === pages - 1;
  }
  const middle = sizes.length ? ` The smallest change is of ${counted(sizes[sizes.length >> 1], WORDS.node)} at the median, what goes and what comes together.` : "";
  const item = (name, words) => el("span", {}, el("i", { class: `key ${name}` }), words);
  container.append(
    el("section", { class: "trust", "aria-labelledby": "changes-title" },
      el("h2", { id: "changes-title" }, "What would change the answer"),
      el("p", {}, `${made} until the model’s answer changed: found for ${hits.toLocaleString("en")} of ${counted(changes.length, WORDS.graph)}.${middle} This is what the model would answer, which need not be true of the ${WORDS.graph}s.`),
      el("div", { class: "legend" }, item("gone", "goes"), item("come", `comes from another ${WORDS.graph}`))),
    list,
    el("nav", { class: "pager", "aria-label": "Pages of changes", hidden: pages < 2 }, previous, text, next));
  show(0);
  return (graph) => show(Math.floor(order.indexOf(graph) / CHANGES_PER_PAGE));
}

/** Verdicts of an audit in words. */
const AUDITS = {
  "reads it": "What should matter moves the predictions.",
  "reads the other": "What should not matter moves the predictions, and what should does not.",
  "reads both": "Both patterns move the predictions.",
  "needs both": "The predictions need both patterns together; neither is enough.",
  "reads neither": "Neither pattern moves the predictions.",
  "cannot tell": "The intervals are too wide, or random fragments do as much; give more graphs.",
  "one prediction only": "The model gives all graphs the same class, so nothing can be said.",
  "too few graphs": "A pattern is in too few graphs to say anything.",
};

/** An average effect with its interval, and what random fragments do. */
function effectCell(one, strong) {
  if (!one) return el("td", { class: "muted" }, "not possible");
  const span = (values) => values[1] === null ? signedNumber(values[0])
    : `${signedNumber(values[0])} [${signedNumber(values[1])}, ${signedNumber(values[2])}]`;
  return el("td", { class: strong ? "strong" : "" }, span(one.effect),
    el("br"), el("span", { class: "muted" }, one.control[0] === null ? "no random fragment fits" : `random ${span(one.control)}`));
}

function evidenceRow(role, one) {
  return el("tr", {}, el("th", { scope: "row" }, role, el("br"), el("code", {}, one.name)),
    el("td", {}, one.graphs.toLocaleString("en")),
    el("td", {}, report.classes && Number.isInteger(one.prediction) ? answerText(one.prediction) : decimal(one.prediction ?? NaN)),
    effectCell(one.inserted, one.enough), effectCell(one.removed, one.needed), effectCell(one.replaced, one.needed));
}

/** Whether the model reads what it should. */
function buildAudit(container, audit) {
  const head = ["Pattern", "Graphs with it", "Their prediction", "Put in alone", "Beside hydrogens", "Beside neutral fragments"];
  const alone = audit.should_not === null && audit.verdict === "reads neither";
  container.append(el("section", { class: "trust", "aria-labelledby": "audit-title" },
    el("h2", { id: "audit-title" }, "Does the model read what it should?"),
    el("p", { class: "verdict-line" }, el("span", { class: audit.passed && !audit.warning ? "badge good" : "badge care" }, audit.verdict),
      ` ${alone ? "The pattern does not move the predictions." : AUDITS[audit.verdict] ?? ""} All effects are averages: in single graphs they may differ.`),
    audit.warning ? el("p", { class: "warning" }, `Careful: ${audit.warning}.`) : null,
    el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, evidenceRow("should matter", audit.should),
        audit.should_not ? evidenceRow("should not", audit.should_not) : null))),
    el("p", { class: "muted" }, `Averages over graphs of how much higher the output for their prediction is with the pattern, with 95 % intervals, and the same for random fragments as large. Put in alone: into graphs of other predictions that have neither pattern. Beside: its own graphs beside the same with something else in its place. A pattern is read (bold) if the interval lies beyond ${decimal(audit.should.bound)} and random fragments do less; it is not if the interval lies inside.`)));
}

const TABS = [["rules", "Rules"], ["changes", "What would change it"], ["audit", "Audit"], ["graphs", "Explanations"]];
let showChange = null;

/** The tab in view: pages without any have the list of graphs, and what would change a single one below it. */
function currentTab() {
  return byId("tabs").hidden ? "graphs" : TABS.find(([name]) => !byId(`view-${name}`).hidden)[0];
}

function openTab(opened) {
  if (byId("tabs").hidden) return;
  for (const [name] of TABS) {
    byId(`view-${name}`).hidden = name !== opened;
    const tab = byId(`tab-${name}`);
    tab?.setAttribute("aria-selected", String(name === opened));
    tab?.setAttribute("tabindex", name === opened ? "0" : "-1");
  }
}

/** Builds what the page holds beyond its graphs, and tabs to choose from. */
function buildInsight() {
  const found = report.insight;
  if (!found) return;
  if (found.rules) buildRules(byId("view-rules"), found.rules);
  if (found.changes?.every(Boolean)) showChange = buildChanges(byId("view-changes"), found.changes);
  if (found.audit) buildAudit(byId("view-audit"), found.audit);
  if (report.count === 1 && showChange && !found.rules && !found.audit) {
    byId("view-graphs").after(byId("view-changes"));
    byId("view-changes").hidden = false;
    return;
  }
  const there = TABS.filter(([name]) => name === "graphs" || (name === "changes" ? showChange : found[name]));
  if (there.length < 2) return;
  byId("view-graphs").setAttribute("role", "tabpanel");
  byId("view-graphs").setAttribute("aria-labelledby", "tab-graphs");
  byId("tabs").hidden = false;
  byId("tabs").append(...there.map(([name, text]) => {
    const tab = el("button", { type: "button", id: `tab-${name}`, role: "tab", "aria-controls": `view-${name}` }, text);
    tab.addEventListener("click", () => { history.replaceState(null, "", `#${name}`); openTab(name); });
    return tab;
  }));
  byId("tabs").addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    const at = there.findIndex(([name]) => name === currentTab());
    const [name] = there[(at + by + there.length) % there.length];
    byId(`tab-${name}`).focus();
    byId(`tab-${name}`).click();
    event.preventDefault();
  });
  openTab(there[0][0]);
}

/** Opens what an address names, as in #rules or #change-17; true if it named a tab. */
function followTab(hash) {
  const change = Number(/^#change-(\d+)$/.exec(hash)?.[1] ?? NaN);
  if (showChange && change < report.count) {
    openTab("changes");
    showChange(change);
    byId(`change-${change}`).scrollIntoView({ block: "start" });
    return true;
  }
  const name = hash === "#list" ? "graphs" : hash.slice(1);
  const known = byId(`tab-${name}`) !== null;
  if (known) openTab(name);
  return known;
}
