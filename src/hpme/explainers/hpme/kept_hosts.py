"""Real graphs that stay with an explainer, as hosts of later questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from hpme.graphs import GraphStore
from hpme.graphs.tensors import from_tensors, to_tensors

HOST = "host_"
"""What names of tensors of kept hosts begin with."""


class KeepsHosts(nn.Module):
    """Keeps graphs as buffers, so that they are saved and moved with all else."""

    def _keep_hosts(self, store: GraphStore) -> None:
        """A few of the fitted graphs stay with the explainer, as hosts for :meth:`quality`."""
        node, graph = (
            {k: v for k, v in level.items() if k != "y"} for level in (store.node, store.graph)
        )
        parts = (store.sizes, store.edge_counts, store.local_edge_index, node, store.edge, graph)
        kept = GraphStore(*parts, schema=store.schema)
        tensors = to_tensors(kept)
        self._set_hosts({HOST + name.replace(".", "__"): v for name, v in tensors.items()})

    def _set_hosts(self, tensors: Mapping[str, Tensor]) -> None:
        for name in [name for name in self._buffers if name.startswith(HOST)]:
            del self._buffers[name]
        for name, value in tensors.items():
            self.register_buffer(name, value)

    def _hosts(self) -> GraphStore:
        kept = {name: v for name, v in self.named_buffers() if name.startswith(HOST)}
        return from_tensors(
            {name.removeprefix(HOST).replace("__", ".", 1): v for name, v in kept.items()}
        )

    def _check_learned(self) -> None:
        self._hosts().check()

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> Any:
        """Takes the sizes of the kept hosts from the saved tensors."""
        self._set_hosts({name: v for name, v in state_dict.items() if name.startswith(HOST)})
        return super().load_state_dict(state_dict, *args, **kwargs)
