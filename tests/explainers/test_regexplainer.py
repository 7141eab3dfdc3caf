"""RegExplainer against triples joined one by one, and on a target with a known explanation."""

import pytest
import torch

from contract import make_graphs
from hpme.data import GraphStore
from hpme.errors import InputError
from hpme.explainers import RegExplainer
from hpme.explainers.regexplainer import by_distance, triplet_info_nce
from hpme.explainers.shared.context import Context
from hpme.explainers.shared.templates import draw_partners
from hpme.metrics import explanation_auc
from hpme.models.freezing import frozen
from planted import MarkedEdges, marked_graphs, regression_target, weighted_output


def test_triplet_info_nce_by_its_definition():
    near, far = torch.tensor([0.9, -0.2, 0.0]), torch.tensor([0.1, 0.7, 0.0])
    up, down = (near / 0.5).exp(), (far / 0.5).exp()
    torch.testing.assert_close(triplet_info_nce(near, far, 0.5), -(up / (up + down)).log())


def test_nearest_prediction_first():
    values = torch.tensor([[0.0], [1.0], [5.0], [-2.0]])
    drawn = torch.tensor([[2, 0, 1], [1, 3, 3]])
    ordered = by_distance(values[[0, 1, 2]], values, drawn)
    assert ordered.tolist() == [[1, 0, 1], [2, 3, 3]]


def test_loss_against_triples_one_by_one():
    model, graphs = regression_target(), make_graphs()
    explainer = RegExplainer(
        bridges=0, contrast_weight=0.7, prediction_weight=1.3, contrast_temperature=0.4,
        size_weight=0.2, entropy_weight=0.3,
    )  # fmt: skip
    ids = torch.tensor([3, 0, 5])
    with frozen(model):
        context = Context.build(
            model, GraphStore.from_graphs(graphs), batch_size=4, mode="regression"
        )
        explainer._start(context, torch.Generator())
        loss = explainer._loss(context, ids, 2.0, torch.Generator().manual_seed(5))
        generator = torch.Generator().manual_seed(5)

        def masks(chosen):
            batch = context.store.batch(chosen)
            mask = explainer._sample(context.h[batch.node_ids], batch, 2.0, generator)
            return mask.split([graphs[int(i)].num_edges for i in chosen])

        outputs = torch.cat([model(g.x, g.edge_index) for g in graphs]).flatten()
        own = masks(ids)
        drawn = [draw_partners(ids, 6, generator) for _ in range(2)]
        distance = [(outputs[d] - outputs[ids]).abs() for d in drawn]
        swap = distance[1] < distance[0]
        near = torch.where(swap, drawn[1], drawn[0])
        far = torch.where(swap, drawn[0], drawn[1])
        partner_masks = [masks(near), masks(far)]
        heads = []
        model.out.register_forward_pre_hook(lambda _, inputs: heads.append(inputs[0]))

        def embedding(*parts):
            output = weighted_output(model, parts)
            return heads[-1][0], output[0, 0]

        expected = []
        for place, number in enumerate(ids.tolist()):
            graph, w = graphs[number], own[place]
            cosines = []
            for side, partners in enumerate((near, far)):
                other = graphs[int(partners[place])]
                mixed, output = embedding((graph, w), (other, 1 - partner_masks[side][place]))
                goal, _ = embedding((other, torch.ones(other.num_edges)))
                cosines.append(mixed @ goal / mixed.norm() / goal.norm())
                if side == 0:
                    expected.append(1.3 * ((output - outputs[number]) / outputs.std()) ** 2)
            up, down = (torch.stack(cosines) / 0.4).exp()
            expected.append(-0.7 * (up / (up + down)).log())
            entropy = -(w * w.log() + (1 - w) * (1 - w).log()).mean()
            expected.append(0.2 * w.sum() + 0.3 * entropy)
    torch.testing.assert_close(loss, torch.stack(expected).sum() / 3, rtol=1e-4, atol=0)


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0)])
def test_contrast_and_prediction_teach_by_themselves(weights):
    model = regression_target()
    explainer = RegExplainer(
        contrast_weight=weights[0], prediction_weight=weights[1], size_weight=0, entropy_weight=0
    )
    with frozen(model):
        context = Context.build(
            model, GraphStore.from_graphs(make_graphs()), batch_size=9, mode="regression"
        )
        explainer._start(context, torch.Generator())
        explainer._loss(context, torch.arange(6), 1.0, torch.Generator()).backward()
    assert all(float(p.grad.abs().sum()) > 0 for p in explainer.parameters())


@pytest.mark.parametrize("unit", [1.0, 1000.0])
def test_finds_the_edges_that_matter_in_any_unit(unit):
    model, graphs = MarkedEdges(unit), marked_graphs()
    explainer = RegExplainer(epochs=40, size_weight=0.01, entropy_weight=0.01)
    explainer.fit(model, graphs, mode="regression", progress=False)
    explanations = explainer.explain(model, graphs, progress=False)
    assert float(explanation_auc(explanations, graphs)) > 0.95


def test_options():
    for name in ("bridges", "contrast_weight", "prediction_weight"):
        with pytest.raises(InputError, match=f"{name} must be at least 0"):
            RegExplainer(**{name: -1})
    with pytest.raises(InputError, match="contrast_temperature must be above 0"):
        RegExplainer(contrast_temperature=0)
