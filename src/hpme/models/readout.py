"""The readout of any model: where a forward pass reduces rows of nodes over a batch vector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch_geometric.nn import Aggregation
from torch_geometric.nn.dense.linear import Linear as PyGLinear

_REDUCTIONS = {
    getattr(where, f"{how}{end}")
    for how in ("scatter_add", "scatter_reduce", "index_add", "index_reduce")
    for where, end in ((torch, ""), (Tensor, ""), (Tensor, "_"))
}
_NORMS = "torch_geometric.nn.norm"
LINEAR = (nn.Linear, PyGLinear)
LAST = 4
"""Linear layers that count as the last ones, where a readout sums one number per node."""


class ReadoutProbe(TorchFunctionMode):
    """Watches for reductions of node rows over batch vectors; the last one of each is a readout.

    Unless it says less than one before: of ones, which counts nodes, or of the features the model
    was given. Sums of a batch vector count as it does. Reductions inside a normalisation are none;
    inside a PyG aggregation, which may weigh nodes before it sums them, what entered it counts. A
    linear layer after the last readout is the head.
    """

    def __init__(self, batches: Sequence[Tensor], x: Tensor | None = None) -> None:
        super().__init__()
        self.x = None if x is None else x.untyped_storage().data_ptr()
        self.places = {v.untyped_storage().data_ptr(): i for i, v in enumerate(batches)}
        self.sizes = [batch.numel() for batch in batches]
        self.found: dict[int, Tensor] = {}
        self.heads: list[tuple[int, Tensor]] = []
        self.count = 0
        self.inside = 0
        self.telling: set[nn.Module] = set()
        """Aggregations and normalisations that got a batch vector, or have layers inside."""
        self._sums: list[Tensor] = []  # kept, so that nothing else comes to stand in their place

    def hooks(self, module: nn.Module) -> Iterator[Any]:
        """Hooks that a linear layer, an aggregation or a normalisation needs; others need none."""
        if isinstance(module, LINEAR):
            yield module.register_forward_pre_hook(self._on_head)
        elif isinstance(module, Aggregation) or type(module).__module__.startswith(_NORMS):
            yield module.register_forward_pre_hook(self._enter, with_kwargs=True)
            yield module.register_forward_hook(self._leave)

    def graph_embedding(self, num_graphs: int, output: Tensor) -> Tensor:
        """Input of the head, one row per graph; the output itself if no head was found."""
        shape = (2, num_graphs)
        found = [h for n, h in self.heads if n == self.count and (h.dim(), h.shape[0]) == shape]
        return found[0] if found else output

    def widest(self, rows: int) -> Tensor | None:
        """Input of the widest of the last linear layers on so many rows, of equals the last."""
        wide = [h for _, h in self.heads if h.dim() == 2 and len(h) == rows and h.shape[1] > 1]
        return max(reversed(wide[-LAST:]), key=lambda h: h.shape[1], default=None)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        self.called(func, args, kwargs)
        result = func(*args, **kwargs)
        if func is torch.add:
            self.know(args, result)
        return result

    def called(self, func: Any, args: Any, kwargs: Any) -> None:
        """Takes note of a reduction, before its result overwrites anything."""
        if func in _REDUCTIONS and self.inside == 0:
            tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
            self._see(tensors[1:])

    def know(self, args: Any, result: Tensor) -> None:
        """A batch vector to which something is added tells graphs apart, too."""
        for place in {self.place(a) for a in args if isinstance(a, Tensor)} - {None}:
            if result.shape == (self.sizes[cast(int, place)],) and not result.is_floating_point():
                self.places[result.untyped_storage().data_ptr()] = cast(int, place)
                self._sums.append(result)

    def place(self, value: Tensor) -> int | None:
        """Which of the batch vectors this is, if any."""
        return self.places.get(value.untyped_storage().data_ptr())

    def _on_head(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        if self.inside == 0 and inputs and isinstance(inputs[0], Tensor):
            self.heads.append((self.count, inputs[0]))

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        given = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
        if module._modules or any(self.place(a) is not None for a in given):
            self.telling.add(module)
        if self.inside == 0 and isinstance(module, Aggregation):
            self._see(given)
        self.inside += 1

    def _leave(self, *_: Any) -> None:
        self.inside -= 1

    def _see(self, tensors: list[Tensor]) -> None:
        over = {self.place(t) for t in tensors if not t.is_floating_point()} - {None}
        for place in cast(set[int], over):
            rows = [
                t for t in tensors
                if t.is_floating_point() and t.dim() == 2 and t.shape[0] == self.sizes[place]
            ]  # fmt: skip
            known = self.found.get(place)
            if rows and (known is None or self.worth(rows[-1]) >= self.worth(known)):
                self.found[place], self.count = rows[-1], self.count + 1

    def worth(self, rows: Tensor) -> int:
        """How much rows of nodes tell: 0 if they only count, 1 if they are the given features."""
        if rows.numel() and bool(rows[0, 0] == 1) and bool((rows == 1).all()):
            return 0
        return 1 if rows.untyped_storage().data_ptr() == self.x else 2


class Marked(Tensor):
    """A batch vector that tells a probe what is done with it, and with its views.

    Watching all functions costs more, and is needed once to know that this is enough.
    """

    probe: ReadoutProbe

    @classmethod
    def of(cls, batch: Tensor, probe: ReadoutProbe) -> Tensor:
        """A batch vector, or what counts as one."""
        marked = batch.as_subclass(cls)
        marked.probe = probe
        return marked

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [a for a in (*args, *kwargs.values()) if isinstance(a, cls)]
        with torch._C.DisableTorchFunctionSubclass():
            probe = given[0].probe if given else None
            if probe is not None:
                probe.called(func, args, kwargs)
            result = func(*args, **kwargs)
            if probe is None or not isinstance(result, Tensor):
                return result
            if func is torch.add:
                probe.know(args, result)
            return result if probe.place(result) is None else cls.of(result, probe)
