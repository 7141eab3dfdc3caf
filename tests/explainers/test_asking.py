"""A model that is asked about many times gives the answers of one that is asked once."""

import threading

import pytest
import torch
from torch_geometric.nn import global_mean_pool

from hpme.data import from_smiles, load_dataset
from hpme.explainers import GradExplainer, HPMEExplainer
from hpme.explainers.hpme import quality
from hpme.graphs import GraphStore, ego
from hpme.models import GCN, ExplainedModel
from hpme.models.freezing import frozen
from hpme.models.gnn import NodeGCN
from hpme.models.readout import ReadoutProbe
from small_models import traces

QUICK = {"ratio": 0.4, "restarts": 1}
SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "CCCC", "O=C(O)c1ccccc1", "C1CCCCC1", "CC(C)O",
          "c1ccncc1", "CCOC(=O)C", "NCC(=O)O", "CC#N"]  # fmt: skip


@pytest.fixture(scope="module")
def asked():
    """An explainer of molecules, its model, and molecules."""
    pytest.importorskip("rdkit")
    torch.manual_seed(0)
    graphs = list(from_smiles(SMILES, [0] * len(SMILES), progress=False))
    model = GCN(14, 2)
    return HPMEExplainer(**QUICK).fit(model, graphs, progress=False), model, graphs


def same(one, other):
    return all(
        torch.equal(a[name], b[name])
        for a, b in zip(one, other, strict=True)
        for name in ("edge_mask", "node_mask", "pooled")
        if name in a or name in b
    )


def test_bit_by_bit_the_same_answers(asked):
    explainer, model, graphs = asked
    parts = [graphs[:5], graphs[5:6], graphs[6:]]
    before = traces(model)
    alone = [explainer.explain(model, part, progress=False) for part in parts]
    quality = [explainer.quality(model, part) for part in parts]
    changes = explainer.counterfactuals(model, graphs, progress=False)
    with explainer.on(model) as ask:
        together = [ask.explain(part, progress=False) for part in parts]
        assert repr([ask.quality(part) for part in parts]) == repr(quality)  # NaN is NaN
        found = ask.counterfactuals(graphs, progress=False)
    assert all(same(*pair) for pair in zip(alone, together, strict=True))
    assert [[str(one) for one in some] for some in found] == [
        [str(one) for one in some] for some in changes
    ]
    assert traces(model) == before


def test_masks_and_several_targets():
    graphs = load_dataset("ba-2motifs", size=12)
    model = GCN(10, 2)
    explainer = HPMEExplainer(**QUICK).fit(model, graphs, target=[0, 1], progress=False)
    targets, store = [0, 1] * 6, GraphStore.from_graphs(graphs)
    with explainer.on(model) as ask:
        found = ask.explain(graphs, target=targets, progress=False)
        masks = ask.masks(store)
    assert same(found, explainer.explain(model, graphs, target=targets, progress=False))
    assert torch.equal(
        masks.edge_mask, explainer.masks(model, GraphStore.from_graphs(graphs)).edge_mask
    )


def test_mixes_are_asked_about_only_where_grafts_do_not_count(asked, monkeypatch):
    explainer, model, graphs = asked
    times, real = [], quality.trials_of
    monkeypatch.setattr(quality, "trials_of", lambda *given: times.append(1) or real(*given))
    alone = explainer.quality(model, graphs[:1])[0]
    assert alone.grafted > 0 and not times
    beside = explainer.quality(model, graphs[:2])  # the second one is a ring, nothing but a ring
    assert times and not beside[1].grafted > 0
    for name in ("carried", "lost", "effect", "random", "removal", "way"):
        assert getattr(beside[0], name) == pytest.approx(
            getattr(alone, name), rel=1e-4, nan_ok=True
        )


def test_the_model_is_frozen_once_and_left_as_it_was(asked, monkeypatch):
    from hpme.models import explained

    explainer, model, graphs = asked
    times, real = [], explained.frozen
    monkeypatch.setattr(explained, "frozen", lambda model: times.append(1) or real(model))
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    model.train()

    def fail():
        with explainer.on(model) as ask:
            for graph in graphs[:3]:
                ask.explain([graph], progress=False)
                ask.quality([graph])
            assert not model.training
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(times) == 1 and model.training
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())


