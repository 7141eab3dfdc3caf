"""Where published files come from: the user's folder, the cache, the network."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hpme.data.info import DataFile
from hpme.errors import StorageError

CONTENT = b"mol_id,smiles\nwater,O\n" * 20_000


class Handler(BaseHTTPRequestHandler):
    """Serves what the test put into ``server.answers``; other paths do not exist."""

    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path not in self.server.answers:
            self.send_error(404)
            return
        body, announced = self.server.answers[self.path]
        self.send_response(200)
        self.send_header("Content-Length", str(announced))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.answers, server.asked = {}, []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("HPME_MIRROR_URL", f"http://127.0.0.1:{server.server_port}/mirror/")
    monkeypatch.delenv("HPME_DATA_DIR", raising=False)
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def file():
    return DataFile(
        name="some.csv",
        folder="molecules",
        base="https://upstream.invalid/repository",
        path="data/some.csv",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
    )


def serve(server, body, announced=None):
    server.answers["/mirror/data/some.csv"] = (body, announced or len(body))


def files_in(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_fetched_once_and_then_cached(server, file, tmp_path):
    serve(server, CONTENT)
    path = file.locate(tmp_path)
    assert path.read_bytes() == CONTENT
    assert files_in(tmp_path) == [path]
    server.answers.clear()
    assert file.locate(tmp_path) == path
    assert server.asked == ["/mirror/data/some.csv"]


@pytest.mark.parametrize("damage", [CONTENT[:1000], b"x" + CONTENT[1:], b""])
def test_damaged_cache_is_fetched_again(server, file, tmp_path, caplog, damage):
    serve(server, CONTENT)
    path = file.locate(tmp_path)
    path.write_bytes(damage)
    assert file.locate(tmp_path).read_bytes() == CONTENT
    assert len(server.asked) == 2
    assert "damaged" in caplog.text


@pytest.mark.parametrize(
    ("body", "announced", "message"),
    [
        (b"x" + CONTENT[1:], None, "is not 'some.csv' as published"),
        (CONTENT + b"more", None, "is not 'some.csv' as published"),
        (CONTENT[:100_000], len(CONTENT), "cannot be fetched"),
        (CONTENT[:100_000], None, "is not 'some.csv' as published"),
    ],
    ids=["other content", "too long", "cut connection", "too short"],
)
def test_what_is_not_the_file_is_refused(server, file, tmp_path, body, announced, message):
    serve(server, body, announced)
    with pytest.raises(StorageError, match=message):
        file.locate(tmp_path)
    assert files_in(tmp_path) == []


def test_a_failed_download_names_the_file_its_source_and_where_to_put_it(server, file, tmp_path):
    with pytest.raises(StorageError) as error:
        file.locate(tmp_path)
    message = str(error.value)
    cached = tmp_path / "files" / "molecules" / "some.csv"
    for part in ("some.csv", file.url, "404", "$HPME_DATA_DIR/molecules/some.csv", str(cached)):
        assert part in message


def test_offline(file, tmp_path, monkeypatch):
    monkeypatch.delenv("HPME_DATA_DIR", raising=False)
    monkeypatch.setenv("HPME_MIRROR_URL", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with pytest.raises(StorageError, match="cannot be fetched from http://127"):
        file.locate(tmp_path)
    monkeypatch.setenv("HPME_MIRROR_URL", "file:///etc")
    with pytest.raises(StorageError, match="no web address"):
        file.locate(tmp_path)
    monkeypatch.delenv("HPME_MIRROR_URL")
    assert file.url == "https://upstream.invalid/repository/data/some.csv"


@pytest.mark.parametrize("folder", ["", "molecules"])
def test_the_users_own_copy_comes_first(server, file, tmp_path, monkeypatch, folder):
    own = tmp_path / "own" / folder / "some.csv"
    own.parent.mkdir(parents=True)
    own.write_bytes(CONTENT)
    monkeypatch.setenv("HPME_DATA_DIR", str(tmp_path / "own"))
    assert file.locate(tmp_path / "cache") == own
    own.write_bytes(CONTENT[:-1])
    with pytest.raises(StorageError, match="is not the published file"):
        file.locate(tmp_path / "cache")
    assert own.read_bytes() == CONTENT[:-1]  # never overwritten
    assert server.asked == []


def test_a_cache_that_cannot_be_written(server, file, tmp_path):
    serve(server, CONTENT)
    blocked = Path(tmp_path, "root")
    blocked.write_text("a file, not a folder")
    with pytest.raises(StorageError, match="HPME_CACHE_DIR"):
        file.locate(blocked)
