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
from hpme.explainers.hpme.method.pool import propagate
from hpme.explainers.shared.context import Context, batches
from hpme.explainers.shared.parametric import Categories, read_features
from hpme.graphs import GraphBatch

WIDEST = 64
"""Wider blocks are seen through as many of their principal directions; those of several types of
nodes share them. Only speed asks for it: the models of the benchmark have narrower blocks."""


def blocks_of(
    x: Tensor, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch
) -> tuple[Tensor, ...]:
    r"""The blocks of :class:`NodeReader`.

    Those of heterogeneous graphs average features of neighbours by their type, and are zero at
    nodes of all types but one: a linear scorer of them is one scorer per type.

    Args:
        x: Input features.
        layers: Output of every message-passing layer.
        h: Node embeddings :math:`\mathbf{H}`.
        graphs: The graphs.
    """
    x, schema = x.to(h), graphs.schema
    if schema is None:
        near = propagate(x, graphs)
        return (x, near, propagate(near, graphs), *layers, h)
    assert graphs.node_type is not None
    kind = F.one_hot(graphs.node_type, len(schema.node_types)).to(h)
    own = [x[:, :width] * kind[:, n : n + 1] for n, width in enumerate(schema.widths)]
    near = propagate(torch.cat([kind, *own], dim=1), graphs)
    blocks = (x, near, propagate(near, graphs), *layers, h)
    return (kind, *(block * column.unsqueeze(1) for column in kind.T for block in blocks))


class NodeReader(nn.Module):
    r"""Blocks of node features side by side, none louder than another; see :func:`blocks_of`.

    After several rounds of message passing "is a nitrogen" is smeared over the neighbourhood, so
    :math:`\mathbf{H}` alone cannot express it. Each block is centred and divided by its total
    standard deviation; a penalty on weights then treats all depths alike, and inside a block
    channels keep their proportions, so that a rare one is not blown up.

    Args:
        widths: Widths of the blocks.
        codes: Number of codes of integer features, ``None`` if features are numbers.
        widest: Wider blocks are seen through as many of their principal directions.
    """

    mean: Tensor
    map: Tensor

    def __init__(
        self, widths: Sequence[int], codes: int | None = None, widest: int = WIDEST
    ) -> None:
        super().__init__()
        self.widths, self.widest = tuple(widths), widest
        self.categories = None if codes is None else Categories(codes)
        seen = sum(min(width, widest) for width in widths)
        self.register_buffer("mean", torch.zeros(sum(widths)))
        self.register_buffer("map", torch.zeros(sum(widths), seen))

    @classmethod
    def of(cls, context: Context, batch_size: int) -> NodeReader:
        """With centres and scales of one batch of graphs, which say enough about them."""
        graphs = context.store.batch(next(batches(torch.arange(len(context.store)), batch_size)))
        rows, categories = graphs.node_ids, Categories.of(context.store)
        layers = [layer[rows] for layer in context.layers]
        blocks = blocks_of(read_features(categories, graphs), layers, context.h[rows], graphs)
        types = 1 if graphs.schema is None else len(graphs.schema.node_types)
        reader = cls.scaled(blocks, max(8, WIDEST // types))
        reader.categories = categories
        return reader

    @classmethod
    def scaled(cls, blocks: Sequence[Tensor], widest: int = WIDEST) -> NodeReader:
        """Takes centres, scales and directions from the blocks ``[N, width]`` of some nodes."""
        reader = cls([block.shape[1] for block in blocks], None, widest)
        reader.mean = torch.cat([block.mean(0) for block in blocks])
        parts = [_directions(block, widest) for block in blocks]
        reader.map = torch.block_diag(*parts)  # type: ignore[no-untyped-call]
        return reader

    def meta(self) -> dict[str, Any]:
        """The arguments of this one."""
        codes = None if self.categories is None else len(self.categories.code)
        return {"widths": list(self.widths), "codes": codes, "widest": self.widest}

    def forward(self, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch) -> Tensor:
        """Features ``[N, D]`` of nodes; arguments are those of :func:`blocks_of`."""
        return self.seen(blocks_of(read_features(self.categories, graphs), layers, h, graphs))

    def seen(self, blocks: Sequence[Tensor]) -> Tensor:
        """Features ``[N, D]`` of nodes with the given blocks."""
        self._check(*(block.shape[1] for block in blocks))
        return (torch.cat(list(blocks), dim=1) - self.mean) @ self.map

    def scores(
        self, weight: Tensor, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch
    ) -> Tensor:
        """What weights ``[D]`` make of the features, ``[N]``, without computing all of these.

        Averages over neighbours are linear, so one column is averaged and not each feature.
        """
        x = read_features(self.categories, graphs).to(h)
        if graphs.schema is not None:
            features: Tensor = self(layers, h, graphs)
            return features @ weight
        self._check(*[x.shape[1]] * 3, *(block.shape[1] for block in (*layers, h)))
        rows, means = (torch.split(v, list(self.widths)) for v in (self.map @ weight, self.mean))
        source, target = graphs.edge_index
        scale = (torch.bincount(target, minlength=graphs.num_nodes) + 1).to(h).rsqrt()

        def averaged(column: Tensor) -> Tensor:
            column = column * scale
            return column.index_add(0, target, column.index_select(0, source)) * scale

        far = averaged(x @ rows[1] + averaged(x @ rows[2]))
        score = far - means[1] @ rows[1] - means[2] @ rows[2]
        for block, number in zip((x, *layers, h), (0, *range(3, len(rows))), strict=True):
            score = torch.addmv(score, block - means[number], rows[number])
        return score

    def _check(self, *widths: int) -> None:
        if widths != self.widths:
            raise ModelError(
                f"the explainer was fitted to a model whose layers and features have "
                f"{sum(self.widths)} channels together, those of this one have {sum(widths)}; "
                "explain that model, or fit again"
            )


def _directions(block: Tensor, widest: int) -> Tensor:
    """All directions of a block, or those of largest variance, divided by its total spread."""
    centred = block - block.mean(0)
    total = centred.square().mean(0).sum().sqrt()
    basis = torch.eye(block.shape[1], device=block.device)
    if block.shape[1] > widest:
        basis = torch.linalg.eigh(centred.T.double() @ centred.double()).eigenvectors[:, -widest:]
    if not block.numel() or float(total) <= 1e-6 * float(block.abs().max().clamp(min=1e-30)):
        return torch.zeros_like(basis).to(block)  # all alike: rounding must not be scaled up
    return basis.to(block) / total