def test_what_is_known_goes_with_the_weights(asked):
    explainer, model, graphs = asked
    ask = explainer.on(model)
    with ask:
        first = ask.quality(graphs[:2])
        assert "outputs of molecules" in ask.model.found
    with ask:
        assert "outputs of molecules" in ask.model.found
    state = {name: value.clone() for name, value in model.state_dict().items()}
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(-1.5)
    try:
        with ask:
            assert "outputs of molecules" not in ask.model.found
            again = repr(ask.quality(graphs[:2]))
            assert again == repr(explainer.quality(model, graphs[:2])) != repr(first)
    finally:
        model.load_state_dict(state)


def test_outside_and_in_other_threads_it_freezes_as_ever(asked):
    explainer, model, graphs = asked
    ask, found = explainer.on(model), []
    wanted = explainer.explain(model, graphs, progress=False)
    assert same(ask.explain(graphs, progress=False), wanted)

    def other():
        found.append(ask.explain(graphs, progress=False))

    thread = threading.Thread(target=other)
    with ask:
        thread.start()
        thread.join(0.2)
        assert not found  # it waits, since the model is held here
    thread.join(20)
    assert same(found[0], wanted)


def test_only_questions_about_a_model():
    explainer = GradExplainer()
    ask = explainer.on(GCN(10, 2))
    graphs = load_dataset("ba-2motifs", size=4)
    with ask:
        assert len(ask.explain(graphs, progress=False)) == 4
    for name in ("fit", "save", "nothing", "quality"):
        with pytest.raises(AttributeError):
            getattr(ask, name)


class _Changing(GCN):
    """Pools once in its first passes, and twice in others."""

    passes = 0

    def forward(self, x, edge_index, batch, edge_weight=None):
        self.passes += 1
        h = self.node_embeddings(x, edge_index, edge_weight)
        if self.passes > self.twice_after:
            h = h * (
                1 + h.new_zeros(int(batch.max()) + 1, h.shape[1]).index_add(0, batch, h)[batch]
            )
        return self.head(global_mean_pool(h, batch).repeat(1, 2))


@pytest.mark.parametrize("twice_after", [1, 3, 99])
def test_a_held_model_is_watched_closely_as_often_as_needed(twice_after, monkeypatch):
    torch.manual_seed(0)
    model = _Changing(10, 2)
    model.twice_after = twice_after
    graphs = GraphStore.from_graphs(load_dataset("ba-2motifs", size=12)).batch()
    functions, real = [], ReadoutProbe.__torch_function__
    monkeypatch.setattr(
        ReadoutProbe,
        "__torch_function__",
        lambda self, *given: functions.append(1) or real(self, *given),
    )
    alone, close = [], []
    with frozen(model):
        for _ in range(4):
            alone.append(ExplainedModel.of(model).adapter().embed(graphs))
    with GradExplainer().on(model) as ask:
        for wanted in alone:
            functions.clear()
            found = ask.model.adapter().embed(graphs)
            close.append(bool(functions))
            for name in ("nodes", "graph", "output"):
                assert type(getattr(found, name)) is torch.Tensor
                assert torch.equal(getattr(found, name), getattr(wanted, name))
            assert found.source == wanted.source
    if twice_after == 99:
        assert close == [True, False, False, False]
    else:
        # The pass that told something else is made again, and so are those after it.
        assert close == [True, *(number >= twice_after for number in (1, 2, 3))]


def test_edges_of_a_large_graph_are_sorted_once(monkeypatch):
    data = load_dataset("ba-shapes", size=60)[0]
    model, explainer = NodeGCN(data.x.shape[1], 4), GradExplainer(num_hops=2)
    sorted_, real = [], ego.Adjacency.of
    monkeypatch.setattr(ego.Adjacency, "of", lambda *given: sorted_.append(1) or real(*given))

    def ask(asked, nodes):
        sorted_.clear()
        found = asked.explain(data, index=nodes, progress=False)
        wanted = explainer.explain(model, data, index=nodes, progress=False)
        assert same(found, wanted)
        assert all(torch.equal(a.x, b.x) for a, b in zip(found, wanted, strict=True))
        return len(sorted_) - each

    explainer.explain(model, data, index=[0], progress=False)
    each = len(sorted_)
    with explainer.on(model) as asked:
        assert ask(asked, [1, 2]) == each
        assert ask(asked, [3]) == 0
        data.x[:] += 1  # written into
        assert ask(asked, [3]) == each
        data.edge_index = data.edge_index[:, 4:].clone()
        assert ask(asked, [3]) == each
        assert ask(asked, [4]) == 0
