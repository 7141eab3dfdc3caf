"""Every explainer on rows of an output, whatever they are rows of, as PyG's ``Explainer`` asks."""

import copy
from functools import cache

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch
from torch_geometric.explain import Explainer
from torch_geometric.nn import GATConv, GCNConv, global_add_pool, global_mean_pool

from contract import CLASSES, FEATURES, SLUGS, assert_valid, fitted, make_explainer, make_graphs
from hpme.errors import InputError, ModelError
from hpme.explainers import EXPLAINERS, GradExplainer
from hpme.models import ExplainedModel

slugs = pytest.mark.parametrize("slug", SLUGS)
NEED_LABELS = [slug for slug in SLUGS if EXPLAINERS[slug].needs_labels]
LINKS = torch.tensor([[0, 3, 8, 13], [5, 9, 2, 1]])


@cache
def joined():
    """Three graphs side by side, with edges from each to the next."""
    batch = Batch.from_data_list(make_graphs(seeds=range(3)))
    first = torch.tensor([[0, 6], [7, 14]])
    batch.edge_index = torch.cat([batch.edge_index, first, first.flip(0)], dim=1)
    return batch


class Rows(nn.Module):
    """Two layers and an ending of the tests' own."""

    def __init__(self, ending, conv=GCNConv, outputs=CLASSES):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(2)
            self.first, self.second = conv(FEATURES, 8), conv(8, outputs)
        self.ending = ending

    def forward(self, x, edge_index, batch=None, edge_label_index=None, extra=None):
        x = x if extra is None else x + extra
        batch = torch.zeros_like(x[:, 0]).long() if batch is None else batch
        h = self.second(self.first(x, edge_index).relu(), edge_index)
        return self.ending(h, batch, edge_label_index)


ENDINGS = {
    "graph": lambda h, batch, links: global_add_pool(h, batch),
    "node": lambda h, batch, links: h,
    "node beside its graph": lambda h, batch, links: h + 3 * global_mean_pool(h, batch)[batch],
    "edge": lambda h, batch, links: h[links[0]] * h[links[1]],
}


def level_of(ending):
    return ending.split()[0]


def settings_of(ending):
    config = {"mode": "multiclass_classification", "task_level": level_of(ending)}
    config["return_type"] = "raw"
    return {"explanation_type": "model", "edge_mask_type": "object", "model_config": config}


@cache
def fitted_to_rows(slug, ending):
    """An algorithm of PyG's ``Explainer``, fitted once per session, and its model."""
    model = Rows(ENDINGS[ending], GATConv if slug == "att" else GCNConv).eval()
    algorithm = make_explainer(slug)
    Explainer(model, algorithm, **settings_of(ending))
    graphs = make_graphs()
    if level_of(ending) == "graph":
        return algorithm.fit(model, graphs, progress=False), model
    graphs[3].y = torch.arange(graphs[3].num_nodes) % CLASSES
    index = range(6) if level_of(ending) == "node" else LINKS[:, :3] % 6
    return algorithm.fit(model, graphs[3], index=index, progress=False), model


def make(slug, ending, **options):
    algorithm, model = map(copy.deepcopy, fitted_to_rows(slug, ending))
    return Explainer(model, algorithm, **{**settings_of(ending), **options}), model


def ask(explainer, ending, **options):
    data = joined()
    links = {"edge_label_index": LINKS} if level_of(ending) == "edge" else {}
    return explainer(data.x, data.edge_index, batch=data.batch, **links, **options)


@slugs
@pytest.mark.parametrize("ending", ENDINGS)
def test_rows_are_merged_by_the_highest(slug, ending):
    if ending == "edge" and slug in NEED_LABELS:
        pytest.skip("links have no labels to train a copy of the model on")
    explainer, _ = make(slug, ending, node_mask_type="object")
    if ending == "graph" and slug == "matchexplainer":  # which shows the model a few nodes alone
        with pytest.raises(ModelError, match=r"lost all its nodes.*keeps them"):
            ask(explainer, ending)
        return
    rows = [0, 2]
    together = ask(explainer, ending, index=torch.tensor(rows))
    assert_valid(together, joined())
    alone = [ask(explainer, ending, index=row) for row in rows]
    for name in ("edge_mask", "node_mask"):
        highest = torch.stack([one[name] for one in alone]).amax(0)
        torch.testing.assert_close(together[name], highest, atol=1e-4, rtol=1e-3)


