"""What a scorer reads of a node: what the model sees of it, at every depth.

Of heterogeneous graphs, the blocks of each type of nodes are kept apart from the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hpme.errors import ModelError
from hpme.explainers.hpme.method.pool import hop_features
from hpme.graphs import GraphBatch
from hpme.graphs.schema import padded

HOPS = 2
"""Hops over which input features and embeddings are averaged."""
WIDEST = 64
"""Wider blocks are seen through as many of their principal directions."""
SUMMARY = 32
"""Principal directions of all blocks together that the edge MLP sees; it need not see more."""
SUMMARY_SCALE = 5.0
"""Blocks have unit variance in total; the edge MLP learns faster from larger numbers."""
LEAST = 8
"""Principal directions of a block that are seen however many types there are."""


class Representation(nn.Module):
    r"""Blocks of node features side by side, none louder than another.

    Blocks are the degree, the input features and :math:`\mathbf{H}`, each also averaged over one
    and two hops (:math:`\hat{\mathbf{A}}\mathbf{H}`, :math:`\hat{\mathbf{A}}^2\mathbf{H}`), and the
    output of every message-passing layer.
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
        self.register_buffer("summary", torch.zeros(self.channels, min(self.channels, SUMMARY)))

    @classmethod
    def of(cls, blocks: Sequence[Tensor], widest: int = WIDEST) -> Representation:
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
        features = representation(blocks)
        summary = _principal(features - features.mean(0), SUMMARY)
        representation.register_buffer("summary", SUMMARY_SCALE * summary)
        return representation

    @property
    def channels(self) -> int:
        """Width of the whole."""
        return sum(min(width, self.widest) for width in self.widths)

    def forward(self, blocks: Sequence[Tensor], graphs: GraphBatch | None = None) -> Tensor:
        """Features ``[N, channels]`` of nodes, whatever the graphs."""
        parts = [
            (block - self.get_buffer(f"mean_{number}")) @ self.get_buffer(f"map_{number}")
            for number, block in enumerate(blocks)
        ]
        return torch.cat(parts, dim=1)

    def summarised(self, features: Tensor) -> Tensor:
        """The principal directions of features ``[N, channels]``."""
        summary: Tensor = features @ self.get_buffer("summary")
        return summary

    def read(
        self, x: Tensor, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch, weight: Tensor
    ) -> Tensor:
        """Scores by ``weight [channels]`` beside the summary of nodes, ``[N, 1 + C]``."""
        weights = torch.cat([weight.unsqueeze(1), self.get_buffer("summary")], dim=1)
        return self.reading(weights)(x, layers, h, graphs)

    def reading(self, weights: Tensor) -> LinearReading:
        """``weights [channels, C]`` of features, to be read without the features themselves."""
        widths = [min(width, self.widest) for width in self.widths]
        rows = weights.split(widths)  # type: ignore[no-untyped-call]
        plan = block_plan(len(rows))
        mean = {block: self.get_buffer(f"mean_{number}") for number, block in enumerate(plan)}
        maps = {block: self.get_buffer(f"map_{n}") @ rows[n] for n, block in enumerate(plan)}
        moved = [part for part, hop in plan if hop == HOPS]
        parts = [part for part, hop in plan if hop == 0 and part not in moved] + moved
        hops = range(1, HOPS + 1)
        away = [torch.cat([maps[part, hop] for part in moved]) for hop in reversed(hops)]
        centre = torch.cat([mean[part, 0] for part in moved])
        lost = [mean[part, hop] @ maps[part, hop] for hop in hops for part in moved]
        far = torch.cat(away, dim=1)
        return LinearReading(
            parts,
            centre=torch.cat([*(mean[part, 0] for part in parts), centre.new_zeros(1)]),
            here=torch.cat([*(maps[p, 0] for p in parts), -torch.stack(lost).sum(0).unsqueeze(0)]),
            away=torch.cat([far, (centre @ far).unsqueeze(0)]),
        )


