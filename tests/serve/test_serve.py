"""``hpme serve``: answers are those of the explainer, and nobody else may ask."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from typer.testing import CliRunner

from asking import Asker
from hpme.cli import app
from hpme.data import from_smiles
from hpme.serve import server as serving
from pages import decode, page_data

ACID = "CC(C)C(=O)O"
QUESTIONS = ["CCO", "c1ccccc1O", "CCN", "OCCO", ACID, "CCCCC", "O=CC", "NCCN", "CC(O)C", "C1CCOC1"]


def data_of(server, text, kind="text"):
    """What the page of an answer holds."""
    status, told = server.ask(text, kind)
    assert status == 200, told
    return page_data(server.answers.folder / f"{told['answer'].partition('/')[2]}.html")


def test_the_page_says_what_the_explainer_does(server, fitted):
    data = data_of(server, f"{ACID} isobutyric acid")
    assert data["names"] == ["isobutyric acid"] and data["smiles"] == [ACID]
    graph = from_smiles([ACID], [0], progress=False)[0]
    explanation = fitted.explainer.explain(fitted.model, [graph], progress=False)[0]
    quality = fitted.explainer.quality(fitted.model, [graph])[0]
    first = data["explainers"][0]
    assert first["sentences"] == [quality.sentence()] and first["verdicts"] == [quality.verdict]
    if quality.verdict != "absence":
        assert decode(first["pooled"]).tolist() == explanation.pooled.long().tolist()
    batch = torch.zeros(graph.num_nodes, dtype=torch.long)
    output = fitted.model(graph.x, graph.edge_index, batch).softmax(1)[0]
    assert decode(data["prediction"]).tolist() == pytest.approx(output.tolist(), abs=1e-4)
    changes = data["insight"]["changes"][0]
    assert changes and all(change["before"] != change["after"] for change in changes)


def test_a_table_and_several_lines(server):
    table = "smiles,name\nCCO,ethanol\nC1CC,open\nCCN,amine\n"
    status, told = server.ask(table, "csv")
    assert status == 200 and "row 3, 'C1CC': not valid SMILES" in told["note"]
    data = data_of(server, "CCO ethanol\nCCN")
    assert data["names"] == ["ethanol", "CCN"]


def test_a_graph_as_json(server):
    graph = from_smiles(["CCO"], [0], progress=False)[0]
    whole = {"x": graph.x.long().tolist(), "edge_index": graph.edge_index.tolist()}
    whole |= {"edge_attr": graph.edge_attr.tolist(), "name": "<b>mine</b>"}
    data = data_of(server, json.dumps(whole), "json")
    assert data["names"] == ["<b>mine</b>"] and data["smiles"] == [None]
    typed = data_of(server, "CCO")
    assert decode(data["prediction"]).tolist() == decode(typed["prediction"]).tolist()


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("text", "", "nothing is asked"),
        ("text", " \n ", "nothing is asked"),
        ("text", "C1CC", "not valid SMILES"),
        ("text", "C(C)(C)(C)(C)C", "valence"),
        ("text", "<script>alert(1)</script>", "not valid SMILES"),
        ("csv", "a,b\n1,2\n", "no column 'smiles'"),
        ("csv", "smiles\n", "no molecules"),
        ("json", "{", "no graph"),
        ("json", "[1]", "no graph"),
        ("json", '{"x": "much", "edge_index": [[0], [1]]}', ""),
        ("json", '{"x": [[1.0], [1.0, 2.0]]}', "no graph"),
        ("json", '{"x": [[1.0]], "edge_index": [[0], [7]]}', ""),
        ("json", '{"x": [[1.0]], "edge_index": [[0], [0]]}', ""),  # another width
        ("text", "C\n" * 21, "at most 20 graphs"),
        ("text", "C" * 6000, "5,000 nodes"),
    ],
)
def test_what_cannot_be_answered_is_told(server, kind, text, why):
    status, told = server.ask(text, kind)
    assert status == 400 and why in told["error"] and told["error"]
    assert server.request()[0] == 200


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"kind": "text"}', b"\xff", b"[" * 90_000])
def test_what_is_no_question(server, body):
    status, _, content = server.request("POST", "ask", body)
    assert status == 400 and b"a question is JSON" in content


def test_what_fails_in_the_model_ends_nothing(server, monkeypatch):
    def fail(x, edge_index, batch):
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(server.answers.model.model, "forward", fail)
    status, told = server.ask("CCO")
    assert status in (400, 500) and "by nothing" in told["error"]
    monkeypatch.undo()
    assert server.ask("CCO")[0] == 200


def test_a_large_body_is_refused_before_it_is_sent(server):
    connection = server.connect()
    connection.putrequest("POST", server.path + "ask")
    connection.putheader("Content-Length", str(50 << 20))
    connection.endheaders()
    reply = connection.getresponse()  # although nothing of the body was sent
    assert reply.status == 413 and b"at most 1,048,576 bytes" in reply.read()
    assert reply.headers["connection"] == "close"
    connection.close()


def test_a_large_body_is_refused_while_it_comes(server):
    connection, sent = server.connect(), 0
    connection.putrequest("POST", server.path + "ask")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    try:
        for _ in range(800):  # 50 MB
            connection.send(b"10000\r\n" + b" " * 65536 + b"\r\n")
            sent += 65536
    except OSError:
        assert sent < 40 << 20  # it was cut off
    else:
        pytest.fail("all of it was taken")
    finally:
        connection.close()
    assert server.request()[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "https://127.0.0.1", "null", "http://127.0.0.1", ""]
)
def test_no_page_of_another_origin(server, origin):
    for path in ("", "ask.js"):
        assert server.request(path=path, origin=origin)[0] == 403
    assert server.ask("CCO", origin=origin)[0] == 403
    assert server.request(origin=f"http://{server.host}")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:1", "localhost", ""])
def test_no_other_host(server, host):
    assert server.request(host=host)[0] in (400, 421)
    port = server.host.partition(":")[2]
    assert server.request(host=f"localhost:{port}")[0] == 200


@pytest.mark.parametrize("base", ["/", "/wrong/", "//", "/%00/", "/%C3%A9/"])
def test_nothing_without_the_token(server, base):
    for method, path in (("GET", ""), ("GET", "ask.js"), ("POST", "ask"), ("GET", "answer/1")):
        status, _, content = server.request(method, path, base=base)
        assert status == 404 and server.path.strip("/").encode() not in content


def test_paths_lead_nowhere_else(server):
    for path in ("ask.html", "../server.py", "..%2fserver.py", "answer/999", "answer/-1", "ask"):
        assert server.request(path=path)[0] in (404, 405)


def test_browsers_are_told_to_keep_it_to_themselves(server):
    _, headers, content = server.request()
    assert headers["referrer-policy"] == "no-referrer" and headers["cache-control"] == "no-store"
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers
    assert b"Ask Oxygens" in content and b"{{" not in content


def test_a_picture_of_what_is_typed(server):
    body = json.dumps({"kind": "text", "text": "CCO ethanol"})
    status, headers, content = server.request("POST", "picture", body)
    assert status == 200 and headers["content-type"] == "image/svg+xml" and b"<svg" in content
    body = json.dumps({"kind": "text", "text": "C1C"})
    assert server.request("POST", "picture", body)[0] == 400


def test_ten_at_once_are_answered_as_one_by_one(server):
    alone = [server.page(text) for text in QUESTIONS]
    with ThreadPoolExecutor(len(QUESTIONS)) as pool:
        together = list(pool.map(server.page, QUESTIONS))
    assert together == alone and len(set(alone)) == len(alone)


def test_old_answers_go(server, monkeypatch):
    monkeypatch.setattr(serving, "KEPT", 2)
    found = [server.ask("CCO")[1]["answer"] for _ in range(4)]
    kept = [server.request(path=path)[0] for path in found]
    monkeypatch.undo()
    assert kept[-1] == 200 and kept[0] == 404


def test_a_port_that_is_taken(fitted, monkeypatch):
    monkeypatch.chdir(fitted.folder)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        command = ["serve", "explainer.safetensors", "-m", "my_molecules:build", "--no-open"]
        result = CliRunner().invoke(app, [*command, "--port", str(port)])
    assert result.exit_code == 2 and f"port {port} cannot be used" in result.output


def test_wrong_usage(fitted, monkeypatch):
    monkeypatch.chdir(fitted.folder)
    invoke = CliRunner().invoke
    assert invoke(app, ["serve", "explainer.safetensors"]).exit_code == 2  # no model
    result = invoke(app, ["serve", "nothing.safetensors", "-m", "my_molecules:build"])
    assert result.exit_code == 1 and "nothing.safetensors" in result.output


def test_without_the_extra(fitted, monkeypatch):
    monkeypatch.chdir(fitted.folder)
    monkeypatch.delitem(sys.modules, "hpme.serve.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    command = ["serve", "explainer.safetensors", "-m", "my_molecules:build"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1 and "pip install 'hpme[serve]'" in result.output


def start(fitted, *options):
    """The command as a process of its own, and how to ask it."""
    line = ["serve", "explainer.safetensors", "-m", "my_molecules:build", "--no-open", *options]
    process = subprocess.Popen(
        [sys.executable, "-c", "from hpme.cli import main; main()", *line],
        cwd=fitted.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return process, Asker(process.stdout.readline().strip())


def test_a_killed_server_starts_again_and_ctrl_c_ends_it(fitted):
    process, first = start(fitted)
    port = first.host.partition(":")[2]
    assert re.fullmatch(r"/[\w-]{40,}/", first.path)
    connection = first.connect()  # stays open, so that the port is not simply free
    connection.request("GET", first.path)
    assert connection.getresponse().status == 200
    process.kill()
    process.communicate()
    process, second = start(fitted, "--port", port)
    assert second.host == first.host and second.path != first.path
    assert second.request(base=first.path)[0] == 404
    assert second.ask("CCO")[0] == 200
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0 and "Traceback" not in err
    assert second.path not in err  # nothing logs the token
