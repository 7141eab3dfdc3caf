"""Quality without ground truth, on a case where it is known."""

import math
from dataclasses import fields

import pytest
import torch
from torch import nn

from finder import PLANTED, Finder, planted_graphs
from hpme.errors import NotFittedError
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.quality import Quality
from hpme.explainers.hpme.rest import named

NUMBERS = [field.name for field in fields(Quality) if field.type == "float"]


def mean(values):
    return sum(values) / len(values)


def made(verdict="part", **changed):
    """A quality with round numbers."""
    known = dict.fromkeys(NUMBERS, 0.0)
    known |= {"effect": 0.4, "effect_low": 0.22, "effect_high": 0.58, "random": 0.02}
    known |= {"removal": -0.43, "grafted": 1.0, "size": 3, "output": "p(AMES)", "nodes": "atoms"}
    return Quality(verdict=verdict, **{**known, **changed})


def test_good_explanations_have_good_quality(fitted, graphs):
    quality = fitted.quality(Finder(), graphs)
    assert len(quality) == len(graphs)
    assert mean([q.carried for q in quality]) > 0.7
    assert mean([q.lost for q in quality]) > 0.5
    assert mean([q.p < 0.01 for q in quality]) > 0.9
    assert mean([q.stable for q in quality]) > 0.9
    assert mean([q.verdict == "carried" for q in quality]) > 0.9
    for q in quality:
        assert q.carried_low <= q.carried <= q.carried_high and q.lost_low <= q.lost <= q.lost_high
        assert q.effect_low <= q.effect <= q.effect_high and q.size == PLANTED


def test_a_wrong_pool_has_bad_quality(fitted, graphs):
    right = fitted.pool.weight.data.clone()
    try:
        fitted.pool.weight.data.neg_()
        bad = fitted.quality(Finder(), graphs)
    finally:
        fitted.pool.weight.data = right
    assert mean([q.carried for q in bad]) < 0.1
    assert mean([q.stable for q in bad]) < 0.5
    assert mean([q.verdict == "carried" for q in bad]) < 0.05


class Times(nn.Module):
    """A model whose outputs are those of another times a factor."""

    def __init__(self, factor):
        super().__init__()
        self.finder, self.factor = Finder(), factor

    def forward(self, x, edge_index, batch):
        return self.factor * self.finder(x, edge_index, batch)


def test_shares_do_not_depend_on_the_unit(fitted, graphs):
    for one, same in zip(
        fitted.quality(Finder(), graphs[:6]), fitted.quality(Times(0.1), graphs[:6]), strict=True
    ):
        shares = [(q.carried, q.carried_low, q.lost, q.lost_high) for q in (one, same)]
        assert shares[0] == pytest.approx(shares[1], abs=1e-3)
        assert same.effect == pytest.approx(0.1 * one.effect, abs=1e-4)
        assert one.verdict == same.verdict


def test_where_outputs_do_not_differ_nothing_is_carried(fitted, graphs):
    found = fitted.quality(Times(0.0), graphs[:4])
    assert {(q.verdict, q.carried, q.lost, q.p) for q in found} == {("absence", 0.0, 0.0, 1.0)}


def test_does_not_depend_on_other_graphs_or_the_process(fitted, graphs, tmp_path):
    together = fitted.quality(Finder(), graphs[:6])
    fitted.save(tmp_path / "e.safetensors")
    loaded = HPMEExplainer.load(tmp_path / "e.safetensors")
    alone = [loaded.quality(Finder(), [graph])[0] for graph in graphs[:6]]
    assert [q.verdict for q in alone] == [q.verdict for q in together]
    for name in NUMBERS:
        single, common = ([getattr(q, name) for q in some] for some in (alone, together))
        assert single == pytest.approx(common, abs=1e-4, nan_ok=True), name


def test_one_restart_says_nothing_about_stability():
    graphs = planted_graphs(12)
    explainer = HPMEExplainer(k=PLANTED, restarts=1)
    quality = explainer.fit(Finder(), graphs, mode="regression").quality(Finder(), graphs)
    assert all(math.isnan(q.stable) for q in quality)


