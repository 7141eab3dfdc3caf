"""Whether a model reads what it should."""

import json

import pytest
import torch
from torch import nn
from torch_geometric.nn import global_add_pool

from hpme.data import from_smiles
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.audit import Audit, finding_of
from hpme.explainers.hpme.pattern_effects import NOTHING, Estimate, PatternEvidence

CHEAP = {"restarts": 1}
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
    assert f"verdict: {finding}" in str(audit) and "effects are towards class 1" in str(audit)
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
    # Of one alone: the only other group that can be taken out is the other one, and does as much.
    assert explainer.audit(model, graphs, "F").finding == "cannot tell"


def test_all_matches_of_a_pattern_are_asked_about():
    smiles = [f"F{'C' * n}F" for n in range(4, 12)] + [f"O{'C' * n}O" for n in range(4, 12)]
    graphs = list(from_smiles(smiles, [0] * len(smiles), progress=False))
    model = Reads(FLUORINE)
    explainer = HPMEExplainer(k=2, **CHEAP).fit(model, graphs, progress=False)
    assert explainer.audit(model, graphs, "F").should.needed  # one of two would not be


class Sum(nn.Module):
    """A value: so much for every atom of an element, and a little for every atom."""

    def __init__(self, column, weight):
        super().__init__()
        self.column, self.weight = column, weight

    def forward(self, x, edge_index, batch):
        count = global_add_pool(x, batch)
        return self.weight * count[:, self.column] + 0.01 * count.sum(1)


def test_effects_have_the_size_of_matched_pairs():
    smiles = [
        f"{start}{'C' * n}{end}" for n in range(3, 15) for start in "CO" for end in ("F", "N")
    ]
    graphs = list(from_smiles(smiles, [0] * len(smiles), progress=False))
    model = Sum(FLUORINE, 3.0)
    explainer = HPMEExplainer(k=2, **CHEAP).fit(model, graphs, mode="regression", progress=False)
    found = explainer.audit(model, graphs, "F", "O")
    assert found.finding == "reads it" and found.warning is None
    for one in (found.should.inserted, found.should.removed):
        assert one.effect == pytest.approx((3.01,) * 3, abs=1e-4)  # F for H, and H for F
    assert found.should.replaced.effect[0] == pytest.approx(3.0, abs=0.05)
    assert abs(found.should.inserted.control[0]) < 0.1
    assert found.should_not.inserted.effect == pytest.approx((0.01,) * 3, abs=1e-4)
    assert found.should.grafted and f"bound {found.should.bound:.2g}" in str(found)
    table = found.rows()
    assert [row["role"] for row in table] == ["should", "should_not"]
    assert table[0]["inserted_low"] == pytest.approx(3.01, abs=1e-4)


class Aromatic(nn.Module):
    """Logits: whether a molecule has an aromatic bond."""

    def forward(self, x, edge_index, batch, edge_attr):
        bonds = x.new_zeros(len(x), 1).index_add(0, edge_index[0], edge_attr[:, 3:4])
        count = global_add_pool(torch.cat([x, bonds], 1), batch)[:, -1:]
        return torch.cat([4 - 8 * count, 8 * count - 4], 1)


def test_nothing_else_comes_with_a_pattern():
    """An ester between a ring and a chain is put into chains without a ring for its other end."""
    smiles = [f"c1ccccc1C(=O)O{'C' * n}" for n in range(2, 14)]
    smiles += [f"{'C' * n}{end}" for n in range(3, 15) for end in ("O", "N", "C(C)C")]
    graphs = list(from_smiles(smiles, [0] * len(smiles), progress=False))
    model = Aromatic()
    explainer = HPMEExplainer(k=2, **CHEAP).fit(model, graphs, progress=False)
    audit = explainer.audit(model, graphs, "C(=O)O[#6]", "c1ccccc1")
    assert audit.should.enough is not True and audit.should_not.read is True
    assert not audit.passed


class Weakly(nn.Module):
    """Probabilities: fluorine is enough, chlorine alone brings three in ten."""

    def forward(self, x, edge_index, batch):
        count = global_add_pool(x, batch)[:, [FLUORINE, CHLORINE]].clamp(max=1)
        p = (0.05 + 0.9 * count[:, 0] + 0.3 * count[:, 1] * (1 - count[:, 0])).view(-1, 1)
        return torch.cat([1 - p, p], 1).log()


