"""Models of atoms in space: ``z``, ``pos`` and ``batch``, no ``x`` and no edges."""

from functools import cache

import pytest
import torch
from torch import nn
from torch_geometric.data import Batch, Data
from torch_geometric.nn import DimeNetPlusPlus, SchNet, global_add_pool
from torch_geometric.nn.models import dimenet as pyg_dimenet

from contract import SLUGS, assert_same, make_explainer, snapshot
from hpme.data import GraphStore
from hpme.errors import InputError, ModelError
from hpme.explainers import EXPLAINERS, IntegratedGradientsExplainer
from hpme.explainers.hpme.method.mixup import aligned, structural_mixup
from hpme.explainers.hpme.method.pool import by_boundary
from hpme.models import ExplainedModel
from hpme.page import write_page
from hpme.viz import gallery
from hpme.viz.nodelink import positions_of

NODES = [slug for slug in SLUGS if not EXPLAINERS[slug].needs_edges]
OTHERS = [slug for slug in SLUGS if EXPLAINERS[slug].needs_edges]
slugs = pytest.mark.parametrize("slug", NODES)


def all_pairs(pos, batch):
    """What a radius graph of a large radius is."""
    same = batch.unsqueeze(0) == batch.unsqueeze(1)
    index = (same & ~torch.eye(len(batch), dtype=torch.bool)).nonzero().t()
    return index, (pos[index[0]] - pos[index[1]]).norm(dim=1)


class Cloud(nn.Module):
    """Computes its own distances; no message-passing layers."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 8)
        self.lift, self.head = nn.Linear(8, 8), nn.Linear(8, 2)

    def forward(self, z, pos, batch):
        (source, target), distance = all_pairs(pos, batch)
        h = self.table(z)
        message = h[source] * torch.exp(-distance).unsqueeze(1)
        h = self.lift(h + torch.zeros_like(h).index_add(0, target, message)).tanh()
        return self.head(global_add_pool(h, batch))


def schnet():
    return SchNet(16, 16, num_interactions=2, num_gaussians=10, interaction_graph=all_pairs)


def dimenet():
    """PyG's DimeNet++, small, with a head that is not zero at first."""
    sizes = {"int_emb_size": 4, "basis_emb_size": 4, "out_emb_channels": 8, "num_radial": 3}
    return DimeNetPlusPlus(
        8, 1, 1, num_spherical=2, cutoff=20.0, output_initializer="glorot_orthogonal", **sizes
    )


def triplets(edge_index, num_nodes):
    """All ways k -> j -> i, as PyG's own, which needs a package that is not everywhere."""
    source, target = edge_index
    first, second = (target.unsqueeze(1) == source.unsqueeze(0)).nonzero().t()
    kept = source[first] != target[second]
    first, second = first[kept], second[kept]
    ends = (target[second], source[second], source[first])
    return target, source, *ends, first, second


@pytest.fixture(autouse=True)
def plain_torch(monkeypatch):
    """DimeNet++ finds neighbours and angles with nothing but PyTorch."""
    monkeypatch.setattr(pyg_dimenet, "triplets", triplets)
    monkeypatch.setattr(
        pyg_dimenet, "radius_graph", lambda pos, r, batch, **_: all_pairs(pos, batch)[0]
    )


MODELS = {"cloud": Cloud, "schnet": schnet, "dimenet": dimenet}


@cache
def make_model(name):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        return MODELS[name]()


def make(seed, bonds=False):
    generator = torch.Generator().manual_seed(seed)
    count = 5 + seed % 4
    graph = Data(
        z=torch.randint(1, 9, (count,), generator=generator),
        pos=2 * torch.randn(count, 3, generator=generator),
    )
    if bonds:
        ends = torch.arange(count - 1)
        graph.edge_index = torch.stack([torch.cat([ends, ends + 1]), torch.cat([ends + 1, ends])])
    return graph


def turned(graph, seed=0):
    """The same atoms, rotated and elsewhere."""
    rotation = torch.linalg.qr(
        torch.randn(3, 3, dtype=torch.double, generator=torch.Generator().manual_seed(seed))
    ).Q
    rotation[:, 0] *= rotation.det().sign()
    other = graph.clone()
    other.pos = (graph.pos.double() @ rotation).float() + torch.tensor([1.0, -2.0, 0.5])
    return other


@cache
def fitted(slug, name="cloud"):
    model = make_model(name)
    graphs = [make(seed) for seed in range(8)]
    mode = None if name == "cloud" else "regression"
    return make_explainer(slug).fit(model, graphs, mode=mode, progress=False), model, graphs


