"""What a fit says about the model it was fitted to, and when it says that there is no evidence."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool
from torch_geometric.utils import erdos_renyi_graph

from contract import make_graphs
from finder import Finder, planted_graphs
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.effects import Measured
from hpme.explainers.hpme.report import ClassEffect, FitReport

QUICK = {"restarts": 1}
CLASSES = {"mode": "multiclass_classification", "progress": False}
GENERATOR = torch.Generator()


class Degrees(nn.Module):
    """Reads edges, but no weights of theirs: nothing passes messages."""

    def __init__(self, blind):
        super().__init__()
        self.blind, self.head = blind, nn.Linear(4, 2)

    def forward(self, x, edge_index, batch):
        degree = torch.bincount(edge_index[1], minlength=len(x)).to(x).unsqueeze(1)
        return self.head(global_add_pool(torch.cat([x, degree * (not self.blind)], dim=1), batch))


@pytest.mark.parametrize("blind", [False, True])
def test_a_model_that_ignores_edges_is_told_from_one_that_ignores_weights(blind):
    explainer = HPMEExplainer(k=2, restarts=1)
    report = explainer.fit(Degrees(blind), make_graphs(), progress=False).report
    assert any("does not depend on edges" in warning for warning in report.warnings) == blind


# What is computed ###########################################################################


def measured(gain, graphs=40, *, size=1.0, classes=True, seed=0):
    """Graphs whose pools bring hosts from 0.5 to a share of their own output; others nowhere."""
    generator = torch.Generator().manual_seed(seed)
    own = torch.arange(graphs) % 2
    sign = (2 * own - 1).double()
    noise = 0.01 * torch.randn(2, 4, graphs, generator=generator).double()
    p = 0.5 + 0.4 * size * (torch.stack([gain * sign, 0 * sign]).unsqueeze(1) + noise)
    wanted, hosts = 0.5 + 0.4 * size * sign, 0.5 - 0.4 * size * sign.expand(4, -1)
    pairs = [torch.stack([1 - value, value], -1) for value in (p, hosts, wanted)]
    return Measured(*pairs, own if classes else None)


@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_the_size_of_outputs_does_not_matter(size):
    found = measured(1.0, size=size)
    pool, random = found.disagreement
    assert pool < 0.01 and 0.5 < random < 1.5
    assert found.left(GENERATOR)[1] < 0.05 and found.p_value(GENERATOR) < 0.001
    for number in (0, 1):
        effect, low, high, p = found.effect(found.classes == number, GENERATOR)
        assert effect == pytest.approx(1, abs=0.05) and low <= effect <= high and p < 0.01


def test_effects_belong_to_classes():
    found = measured(1.0)
    kept = found.kept.clone()
    kept[0, :, found.classes == 0] = kept[1, :, found.classes == 0]
    found = replace(found, kept=kept)
    none, full = (found.effect(found.classes == number, GENERATOR) for number in (0, 1))
    assert none[0] == pytest.approx(0) and none[3] > 0.4
    assert full[0] > 0.9 and full[3] < 0.01


def test_a_rare_class_is_in_every_sample():
    whole = measured(1.0, 80)
    ids = torch.cat([torch.arange(1, 80, 2), torch.tensor([0, 2])])
    tables = whole.kept[:, :, ids], whole.hosts[:, ids], whole.wanted[ids], whole.classes[ids]
    assert Measured(*tables).left(GENERATOR)[1] < 0.1


def test_what_does_not_vary_says_nothing():
    constant = Measured(
        torch.full((2, 4, 20, 2), 0.5).double() + 1e-8 * torch.rand(2, 4, 20, 2),
        torch.full((4, 20, 2), 0.5).double(),
        torch.full((20, 2), 0.5).double() + 1e-8 * torch.rand(20, 2),
        torch.zeros(20, dtype=torch.long),
    )
    assert constant.disagreement == (1, 1) and constant.left(GENERATOR) == (1, 1)
    assert constant.p_value(GENERATOR) == 1
    assert constant.effect(constant.classes == 0, GENERATOR) == (0, 0, 0, 1)


def test_p_values_of_chance_are_uniform():
    p = [measured(0.0, seed=seed).p_value(GENERATOR) for seed in range(100)]
    q = [measured(0.0, seed=s).effect(torch.arange(40) < 20, GENERATOR)[3] for s in range(100)]
    for values in map(torch.tensor, (p, q)):
        assert float((values <= 0.1).float().mean()) < 0.2
        assert 0.35 < float(values.mean()) < 0.65


# What is said ###############################################################################

EFFECT = ClassEffect("class 1", 20, 0.6, 0.4, 0.8, 0.001)
GOOD = FitReport(0.2, 0.9, 0.1, 0.3, 0.001, (EFFECT,), 40, True, 0.9, 0.2, "somewhere")
AWAY = ClassEffect("class 0", 20, -0.3, -0.4, -0.2, 1.0)
CHANCE, RARE = replace(EFFECT, p_value=0.2), replace(EFFECT, graphs=7)
SAID = {
    "good": (GOOD, "good evidence"),
    "small": (replace(GOOD, disagreement=0.8, left_low=0.8, left_high=0.95), "small but certain"),
    "perhaps": (replace(GOOD, left_low=0.44, left_high=0.72), "certain, but perhaps small"),
    "few": (replace(GOOD, p_value=0.024, left_low=0.7), "too few graphs"),
    "by heart": (replace(GOOD, crossed=True, left_high=0.7), "too few graphs"),
    "seen": (replace(GOOD, held_out=0), "too few graphs"),
    "none": (replace(GOOD, p_value=0.4, disagreement=0.88, left_low=0.9), "no evidence"),
    "rare": (replace(GOOD, p_value=0.5, left_low=0.9, effects=(EFFECT, RARE)), "too few graphs"),
    "spread": (replace(GOOD, random_disagreement=0.3, left_high=0.7, p_value=0.02), "no evidence"),
    "large": (replace(GOOD, random_disagreement=0.3, left_high=0.7), "certain, but perhaps small"),
    "against": (replace(GOOD, effects=(EFFECT, AWAY), p_value=0.02), "no evidence"),
    "no class": (
        replace(GOOD, left_low=0.8, effects=(replace(EFFECT, p_value=0.2),)),
        "no evidence",
    ),
    "one": (replace(GOOD, only="class 0"), "no evidence"),
}


@pytest.mark.parametrize("kind", SAID)
def test_each_case_has_its_own_sentence(kind):
    report, words = SAID[kind]
    assert report.summary().endswith(words)
    assert FitReport.from_dict(report.to_dict()) == report
    if kind == "good":
        assert report.warnings == [] and report.evidence == "good"
        return
    (warning,) = report.warnings
    assert warning.startswith(words) and report.evidence != "good"
    others = {other.warnings[0] for name, (other, _) in SAID.items() if name not in ("good", kind)}
    assert warning not in others


def test_what_is_certain_is_not_called_chance():
    for report, _ in SAID.values():
        if report.p_value <= 0.01 and CHANCE not in report.effects:
            assert not any("chance" in warning for warning in report.warnings)


def test_much_is_not_called_small():
    (warning,) = SAID["perhaps"][0].warnings
    assert "between 28% and 56%" in warning and not warning.startswith("small")
    assert replace(SAID["perhaps"][0], held_out=60).warnings == []  # hardly known by heart


def test_a_class_without_effect_is_no_reason_to_warn():
    nothing = ClassEffect("class 0", 20, 0.0, -0.1, 0.1, 0.5)
    report = replace(GOOD, effects=(nothing, EFFECT))
    assert replace(GOOD, effects=(EFFECT, AWAY)).warnings == []  # what is certain comes first
    assert report.warnings == [] and report.effect == 0.6
    assert "effect on class 0 0.00 [-0.10, 0.10], effect on class 1 0.60" in report.summary()


# Fits #######################################################################################


class Joined(nn.Module):
    """Whether two nodes of the first kind are joined, with logits of any size."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, x, edge_index, batch):
        red = x[:, 0]
        joined = torch.zeros_like(red).index_add(0, edge_index[1], red[edge_index[0]]) * red
        yes = (global_add_pool(joined.unsqueeze(1), batch) > 0).float() - 0.5
        return torch.cat([-yes, yes], 1) * self.size


