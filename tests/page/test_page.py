"""The page: its numbers are those of the model, its texts are texts, and it is alone."""

import base64
import hashlib
import re

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.explain import Explanation

from hpme.errors import InputError, ModelError
from hpme.explainers.hpme.quality import Quality
from hpme.explainers.hpme.report import ClassEffect, FitReport
from hpme.page.entries import sizes_of
from hpme.viz import write_page
from pages import Counter, cycle, decode, explain, page_data, with_truth

NO_EFFECT = (ClassEffect("class 0", 40, 0.05, -0.1, 0.2, 0.3),)
FULL = (ClassEffect("class 0", 40, 0.9, 0.8, 1.0, 0.0005),)
NASTY = [
    "<script>alert(1)</script>",
    "</script><img src=x>",
    "a\u2028b\u2029c & 'd' \"e\"",
    "{{data}}",
]


def make(path, graphs=None, model=None, **options):
    graphs = [cycle(5), cycle(8, 3, seed=1)] if graphs is None else graphs
    explanations = options.pop("explanations", {"mine": [explain(graph) for graph in graphs]})
    return write_page(model or Counter(), graphs, explanations, path / "r.html", **options)


def undirected(graph, explanation):
    """Pairs of nodes with their mean scores, the highest first."""
    found = {}
    for (a, b), score in zip(
        graph.edge_index.t().tolist(), explanation.edge_mask.tolist(), strict=True
    ):
        if a != b:
            found.setdefault((min(a, b), max(a, b)), []).append(score)
    return sorted(found, key=lambda pair: -np.mean(found[pair]))


def delete_all_but(graph, pairs):
    """The graph with the given pairs and its self-loops."""
    keep = [a == b or (min(a, b), max(a, b)) in pairs for a, b in graph.edge_index.t().tolist()]
    attributes = {"edge_index": graph.edge_index[:, keep]}
    if "edge_weight" in graph:
        attributes["edge_weight"] = graph.edge_weight[keep]
    return Data(x=graph.x, **attributes)


def forward(model, graph):
    batch = torch.zeros(graph.num_nodes, dtype=torch.long)
    weight = {"edge_weight": graph.edge_weight} if "edge_weight" in graph else {}
    with torch.no_grad():
        return model(graph.x, graph.edge_index, batch, **weight)[0]


def check_parts(path, model, graphs, explanations, meaning, tolerance):
    """Compares every number of every slider with a forward pass of its own."""
    data = page_data(path)
    entry = next(e for e in data["explainers"] if not e["baseline"])
    kept, counts = decode(data["steps"]), decode(data["stepCounts"])
    starts = np.cumsum(counts) - counts
    width = len(data["classes"] or [0])
    alone, without = (decode(entry[n]).reshape(-1, width) for n in ("alone", "without"))
    whole = decode(data["prediction"]).reshape(-1, width)
    for number, (graph, explanation) in enumerate(zip(graphs, explanations, strict=True)):
        pairs = undirected(graph, explanation)
        assert np.allclose(whole[number], meaning(forward(model, graph)), atol=tolerance)
        rows = range(int(starts[number]), int(starts[number]) + int(counts[number]))
        assert kept[rows[0]] == 0 and kept[rows[-1]] == len(pairs)
        for row in rows:
            chosen = set(pairs[: int(kept[row])])
            rest = set(pairs) - chosen
            for values, part in ((alone[row], chosen), (without[row], rest)):
                expected = meaning(forward(model, delete_all_but(graph, part)))
                assert np.allclose(values, expected, atol=tolerance)


def test_slider_numbers_are_forward_passes_on_edge_deleted_graphs(tmp_path):
    loops = torch.tensor([[0, 3], [0, 3]])
    odd = cycle(7, 2, seed=2)
    odd.edge_index = torch.cat([odd.edge_index[:, 1:], loops], dim=1)  # one edge in one direction
    graphs = [cycle(5), cycle(12, 9, seed=1), odd]
    explanations = [explain(graph, seed) for seed, graph in enumerate(graphs)]
    model = Counter(3)
    path = make(tmp_path, graphs, model, explanations=explanations, steps=6)
    check_parts(path, model, graphs, explanations, lambda out: out.softmax(0), 1e-4)


