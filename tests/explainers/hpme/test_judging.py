"""Masks of others by transplants, on a case where it is known what explains."""

import csv

import pytest
import torch
from torch_geometric.explain import Explanation as PyGExplanation

from finder import Finder
from hetero import make_graphs as make_hetero
from hetero import make_model
from hpme.data import GraphStore
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer, OcclusionExplainer
from hpme.explainers.hpme.evidence import degrees
from hpme.explainers.hpme.judging import named_masks, read_masks
from hpme.explainers.hpme.quality import trials_of
from hpme.explainers.hpme.transplants import Transplants
from hpme.graphs.hetero import flat_views


def truth(graph):
    return graph.x[:, 1]


def edges_of(graph):
    marked = truth(graph)
    return marked[graph.edge_index].prod(0)


@pytest.fixture(scope="module")
def judged(fitted, graphs):
    torch.manual_seed(0)
    masks = {
        "truth": [truth(g) for g in graphs],
        "by edge": [edges_of(g) for g in graphs],
        "all": [torch.ones(len(g.x)) for g in graphs],
        "degree": [torch.bincount(g.edge_index[0], minlength=len(g.x)).float() for g in graphs],
        "noise": [torch.rand(len(g.x), 4) for g in graphs],
        "complement": [1 - truth(g) for g in graphs],
        "constant": [torch.arange(len(g.x)) < 3 for g in graphs],
        "occlusion": OcclusionExplainer(unit="node").explain(Finder(), graphs, mode="regression"),
    }
    return fitted.judge(Finder(), graphs, masks)


def test_ground_truth_is_accepted_and_masks_that_say_nothing_are_not(judged):
    words = {one.name: one.accepted for one in judged.masks}
    good = {"truth", "by edge", "occlusion", "hpme"}
    assert {name for name, accepted in words.items() if accepted} == good
    assert judged["truth"].carried > 0.7 and judged["truth"].numbers["p"] < 1e-6
    assert judged["all"].carried == 0 and judged["complement"].carried < 0.1
    assert judged["truth"].verdicts["carried"] > 30
    assert "accepted" in str(judged["truth"]) and "rejected" in str(judged["all"])


def test_own_regions_are_judged_as_quality_does(fitted, graphs, judged):
    quality = fitted.quality(Finder(), graphs)
    assert [q.verdict for q in quality] == [q.verdict for q in judged["hpme"].quality]
    mean = sum(max(-1, min(1, q.carried)) for q in quality) / len(quality)
    assert judged["hpme"].carried == pytest.approx(mean, abs=1e-6)


def test_a_slow_reference_agrees(fitted, graphs, judged):
    """One graph at a time, its region put into its hosts by hand."""
    for number in (0, 5):
        store = GraphStore.from_graphs([graphs[number]])
        with fitted._transplants(Finder(), store) as transplants:
            met = Transplants.of(
                transplants.mix, 1, transplants.score, transplants.pooled, draws=16
            )
            keep = met.with_hosts(truth(graphs[number]).bool())
            own = float(met.context.values[0, 0]) * met.context.task.scale
            trials = trials_of(met, keep)
            there = (own - trials.hosts[:, 0]).abs()
            there = there >= 0.5 * there.max()
            random = trials.random[there, 0].double()
            nearer = (random - own).abs() - (trials.inserted[there, 0].double() - own).abs()
            carried = float(nearer.mean() / (own - random.mean()).abs())
            assert degrees(trials)["carried"][0, 0] == pytest.approx(carried, abs=1e-4)
        assert judged["truth"].quality[number].carried == pytest.approx(carried, abs=1e-4)


def test_soft_masks_get_the_size_of_the_own_region(judged, graphs):
    assert judged["degree"].numbers["size"] == judged["hpme"].numbers["size"]
    assert judged["all"].numbers["size"] == len(graphs[0].x)


def test_masks_of_any_form_are_the_same(graphs):
    store, masks = GraphStore.from_graphs(graphs), [truth(g) for g in graphs]
    soft = [m * 0.8 + 0.1 for m in masks]
    pyg = [PyGExplanation(node_mask=m.unsqueeze(1)) for m in soft]
    pyg_edges = [PyGExplanation(edge_mask=edges_of(g)) for g in graphs]
    for form in (soft, [m.numpy() for m in soft], [m.tolist() for m in soft], torch.cat(soft), pyg):
        found = named_masks(form, store)["given"]
        assert torch.allclose(found, torch.cat(soft).double())
    by_edge = named_masks(pyg_edges, store)["given"]
    assert torch.equal(by_edge > 0, torch.cat(masks) > 0)
    every = torch.cat([edges_of(g) for g in graphs])
    assert torch.equal(named_masks({"a": every}, store, "edge")["a"], by_edge)


