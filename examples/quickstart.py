"""Explain your own PyG model through PyG's own ``Explainer``: python examples/quickstart.py."""

import torch
from torch_geometric.explain import Explainer
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GraphConv, global_max_pool

from hpme.data import load_dataset
from hpme.explainers import HPMEExplainer
from hpme.metrics import explanation_auc


class MyModel(torch.nn.Module):
    """Any graph-level model with ``forward(x, edge_index, batch)``; no code is specific to hpme."""

    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(
            [GraphConv(features, 32), GraphConv(32, 32), GraphConv(32, 32)]
        )
        self.head = torch.nn.Linear(32, classes)

    def forward(self, x, edge_index, batch, edge_weight=None):
        """One row of class scores per graph."""
        for conv in self.convs:
            x = conv(x, edge_index, edge_weight).relu()
        return self.head(global_max_pool(x, batch))


def train(model: torch.nn.Module, graphs, epochs: int = 60) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    for _ in range(epochs):
        for batch in DataLoader(graphs, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index, batch.batch)
            torch.nn.functional.cross_entropy(out, batch.y).backward()
            optimizer.step()
    model.eval()


def main() -> None:
    torch.manual_seed(0)
    dataset = load_dataset("ba-2motifs", size=500)
    model = MyModel(dataset.num_features, dataset.num_classes)
    train(model, dataset[dataset.split["train"]])

    graphs = [dataset[int(i)] for i in dataset.explained(seed=0, count=50)]
    # A fifth of the nodes. Without ratio the size is chosen from the graphs, which takes longer.
    algorithm = HPMEExplainer(ratio=0.2).fit(model, graphs)
    print(algorithm.report.summary())
    print(f"edge ROC-AUC: {explanation_auc(algorithm.explain(model, graphs), graphs):.3f}")

    explainer = Explainer(
        model,
        algorithm,
        explanation_type="model",
        edge_mask_type="object",
        model_config={
            "mode": "multiclass_classification",
            "task_level": "graph",
            "return_type": "raw",
        },
    )
    graph = graphs[0]
    batch = torch.zeros(graph.num_nodes, dtype=torch.long)
    explanation = explainer(graph.x, graph.edge_index, batch=batch)
    print(explanation)
    print(f"pooled nodes: {explanation.pooled.nonzero().view(-1).tolist()}")


if __name__ == "__main__":
    main()