def close(a, b):
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_these_explain_nodes():
    assert set(NODES) == {
        *("hpme", "random", "occlusion", "integratedgradients", "subgraphx"),
        *("distilled-occlusion", "best-attribution"),
    }


@slugs
@pytest.mark.parametrize("name", MODELS)
def test_nodes_are_explained(slug, name):
    explainer, model, graphs = fitted(slug, name)
    before = snapshot(model)
    together = explainer.explain(model, graphs, progress=False)
    for explanation, graph in zip(together, graphs, strict=True):
        assert explanation.edge_mask.shape == (0,)
        mask = explanation.node_mask
        assert mask.shape == (len(graph.z), 1)
        assert bool(((mask >= 0) & (mask <= 1)).all()) and mask.unique().numel() > 1
        assert explanation.num_nodes == len(graph.z) and explanation.get("x") is None
        assert torch.equal(explanation.z, graph.z) and torch.equal(explanation.pos, graph.pos)
        (alone,) = explainer.explain(model, [graph], progress=False)
        close(alone.node_mask, mask)
        if slug == "hpme":
            assert bool(explanation.pooled.any())
    assert_same(before, snapshot(model))
    again = explainer.explain(model, Batch.from_data_list(together), progress=False)
    close(again[0].node_mask, together[0].node_mask)


@slugs
@pytest.mark.parametrize("name", MODELS)
def test_masks_do_not_turn_with_the_molecule(slug, name):
    explainer, model, graphs = fitted(slug, name)
    first = explainer.explain(model, graphs, progress=False)
    second = explainer.explain(model, [turned(graph) for graph in graphs], progress=False)
    for a, b in zip(first, second, strict=True):
        close(a.node_mask, b.node_mask)


@slugs
def test_renumbering_atoms_permutes_the_mask(slug):
    explainer, model, graphs = fitted(slug)
    order = torch.randperm(len(graphs[3].z), generator=torch.Generator().manual_seed(2))
    other = Data(z=graphs[3].z[order], pos=graphs[3].pos[order])
    first, second = explainer.explain(model, [graphs[3], other], progress=False)
    close(second.node_mask, first.node_mask[order])


@slugs
def test_saved_and_loaded(slug, tmp_path):
    explainer, model, graphs = fitted(slug)
    explainer.save(tmp_path / "file")
    loaded = EXPLAINERS[slug].load(tmp_path / "file")
    for a, b in zip(explainer.explain(model, graphs), loaded.explain(model, graphs), strict=True):
        assert torch.equal(a.node_mask, b.node_mask)


@pytest.mark.parametrize("slug", OTHERS)
def test_others_say_that_they_need_edges(slug):
    model, graphs = make_model("cloud"), [make(seed) for seed in range(3)]
    with pytest.raises(InputError, match=r"Explainer explains edges.*reads none.*hpme"):
        make_explainer(slug).fit(model, graphs, progress=False)
    if not EXPLAINERS[slug].needs_fit:
        with pytest.raises(InputError, match="explains edges"):
            make_explainer(slug).explain(model, graphs, progress=False)


def test_edges_of_none_are_not_integrated_over():
    with pytest.raises(InputError, match="over='edges' is for models that read edges"):
        IntegratedGradientsExplainer(over="edges").explain(make_model("cloud"), [make(0)])


@slugs
def test_bonds_that_the_model_does_not_read(slug):
    model, graphs = make_model("cloud"), [make(seed, bonds=True) for seed in range(8)]
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    for explanation, graph in zip(explainer.explain(model, graphs), graphs, strict=True):
        assert explanation.edge_mask.shape == (graph.num_edges,)
        assert explanation.node_mask.unique().numel() > 1


@slugs
def test_features_that_the_model_does_not_read(slug):
    """As in QM9, which has ``x`` and bonds beside ``z`` and ``pos``."""
    explainer, model, graphs = fitted(slug)
    more = [graph.clone() for graph in graphs]
    for graph in more:
        graph.x = torch.ones(len(graph.z), 2)
    other = make_explainer(slug).fit(model, more, progress=False)
    pairs = zip(explainer.explain(model, graphs), other.explain(model, more), strict=True)
    for first, second in pairs:
        close(second.node_mask, first.node_mask)
        assert torch.equal(second.x, torch.ones(len(first.z), 2))
    if slug == "hpme":
        assert len(other.quality(model, more)) == len(more)