def test_own_edge_weights_go_with_their_edges(tmp_path):
    graphs = [cycle(6, 2, edge_weight=torch.linspace(0.1, 2, 16))]
    explanations = [explain(graphs[0])]
    model = Counter()
    path = make(tmp_path, graphs, model, explanations=explanations)
    check_parts(path, model, graphs, explanations, lambda out: out.softmax(0), 1e-4)


@pytest.mark.parametrize(
    ("mode", "meaning"),
    [
        ("regression", lambda out: out),
        (
            "binary_classification",
            lambda out: torch.stack([1 - out.sigmoid(), out.sigmoid()])[:, 0],
        ),
    ],
)
def test_one_output(tmp_path, mode, meaning):
    graphs = [cycle(5), cycle(9, 3, seed=1)]
    explanations = [explain(graph) for graph in graphs]
    model = Counter(1)
    path = make(tmp_path, graphs, model, explanations=explanations, mode=mode)
    check_parts(path, model, graphs, explanations, meaning, 1e-4)
    assert (page_data(path)["classes"] is None) == (mode == "regression")
    with pytest.raises(InputError, match="mode='regression'"):
        make(tmp_path, graphs, model)


def test_sizes_are_all_small_ones_then_ever_larger_steps():
    kept, counts = sizes_of(torch.tensor([0, 3, 20, 500]), 20)
    parts = [part.tolist() for part in kept.split(counts.tolist())]
    assert parts[0] == [0]
    assert parts[1] == [0, 1, 2, 3]
    assert parts[2] == list(range(21))
    assert len(parts[3]) == 21 and parts[3][0] == 0 and parts[3][-1] == 500
    steps = np.diff(parts[3])
    assert steps[0] == 1 and (steps > 0).all() and (np.diff(steps) >= -1).all()


def test_ranks_and_scores(tmp_path):
    graph = cycle(6, 2)
    explanation = explain(graph)
    data = page_data(make(tmp_path, [graph], explanations=[explanation]))
    entry = data["explainers"][0]
    ends = decode(data["ends"]).reshape(-1, 2)
    by_rank = [tuple(ends[i]) for i in np.argsort(decode(entry["rank"]))]
    assert by_rank == undirected(graph, explanation)
    scores = decode(entry["score"])[np.argsort(decode(entry["rank"]))]
    assert (np.diff(scores) <= 0).all()
    assert data["explainers"][1]["baseline"] and data["explainers"][1]["name"] == "random edges"
    assert sorted(decode(data["explainers"][1]["rank"])) == list(range(8))


def test_scores_that_are_no_numbers_come_last(tmp_path):
    graph = cycle(5)
    explanation = explain(graph)
    explanation.edge_mask[3] = torch.nan
    entry = page_data(make(tmp_path, [graph], explanations=[explanation]))["explainers"][0]
    assert entry["broken"] == 1
    assert np.isnan(decode(entry["score"])[np.argmax(decode(entry["rank"]))])


def test_texts_stay_texts(tmp_path):
    graphs = [cycle(4 + i, name=name, smiles=name) for i, name in enumerate(NASTY)]
    path = make(
        tmp_path,
        graphs,
        explanations={NASTY[0]: [explain(graph) for graph in graphs]},
        title=NASTY[1],
        class_names=[NASTY[2], NASTY[1]],
        metrics={NASTY[0]: [1.0] * len(graphs)},
    )
    data = page_data(path)
    assert data["names"] == data["smiles"] == NASTY
    assert data["title"] == NASTY[1]
    assert data["explainers"][0]["name"] == NASTY[0]
    text = path.read_text(encoding="utf-8")
    assert text.count("<script") == text.count("</script>") == 2  # data and program
    assert "alert(1)</script>" not in text and "<img" not in text
    embedded = re.search(r'<script id="data"[^>]*>(.*?)</script>', text, re.S)[1]
    assert not set("<>&\u2028\u2029") & set(embedded)
    assert "&lt;/script&gt;&lt;img src=x&gt;</title>" in text


