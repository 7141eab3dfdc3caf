"""What a scorer sees of nodes of several types: the blocks of each type apart from the others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpme.explainers.hpme.method.pool import hop_features
from hpme.explainers.hpme.search.representation import SUMMARY, WIDEST, Representation
from hpme.graphs import GraphBatch
from hpme.graphs.schema import padded

LEAST = 8
"""Principal directions of a block that are seen however many types there are."""


class HeteroRepresentation(nn.Module):
    """A :class:`Representation` of the nodes of every type, and of which type a node is.

    A linear scorer of these features is one scorer per type: a node has zeros in the columns of
    all types but its own. Types share the directions a block is seen through, so that many types
    do not take longer than one.

    Args:
        widths: Widths of the blocks of every type; none for a type without nodes.
    """

    def __init__(self, widths: Sequence[Sequence[int]]) -> None:
        super().__init__()
        widest = max(LEAST, WIDEST // max(1, len(widths)))
        self.parts = nn.ModuleList([Representation(width, widest) for width in widths])

    @classmethod
    def of(cls, blocks: Sequence[Tensor], graphs: GraphBatch) -> HeteroRepresentation:
        """Takes centres, scales and directions of every type from the blocks of some nodes."""
        rows = graphs.type_rows.nodes
        made = cls([[block.shape[1] for block in blocks] if len(row) else [] for row in rows])
        for number, row in enumerate(rows):
            if len(row):
                widest = made.representations[number].widest
                made.parts[number] = Representation.of([block[row] for block in blocks], widest)
        return made

    @property
    def representations(self) -> list[Representation]:
        """Those of all types."""
        return [part for part in self.parts if isinstance(part, Representation)]

    @property
    def widths(self) -> list[list[int]]:
        """Widths of the blocks of every type."""
        return [list(part.widths) for part in self.representations]

    @property
    def channels(self) -> int:
        """Width of the whole."""
        return sum(part.channels for part in self.representations) + len(self.parts)

    def forward(self, blocks: Sequence[Tensor], graphs: GraphBatch) -> Tensor:
        """Features ``[N, channels]`` of nodes."""
        seen = blocks[0].new_zeros(graphs.num_nodes, self.channels)
        first = 0
        for part, rows in zip(self.representations, graphs.type_rows.nodes, strict=True):
            if part.channels and len(rows):
                own = part([block[rows] for block in blocks])
                seen[rows, first : first + part.channels] = own
            first += part.channels
        assert graphs.node_type is not None
        seen[:, first:] = F.one_hot(graphs.node_type, len(self.parts)).to(seen)
        return seen

    def read(self, blocks: Sequence[Tensor], graphs: GraphBatch, weight: Tensor) -> Tensor:
        """Scores by ``weight [channels]`` beside the summary, ``[N, 1 + C]``, type by type.

        As of :meth:`forward` and :meth:`summarised`, without the columns of other types.
        """
        assert graphs.node_type is not None
        kind = F.one_hot(graphs.node_type, len(self.parts)).to(blocks[0])
        read = blocks[0].new_zeros(graphs.num_nodes, 1 + SUMMARY)
        first = 0
        for part, rows in zip(self.representations, graphs.type_rows.nodes, strict=True):
            if part.channels and len(rows):
                summary = padded(part.get_buffer("summary"), SUMMARY)
                wanted = weight[first : first + part.channels].unsqueeze(1)
                own = part([block.index_select(0, rows) for block in blocks])
                read.index_copy_(0, rows, own @ torch.cat([wanted, summary], dim=1))
            first += part.channels
        read[:, 0] += weight[first:].index_select(0, graphs.node_type)
        return torch.cat([read, kind], dim=1)

    def summarised(self, seen: Tensor) -> Tensor:
        """The principal directions of every type, over each other, and which type it is."""
        first, parts = 0, []
        for part in self.representations:
            own = part.summarised(seen[:, first : first + part.channels])
            parts.append(padded(own, SUMMARY))
            first += part.channels
        return torch.cat([torch.stack(parts).sum(0), seen[:, first:]], dim=1)


def hetero_blocks_of(
    x: Tensor, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch
) -> tuple[Tensor, ...]:
    r"""The blocks of :func:`~hpme.explainers.hpme.search.representation.blocks_of`, by type.

    Degrees are counted by the type of edge, and features of neighbours averaged by their type.

    Args:
        x: Input features.
        layers: Output of every message-passing layer.
        h: Node embeddings :math:`\mathbf{H}`.
        graphs: Graphs with types.
    """
    schema, node_type, edge_type = graphs.schema, graphs.node_type, graphs.edge_type
    assert schema is not None and node_type is not None and edge_type is not None
    kinds, relations = len(schema.node_types), max(1, len(schema.edge_types))
    degree = torch.bincount(
        graphs.edge_index[1] * relations + edge_type, minlength=graphs.num_nodes * relations
    )
    x, kind = x.to(h), F.one_hot(node_type, kinds).to(h)
    apart = [kind] + [
        x[:, :width] * kind[:, number : number + 1] for number, width in enumerate(schema.widths)
    ]
    depth = hop_features(torch.cat(apart, dim=1), graphs)
    return (
        degree.view(-1, relations).to(h).log1p(),
        x,
        *depth[1:],
        *layers,
        *hop_features(h, graphs),
    )
