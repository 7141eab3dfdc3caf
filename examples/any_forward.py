"""A model that takes a PyG ``Batch`` with fields of its own, and returns a dictionary."""

import torch
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.nn import GCNConv, global_mean_pool

from hpme.data import load_dataset
from hpme.explainers import HPMEExplainer
from hpme.metrics import explanation_auc


class Titration(nn.Module):
    """Reads a charge per node and a dose per graph; two heads."""

    def __init__(self, features):
        super().__init__()
        self.first, self.second = GCNConv(features + 1, 20), GCNConv(20, 20)
        self.activity, self.toxicity = nn.Linear(21, 2), nn.Linear(21, 1)

    def forward(self, batch):
        h = torch.cat([batch.x, batch.charge], dim=1)
        h = self.first(h, batch.edge_index).relu()
        h = self.second(h, batch.edge_index).relu()
        pooled = torch.cat([global_mean_pool(h, batch.batch), batch.dose], dim=1)
        return {"activity": self.activity(pooled), "toxicity": self.toxicity(pooled)}


torch.manual_seed(0)
graphs = list(load_dataset("ba-2motifs", size=400))
for graph in graphs:
    degree = torch.bincount(graph.edge_index[0], minlength=graph.num_nodes)
    graph.charge = degree.float().unsqueeze(1) / 4  # one row per node
    graph.dose = torch.rand(1, 1)  # one row for the graph

model = Titration(graphs[0].num_features)
optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
everything = Batch.from_data_list(graphs)
for _ in range(300):
    optimiser.zero_grad()
    loss = nn.functional.cross_entropy(model(everything)["activity"], everything.y)
    loss.backward()
    optimiser.step()

# The single Batch argument is found by trial; 'output' names the head. Where calling is less
# usual, say how: fit(..., call=lambda batch: model(batch.x, batch.edge_index, ...)["activity"]).
explainer = HPMEExplainer(ratio=0.2, restarts=2)
explainer.fit(model, graphs, output="activity", progress=False)
explanations = explainer.explain(model, graphs, progress=False)
print(f"edge ROC-AUC: {float(explanation_auc(explanations, graphs)):.3f}")
