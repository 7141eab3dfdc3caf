"""Fit an explainer once and use it in another process: python examples/reuse_explainer.py.

Model and explainer are kept as safetensors files, which contain numbers and no code. The second
process, this file again with the argument ``reuse``, loads both and explains graphs that the
explainer has not seen.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, load_model, save_file, save_model
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphConv, global_max_pool

from hpme.data import load_dataset, load_graphs, save_graphs
from hpme.explainers import HPMEExplainer


class MyModel(torch.nn.Module):
    """Any model; both processes must be able to build it."""

    def __init__(self, features: int = 10, classes: int = 2) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([GraphConv(features, 32), GraphConv(32, 32)])
        self.head = torch.nn.Linear(32, classes)

    def forward(self, x, edge_index, batch, edge_weight=None):
        """One row of class scores per graph."""
        for conv in self.convs:
            x = conv(x, edge_index, edge_weight).relu()
        return self.head(global_max_pool(x, batch))


def train(model: torch.nn.Module, graphs, epochs: int = 40) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(epochs):
        for batch in DataLoader(graphs, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index, batch.batch)
            torch.nn.functional.cross_entropy(out, batch.y).backward()
            optimizer.step()


def masks(folder: Path) -> torch.Tensor:
    """Edge masks of the graphs in the folder, by the model and the explainer in it."""
    model = MyModel()
    load_model(model, folder / "model.safetensors")
    explainer = HPMEExplainer.load(folder / "explainer.safetensors")
    explanations = explainer.explain(model, load_graphs(folder / "graphs.safetensors"))
    return torch.cat([explanation.edge_mask for explanation in explanations])


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if sys.argv[1:2] == ["reuse"]:
        folder = Path(sys.argv[2])
        save_file({"masks": masks(folder)}, folder / "masks.safetensors")
        return
    dataset = load_dataset("ba-2motifs", size=200, progress=False)
    model = MyModel()
    train(model, dataset[dataset.split["train"]])
    graphs = [dataset[int(i)] for i in dataset.explained(seed=0, count=40)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_model(model, folder / "model.safetensors")
        save_graphs(folder / "graphs.safetensors", graphs[30:])
        HPMEExplainer(k=5).fit(model, graphs[:30]).save(folder / "explainer.safetensors")
        here = masks(folder)
        subprocess.run([sys.executable, __file__, "reuse", name], check=True)
        there = load_file(folder / "masks.safetensors")["masks"]
    print(f"{here.numel()} edge weights, identical: {torch.equal(here, there)}")


if __name__ == "__main__":
    main()
