"""Explain a model that pools nodes on its way to the output: python examples/hierarchical_pooling.py.

``SAGPooling`` drops half of the nodes, so the layers after it, and the readout, no longer see one
row per node of the graph. Explainers take the last layer that does; ``report.embedding`` says which
it was, and ``embedding_layer="first"`` would choose another.
"""  # noqa: E501

import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphConv, SAGPooling, global_max_pool
from torch_geometric.utils import to_undirected

from hpme.explainers import HPMEExplainer
from hpme.metrics import explanation_auc


class Hierarchical(torch.nn.Module):
    """Two layers, a pooling layer that keeps half of the nodes, and one more."""

    def __init__(self, features: int, width: int = 32) -> None:
        super().__init__()
        self.first = GraphConv(features, width)
        self.second = GraphConv(width, width)
        self.pool = SAGPooling(width, ratio=0.5)
        self.last = GraphConv(width, width)
        self.head = torch.nn.Linear(width, 2)

    def forward(self, x, edge_index, batch):
        """One row of class scores per graph."""
        x = self.second(self.first(x, edge_index).relu(), edge_index).relu()
        x, edge_index, _, batch, _, _ = self.pool(x, edge_index, batch=batch)
        return self.head(global_max_pool(self.last(x, edge_index).relu(), batch))


def make_graph(number: int, nodes: int = 16) -> Data:
    """A tree with three red nodes in a row (class 0) or a triangle (1), and others elsewhere.

    ``edge_mask``, the truth, is used to score, not to explain.
    """
    generator = torch.Generator().manual_seed(number)
    child = torch.arange(1, nodes)
    parent = (torch.rand(nodes - 1, generator=generator) * child).long()
    place = torch.randint(nodes, (1,), generator=generator)
    motif = torch.tensor([[0, 1, 2], [1, 2, 0]])[:, : 2 + number % 2] + nodes
    edges = [torch.stack([parent, child]), motif, torch.stack([place, motif[0, :1]])]
    edge_index = to_undirected(torch.cat(edges, dim=1))
    red = torch.rand(nodes + 3, generator=generator) < 0.15
    red[-3:] = True
    x = torch.stack([red, ~red], dim=1).float()
    edge_mask = (edge_index >= nodes).all(dim=0)
    return Data(x=x, edge_index=edge_index, y=torch.tensor([number % 2]), edge_mask=edge_mask)


def train(model: torch.nn.Module, graphs: list[Data], epochs: int = 40) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for batch in DataLoader(graphs, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index, batch.batch)
            torch.nn.functional.cross_entropy(out, batch.y).backward()
            optimizer.step()


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    graphs = [make_graph(number) for number in range(200)]
    model = Hierarchical(features=2)
    train(model, graphs)

    explained = graphs[:60]
    explainer = HPMEExplainer(k=3).fit(model, explained)
    print(explainer.report.embedding)
    print(explainer.report.summary())
    triangles = [graph for graph in explained if graph.y == 1]
    auc = explanation_auc(explainer.explain(model, triangles), triangles)
    print(f"edge ROC-AUC: {auc:.3f}")


if __name__ == "__main__":
    main()