@slugs
def test_edges_may_join_graphs_of_a_batch(slug):
    """As the readout, and so the embeddings, of a model that was fitted to graphs by themselves."""
    case, data = fitted(slug), joined()
    given = (case.model, data.x, data.edge_index)
    if slug in ("tagexplainer", "matchexplainer"):  # which compare embeddings of graphs
        with pytest.raises(InputError, match=r"rows of another kind.*needs no fit"):
            case.explainer(*given, batch=data.batch)
        return
    every = case.explainer(*given, batch=data.batch)
    assert_valid(every, data)
    alone = [case.explainer(*given, batch=data.batch, index=row) for row in range(3)]
    highest = torch.stack([one.edge_mask for one in alone]).amax(0)
    torch.testing.assert_close(every.edge_mask, highest, atol=1e-4, rtol=1e-3)
    assert every.edge_mask.unique().numel() > 1


def slow_mask(output, edge_index):
    """Importance of every edge for one row of classes: what its deletion does to the log odds."""
    before = output(edge_index)
    predicted = before.argmax()

    def odds(row):
        return row.softmax(0)[predicted].logit()

    scores = []
    for a, b in edge_index.t().tolist():
        other = [{a, b} != set(edge) for edge in edge_index.t().tolist()]
        change = abs(float(odds(before) - odds(output(edge_index[:, torch.tensor(other)]))))
        scores.append(change / (1 + change))
    return torch.tensor(scores)


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("row", [0, 2])
def test_occlusion_equals_one_call_per_edge(ending, row):
    data = joined()
    explainer, model = make("occlusion", ending)

    def output(edge_index):
        return model(data.x, edge_index, data.batch, LINKS)[row].detach().double()

    found = ask(explainer, ending, index=row).edge_mask
    expected = slow_mask(output, data.edge_index)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-2, check_dtype=False)


@slugs
def test_some_of_separate_graphs(slug):
    case = fitted(slug)
    data = case.batch
    every = case.explainer(case.model, data.x, data.edge_index, batch=data.batch)
    some = case.explainer(case.model, data.x, data.edge_index, batch=data.batch, index=[4, 1])
    chosen = (data.batch[data.edge_index[0]] == 4) | (data.batch[data.edge_index[0]] == 1)
    torch.testing.assert_close(
        some.edge_mask[chosen], every.edge_mask[chosen], atol=1e-5, rtol=1e-4
    )
    assert bool((some.edge_mask[~chosen] == 0).all())
    with pytest.raises(InputError, match="graph numbers must lie in"):
        case.explainer(case.model, data.x, data.edge_index, batch=data.batch, index=6)


class Told(Rows):
    """Links change its logits by a constant, which no class is told apart by."""

    def forward(self, x, edge_index, batch=None, edge_label_index=None):
        out = super().forward(x, edge_index, batch)
        return out if edge_label_index is None else out + 1


@pytest.mark.parametrize("slug", ["grad", "occlusion", "integratedgradients"])
def test_separate_graphs_and_copies_of_all_agree(slug):
    data = Batch.from_data_list(make_graphs(seeds=range(3)))
    model, algorithm = Told(ENDINGS["graph"]).eval(), make_explainer(slug)
    plain = algorithm(model, data.x, data.edge_index, batch=data.batch)
    sizes = []
    model.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0])))
    given = {"batch": data.batch, "edge_label_index": LINKS}
    copied = algorithm(model, data.x, data.edge_index, **given)
    assert 3 * data.num_nodes in sizes
    torch.testing.assert_close(copied.edge_mask, plain.edge_mask, atol=1e-4, rtol=1e-3)


@slugs
def test_arguments_that_do_not_matter_change_nothing(slug):
    explainer, _ = make(slug, "node")
    data = joined()
    plain = explainer(data.x, data.edge_index, index=4)
    more = explainer(data.x, data.edge_index, index=4, batch=data.batch, edge_label_index=LINKS)
    assert torch.equal(plain.edge_mask, more.edge_mask)


@pytest.mark.parametrize("slug", [slug for slug in SLUGS if slug not in NEED_LABELS])
def test_an_index_chooses_among_links(slug):
    explainer, _ = make(slug, "edge")
    data = joined()
    one = explainer(data.x, data.edge_index, edge_label_index=LINKS, index=2)
    same = explainer(data.x, data.edge_index, edge_label_index=LINKS[:, 2:3])
    assert torch.equal(one.edge_mask, same.edge_mask)
    named = explainer.algorithm(explainer.model, data.x, data.edge_index, index=LINKS[:, 2:3],
                                batch=data.batch)  # fmt: skip
    assert torch.equal(one.edge_mask, named.edge_mask)
    with pytest.raises(InputError, match="link numbers must lie in"):
        explainer(data.x, data.edge_index, edge_label_index=LINKS, index=4)