class Edges(nn.Module):
    """Whether there are many edges."""

    def forward(self, x, edge_index, batch):
        degree = torch.bincount(edge_index[1], minlength=len(x)).to(x).unsqueeze(1)
        more = (global_add_pool(degree, batch) - 45) / 5
        return torch.cat([-more, more], 1)


class Hash(nn.Module):
    """A number that changes beyond recognition with every node."""

    def forward(self, x, edge_index, batch):
        own = x @ torch.tensor([1.0, 2.3, 3.7])
        heard = own + 0.7 * torch.zeros_like(own).index_add(0, edge_index[1], own[edge_index[0]])
        total = 130 * global_add_pool((heard * 12.9898).sin().unsqueeze(1), batch)
        return torch.cat([total.sin(), -total.sin()], 1) * 3


def red_pairs(count, seed=0):
    """Random graphs of three kinds of nodes, every other one with two nodes of the first joined."""
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for number in range(count):
            noise = erdos_renyi_graph(14, 0.2)
            noise = noise[:, (noise > 1).any(0)]  # the first two nodes are not joined
            kind = torch.randint(1, 3, (14,), generator=generator)
            kind[:2] = 0
            pair = torch.tensor([[0, 1], [1, 0]])
            edge_index = torch.cat([noise, pair], 1) if number % 2 else noise
            x = nn.functional.one_hot(kind, 3).float()
            graphs.append(Data(x=x, edge_index=edge_index))
    return graphs


