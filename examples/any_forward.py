"""A model that takes a PyG ``Batch`` with its own fields and returns a dictionary.

Every node has a charge, every graph a dose. The activity is the dose times the number of bonds
between charged nodes, so these bonds are the explanation. When HPME mixes two graphs,
charges stay with their nodes, and the dose is that of the explained graph.
"""

import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import global_add_pool

from hpme.explainers import HPMEExplainer
from hpme.metrics import explanation_auc


class Assay(nn.Module):
    """Stands for a trained model; this one knows the rule."""

    def forward(self, batch):
        source, target = batch.edge_index
        charged = torch.zeros_like(batch.charge).index_add(0, target, batch.charge[source])
        pairs = global_add_pool(torch.cat([batch.charge * charged, batch.x], 1), batch.batch)
        return {"activity": batch.dose * pairs[:, :1], "weight": pairs[:, 1:]}


def molecule(generator: torch.Generator) -> Data:
    """A random tree in which a node, its parent and its grandparent may be charged."""
    parent = [0] + [int(torch.randint(i, (1,), generator=generator)) for i in range(1, 14)]
    link = torch.tensor([range(1, 14), parent[1:]])
    chosen = torch.zeros(14, dtype=torch.bool)
    if torch.rand(1, generator=generator) < 0.7:
        last = max(range(2, 14), key=lambda i: (parent[i] > 0, parent[parent[i]] > 0, i))
        chosen[[last, parent[last], parent[parent[last]]]] = True
    index = torch.cat([link, link.flip(0)], dim=1)
    return Data(
        x=torch.ones(14, 1),
        edge_index=index,
        charge=chosen.float().unsqueeze(1),  # one row per node
        dose=1 + torch.rand(1, 1, generator=generator),  # one row for the graph
        edge_mask=chosen[index].all(0),
    )


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    graphs = [molecule(generator) for _ in range(60)]
    model = Assay()
    # The single Batch argument is detected, 'output' names the head. For other signatures pass a
    # function: fit(..., call=lambda batch: model(batch.x, batch.edge_index)["activity"]).
    explainer = HPMEExplainer(k=3, restarts=2)
    explainer.fit(model, graphs, output="activity", mode="regression", progress=False)
    explanations = explainer.explain(model, graphs, progress=False)
    print(f"edge ROC-AUC: {float(explanation_auc(explanations, graphs)):.3f}")


if __name__ == "__main__":
    main()
