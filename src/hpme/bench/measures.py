"""What an experiment can be asked for: metric sets, and exhibits that pictures are drawn from."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from hpme import metrics
from hpme.bench.experiment import ALL_EDGES, GROUND_TRUTH
from hpme.bench.outcome import Outcome, without_ground_truth
from hpme.data import GraphDataset, GraphStore
from hpme.errors import InputError
from hpme.explainers import HPMEExplainer, MixingExplainer
from hpme.explainers.hpme.method.pool import PoolSize
from hpme.explainers.hpme.search.criterion import criterion
from hpme.explainers.hpme.search.hardmix import HardMix
from hpme.explainers.registry import make_explainer
from hpme.explainers.shared.masks import edge_to_node, from_edges
from hpme.metrics import GraphScores, MetricValue
from hpme.metrics.fidelity import simoar_references
from hpme.models import predict

Measured = dict[str, MetricValue | GraphScores]
EXHIBITED = 3
"""Graphs per experiment, as in the paper's figures."""
SHARES = (0.1, 0.2, 0.3, 0.5)
"""Sizes that are tried, since the right one is not known: shares of the pairs, or of the nodes."""
SAMPLES = 10
DRAWS = 2
"""Hosts every graph meets."""
HOSTS, LEAST_HOSTS, JUDGED = 64, 8, 60
"""Graphs that no explainer saw, into which explanations are put; so few that it is not done; and
the most explanations that are put there."""
BRIEFLY = {"restarts": 1}
"""The search that says where these graphs make room."""


def auc(outcome: Outcome) -> Measured:
    """Edge ROC-AUC against the ground truth, pooled over all edges and as a mean over graphs."""
    explanations, graphs = outcome.explanations, outcome.graphs
    mean = metrics.explanation_auc(explanations, graphs, reduction="per_graph")
    single = GraphScores(metrics.explanation_auc_per_graph(explanations, graphs), mean.reason or "")
    return {
        "auc": metrics.explanation_auc(explanations, graphs),
        "auc_per_graph": single if mean.reason is None else mean,
    }


def nodes(outcome: Outcome) -> Measured:
    """Node ROC-AUC; and of every pattern that a label asks for how much is among the best nodes.

    As many nodes as the ground truth has. Of several matches of a pattern the best counts.
    ``recall_1`` is the first pattern, ``recall_least`` that of each graph that was found least.
    """
    truth = torch.cat([graph.node_mask for graph in outcome.graphs])
    scores = [_node_scores(explanation) for explanation in outcome.explanations]
    found: Measured = {"node_auc": metrics.edge_auc(torch.cat(scores), truth)}
    if outcome.graphs[0].get("match_rule") is None:
        return found
    recall = torch.stack([_recall(*pair) for pair in zip(outcome.graphs, scores, strict=True)])
    if recall.shape[1] > 1:
        columns = {str(number): column for number, column in enumerate(recall.T, 1)}
        columns["least"] = recall.amin(1)
        why = "the pattern is in no graph"
        found |= {f"recall_{name}": GraphScores(c, why) for name, c in columns.items()}
    return found


def _recall(graph: Data, score: Tensor) -> Tensor:
    """Share of the best match of every pattern among the best nodes of a graph; ties by chance."""
    wanted = int(graph.node_mask.sum())
    last = score.sort(descending=True).values[wanted - 1] if wanted else score.new_tensor(torch.inf)
    above, tied = (score > last).double(), (score == last).double()
    inside = above + tied * (wanted - above.sum()) / tied.sum().clamp(min=1)
    matches = int(graph.match_id.max()) + 1 if graph.match_id.numel() else 0
    hits, sizes = (
        torch.zeros(matches, dtype=torch.double).index_add(0, graph.match_id, part)
        for part in (inside[graph.match_index], torch.ones(len(graph.match_id), dtype=torch.double))
    )
    rule = torch.zeros(matches, dtype=torch.long).index_put((graph.match_id,), graph.match_rule)
    best = torch.full((int(rule.max()) + 1 if matches else 1,), -torch.inf, dtype=torch.double)
    best = best.scatter_reduce(0, rule, hits / sizes, "amax")
    return best.masked_fill(best == -torch.inf, torch.nan)


