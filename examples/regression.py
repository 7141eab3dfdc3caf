"""Explain a model that predicts a number: python examples/regression.py.

Every graph has one source; the label is the sum of the values of its three neighbours. One output
per graph may be a value or a binary logit; ``mode`` says which.
"""

import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphConv, global_add_pool
from torch_geometric.utils import to_undirected

from hpme.explainers import HPMEExplainer
from hpme.metrics import explanation_auc


class Regressor(torch.nn.Module):
    """Any model with one output per graph."""

    def __init__(self, features: int, width: int = 32) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([GraphConv(features, width), GraphConv(width, width)])
        self.head = torch.nn.Linear(width, 1)

    def forward(self, x, edge_index, batch, edge_weight=None):
        """One value per graph."""
        for conv in self.convs:
            x = conv(x, edge_index, edge_weight).relu()
        return self.head(global_add_pool(x, batch)).view(-1)


def make_graph(number: int, nodes: int = 15) -> Data:
    """A random tree and the source; ``edge_mask``, the truth, is used to score, not to explain."""
    generator = torch.Generator().manual_seed(number)
    child = torch.arange(1, nodes)
    parent = (torch.rand(nodes - 1, generator=generator) * child).long()
    ends = torch.randperm(nodes, generator=generator)[:3]
    star = torch.stack([torch.full((3,), nodes), ends])
    edge_index = to_undirected(torch.cat([torch.stack([parent, child]), star], dim=1))
    value = torch.rand(nodes, generator=generator)
    x = torch.zeros(nodes + 1, 2)
    x[:nodes, 0], x[nodes, 1] = value, 1
    edge_mask = (edge_index == nodes).any(dim=0)
    return Data(x=x, edge_index=edge_index, y=value[ends].sum(), edge_mask=edge_mask)


def train(model: torch.nn.Module, graphs: list[Data], epochs: int = 60) -> float:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for batch in DataLoader(graphs, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            error = model(batch.x, batch.edge_index, batch.batch) - batch.y
            error.square().mean().backward()
            optimizer.step()
    return float(error.detach().square().mean().sqrt())


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    graphs = [make_graph(number) for number in range(240)]
    model = Regressor(features=2)
    print(f"RMSE {train(model, graphs):.2f} (labels: 0 to 3)")

    explained = graphs[:50]
    explainer = HPMEExplainer(k=4).fit(model, explained, mode="regression")
    print(explainer.report.summary())
    explanations = explainer.explain(model, explained)
    print(f"first graph: {explainer.quality(model, explained)[0]}")
    print(f"edge ROC-AUC: {explanation_auc(explanations, explained):.3f}")


if __name__ == "__main__":
    main()
