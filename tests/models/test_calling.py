"""Models that are called in other ways than usual."""

import pytest
import torch
from torch import nn
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, global_add_pool

from hpme.errors import InputError, ModelError
from hpme.explainers import GNNExplainer, GradExplainer, HPMEExplainer, MetaGNNExplainer
from hpme.graphs import GraphStore
from hpme.models import ExplainedModel

CHEAP = {"k": 3, "restarts": 1}


def graphs(count=8, **fields):
    generator = torch.Generator().manual_seed(0)
    found = []
    for number in range(count):
        nodes = 6 + number % 3
        index = torch.stack([torch.arange(nodes), (torch.arange(nodes) + 1) % nodes])
        index = torch.cat([index, index.flip(0)], dim=1)
        found.append(Data(
            x=torch.randn(nodes, 3, generator=generator),
            edge_index=index,
            charge=torch.randn(nodes, 2, generator=generator),
            length=torch.rand(index.shape[1], generator=generator),
            dose=torch.randn(1, 2, generator=generator),
            note=["a list cannot travel"],
        ))  # fmt: skip
    return found


class Rich(nn.Module):
    """Reads fields of nodes, edges and graphs; ``forward`` is what subclasses differ in."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = GCNConv(5, 8), nn.Linear(10, 3)

    def core(self, x, edge_index, batch, charge, length, dose, edge_weight=None):
        weight = length if edge_weight is None else length * edge_weight
        h = self.conv(torch.cat([x, charge], 1), edge_index, weight).relu()
        return self.head(torch.cat([global_add_pool(h, batch), dose], 1))


class TakesBatch(Rich):
    def forward(self, data):
        return self.core(
            data.x, data.edge_index, data.batch, data.charge, data.length, data.dose,
            data.get("edge_weight"),
        )  # fmt: skip


class TakesDictionary(Rich):
    def forward(self, inputs):
        names = ("x", "edge_index", "batch", "charge", "length", "dose")
        return self.core(*[inputs[name] for name in names])


class TakesNames(Rich):
    def forward(self, x, edge_index, batch, dose, charge, length):
        return self.core(x, edge_index, batch, charge, length, dose)


class TakesOnlyNames(Rich):
    def forward(self, charge, batch, dose):
        return self.head(torch.cat([global_add_pool(charge, batch).repeat(1, 4), dose], 1))


class TakesPositions(Rich):
    def forward(self, nodes, links, owner):
        return self.head(global_add_pool(nodes, owner).repeat(1, 4)[:, :10])


class TakesFour(Rich):
    def forward(self, feats, *, more):
        return feats


def expected(model, found):
    batch = GraphStore.from_graphs(found, attributes="fitting").batch()
    fields = {**batch.node, **batch.edge, **batch.graph}
    return model.core(batch.x, batch.edge_index, batch.batch, **fields)


@pytest.mark.parametrize("kind", [TakesBatch, TakesDictionary, TakesNames])
def test_usual_ways_are_found(kind):
    model, found = kind().eval(), graphs()
    store = GraphStore.from_graphs(found, attributes="fitting")
    output = ExplainedModel(model).adapter().predict(store.batch())
    assert torch.allclose(output, expected(model, found))


@pytest.mark.parametrize("kind", [TakesOnlyNames, TakesPositions])
def test_other_names(kind):
    store = GraphStore.from_graphs(graphs(), attributes="fitting")
    assert ExplainedModel(kind()).adapter().predict(store.batch()).shape == (8, 3)


@pytest.mark.parametrize("kind", [TakesBatch, TakesDictionary, TakesNames])
@pytest.mark.parametrize("explainer", [HPMEExplainer(**CHEAP), GradExplainer()])
def test_fields_travel_through_fit_and_explain(kind, explainer):
    found = graphs()
    explainer.fit(kind(), found, progress=False)
    masks = explainer.explain(kind(), found, progress=False)
    assert [mask.edge_mask.shape[0] for mask in masks] == [g.num_edges for g in found]


def test_a_call_of_ones_own():
    model, found = TakesNames(), graphs()
    by_name = HPMEExplainer(**CHEAP).fit(model, found, progress=False)

    def call(net, batch):
        return net.core(
            batch.x, batch.edge_index, batch.batch, batch.charge, batch.length, batch.dose
        )

    own = HPMEExplainer(**CHEAP).fit(model, found, call=call, progress=False)
    alone = ExplainedModel(model, call=lambda batch: call(model, batch))
    for explained in (model, alone):  # what fit was given is known
        masks = own.explain(explained, found, progress=False)
        for one, other in zip(masks, by_name.explain(model, found, progress=False), strict=True):
            assert torch.equal(one.edge_mask, other.edge_mask)


def test_what_was_tried_is_named():
    message = (
        r"forward\(data\) works \(it has no 'batch' argument\); tried model\(batch\): "
        r".*; tried|model\(batch\): .*model\(\{'x': x, \.\.\.\}\).*call=lambda batch"
    )
    bare = [Data(x=g.x, edge_index=g.edge_index) for g in graphs()]
    with pytest.raises(ModelError, match=message):
        HPMEExplainer(**CHEAP).fit(TakesBatch(), bare, progress=False)
    with pytest.raises(ModelError, match=r"forward\(feats, more\) works.*tried model\(batch\)"):
        HPMEExplainer(**CHEAP).fit(TakesFour(), bare, progress=False)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda batch: None, "returned NoneType"),
        (lambda batch: batch.x, r"returned shape .* for 8 graphs"),
        (lambda batch: {"logits": batch.dose}, "returned dict.*'logits'.*output="),
        (lambda batch: batch.missing, "has no attribute 'missing'"),
        (lambda a, b, c: None, r"takes 3 arguments; it is called as call\(batch\)"),
        ("not a function", "call must be a function"),
    ],
)
def test_a_call_that_returns_rubbish(call, message):
    with pytest.raises(ModelError, match=message):
        HPMEExplainer(**CHEAP).fit(TakesBatch(), graphs(), call=call, progress=False)


def test_an_entry_of_the_output():
    model, found = TakesBatch(), graphs()
    plain = GNNExplainer(epochs=2).fit(model, found, progress=False)
    call = {"call": lambda batch: {"logits": model(batch), "extra": 0}, "output": "logits"}
    chosen = GNNExplainer(epochs=2).fit(model, found, progress=False, **call)
    for one, other in zip(
        plain.explain(model, found, progress=False),
        chosen.explain(model, found, progress=False),
        strict=True,
    ):
        assert torch.equal(one.edge_mask, other.edge_mask)


def test_a_copy_needs_a_call_that_names_the_model():
    with pytest.raises(InputError, match=r"must be call\(model, batch\)"):
        MetaGNNExplainer(epochs=1).fit(
            TakesBatch(), [g.update({"y": torch.tensor([0])}) for g in graphs()],
            call=lambda batch: TakesBatch()(batch), progress=False,
        )  # fmt: skip


def test_unknown_facts_are_refused():
    with pytest.raises(InputError, match="'modus' is nothing known about models"):
        HPMEExplainer(**CHEAP).fit(TakesBatch(), graphs(), modus="regression", progress=False)