def _node_scores(explanation: Any) -> Tensor:
    """Importance of nodes; where a method says none, that of their heaviest edge."""
    if explanation.get("node_mask") is not None:
        return torch.as_tensor(explanation.node_mask).view(-1).double()
    return edge_to_node(explanation.edge_mask.double(), explanation)[:, 0]


def precision(outcome: Outcome) -> Measured:
    """Share of ground truth among as many of the best edges as the ground truth has."""
    return {"precision": metrics.precision_at_k(outcome.explanations, outcome.graphs)}


def fidelity(outcome: Outcome) -> Measured:
    """What deleting the explanation, or all else, does to the prediction."""
    result = _of_explanations(metrics.fidelity, outcome)
    return {"fidelity_plus": result.plus, "fidelity_minus": result.minus}


def robust_fidelity(outcome: Outcome) -> Measured:
    """Fidelity under small random deletions, with the paper's parameters."""
    result = _of_explanations(metrics.robust_fidelity, outcome)
    return {"robust_fidelity_plus": result.plus, "robust_fidelity_minus": result.minus}


def simoar(outcome: Outcome) -> Measured:
    """SimOAR with the paper's parameters; of random and of no explanations for comparison."""
    references = _of_explanations(simoar_references, outcome)
    return {
        "simoar": _of_explanations(metrics.simoar, outcome),
        "simoar_random": references.random,
        "simoar_empty": references.empty,
    }


def shift(outcome: Outcome) -> Measured:
    """Cosine similarity and Euclidean distance of graph embeddings to what stands for the graph.

    That is the mixup graph of explainers that make one, the ground-truth subgraph for the ground
    truth, and for all others the graph with its edges weighted by the explanation.
    """
    model = outcome.target.model
    if outcome.experiment.explainer == GROUND_TRUTH:
        result = metrics.truth_shift(model, outcome.graphs)
    elif isinstance(outcome.explainer, MixingExplainer):
        graphs = without_ground_truth(outcome.graphs + outcome.companions)
        mixups = outcome.explainer.mixup_graphs(model, graphs, mode=outcome.mode)
        result = metrics.shift(model, graphs, mixups.graphs, mixups.edge_weight)
    else:
        graphs = without_ground_truth(outcome.graphs)
        weight = torch.cat([explanation.edge_mask for explanation in outcome.explanations])
        result = metrics.shift(model, graphs, graphs, weight)
    count = len(outcome.graphs)  # companions are there to be mixed with
    return {
        name: GraphScores(scores.per_graph[:count], scores.why)
        for name, scores in (("cosine", result.cosine), ("euclidean", result.euclidean))
    }


def target(outcome: Outcome) -> Measured:
    """What the target scores on its test split."""
    dataset = outcome.dataset
    store = GraphStore.from_graphs([dataset[int(i)] for i in dataset.split["test"]])
    output, labels = predict(outcome.target.model, store), store.y
    assert labels is not None
    if dataset.info.task == "regression":
        return {"rmse": metrics.rmse(output, labels), "mape": metrics.mape(output, labels)}
    return {
        "accuracy": metrics.accuracy(output, labels),
        "macro_f1": metrics.macro_f1(output, labels),
    }


def _of_explanations(metric: Callable[..., Any], outcome: Outcome) -> Any:
    """A metric of explanations with as many edges as the ground truth, if there is one."""
    size: Any = outcome.dataset.pool_ratio
    if outcome.experiment.explainer == ALL_EDGES:
        size = 1.0
    elif outcome.dataset.has_ground_truth:
        size = metrics.truth_sizes(outcome.graphs)
    model, seed = outcome.target.model, outcome.experiment.seed
    return metric(model, outcome.explanations, size, mode=outcome.mode, seed=seed)