def test_what_hpme_tells_of_points():
    explainer, model, graphs = fitted("hpme")
    assert len(explainer.quality(model, graphs)) == len(graphs)
    assert len(explainer.effects(model, graphs)) == len(graphs)
    assert len(explainer.alternatives(model, graphs)) == len(graphs)
    assert len(explainer.counterfactuals(model, graphs)) == len(graphs)


def test_a_readout_of_one_channel_is_no_embedding():
    model = make_model("schnet")
    store = ExplainedModel(model, mode="regression").read([make(seed) for seed in range(3)])
    adapter = ExplainedModel(model, mode="regression").adapter()
    embedding = adapter.embed(store.batch())
    assert embedding.nodes.shape[1] == 16
    seen = []
    handle = model.lin1.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    adapter.predict(store.batch())
    handle.remove()
    assert torch.allclose(embedding.nodes, seen[0])
    assert "widest of the last layers" in adapter.describe()
    assert "gradients of nodes: by the output of 'embedding'" in adapter.describe()


def region(graphs, count):
    rank = torch.arange(graphs.num_nodes) - graphs.ptr[graphs.batch]
    return by_boundary((rank < count).unsqueeze(0), graphs, None)[0]


def test_an_inserted_region_fits_the_removed_one():
    graphs = [make(seed) for seed in range(6)]
    source = GraphStore.from_graphs([turned(graph, 5) for graph in graphs], attributes="fitting")
    host = GraphStore.from_graphs(graphs, attributes="fitting").batch(with_pairs=True)
    source = source.batch(with_pairs=True)
    chosen, removed = region(source, 4), region(host, 4)
    moved = aligned(source, chosen, host, removed)
    assert torch.allclose(moved, host.node["pos"], atol=1e-4)  # the whole graph goes along
    mix = structural_mixup(source, chosen, host, removed, None)
    everywhere = mix.per_node(host.node["pos"], host.node["pos"])
    assert torch.allclose(mix.graphs.node["pos"], everywhere, atol=1e-4)


def test_a_mirror_image_stays_one():
    """No rotation makes a right hand of a left one; distances inside the region stay."""
    graphs = [make(seed) for seed in range(4)]
    mirrored = [graph.clone() for graph in graphs]
    for graph in mirrored:
        graph.pos = graph.pos * torch.tensor([-1.0, 1.0, 1.0])
    host = GraphStore.from_graphs(graphs, attributes="fitting").batch()
    source = GraphStore.from_graphs(mirrored, attributes="fitting").batch()
    moved = aligned(source, region(source, 5), host, region(host, 5))
    assert not torch.allclose(moved, host.node["pos"], atol=1e-1)
    for rows in range(4):
        own = source.batch == rows
        before, after = (torch.pdist(v[own]) for v in (source.node["pos"], moved))
        assert torch.allclose(before, after, atol=1e-4)
        triple = [v[own][1:4] - v[own][:1] for v in (source.node["pos"], moved)]
        assert float(triple[0].det().sign()) == float(triple[1].det().sign())


def test_graphs_without_features_are_named_where_a_model_wants_some():
    class Wants(nn.Module):
        def forward(self, x, edge_index, batch):
            return x[:, 0]

    with pytest.raises(ModelError, match=r"no x.*begins with 'x'"):
        make_explainer("occlusion").explain(Wants(), [make(0)])
    with pytest.raises(InputError, match="graph 1 has no edge_index while others have"):
        GraphStore.from_graphs([make(0, bonds=True), make(1)])


def test_points_are_drawn_where_they_are():
    graph = make(3)
    places = positions_of(graph)
    assert places.shape == (graph.num_nodes, 2) and abs(places).max() == pytest.approx(1.0)
    flat = Data(pos=torch.tensor([[0.0, 0.0, 5.0], [4.0, 0.0, 5.0], [4.0, 3.0, 5.0]]))
    drawn = torch.pdist(torch.from_numpy(positions_of(flat)))
    real = torch.pdist(flat.pos.double())
    assert torch.allclose(drawn / drawn.max(), real / real.max(), atol=1e-6)
    bonded = make(3, bonds=True)
    assert positions_of(bonded) != pytest.approx(places)


def test_pictures_and_pages_of_points(tmp_path):
    explainer, model, graphs = fitted("hpme")
    found = explainer.explain(model, graphs, progress=False)
    assert gallery(graphs, found, tmp_path / "points.png").stat().st_size > 1000
    assert write_page(model, graphs, found, tmp_path / "page.html").stat().st_size > 1000
    assert graphs[0].get("edge_index") is None
