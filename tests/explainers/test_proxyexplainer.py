"""ProxyExplainer: its loss graph by graph, where gradients go, what is kept."""

import pytest
import torch

from contract import fitted, make_graphs, make_target
from hpme.data import GraphStore
from hpme.errors import InputError
from hpme.explainers import ProxyExplainer
from hpme.explainers.proxyexplainer import SampledPairs
from hpme.explainers.shared.context import Context
from hpme.models.freezing import frozen


def started(**options):
    model, graphs = make_target("gcn").eval(), make_graphs()
    context = Context.build(model, GraphStore.from_graphs(graphs), batch_size=9)
    explainer = ProxyExplainer(**options)
    explainer._start(context, torch.Generator())
    return explainer, context, model, graphs


def test_loss_against_dense_proxies_one_by_one():
    explainer, context, model, graphs = started(size_weight=0.2, entropy_weight=0.3)
    ids = torch.tensor([4, 1])
    with frozen(model):
        loss = explainer._loss(context, ids, 2.0, torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    batch = context.store.batch(ids)
    pairs = SampledPairs.of(batch, generator)
    mask = explainer._sample(context.h[batch.node_ids], batch, 2.0, generator)
    proxy = explainer.autoencoder(batch, pairs, mask, generator).adjacency
    expected = []
    for place, number in enumerate(ids.tolist()):
        graph, nodes = graphs[number], graphs[number].num_nodes
        dense = torch.zeros(nodes, nodes)
        mine = pairs.graph == place
        i, j = pairs.index[:, mine] - batch.ptr[place]
        dense[i, j] = dense[j, i] = proxy[mine]
        edge_index = dense.nonzero().t()
        output = model(graph.x, edge_index, None, dense[tuple(edge_index)])
        y = model(graph.x, graph.edge_index).argmax()
        w = mask[batch.edge_batch == place]
        entropy = -(w * w.log() + (1 - w) * (1 - w).log()).mean()
        expected.append(-output.log_softmax(1)[0, y] + 0.2 * w.sum() + 0.3 * entropy)
    torch.testing.assert_close(loss, torch.stack(expected).mean())


def test_prediction_alone_teaches_the_edge_mlp():
    """Without size and entropy all gradient comes through proxy and model."""
    explainer, context, model, _ = started(size_weight=0, entropy_weight=0)
    with frozen(model):
        explainer._loss(context, torch.arange(6), 1.0, torch.Generator()).backward()
    assert all(float(p.grad.abs().sum()) > 0 for p in explainer.edge_mlp.parameters())


def test_each_part_is_trained_by_its_own_loss():
    explainer, context, model, _ = started(proxy_steps=3)
    before = {name: p.detach().clone() for name, p in explainer.named_parameters()}

    def changed():
        return {n for n, p in explainer.named_parameters() if not torch.equal(p, before[n])}

    with frozen(model):
        explainer._before_step(context, torch.arange(6), 1.0, torch.Generator())
        assert changed() == {n for n in before if n.startswith("autoencoder")}
        before = {name: p.detach().clone() for name, p in explainer.named_parameters()}
        optimiser = explainer._optimiser()
        optimiser.zero_grad()
        explainer._loss(context, torch.arange(6), 1.0, torch.Generator()).backward()
        optimiser.step()
        assert changed() == {n for n in before if n.startswith("edge_mlp")}


def test_options_survive_fitting():
    """Fitting twice gives the same result: no coefficient shrinks on the way."""
    explainer = ProxyExplainer(epochs=2, proxy_steps=1)
    config = explainer.config()
    explainer.fit(make_target("gcn"), make_graphs(), progress=False)
    assert explainer.config() == config


def test_edge_mlp_and_autoencoder_are_kept():
    state = fitted("proxyexplainer").explainer.state_dict()
    assert {name.split(".")[0] for name in state} == {"edge_mlp", "autoencoder"}


def test_options():
    with pytest.raises(InputError, match="proxy_steps must be at least 1"):
        ProxyExplainer(proxy_steps=0)
    with pytest.raises(InputError, match="proxy_lr must be above 0"):
        ProxyExplainer(proxy_lr=0)
    with pytest.raises(InputError, match="divergence_weight must be at least 0"):
        ProxyExplainer(divergence_weight=-1)
