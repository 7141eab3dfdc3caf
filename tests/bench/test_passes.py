"""How often explainers ask the target."""

import copy

import pytest
import torch
from torch_geometric.data import Data, HeteroData

from hpme.bench import Experiment
from hpme.bench.outcome import counted
from hpme.bench.run import dataset_and_target, run_on


class Reader(torch.nn.Module):
    def forward(self, x, edge_index, batch=None):
        return x


def graph(edges):
    return Data(x=torch.ones(4, 1), edge_index=torch.zeros(2, edges, dtype=torch.long))


def test_edges_are_counted_however_they_are_given_and_by_copies_too():
    model, one = Reader(), graph(6)
    with counted(model) as passes:
        model(one.x, one.edge_index)
        model(one.x, edge_index=one.edge_index)
        copy.deepcopy(model)(one.x, one.edge_index)
    model(one.x, one.edge_index)  # nobody watches any more
    assert passes.edges == 18
    assert passes.over([one, graph(3)]) == 2
    assert passes.over([graph(0)]) is None
    assert not model._forward_pre_hooks


def test_edges_of_all_types_count():
    data = HeteroData()
    index = {("a", "to", "b"): graph(2).edge_index, ("b", "to", "a"): graph(3).edge_index}
    for kind, edges in index.items():
        data[kind].edge_index = edges
    model = Reader()
    with counted(model) as passes:
        model({"a": torch.ones(4, 1)}, index)
    assert passes.over([data]) == 1


@pytest.mark.parametrize(("explainer", "least", "most"), [("random", 0, 3), ("occlusion", 20, 60)])
def test_records_say_what_was_asked(explainer, least, most):
    """Occlusion shows a graph about once for every pair of its nodes, 25 to 30 here."""
    experiment = Experiment("ba-2motifs", explainer, 0, size=40, graphs=4, train_steps=5)
    record, _ = run_on(experiment, *dataset_and_target(*experiment.target))
    assert least <= record.cost["target_passes"] <= most
    assert record.cost["explainer_cpu_seconds"] > 0
    assert record.versions["commit"]
