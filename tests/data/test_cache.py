import os

import pytest
import torch

from hpme.data import DATASETS, load_dataset
from hpme.data.registry import default_root
from hpme.errors import InputError
from hpme.storage import read_tensors, write_tensors

NAME = "ba-2motifs"


@pytest.fixture
def builds(monkeypatch):
    """Counts how often the dataset is really built."""
    calls = []
    info = DATASETS[NAME]

    def build(*request):
        calls.append(request)
        return info.build(*request)

    counted = type(info)(**{**vars(info), "build": build})
    monkeypatch.setitem(DATASETS, NAME, counted)
    return calls


def stored(root):
    (path,) = (root / "datasets").glob("*.safetensors")
    return path


def same(first, second):
    pairs = zip(first._data.to_dict().items(), second._data.to_dict().items(), strict=True)
    return all(k == other and torch.equal(v, w) for (k, v), (other, w) in pairs)


def test_round_trip(tmp_path, builds):
    first = load_dataset(NAME, root=tmp_path, size=20)
    second = load_dataset(NAME, root=tmp_path, size=20)
    assert builds == [("paper", 0, 20)]
    assert same(first, second)
    assert first.slices.keys() == second.slices.keys()


@pytest.mark.parametrize("change", [{"seed": 1}, {"size": 21}, {"variant": "published"}])
def test_every_part_of_the_request_is_in_the_key(tmp_path, builds, change):
    request = {"size": 20, "root": tmp_path}
    load_dataset(NAME, **request)
    if change == {"variant": "published"}:
        with pytest.raises(InputError, match="exactly 1000"):  # built, not taken from the cache
            load_dataset(NAME, **request, **change)
    else:
        load_dataset(NAME, **{**request, **change})
    assert len(builds) == 2


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "damage",
    [
        truncate,
        flip_a_byte,
        lambda p: p.write_bytes(b""),
        lambda p: p.write_bytes(b"[" * 100_000),
        os.remove,
    ],
)
def test_damaged_files_are_built_anew(tmp_path, builds, damage):
    first = load_dataset(NAME, root=tmp_path, size=20)
    damage(stored(tmp_path))
    assert same(first, load_dataset(NAME, root=tmp_path, size=20))
    assert len(builds) == 2
    load_dataset(NAME, root=tmp_path, size=20)  # and the repaired cache is used
    assert len(builds) == 2


def test_a_wrong_file_under_the_right_name_is_not_used(tmp_path, builds):
    load_dataset(NAME, root=tmp_path, size=20)
    tensors, meta = read_tensors(stored(tmp_path))
    meta["request"]["seed"] = 5
    write_tensors(stored(tmp_path), tensors, meta)
    load_dataset(NAME, root=tmp_path, size=20)
    assert len(builds) == 2


def test_no_temporary_files_are_left(tmp_path):
    load_dataset(NAME, root=tmp_path, size=20)
    assert sorted(p.suffix for p in (tmp_path / "datasets").iterdir()) == [".safetensors"]


def test_a_cache_that_cannot_be_written_is_no_failure(tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("")
    assert len(load_dataset(NAME, root=blocked, size=20)) == 20
    assert "not cached" in caplog.text


def test_default_root(monkeypatch, tmp_path):
    monkeypatch.setenv("HPME_CACHE_DIR", str(tmp_path))
    assert default_root() == tmp_path
    load_dataset(NAME, size=20)
    assert stored(tmp_path).exists()
    monkeypatch.delenv("HPME_CACHE_DIR")
    assert default_root().name == "hpme"