def write(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def test_files_are_read(graphs, tmp_path):
    store = GraphStore.from_graphs(graphs)
    nodes = [(i, n, 1) for i, g in enumerate(graphs) for n in truth(g).nonzero().view(-1).tolist()]
    path = write(tmp_path / "theirs.csv", ("graph", "node", "importance"), nodes)
    wanted = torch.cat([truth(g) for g in graphs]).double()
    assert torch.equal(named_masks(str(path), store)["theirs"], wanted)
    edges = [
        (i, a, b, w)
        for i, g in enumerate(graphs)
        for a, b, w in zip(*g.edge_index.tolist(), edges_of(g).tolist(), strict=True)
    ]
    header = ("graph", "source", "target", "weight")
    assert torch.equal(read_masks(write(tmp_path / "e.tsv.csv", header, edges), store), wanted)
    parquet = pytest.importorskip("pyarrow.parquet")
    arrow = pytest.importorskip("pyarrow")
    columns = dict(
        zip(("graph", "node", "score"), map(list, zip(*nodes, strict=True)), strict=True)
    )
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    assert torch.equal(read_masks(tmp_path / "t.parquet", store), wanted)
    some = store.subset(torch.tensor([3, 7]))
    chosen = torch.cat([truth(graphs[i]) for i in (3, 7)]).double()
    assert torch.equal(read_masks(path, some, [3, 7]), chosen)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda g: [truth(x)[1:] for x in g], "mask 0 of 'given' has 11 values"),
        (lambda g: [truth(x) for x in g][1:], "40 graphs need as many masks"),
        (lambda g: torch.zeros(7), "as many masks, or one with a row per node"),
        (lambda g: [truth(x) / 0 for x in g], "NaN or infinite"),
        (lambda g: {}, "no masks"),
        (lambda g: {"hpme": [truth(x) for x in g]}, "use another name"),
        (lambda g: [PyGExplanation() for _ in g], "neither a node_mask"),
        (lambda g: "none.csv", "cannot be read"),
        (lambda g: "none.txt", "must end in"),
    ],
)
def test_bad_masks_are_refused(fitted, graphs, change, message):
    with pytest.raises(InputError, match=message):
        fitted.judge(Finder(), graphs, change(graphs))


@pytest.mark.parametrize(
    ("header", "row", "message"),
    [
        (("graph", "importance"), (0, 1), "no column source or target"),
        (("graph", "node"), (0, 1), "no column importance"),
        (("graph", "node", "importance"), (0, "x", 1), "no number"),
        (("graph", "node", "importance"), (99, 0, 1), "about graphs 0 to 39 alone"),
        (("graph", "node", "importance"), (0, 99, 1), "do not have"),
    ],
)
def test_bad_files_are_refused(graphs, tmp_path, header, row, message):
    with pytest.raises(InputError, match=message):
        read_masks(write(tmp_path / "m.csv", header, [row]), GraphStore.from_graphs(graphs))


def test_graphs_without_a_region_are_not_judged(fitted, graphs):
    masks = [truth(g) * (i < 10) for i, g in enumerate(graphs)]
    found = fitted.judge(Finder(), graphs, masks)["given"]
    assert [one is None for one in found.quality] == [i >= 10 for i in range(len(graphs))]
    assert found.accepted and found.row()["graphs"] == 10
    nothing = fitted.judge(Finder(), graphs[:4], [truth(g) * 0 for g in graphs[:4]])["given"]
    assert not nothing.accepted and nothing.row()["graphs"] == 0
    assert nothing.row()["carried"] is None and "carried unknown" in str(nothing)


def test_other_hosts_may_be_given(fitted, graphs):
    masks = [truth(g) for g in graphs[:5]]
    kept = fitted.judge(Finder(), graphs[:5], masks)["given"]
    other = fitted.judge(Finder(), graphs[:5], masks, hosts=graphs[20:])["given"]
    assert other.accepted and other.numbers["lost"] != kept.numbers["lost"]


def test_tables_and_explanations(judged, graphs):
    pytest.importorskip("pandas")
    table = judged.to_frame()
    assert list(table["masks"])[-2:] == ["hpme", "random"] and table["accepted"][0]
    single = judged.to_frame("graphs")
    assert len(single) == len(judged.masks) * len(graphs) and "verdict" in single
    with pytest.raises(InputError, match="masks, graphs"):
        judged.to_frame("nodes")
    shown = judged.explanations()
    assert shown["truth"][0].quality.verdict == judged["truth"].quality[0].verdict
    assert torch.equal(shown["truth"][2].pooled, truth(graphs[2]).bool())


def test_must_be_fitted(graphs):
    with pytest.raises(Exception, match="fit"):
        HPMEExplainer(k=2).judge(Finder(), graphs, [truth(g) for g in graphs])


def test_masks_of_graphs_with_types():
    """Masks by type, in the order of types that graphs have, whatever theirs is."""
    graphs, model = make_hetero(6), make_model()
    explainer = HPMEExplainer(restarts=1)
    explainer.fit(model, graphs, progress=False)
    shown = explainer.explain(model, graphs, progress=False)
    found = explainer.judge(model, graphs, {"theirs": shown})
    flat = torch.cat([one.node_mask.view(-1) for one in flat_views(graphs, shown)[1]])
    assert torch.allclose(found["theirs"].scores, flat.double())
    assert [one.size for one in found["theirs"].quality] == [
        one.size for one in found["hpme"].quality
    ]
    del shown[0]["user"].node_mask
    with pytest.raises(InputError, match="mask"):
        explainer.judge(model, graphs, {"theirs": shown})
