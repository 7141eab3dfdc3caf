"""Edge weights as masks on the messages of PyG layers, for models that take no edge weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from torch_geometric.nn import MessagePassing


@contextmanager
def message_mask(
    model: nn.Module, mask: Tensor, edge_index: Tensor, num_nodes: int | None = None
) -> Iterator[None]:
    """Multiplies every message by the weight of its edge; masks of others are put back afterwards.

    The differences to PyG's ``set_masks``: a mask left behind as a parameter by another explainer
    does not cut the gradient, an exception leaves nothing on the model, and layers that work on
    other than ``num_nodes`` nodes, because a pooling layer came before, are left alone.
    """

    def on_all_nodes(explain_message: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def explain(inputs: Tensor, dim_size: int | None) -> Tensor:
            whole = num_nodes is None or dim_size == num_nodes
            return explain_message(inputs, dim_size) if whole else inputs

        return explain

    layers = [
        m for m in model.modules() if isinstance(m, MessagePassing) and m.explain is not False
    ]
    before = [(dict(layer.__dict__), dict(layer._parameters)) for layer in layers]
    try:
        for layer in layers:
            layer._parameters.pop("_edge_mask", None)
            layer.explain = True
            layer._edge_mask, layer._apply_sigmoid = mask, False
            layer._loop_mask = edge_index[0] != edge_index[1]
            layer.explain_message = on_all_nodes(layer.explain_message)
        yield
    finally:
        for layer, (attributes, parameters) in zip(layers, before, strict=True):
            # All of it: PyG's switch also puts a method and argument names on the layer.
            for current, saved in ((layer.__dict__, attributes), (layer._parameters, parameters)):
                current.clear()
                current.update(saved)