def test_sentences():
    assert made(carried=0.49, carried_low=0.3).sentence() == (
        "These 3 atoms raise p(AMES) by 0.40 [0.22, 0.58] in other molecules; random atoms by 0.02."
        " Removing them lowers it by 0.43. Part of the reason (49%)."
    )
    lowers = made("carried", size=1, effect=-0.4, effect_low=-0.58, effect_high=-0.1, random=-0.02)
    assert str(lowers) == (
        "carried: This atom lowers p(AMES) by 0.40 [0.10, 0.58] in other molecules; random atoms by"
        " 0.02. Removing it lowers it by 0.43. Most of the reason."
    )
    little = made("absence", nodes="nodes", effect=0.0021, effect_low=-0.001, removal=0.0)
    assert little.sentence() == (
        "These 3 nodes change p(AMES) by 0.0021 [-0.0010, 0.5800] in other graphs; random nodes by "
        "0.0200. Removing them lowers it by 0.0000. Nothing in the graph carries the prediction."
    )
    lower = {"lost": -0.4, "removal_low": -0.5, "removal_high": -0.3}
    against = made("unclear", **lower, way=-0.5).sentence()
    assert against.endswith("by 0.43. What is marked speaks against the prediction.")
    assert made("unclear", **lower, way=0.5).sentence().endswith("Too little is certain.")
    gone = made("unclear", effect=math.nan, removal=math.nan, nodes="nodes")
    assert gone.sentence() == "These 3 nodes cannot be moved. Too little is certain."


def test_sentences_begin_with_what_is_certain():
    changed = {"carried_low": -5.0, "lost_low": 0.2, "effect_low": -0.84, "effect_high": 1.0}
    assert made(**changed, removal_low=-0.6, removal_high=-0.3).sentence() == (
        "Removing these 3 atoms lowers p(AMES) by 0.43 [0.30, 0.60]. In other molecules they change"
        " it by 0.40 [-0.84, 1.00]; random atoms by 0.02. Part of the reason."
    )
    only = made(effect=math.nan, grafted=0.0, removal_low=-0.6, removal_high=-0.3).sentence()
    assert only == (
        "These 3 atoms fit into too few other molecules. Replacing them, which gives no molecule, "
        "lowers p(AMES) by 0.43 [0.30, 0.60]. Part of the reason."
    )
    always = made(**changed, grafted=0.5, removal_low=-0.43, removal_high=-0.43).sentence()
    assert always.startswith("Removing these 3 atoms lowers p(AMES) by 0.43. In other molecules")


def test_sentences_name_the_rest():
    part = made(carried=0.49, carried_low=0.3, more="C=O", together=0.81).sentence()
    assert part.endswith("Part of the reason (49%); with C=O 81%.")
    assert made(more="N 7", together=math.nan).sentence().endswith("reason; needs N 7.")
    same = made(carried=0.49, carried_low=0.3, more="C=O", together=0.5).sentence()
    assert same.endswith("Part of the reason (49%).")  # it adds nothing
    whole = made("carried", carried=0.94, carried_low=0.8, more="C=O", together=1.0).sentence()
    assert whole.endswith("Most of the reason (94%); needs C=O.")


def test_random_nodes_that_do_the_opposite_are_said_to():
    opposite = "by 0.40 [0.22, 0.58] in other molecules; random atoms lower it by 0.07."
    assert opposite in made(random=-0.07).sentence()
    lowers = made(effect=-0.4, effect_low=-0.58, effect_high=-0.1, random=0.07)
    assert "random atoms raise it by 0.07." in lowers.sentence()
    unsure = made(effect_low=-0.1, random=-0.07)
    assert "change p(AMES) by 0.40 [-0.10, 0.58]" in unsure.sentence()
    assert "random atoms by -0.07." in unsure.sentence()
    nothing = made(effect=math.nan, removal=0.01, removal_low=-0.2, removal_high=0.22)
    assert "Removing them changes p(AMES) by 0.010 [-0.200, 0.220]." in nothing.sentence()


@pytest.mark.parametrize(
    ("nodes", "smiles", "name"),
    [
        ([], "CC", ""),
        ([3], None, "node 3"),
        ([1, 3, 4], None, "node 1, node 3 and node 4"),
        ([0, 1, 2, 3, 4], None, "5 more nodes"),
        ([1, 2], "CC(=O)Nc1ccccc1", "C=O"),
        ([0, 3], "CC(=O)Nc1ccccc1", "C 0 and N 3"),
        ([3, 4, 5, 6, 7, 8, 9], "CC(=O)Nc1ccccc1", "the ring and N 3"),
        ([4, 5], "CC(=O)Nc1ccccc1", "C 4 and C 5"),
        ([0, 1, 3, 4, 5], "CC(=O)Nc1ccccc1", "5 more atoms"),
    ],
)
def test_names_of_nodes(nodes, smiles, name):
    pytest.importorskip("rdkit")
    mask = torch.zeros(10, dtype=torch.bool)
    mask[nodes] = True
    assert named(mask, smiles) == name
    if smiles is None:
        assert named(mask, None, typed=True) == f"{len(nodes)} more node" + "s" * (len(nodes) > 1)


def test_must_be_fitted():
    with pytest.raises(NotFittedError, match="fit"):
        HPMEExplainer(k=2).quality(Finder(), planted_graphs(2))
