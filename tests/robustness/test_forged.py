"""Made-up files and odd graphs: explained rightly or refused by name, never a bare error.

With ``HYPOTHESIS_PROFILE=nightly`` 1,000 files, and 500 graphs for every explainer.
"""

import os
import threading
from functools import cache

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract import SLUGS, assert_valid, fitted, make_explainer, make_graphs, make_target
from forging import forged, odd_graph
from hpme.errors import HPMEError, StorageError
from hpme.explainers import explainer_class
from hpme.graphs import GraphStore
from hpme.storage import read_tensors, write_tensors

NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
numbers = st.integers(0, 10**9)
same_folder = HealthCheck.function_scoped_fixture


@cache
def saved(slug, folder):
    fitted(slug).explainer.save(folder / slug)
    return read_tensors(folder / slug)


@settings(max_examples=1000 if NIGHTLY else 40)
@given(number=numbers)
def test_forged_files(number, tmp_path_factory):
    slug = SLUGS[number % len(SLUGS)]
    folder = tmp_path_factory.getbasetemp()
    tensors, meta = forged(*saved(slug, folder), number)
    path = folder / "forged"
    write_tensors(path, tensors, meta)
    try:
        explainer = explainer_class(slug).load(path)
    except StorageError:
        return
    graphs = make_graphs()[:2]
    try:
        for graph, found in zip(
            graphs, explainer.explain(fitted(slug).model, graphs, progress=False), strict=True
        ):
            assert_valid(found, graph)
        if getattr(explainer, "report", None) is not None:
            assert explainer.report.summary() and explainer.report.to_dict()
    except HPMEError:
        return
    explainer.save(path)


@pytest.mark.parametrize("slug", SLUGS)
@settings(max_examples=500 if NIGHTLY else 12)
@given(number=numbers)
def test_odd_graphs(slug, number):
    graphs = [odd_graph(number), odd_graph(number + 1)]
    explainer, model = fitted(slug).explainer, fitted(slug).model
    try:
        if number % 8 == 0:
            explainer = make_explainer(slug).fit(model, [*make_graphs(), *graphs], progress=False)
        found = explainer.explain(model, graphs, progress=False)
    except HPMEError:
        return
    store = GraphStore.from_graphs(graphs)
    assert len(found) == len(graphs)
    for graph, explanation in zip(store.to_data_list(), found, strict=True):
        assert_valid(explanation, graph)


@pytest.mark.parametrize("slug", SLUGS)
def test_threads_that_explain_one_model(slug):
    model, graphs = make_target("gcn", slug), make_graphs()
    explainer = make_explainer(slug).fit(model, graphs, progress=False)
    wanted = [found.edge_mask for found in explainer.explain(model, graphs, progress=False)]
    model.train()
    before = dict(model.named_parameters())
    state, found, failed = torch.get_rng_state(), {}, []

    def work(number):
        try:
            found[number] = explainer.explain(model, graphs, progress=False)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed and len(found) == 4
    for explanations in found.values():
        for explanation, mask in zip(explanations, wanted, strict=True):
            assert torch.equal(explanation.edge_mask, mask)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(module.training for module in model.modules())
    assert all(value is before[name] for name, value in model.named_parameters())
    assert all(value.requires_grad for value in model.parameters())
