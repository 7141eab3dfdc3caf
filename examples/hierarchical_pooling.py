"""Explain a model that pools nodes on its way to the output: python examples/hierarchical_pooling.py.

``SAGPooling`` drops a fifth of the nodes, so the layers after it, and the readout, no longer see one
row per node of the graph. Explainers take the last layer that does; ``report.embedding`` says which
it was, and ``embedding_layer="second"`` would choose another.
"""  # noqa: E501

import torch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphConv, SAGPooling, global_max_pool

from hpme.data import load_dataset
from hpme.explainers import HPMEExplainer
from hpme.metrics import explanation_auc


class Hierarchical(torch.nn.Module):
    """Three layers, a pooling layer that drops a fifth of the nodes, and one more."""

    def __init__(self, features: int, classes: int, width: int = 32) -> None:
        super().__init__()
        self.first = GraphConv(features, width)
        self.second = GraphConv(width, width)
        self.third = GraphConv(width, width)
        self.pool = SAGPooling(width, ratio=0.8)
        self.last = GraphConv(width, width)
        self.head = torch.nn.Linear(width, classes)

    def forward(self, x, edge_index, batch):
        """One row of class scores per graph."""
        for conv in (self.first, self.second, self.third):
            x = conv(x, edge_index).relu()
        x, edge_index, _, batch, _, _ = self.pool(x, edge_index, batch=batch)
        return self.head(global_max_pool(self.last(x, edge_index).relu(), batch))


def train(model: torch.nn.Module, graphs, epochs: int = 60) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(epochs):
        for batch in DataLoader(graphs, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index, batch.batch)
            torch.nn.functional.cross_entropy(out, batch.y).backward()
            optimizer.step()


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dataset = load_dataset("ba-2motifs", size=300, progress=False)
    model = Hierarchical(dataset.num_features, dataset.num_classes)
    train(model, dataset[dataset.split["train"]])

    graphs = [dataset[int(i)] for i in dataset.explained(seed=0, count=40)]
    explainer = HPMEExplainer(k=5).fit(model, graphs)
    print(explainer.report.embedding)
    print(explainer.report.summary())
    print(f"edge ROC-AUC: {explanation_auc(explainer.explain(model, graphs), graphs):.3f}")


if __name__ == "__main__":
    main()
