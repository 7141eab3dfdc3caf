"""Whether a model reads what it should."""

import json

import pytest
import torch
from torch import nn
from torch_geometric.nn import global_add_pool

from hpme.data import from_smiles
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer

CHEAP = {"epochs": 2, "restarts": 1, "rounds": 2, "subsets": 8}
FLUORINE, CHLORINE = 4, 6


class Reads(nn.Module):
    """Logits: whether a molecule has one of some elements."""

    def __init__(self, *columns):
        super().__init__()
        self.columns = list(columns)

    def forward(self, x, edge_index, batch):
        count = global_add_pool(x, batch)[:, self.columns].sum(1, keepdim=True)
        return torch.cat([4 - 8 * count, 8 * count - 4], 1)


class NeedsBoth(nn.Module):
    """Logits: whether a molecule has fluorine and chlorine."""

    def forward(self, x, edge_index, batch):
        count = global_add_pool(x, batch)[:, [FLUORINE, CHLORINE]].amin(1, keepdim=True)
        return torch.cat([4 - 8 * count, 8 * count - 4], 1)


@pytest.fixture(scope="module")
def graphs():
    """Fluorine and chlorine always come together, so that labels cannot tell them apart."""
    smiles = [
        f"{start}{'C' * n}{end}" for n in range(3, 18) for start, end in (("F", "Cl"), ("O", "N"))
    ]
    return list(from_smiles(smiles, [0] * len(smiles), progress=False))


@pytest.mark.parametrize(
    ("columns", "finding"),
    [
        ((FLUORINE,), "reads it"),
        ((CHLORINE,), "reads the other"),
        ((FLUORINE, CHLORINE), "reads both"),
    ],
)
def test_verdicts_where_labels_cannot_tell(graphs, columns, finding):
    model = Reads(*columns)
    explainer = HPMEExplainer(k=2, **CHEAP).fit(model, graphs, progress=False)
    audit = explainer.audit(model, graphs, "F", "Cl")
    assert (audit.finding, audit.passed) == (finding, finding == "reads it")
    assert audit.should.graphs == audit.should_not.graphs == 15
    assert f"verdict: {finding}" in str(audit)
    assert json.loads(json.dumps(audit.to_dict(), allow_nan=False))["verdict"] == finding
    masks = [[graph.x[:, c] > 0 for graph in graphs] for c in (FLUORINE, CHLORINE)]
    assert explainer.audit(model, graphs, *masks).should.inserted == audit.should.inserted


def test_a_pattern_that_is_hardly_there(graphs):
    model = Reads(FLUORINE)
    explainer = HPMEExplainer(k=2, **CHEAP).fit(model, graphs, progress=False)
    audit = explainer.audit(model, graphs, "[Si]")
    assert (audit.finding, audit.should.graphs) == ("too few graphs", 0)
    json.dumps(audit.to_dict(), allow_nan=False)
    assert explainer.audit(model, graphs, "O").finding == "reads neither"
    with pytest.raises(InputError, match="no SMARTS pattern"):
        explainer.audit(model, graphs, "C1CC")
    with pytest.raises(InputError, match="one mask per graph"):
        explainer.audit(model, graphs, [torch.ones(3)])


def test_patterns_that_count_only_together(graphs):
    model = NeedsBoth()
    explainer = HPMEExplainer(k=2, **CHEAP).fit(model, graphs, progress=False)
    audit = explainer.audit(model, graphs, "F", "Cl")
    assert (audit.finding, audit.passed) == ("needs both", False)
    assert audit.should.needed and audit.should_not.needed
    assert not audit.should.enough and not audit.should_not.enough
    assert explainer.audit(model, graphs, "F").finding == "reads it"


def test_all_matches_of_a_pattern_are_asked_about():
    smiles = [f"F{'C' * n}F" for n in range(4, 12)] + [f"O{'C' * n}O" for n in range(4, 12)]
    graphs = list(from_smiles(smiles, [0] * len(smiles), progress=False))
    model = Reads(FLUORINE)
    explainer = HPMEExplainer(k=2, **CHEAP).fit(model, graphs, progress=False)
    assert explainer.audit(model, graphs, "F").should.needed  # one of two would not be