def test_nothing_is_loaded_and_only_its_own_script_may_run(tmp_path):
    text = make(tmp_path).read_text(encoding="utf-8")
    outside = re.sub(r'<script id="data".*?</script>', "", text, flags=re.S)
    assert re.findall(r"https?:", outside) == ["http:"]  # the name of SVG, not an address
    assert 'const SVG = "http://www.w3.org/2000/svg"' in outside
    assert not re.search(r"\bsrc=|@import|url\(|innerHTML|eval\(|fetch\(|<link|\son\w+=", outside)
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert policy.startswith("default-src 'none'; ")
    for tag, rule in (('script type="module"', "script-src"), ("style", "style-src")):
        content = re.search(f"<{tag}>(.*?)</{tag.split()[0]}>", text, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{rule} 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_ground_truth_where_there_is_some(tmp_path):
    graphs = [with_truth(cycle(5)), cycle(6), with_truth(cycle(7, 2, seed=3))]
    perfect = [
        Explanation(edge_index=g.edge_index, edge_mask=g.get("edge_mask", torch.rand(12)).float())
        for g in graphs
    ]
    data = page_data(make(tmp_path, graphs, explanations=perfect))
    assert decode(data["truth"]["graph"]).tolist() == [1, 0, 1]
    assert decode(data["truth"]["pair"]).sum() == 2
    auc = decode(data["explainers"][0]["metrics"]["AUC"])
    assert auc[0] == auc[2] == 1 and np.isnan(auc[1])
    without = page_data(make(tmp_path))
    assert without["truth"] is None and without["explainers"][0]["metrics"] == {}


def test_quality_and_given_metrics(tmp_path):
    graphs = [cycle(5), cycle(6)]
    explanations = [explain(graphs[0], quality={"stability": 0.5}), explain(graphs[1])]
    data = page_data(
        make(tmp_path, graphs, explanations=explanations, metrics={"weight": [1, float("nan")]})
    )
    stability = decode(data["explainers"][0]["metrics"]["stability"])
    assert stability[0] == 0.5 and np.isnan(stability[1])
    assert decode(data["metrics"]["weight"])[0] == 1


def test_quality_as_the_explainer_gives_it(tmp_path):
    graphs = [cycle(5), cycle(8)]
    carried = Quality("carried", *[0.5] * 15, size=3)
    absent = Quality("absence", *[0.0] * 15, size=2)
    explanations = [explain(graphs[0], quality=carried), explain(graphs[1], quality=absent)]
    (mine, _) = page_data(make(tmp_path, graphs, explanations={"mine": explanations}))["explainers"]
    assert mine["verdicts"] == ["carried", "absence"]
    assert mine["sentences"] == [carried.sentence(), absent.sentence()]
    assert {"carried", "lost", "effect", "stable"} <= set(mine["metrics"])


def test_sliders_begin_at_the_pooled_nodes_or_at_a_share(tmp_path):
    graph = cycle(10)
    pooled = torch.arange(10) < 4
    explanations = [explain(graph, pooled=pooled)]
    data = page_data(make(tmp_path, [graph], explanations=explanations))
    assert data["keep"] is None
    assert decode(data["explainers"][0]["pooled"]).tolist() == pooled.long().tolist()
    assert page_data(make(tmp_path, keep=0.5))["keep"] == 0.5


def test_fit_reports_in_words(tmp_path):
    weak = FitReport(0.9, 0.95, 0.8, 1.1, 0.3, NO_EFFECT, 40, True, 0.1, 0.2, "somewhere")
    data = page_data(make(tmp_path, reports={"mine": weak}))
    entry = data["explainers"][0]
    assert entry["good"] is False and entry["warnings"] == weak.warnings
    assert "random regions score 0.95" in entry["evidence"] and "agree" in entry["evidence"]
    good = FitReport(0.1, 0.95, 0.05, 0.2, 0.0005, FULL, 40, True, None, 0.2, "somewhere")
    entry = page_data(make(tmp_path, reports={"mine": good}))["explainers"][0]
    assert entry["good"] is True and "agree" not in entry["evidence"]
    entry = page_data(make(tmp_path))["explainers"][0]
    assert entry["good"] is None and entry["evidence"] is None


def test_names_labels_and_one_graph_without_edges(tmp_path):
    lonely = Data(x=torch.ones(2, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))
    graphs = [lonely, cycle(5)]
    for i, graph in enumerate(graphs):
        graph.y = torch.tensor([i])
    data = page_data(make(tmp_path, graphs))
    assert data["names"] == ["graph 0", "graph 1"]
    assert decode(data["y"]).tolist() == [0, 1]
    assert decode(data["stepCounts"]).tolist() == [1, 6]
    assert data["classes"] == ["class 0", "class 1"]
    data = page_data(make(tmp_path, graphs, names=["a", "b"], class_names=["no", "yes"]))
    assert data["names"] == ["a", "b"] and data["classes"] == ["no", "yes"]


def test_molecules_are_drawn_as_molecules(tmp_path):
    pytest.importorskip("rdkit", reason="molecules need RDKit: pip install 'hpme[chem]'")
    from hpme.data import from_smiles

    smiles = ["NCC(=O)O", "c1ccccc1", "C[C@H](F)Cl", "[Na+].C", "C#N"]
    graphs = list(from_smiles(smiles, rules={"any": "*"}))
    for graph in graphs:
        graph.x, graph.edge_attr = graph.x[:, :3].contiguous(), None
    graphs.append(cycle(5, smiles="not a molecule"))
    data = page_data(make(tmp_path, graphs))
    assert decode(data["molecule"]).tolist() == [1, 1, 1, 1, 1, 0]
    texts = [data["labels"][i][0] + data["labels"][i][1] for i in decode(data["label"])]
    assert texts[:5] == ["NH₂", "", "", "O", "OH"]
    assert texts[5:11] == [""] * 6
    assert sorted(texts[11:15]) == ["", "", "Cl", "F"]
    assert texts[15:17] == ["Na⁺", "CH₄"]
    bonds = decode(data["bond"]).tolist()
    assert sorted(bonds[:4]) == [1, 1, 1, 2]
    assert sorted(bonds[4:10])[:3] == [1, 1, 1]  # Kekulé: three single, three double
    assert set(bonds[4:10]) <= {1, 4, 5} and bonds[-5:] == [0] * 5
    assert {6, 7, 8, 9} & set(bonds[10:13])  # a stereo centre has a wedge
    assert bonds[13] == 3


def test_the_model_is_left_as_it_was(tmp_path):
    model = Counter().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    make(tmp_path, model=model)
    assert model.training and all(p.requires_grad for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_same_input_same_bytes(tmp_path):
    assert make(tmp_path).read_bytes() == make(tmp_path).read_bytes()


def test_wrong_arguments_are_refused_and_nothing_is_written(tmp_path):
    graphs = [cycle(5), cycle(6)]
    good = [explain(graph) for graph in graphs]
    empty = Data(x=torch.zeros(0, 3), edge_index=torch.zeros(2, 0, dtype=torch.long))
    cases = [
        ({"graphs": [], "explanations": []}, "no graphs"),
        ({"graphs": graphs, "explanations": {}}, "no explanations"),
        ({"graphs": graphs, "explanations": good[:1]}, "one explanation per graph"),
        ({"graphs": graphs, "explanations": good[::-1]}, "in the order of the graphs"),
        ({"graphs": [empty], "explanations": [explain(empty)]}, "has no nodes"),
        ({"graphs": graphs, "names": ["one"]}, "as many names"),
        ({"graphs": graphs, "class_names": ["one"]}, "as many class_names"),
        ({"graphs": graphs, "metrics": {"m": [1.0]}}, "as many values of metric 'm', got 1"),
        ({"graphs": graphs, "reports": {"other": None}}, "report of 'other'"),
        ({"graphs": graphs, "keep": 2.0}, "between 0 and 1"),
        ({"graphs": graphs, "steps": 0}, "at least 1"),
    ]
    for options, message in cases:
        with pytest.raises(InputError, match=message):
            make(tmp_path, **options)
    with pytest.raises(InputError, match=r"must end in \.html"):
        write_page(Counter(), graphs, good, tmp_path / "r.pdf")
    with pytest.raises(InputError, match="2 values per graph"):
        make(tmp_path, graphs, mode="regression")
    with pytest.raises(InputError, match="regression"):
        make(tmp_path, graphs, Counter(1), mode="regression", class_names=["a"])
    with pytest.raises(ModelError, match="expected"):
        write_page(torch.nn.Module, graphs, good, tmp_path / "r.html")
    assert list(tmp_path.iterdir()) == []
