"""Explain a GINE that reads bond features, on molecules: python examples/gine_molecules.py.

Alcohols and ketones with the same atoms and the same bonds differ in one bond feature only, single
or double. The explanation should contain the C=O group. Needs RDKit: pip install 'hpme[chem]'.
"""

import random

import torch
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, global_add_pool

from hpme.data import from_smiles
from hpme.explainers import HPMEExplainer
from hpme.metrics import explanation_auc


class GINE(torch.nn.Module):
    """``edge_attr`` is passed on by explainers because ``forward`` names it."""

    def __init__(self, atoms: int, bonds: int, width: int = 32) -> None:
        super().__init__()
        self.embed = torch.nn.Linear(atoms, width)
        self.convs = torch.nn.ModuleList(
            GINEConv(torch.nn.Sequential(torch.nn.Linear(width, width)), edge_dim=bonds)
            for _ in range(2)
        )
        self.head = torch.nn.Linear(width, 2)

    def forward(self, x, edge_index, batch, edge_attr):
        """One row of class scores per molecule."""
        x = self.embed(x)
        for conv in self.convs:
            x = conv(x, edge_index, edge_attr).relu()
        return self.head(global_add_pool(x, batch))


def molecules(count: int) -> list[str]:
    """Chains with an OH or =O in the middle, and other groups as decoys."""
    draw = random.Random(0)
    chain = ("CC", "CCC", "CC(C)C", "CC(N)C", "CC(F)", "CCOC")
    return [
        f"{draw.choice(chain)}C({('O', '=O')[i % 2]}){draw.choice(chain)}{draw.choice(chain)}"
        for i in range(count)
    ]


def train(model: torch.nn.Module, graphs, epochs: int = 15) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        for batch in DataLoader(graphs, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            out = model(batch.x, batch.edge_index, batch.batch, batch.edge_attr)
            torch.nn.functional.cross_entropy(out, batch.y).backward()
            optimizer.step()


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dataset = from_smiles(molecules(120), rules={"carbonyl": "[CX3]=O"})  # rules give the labels
    model = GINE(dataset.num_features, dataset.num_edge_features)
    train(model, dataset)

    graphs = list(dataset)[:60]  # graphs of both classes
    explainer = HPMEExplainer(k=2).fit(model, graphs)
    print(explainer.report.summary())

    ketones = [graph for graph in graphs if graph.y == 1]
    explanations = explainer.explain(model, ketones)
    for graph, explanation in zip(ketones[:3], explanations, strict=False):
        atoms = explanation.pooled.nonzero().view(-1).tolist()
        print(f"{graph.smiles}: atoms {atoms}")
    print(f"edge ROC-AUC of C=O: {explanation_auc(explanations, ketones):.3f}")


if __name__ == "__main__":
    main()