def test_what_comes_with_a_pattern_is_tested_without_it(graphs):
    """Taken out it seems to do nothing; put in alone it is seen to be read, too."""
    model = Weakly()
    explainer = HPMEExplainer(k=2, **CHEAP).fit(model, graphs, progress=False)
    audit = explainer.audit(model, graphs, "F", "Cl")
    assert (audit.finding, audit.passed) == ("reads both", False)
    assert audit.should_not.needed is False and audit.should_not.enough is True
    assert audit.should_not.inserted.effect[0] == pytest.approx(0.3, abs=0.01)


class Helped(nn.Module):
    """Probabilities: fluorine alone brings half, and chlorine the rest, but only beside it."""

    def forward(self, x, edge_index, batch):
        count = global_add_pool(x, batch)[:, [FLUORINE, CHLORINE]].clamp(max=1)
        p = (0.02 + 0.55 * count[:, 0] + 0.4 * count[:, 0] * count[:, 1]).view(-1, 1)
        return torch.cat([1 - p, p], 1).log()


def test_what_patterns_do_alone_decides(graphs):
    """The other one counts beside it only: said, and no reason to call the model good."""
    model = Helped()
    explainer = HPMEExplainer(k=2, **CHEAP).fit(model, graphs, progress=False)
    audit = explainer.audit(model, graphs, "F", "Cl")
    assert (audit.finding, audit.passed) == ("reads it", False)
    assert "Cl does nothing alone, but may matter" in audit.warning
    assert explainer.audit(model, graphs, "Cl", "F").finding == "reads the other"


class Mostly(nn.Module):
    """Probabilities: each alone brings a fifth, both together all."""

    def forward(self, x, edge_index, batch):
        count = global_add_pool(x, batch)[:, [FLUORINE, CHLORINE]].clamp(max=1)
        p = (0.02 + 0.2 * count.sum(1) + 0.56 * count.prod(1)).view(-1, 1)
        return torch.cat([1 - p, p], 1).log()


def test_a_little_alone_and_much_together_is_needing_both(graphs):
    model = Mostly()
    explainer = HPMEExplainer(k=2, **CHEAP).fit(model, graphs, progress=False)
    audit = explainer.audit(model, graphs, "F", "Cl")
    assert audit.should.enough and audit.should_not.enough
    assert (audit.finding, audit.passed) == ("needs both", False)


def estimate(mean, half, random=0.0):
    spans = [(m, m - half, m + half) for m in (mean, random, mean - random)]
    return Estimate(*spans, 20)


def test_intervals_decide():
    assert estimate(0.3, 0.1).reads(0.1) is True
    assert estimate(-0.3, 0.1).reads(0.1) is True
    assert estimate(0.0, 0.05).reads(0.1) is False
    assert estimate(0.12, 0.1).reads(0.1) is None
    assert estimate(0.3, 0.1, random=0.25).reads(0.1) is None  # random fragments do as much
    assert NOTHING.reads(0.1) is None and str(NOTHING) == "not possible"
    sure, edge = (
        PatternEvidence("F", 20, 1.0, estimate(mean, 0.1), NOTHING, NOTHING, 0.1, True)
        for mean in (0.5, 0.21)
    )
    assert (sure.read, sure.near, edge.read, edge.near) == (True, False, True, True)
    assert "near the bound of 0.1: F" in str(Audit(edge, None, "reads it"))
    assert Audit(sure, None, "reads it").warning is None
    for alone, helped in ((0.3, True), (0.42, False)):  # of 0.9; half of it may be reached
        both = estimate(alone, 0.08), estimate(0.9, 0.05), NOTHING
        assert PatternEvidence("F", 20, 1.0, *both, 0.1, True).helped == helped


def evidence(alone, lost=NOTHING):
    return PatternEvidence("F", 20, 1.0, alone, lost, NOTHING, 0.1, True)


def test_two_patterns_are_compared():
    clear, little, much = estimate(0.7, 0.1), estimate(0.11, 0.05), estimate(0.2, 0.15)
    assert finding_of([evidence(clear), evidence(little)]) == "reads it"
    assert finding_of([evidence(little), evidence(clear)]) == "reads the other"
    assert finding_of([evidence(clear), evidence(much)]) == "cannot tell"
    assert finding_of([evidence(clear), evidence(estimate(0.2, 0.05))]) == "reads both"
    # It is no good model, though: the other one may do something.
    assert not Audit(evidence(clear), evidence(little), "reads it").passed
    assert Audit(evidence(clear), evidence(estimate(0.0, 0.05)), "reads it").passed
