"""Does the model use the amide the series was made for, or the chlorine that occurs with it?

In the molecules at hand both groups occur together or not at all, so labels cannot show which of
them decides. Rules, an audit and counterfactuals can.
"""

import itertools

import torch
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.nn import GINEConv, global_add_pool

from hpme.data import from_smiles
from hpme.explainers import HPMEExplainer

CORES = ("C1CCC(CC1)", "C1CC(C1)", "CCOCC", "CC(C)C", "CCSC", "C1CCN(C1)", "CCC", "CC(O)C")
LINKS = ("", "C", "CC")
GROUPS = {1: (("CNC(=O)", "CCNC(=O)"), ("Cl",)), 0: (("C", "CCO"), ("C", "O"))}


class GINE(nn.Module):
    """Stands for your own model."""

    def __init__(self, atoms: int, bonds: int, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Linear(atoms, width)
        self.convs = nn.ModuleList(GINEConv(nn.Linear(width, width), edge_dim=bonds) for _ in "12")
        self.head = nn.Linear(width, 2)

    def forward(self, x, edge_index, batch, edge_attr):
        x = self.embed(x)
        for conv in self.convs:
            x = conv(x, edge_index, edge_attr).relu()
        return self.head(global_add_pool(x, batch))


def main() -> None:
    torch.manual_seed(0)
    parts = [
        (f"{head}{core}{link}{tail}", label)
        for label, (heads, tails) in GROUPS.items()
        for head, core, link, tail in itertools.product(heads, CORES, LINKS, tails)
    ]
    smiles, labels = zip(*parts, strict=True)
    graphs = list(from_smiles(smiles, labels, progress=False))
    batch = Batch.from_data_list(graphs)
    model = GINE(graphs[0].x.shape[1], graphs[0].edge_attr.shape[1])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(60):
        optimizer.zero_grad()
        output = model(batch.x, batch.edge_index, batch.batch, batch.edge_attr)
        nn.functional.cross_entropy(output, batch.y).backward()
        optimizer.step()

    # k=4 has room for a whole amide. With 2 or 3 the rules, but not the audit, name the chlorine.
    explainer = HPMEExplainer(k=4, restarts=2).fit(model, graphs, progress=False)
    book = explainer.rules(model, graphs, classes=["inactive", "active"], progress=False)
    print(book)
    print(explainer.audit(model, graphs, should="C(=O)N", should_not="Cl"))
    for some in explainer.counterfactuals(model, graphs[::60], n=1, donors=graphs, progress=False):
        print(some[0])
    right = float((book.predict(graphs) == output.argmax(1)).double().mean())
    print(f"rules say what the model says: {right:.3f}")


if __name__ == "__main__":
    main()
