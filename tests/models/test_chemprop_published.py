"""Ensembles, published models, and what each method says of Chemprop's networks."""

import copy
import csv
import importlib.util
import logging
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from hpme.errors import InputError, ModelError, StorageError
from hpme.explainers import EXPLAINERS, HPMEExplainer, OcclusionExplainer

pytest.importorskip("chemprop")
pytest.importorskip("torchmetrics")

import lightning.pytorch as pl
from chemprop import data, models
from chemprop.models.utils import save_model

from chemprop_networks import CHEAP, SMILES, WIDTH, chemprops_own, network, ours, points, trained
from hpme.models import ExplainedModel
from hpme.models.chemprop import Ensemble, explained, molecules, read_model


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


ADMET = importlib.util.find_spec("admet_ai")
needs_admet = pytest.mark.skipif(ADMET is None, reason="make chemprop installs it")


def published(kind):
    return Path(ADMET.submodule_search_locations[0]) / "resources" / kind


@needs_admet
@pytest.mark.parametrize("kind", ["classification", "regression"])
def test_a_published_ensemble_predicts_as_chemprop_does(kind):
    with (published("data") / "drugbank_approved.csv").open(encoding="utf-8") as file:
        drugs = list(csv.DictReader(file))[:200]
    smiles = [drug["smiles"] for drug in drugs]
    found = [data.MoleculeDatapoint.from_smi(text) for text in smiles]
    folder = published("models") / f"admet_{kind}"
    own = torch.stack(
        [
            chemprops_own(models.MPNN.load_from_file(file, map_location="cpu"), found)
            for file in sorted(folder.glob("*.pt"))
        ]
    )
    model, tasks = read_model(folder)
    graphs = molecules(smiles, model)
    known = explained(model, target=tasks[0])
    output = ours(known, graphs)
    output = output.sigmoid() if kind == "classification" else output
    assert torch.allclose(output, own.mean(0)[:, :1], atol=1e-5, rtol=1e-5)
    assert torch.allclose(model.spread(graphs), own.std(0), atol=1e-5, rtol=1e-4)
    written = torch.tensor([float(drug[tasks[0]]) for drug in drugs])
    assert torch.allclose(output[:, 0], written, atol=1e-4)  # what its authors' table says


def ensemble(folder, **options):
    for number in range(3):
        torch.manual_seed(number)
        file = folder / f"model_{number}" / "best.pt"
        file.parent.mkdir()
        save_model(file, network(**options), ["first", "second"][: options.get("n_tasks", 1)])
    (folder / "model_0" / "last.ckpt").write_bytes(b"a checkpoint of the same")
    return sorted(folder.rglob("*.pt"))


def test_a_folder_or_several_files_are_an_ensemble(tmp_path):
    files = ensemble(tmp_path, head="BinaryClassificationFFN", n_tasks=2)
    model, tasks = read_model(tmp_path)
    assert isinstance(model, Ensemble) and tasks == ["first", "second"]
    graphs = molecules(SMILES, model)
    known = explained(model, target="second")
    members = [ours(explained(read_model(file)[0], target="second"), graphs) for file in files]
    assert torch.allclose(
        ours(known, graphs).sigmoid(), torch.stack(members).sigmoid().mean(0), atol=1e-6
    )
    assert torch.equal(ours(explained(read_model(files)[0], target=1), graphs), ours(known, graphs))
    assert model.spread(graphs).shape == (72, 2) and not model.training
    with known.frozen():
        embedding = known.adapter().embed(known.read(graphs).batch())
    assert embedding.nodes.shape[1] == WIDTH and embedding.graph.shape == (72, WIDTH)
    explainer = HPMEExplainer(**CHEAP).fit(known, graphs, progress=False)
    assert len(explainer.explain(known, graphs[:5], progress=False)) == 5


