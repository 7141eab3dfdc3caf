"""Explain which transactions make an account suspicious: python examples/fraud_nodes.py.

A GraphSAGE model flags accounts of one large graph. Accounts of a fraud ring send money in a circle
and look inconspicuous one by one. Each prediction is explained by the account's ego graph.
"""

import torch
from torch_geometric.data import Data
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import to_undirected

from hpme.explainers import HPMEExplainer

RING = 4


class FraudModel(torch.nn.Module):
    """One row of class scores per account; no code is specific to hpme."""

    def __init__(self, features: int, width: int = 32) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList([SAGEConv(features, width), SAGEConv(width, width)])
        self.head = torch.nn.Linear(width, 2)

    def forward(self, x, edge_index):
        """Scores of 'honest' and 'fraud'."""
        for conv in self.convs:
            x = conv(x, edge_index).relu()
        return self.head(x)


def transactions(accounts: int = 240, rings: int = 12) -> Data:
    """Random payments, and rings of young accounts that pay each other.

    Young accounts alone are no sign of fraud: as many honest ones have only old partners.
    """
    generator = torch.Generator().manual_seed(0)
    payments = torch.randint(accounts, (2, accounts), generator=generator)
    members = torch.randperm(accounts, generator=generator)[: 2 * rings * RING]
    fraud = members[: rings * RING].view(rings, RING)
    circle = torch.stack([fraud, fraud.roll(1, dims=1)]).flatten(1)
    old = torch.ones(accounts, dtype=torch.bool)
    old[members] = False
    honest = ~torch.isin(payments, members).all(dim=0) & (payments[0] != payments[1])
    edge_index = to_undirected(torch.cat([payments[:, honest], circle], dim=1))
    y = torch.zeros(accounts, dtype=torch.long)
    y[fraud.flatten()] = 1
    noise = torch.rand(accounts, 1, generator=generator)
    x = torch.cat([old.view(-1, 1).float(), 1 - old.view(-1, 1).float(), noise], dim=1)
    return Data(x=x, edge_index=edge_index, y=y)


def train(model: torch.nn.Module, data: Data, epochs: int = 150) -> None:
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(data.x, data.edge_index), data.y).backward()
        optimizer.step()


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = transactions()
    model = FraudModel(data.num_features)
    train(model, data)
    flagged = model(data.x, data.edge_index).argmax(dim=1) == 1
    print(f"accuracy {(flagged == (data.y == 1)).float().mean():.2f}")

    # Fit on accounts of both kinds; num_hops is the number of layers of the model.
    honest = (~flagged).nonzero().view(-1)[:40]
    flagged = flagged.nonzero().view(-1)
    explainer = HPMEExplainer(k=3, num_hops=2)
    explainer.fit(model, data, index=torch.cat([flagged, honest]))
    print(explainer.report.summary())

    inside = []
    for account, explanation in zip(
        flagged.tolist(), explainer.explain(model, data, index=flagged), strict=True
    ):
        best = explanation.edge_ids[explanation.edge_mask.argmax()]  # an edge of the whole graph
        payer, payee = data.edge_index[:, best].tolist()
        inside.append(bool(data.y[[payer, payee]].all()))
        if len(inside) <= 3:
            print(f"account {account}: above all the payment {payer} -> {payee}")
    print(f"heaviest edge inside a ring: {sum(inside)} of {len(inside)}")


if __name__ == "__main__":
    main()
