"""Chemprop's networks; ``make chemprop`` installs it in an environment of its own and runs this."""

import logging
import re
import warnings

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from hpme.cli import app
from hpme.errors import InputError, ModelError, StorageError
from hpme.explainers import HPMEExplainer
from hpme.graphs import GraphStore

chemprop = pytest.importorskip("chemprop")
pytest.importorskip("torchmetrics")

from chemprop.models.utils import save_model  # noqa: E402

from chemprop_networks import CHEAP, SMILES, chemprops_own, network, ours, points, trained  # noqa: E402
from hpme.commands.chemprop import chemprop_graphs, chemprop_model  # noqa: E402
from hpme.commands.options import ChempropFiles  # noqa: E402
from hpme.models.chemprop import explained, molecules, read_model  # noqa: E402
from hpme.models.chemprop.files import _Views  # noqa: E402


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def test_predictions_are_chemprops_own():
    found = points()
    model = trained(found)
    known = explained(model)
    own = chemprops_own(model, found)
    assert torch.allclose(ours(known, molecules(found, model)), own, atol=1e-5)
    assert torch.allclose(ours(known, molecules(SMILES)), own, atol=1e-5)
    assert float(own.std()) > 1e-3


def test_indices_are_not_copied_for_every_feature():
    with _Views():
        index, other = torch.tensor([[0], [2]]).repeat(1, 3), torch.ones(2, 2).repeat(1, 2)
    assert index.stride() == (1, 0) and index.tolist() == [[0, 0, 0], [2, 2, 2]]
    assert other.shape == (2, 4)


@pytest.mark.parametrize("passing", ["Bond", "Atom"])
def test_additional_features_and_descriptors(passing):
    found, model = points(extra=True), network(passing, extra=True)
    own = chemprops_own(model, found, extra_atom_fdim=3, extra_bond_fdim=2)
    graphs = molecules(found, model)
    known = explained(model)
    assert torch.allclose(ours(known, graphs), own, atol=1e-5)
    explainer = HPMEExplainer(**CHEAP).fit(known, graphs, progress=False)  # fields survive mixes
    masks = explainer.explain(known, graphs, progress=False)
    assert len(masks) == len(graphs) and masks[0].smiles == SMILES[0]


@pytest.mark.parametrize("mode", ["V1", "V2", "ORGANIC", "RIGR"])
def test_the_featurizer_is_told_by_the_widths(mode):
    model = network(mode=mode)
    assert ours(explained(model), molecules(SMILES[:3], model)).shape == (3, 1)


def test_widths_that_fit_no_featurizer():
    with pytest.raises(
        InputError, match=r"takes 75 features per atom and 16 per bond.*V2 72 and 14"
    ):
        molecules(SMILES, network(extra=True))


@pytest.mark.parametrize(
    ("head", "options", "facts", "shape"),
    [
        ("RegressionFFN", {"n_tasks": 2}, {"target": "second"}, (72, 1)),
        ("MveFFN", {"n_tasks": 1}, {}, (72, 1)),
        ("BinaryClassificationFFN", {"n_tasks": 2}, {"target": "first"}, (72, 1)),
        ("MulticlassClassificationFFN", {"n_classes": 3}, {}, (72, 3)),
        ("MulticlassClassificationFFN", {"n_classes": 3}, {"target": 1}, (72, 1)),
    ],
)
def test_heads_and_tasks(head, options, facts, shape):
    model = network(head=head, **options)
    tasks = ["first", "second"] if options.get("n_tasks") == 2 else None
    known = explained(model, tasks=tasks, **facts)
    output = ours(known, molecules(SMILES, model))
    assert output.shape == shape
    own = chemprops_own(model, points())
    if head == "BinaryClassificationFFN":
        assert torch.allclose(output.sigmoid()[:, 0], own[:, 0], atol=1e-5)
    elif shape[1] == 1 and head == "MulticlassClassificationFFN":
        assert torch.allclose(output.sigmoid()[:, 0], own[:, 0, 1], atol=1e-5)
    elif tasks:
        assert torch.allclose(output[:, 0], own[:, 1], atol=1e-5)


def test_several_tasks_need_a_target():
    model = network(head="BinaryClassificationFFN", n_tasks=2)
    known = explained(model, tasks=["first", "second"])
    with pytest.raises(InputError, match=r"2 tasks; name the one to explain with target=.*: first"):
        ours(known, molecules(SMILES, model))


def test_a_model_file_is_read_without_running_it(tmp_path):
    model = network()
    save_model(tmp_path / "model.pt", model, ["amide"])
    read, tasks = read_model(tmp_path / "model.pt")
    graphs = molecules(SMILES, model)
    assert tasks == ["amide"]
    assert torch.equal(ours(explained(read), graphs), ours(explained(model), graphs))


class Evil:
    def __reduce__(self):
        return (print, ("this code ran",))


def test_foreign_code_needs_trust(tmp_path, capsys):
    file = tmp_path / "model.pt"
    save_model(file, network(), ["amide"])
    content = torch.load(file, weights_only=False)
    torch.save({**content, "evil": Evil()}, file)
    with pytest.raises(StorageError, match=r"not Chemprop's.*print.*--trust-model-file"):
        read_model(file)
    assert "this code ran" not in capsys.readouterr().out
    assert read_model(file, trust=True)[1] == ["amide"]


@pytest.mark.parametrize("content", [b"", b"not a model"])
def test_damaged_files(tmp_path, content):
    (tmp_path / "model.pt").write_bytes(content)
    with pytest.raises(StorageError, match="no model file of Chemprop 2"):
        read_model(tmp_path / "model.pt")
    with pytest.raises(StorageError, match="no file"):
        read_model(tmp_path / "missing.pt")