def choice(outcome: Outcome) -> Measured:
    """Robust fidelity and the hard mix of explanations, averaged over sizes; neither needs labels.

    ``choice_fidelity`` is robust Fid+ minus robust Fid-, the higher, the better.
    ``choice_disagreement`` and ``choice_loss`` are the criterion of HPME for the nodes at the best
    edges, the lower, the better.
    """
    disagreement, loss = hard_mix(outcome)
    return {
        "choice_fidelity": _mean([_fidelity(outcome, share) for share in SHARES]),
        "choice_disagreement": MetricValue(disagreement),
        "choice_loss": MetricValue(loss),
    }


def hard_mix(outcome: Outcome) -> tuple[float, float]:
    """Disagreement and loss of hard mixes, see :func:`criterion`, averaged over sizes."""
    judge = HPMEExplainer()
    companions = without_ground_truth(outcome.companions)  # where one class is explained: the other
    graphs = GraphStore.from_graphs(without_ground_truth(outcome.graphs) + companions)
    explanations = list(outcome.explanations)
    if companions:
        assert outcome.explainer is not None
        model = outcome.target.model
        explanations += outcome.explainer.explain(model, companions, progress=False)
    edge_mask = torch.cat([explanation.edge_mask for explanation in explanations])
    found: list[Tensor] = []
    with judge.context(outcome.target.model, graphs, mode=outcome.mode) as context:
        generator = torch.Generator().manual_seed(0)  # the same hosts for all settings
        for share in SHARES:
            form = PoolSize(share), judge.neighbor, judge.attach
            mix = HardMix.build(context, *form, generator)
            score = from_edges(edge_mask, mix.graphs).node_mask
            assert score is not None
            selection = mix.select(score.view(1, -1).to(mix.features))
            found.append(criterion(mix, selection, mix.draw(DRAWS))[0])
    disagreement, loss = torch.stack(found).mean(0).tolist()
    return disagreement, loss


def judged(outcome: Outcome) -> Measured:
    """What explanations of any method carry into graphs that no explainer saw; needs no labels.

    ``carried`` is the share of the prediction that the nodes at the best edges carry beyond random
    regions as large, ``lost`` the share that is lost without them; see ``explainer.judge``. HPME,
    fitted to the unseen graphs alone, says where they make room and how many nodes count.
    """
    experiment, dataset = outcome.experiment, outcome.dataset
    others = dataset.companions(experiment.seed, experiment.graphs).tolist()
    order = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(experiment.seed))
    unseen = [i for i in order.tolist() if i not in {*outcome.numbers, *others}][:HOSTS]
    if len(unseen) < LEAST_HOSTS:
        none = MetricValue.undefined(f"{len(unseen)} graphs are left that no explainer saw")
        return {"carried": none, "lost": none}
    hosts, model = without_ground_truth([dataset[i] for i in unseen]), outcome.target.model
    judge, _ = make_explainer("hpme", dataset, experiment.seed, BRIEFLY)
    assert isinstance(judge, HPMEExplainer)
    judge.fit(model, hosts, mode=outcome.mode, progress=False)
    graphs = without_ground_truth(outcome.graphs[:JUDGED])
    masks = {"given": outcome.explanations[:JUDGED]}
    quality = judge.judge(model, graphs, masks, hosts=hosts, by="edge")["given"].quality
    # As for a mean over masks: of a short way, more than all of it says nothing.
    shares = [(one.carried, one.lost) if one else (torch.nan,) * 2 for one in quality]
    carried, lost = torch.tensor(shares, dtype=torch.double).clamp(-1, 1).unbind(1)
    why = "no region can be moved"
    return {"carried": GraphScores(carried, why), "lost": GraphScores(lost, why)}