PAIRS = red_pairs(80)


@pytest.mark.parametrize("size", [6.0, 0.6, 0.004])
def test_a_local_model_is_not_called_weak_whatever_its_probabilities(size, tmp_path):
    explainer = HPMEExplainer(k=3, **QUICK).fit(Joined(size), PAIRS, **CLASSES)
    assert explainer.report.warnings == [] and explainer.report.held_out == 26
    absent, present = explainer.report.effects
    assert (absent.name, present.name) == ("class 0", "class 1")
    assert present.effect > 0.9 and abs(absent.effect) < 0.3
    explainer.save(tmp_path / "e.safetensors")
    again = HPMEExplainer.load(tmp_path / "e.safetensors")
    assert again.report == explainer.report
    verdicts = {q.verdict for q in again.quality(Joined(size), PAIRS[1:20:2])}
    assert verdicts == {"carried"}


def test_without_evidence_of_the_fit_no_verdict_claims_any(tmp_path):
    explainer = HPMEExplainer(k=3, **QUICK).fit(Joined(6.0), PAIRS, **CLASSES)
    explainer.report = replace(explainer.report, p_value=0.9, left_low=0.9)
    explainer.save(tmp_path / "e.safetensors")
    again = HPMEExplainer.load(tmp_path / "e.safetensors")
    found = again.quality(Joined(6.0), PAIRS[:20])
    assert {q.verdict for q in found} <= {"unclear", "absence"}
    (one,) = {str(q).rsplit(". ", 1)[1] for q in found[1::2]}
    assert "no evidence" in one


@pytest.mark.parametrize("model", [Edges(), Hash()])
def test_models_without_a_region_are_reported(model):
    report = HPMEExplainer(ratio=0.4, **QUICK).fit(model, PAIRS, **CLASSES).report
    assert report.evidence in ("none", "few") and report.warnings


def test_graphs_of_one_prediction_are_no_evidence():
    report = HPMEExplainer(k=3, **QUICK).fit(Joined(6.0), PAIRS[::2] * 2, **CLASSES).report
    assert report.only == "class 0" and report.evidence == "none"
    assert "all graphs have the same prediction (class 0)" in report.warnings[0]


def test_copies_are_neither_held_out_nor_counted_twice():
    report = HPMEExplainer(k=3, **QUICK).fit(Hash(), PAIRS[:24] * 4, **CLASSES).report
    assert report.held_out == 24 and report.evidence in ("none", "few")


def test_no_copy_of_a_held_out_graph_is_searched(monkeypatch):
    seen = []
    split = HPMEExplainer._split
    monkeypatch.setattr(
        HPMEExplainer, "_split", lambda *given: seen.append(split(*given)) or seen[0]
    )
    HPMEExplainer(k=3, **QUICK).fit(Joined(6.0), PAIRS * 2, **CLASSES)
    searched, held_out = (set((ids % len(PAIRS)).tolist()) for ids in seen[0])
    assert len(held_out) == 26 and not searched & held_out


def test_few_graphs_are_measured_by_halves(monkeypatch):
    asked, on = [], Measured.on

    def counted(*parts):
        asked.append([len(mix.context.store) for mix, _ in parts])
        return on(*parts)

    monkeypatch.setattr(Measured, "on", counted)
    fit = HPMEExplainer(k=3, **QUICK).fit
    report = fit(Joined(6.0), PAIRS[:30], **CLASSES).report
    assert asked == [[15, 15]] and report.held_out == 30 and report.warnings == []
    report = fit(Joined(6.0), PAIRS[:8], **CLASSES).report
    assert asked[1] == [8] and report.held_out == 0
    assert "none of them could be kept from the search" in report.warnings[0]


@pytest.mark.slow
def test_p_values_of_fits_are_uniform_or_conservative_under_the_null():
    """40 fits to graphs about which the model says nothing that a region could carry."""
    options = {"k": 3, "restarts": 1}
    p = []
    for seed in range(40):
        graphs = red_pairs(40, seed=seed)
        report = HPMEExplainer(seed=seed, **options).fit(Hash(), graphs, **CLASSES).report
        p.append(report.p_value)
    p = torch.tensor(p)
    # Three standard errors above what is said.
    for level, most in ((0.01, 0.057), (0.05, 0.153), (0.2, 0.39)):
        assert float((p <= level).float().mean()) <= most


def test_a_regression_has_one_effect():
    report = HPMEExplainer(k=3, **QUICK).fit(Finder(), planted_graphs(70), mode="regression").report
    (effect,) = report.effects
    assert effect.name is None and effect.graphs == report.held_out == 23
