"""A frozen model on changed replicas of graphs, as many at once as fit; and its output row by row.

Where rows of an output are not those of separate graphs, of nodes or of links (edges join two
graphs of ``batch``, nothing assigns rows to a type, the answer for a node depends on ``batch``),
the whole input is copied once for every row, side by side: numbers in ``batch`` and
``edge_label_index`` count on. Whoever asks sees a model of graphs, whose output for a copy is its
row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch_geometric.data import HeteroData

from hpme.data.info import Level
from hpme.errors import HPMEError, InputError, ModelError
from hpme.graphs import GraphBatch, GraphStore
from hpme.graphs.ego import WholeGraph
from hpme.graphs.schema import Schema
from hpme.graphs.transforms import chunks
from hpme.models.adapter import ModelAdapter, device_of
from hpme.models.calling import LINK, WEIGHT, Caller, as_batch
from hpme.models.explained import ExplainedModel
from hpme.models.freezing import users_settings
from hpme.models.output import check_rows, described


@dataclass(frozen=True)
class Replicas:
    """Some replicas of graphs, as one batch."""

    graphs: GraphBatch  # the replicas as they are; ``node_ids`` are rows of the replicated graphs
    ids: Tensor  # graph number [R] of every replica
    edge_ids: Tensor  # position of every edge among those of the replicated graphs
    number: Tensor  # number [R] of every replica among all of them


def channels_of(model: nn.Module) -> int:
    """The smaller side of a model's largest matrix: a long table of embeddings is narrow."""
    known = (weight for weight in model.parameters() if not is_lazy(weight))
    return max((min(weight.shape[-2:]) for weight in known if weight.dim() > 1), default=1)


Change = Callable[[Replicas], GraphBatch]
"""What is done to replicas before the model sees them; graphs and their order stay."""


def replica_outputs(
    adapter: ModelAdapter, store: GraphStore, ids: Tensor, change: Change, /, **model_kwargs: Any
) -> Iterator[tuple[Tensor, Tensor]]:
    """Graph numbers and outputs of changed replicas of graphs, some at a time, in order."""
    first = 0
    for part in chunks(store, ids, channels_of(adapter.model)):
        number = torch.arange(first, first + part.numel(), device=part.device)
        first += part.numel()
        replicas = Replicas(store.batch(part), part, store.edges_of(part)[0], number)
        output = adapter.predict(change(replicas), **model_kwargs)
        check_rows(output, part.numel())
        yield part, output


ROW, INNER = "explained row", "given batch"
"""Fields of copies; no attribute of a user's graph has a name with a blank."""


@torch.no_grad()
def given_output(
    explained: ExplainedModel, x: Any, edge_index: Any, arguments: Mapping[str, Any]
) -> Tensor | None:
    """What the model says about arguments as they are; ``None`` if it cannot be called so."""
    device = device_of(explained.model)
    with explained.frozen(), users_settings():
        try:
            named = {name: _there(value, device) for name, value in arguments.items()}
            output = explained.model(_there(x, device), _there(edge_index, device), **named)
            output = explained.view.pick(output)
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception:
            return None
    return output if isinstance(output, Tensor) and output.dim() else None


@dataclass(frozen=True)
class CallOnCopies:
    """Calls a model on copies side by side as it is called on the one."""

    arguments: Mapping[str, Any]  # as they were given, besides features and edges
    sizes: Mapping[str, int]  # nodes of a copy by type; of one without types under ``""``
    graphs: int  # number of graphs in a copy
    rows: int | None  # rows of the output for every copy, of which one is returned; else all
    weight: str | None  # the model's name for edge weights, if it has one
    pick: Callable[[Any], Any]  # takes the entry that is explained out of an output
    ends: tuple[str, str] = ("", "")  # types of nodes that ``edge_label_index`` numbers

    def __call__(self, model: Any, batch: Any) -> Any:
        """The rows that the copies of a batch are for, or all."""
        output = self.everything(model, batch)
        if self.rows is None:
            return output
        row = batch[ROW]
        if not isinstance(output, Tensor) or output.shape[:1] != (self.rows * len(row),):
            raise ModelError(
                f"the model returned {described(output)} for {len(row)} copies of a graph for "
                f"which it returns {self.rows} rows; a graph inside may have lost all its nodes: "
                "choose an explainer that keeps them, such as occlusion or gnnexplainer"
            )
        return output[torch.arange(len(row), device=row.device) * self.rows + row]

    def everything(self, model: Any, batch: Any) -> Any:
        """What the model returns for all copies, one after the other."""
        hetero = isinstance(batch, HeteroData)
        named = {name: self._value(batch, name, value) for name, value in self.arguments.items()}
        if self.weight is not None and _has(batch, "edge_weight"):
            named[self.weight] = batch.collect("edge_weight") if hetero else batch.edge_weight
        if hetero:
            return self.pick(model(batch.x_dict, batch.edge_index_dict, **named))
        return self.pick(model(batch.x, batch.edge_index, **named))

    def _value(self, batch: Any, name: str, value: Any) -> Any:
        """An argument for all copies together."""
        field = name.removesuffix("_dict")
        if field == "batch":
            if isinstance(batch, HeteroData):
                return {kind: self._numbers(batch[kind]) for kind in value}
            return self._numbers(batch)
        if field == "batch_size":
            return value * len(batch[ROW])
        if field == LINK and LINK in batch:
            return batch[LINK]  # one link each, if copies are about one
        if field == LINK and isinstance(value, Mapping):
            return {kind: self._shifted(batch, v, (kind[0], kind[-1])) for kind, v in value.items()}
        if field == LINK:
            return self._shifted(batch, value, self.ends)
        if isinstance(value, Mapping) and _has(batch, field):
            return batch.collect(field)
        if isinstance(value, Tensor) and field in batch:
            return batch[field]
        return _there(value, batch[ROW].device)

    def _numbers(self, nodes: Any) -> Tensor:
        # One sum of the batch vector of the copies, by which readouts are recognised.
        return torch.add(nodes[INNER], nodes.batch, alpha=self.graphs)

    def _shifted(self, batch: Any, links: Any, ends: Sequence[str]) -> Tensor:
        """Both ends of the links of all copies."""
        if not isinstance(links, Tensor) or links.dim() != 2 or len(links) != 2:
            raise InputError(f"{LINK} must have shape [2, links], got {described(links)}")
        number = torch.arange(len(batch[ROW]), device=batch[ROW].device)
        sizes = [self.sizes[kind] for kind in ends]
        there = [batch[kind].num_nodes if kind else batch.num_nodes for kind in ends]
        if there != [size * len(number) for size in sizes]:
            raise ModelError(
                f"nodes that {LINK} numbers were removed; choose an explainer that keeps them, "
                "such as occlusion or gnnexplainer"
            )
        rows = zip(links.to(number.device), sizes, strict=True)
        return torch.stack([(row + size * number.unsqueeze(1)).flatten() for row, size in rows])