def _fidelity(outcome: Outcome, share: float) -> MetricValue:
    explanations = outcome.explanations
    sides = metrics.robust_fidelity(
        outcome.target.model, explanations, share, samples=SAMPLES, mode=outcome.mode
    )
    plus, minus = sides.plus.mean, sides.minus.mean
    return plus if plus.reason else MetricValue(plus - minus)


def _mean(values: list[MetricValue]) -> MetricValue:
    undefined = [value for value in values if value.reason]
    return undefined[0] if undefined else MetricValue(statistics.fmean(values))


_MEASURES = auc, nodes, precision, fidelity, robust_fidelity, simoar, shift, target, choice, judged
MEASURES: dict[str, Callable[[Outcome], Measured]] = {one.__name__: one for one in _MEASURES}
"""All metric sets by name."""


def explanations(outcome: Outcome) -> list[dict[str, Any]]:
    """Masks of the first explained graphs.

    ``graph`` is the number of the graph in the dataset, ``drawn`` what it looks like;
    ``edge_mask`` and, where the explainer has them, ``node_mask`` and ``pooled`` are those of the
    explanation.
    """
    return [
        {
            "graph": number,
            "drawn": drawn(outcome.dataset, number),
            **{
                name: explanation[name].view(-1).tolist()
                for name in ("edge_mask", "node_mask", "pooled")
                if explanation.get(name) is not None
            },
        }
        for number, explanation in zip(
            outcome.numbers[:EXHIBITED], outcome.explanations, strict=False
        )
    ]


def mixups(outcome: Outcome) -> list[dict[str, Any]]:
    """Mixup graphs of the first explained graphs.

    ``graph`` and ``partner`` are numbers in the dataset, ``drawn`` what these look like;
    ``num_nodes`` and ``edge_index`` make the mixup graph, and every edge has an ``edge_weight`` and
    says whether it is ``transplanted`` from the explanation, or a ``bridge`` that neither graph
    has.
    """
    if not isinstance(outcome.explainer, MixingExplainer):
        raise InputError(f"'{outcome.experiment.explainer}' makes no mixup graphs")
    graphs = without_ground_truth(outcome.graphs + outcome.companions)
    mixed = outcome.explainer.mixup_graphs(outcome.target.model, graphs, mode=outcome.mode)
    experiment, found = outcome.experiment, []
    others = outcome.dataset.companions(experiment.seed, experiment.graphs)
    numbers = [*outcome.numbers, *others.tolist()]
    for place, number in enumerate(outcome.numbers[:EXHIBITED]):
        edges = mixed.graphs.edge_batch == place
        local = mixed.graphs.edge_index[:, edges] - mixed.graphs.ptr[place]
        partner = numbers[int(mixed.partners[place])]
        found.append(
            {
                "graph": number,
                "partner": partner,
                "drawn": drawn(outcome.dataset, number, partner),
                "num_nodes": int(mixed.graphs.sizes[place]),
                "edge_index": local.tolist(),
                "edge_weight": mixed.edge_weight[edges].tolist(),
                "transplanted": mixed.transplanted[edges].tolist(),
                "bridge": mixed.bridge[edges].tolist(),
            }
        )
    return found


def drawn(dataset: GraphDataset, *numbers: int) -> dict[str, dict[str, Any]]:
    """What it takes to draw graphs, by their numbers, so that nobody needs the dataset for it."""
    found = {}
    for number in numbers:
        graph = dataset[number]
        tensors = {name: graph.get(name) for name in ("edge_index", "edge_mask", "node_mask")}
        lists = {name: value.tolist() for name, value in tensors.items() if value is not None}
        smiles = {} if graph.get("smiles") is None else {"smiles": graph.smiles}
        found[str(number)] = {"num_nodes": int(graph.num_nodes or 0), **lists, **smiles}
    return found


EXHIBITS: dict[str, Callable[[Outcome], list[dict[str, Any]]]] = {
    exhibit.__name__: exhibit for exhibit in (explanations, mixups)
}
"""All kinds of exhibits by name."""
