"""All graphs of a collection as flat tensors: what datasets, files, explainers and metrics hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.utils import cumsum

from hpme.errors import InputError
from hpme.graphs.batch import GraphBatch, node_kinds
from hpme.graphs.checks import check_graph_tensors, check_own_nodes
from hpme.graphs.edges import Pairs
from hpme.graphs.hetero import split_hetero
from hpme.graphs.reading import Attributes, read_graphs
from hpme.graphs.schema import EDGE_TYPE, NODE_TYPE, Schema, padded
from hpme.graphs.segment import at, concatenated_ranges, exclusive_cumsum

Graphs = Iterable[Any]
"""What :func:`GraphStore.from_graphs` accepts: a store, a dataset, a list of ``Data``, a loader."""
GROUPS = ("node", "edge", "graph", "match")
"""Attributes are grouped by what they have a row for."""
MODEL_INPUTS = ("x", "edge_attr", "edge_weight", "y", "anchors")
"""What most models read; other attributes travel along where they are asked for."""
MATCH_NODE = "match_index"
"""The node of every row of the match table; PyG renumbers ``*index`` when it makes batches."""


@dataclass(frozen=True)
class GraphStore:
    r"""All graphs of a collection, attributes laid end to end.

    Edges, anchors and matches number nodes from each graph's first.

    Args:
        sizes: Number of nodes of every graph.
        edge_counts: Number of directed edges of every graph.
        local_edge_index: Edges :math:`[2, E]`, grouped by graph.
        node: Attributes with one row per node, by name (``x``, ``node_mask``, ...).
        edge: Attributes with one row per directed edge (``edge_attr``, ``edge_mask``, ...).
        graph: Attributes with one row per graph (``y``, ``anchors``, ...).
        match_counts: Number of rows of every graph in the match table; by default none.
        match: The match table, one row per node of a match: ``match_index`` is the node,
            ``match_id`` numbers the matches of a graph, ``match_rule`` says what was matched.
        text: Attributes with one text per graph (``smiles``, ...).
        batch_device: Where batches are put; by default where the graphs are.
        schema: Types of nodes and edges, if the graphs have any; see :class:`GraphBatch`.
    """

    sizes: Tensor
    edge_counts: Tensor
    local_edge_index: Tensor
    node: Mapping[str, Tensor] = field(default_factory=dict)
    edge: Mapping[str, Tensor] = field(default_factory=dict)
    graph: Mapping[str, Tensor] = field(default_factory=dict)
    match_counts: Tensor | None = None
    match: Mapping[str, Tensor] = field(default_factory=dict)
    text: Mapping[str, Sequence[str]] = field(default_factory=dict)
    batch_device: torch.device | None = None
    schema: Schema | None = None

    def __post_init__(self) -> None:
        counts = self.counts()
        rows = {group: int(count.sum()) for group, count in counts.items()}
        if any(count.numel() != len(self) for count in counts.values()):
            raise InputError("the counts per graph disagree on the number of graphs")
        shape = tuple(self.local_edge_index.shape)
        if shape[1:] != (rows["edge"],):
            raise InputError(f"edge_index has shape {shape}, expected (2, {rows['edge']})")
        for group in GROUPS:
            for name, value in getattr(self, group).items():
                if value.shape[0] != rows[group]:
                    kinds = f"{group}es" if group == "match" else f"{group}s"
                    raise InputError(f"{name} has {value.shape[0]} rows for {rows[group]} {kinds}")
        for name, texts in self.text.items():
            if len(texts) != len(self):
                raise InputError(f"'{name}' has {len(texts)} texts, expected {len(self)}")

    # Where stores come from #####################################################################

    @classmethod
    def from_graphs(
        cls, graphs: GraphStore | GraphBatch | Graphs, *, attributes: Attributes = "inputs"
    ) -> GraphStore:
        """Reads a dataset, a list of ``Data`` or a loader once, and checks it.

        A store is returned as it is; a dataset of heterogeneous graphs has one, ``flat``.

        Args:
            graphs: The graphs.
            attributes: Which are read: ``"inputs"``, those of :data:`MODEL_INPUTS`, with names and
                SMILES; ``"fitting"``, besides them all that every graph has as a text or with a row
                per node, per edge or for the graph; or ``"all"``, on which graphs must then agree.
        """
        if isinstance(graphs, GraphStore):
            return graphs
        flat = getattr(graphs, "flat", None) if attributes == "inputs" else None
        store = flat if isinstance(flat, GraphStore) else cls(**read_graphs(graphs, attributes))
        store.check()
        return store

    # Views ######################################################################################

    def __len__(self) -> int:
        return int(self.sizes.numel())

    def __getitem__(self, number: int) -> Any:
        return self.subset(torch.tensor([number])).to_data_list()[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_data_list())

    @property
    def device(self) -> torch.device:
        """Where the graphs are."""
        return self.local_edge_index.device

    @property
    def x(self) -> Tensor:
        """Node features :math:`[N, F]`, see :class:`GraphBatch`."""
        return self.node["x"]

    @property
    def kinds(self) -> Tensor:
        """What tells kinds of nodes apart, see :func:`~hpme.graphs.batch.node_kinds`."""
        return node_kinds(self.x, self.node)

    @property
    def edge_attr(self) -> Tensor | None:
        """Edge features :math:`[E, D]`, if there are any."""
        return self.edge.get("edge_attr")

    @property
    def edge_weight(self) -> Tensor | None:
        """Edge weights :math:`[E]`, if there are any."""
        return self.edge.get("edge_weight")

    @property
    def y(self) -> Tensor | None:
        """One label per graph, else one per node, if there are any."""
        return self.graph.get("y", self.node.get("y"))

    @property
    def anchors(self) -> Tensor | None:
        """Nodes :math:`[G, c]` the graphs are about, if there are any; see :class:`GraphBatch`."""
        return self.graph.get("anchors")

    @cached_property
    def node_start(self) -> Tensor:
        """Position of every graph's first node."""
        return exclusive_cumsum(self.sizes)

    @cached_property
    def edge_start(self) -> Tensor:
        """Position of every graph's first edge."""
        return exclusive_cumsum(self.edge_counts)

    @property
    def node_graph(self) -> Tensor:
        """Graph number of every node."""
        return torch.repeat_interleave(self.sizes)

    @property
    def edge_graph(self) -> Tensor:
        """Graph number of every edge."""
        return torch.repeat_interleave(self.edge_counts)

    @property
    def edge_index(self) -> Tensor:
        """Edges that number the nodes of all graphs in a row."""
        return self.local_edge_index + self.node_start[self.edge_graph]

    @cached_property
    def pairs(self) -> Pairs:
        """Connected pairs of all graphs; nodes are numbered from each graph's first."""
        edge_type = None if self.schema is None else self.edge[EDGE_TYPE]
        pairs = Pairs.of(self.edge_index, self.node_graph, len(self), edge_type)
        return replace(pairs, index=pairs.index - self.node_start[pairs.graph])

    # Parts and sums #############################################################################

    def batch(self, ids: Tensor | None = None, *, with_pairs: bool = False) -> GraphBatch:
        """The graphs with the given numbers (repetition allowed), or all of them, as one batch.

        ``with_pairs`` takes its pairs from those of all graphs, which pays for several batches.
        """
        every, ids = ids is None, (torch.arange(len(self)) if ids is None else ids).to(self.device)
        sizes, edge_counts = self.sizes.index_select(0, ids), self.edge_counts.index_select(0, ids)
        offset = exclusive_cumsum(sizes)
        if every:  # in a row already
            node_graph, edge_graph = self.node_graph, self.edge_graph
            nodes, edges = (
                torch.arange(len(v), device=self.device) for v in (node_graph, edge_graph)
            )
        else:
            nodes, node_graph = concatenated_ranges(self.node_start[ids], sizes)
            edges, edge_graph = concatenated_ranges(self.edge_start[ids], edge_counts)

        def taken(values: Mapping[str, Tensor], rows: Tensor) -> dict[str, Tensor]:
            """Copies in any case: models may write into them."""
            return {k: v.clone() if every else v.index_select(0, rows) for k, v in values.items()}

        node, edge, graph = taken(self.node, nodes), taken(self.edge, edges), taken(self.graph, ids)
        local = self.local_edge_index if every else self.local_edge_index.index_select(1, edges)
        anchors = graph.pop("anchors", None)
        batch = GraphBatch.of(
            node,
            edge,
            edge_index=local + at(offset, edge_graph),
            batch=node_graph,
            num_graphs=ids.numel(),
            node_ids=nodes,
            known_pairs=self._pairs_of(ids, offset, edges, edge_graph) if with_pairs else None,
            anchors=None if anchors is None else anchors + offset.unsqueeze(1),
            graph=graph,
            schema=self.schema,
        )
        # As they would be computed.
        batch.__dict__.update(sizes=sizes, ptr=offset, edge_counts=edge_counts)
        return batch if self.batch_device is None else batch.to(self.batch_device)

    def _pairs_of(self, ids: Tensor, offset: Tensor, edges: Tensor, edge_graph: Tensor) -> Pairs:
        pairs = self.pairs
        counts, start = at(pairs.counts, ids), at(pairs.start, ids)
        chosen, graph = concatenated_ranges(start, counts)
        shift = at(exclusive_cumsum(at(self.edge_counts, ids)) - at(self.edge_start, ids), graph)
        forward, backward = at(pairs.forward, chosen), at(pairs.backward, chosen)
        return Pairs(
            index=pairs.index.index_select(1, chosen) + at(offset, graph),
            graph=graph,
            of_edge=at(pairs.of_edge, edges) + at(exclusive_cumsum(counts) - start, edge_graph),
            forward=torch.where(forward < 0, forward, forward + shift),
            backward=torch.where(backward < 0, backward, backward + shift),
            num_graphs=ids.numel(),
        )

    def edges_of(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Positions of all edges of the given graphs, and the position in ``ids`` of each."""
        ids = ids.to(self.device)
        return concatenated_ranges(self.edge_start[ids], self.edge_counts[ids])

    def subset(self, ids: Tensor) -> GraphStore:
        """The graphs with the given numbers, in that order."""
        ids = ids.to(self.device)
        taken: dict[str, Any] = {}
        for group, count in self.counts().items():
            rows = concatenated_ranges(exclusive_cumsum(count)[ids], count[ids])[0]
            taken[group] = {name: value[rows] for name, value in getattr(self, group).items()}
            if group == "edge":
                taken["local_edge_index"] = self.local_edge_index[:, rows]
        return replace(
            self,
            sizes=self.sizes[ids],
            edge_counts=self.edge_counts[ids],
            match_counts=None if self.match_counts is None else self.match_counts[ids],
            text={name: [texts[i] for i in ids.tolist()] for name, texts in self.text.items()},
            **taken,
        )

    def joined(self, *others: GraphStore) -> GraphStore:
        """The graphs of this store followed by those of others, with the attributes all have."""
        if not others:
            return self
        stores = (self, *(other.conformed(self.schema) for other in others))
        matches = [s.match_counts for s in stores if s.match_counts is not None]

        def row(parts: Sequence[Any], dim: int = 0) -> Any:
            if not isinstance(parts[0], Tensor):
                return [text for texts in parts for text in texts]
            return torch.cat([part.to(parts[0]) for part in parts], dim=dim)

        groups: dict[str, Any] = {
            group: {
                name: row([getattr(store, group)[name] for store in stores])
                for name in getattr(self, group)
                if all(name in getattr(store, group) for store in others)
            }
            for group in (*GROUPS, "text")
        }
        return replace(
            self,
            sizes=row([store.sizes for store in stores]),
            edge_counts=row([store.edge_counts for store in stores]),
            local_edge_index=row([store.local_edge_index for store in stores], dim=1),
            match_counts=row(matches) if len(matches) == len(stores) else None,
            **groups,
        )

    def with_attributes(self, **groups: Mapping[str, Tensor]) -> GraphStore:
        """The same graphs with further or other attributes, as ``node=``, ``edge=``, ``graph=``."""
        changed: dict[str, Any] = {name: {**getattr(self, name), **groups[name]} for name in groups}
        return replace(self, **changed)

    def detached(self, *, everything: bool = False) -> GraphStore:
        """The graphs without the history of tensors, with :data:`MODEL_INPUTS` or everything."""
        names = MODEL_INPUTS if self.schema is None else (*MODEL_INPUTS, NODE_TYPE, EDGE_TYPE)
        node, edge, graph = (
            {name: value.detach() for name, value in group.items() if everything or name in names}
            for group in (self.node, self.edge, self.graph)
        )
        text = {name: v for name, v in self.text.items() if everything or name == "smiles"}
        none: Any = {"match": {}, "match_counts": None}
        return replace(self, node=node, edge=edge, graph=graph, text=text, **none)

    def conformed(self, schema: Schema | None) -> GraphStore:
        """The same graphs with types numbered as in another schema, which must have all of them."""
        if schema == self.schema:
            return self
        if schema is None or self.schema is None:
            kinds = ("homogeneous", "heterogeneous")
            given, known = kinds if self.schema is None else kinds[::-1]
            raise InputError(f"{given} graphs where {known} ones were given before; fit again")
        node, edge = self.schema.places_in(schema, self.edge[EDGE_TYPE])
        changed = {"x": padded(self.x, schema.width), NODE_TYPE: node[self.node[NODE_TYPE]]}
        edges = {EDGE_TYPE: edge[self.edge[EDGE_TYPE]]}
        if schema.edge_width is not None:
            empty = self.x.new_zeros(self.local_edge_index.shape[1], 0)
            edges["edge_attr"] = padded(self.edge.get("edge_attr", empty), schema.edge_width)
        return replace(self.with_attributes(node=changed, edge=edges), schema=schema)

    # Other forms ################################################################################

    def counts(self) -> dict[str, Tensor]:
        """Rows of every graph, by group."""
        match = torch.zeros_like(self.sizes) if self.match_counts is None else self.match_counts
        graph = torch.ones_like(self.sizes)
        return {"node": self.sizes, "edge": self.edge_counts, "graph": graph, "match": match}

    def slices(self) -> dict[str, Tensor]:
        """Start positions per attribute, as PyG's in-memory datasets keep them."""
        pointers = {group: cumsum(count) for group, count in self.counts().items()}
        slices = {"edge_index": pointers["edge"], **dict.fromkeys(self.text, pointers["graph"])}
        for group in GROUPS:
            slices.update(dict.fromkeys(getattr(self, group), pointers[group]))
        return slices

    def to_data_list(self, kind: Any = None) -> list[Any]:
        """The graphs one by one, with all their attributes.

        Each is of a ``kind`` such as PyG's ``Explanation``, by default ``Data`` or ``HeteroData``.
        """
        counts, groups = self.counts(), {group: getattr(self, group) for group in GROUPS}
        if self.schema is not None:
            given = self.local_edge_index, counts, groups, self.schema, self.text
            return split_hetero(*given, kind=kind or HeteroData)
        rows = {group: count.tolist() for group, count in counts.items()}
        columns: dict[str, Sequence[Any]] = {
            name: value.split(rows[group])
            for group, values in groups.items()
            for name, value in values.items()
        }
        columns["edge_index"] = self.local_edge_index.split(rows["edge"], dim=1)  # type: ignore[no-untyped-call]
        if "x" in columns and self.x.shape[1:] == (0,):  # there are no features of that name
            del columns["x"]
            columns["num_nodes"] = rows["node"]
        if "anchors" in columns:
            columns["anchors"] = self.graph["anchors"].view(len(self), -1).unbind()
        columns.update(self.text)
        made = [(kind or Data)() for _ in range(len(self))]
        for graph, *parts in zip(made, *columns.values(), strict=True):
            # A new graph has nothing cached, so what its store does for every value is left out.
            graph._store._mapping.update(zip(columns, parts, strict=True))
        return made

    def check(self) -> None:
        """Raises :class:`InputError` naming the first unusable graph."""
        if len(self) == 0:
            raise InputError("no graphs: the dataset, list or loader is empty")
        check_graph_tensors(self.x, self.local_edge_index, self.edge_attr, self.edge_weight)
        check_own_nodes(self.local_edge_index, self.sizes, self.edge_counts, self.anchors)
