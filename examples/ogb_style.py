"""A GINE with embedding tables, as models for OGB have: atoms and bonds are whole numbers."""

import random

import torch
from rdkit import Chem
from torch import nn
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GINEConv, global_add_pool
from torch_geometric.utils import from_smiles
from torch_geometric.utils.smiles import e_map, x_map

from hpme.explainers import HPMEExplainer
from hpme.metrics import explanation_auc


class Tables(nn.Module):
    """The sum of one embedding per column."""

    def __init__(self, sizes, width):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(size, width) for size in sizes)

    def forward(self, columns):
        return sum(table(columns[:, i]) for i, table in enumerate(self.tables))


class OGBStyleGINE(nn.Module):
    """Embeddings of atoms once, of bonds in every layer."""

    def __init__(self, width=32):
        super().__init__()
        self.atoms = Tables([len(values) for values in x_map.values()], width)
        self.bonds = nn.ModuleList(
            Tables([len(values) for values in e_map.values()], width) for _ in range(2)
        )
        self.layers = nn.ModuleList(
            GINEConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)))
            for _ in range(2)
        )
        self.head = nn.Linear(width, 2)

    def forward(self, x, edge_index, edge_attr, batch):
        h = self.atoms(x)
        for layer, bonds in zip(self.layers, self.bonds, strict=True):
            h = layer(h, edge_index, bonds(edge_attr)).relu()
        return self.head(global_add_pool(h, batch))


# Molecules with and without a nitrile, and where it is.
draw = random.Random(0)
ends = ["C", "CC", "CCC", "c1ccccc1", "CCO", "CC=C", "C1CCCC1", "CSC", "CN(C)C", "OC"]
pattern = Chem.MolFromSmarts("C#N")
graphs = []
for _ in range(240):
    group = draw.choice(["CC#N", "CC", "CCl", "C=O"])
    smiles = f"{draw.choice(ends)}C({group})C{draw.choice(ends)}"
    graph = from_smiles(smiles)
    molecule = Chem.MolFromSmiles(smiles)
    inside = torch.zeros(graph.num_nodes, dtype=torch.bool)
    inside[[atom for match in molecule.GetSubstructMatches(pattern) for atom in match]] = True
    graph.edge_mask = inside[graph.edge_index].all(0)
    graph.y = torch.tensor([int(inside.any())])
    graphs.append(graph)

torch.manual_seed(0)
model = OGBStyleGINE()
optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
for _ in range(30):
    for batch in DataLoader(graphs, batch_size=40, shuffle=True):
        optimizer.zero_grad()
        output = model(batch.x, batch.edge_index, batch.edge_attr, batch.batch)
        nn.functional.cross_entropy(output, batch.y).backward()
        optimizer.step()
model.eval()

explainer = HPMEExplainer().fit(model, graphs, progress=False)
nitriles = [graph for graph in graphs if int(graph.y)]
explanations = explainer.explain(model, nitriles, progress=False)
print(f"edge ROC-AUC of nitriles: {float(explanation_auc(explanations, nitriles)):.3f}")
