"""Explain a graph attention network, and look at its attention: python examples/gat.py.

Every graph has a red and a blue node; in those of class 1 they are neighbours. HPME asks which
nodes carry the prediction into other graphs; attention coefficients are there for comparison.
"""

import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATConv, global_max_pool
from torch_geometric.utils import to_undirected

from hpme.explainers import AttentionExplainer, HPMEExplainer
from hpme.metrics import explanation_auc


class GAT(torch.nn.Module):
    """Takes no ``edge_weight``; explainers then put their weights on messages."""

    def __init__(self, features: int, width: int = 16) -> None:
        super().__init__()
        self.conv1 = GATConv(features, width, heads=2)
        self.conv2 = GATConv(2 * width, width)
        self.head = torch.nn.Linear(width, 2)

    def forward(self, x, edge_index, batch):
        """One row of class scores per graph."""
        x = self.conv1(x, edge_index).relu()
        x = self.conv2(x, edge_index).relu()
        return self.head(global_max_pool(x, batch))


def make_graph(number: int, nodes: int = 16) -> Data:
    """A random tree; the true explanation, ``edge_mask``, is used to score, not to explain."""
    generator = torch.Generator().manual_seed(number)
    child = torch.arange(1, nodes)
    parent = (torch.rand(nodes - 1, generator=generator) * child).long()
    edge_index = to_undirected(torch.stack([parent, child]), num_nodes=nodes)
    end = int(torch.randint(nodes - 1, (1,), generator=generator))
    pair = torch.stack([parent[end], child[end]])  # red and blue
    if number % 2 == 0:  # class 0: blue is elsewhere
        near = torch.cat([edge_index[1][edge_index[0] == pair[0]], pair[:1]])
        far = torch.tensor([node for node in range(nodes) if node not in near])
        if len(far) == 0:
            return make_graph(number + 100_000, nodes)
        pair[1] = far[int(torch.randint(len(far), (1,), generator=generator))]
    x = torch.zeros(nodes, 3)
    x[:, 0] = 1
    x[pair] = torch.eye(3)[1:]
    marked = torch.zeros(nodes, dtype=torch.bool)
    marked[pair] = True
    edge_mask = marked[edge_index[0]] & marked[edge_index[1]]
    return Data(x=x, edge_index=edge_index, y=torch.tensor([number % 2]), edge_mask=edge_mask)


def train(model: torch.nn.Module, graphs: list[Data], epochs: int = 25) -> None:
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
    graphs = [make_graph(number) for number in range(300)]
    model = GAT(features=3)
    train(model, graphs)

    explained = graphs[:60]
    found = [graph for graph in explained if graph.y == 1]  # in class 0 an edge is missing
    for algorithm in (HPMEExplainer(k=2), AttentionExplainer()):
        explanations = algorithm.fit(model, explained).explain(model, found)
        auc = explanation_auc(explanations, found)
        print(f"{algorithm.slug}: edge ROC-AUC {auc:.3f}")
        if algorithm.slug == "hpme":
            print(algorithm.report.summary())


if __name__ == "__main__":
    main()
