"""Files of explainers: what is damaged or made up is refused before it costs anything."""

import json
import random
import resource

import pytest
import torch
from safetensors.torch import load, save

from contract import fitted
from hpme.errors import StorageError
from hpme.explainers import explainer_class
from hpme.storage import read_tensors, write_tensors

LEARNING = ["hpme", "pgexplainer", "matchexplainer", "tagexplainer"]
slugs = pytest.mark.parametrize("slug", LEARNING)


@pytest.fixture
def saved(tmp_path):
    def save_explainer(slug):
        fitted(slug).explainer.save(tmp_path / f"{slug}.safetensors")
        return tmp_path / f"{slug}.safetensors"

    return save_explainer


@slugs
def test_one_flipped_bit_is_refused(slug, saved):
    path = saved(slug)
    content, choose = path.read_bytes(), random.Random(0)
    for _ in range(60):
        damaged = bytearray(content)
        damaged[choose.randrange(len(content))] ^= 1 << choose.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(StorageError):
            explainer_class(slug).load(path)
    path.write_bytes(content)
    assert explainer_class(slug).load(path).fitted


def test_a_digest_that_is_missing_is_missed(saved):
    path = saved("pgexplainer")
    tensors = load(path.read_bytes())
    _, meta = read_tensors(path)
    path.write_bytes(save(tensors, metadata={"hpme": json.dumps(meta, sort_keys=True)}))
    with pytest.raises(StorageError, match=r"no digest.*save it again"):
        explainer_class("pgexplainer").load(path)


def rewritten(path, change):
    """The file with another description, and a digest that fits."""
    tensors, meta = read_tensors(path)
    change(meta)
    write_tensors(path, tensors, meta)
    return path


@slugs
@pytest.mark.parametrize("level", ["galaxy", 3, ["graph"]])
def test_unknown_levels_are_refused(slug, saved, level):
    path = rewritten(saved(slug), lambda meta: meta.update(level=level))
    with pytest.raises(StorageError, match="level"):
        explainer_class(slug).load(path)


@slugs
def test_tensors_of_another_type_are_refused(slug, saved):
    path = saved(slug)
    tensors, meta = read_tensors(path)
    own = [n for n, v in tensors.items() if v.is_floating_point() and not n.startswith("host_")]
    for name in own:
        write_tensors(path, {**tensors, name: tensors[name].double()}, meta)
        with pytest.raises(StorageError, match=f"'{name}' is missing, or of another type"):
            explainer_class(slug).load(path)
        write_tensors(path, {**tensors, name: tensors[name] * torch.nan}, meta)
        with pytest.raises(StorageError, match=f"'{name}' has values that are NaN"):
            explainer_class(slug).load(path)


FORGED = {
    "width": ("pgexplainer", lambda meta: meta.update(width="wide"), "width is 'wide'"),
    "background": ("hpme", lambda meta: meta.update(background=[[1]]), "background is"),
    "classes": ("hpme", lambda meta: meta["facts"].update(classes=[1]), "classes is"),
    "return type": ("grad", lambda meta: meta["facts"].update(return_type="x"), "return_type 'x'"),
    "scale": ("hpme", lambda meta: meta["learned"]["task"].update(scale=0.0), "spread of outputs"),
    "report": ("hpme", lambda meta: meta["learned"]["report"].update(p_value=[1]), "unsupported"),
    "layers": ("hpme-printed", lambda meta: meta["learned"]["pool"].update(layers=65), "64 layers"),
    "rate": ("gnnexplainer", lambda meta: meta["config"].update(lr=1e300), "lr must be finite"),
    "channels": ("tagexplainer", lambda meta: meta["learned"].update(channels=0), "0.0 cannot"),
}


@pytest.mark.parametrize("what", FORGED)
def test_descriptions_that_cannot_be_used_are_refused(what, saved):
    slug, change, message = FORGED[what]
    path = rewritten(saved(slug), change)
    with pytest.raises(StorageError, match=message):
        explainer_class(slug).load(path)


def test_references_that_do_not_fit_are_refused(saved):
    path = saved("matchexplainer")
    tensors, meta = read_tensors(path)
    for sizes in (-tensors["sizes"], tensors["sizes"] + 1):
        write_tensors(path, {**tensors, "sizes": sizes}, meta)
        with pytest.raises(StorageError, match="references do not fit together"):
            explainer_class("matchexplainer").load(path)


def test_unknown_ways_of_weighting_are_refused(saved):
    path = rewritten(saved("grad"), lambda meta: meta.update(weighting="magic"))
    with pytest.raises(StorageError, match="weighting"):
        explainer_class("grad").load(path)


GREEDY = {
    "hpme": [("learned", "channels")],
    "hpme-printed": [("config", "pool_layers"), ("learned", "channels")],
    "pgexplainer": [("learned", "channels"), ("config", "hidden")],
    "tagexplainer": [("learned", "channels"), ("learned", "graph_channels")],
    "proxyexplainer": [("learned", "features")],
}


@pytest.mark.parametrize(("slug", "where"), [(s, w) for s in GREEDY for w in GREEDY[s]])
@pytest.mark.parametrize("size", [20_000, 10**9])
def test_sizes_are_compared_with_the_tensors_before_memory_is_taken(slug, where, size, saved):
    part, name = where
    path = rewritten(saved(slug), lambda meta: meta[part].update({name: size}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(StorageError):
        explainer_class(slug).load(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 * 1024  # KiB


def test_tensors_that_do_not_belong_together_are_refused(saved):
    path = saved("hpme")
    tensors, meta = read_tensors(path)
    name = next(name for name in tensors if name.startswith("host_") and "edge_index" in name)
    tensors[name] = tensors[name] + 10**6
    write_tensors(path, tensors, meta)
    with pytest.raises(StorageError, match="out of range"):
        explainer_class("hpme").load(path)


def test_deeply_nested_descriptions_are_refused(tmp_path):
    path = tmp_path / "deep.safetensors"
    nested = "[" * 100_000 + "]" * 100_000
    path.write_bytes(save({"a": torch.zeros(1)}, metadata={"hpme": nested}))
    with pytest.raises(StorageError):
        read_tensors(path)
