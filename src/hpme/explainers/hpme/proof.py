"""The proof of an explanation: its region in other graphs, before and after, beside random ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, overload

import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme.data.molecules.chem import written
from hpme.explainers.hpme.evidence import Trials
from hpme.explainers.hpme.method.pool import Selection, by_boundary
from hpme.explainers.hpme.transplants import Transplants
from hpme.graphs import GraphBatch

SHOWN = 3
"""Hosts that are drawn: those of a low, of the middle and of a high effect, not the best ones."""


@dataclass(frozen=True)
class Planted:
    """A host with nodes of another graph.

    Args:
        graph: What the model was asked about.
        nodes: Its nodes that were inserted, boolean.
        origin: The number of every node in the host; -1 if it is not of the host.
        output: What the model says.
    """

    graph: Data
    nodes: Tensor
    origin: Tensor
    output: float


@dataclass(frozen=True)
class Trial:
    """A host as it is, with the region, and with a random region as a control.

    Args:
        host: The host.
        output: What the model says about it.
        chosen: With the region of the explanation.
        random: With a random region, as large.
    """

    host: Data
    output: float
    chosen: Planted
    random: Planted


@dataclass(frozen=True)
class Proof:
    """What moving the region of an explanation into other graphs does there.

    Args:
        region: Nodes of the explained graph that are moved, boolean.
        output: What the model says about the graph.
        name: What the output is called, such as ``"p(class 1)"``.
        hosts: Outputs of all hosts that differ enough from the graph ``[D]``, NaN for others.
        chosen: With the region ``[D]``.
        random: With random regions ``[D]``.
        trials: Some of the hosts, to be drawn; none where regions could not be moved.
        bounded: Whether outputs are probabilities.
        graph: The explained graph, to be drawn beside the hosts.
    """

    region: Tensor
    output: float
    name: str
    hosts: Tensor
    chosen: Tensor
    random: Tensor
    trials: tuple[Trial, ...]
    bounded: bool
    graph: Data | None = None

    @overload
    def draw(self, path: None = None) -> str: ...
    @overload
    def draw(self, path: str | Path) -> Path: ...
    def draw(self, path: str | Path | None = None) -> str | Path:
        """Draws the graph, and hosts before and after.

        Args:
            path: A ``.png`` or ``.svg`` file to write; without it the SVG text is returned.
        """
        # Pictures are built on explanations, so they are looked up when one is drawn.
        from hpme.viz.proof import draw_proof, proof_picture

        return proof_picture(self, ".svg").decode() if path is None else draw_proof(self, path)

    def _repr_html_(self) -> str:
        return self.draw()


@torch.no_grad()
def proofs_of(transplants: Transplants, trials: Trials, names: Sequence[str]) -> list[Proof]:
    """Proofs of graphs, of the same transplants that verdicts rest on.

    Args:
        transplants: The graphs and their hosts.
        trials: What the model said.
        names: What the outputs of graphs are called.
    """
    ids, rows = _shown(trials)
    drawn = _grafts(trials, ids, rows) if trials.made else {}
    left = torch.tensor([number not in drawn for number in ids.tolist()], dtype=torch.bool)
    drawn |= _mixes(transplants, ids[left], rows[left])
    tables = [
        torch.where(trials.differ, table.double(), torch.nan).cpu().T
        for table in (trials.hosts, trials.inserted, trials.random)
    ]
    own, regions = trials.own.tolist(), transplants.split(transplants.pooled)
    found = []
    for number, region in enumerate(regions):
        hosts, chosen, random = (table[number] for table in tables)
        shown = tuple(
            Trial(
                host,
                float(hosts[row]),
                Planted(*ours, float(chosen[row])),
                Planted(*control, float(random[row])),
            )
            for row, host, ours, control in drawn.get(number, ())
        )
        found.append(
            Proof(
                region.cpu(),
                own[number],
                names[number],
                hosts,
                chosen,
                random,
                shown,
                trials.bounded,
            )
        )
    return found


Picture = tuple[Data, Tensor, Tensor]
"""A graph, its inserted nodes, and the numbers of all its nodes in the host."""
Drawn = dict[int, list[tuple[int, Data, Picture, Picture]]]
"""By graph: row of the trial, the host, and what was made of it."""


def _shown(trials: Trials) -> tuple[Tensor, Tensor]:
    """Numbers of graphs, and of their hosts that are drawn: at even distances by effect."""
    effect = (trials.inserted - trials.random).double().cpu()
    effect = torch.where(trials.differ.cpu(), effect, torch.nan)
    order = effect.argsort(0)  # NaN comes last
    count = effect.isfinite().sum(0)
    step = torch.arange(SHOWN).view(-1, 1)
    place = ((2 * step + 1) * count // (2 * SHOWN)).clamp(max=len(order) - 1)
    rows = order.gather(0, place)
    there = step < count
    ids = torch.arange(effect.shape[1]).expand(SHOWN, -1)
    return ids.T[there.T], rows.T[there.T]


def _mixes(transplants: Transplants, ids: Tensor, rows: Tensor) -> Drawn:
    """Mixes of graphs and hosts, as the model was asked about them."""
    if not len(ids):
        return {}
    ids, rows = ids.to(transplants.hosts.device), rows.to(transplants.hosts.device)
    store, keep = transplants.context.store, transplants.pooled
    give = store.batch(ids, with_pairs=True)
    take = store.batch(transplants.hosts[rows, ids], with_pairs=True)

    def chosen(graphs: GraphBatch, regions: Tensor) -> Selection:
        every = regions.expand(len(transplants.hosts), -1)
        start = rows * transplants.graphs.num_nodes
        assert graphs.node_ids is not None
        places = start[graphs.batch] + graphs.node_ids
        return by_boundary(every, transplants.graphs, None).at(places)

    def planted(regions: Tensor) -> list[Picture]:
        ours, theirs = chosen(give, regions), chosen(take, transplants.pool)
        made = transplants.mix.mixed(give, ours, take, theirs, None)
        inserted = made.origin >= take.num_nodes
        origin = made.origin - take.ptr[take.batch[made.origin.clamp(max=take.num_nodes - 1)]]
        origin = torch.where(inserted, -1, origin)
        sizes = made.graphs.sizes.tolist()
        split = (list(torch.split(column.cpu(), sizes)) for column in (inserted, origin))
        return list(zip(_graphs(made.graphs), *split, strict=True))

    found: Drawn = {}
    pictures = _graphs(take), planted(keep), planted(transplants.random_regions(keep))
    for number, row, *some in zip(ids.tolist(), rows.tolist(), *pictures, strict=True):
        found.setdefault(number, []).append((row, *some))
    return found


def _graphs(batch: GraphBatch) -> list[Data]:
    """What is drawn of each graph."""
    found: list[Data] = replace(batch.grouped(), schema=None).to_data_list(Data)
    names = None if batch.schema is None else batch.schema.node_types
    for graph in found:
        graph.type_names = names
    return found


def _grafts(trials: Trials, ids: Tensor, rows: Tensor) -> Drawn:
    """Molecules that the model was asked about."""
    found: Drawn = {}
    for number, row in zip(ids.tolist(), rows.tolist(), strict=True):
        if trials.share[number] > 0:
            host, *made = (_molecule(one) for one in trials.made[number, row])
            found.setdefault(number, []).append((row, host[0], *made))
    return found


def _molecule(one: Any) -> Picture:
    """A molecule as it is written: its atoms are numbered by the order of its SMILES."""
    smiles, order = written(one.molecule)
    place = torch.tensor(order).argsort()
    bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in one.molecule.GetBonds()]
    ends = place[torch.tensor(bonds, dtype=torch.long).view(-1, 2)].T
    graph = Data(edge_index=torch.cat([ends, ends.flip(0)], 1), num_nodes=len(order), smiles=smiles)
    region, origin = (torch.tensor(some)[order] for some in (one.region, one.host))
    return graph, region >= 0, origin