@dataclass(frozen=True)
class Copies:
    """Copies of a graph, one for every row that is explained, made a few at a time."""

    whole: WholeGraph  # the graphs inside are numbered by its node attribute :data:`INNER`
    rows: Tensor
    roots: Tensor | None = None  # nodes ``[R]`` or links ``[R, 2]``, if rows are those of some
    schema: Schema | None = None  # how types are numbered; by default as in the graph

    def __len__(self) -> int:
        return len(self.rows)

    def parts(self, numbers: Tensor, batch_size: int) -> Iterator[tuple[Tensor, GraphStore]]:
        """Numbers of a few rows at a time, and the copies for them."""
        size = len(self.whole.x) + self.whole.edge_index.shape[1]
        few = max(1, min(batch_size, self.whole.max_edges // max(1, size)))
        for ids in numbers.split(few):  # type: ignore[no-untyped-call]
            yield ids, self.made(self.rows[ids], None if self.roots is None else self.roots[ids])

    def made(self, rows: Tensor, roots: Tensor | None = None) -> GraphStore:
        """A copy for each of some rows."""
        store = self.whole.copies(len(rows), roots).with_attributes(graph={ROW: rows})
        return store if self.schema is None else store.conformed(self.schema)

    @classmethod
    def of(
        cls,
        explained: ExplainedModel,
        whole: WholeGraph,
        inner: Tensor | None,
        arguments: Mapping[str, Any],
        output: Tensor,
        rows: Tensor,
        *,
        roots: Tensor | None = None,
        schema: Schema | None = None,
    ) -> tuple[ExplainedModel, Copies]:
        """The model as one that is called on copies, and the copies."""
        level: Level = "graph" if roots is None else "node" if roots.dim() == 1 else "edge"
        kinds = ("",) if whole.schema is None else whole.schema.node_types
        call = CallOnCopies(
            arguments,
            sizes={kind: len(whole.numbers(kind)) for kind in kinds},
            graphs=1 if inner is None or not len(inner) else int(inner.max()) + 1,
            rows=len(output) if roots is None else None,
            weight=next(iter(WEIGHT & set(Caller(explained.model, None, level).names)), None),
            pick=explained.view.pick,
        )
        if inner is not None:
            whole = replace(whole, store=whole.store.with_attributes(node={INNER: inner}))
        found = cls(whole, rows, roots, schema)
        call = _agreeing(call, explained, found, output)
        return replace(explained, call=call, level=level, output=None), found


@torch.no_grad()
def _agreeing(
    call: CallOnCopies, explained: ExplainedModel, copies: Copies, output: Tensor
) -> CallOnCopies:
    """The call by which two copies have the output of one, twice; all types of ends are tried."""
    links = call.arguments.get(LINK)
    typed = isinstance(links, Tensor) and copies.whole.schema is not None
    graphs = copies.made(copies.rows.new_zeros(2)).detached(everything=True).batch()
    graphs = graphs.to(device_of(explained.model) or graphs.x.device)
    batch = as_batch(graphs, graphs.edge_weight)
    expected, failure = torch.cat([output, output]), ""
    for ends in product(call.sizes, call.sizes) if typed else [call.ends]:
        trial = replace(call, ends=ends)
        try:
            with explained.frozen(), users_settings():
                found = trial.everything(explained.model, batch)
        except (HPMEError, torch.cuda.OutOfMemoryError):
            raise
        except Exception as error:
            failure = f" ({type(error).__name__}: {error})"
            continue
        if isinstance(found, Tensor) and close(found, expected):
            return trial
    raise ModelError(
        "the model says something else about a graph beside a copy of it than about the graph "
        f"alone{failure}; rows of its output are explained by copies side by side, so it must keep "
        "graphs apart by batch, and take arguments that have a row per node or edge, or none"
    )


def close(output: Tensor, other: Tensor) -> bool:
    """Whether two outputs are the same but for rounding."""
    scale = float(output.abs().max()) if output.numel() else 0.0
    same = output.shape == other.shape
    return same and torch.allclose(output, other.to(output), rtol=1e-3, atol=1e-4 * scale)


def _has(batch: Any, field: str) -> bool:
    """Whether a batch has a field, of any type."""
    return any(field in store for store in batch.stores)


def _there(value: Any, device: torch.device | None) -> Any:
    """Tensors, also in dictionaries, on a device."""
    if isinstance(value, Mapping):
        return {name: _there(one, device) for name, one in value.items()}
    return value.to(device) if isinstance(value, Tensor) and device is not None else value