def test_other_models_are_refused():
    with pytest.raises(ModelError, match="Linear is no network for properties of one molecule"):
        explained(torch.nn.Linear(1, 1))
    with pytest.raises(InputError, match="molecule 1: SMILES"):
        molecules(["C", "not a molecule"])


def explain_on_the_command_line(folder, model, *more):
    save_model(folder / "model.pt", model, ["amide"])
    (folder / "molecules.csv").write_text("smiles\n" + "\n".join(SMILES))
    arguments = [
        "explain", "--chemprop", folder / "model.pt", "--data", folder / "molecules.csv",
        "--out", folder / "page.html", "--graphs", 12, "--quiet", *more,
    ]  # fmt: skip
    cheap = [part for key, value in CHEAP.items() for part in ("-o", f"{key}={value}")]
    return CliRunner().invoke(app, [str(argument) for argument in [*arguments, *cheap]])


def test_one_page_on_the_command_line(tmp_path):
    model = trained(points())
    result = explain_on_the_command_line(tmp_path, model)
    assert result.exit_code == 0, result.output
    page = (tmp_path / "page.html").read_text("utf-8")
    assert SMILES[0] in page or "c1ccncc1" in page
    result = explain_on_the_command_line(tmp_path, model, "--model", "a:b")
    assert result.exit_code == 2 and "give one of --model and --chemprop" in result.output


OPTIONS = {"x_d": "--descriptors-path", "V_f": "--atom-features-path",
           "V_d": "--atom-descriptors-path", "E_f": "--bond-features-path"}  # fmt: skip


def write_extra(folder, found, change=lambda name, arrays: arrays):
    """Files of additional features and descriptors as Chemprop reads them, by its names."""
    files = {}
    for name in OPTIONS:
        arrays = change(name, [getattr(point, name) for point in found])
        if arrays is not None:
            files[name] = folder / f"{name}.npz"
            np.savez(files[name], *([np.stack(arrays)] if name == "x_d" else arrays))
    return files


def as_options(files):
    return [part for name, file in files.items() for part in (OPTIONS[name], file)]


def test_files_of_additional_features_belong_to_their_molecules(tmp_path):
    found, model = points(extra=True), network(extra=True)
    save_model(tmp_path / "model.pt", model, ["amide"])
    files = write_extra(tmp_path, found)
    table, skipped = tmp_path / "table.csv", tmp_path / "skipped.csv"
    table.write_text("smiles\n" + "\n".join(SMILES))
    known = chemprop_model(ChempropFiles(chemprop=[tmp_path / "model.pt"]), hydrogens=False)
    graphs = chemprop_graphs(known, table, skipped, files=files)
    own = chemprops_own(model, found, extra_atom_fdim=3, extra_bond_fdim=2)
    assert torch.allclose(ours(known, graphs), own, atol=1e-5)
    result = explain_on_the_command_line(tmp_path, model, *as_options(files))
    assert result.exit_code == 0, result.output
    assert "c1ccncc1" in (tmp_path / "page.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("x_d", lambda arrays: None, "takes 5 descriptors per molecule, the first has 0"),
        ("x_d", lambda arrays: [a[:2] for a in arrays], "takes 5 descriptors per molecule.* has 2"),
        ("x_d", lambda arrays: arrays[1:], "71 rows for 72 molecules"),
        ("V_d", lambda arrays: None, "takes 4 descriptors per atom, the first has 0"),
        ("V_d", lambda arrays: [a[1:] for a in arrays], "molecule 0 has 3 atoms.*V_d of 2"),
        ("V_d", lambda arrays: arrays[1:], "71 arrays for 72 molecules"),
        ("V_f", lambda arrays: None, "takes 75 features per atom"),
        ("V_f", lambda arrays: [a[1:] for a in arrays], "molecule 0.*atoms"),
        ("E_f", lambda arrays: None, "16 per bond"),
        ("E_f", lambda arrays: [a[1:] for a in arrays], "molecule 0.*bonds"),
    ],
)
def test_files_that_do_not_fit(tmp_path, name, change, message):
    found = points(extra=True)
    files = write_extra(tmp_path, found, lambda n, a: change(a) if n == name else a)
    result = explain_on_the_command_line(tmp_path, network(extra=True), *as_options(files))
    assert result.exit_code == 1 and "Traceback" not in result.output
    assert re.search(message, " ".join(result.output.split())), result.output


@pytest.mark.parametrize("content", [None, b"", b"PK\x03\x04 cut off", b"no numbers"])
def test_files_that_cannot_be_read(tmp_path, content):
    file = tmp_path / "x_d.npz"
    if content is not None:
        file.write_bytes(content)
    result = explain_on_the_command_line(tmp_path, network(), "--descriptors-path", file)
    assert result.exit_code == 1 and "Traceback" not in result.output
    assert "x_d.npz' is no .npz file of numbers" in " ".join(result.output.split())
    named = tmp_path / "named.npz"
    np.savez(named, mine=np.zeros((72, 2)))
    result = explain_on_the_command_line(tmp_path, network(), "--descriptors-path", named)
    assert result.exit_code == 1 and "arr_0" in result.output


def test_files_belong_to_chemprop(tmp_path):
    result = CliRunner().invoke(
        app, ["explain", "-m", "a:b", "-d", "c:d", "--descriptors-path", "x.npz"]
    )
    assert result.exit_code == 2 and "belongs to --chemprop" in result.output


def test_nothing_of_the_store_is_lost():
    store = GraphStore.from_graphs(molecules(points(extra=True)), attributes="fitting")
    assert set(store.graph) >= {"X_d", "y"} and "V_d" in store.node