@pytest.mark.parametrize("slug", ["hpme", "pgexplainer", "gnnexplainer", "occlusion", "random"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_targets_of_all_rows(slug, ending):
    """Those of rows that are not explained do not count."""
    explainer, model = make(slug, ending, explanation_type="phenomenon")
    data = joined()
    target = model(data.x, data.edge_index, data.batch, LINKS).argmax(1)
    told = ask(explainer, ending, target=target, index=2).edge_mask
    other = (target + 1) % CLASSES
    other[2] = target[2]
    assert torch.equal(told, ask(explainer, ending, target=other, index=2).edge_mask)
    other[2] = (target[2] + 1) % CLASSES
    if explainer.algorithm.needs_fit:
        with pytest.raises(InputError, match="fitted to predicted classes"):
            ask(explainer, ending, target=other, index=2)
    elif slug == "occlusion":
        assert not torch.equal(told, ask(explainer, ending, target=other, index=2).edge_mask)
    with pytest.raises(InputError, match="targets for"):
        ask(explainer, ending, target=target[:2], index=2)


@pytest.mark.parametrize("slug", ["hpme", "pgexplainer", "grad"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_node_masks(slug, ending):
    masks = {}
    for kind in ("object", "attributes", "common_attributes"):
        explainer, _ = make(slug, ending, node_mask_type=kind, edge_mask_type=None)
        found = ask(explainer, ending, index=torch.arange(2))
        masks[kind] = found.node_mask
        assert "edge_mask" not in found
    data = joined()
    assert masks["object"].shape == (data.num_nodes, 1)
    assert masks["attributes"].shape == data.x.shape
    expected = masks["attributes"].amax(0, keepdim=True)
    torch.testing.assert_close(masks["common_attributes"], expected)


@pytest.mark.parametrize("slug", ["grad", "occlusion"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_an_argument_with_a_row_per_node_goes_with_its_nodes(slug, ending):
    """Features in two parts are explained as their sum is."""
    explainer, _ = make(slug, ending)
    data = joined()
    extra = torch.linspace(-1, 1, data.x.numel()).view_as(data.x)
    links = {"edge_label_index": LINKS} if level_of(ending) == "edge" else {}
    given = {"batch": data.batch, "index": torch.tensor([1, 2]), **links}
    parts = explainer(data.x, data.edge_index, extra=extra, **given).edge_mask
    summed = explainer(data.x + extra, data.edge_index, **given).edge_mask
    torch.testing.assert_close(parts, summed, atol=1e-4, rtol=1e-3)
    plain = explainer(data.x, data.edge_index, **given).edge_mask
    assert float((plain - parts).abs().max()) > 1e-3


def test_models_that_let_graphs_interact_are_refused():
    explainer, _ = make("occlusion", "graph")
    explainer.model.ending = lambda h, batch, links: global_add_pool(h, batch).softmax(0)
    with pytest.raises(ModelError, match="beside a copy of it"):
        ask(explainer, "graph", index=1)


def test_a_call_of_the_users_own_gets_separate_graphs():
    """What it does with edges between graphs is not known."""
    data = joined()
    known = ExplainedModel(Rows(ENDINGS["graph"]), call=lambda model, batch: model(
        batch.x, batch.edge_index, batch.batch))  # fmt: skip
    with pytest.raises(InputError, match="joins two different graphs of the batch; check batch"):
        GradExplainer()(known, data.x, data.edge_index, batch=data.batch)


def test_an_index_out_of_range_is_named():
    explainer, _ = make("occlusion", "graph")
    with pytest.raises(InputError, match="output row numbers must lie in"):
        ask(explainer, "graph", index=3)


class OfClasses(GradExplainer):
    tasks, levels = ("classification",), ("graph", "node")


@pytest.mark.parametrize(("task", "level"), [("regression", "graph"), ("classification", "edge")])
def test_what_is_not_supported_is_logged(task, level, caplog):
    mode = task if task == "regression" else f"binary_{task}"
    config = {"mode": mode, "task_level": level, "return_type": "raw"}
    with pytest.raises(ValueError, match="does not support"):
        Explainer(Rows(ENDINGS["graph"]), OfClasses(), explanation_type="model",
                  edge_mask_type="object", model_config=config)  # fmt: skip
    asked = task if task == "regression" else level
    assert f"OfClasses does not explain {asked}" in caplog.text
