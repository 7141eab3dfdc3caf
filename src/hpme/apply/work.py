"""What every process does: a part of the rows to the content of a shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from hpme.apply.rows import Part
from hpme.apply.shards import Column, Lists, ShardRows
from hpme.data.molecules.columns import SkippedRow
from hpme.data.molecules.molgraph import ReadMolecules, read_part
from hpme.errors import HPMEError, InputError, short_of_memory
from hpme.execute import Done, Failure
from hpme.explainers.registry import load_explainer
from hpme.explainers.shared.base import GraphExplainer
from hpme.explainers.shared.context import Asking
from hpme.explainers.shared.masks import edge_to_node
from hpme.graphs import GraphStore
from hpme.models.explained import ExplainedModel
from hpme.models.output import check_rows
from hpme.storage import FileContent

ASKED: dict[str, Any] = dict.fromkeys(("mode", "return_type", "model_config", "target", "contrast"))
"""What is known of how to read an output."""
TRIAL = 8
"""Rows that show whether explainer and model belong together."""


@dataclass
class ShardWork:
    """Explains parts of the rows; it travels to other processes, and reads its model there.

    Args:
        explainer: The file of a saved explainer.
        build: Makes the model, and says what is known about it.
        state: Its parameters and buffers, as :func:`state_of` gives them.
        settings: What shards say about how they were made.
        verdict: Whether every graph gets a verdict, which takes mixes with other graphs.
        alpha: Risk that pooled nodes are to keep, by the guarantee of the explainer, if any.
        hydrogens: Whether hydrogens of molecules become nodes.
        device: Where the model runs; by default where it is.
        threads: Threads for computing.
        loaded: The explainer, where it is loaded already; it does not travel.
        made: The model, likewise.
    """

    explainer: FileContent
    build: Callable[[], ExplainedModel]
    state: bytes
    settings: dict[str, Any]
    verdict: bool = False
    alpha: float | None = None
    hydrogens: bool = False
    device: str | None = None
    threads: int = 1
    loaded: GraphExplainer | None = None
    made: ExplainedModel | None = None
    _ready: Asking | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "loaded": None, "made": None, "_ready": None}

    def __call__(self, part: Part) -> Done:
        """Makes a shard; what goes wrong with all of its rows is a failure."""
        torch.set_num_threads(self.threads)
        try:
            return Done(part, self.shard(part))
        except Exception as error:
            return Done(part, failure=Failure.of(error))

    def shard(self, part: Part) -> bytes:
        """Explains the rows of a part; the shard lists those that cannot be explained."""
        table, skipped = ShardRows(part), list(part.skipped)
        with self.ready() as asking:
            size = asking.explainer.batch_size
            for first in range(0, len(part.ids), size):
                store, numbers = self.read(part, slice(first, first + size), skipped)
                self._explain(part, store, numbers, table, skipped)
        skipped.sort(key=lambda row: row.row)
        return table.encoded(skipped, self.settings)

    def check(self, part: Part) -> None:
        """Explains a few rows of a part, so that what is wrong with the model shows early.

        Raises:
            HPMEError: If explainer and model do not belong together.
        """
        explainer = self.ready().explainer
        if self.verdict and not hasattr(explainer, "quality"):
            raise InputError(f"{explainer.title} gives no verdicts; those of HPME do")
        if self.verdict and explainer.answers:
            raise InputError("an explainer that was fitted to several targets gives no verdicts")
        skipped: list[SkippedRow] = []
        count = TRIAL if self.alpha is None else len(part.ids)  # more say whether graphs are alike
        store, numbers = self.read(part, slice(0, count), skipped)
        usable = [i for i in range(len(numbers)) if _usable(store.subset(torch.tensor([i])))]
        if usable:
            trial = store.subset(torch.tensor(usable))
            try:
                if self.alpha is not None:
                    explainer.explain(self.ready().model, trial, progress=False)
                self._columns(part, trial, [numbers[i] for i in usable])
            except Exception as error:
                if not short_of_memory(error):  # less at a time may fit
                    raise

    def ready(self) -> Asking:
        """The explainer and the model, read when they are first needed."""
        if self._ready is None:
            explainer = self.loaded or load_explainer(self.explainer)
            if self.alpha is not None:
                if not hasattr(explainer, "showing"):
                    raise InputError(f"{explainer.title} guarantees nothing; those of HPME do")
                explainer = explainer.showing(self.alpha)
            explained = self.made or self.build()
            explained.model.load_state_dict(load(self.state))
            if self.device is not None:
                explained.model.to(torch.device(self.device))
            facts = {name: fact for name, fact in explainer.facts.items() if fact is not None}
            facts["level"] = explainer.level or "graph"
            self._ready = explainer.on(ExplainedModel.of(explained, **facts))
        return self._ready

    def read(
        self, part: Part, rows: slice, skipped: list[SkippedRow]
    ) -> tuple[GraphStore, list[int]]:
        """Graphs of some rows, and their positions in the part."""
        numbers = list(range(*rows.indices(len(part.ids))))
        if part.smiles is None:
            return part.store.subset(torch.tensor(numbers)), numbers
        texts, explained = part.smiles[rows], self.ready().model
        if explained.featurise is None:
            found = read_part(texts, hydrogens=self.hydrogens)
        else:
            found = _featurised(texts, explained)
        for place, reason in found.failed.items():
            skipped.append(SkippedRow(part.ids[numbers[place]], texts[place], reason))
        return found.store, [numbers[place] for place in found.numbers]

    def _explain(
        self,
        part: Part,
        store: GraphStore,
        numbers: list[int],
        table: ShardRows,
        skipped: list[SkippedRow],
    ) -> None:
        """Adds graphs to the table; where that fails, halves are tried until the bad ones are known."""  # noqa: E501
        if not numbers:
            return
        try:
            if bool((store.sizes == 0).any()):
                raise InputError("the graph has no nodes")
            if part.smiles is None:
                store.check()
            table.add(self._columns(part, store, numbers))
        except Exception as error:
            if len(numbers) == 1:
                row = part.ids[numbers[0]]
                if short_of_memory(error):  # later, or elsewhere, there may be more of it
                    raise HPMEError(
                        f"memory is too short for row {row}; free some, or use fewer --workers, "
                        "and run the same command again"
                    ) from error
                reason = str(error) if isinstance(error, HPMEError) else repr(error)
                text = "" if part.smiles is None else part.smiles[numbers[0]]
                skipped.append(SkippedRow(row, text, reason))
                return
            half = len(numbers) // 2
            for places in (range(half), range(half, len(numbers))):
                some = store.subset(torch.tensor(list(places)))
                self._explain(part, some, [numbers[i] for i in places], table, skipped)

    def _columns(self, part: Part, store: GraphStore, numbers: list[int]) -> dict[str, Column]:
        explainer, explained = self.ready().explainer, self.ready().model
        masks, output = explainer.masks(explained, store), None
        view = explained.view
        if not (view.asked or explainer.answers):
            output = masks.output
        if output is None:  # all that the model says, not only about what was asked
            bare = replace(explained, **ASKED)
            graphs = store.detached(everything=bare.reads_all).batch()
            with bare.frozen(), torch.no_grad():
                raw = bare.adapter().predict(graphs)
            view = view.of_all_classes(raw)
            output = view.read(raw)
        check_rows(output, len(store))
        task = view.task(output)
        task.check(output)
        values = task.values(output) if task.classification else output.view(len(store), -1)
        ones, quality, rest = torch.ones_like(store.sizes), None, None
        if self.verdict:
            judge: Any = explainer
            text = {"smiles": [part.smiles[i] for i in numbers]} if part.smiles else {}
            named = replace(store, text=text)
            judged = judge.quality(explained, named, proofs=False)
            quality = [one.verdict for one in judged]
            rest = torch.cat([one.rest for one in judged]) if store.schema is None else None
        nodes = masks.node_mask
        if nodes is None:
            nodes = edge_to_node(masks.edge_mask, store.batch())
        return {
            "id": [part.ids[i] for i in numbers],
            "name": part.names and [part.names[i] for i in numbers],
            "smiles": part.smiles and [part.smiles[i] for i in numbers],
            "prediction": Lists(values.flatten(), ones * values.shape[1]),
            "class": values.argmax(1) if task.classification else None,
            "pooled_nodes": _numbers(masks.pooled, store),
            "edge_weights": Lists(masks.edge_mask, store.edge_counts),
            "node_weights": Lists(nodes.amax(1), store.sizes),
            "verdict": quality,
            "rest_nodes": _numbers(rest, store),
        }


def _featurised(texts: Sequence[str], explained: ExplainedModel) -> ReadMolecules:
    """Molecules as the model's own featuriser makes them; those it refuses are failures."""
    assert explained.featurise is not None
    graphs: list[Any] = []
    numbers, failed = [], {}
    for number, text in enumerate(texts):
        try:
            graphs += explained.featurise([text])
            numbers.append(number)
        except HPMEError as error:
            failed[number] = str(error)
    store = explained.read(graphs) if graphs else read_part([]).store
    return ReadMolecules(store, numbers, failed)


def state_of(explained: ExplainedModel) -> bytes:
    """Parameters and buffers of a model, to be read by another process."""
    state = explained.model.state_dict()
    return save({name: value.detach().cpu().clone().contiguous() for name, value in state.items()})


def _usable(one: GraphStore) -> bool:
    with suppress(InputError):
        one.check()
        return bool(one.sizes.all())
    return False


def _numbers(mask: Tensor | None, store: GraphStore) -> Column:
    """Numbers of the masked nodes of every graph."""
    if mask is None:
        return None
    graph, nodes = store.node_graph, mask.nonzero().view(-1)
    counts = torch.bincount(graph[nodes], minlength=len(store))
    return Lists((nodes - store.node_start[graph[nodes]]).int(), counts)
