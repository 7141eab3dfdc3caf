import os
import signal
import stat
import subprocess
import sys
import threading
import time

import pytest
import torch
from safetensors.torch import save_file

from hpme.errors import InputError, StorageError
from hpme.storage import (
    FileContent,
    append_line,
    locked,
    read_tensors,
    sealed,
    unsealed,
    write_atomically,
    write_tensors,
)


def test_round_trip(tmp_path):
    base = torch.arange(6.0)
    tensors = {
        "strided": base.view(2, 3).t(),
        "scalar": torch.tensor(1.5, dtype=torch.float64),
        "none": torch.zeros(0, 4),
        "none too": torch.zeros(0),
        "bool": torch.tensor([True, False]),
        "long": torch.tensor([2**40]),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    meta = {"text": 'ü\n"', "list": [1, 2.5, None], "nested": {"a": True}}
    write_tensors(tmp_path / "file", tensors, meta)
    read, read_meta = read_tensors(str(tmp_path / "file"))
    assert read_meta == meta
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(read[name], tensor)
        assert read[name].dtype == tensor.dtype


def test_tensors_that_share_memory(tmp_path):
    base = torch.arange(6.0)
    tensors = {"a": base, "same": base, "view": base.view(3, 2), "part": base[2:4]}
    write_tensors(tmp_path / "file", tensors, {})
    read, _ = read_tensors(tmp_path / "file")
    for name, tensor in tensors.items():
        assert torch.equal(read[name], tensor)


def test_no_tensors_at_all(tmp_path):
    write_tensors(tmp_path / "file", {}, {"a": 1})
    assert read_tensors(tmp_path / "file") == ({}, {"a": 1})


def test_same_content_same_bytes(tmp_path):
    for name in ("a", "b"):
        write_tensors(tmp_path / name, {"x": torch.ones(3)}, {"b": 1, "a": 2})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_damaged_files(tmp_path):
    path = tmp_path / "file"
    write_tensors(path, {"x": torch.ones(100)}, {"a": 1})
    content = path.read_bytes()
    for size in (0, 4, 8, 20, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        with pytest.raises(StorageError, match="damaged or was not written by hpme"):
            read_tensors(path)
    with pytest.raises(StorageError, match=r"no file .*check the path"):
        read_tensors(tmp_path / "missing")


@pytest.mark.parametrize("description", [None, "{", "[1]", '"text"'])
def test_other_descriptions(tmp_path, description):
    metadata = None if description is None else {"hpme": description}
    save_file({"x": torch.ones(1)}, tmp_path / "file", metadata=metadata)
    with pytest.raises(StorageError, match="not written by hpme"):
        read_tensors(tmp_path / "file")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_others_may_read_what_the_umask_lets_them(tmp_path):
    (tmp_path / "plain").write_bytes(b"")
    write_atomically(tmp_path / "file", b"")
    modes = {stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    assert len(modes) == 1


def test_a_file_is_made_by_one_at_a_time(tmp_path):
    path, log = tmp_path / "new" / "file", []

    def make(name):
        with locked(path):
            log.append((name, "begins"))
            time.sleep(0.02)
            log.append((name, "ends"))

    threads = [threading.Thread(target=make, args=(name,)) for name in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(log) == 12
    for begun, ended in zip(log[::2], log[1::2], strict=True):
        assert (begun[0], begun[1], ended[1]) == (ended[0], "begins", "ends")
    assert not path.exists()


def test_a_lock_left_by_a_killed_process_is_free(tmp_path):
    path = tmp_path / "file"
    program = (
        "import os, signal, sys; from pathlib import Path; from hpme.storage import locked\n"
        "with locked(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(path)], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [item.name for item in tmp_path.iterdir()] == [".file.lock"]
    entered = threading.Event()

    def enter():
        with locked(path):
            entered.set()

    threading.Thread(target=enter, daemon=True).start()
    assert entered.wait(10)


def test_an_error_frees_the_lock(tmp_path):
    with pytest.raises(ValueError, match="x"), locked(tmp_path / "file"):
        raise ValueError("x")
    with locked(tmp_path / "file"):
        pass


def test_without_a_folder_to_lock_in_work_goes_on(tmp_path):
    (tmp_path / "file").write_text("")
    with locked(tmp_path / "file" / "below"):
        pass


def test_lines_are_added_behind_a_torn_one(tmp_path):
    path = tmp_path / "new" / "lines"
    append_line(path, b"one")
    append_line(path, b"two")
    assert path.read_bytes() == b"one\ntwo\n"
    path.write_bytes(b"one\ntw")
    append_line(path, b"three")
    assert path.read_bytes() == b"one\ntw\nthree\n"
    assert list(path.parent.iterdir()) == [path]


def test_lines_of_several_processes_stay_apart(tmp_path):
    path = tmp_path / "lines"
    program = (
        "import sys; from pathlib import Path; from hpme.storage import append_line\n"
        "for number in range(40):"
        "    append_line(Path(sys.argv[1]), (sys.argv[2] * 20_000 + str(number)).encode())"
    )
    other = subprocess.Popen([sys.executable, "-c", program, str(path), "a"])
    while not path.exists() and other.poll() is None:  # what it imports takes a while
        time.sleep(0.01)
    for number in range(40):
        append_line(path, ("b" * 20_000 + str(number)).encode())
    assert other.wait() == 0
    lines = path.read_text().splitlines()
    expected = [letter * 20_000 + str(number) for letter in "ab" for number in range(40)]
    assert sorted(lines) == sorted(expected)


def test_a_seal_shows_every_change():
    content = {"b": [1, {"c": None}], "a": "ü"}
    assert unsealed(sealed(content)) == content
    for changed in ({**sealed(content), "a": "u"}, {**sealed(content), "d": 1}, content):
        with pytest.raises(InputError, match="does not fit its sha256"):
            unsealed(changed)


def test_the_content_of_a_file_is_read_as_the_file(tmp_path):
    path = tmp_path / "file"
    write_tensors(path, {"x": torch.arange(5.0), "none": torch.zeros(0, 3)}, {"a": [1]})
    content = path.read_bytes()
    tensors, meta = read_tensors(FileContent("sent", content))
    assert meta == {"a": [1]} and tensors["none"].shape == (0, 3)
    assert torch.equal(tensors["x"], torch.arange(5.0))
    flipped = content[:-1] + bytes([content[-1] ^ 1])
    for damaged in (b"", content[:20], content[:-1], flipped):
        with pytest.raises(StorageError, match="'sent' is damaged"):
            read_tensors(FileContent("sent", damaged))
