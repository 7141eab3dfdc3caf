"""What the HPMEs whose pool is trained by gradient share: the objective's options, the pool."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import torch

from hpme.explainers.hpme.base import HPMEBase
from hpme.explainers.hpme.method.pool import MAX_LAYERS, Pool
from hpme.explainers.hpme.method.training import Objective, train
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.shared.options import one_of, real, table, whole
from hpme.explainers.shared.parametric import EdgeMLP


class TrainedHPME(HPMEBase):
    r"""A pool :math:`Q_\phi` (Eq. graph_pooling) and an edge MLP trained by gradient.

    Args:
        bce_weight: Weight :math:`\beta` of the BCE; 0 is the ablation w/o BCE.
        pool_layers: Pooling layers :math:`L`.
        gate: ``"tanh"`` multiplies transplanted features by :math:`\tanh(s)`; ``None`` is the
            paper's equation to the letter, which leaves :math:`\phi` without a gradient.
        temperature: :math:`\tau` of the binary concrete distribution.
        **options: Arguments of :class:`~hpme.explainers.hpme.base.HPMEBase`.
    """

    needs_weights = True
    constraints = table(
        bce_weight=real(least=0),
        pool_layers=whole(1, most=MAX_LAYERS),
        gate=one_of("tanh", words=(None,)),
        temperature=real(above=0),
    )
    summed: ClassVar[bool] = False
    """Whether the BCE is summed over the edges of a graph, as the paper prints it."""

    def __init__(
        self,
        *,
        bce_weight: float,
        pool_layers: int = 1,
        gate: Literal["tanh"] | None = "tanh",
        temperature: float = 1.0,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.bce_weight, self.pool_layers = bce_weight, pool_layers
        self.gate, self.temperature = gate, temperature

    def _train(
        self,
        mix: HardMix,
        pool: Pool,
        edge_mlp: EdgeMLP,
        betas: list[float],
        *,
        learn_pool: bool,
    ) -> Iterator[int]:
        objective = Objective(
            mix, self.mixup, self.gate is not None, self.temperature, summed=self.summed
        )
        parameters = [*(pool.parameters() if learn_pool else ()), *edge_mlp.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay)
        return train(objective, pool, edge_mlp, optimiser, betas, self.batch_size, gate=learn_pool)

    def _pool_meta(self) -> dict[str, Any]:
        assert isinstance(self.pool, Pool)
        return {"layers": self.pool.layers, "hops": self.pool.hops}

    def _empty_pool(self, meta: dict[str, Any]) -> Pool:
        form = (meta["channels"], 1, meta["layers"], tuple(meta["hops"]))
        return Pool(*form, generator=torch.Generator())
