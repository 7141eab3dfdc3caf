"""Explain a model that predicts a number: python examples/regression.py.

One output per graph may be a value or a binary logit; ``mode`` says which.
"""

import torch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GCNConv, global_add_pool

from hpme.data import load_dataset
from hpme.explainers import HPMEExplainer
from hpme.metrics import explanation_auc, fidelity


class Regressor(torch.nn.Module):
    """Any model with one output per graph, in the unit of the labels."""

    def __init__(self, features: int, scale: float, width: int = 32) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([GCNConv(features, width), GCNConv(width, width)])
        self.head = torch.nn.Linear(width, 1)
        self.scale = scale

    def forward(self, x, edge_index, batch, edge_weight=None):
        """One value per graph."""
        x = x / 100
        for conv in self.convs:
            x = conv(x, edge_index, edge_weight).relu()
        return self.scale * self.head(global_add_pool(x, batch))


def train(model: torch.nn.Module, graphs, epochs: int = 60) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(epochs):
        for batch in DataLoader(graphs, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            error = model(batch.x, batch.edge_index, batch.batch).view(-1) - batch.y
            (error / model.scale).square().mean().backward()
            optimizer.step()


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dataset = load_dataset("ba-motif-volume", size=400, progress=False)  # y: sum over a five-cycle
    model = Regressor(dataset.num_features, scale=float(dataset.y.std()))
    train(model, dataset[dataset.split["train"]])

    graphs = [dataset[int(i)] for i in dataset.explained(seed=0, count=50)]
    explainer = HPMEExplainer().fit(model, graphs, mode="regression")
    print(explainer.report.summary())
    explanations = explainer.explain(model, graphs)
    change = fidelity(model, explanations, size=0.2, mode="regression")
    print(f"change without the explanation: {change.plus.mean:.2f} standard deviations")
    print(f"edge ROC-AUC: {explanation_auc(explanations, graphs):.3f}")


if __name__ == "__main__":
    main()