@dataclass(frozen=True)
class LinearReading:
    r"""Weighted features of nodes, from what they are made of.

    Averages over hops are linear, so only what is wanted takes the way over the edges:
    :math:`\hat{\mathbf{A}}^2 \mathbf{H} \mathbf{W}_2 + \hat{\mathbf{A}} \mathbf{H} \mathbf{W}_1 =
    \hat{\mathbf{A}} (\hat{\mathbf{A}} \mathbf{H} \mathbf{W}_2 + \mathbf{H} \mathbf{W}_1)`.
    Numbers are centred before they are weighed, for the sake of their digits; a column of ones,
    the last, brings back what averages keep of the centre.

    Args:
        parts: Numbers of the :func:`parts_of` nodes, those that are averaged over hops last.
        centre: Mean of these; 0 for the ones.
        here: Weights of these, ``[K, C]``.
        away: Weights of the last of them two hops and one hop away, side by side, ``[k, 2 C]``.
    """

    parts: Sequence[int]
    centre: Tensor
    here: Tensor
    away: Tensor

    def __call__(
        self, x: Tensor, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch
    ) -> Tensor:
        """What is wanted of every node, ``[N, C]``; arguments are those of :func:`blocks_of`."""
        source, start = graphs.incoming
        count = start.diff().to(h).unsqueeze(1)
        given = parts_of(count, x, layers, h)
        channels = sum(part.shape[1] for part in given) + 1
        if (len(given), channels) != (len(self.parts), len(self.centre)):
            raise ModelError(
                f"the explainer was fitted to a model whose layers and features have "
                f"{len(self.centre) - 2} channels together, those of this one have "
                f"{channels - 2}; explain that model, or fit again"
            )
        seen = torch.cat([*(given[part] for part in self.parts), torch.ones_like(count)], dim=1)
        seen = seen.sub_(self.centre)
        scale = (1 + count).rsqrt()
        far, near = (seen[:, -len(self.away) :] @ self.away).chunk(2, dim=1)
        far = _with_neighbours(far * scale, source, start)
        far = _with_neighbours((far * scale + near) * scale, source, start)
        return far.mul_(scale).addmm_(seen, self.here)


def _with_neighbours(rows: Tensor, source: Tensor, start: Tensor) -> Tensor:
    """Every row plus those of the nodes with an edge to it."""
    summed = F.embedding_bag(source, rows, start, mode="sum", include_last_offset=True)
    return summed.add_(rows)


def parts_of(degree: Tensor, x: Tensor, layers: Sequence[Tensor], h: Tensor) -> tuple[Tensor, ...]:
    """What is read of nodes: their degree ``[N, 1]``, features, layers' outputs and embeddings."""
    return (degree.log1p(), x.to(h), *layers, h)


def block_plan(count: int) -> list[tuple[int, int]]:
    """For each of ``count`` blocks its part, see :func:`parts_of`, and over how many hops."""
    hops, last = range(HOPS + 1), count - 2 * HOPS - 1
    features, embeddings = ([(part, hop) for hop in hops] for part in (1, last))
    return [(0, 0), *features, *((layer, 0) for layer in range(2, last)), *embeddings]


def blocks_of(
    x: Tensor, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch
) -> tuple[Tensor, ...]:
    r"""The blocks of :class:`Representation`, in the order of :func:`block_plan`.

    Those of heterogeneous graphs count degrees by the type of edge, and average features of
    neighbours by their type.

    Args:
        x: Input features.
        layers: Output of every message-passing layer.
        h: Node embeddings :math:`\mathbf{H}`.
        graphs: The graphs.
    """
    if graphs.schema is not None:
        return _hetero_blocks(x, layers, h, graphs)
    degree = torch.bincount(graphs.edge_index[1], minlength=graphs.num_nodes).to(h)
    parts = parts_of(degree.unsqueeze(1), x, layers, h)
    plan = block_plan(len(parts) + 2 * HOPS)
    averaged = {p: hop_features(parts[p], graphs, HOPS) for p, hop in plan if hop == HOPS}
    return tuple(averaged[part][hop] if part in averaged else parts[part] for part, hop in plan)


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

    def read(
        self, x: Tensor, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch, weight: Tensor
    ) -> Tensor:
        """Scores by ``weight [channels]`` beside the summary, ``[N, 1 + C]``, type by type.

        As of :meth:`forward` and :meth:`summarised`, without the columns of other types.
        """
        assert graphs.node_type is not None
        blocks = _hetero_blocks(x, layers, h, graphs)
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


def _hetero_blocks(
    x: Tensor, layers: Sequence[Tensor], h: Tensor, graphs: GraphBatch
) -> tuple[Tensor, ...]:
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


def representation_of(
    blocks: Sequence[Tensor], graphs: GraphBatch
) -> Representation | HeteroRepresentation:
    """What is read of nodes, with centres and scales from the blocks of some graphs."""
    if graphs.schema is None:
        return Representation.of(blocks)
    return HeteroRepresentation.of(blocks, graphs)


def _principal(centred: Tensor, count: int) -> Tensor:
    """The ``count`` directions of largest variance, ``[width, count]``, or all there are."""
    covariance = centred.T.double() @ centred.double()
    directions: Tensor = torch.linalg.eigh(covariance).eigenvectors
    # Saved tensors come back contiguous, and products of others are rounded differently.
    return directions[:, -count:].to(centred).contiguous()
