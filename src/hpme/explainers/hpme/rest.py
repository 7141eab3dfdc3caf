"""The rest of a reason: other parts of a graph without which the prediction goes, too.

A region may look enough, since hosts happen to have what else is needed, and be needed itself, and
still be half of a reason. So all stays as it is but one part outside the region at a time, in whose
place come nodes of hosts that are unlike it and unlike the region, or groups that chemistry allows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

import torch
from torch import Tensor

from hpme.data.molecules.anatomy import graft_of, random_region
from hpme.data.molecules.grafts import remove
from hpme.explainers.hpme.evidence import CARRIES, CONTRIBUTES, Trials, degrees
from hpme.explainers.hpme.grafting import DRAWS, FEWEST, Grafting, text_of
from hpme.explainers.hpme.method.pool import by_boundary, top_nodes
from hpme.explainers.hpme.search.criterion import outcome, value_of
from hpme.explainers.hpme.transplants import Transplants
from hpme.explainers.shared.context import batches
from hpme.graphs.segment import rank_in_segment

ROUNDS, CANDIDATES = 3, 32
"""Times that parts are looked for, in the nodes that the pool ranks next."""
SIFTED = 4
"""Hosts that say which parts are worth a closer look, which the others give."""
LISTED = 4
"""More names than this are not listed."""
NEAR_WORST = 0.75
"""Parts are taken together if they lose this share of what the worst loses."""


@dataclass(frozen=True)
class Parts:
    """Sets of nodes: numbers of their graphs ``[U]``, and masks ``[U, n]`` by place in these."""

    graph: Tensor
    nodes: Tensor

    def __getitem__(self, index: Tensor) -> Parts:
        return Parts(self.graph[index], self.nodes[index])

    def flat(self) -> tuple[Tensor, Tensor]:
        """Graph and place of every node."""
        part, place = self.nodes.nonzero().unbind(1)
        return self.graph[part], place


@torch.no_grad()
def rest_of(
    transplants: Transplants,
    chosen: Tensor,
    degrees_of: Callable[[Tensor], dict[str, Tensor]],
    grafting: Grafting | None = None,
) -> tuple[Tensor, Tensor]:
    """Nodes that pooled regions rely on, boolean ``[N]``, and what all carry ``[count]``."""
    # The worst part is added and others are looked for, until enough is carried.
    kept = transplants.pooled.clone()
    together = torch.full_like(chosen, torch.nan, dtype=torch.double)
    for _ in range(ROUNDS):
        parts = parts_of(transplants, kept, ~kept & transplants.of_graphs(chosen))
        graph, place = parts[_needed(transplants, parts, kept, grafting)].flat()
        if not len(graph):
            break
        kept[transplants.graphs.ptr[graph] + place] = True
        chosen = torch.zeros_like(chosen).index_fill(0, graph, True)
        share = degrees_of(kept & transplants.of_graphs(chosen))["carried"][:, 0].to(together)
        together = torch.where(chosen, share, together)
        chosen = chosen & (together < CARRIES)
    return kept & ~transplants.pooled, together


def named(nodes: Tensor, smiles: str | None, *, typed: bool = False) -> str:
    """What nodes are called: a ring, a group of a molecule, or numbers; with types their count."""
    numbers = nodes.nonzero().view(-1).tolist()
    words, kind = [f"node {number}" for number in numbers], "node"
    if numbers and smiles is not None:
        chem, left = import_module("rdkit.Chem"), {*numbers}
        molecule = chem.MolFromSmiles(smiles)
        rings, words, kind = molecule.GetRingInfo().AtomRings(), [], "atom"
        for ring in rings:
            if left.issuperset(ring):
                words.append("the ring" if len(rings) == 1 else "a ring")
                left.difference_update(ring)
        atoms = [molecule.GetAtomWithIdx(number) for number in sorted(left)]
        group = chem.MolFragmentToSmiles(molecule, [*left]) if left else "."
        single = len(left) == 1 or "." in group or any(atom.IsInRing() for atom in atoms)
        words += [f"{a.GetSymbol()} {a.GetIdx()}" for a in atoms] if single else [group]
    if len(words) > LISTED or (typed and numbers):
        return f"{len(numbers)} more {kind}" + "s" * (len(numbers) > 1)
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def parts_of(transplants: Transplants, kept: Tensor, others: Tensor) -> Parts:
    """Single nodes of ``others``, and all that are alike: what is there twice, one may do without.

    Alike are nodes of the same features and kept neighbours; without such, the same neighbours.
    """
    graphs, score, kind = transplants.graphs, transplants.score, _kinds(transplants)
    limit = torch.full_like(graphs.sizes, CANDIDATES + graphs.anchors_per_graph)
    rank = torch.where(others, score, score.min() - 1)
    nodes = (others & top_nodes(rank, graphs, limit).keep[0]).nonzero().view(-1)
    place, width = transplants.node_number[nodes], int(graphs.sizes.max())
    source, target = graphs.edge_index
    near = torch.zeros_like(kind).index_add(0, target, kept[source].long()) > 0
    seen = (kept[source] | ~near[target]) * ((kind + 1) * 2_654_435_761 % 2_147_483_647)[source]
    around = torch.zeros_like(kind).index_add(0, target, seen)
    like = torch.stack([graphs.batch, kind, around, near.long()], dim=1)[nodes]
    groups, member = torch.unique(like, dim=0, return_inverse=True)
    several = torch.zeros(len(groups), width, dtype=torch.bool, device=nodes.device)
    several[member, place] = True
    groups, several = (rows[several.sum(1) > 1] for rows in (groups, several))
    single = torch.nn.functional.one_hot(place, width).bool()
    return Parts(torch.cat([graphs.batch[nodes], groups[:, 0]]), torch.cat([single, several]))


def _kinds(transplants: Transplants) -> Tensor:
    """Number of the features and type of every node."""
    graphs = transplants.graphs
    types = graphs.batch * 0 if graphs.node_type is None else graphs.node_type
    x = graphs.x.unsqueeze(1).flatten(1).double()
    seen = torch.cat([x, types.double().unsqueeze(1)], dim=1)
    kinds: Tensor = torch.unique(seen, dim=0, return_inverse=True)[1]
    return kinds


def _needed(
    transplants: Transplants, parts: Parts, kept: Tensor, grafting: Grafting | None
) -> Tensor:
    """Numbers of parts without which a good share of the way is lost, beyond random ones."""
    if not len(parts.graph):
        return parts.graph
    sift = transplants.hosts[:SIFTED, parts.graph]
    lost = _lost(transplants, parts, sift, _without(transplants, parts, kept, sift))[:, 0]
    # Of several nodes, one may be to blame.
    single = parts.nodes.sum(1) == 1
    table = lost.new_zeros(transplants.count, parts.nodes.shape[1])
    table[parts[single].flat()] = lost[single]
    worst = torch.where(single, 0.0, (table[parts.graph] * parts.nodes).amax(1).clamp(min=0))
    likely = (lost - worst >= CONTRIBUTES).nonzero().view(-1)
    parts = parts[likely]
    if not len(likely):
        return likely
    hosts = transplants.hosts[-3 * SIFTED :, parts.graph]
    outputs = [_without(transplants, parts, kept, hosts, random=random) for random in (False, True)]
    shares = _lost(transplants, parts, hosts, *outputs)
    if grafting is not None:
        grafts = _grafted(transplants, parts, kept, grafting)
        enough = grafts.isfinite().all(0).sum(0) >= FEWEST
        hosts = transplants.hosts[:DRAWS, parts.graph]
        by_grafts = _lost(transplants, parts, hosts, *grafts[:, : len(hosts)])
        shares = torch.where(enough.unsqueeze(1), by_grafts, shares)
    mean = torch.where(shares[:, 1] > 0, shares[:, 0], 0.0)
    worst = mean.new_zeros(transplants.count).scatter_reduce(0, parts.graph, mean, "amax")
    return likely[mean >= (NEAR_WORST * worst).clamp(min=CONTRIBUTES)[parts.graph]]


def _lost(
    transplants: Transplants,
    parts: Parts,
    hosts: Tensor,
    removed: Tensor,
    spared: Tensor | None = None,
) -> Tensor:
    """Share of the way that is lost without parts, with its interval ``[U, 3]``."""
    context, graph = transplants.context, parts.graph
    own = value_of(context, context.values[graph].unsqueeze(0), graph)[0]
    values, nothing = value_of(context, context.values[hosts], graph), removed * torch.nan
    spared = own.expand_as(removed) if spared is None else spared
    bounded = context.task.classification
    return degrees(Trials(own, values, nothing, nothing, removed, spared, bounded))["lost"]


def _without(
    transplants: Transplants, parts: Parts, kept: Tensor, hosts: Tensor, *, random: bool = False
) -> Tensor:
    """Outputs ``[D, U]`` with neutral nodes of hosts in place of parts, or of random others."""
    graphs, store, kind = transplants.graphs, transplants.context.store, _kinds(transplants)
    fixed = torch.zeros_like(kept)
    if graphs.anchors is not None:
        fixed[graphs.anchors.flatten()] = True
    noise = transplants.noise() - 4.0 * fixed
    draw, part = torch.ones_like(hosts).nonzero().unbind(1)
    size = transplants.mix.per_pass(torch.arange(graphs.num_graphs, device=part.device))
    found = []
    for rows in batches(torch.arange(len(part), device=part.device), size):
        give = store.batch(parts.graph[part[rows]], with_pairs=True)
        take = store.batch(hosts.flatten()[rows], with_pairs=True)
        ours, theirs = give.node_ids, take.node_ids
        assert ours is not None and theirs is not None
        gone = parts.nodes[part[rows]][give.batch, transplants.node_number[ours]]
        count = torch.bincount(give.batch[gone], minlength=len(rows))
        if random:  # where there are too few others, of the region
            order = noise[draw[rows][give.batch], ours] - gone.double() - 2.0 * kept[ours]
            rank = rank_in_segment(order, give.batch, give.ptr)
            gone = (rank < count[give.batch]) & ~fixed[ours]
        like = torch.zeros(len(rows), int(kind.max()) + 1, dtype=torch.bool, device=part.device)
        known = gone | kept[ours]
        like[give.batch[known], kind[ours[known]]] = True
        order = noise[draw[rows][take.batch], theirs] - like[take.batch, kind[theirs]].double()
        rank = rank_in_segment(order, take.batch, take.ptr)
        left = (rank < count[take.batch]) & ~fixed[theirs]
        inner, outer = by_boundary(~gone[None], give, None), by_boundary(~left[None], take, None)
        mix = transplants.mix.mixed(give, inner[0], take, outer[0], None)
        found.append(transplants.context.predict(mix.graphs))
    output = torch.cat(found).view(1, len(part), -1)
    return outcome(transplants.context, output, parts.graph[part])[0].view_as(hosts)


def _grafted(transplants: Transplants, parts: Parts, kept: Tensor, grafting: Grafting) -> Tensor:
    """Outputs ``[2, D, U]`` with groups that chemistry allows; NaN where there are none."""
    smiles, masks = grafting.featuriser.like.text["smiles"], transplants.split(kept)
    made: dict[tuple[int, ...], str] = {}
    for number, graph in enumerate(parts.graph.tolist()):
        own, generator = grafting.drawn_for(smiles[graph])
        atoms, fixed = (
            set(m.nonzero().view(-1).tolist()) for m in (parts.nodes[number], masks[graph])
        )
        graft = graft_of(own, atoms)[0]
        if graft is None or {*graft.atoms} != atoms:
            continue
        for draw in range(DRAWS):
            beside = random_region(own, graft, generator, avoid=fixed | atoms)
            for row, one in enumerate((graft, beside)):
                if one is not None and fixed.isdisjoint(one.atoms):
                    carbon = all(own.kinds[atom][0] == 6 for atom in one.atoms)
                    fillers = None if carbon else grafting.fillers  # others would be no change
                    new = remove(one, own, generator, fillers=fillers)
                    if new is not None:
                        made[row, draw, number] = text_of(new)
    of = parts.graph.tolist()
    return grafting.table((2, DRAWS, len(of)), made, [of[number] for *_, number in made])
