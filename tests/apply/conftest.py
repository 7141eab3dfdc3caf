"""A user's folder: a module with a model, a fitted explainer, tables of molecules."""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from hpme.cli import app
from hpme.data import from_smiles
from hpme.explainers import HPMEExplainer

if not all(map(find_spec, ("rdkit", "pyarrow"))):  # extras chem and parquet
    collect_ignore_glob = ["test_*.py"]

MODULE = """
import torch
from torch_geometric.nn import GCN, global_add_pool


class Model(torch.nn.Module):
    def __init__(self, width=8, outputs=2, layers=2):
        super().__init__()
        self.gnn = GCN(14, width, layers)
        self.head = torch.nn.Linear(width, outputs)

    def forward(self, x, edge_index, batch):
        return self.head(global_add_pool(self.gnn(x, edge_index), batch))


def build(width=8):
    torch.manual_seed(0)
    return Model(width)


def wide():
    return build(12)


def deep():
    return Model(layers=3)


class Other(Model):
    def forward(self, x, edge_index, batch):
        return -super().forward(x, edge_index, batch)


def other():
    torch.manual_seed(0)
    return Other()


def call(model, batch):
    return model(batch.x, batch.edge_index, batch.batch)


def hungry():
    # Has memory for three graphs at a time.
    model = build()
    forward = model.forward

    def refuse(x, edge_index, batch):
        if int(batch.max()) >= 3 or len(x) > 40:
            raise RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 9 B")
        return forward(x, edge_index, batch)

    model.forward = refuse
    return model


def picky():
    model = build()
    forward = model.forward

    def refuse(x, edge_index, batch):
        if bool((x[:, 8] > 0).any()):
            raise RuntimeError("no sodium, please")
        return forward(x, edge_index, batch)

    model.forward = refuse
    return model
"""
SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "CCCC", "O=C(O)c1ccccc1", "C1CCCCC1", "CC(C)O",
          "c1ccncc1", "CCOC(=O)C", "NCC(=O)O", "CC#N"]  # fmt: skip


@pytest.fixture(scope="session")
def saved(tmp_path_factory):
    """File of an explainer that was fitted to the module's model."""
    folder = tmp_path_factory.mktemp("user")
    Path(folder, "my_molecules.py").write_text(MODULE)
    namespace: dict = {}
    exec(MODULE, namespace)
    explainer = HPMEExplainer(ratio=0.4, restarts=1)
    explainer.fit(namespace["build"](), from_smiles(SMILES, [0] * len(SMILES), progress=False))
    explainer.save(folder / "explainer.safetensors")
    return folder / "explainer.safetensors"


@pytest.fixture
def user(tmp_path, saved, monkeypatch):
    """An empty folder with the user's module in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    Path("my_molecules.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "my_molecules", raising=False)
    yield tmp_path
    torch.set_num_threads(1)


@pytest.fixture
def invoke(user, saved):
    def run(data, out="out", *options, explainer=saved, model="my_molecules:build"):
        command = ["apply", explainer, "-m", model, "-d", data, "--out", out, *options]
        return CliRunner().invoke(app, list(map(str, command)))

    return run


@pytest.fixture
def table(user):
    """Writes a table of molecules, some of them bad; returns it with the lines of the good ones."""

    def make(rows=40, bad=True, name="molecules.csv"):
        lines, good = ["smiles,name"], []
        for number in range(rows):
            lines.append(f"{SMILES[number % len(SMILES)]},molecule {number}")
            good.append(len(lines))
            if bad and number % 9 == 4:
                lines.append("C1CC,ring left open")
        Path(name).write_text("\n".join(lines) + "\n")
        return Path(name), good

    return make
