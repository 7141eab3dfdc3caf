"""Proofs: the transplants behind a verdict, as they were asked about."""

import pytest
import torch
from torch_geometric.nn import global_add_pool

from hpme.data import from_smiles
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer
from hpme.explainers.hpme.report import FitReport
from hpme.models.explained import ExplainedModel
from hpme.viz.sheets import in_words, placed
from pages import cycle

SIZES = {"restarts": 1}


class Marked(torch.nn.Module):
    """Yes if nodes are marked."""

    def forward(self, x, edge_index, batch):
        score = 4 * global_add_pool(x, batch)[:, :1] - 4
        return torch.cat([-score, score], 1)


class Nitrogens(torch.nn.Module):
    """A value: how many nitrogens a molecule has."""

    def forward(self, x, edge_index, batch):
        return global_add_pool(x, batch)[:, NITROGEN : NITROGEN + 1]


NITROGEN = 1


@pytest.fixture(scope="module")
def explained():
    graphs = [cycle(8 + i % 3, i % 2, seed=i) for i in range(24)]
    for i, graph in enumerate(graphs):
        graph.x = torch.zeros_like(graph.x)
        graph.x[: 2 * (i % 2), 0] = 1
    model = Marked()
    explainer = HPMEExplainer(k=2, **SIZES).fit(model, graphs, progress=False)
    explanations = explainer.explain(model, graphs)
    explainer.quality(model, explanations)
    return model, explainer, explanations


def output(model, graph, number):
    batch = torch.zeros(graph.num_nodes, dtype=torch.long)
    return float(model(graph.x, graph.edge_index, batch).softmax(1)[0, number])


def test_outputs_are_those_of_the_drawn_graphs(explained):
    model, _, explanations = explained
    seen = 0
    for explanation in explanations:
        number = int(
            model(
                explanation.x, explanation.edge_index, torch.zeros(len(explanation.x)).long()
            ).argmax()
        )
        proof = explanation.proof()
        assert proof.name == f"p(class {number})"
        assert proof.region.equal(explanation.pooled)
        for trial in proof.trials:
            seen += 1
            host, *both = trial
            assert output(model, host.graph, number) == pytest.approx(host.output, abs=1e-5)
            for one in both:
                assert output(model, one.graph, number) == pytest.approx(one.output, abs=1e-5)
                assert int(one.nodes.sum()) == int(explanation.pooled.sum())
                assert bool(((one.origin < 0) == one.nodes).all())
    assert seen > len(explanations)


def test_hosts_stay_in_their_place(explained):
    trial = next(t for e in explained[2] for t in e.proof().trials)
    host, *both = placed(trial)
    for one, drawn in zip(trial[1:], both, strict=True):
        kept = one.origin >= 0
        assert torch.allclose(drawn.places[kept], host.places[one.origin[kept]])
    assert int(trial[0].nodes.sum()) == host.num_nodes - int((trial[1].origin >= 0).sum())


def test_it_is_drawn_and_said(explained, tmp_path):
    explanation = explained[2][0]
    assert explanation.proof(tmp_path / "proof.png").stat().st_size > 5000
    assert "another graph" in explanation.proof()._repr_html_()
    assert "random regions take it to" in in_words(explanation.proof())


def test_without_quality_there_is_no_proof(explained):
    model, explainer, explanations = explained
    fresh = explainer.explain(model, explanations[:2])
    with pytest.raises(InputError, match=r"explainer.quality\(model, explanations\)"):
        fresh[0].proof()
    explainer.quality(model, fresh, proofs=False)
    with pytest.raises(InputError, match="nothing was moved"):
        fresh[0].proof()


def test_reports_show_two_distributions_and_survive_saving(explained):
    report = explained[1].report
    assert all(len(one.chosen) == len(one.random) == one.graphs for one in report.effects)
    assert "chosen regions" in report._repr_html_()
    assert FitReport.from_dict(report.to_dict()) == report
    old = report.to_dict()
    for one in old["effects"]:
        del one["chosen"], one["random"]
    assert "svg" not in FitReport.from_dict(old)._repr_html_()


def test_molecules_stay_molecules():
    chem = pytest.importorskip("rdkit.Chem")
    texts = ["CC(C)CC", "c1ccccc1CC", "CCCN", "NCCc1ccccc1", "CCCCO", "CC(N)CC", "OCCC", "NCCCC"]
    graphs = list(from_smiles(texts * 3, [0] * 24, progress=False))
    global NITROGEN
    NITROGEN = int((graphs[2].x[3] - graphs[2].x[0]).argmax())
    model = ExplainedModel.of(Nitrogens(), mode="regression")
    explainer = HPMEExplainer(k=1, **SIZES).fit(model, graphs, progress=False)
    explanations = explainer.explain(model, graphs[:8])
    explainer.quality(model, explanations)
    trials = [t for e in explanations for t in e.proof().trials if t[0].graph.get("smiles")]
    assert trials
    for trial in trials:
        for one in trial[1:]:
            molecule = chem.MolFromSmiles(one.graph.smiles)
            assert molecule.GetNumAtoms() == one.graph.num_nodes == len(one.nodes)
            bonds = {frozenset(pair) for pair in one.graph.edge_index.T.tolist()}
            assert bonds == {
                frozenset((b.GetBeginAtomIdx(), b.GetEndAtomIdx())) for b in molecule.GetBonds()
            }
            nitrogens = sum(atom.GetSymbol() == "N" for atom in molecule.GetAtoms())
            assert one.output == pytest.approx(nitrogens, abs=1e-3)
