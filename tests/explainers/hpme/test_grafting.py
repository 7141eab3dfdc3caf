"""Evidence about molecules by transplants that chemistry allows."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool
from torch_geometric.utils import from_smiles as pyg_graph

from hpme.data import from_smiles
from hpme.data.molecules.grafts import insert_many
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme import grafting
from hpme.explainers.hpme.grafting import FEWEST, Featuriser
from hpme.graphs import GraphStore
from hpme.models import ExplainedModel

pytest.importorskip("rdkit")
PLAIN = ["CCCCC", "CCc1ccccc1", "CC(C)CC", "c1ccccc1CC", "CCCOCC", "CC1CCCCC1", "CCCCCCC", "OCCCC"]
RICH = [f"{rest}{tail}" for rest in PLAIN for tail in ("CCl", "C(C)Cl")]
CHEAP = {"k": 1, "restarts": 1}


def graphs_of(smiles):
    return list(from_smiles(smiles, [0] * len(smiles), progress=False))


CHLORINE = int((graphs_of(["CCl"])[0].x[1] - graphs_of(["CC"])[0].x[1]).argmax())


class Chlorines(nn.Module):
    """Whether there is chlorine."""

    def forward(self, x, edge_index, batch):
        h = x + 0 * global_add_pool(x[edge_index[0]], batch[edge_index[1]])[batch]
        return 6 * global_add_pool(h, batch)[:, CHLORINE] - 3


@pytest.fixture(scope="module")
def fitted():
    explainer = HPMEExplainer(**CHEAP)
    graphs = graphs_of(PLAIN * 2 + RICH)
    return explainer.fit(Chlorines(), graphs, mode="binary_classification", progress=False)


def test_molecules_are_grafted(fitted, tmp_path):
    found = fitted.quality(Chlorines(), graphs_of(RICH))
    assert all(0 < q.grafted <= 1 for q in found)
    assert all(q.nodes == "atoms" and "in other molecules" in str(q) for q in found)
    assert sum(q.verdict == "carried" for q in found) >= 0.8 * len(found)
    assert max(q.random for q in found) < 0.2 < min(q.effect for q in found if q.size)
    fitted.save(tmp_path / "e.safetensors")
    loaded = HPMEExplainer.load(tmp_path / "e.safetensors")
    assert loaded.molecules == fitted.molecules and set(loaded.molecules) <= {*PLAIN, *RICH}
    alone = loaded.quality(Chlorines(), graphs_of(RICH[3:4]))[0]
    assert (alone.verdict, alone.effect) == (found[3].verdict, pytest.approx(found[3].effect))


def test_few_hosts_say_nothing(fitted, monkeypatch):
    few = FEWEST - 1
    monkeypatch.setattr(
        grafting, "insert_many", lambda graft, hosts, _, seed: insert_many(graft, hosts, few, seed)
    )
    found = fitted.quality(Chlorines(), graphs_of(RICH[:2]))
    assert all(q.grafted > 0 and math.isnan(q.effect) for q in found)
    assert "too few other molecules. Removing" in str(found[0])


def test_graphs_that_are_not_their_molecule_are_mixed_as_graphs(fitted):
    graph = graphs_of(RICH[:1])[0]
    bare = Data(x=graph.x, edge_index=graph.edge_index, edge_attr=graph.edge_attr)
    turned = graphs_of(RICH[:2])
    turned[1].x = turned[1].x.flip(0)
    alone = fitted.quality(Chlorines(), [bare])[0]
    assert math.isnan(alone.grafted) and alone.nodes == "nodes"
    first, second = fitted.quality(Chlorines(), turned)
    assert first.grafted > 0 and math.isnan(second.grafted)


def test_featurisers_are_known_by_what_they_make():
    model = ExplainedModel(Chlorines(), mode="binary_classification")
    ours = GraphStore.from_graphs(graphs_of(RICH[:3]))
    found = Featuriser.of(model, ours)
    assert found is not None and torch.equal(found(RICH[:3]).x, ours.x)
    theirs = [pyg_graph(text) for text in RICH[:3]]
    for graph in theirs:
        graph.x, graph.edge_attr = graph.x.float(), graph.edge_attr.float()
    found = Featuriser.of(model, GraphStore.from_graphs(theirs))
    assert found is not None and found(RICH[3:4]).x.dtype == torch.float
    own = replace(
        model, featurise=lambda smiles: [graph.clone() for graph in theirs[: len(smiles)]]
    )
    for graph in theirs:
        graph.x = graph.x + 1
    assert Featuriser.of(model, GraphStore.from_graphs(theirs)) is None
    assert Featuriser.of(own, GraphStore.from_graphs(theirs)) is not None  # known from the model


def test_effects_of_atoms_are_those_of_what_chemistry_can_exchange(fitted):
    """Neutral groups have no chlorine, so what the model says without an atom is known."""
    graphs = graphs_of([*RICH, "CC(=O)CCl"])
    has, lacks = torch.sigmoid(torch.tensor([3.0, -3.0])).tolist()
    for graph, effect in zip(graphs, fitted.effects(Chlorines(), graphs), strict=True):
        chlorine = graph.x[:, CHLORINE] == 1
        single = effect.nodes[chlorine]
        torch.testing.assert_close(single, torch.full_like(single, has - lacks))
        assert effect.nodes[~chlorine, 0].abs().max() < 1e-6
        assert effect.low <= effect.mean <= effect.high
    bare = [Data(x=g.x, edge_index=g.edge_index, edge_attr=g.edge_attr) for g in graphs[:1]]
    assert fitted.effects(Chlorines(), bare)[0].nodes[:, 0].abs().max() <= has  # graphs are mixed