def test_members_that_do_not_belong_together(tmp_path):
    files = ensemble(tmp_path, n_tasks=2)
    save_model(tmp_path / "other.pt", network(n_tasks=1), ["first"])
    with pytest.raises(InputError, match=r"same number of tasks: '.*best.pt' has 2, '.*other.pt'"):
        read_model([files[0], tmp_path / "other.pt"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(StorageError, match=r"no .pt or .ckpt file in folder"):
        read_model(tmp_path / "empty")


@pytest.mark.parametrize("head", ["RegressionFFN", "BinaryClassificationFFN"])
def test_tasks_are_known_by_name(tmp_path, head):
    save_model(tmp_path / "one.pt", network(head=head), ["amide"])
    model, _ = read_model(tmp_path / "one.pt")
    graphs = molecules(SMILES, model)
    named = ours(explained(model, target="amide"), graphs)
    plain = ours(explained(model), graphs)
    plain = plain.logit() if head == "BinaryClassificationFFN" else plain
    assert torch.allclose(named, plain, atol=1e-4)
    save_model(tmp_path / "two.pt", network(head=head, n_tasks=2), ["first", "second"])
    model, _ = read_model(tmp_path / "two.pt")
    with pytest.raises(InputError, match="unknown task 'third'; valid: first, second"):
        ours(explained(model, target="third"), graphs)


FAST = {"hpme": CHEAP, "matchexplainer": {"k": 3}, "subgraphx": {"samples": 2, "rollouts": 1}}
BY_ATOMS = ["hpme", "integratedgradients", "matchexplainer", "myerson", "occlusion", "subgraphx"]
BY_ATOMS += ["distilled-occlusion", "best-attribution"]


@pytest.mark.parametrize("slug", [slug for slug in EXPLAINERS if slug != "hpme-printed"])
def test_methods_give_atoms_or_are_refused(slug, caplog):
    model = trained(points())
    known, graphs = explained(model), molecules(SMILES, model)
    explainer = EXPLAINERS[slug](**FAST.get(slug, {}))
    if slug in (*BY_ATOMS, "random"):
        masks = explainer.fit(known, graphs, progress=False).explain(
            known, graphs[:9], progress=False
        )
        assert slug == "random" or float(torch.cat([one.node_mask for one in masks]).std()) > 1e-3
        assert "does not change with edge weights" not in caplog.text
        return
    message = "no attention" if slug == "att" else r"works by weights of edges.*MPNN.*: hpme.*occl"
    with pytest.raises(ModelError, match=message):
        explainer.fit(known, graphs, progress=False).explain(known, graphs, progress=False)


def test_occlusion_is_by_atoms_unless_bonds_are_asked_for():
    model = trained(points())
    known, graphs = explained(model), molecules(SMILES, model)

    def masks(**options):
        found = OcclusionExplainer(**options).explain(known, graphs[:9], progress=False)
        return torch.cat([one.node_mask for one in found])

    assert torch.equal(masks(), masks(unit="node")) and not torch.equal(masks(), masks(unit="edge"))


def path_by_hand(known, graph, means, steps=100):
    """Integrated gradients by differences, descriptor by descriptor."""
    given, ways = graph.X_d[0], []
    for step in range(steps):
        place = means + (given - means) * (step + 0.5) / steps
        for number in range(len(means)):
            for side in (-1, 1):
                moved = copy.copy(graph)
                moved.X_d = place.clone().unsqueeze(0)
                moved.X_d[0, number] += side * (given - means)[number] / steps / 2
                ways.append(moved)
    values = ours(known, ways)[:, 0].view(steps, len(means), 2)
    return (values[..., 1] - values[..., 0]).double().sum(0).float()


def test_descriptors_have_their_share(tmp_path):
    found, model = points(extra=True), network(extra=True)
    known, graphs = explained(model), molecules(found, model)
    explainer = OcclusionExplainer().fit(known, graphs, progress=False)
    table = np.stack([point.x_d for point in found])
    means = torch.tensor(table.mean(0), dtype=torch.float32)
    assert torch.allclose(torch.tensor(explainer.background), means, atol=1e-6)
    one = explainer.explain(known, graphs[:4], progress=False)[2]
    assert one.descriptors.shape == (5,)
    assert torch.allclose(one.descriptors, path_by_hand(known, graphs[2], means), atol=1e-3)
    assert float(one.descriptors.sum()) == pytest.approx(one.descriptors_together, abs=2e-3)
    changed = copy.deepcopy(graphs[2])
    before = float(ours(known, [changed])[0, 0])
    changed.X_d[0] = means
    after = float(ours(known, [changed])[0, 0])
    assert before - after == pytest.approx(one.descriptors_together, abs=1e-5)
    changed.X_d, changed.x = graphs[2].X_d, torch.zeros_like(changed.x)
    after = float(ours(known, [changed])[0, 0])
    assert before - after == pytest.approx(one.graph_alone, abs=1e-5)
    assert list(one.to_frame("descriptors").columns) == ["descriptor", "share"]
    explainer.save(tmp_path / "explainer.safetensors")
    loaded = OcclusionExplainer.load(tmp_path / "explainer.safetensors")
    again = loaded.explain(known, graphs[2:3], progress=False)[0]
    assert torch.allclose(again.descriptors, one.descriptors, atol=1e-6)
    plain = network()
    without = OcclusionExplainer().explain(explained(plain), molecules(SMILES[:2]), progress=False)
    assert without[0].get("descriptors") is None


def test_the_network_inside_a_lightning_module_is_found():
    class Trained(pl.LightningModule):
        def __init__(self, inner):
            super().__init__()
            self.model = inner

    inner = torch.nn.Linear(2, 2)
    assert ExplainedModel(Trained(inner)).model is inner
    own = network()  # has a forward, and is a Lightning module
    assert ExplainedModel(own).model is own
