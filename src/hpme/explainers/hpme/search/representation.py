"""What a scorer reads of a node: what the model sees of it, at every depth.

Of heterogeneous graphs, the blocks of each type of nodes are kept apart from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpme.errors import ModelError
from hpme.explainers.hpme.method.pool import hop_features
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.parametric import Categories, read_features
from hpme.graphs import GraphBatch

WIDEST = 64
"""Wider blocks are seen through as many of their principal directions, or fewer of many types."""
LEAST = 8
"""Principal directions of a block that are seen however many types there are."""


class Representation(nn.Module):
    r"""Blocks of node features side by side, none louder than another.

    Blocks are the degree, the input features, also averaged over one and two hops, the output of
    every message-passing layer, and :math:`\mathbf{H}`; see :func:`blocks_of`.
    After several rounds of message passing "is a nitrogen" is smeared over the neighbourhood, so
    :math:`\mathbf{H}` alone cannot express it. Each block is centred and divided by its total
    standard deviation; a penalty on weights then treats all depths alike, and inside a block
    channels keep their proportions, so that a rare one is not blown up.

    Args:
        widths: Width of every block.
        widest: Wider blocks are seen through as many of their principal directions.
    """

    def __init__(self, widths: Sequence[int], widest: int = WIDEST) -> None:
        super().__init__()
        self.widths, self.widest = tuple(widths), widest
        for number, width in enumerate(self.widths):
            self.register_buffer(f"mean_{number}", torch.zeros(width))
            self.register_buffer(f"map_{number}", torch.zeros(width, min(width, widest)))

    @classmethod
    def of(
        cls, blocks: Sequence[Tensor], graphs: GraphBatch | None = None, widest: int = WIDEST
    ) -> Representation:
        """Takes centres, scales and directions from the blocks ``[N, width]`` of some nodes."""
        representation = cls([block.shape[1] for block in blocks], widest)
        for number, block in enumerate(blocks):
            mean = block.mean(0)
            centred = block - mean
            total = centred.square().mean(0).sum().sqrt()
            basis = (
                _principal(centred, widest)
                if block.shape[1] > widest
                else torch.eye(len(mean), device=mean.device)
            )
            if block.numel() and float(total) > 1e-6 * float(block.abs().max().clamp(min=1e-30)):
                basis = basis.to(block) / total
            else:  # all nodes alike: rounding errors must not be scaled up
                basis = torch.zeros_like(basis)
            representation.register_buffer(f"mean_{number}", mean)
            representation.register_buffer(f"map_{number}", basis.to(mean))
        return representation

    @property
    def channels(self) -> int:
        """Width of the whole."""
        return sum(min(width, self.widest) for width in self.widths)

    def forward(self, blocks: Sequence[Tensor], graphs: GraphBatch | None = None) -> Tensor:
        """Features ``[N, channels]`` of nodes, whatever the graphs."""
        given = [block.shape[1] for block in blocks]
        if given != list(self.widths):
            raise ModelError(
                f"the explainer was fitted to a model whose layers and features have "
                f"{sum(self.widths)} channels together, those of this one have {sum(given)}; "
                "explain that model, or fit again"
            )
        parts = [
            (block - self.get_buffer(f"mean_{number}")) @ self.get_buffer(f"map_{number}")
            for number, block in enumerate(blocks)
        ]
        return torch.cat(parts, dim=1)


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
                own = [block[row] for block in blocks]
                made.parts[number] = Representation.of(own, widest=widest)
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


def blocks_of(
    x: Tensor, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch
) -> tuple[Tensor, ...]:
    r"""The blocks of :class:`Representation`.

    Those of heterogeneous graphs count degrees by the type of edge, and average features of
    neighbours by their type.

    Args:
        x: Input features.
        layers: Output of every message-passing layer.
        h: Node embeddings :math:`\mathbf{H}`.
        graphs: The graphs.
    """
    x = x.to(h)
    target, kinds, far = graphs.edge_index[1], 1, x
    if graphs.schema is not None:
        assert graphs.node_type is not None and graphs.edge_type is not None
        kinds = max(1, len(graphs.schema.edge_types))
        target = target * kinds + graphs.edge_type
        kind = F.one_hot(graphs.node_type, len(graphs.schema.node_types)).to(h)
        own = [
            x[:, :width] * kind[:, number : number + 1]
            for number, width in enumerate(graphs.schema.widths)
        ]
        far = torch.cat([kind, *own], dim=1)
    degree = torch.bincount(target, minlength=graphs.num_nodes * kinds).view(-1, kinds)
    return (degree.to(h).log1p(), x, *hop_features(far, graphs)[1:], *layers, h)


class NodeReader(nn.Module):
    """What scorers read of nodes, whatever the kind of their features and of the graphs.

    Args:
        widths: Widths of the blocks; by type if graphs are heterogeneous.
        codes: Number of codes of integer features, ``None`` if features are numbers.
    """

    def __init__(self, widths: Sequence[Any], codes: int | None = None) -> None:
        super().__init__()
        hetero = bool(widths) and not isinstance(widths[0], int)
        self.representation = (HeteroRepresentation if hetero else Representation)(widths)
        self.categories = None if codes is None else Categories(codes)

    @classmethod
    def of(cls, context: Context, batch_size: int) -> NodeReader:
        """With centres and scales of one batch of graphs, which say enough about them."""
        graphs = context.store.batch(next(batches(torch.arange(len(context.store)), batch_size)))
        rows, reader = graphs.node_ids, cls(())
        reader.categories = Categories.of(context.store)
        blocks = reader._blocks([layer[rows] for layer in context.layers], context.h[rows], graphs)
        kind = Representation if graphs.schema is None else HeteroRepresentation
        reader.representation = kind.of(blocks, graphs)
        return reader

    def meta(self) -> dict[str, Any]:
        """The arguments of this one."""
        codes = None if self.categories is None else len(self.categories.code)
        return {"widths": list(self.representation.widths), "codes": codes}

    def forward(self, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch) -> Tensor:
        """Features ``[N, D]`` of nodes; arguments are those of :func:`blocks_of`."""
        features: Tensor = self.representation(self._blocks(layers, h, graphs), graphs)
        return features

    def _blocks(
        self, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch
    ) -> tuple[Tensor, ...]:
        return blocks_of(read_features(self.categories, graphs), layers, h, graphs)


def _principal(centred: Tensor, count: int) -> Tensor:
    """The ``count`` directions of largest variance, ``[width, count]``, or all there are."""
    covariance = centred.T.double() @ centred.double()
    directions: Tensor = torch.linalg.eigh(covariance).eigenvectors
    # Saved tensors come back contiguous, and products of others are rounded differently.
    return directions[:, -count:].to(centred).contiguous()
