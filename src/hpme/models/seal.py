"""DGCNN, the model SEAL scores links with: sorted node embeddings read as a sequence."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch_geometric.nn import Aggregation

from hpme.data.info import TaskKind
from hpme.errors import InputError
from hpme.graphs.segment import exclusive_cumsum, rank_in_segment
from hpme.models.gnn import GCN

MIN_SORTED = 10
"""Shortest sequence: the pooling halves it, and the last convolution takes 5 steps of it."""
DEFAULT_SORTED = 30
SHARE_KEPT_WHOLE = 0.6
"""Share of the training graphs that have no more nodes than the sequence is long."""


class SortPool(Aggregation):  # type: ignore[misc]
    """The ``k`` nodes of each graph of highest last channel: PyG's ``SortAggregation`` unpadded."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = k

    def forward(self, x: Tensor, index: Tensor, *, dim_size: int, **_: Any) -> Tensor:
        r"""Rows :math:`[B, k \cdot D]`; ``index`` must be sorted."""
        self.assert_sorted_index(index)
        start = exclusive_cumsum(torch.bincount(index, minlength=dim_size))
        rank = rank_in_segment(x[:, -1], index, start)
        kept = (rank < self.k).nonzero().view(-1)
        place = index[kept] * self.k + rank[kept]
        rows = x.new_zeros(dim_size * self.k, x.shape[1]).index_copy(0, place, x[kept])
        return rows.view(dim_size, -1)


class DGCNN(GCN):
    r"""Sorted node embeddings read as a sequence, the model of SEAL for links.

    Graph convolutions and a last one of width 1 are each followed by tanh; the outputs of all of
    them are the node embedding. Nodes are sorted by the last channel, which has no gradient, the
    first ``k`` are read by two convolutions along the sequence, and a perceptron of width 128 with
    dropout follows. Features are taken as they are.

    Args:
        in_channels, out_channels, task: As in :class:`TargetGNN`.
        k: Number of nodes that are read; see :meth:`suited_to`.
        hidden_channels: Width of the graph convolutions.
        num_layers: Number of them, without the last.
        dropout: Share of the perceptron's units that a training step leaves out.
    """

    all_layers: ClassVar[bool] = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        task: TaskKind = "classification",
        *,
        k: int = DEFAULT_SORTED,
        hidden_channels: int = 32,
        num_layers: int = 3,
        dropout: float = 0.5,
    ) -> None:
        widths = {"hidden_channels": hidden_channels, "num_layers": num_layers}
        super().__init__(in_channels, out_channels, task, **widths)
        if k < MIN_SORTED:
            raise InputError(f"k must be at least {MIN_SORTED}, got {k}")
        self.k = k
        self.hyper_parameters |= {"k": k, "dropout": dropout}
        self.convs.append(self.make_conv(hidden_channels, 1))
        for conv in self.convs:
            conv.reset_parameters()  # type: ignore[operator]
        self.sort = SortPool(k)
        width = num_layers * hidden_channels + 1
        self.sequence = nn.Sequential(
            nn.Conv1d(1, 16, width, stride=width),
            nn.ReLU(),
            nn.MaxPool1d(2),
            nn.Conv1d(16, 32, 5),
            nn.ReLU(),
            nn.Flatten(),
        )
        self.out = nn.Sequential(
            nn.Linear(32 * (k // 2 - 4), 128),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(128, out_channels),
        )

    @classmethod
    def suited_to(cls, sizes: Tensor) -> dict[str, Any]:
        """``k`` such that 60 % of the graphs have no more nodes than are read."""
        rank = math.ceil(SHARE_KEPT_WHOLE * sizes.numel())
        k = int(sizes.kthvalue(rank).values) if rank else 0
        return {"k": max(MIN_SORTED, k)}

    def fit_scales(self, x: Tensor, y: Tensor) -> None:
        """Takes the scale of labels from training data, for regression; features stay as given."""
        super().fit_scales(torch.ones_like(x), y)

    def place_biases(self, x: Tensor, edge_index: Tensor, generator: torch.Generator) -> None:
        """Leaves the biases at zero: nothing is normalised, so rows differ in length."""

    def pooled(self, h: Tensor, batch: Tensor | None, num_graphs: int | None) -> Tensor:
        """Input of the perceptron for every graph."""
        if batch is None:
            batch, num_graphs = torch.zeros_like(h[:, 0], dtype=torch.long), 1
        embedding: Tensor = self.sequence(self.sort(h, batch, dim_size=num_graphs).unsqueeze(1))
        return embedding

    def activated(self, h: Tensor) -> Tensor:
        """What follows every layer."""
        return h.tanh()
