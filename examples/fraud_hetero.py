"""Explain what makes an account suspicious among devices and merchants: python examples/fraud_hetero.py.

A heterogeneous model flags accounts that share a device with other new accounts. Each prediction is
explained by the account's ego graph, with masks for every type of node and edge.
"""  # noqa: E501

import torch
from torch_geometric.data import HeteroData
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.transforms import ToUndirected

from hpme.explainers import HPMEExplainer

RING = 4


class FraudModel(torch.nn.Module):
    """One row of class scores per account; no code is specific to hpme."""

    def __init__(self, edge_types, width: int = 16) -> None:
        super().__init__()
        self.convs = torch.nn.ModuleList(
            HeteroConv({kind: SAGEConv((-1, -1), width, aggr="sum") for kind in edge_types})
            for _ in range(2)
        )
        self.head = torch.nn.Linear(width, 2)

    def forward(self, x_dict, edge_index_dict):
        """Scores of 'honest' and 'fraud' for every account."""
        for conv in self.convs:
            x_dict = {kind: x.relu() for kind, x in conv(x_dict, edge_index_dict).items()}
        return self.head(x_dict["account"])


def accounts(count: int = 200, rings: int = 10) -> HeteroData:
    """Accounts that use devices and pay merchants; rings are new accounts on one device.

    Many honest accounts are new as well, and families of older ones share a device.
    """
    generator = torch.Generator().manual_seed(0)
    number = torch.arange(count)
    shared = 2 * rings * RING
    device = torch.where(number < shared, number // RING, number)
    fraud = number < rings * RING
    new = fraud | ((number >= shared) & (torch.rand(count, generator=generator) < 0.4))
    data = HeteroData()
    noise = torch.rand(count, 1, generator=generator)
    data["account"].x = torch.cat([new.view(-1, 1).float(), 1 - new.view(-1, 1).float(), noise], 1)
    data["account"].y = fraud.long()
    data["device"].x = torch.ones(count, 1)
    data["merchant"].x = torch.ones(count // 4, 2)
    paid = torch.randint(count // 4, (count,), generator=generator)
    data["account", "uses", "device"].edge_index = torch.stack([number, device])
    data["account", "pays", "merchant"].edge_index = torch.stack([number, paid])
    return ToUndirected()(data)


def train(model: torch.nn.Module, data: HeteroData, epochs: int = 100) -> None:
    model(data.x_dict, data.edge_index_dict)  # lazy layers learn their widths
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(epochs):
        optimizer.zero_grad()
        scores = model(data.x_dict, data.edge_index_dict)
        torch.nn.functional.cross_entropy(scores, data["account"].y).backward()
        optimizer.step()


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    data = accounts()
    model = FraudModel(data.edge_types)
    train(model, data)
    flagged = model(data.x_dict, data.edge_index_dict).argmax(dim=1) == 1
    print(f"accuracy {(flagged == (data['account'].y == 1)).float().mean():.2f}")

    # Fit on accounts of both kinds; num_hops is the number of layers of the model.
    honest = (~flagged).nonzero().view(-1)[::4]
    flagged = flagged.nonzero().view(-1)
    explainer = HPMEExplainer(k=RING + 1, num_hops=2)
    explainer.fit(model, data, index=torch.cat([flagged, honest]), node_type="account")
    print(explainer.report.summary())

    inside = []
    explanations = explainer.explain(model, data, index=flagged)
    for account, explanation in zip(flagged.tolist(), explanations, strict=True):
        best = max(explanation.edge_types, key=lambda kind: _heaviest(explanation[kind]))
        inside.append("device" in best)
        if len(inside) <= 3:
            print(f"account {account}: above all an edge {' '.join(best)}")
    print(f"heaviest edge at a device: {sum(inside)} of {len(inside)}")


def _heaviest(edges) -> float:
    return float(edges.edge_mask.max()) if len(edges.edge_mask) else 0.0


if __name__ == "__main__":
    main()
