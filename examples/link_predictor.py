"""An encoder-decoder link predictor, explained by the ego graphs of both ends of a link."""

import torch
from torch import nn
from torch_geometric.datasets import KarateClub
from torch_geometric.explain import Explainer
from torch_geometric.nn import GCNConv
from torch_geometric.utils import negative_sampling

from hpme.explainers import HPMEExplainer


class LinkPredictor(nn.Module):
    """Nodes become vectors; the product of two says whether they are linked."""

    def __init__(self, features):
        super().__init__()
        self.first, self.second = GCNConv(features, 16), GCNConv(16, 16)

    def forward(self, x, edge_index, edge_label_index):
        h = self.second(self.first(x, edge_index).relu(), edge_index)
        return (h[edge_label_index[0]] * h[edge_label_index[1]]).sum(-1)


def main() -> None:
    torch.manual_seed(0)
    data = KarateClub()[0]
    model = LinkPredictor(data.num_features)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        links = torch.cat([data.edge_index, negative_sampling(data.edge_index)], dim=1)
        labels = (torch.arange(links.shape[1]) < data.num_edges).float()
        optimiser.zero_grad()
        output = model(data.x, data.edge_index, links)
        nn.functional.binary_cross_entropy_with_logits(output, labels).backward()
        optimiser.step()

    config = {"mode": "binary_classification", "task_level": "edge", "return_type": "raw"}
    explainer = Explainer(
        model,
        HPMEExplainer(k=4, restarts=1, num_hops=1, embedding_layer="second"),
        explanation_type="model",
        edge_mask_type="object",
        model_config=config,
    )
    explainer.algorithm.fit(model, data, index=links[:, ::8], progress=False)  # a few are enough

    one = explainer(data.x, data.edge_index, edge_label_index=torch.tensor([[0], [33]]))
    print(f"0 - 33: {int((one.edge_mask > 0).sum())} of {data.num_edges} edges count")
    several = explainer.algorithm.explain(model, data, index=links[:, :8], progress=False)
    print(f"links explained: {len(several)}")


if __name__ == "__main__":
    main()
