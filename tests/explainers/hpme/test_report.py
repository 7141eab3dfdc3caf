"""What a fit says about the model it was fitted to."""

import pytest
import torch
from torch import nn
from torch_geometric.nn import global_add_pool

from contract import make_graphs
from hpme.explainers import HPMEExplainer


class Degrees(nn.Module):
    """Reads edges, but no weights of theirs: nothing passes messages."""

    def __init__(self, blind):
        super().__init__()
        self.blind, self.head = blind, nn.Linear(4, 2)

    def forward(self, x, edge_index, batch):
        degree = torch.bincount(edge_index[1], minlength=len(x)).to(x).unsqueeze(1)
        return self.head(global_add_pool(torch.cat([x, degree * (not self.blind)], dim=1), batch))


@pytest.mark.parametrize("blind", [False, True])
def test_a_model_that_ignores_edges_is_told_from_one_that_ignores_weights(blind):
    explainer = HPMEExplainer(k=2, restarts=1, rounds=1, subsets=4, combine=0, epochs=1)
    report = explainer.fit(Degrees(blind), make_graphs(), progress=False).report
    assert any("does not depend on edges" in warning for warning in report.warnings) == blind
