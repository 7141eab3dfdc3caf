"""``hpme explain``: how the model is called, and which class is asked about."""

import sys

import pytest
from typer.testing import CliRunner

from hpme.cli import app

MODULE = """
import torch
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.head = torch.nn.Linear(3, 3)

    def forward(self, nodes, owner, factor):
        return {"logits": self.head(global_add_pool(nodes, owner)) * factor}


def graphs():
    generator = torch.Generator().manual_seed(0)
    ring = torch.arange(6)
    edges = torch.stack([ring, (ring + 1) % 6])
    return [
        Data(
            x=torch.randn(6, 3, generator=generator),
            edge_index=torch.cat([edges, edges.flip(0)], dim=1),
            dose=torch.rand(1, 1, generator=generator),
        )
        for _ in range(12)
    ]


def call(model, batch):
    return model(batch.x, batch.batch, batch.dose)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    (tmp_path / "oddly_called.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("oddly_called", None)


def run(*arguments):
    fixed = ["explain", "--model", "oddly_called:Model", "--data", "oddly_called:graphs"]
    quick = ["--explainer", "random", "--quiet", "--out", "page.html"]
    return CliRunner().invoke(app, [*fixed, *quick, *arguments])


def test_a_call_an_entry_and_a_target(folder):
    result = run(
        "--call", "oddly_called:call", "--output", "logits",
        "--classes", "red,green,blue", "--target", "green", "--contrast", "blue",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    page = (folder / "page.html").read_text("utf-8")
    assert '"blue","green"' in page.replace(" ", "")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 1, "no usual way of calling forward(nodes, owner, factor) works"),
        (["--call", "oddly_called:call"], 1, "choose one with output="),
        (["--call", "oddly_called:missing"], 2, "has no function 'missing'"),
        (["--call", "oddly_called:call", "--output", "logit"], 1, "no entry 'logit'"),
        (
            ["--call", "oddly_called:call", "--output", "logits", "--target", "7"],
            1,
            "unknown class 7; valid: 0 to 2",
        ),
        (["--trust-model-file"], 2, "belongs to --chemprop"),
    ],
)
def test_what_is_wrong_is_named(arguments, code, message):
    result = run(*arguments)
    assert result.exit_code == code, result.output
    assert message in " ".join(result.output.replace("│", " ").split())
