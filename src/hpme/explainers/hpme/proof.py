"""The proof of an explanation: its region in other graphs, before and after, beside random ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme.data.molecules.chem import written
from hpme.explainers.hpme.evidence import Trials
from hpme.explainers.hpme.method.pool import by_boundary
from hpme.explainers.hpme.transplants import Transplants
from hpme.explainers.shared.explanation import Pictured
from hpme.graphs import GraphBatch, GraphStore

SHOWN = 3
"""Hosts that are drawn: those of a low, of the middle and of a high effect, not the best ones."""


@dataclass(frozen=True)
class Planted:
    """A host as it is, or with nodes of another graph."""

    graph: Data  # what the model was asked about
    nodes: Tensor  # those that were inserted; of a host as it is, those that make room; boolean
    origin: Tensor  # number of every node in the host; -1 if it is not of the host
    output: float  # what the model says


Trial = tuple[Planted, ...]
"""A host as it is, with the region, and with a random region, as large, as a control."""
Drawn = dict[int, list[tuple[int, list[tuple[Data, Tensor, Tensor]]]]]
"""By graph: row of the trial, and what its three pictures show."""


@dataclass(frozen=True)
class Proof(Pictured):
    """What moving the region of an explanation into other graphs does there; drawn as it is."""

    region: Tensor  # nodes of the explained graph that are moved, boolean
    output: float  # what the model says about the graph
    name: str  # what that is called, such as "p(class 1)"
    hosts: Tensor  # outputs of all hosts that differ enough from the graph [D], NaN for others
    chosen: Tensor  # with the region [D]
    random: Tensor  # with random regions [D]
    trials: tuple[Trial, ...]  # of some of the hosts; none where regions could not be moved
    bounded: bool  # whether outputs are probabilities
    graph: Data | None = None  # to be drawn beside the hosts

    def _picture(self, suffix: str) -> bytes:
        from hpme.viz.sheets import proof_picture

        return proof_picture(self, suffix)


@torch.no_grad()
def proofs_of(transplants: Transplants, trials: Trials, names: Sequence[str]) -> list[Proof]:
    """Proofs of graphs, of the transplants that verdicts rest on; ``names`` are of outputs."""
    # Hosts that are drawn: at even distances by effect.
    effect = (trials.inserted - trials.random).double().cpu()
    effect = torch.where(trials.differ.cpu(), effect, torch.nan)
    order, count = effect.argsort(0), effect.isfinite().sum(0)  # NaN comes last
    step = torch.arange(SHOWN).view(-1, 1)
    place = ((2 * step + 1) * count // (2 * SHOWN)).clamp(max=len(order) - 1)
    there = (step < count).T
    ids = torch.arange(len(count)).view(-1, 1).expand(-1, SHOWN)[there]
    rows = order.gather(0, place).T[there]
    drawn: Drawn = {}
    for number, row in zip(ids.tolist(), rows.tolist(), strict=True) if trials.made else ():
        if trials.share[number] > 0:
            host, *both = (_molecule(one) for one in trials.made[number, row])
            drawn.setdefault(number, []).append((row, _trial(host[0], *both)))
    left = torch.tensor([number not in drawn for number in ids.tolist()], dtype=torch.bool)
    drawn |= _mixes(transplants, ids[left], rows[left])
    tables = [
        torch.where(trials.differ, table.double(), torch.nan).cpu().T
        for table in (trials.hosts, trials.inserted, trials.random)
    ]
    found, own = [], trials.own.tolist()
    for number, region in enumerate(transplants.split(transplants.pooled)):
        outputs = [table[number] for table in tables]
        shown = tuple(
            tuple(Planted(*one, float(said[row])) for one, said in zip(trio, outputs, strict=True))
            for row, trio in drawn.get(number, ())
        )
        hosts, chosen, random = outputs
        told = region.cpu(), own[number], names[number], hosts, chosen, random
        found.append(Proof(*told, shown, trials.bounded))
    return found


def _mixes(transplants: Transplants, ids: Tensor, rows: Tensor) -> Drawn:
    """Mixes of graphs and hosts, as the model was asked about them."""
    found: Drawn = {}
    if not len(ids):
        return found
    ids, rows = ids.to(transplants.hosts.device), rows.to(transplants.hosts.device)
    store, keep = transplants.context.store, transplants.pooled
    give = store.batch(ids, with_pairs=True)
    take = store.batch(transplants.hosts[rows, ids], with_pairs=True)

    def planted(regions: Tensor) -> list[tuple[Data, Tensor, Tensor]]:
        sides = []
        for graphs, nodes in ((give, regions), (take, transplants.pool)):
            every = nodes.expand(len(transplants.hosts), -1)
            assert graphs.node_ids is not None
            places = (rows * transplants.graphs.num_nodes)[graphs.batch] + graphs.node_ids
            sides.append(by_boundary(every, transplants.graphs, None).at(places))
        made = transplants.mix.mixed(give, sides[0], take, sides[1], None)
        inserted = made.origin >= take.num_nodes
        origin = made.origin - take.ptr[take.batch[made.origin.clamp(max=take.num_nodes - 1)]]
        columns = inserted.cpu(), torch.where(inserted, -1, origin).cpu()
        split = (column.split(made.graphs.sizes.tolist()) for column in columns)  # type: ignore[no-untyped-call]
        return list(zip(_graphs(made.graphs), *split, strict=True))

    pictures = _graphs(take), planted(keep), planted(transplants.random_regions(keep))
    for number, row, host, *both in zip(ids.tolist(), rows.tolist(), *pictures, strict=True):
        found.setdefault(number, []).append((row, _trial(host, *both)))
    return found


def _graphs(batch: GraphBatch) -> list[Data]:
    """What is drawn of each graph."""
    found: list[Data] = GraphStore.from_graphs(replace(batch, schema=None)).to_data_list()
    names = None if batch.schema is None else batch.schema.node_types
    for graph in found:
        graph.type_names = names
    return found


def _trial(host: Data, *both: tuple[Data, Tensor, Tensor]) -> list[tuple[Data, Tensor, Tensor]]:
    """The host with those of its nodes that make room, then with either region."""
    numbers, origin = torch.arange(host.num_nodes), both[0][2]
    return [(host, ~torch.isin(numbers, origin), numbers), *both]


def _molecule(one: Any) -> tuple[Data, Tensor, Tensor]:
    """A molecule as it is written: its atoms are numbered by the order of its SMILES."""
    smiles, order = written(one.molecule)
    place = torch.tensor(order).argsort()
    bonds = [(b.GetBeginAtomIdx(), b.GetEndAtomIdx()) for b in one.molecule.GetBonds()]
    ends = place[torch.tensor(bonds, dtype=torch.long).view(-1, 2)].T
    graph = Data(edge_index=torch.cat([ends, ends.flip(0)], 1), num_nodes=len(order), smiles=smiles)
    region, origin = (torch.tensor(some)[order] for some in (one.region, one.host))
    return graph, region >= 0, origin
