"""HPME as printed: the paper's Algorithm 1 and nothing else."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import torch

from hpme.explainers.hpme.base import HPMEBase, Score
from hpme.explainers.hpme.effects import Measured
from hpme.explainers.hpme.method.mixer import Neighbor
from hpme.explainers.hpme.method.mixup import Attach
from hpme.explainers.hpme.method.pool import MAX_LAYERS, Pool
from hpme.explainers.hpme.method.training import Objective, train
from hpme.explainers.hpme.report import report_on
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.options import Count, Positive, Weight, real, whole
from hpme.explainers.shared.parametric import EdgeMLP
from hpme.progress import progress_bar

Ratio = Annotated[float, real(above=0, most=1, reason="the paper's algorithm chooses no size")]


class HPMEPrintedExplainer(HPMEBase):
    r"""The paper's Algorithm 1: one pool and one edge MLP, trained together from one start.

    :math:`G'` is any graph, boundary edges go by rank, the BCE is summed over the edges of a mixup
    graph (Eq. bce_loss) and an edge scores :math:`p_{ij}`. Nothing is chosen among starts or
    checkpoints by hard mixes; :attr:`report` measures one afterwards. All of the pool is shown.

    Args:
        ratio: Share of nodes that are pooled, :math:`r`, which the paper takes from the ground
            truth; this or ``k`` must be given.
        bce_weight: Weight :math:`\beta` of the summed BCE, in the paper's unit; 0 is the ablation
            w/o BCE.
        pool_layers: Pooling layers :math:`L`.
        gate: ``"tanh"`` multiplies transplanted features by :math:`\tanh(s)`; ``None`` is the
            paper's equation to the letter, which leaves :math:`\phi` without a gradient.
        temperature: :math:`\tau` of the binary concrete distribution.
        score, neighbor, attach: As in :class:`~hpme.explainers.hpme.base.HPMEBase`, with the
            paper's choices as defaults.
        epochs: Epochs, with one step for every ``batch_size`` graphs.
        lr: Learning rate of Adam.
        weight_decay: Weight decay of Adam.
        search_graphs: At most this many of the graphs are trained on.
        **options: Arguments of :class:`~hpme.explainers.hpme.base.HPMEBase`.
    """

    slug = "hpme-printed"
    title = "HPME as printed"
    summary = "The paper's algorithm to the letter: one start, summed BCE, scores of the edge MLP."
    typical_seconds = 15.0
    chooses_size = False
    needs_weights = True

    def __init__(
        self,
        *,
        ratio: Ratio | None = None,
        bce_weight: Weight = 0.1,
        pool_layers: Annotated[int, whole(1, most=MAX_LAYERS)] = 1,
        gate: Literal["tanh"] | None = "tanh",
        temperature: Positive = 1.0,
        score: Score = "edge",
        neighbor: Neighbor = "random",
        attach: Attach = "rank",
        epochs: Count = 300,
        lr: Positive = 0.01,
        weight_decay: Weight = 5e-4,
        search_graphs: Count = 512,
        **options: Any,
    ) -> None:
        options |= {"score": score, "neighbor": neighbor, "attach": attach}
        super().__init__(ratio=ratio, search_graphs=search_graphs, **options)
        self.bce_weight, self.pool_layers = bce_weight, pool_layers
        self.gate, self.temperature = gate, temperature
        self.epochs, self.lr, self.weight_decay = epochs, lr, weight_decay

    def _fit(self, context: Context, *, progress: bool) -> None:
        generator = torch.Generator().manual_seed(self.seed)
        self._keep(context)
        everything = int(context.store.edge_counts.sum())
        mix = self.hard_mix(context.sample(self.search_graphs, everything, generator), generator)
        channels = mix.context.h.shape[1]
        pool = Pool(channels, self.pool_layers, generator=generator).to(context.device)
        edge_mlp = EdgeMLP(channels, generator=generator).to(context.device)
        form = self.bce_weight, self.mixup, self.gate is not None, self.temperature
        parameters = [*pool.parameters(), *edge_mlp.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=self.lr, weight_decay=self.weight_decay)
        learning = Objective(mix, *form), pool, edge_mlp, optimiser, self.epochs, self.batch_size
        with progress_bar("training pool and edge MLP", self.epochs, enabled=progress) as advance:
            for _ in train(*learning):
                advance(1)
        self.pool, self.edge_mlp = pool, edge_mlp
        self._finish(report_on(mix, Measured.on((mix, pool)), None, held_out=False))

    def _pool_meta(self) -> dict[str, Any]:
        assert isinstance(self.pool, Pool)
        return {"layers": self.pool.layers}

    def _empty_pool(self, meta: dict[str, Any]) -> Pool:
        return Pool(meta["channels"], meta["layers"], generator=torch.Generator())
