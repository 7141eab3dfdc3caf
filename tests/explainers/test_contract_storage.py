"""Saved explainers explain as before, in another process; nothing is ever unpickled."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from contract import SLUGS, call, fitted, make_explainer
from hpme.errors import StorageError
from hpme.explainers import explainer_class
from hpme.storage import read_tensors, write_tensors

slugs = pytest.mark.parametrize("slug", SLUGS)
HERE = Path(__file__).parents[1] / "support"
LOAD_AND_EXPLAIN = """
import sys
sys.path.insert(0, sys.argv[1])
from contract import SLUGS, call, make_graphs, make_target
from torch_geometric.data import Batch
from hpme.explainers import explainer_class
from hpme.storage import write_tensors
batch, masks = Batch.from_data_list(make_graphs()), {}
for slug in SLUGS:
    explainer = explainer_class(slug).load(f"{sys.argv[2]}/{slug}.safetensors")
    masks[slug] = call(explainer, make_target("gcn", slug), batch).edge_mask
write_tensors(f"{sys.argv[2]}/masks.safetensors", masks, {})
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("explainers")
    for slug in SLUGS:
        fitted(slug).explainer.save(folder / f"{slug}.safetensors")
    return folder


def test_identical_masks_in_a_fresh_process(folder):
    command = [sys.executable, "-c", LOAD_AND_EXPLAIN, str(HERE), str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=environment)
    masks, _ = read_tensors(folder / "masks.safetensors")
    for slug in SLUGS:
        case = fitted(slug)
        assert torch.equal(masks[slug], call(case.explainer, case.model, case.batch).edge_mask)


@slugs
def test_file_is_safetensors_with_a_json_description(slug, folder):
    with safe_open(folder / f"{slug}.safetensors", framework="pt") as file:
        meta = json.loads(file.metadata()["hpme"])
    explainer = fitted(slug).explainer
    assert meta["explainer"] == slug
    assert meta["config"] == json.loads(json.dumps(explainer.config()))
    loaded = explainer_class(slug).load(folder / f"{slug}.safetensors")
    assert loaded.fitted
    assert loaded.weighting == explainer.weighting
    assert loaded.config() == explainer.config()
    loaded.save(folder / "again.safetensors")
    again = (folder / "again.safetensors").read_bytes()
    assert again == (folder / f"{slug}.safetensors").read_bytes()


@slugs
def test_what_codes_were_met_is_saved(slug, tmp_path):
    case = fitted(slug, "coded")
    case.explainer.save(tmp_path / "file")
    loaded = explainer_class(slug).load(tmp_path / "file")
    masks = [call(e, case.model, case.batch).edge_mask for e in (case.explainer, loaded)]
    assert torch.equal(*masks)


@slugs
def test_loaded_explainer_can_be_fitted_again(slug, folder):
    case = fitted(slug)
    loaded = explainer_class(slug).load(folder / f"{slug}.safetensors")
    loaded.fit(case.model, case.graphs, progress=False)
    masks = [call(e, case.model, case.batch).edge_mask for e in (case.explainer, loaded)]
    assert torch.equal(*masks)


class Trap:
    """Creates a file when unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@slugs
def test_other_files_are_refused(slug, folder, tmp_path):
    cls, good = explainer_class(slug), (folder / f"{slug}.safetensors").read_bytes()
    path = tmp_path / "file"
    with pytest.raises(StorageError, match=r"no file.*check the path"):
        cls.load(path)
    with pytest.raises(StorageError, match="no file"):
        cls.load(tmp_path)
    torch.save(Trap(tmp_path / "unpickled"), path)
    with pytest.raises(StorageError, match="damaged or was not written by hpme"):
        cls.load(path)
    assert not (tmp_path / "unpickled").exists()
    for content in (b"", b"{}", b"hello world, no tensors here", good[: len(good) // 2], good[:-1]):
        path.write_bytes(content)
        with pytest.raises(StorageError, match="damaged or was not written by hpme"):
            cls.load(path)
    save_file({"x": torch.ones(2)}, path)
    with pytest.raises(StorageError, match="not written by hpme"):
        cls.load(path)


@slugs
def test_other_explainers_and_versions_are_refused(slug, folder, tmp_path):
    cls, path = explainer_class(slug), tmp_path / "file"
    tensors, meta = read_tensors(folder / f"{slug}.safetensors")
    write_tensors(path, tensors, {**meta, "explainer": "other"})
    with pytest.raises(StorageError, match=f"holds a 'other' explainer, not '{slug}'"):
        cls.load(path)
    for tensors_, meta_ in (
        (tensors, {**meta, "config": {**meta["config"], "no_such_option": 1}}),
        (tensors, {"explainer": slug}),
        ({**tensors, "extra": torch.ones(1)}, meta),
    ):
        write_tensors(path, tensors_, meta_)
        with pytest.raises(StorageError, match=r"(?s)another version of hpme.*fit and save again"):
            cls.load(path)


@slugs
def test_saving_creates_folders_and_replaces_files(slug, tmp_path):
    path = tmp_path / "a" / "b" / "explainer.safetensors"
    case = fitted(slug)
    case.explainer.save(str(path))
    path.write_bytes(b"old")
    case.explainer.save(path)
    explainer_class(slug).load(path)
    assert [p.name for p in path.parent.iterdir()] == [path.name]


def test_random_needs_no_fit_to_be_saved(tmp_path):
    make_explainer("random", seed=5).save(tmp_path / "random")
    assert explainer_class("random").load(tmp_path / "random").seed == 5
