"""Molecules as graphs: features, and ground truth from patterns or from atom contributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch_geometric.utils import index_to_mask

from hpme.data.molecules.chem import ATOMS, BONDS, MoleculeArrays, Reading, read_chunk
from hpme.graphs import GraphStore
from hpme.graphs.segment import exclusive_cumsum, segment_sum
from hpme.graphs.store import MATCH_NODE

CONTRIBUTION_UNIT = 1e5
"""Crippen's contributions have up to five decimals; in this unit they are whole numbers, and a
share of exactly 0.7 differs from one just below."""


def molecule_graphs(molecules: MoleculeArrays, text: Mapping[str, Sequence[str]]) -> GraphStore:
    """Graphs of molecules, without labels; both directions of a bond follow each other."""
    bond = torch.from_numpy(molecules.bond).long()
    bond_type = torch.from_numpy(molecules.bond_type).long().repeat_interleave(2)
    return GraphStore(
        sizes=torch.from_numpy(molecules.sizes),
        edge_counts=2 * torch.from_numpy(molecules.bond_counts),
        local_edge_index=torch.stack([bond, bond.flip(1)], dim=1).view(-1, 2).t().contiguous(),
        node={"x": torch.eye(len(ATOMS))[torch.from_numpy(molecules.atom).long()]},
        edge={"edge_attr": torch.eye(len(BONDS))[bond_type]},
        text=text,
    )


@dataclass(frozen=True)
class ReadMolecules:
    """Molecules that could be read, and those that could not."""

    store: GraphStore
    numbers: list[int]  # positions of these molecules in the input
    failed: dict[int, str]  # positions of those that cannot be read, and why


def read_part(smiles: Sequence[str], *, hydrogens: bool = False) -> ReadMolecules:
    """Reads a part of a long list of molecules; edges are sorted by their atoms."""
    molecules = read_chunk(smiles, 0, Reading(hydrogens=hydrogens))
    store = molecule_graphs(molecules, {})
    source, target = store.edge_index
    order = torch.argsort(source * len(store.x) + target)
    edges, edge_attr = store.local_edge_index[:, order], store.edge["edge_attr"][order]
    store = replace(store, local_edge_index=edges, edge={"edge_attr": edge_attr})
    failed = dict(zip(molecules.failed.tolist(), molecules.reasons.tolist(), strict=True))
    return ReadMolecules(store, molecules.number.tolist(), failed)


def flatten_molecules(
    molecules: MoleculeArrays, num_rules: int, text: Mapping[str, Sequence[str]]
) -> GraphStore:
    """:func:`molecule_graphs` with label 1 where every rule matches; the matches are the truth."""
    store = molecule_graphs(molecules, text)
    match_counts = torch.from_numpy(molecules.match_counts)
    atom, match_id, rule = torch.from_numpy(molecules.match).long().t().contiguous()
    owner = torch.repeat_interleave(match_counts)
    matched = torch.zeros(len(store), max(num_rules, 1), dtype=torch.bool)
    matched[owner, rule] = True
    y = matched.all(1)
    node_mask = index_to_mask((store.node_start[owner] + atom)[y[owner]], len(molecules.atom))
    truth = store.with_attributes(
        node={"node_mask": node_mask},
        edge={"edge_mask": node_mask[store.edge_index].all(0)},
        graph={"y": y.long()},
    )
    match = {MATCH_NODE: atom, "match_id": match_id, "match_rule": rule} if num_rules else {}
    return replace(truth, match_counts=match_counts, match=match)


def with_contributions(
    store: GraphStore, contribution: Tensor, *, share: float, directed: bool
) -> GraphStore:
    """The molecules labelled with the sum of their atoms' contributions.

    Ground truth are the bonds whose atoms have the largest absolute mean, as long as they hold less
    than ``share`` of the total. ``directed`` ranks directed edges, as the published rule does: it
    may take one direction of a bond and leave the other.
    """
    graph, ends = store.edge_graph, store.edge_index
    whole = (contribution * CONTRIBUTION_UNIT).round().long()
    value = whole[ends].sum(0).abs()
    if directed:
        edge_mask = _largest(value, graph, len(store), share)
    else:
        edge_mask = _largest(value[::2], graph[::2], len(store), share).repeat_interleave(2)
    node_mask = index_to_mask(ends[:, edge_mask].flatten(), len(contribution))
    y = segment_sum(contribution, store.node_graph, len(store))
    return store.with_attributes(
        node={"node_mask": node_mask, "contribution": contribution.float()},
        edge={"edge_mask": edge_mask},
        graph={"y": y.float()},
    )


def _largest(value: Tensor, graph: Tensor, count: int, share: float) -> Tensor:
    """The largest values of every graph while their sum stays below a share of the total."""
    order = torch.from_numpy(np.lexsort((-value.numpy(), graph.numpy())))
    total = segment_sum(value, graph, count)
    reached = value[order].cumsum(0) - exclusive_cumsum(total)[graph]
    chosen = torch.empty_like(graph, dtype=torch.bool)
    chosen[order] = reached * 100 < round(share * 100) * total[graph]
    return chosen
