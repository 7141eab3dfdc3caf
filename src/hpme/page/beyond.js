const CHANGES_PER_PAGE = 12;

/** An answer in words. */
function answerText(value) {
  if (value === null) return "no number";
  return report.classes ? report.classes[value] : decimal(value);
}

function changeFigure(graph, change) {
  const name = report.names[graph];
  const near = change.similarity === null ? "" : ` · similarity ${change.similarity.toFixed(2)}`;
  return el("figure", { class: "change" },
    el("figcaption", {}, el("span", { class: "chip prediction" }, `→ ${answerText(change.after)}`),
      el("span", { class: "muted" }, `${counted(change.size, report.molecule[graph] ? "changed atom" : "changed node")}${near}`)),
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
  const middle = sizes.length ? ` The smallest change is of ${counted(sizes[sizes.length >> 1], "node")} at the median, what goes and what comes together.` : "";
  const item = (name, words) => el("span", {}, el("i", { class: `key ${name}` }), words);
  container.append(
    el("section", { class: "trust", "aria-labelledby": "changes-title" },
      el("h2", { id: "changes-title" }, "What would change the answer"),
      el("p", {}, `Small regions were replaced by regions of other real graphs until the model’s answer changed: found for ${hits.toLocaleString("en")} of ${counted(changes.length, "graph")}.${middle}`),
      el("div", { class: "legend" }, item("gone", "goes"), item("come", "comes from another graph"))),
    list,
    el("nav", { class: "pager", "aria-label": "Pages of changes", hidden: pages < 2 }, previous, text, next));
  show(0);
  return (graph) => show(Math.floor(order.indexOf(graph) / CHANGES_PER_PAGE));
}

/** Verdicts of an audit in words. */
const AUDITS = {
  "reads it": "The predictions rest on what should matter.",
  "reads the other": "The predictions rest on what should not matter.",
  "reads both": "Each of the two patterns is enough for the prediction.",
  "needs both": "The predictions need both patterns together; neither is enough.",
  "reads neither": "Neither pattern carries the predictions.",
  "one prediction only": "The model gives all graphs the same class, so nothing can be said.",
  "too few graphs": "A pattern is in too few graphs to say anything.",
};

function evidenceRow(role, one) {
  const number = (value, strong) => el("td", { class: strong ? "strong" : "" }, signedNumber(value));
  return el("tr", {}, el("th", { scope: "row" }, role, el("br"), el("code", {}, one.name)),
    el("td", {}, one.graphs.toLocaleString("en")),
    el("td", {}, report.classes && Number.isInteger(one.prediction) ? answerText(one.prediction) : decimal(one.prediction ?? NaN)),
    number(one.inserted, one.enough), number(one.lost, one.needed));
}

/** Whether the model reads what it should. */
function buildAudit(container, audit) {
  const head = ["Pattern", "Graphs with it", "Their prediction", "Put into others", "Replaced"];
  const alone = audit.should_not === null && audit.verdict === "reads neither";
  container.append(el("section", { class: "trust", "aria-labelledby": "audit-title" },
    el("h2", { id: "audit-title" }, "Does the model read what it should?"),
    el("p", { class: "verdict-line" }, el("span", { class: audit.passed ? "badge good" : "badge care" }, audit.verdict),
      ` ${alone ? "The pattern does not carry the predictions." : AUDITS[audit.verdict] ?? ""}`),
    el("div", { class: "scroll" }, el("table", {},
      el("thead", {}, el("tr", {}, ...head.map((text) => el("th", { scope: "col" }, text)))),
      el("tbody", {}, evidenceRow("should matter", audit.should),
        audit.should_not ? evidenceRow("should not", audit.should_not) : null))),
    el("p", { class: "muted" }, "Put into others: how much nearer its nodes bring graphs of other predictions to the prediction than as many random nodes do. Replaced: how far its own graphs move from the prediction without it, beyond random nodes. From 0.5 on (bold) a pattern counts as enough, or as needed.")));
}

const TABS = [["rules", "Rules"], ["changes", "What would change it"], ["audit", "Audit"], ["graphs", "Explanations"]];
let showChange = null;

/** The tab in view: pages without any have the list of graphs alone. */
function currentTab() {
  return TABS.find(([name]) => !byId(`view-${name}`).hidden)[0];
}

function openTab(opened) {
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
  if (found.changes) showChange = buildChanges(byId("view-changes"), found.changes);
  if (found.audit) buildAudit(byId("view-audit"), found.audit);
  const there = TABS.filter(([name]) => name === "graphs" || found[name]);
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
