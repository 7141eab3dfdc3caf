"""A model that counts oxygens, an explainer that was fitted to it, and a server that asks it."""

import threading
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from asking import Asker
from hpme.data import from_smiles
from hpme.explainers import HPMEExplainer

if not all(map(find_spec, ("rdkit", "starlette", "uvicorn"))):  # extras chem and serve
    collect_ignore_glob = ["test_*.py"]

MODULE = """
import torch
from torch_geometric.nn import global_add_pool


class Oxygens(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(14, 2)
        with torch.no_grad():
            self.head.weight.zero_()
            self.head.weight[1, 2] = 4.0
            self.head.bias.copy_(torch.tensor([2.0, 0.0]))

    def forward(self, x, edge_index, batch):
        near = torch.zeros_like(x).index_add(0, edge_index[1], x[edge_index[0]])
        return self.head(global_add_pool(x + 0.1 * near, batch))


def build():
    return Oxygens()
"""
SMILES = ["CCO", "c1ccccc1", "CC(=O)O", "CCN", "CCCC", "O=C(O)c1ccccc1", "C1CCCCC1", "CC(C)O",
          "c1ccncc1", "CCOC(=O)C", "NCC(=O)O", "CC#N"]  # fmt: skip


@pytest.fixture(scope="session")
def fitted(tmp_path_factory):
    """Folder of the user's module, file of the explainer, and both as objects."""
    folder = tmp_path_factory.mktemp("user")
    Path(folder, "my_molecules.py").write_text(MODULE)
    namespace: dict = {}
    exec(MODULE, namespace)
    model = namespace["build"]()
    explainer = HPMEExplainer(ratio=0.4, restarts=1)
    explainer.fit(model, from_smiles(SMILES, [0] * len(SMILES), progress=False), progress=False)
    explainer.save(folder / "explainer.safetensors")
    return SimpleNamespace(folder=folder, model=model, explainer=explainer)


@pytest.fixture(scope="session")
def server(fitted, tmp_path_factory):
    """A running server, and how to ask it."""
    from hpme.commands.answers import Answers
    from hpme.models import ExplainedModel
    from hpme.serve.server import LocalServer, listen

    with listen(0) as free:
        folder = tmp_path_factory.mktemp("answers")
        answers = Answers(fitted.explainer, ExplainedModel(fitted.model), folder)
        server = LocalServer(free, answers, answers.texts())
        thread = threading.Thread(target=server.run)
        thread.start()
        yield Asker(server.address, answers)
        server.server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()
