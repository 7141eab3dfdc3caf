"""Questions from browsers of this machine: who may ask, what, and how much."""

from __future__ import annotations

import asyncio
import html
import itertools
import logging
import os
import secrets
import socket
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Any

import torch
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from hpme.errors import HPMEError, InputError, short_of_memory
from hpme.storage import read_json
from hpme.viz.molecules import sketch

logger = logging.getLogger("hpme")
HERE = "127.0.0.1"
LIMIT, KEPT = 1 << 20, 100
"""Bytes of a question, and answers that can be looked at again."""
SCRIPT = "text/javascript"
FILES = {"": "text/html", "ask.css": "text/css", "ask.js": SCRIPT, "openchemlib.js": SCRIPT}
HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",  # the address holds the token
    "x-content-type-options": "nosniff",
    "cross-origin-resource-policy": "same-origin",
    "x-frame-options": "SAMEORIGIN",
}
POLICY = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; frame-src 'self'; img-src blob: data:; base-uri 'none'; form-action 'none'"
}
Answer = Callable[[str, str, int], tuple[Path, str]]
"""From kind, text and number of a question to the page that answers it, and what else is said."""


def listen(port: int) -> socket.socket:
    """A port that only this machine reaches; one that is free, if it is 0."""
    found = socket.socket()
    if os.name == "posix":  # else a port would stay taken for a minute after its server
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((HERE, port))
        found.listen(128)
    except OSError as error:
        found.close()
        raise InputError(
            f"port {port} cannot be used ({error.strerror}); give another, or none for a free one"
        ) from error
    return found


class LocalServer:
    """Has questions answered, one after the other, and keeps the last answers.

    Lets in who knows the token of its address, and no page of another address: somebody may point
    another name at this machine. ``texts`` fill in the page that questions are typed into.
    """

    def __init__(
        self, listening: socket.socket, answer: Answer, texts: dict[str, str], threads: int = 1
    ) -> None:
        port, self.token = listening.getsockname()[1], secrets.token_urlsafe(32)
        self.hosts = {f"{HERE}:{port}", f"localhost:{port}"}
        self.address, self.listening = f"http://{HERE}:{port}/{self.token}/", listening
        self.answer, self.numbers, self.pages = answer, itertools.count(1), dict[int, Path]()
        # One thread asks the model: hooks and frozen weights are not for two at once.
        start = partial(torch.set_num_threads, threads)
        self.worker = ThreadPoolExecutor(1, "hpme-answers", initializer=start)
        folder = resources.files("hpme.serve")
        self.files = {name: (folder / (name or "ask.html")).read_text("utf-8") for name in FILES}
        for name, text in texts.items():
            self.files[""] = self.files[""].replace("{{" + name + "}}", html.escape(text))
        routes = [
            Route("/{token}/ask", self._ask, methods=["POST"]),
            Route("/{token}/picture", self._picture, methods=["POST"]),
            Route("/{token}/answer/{number:int}", self._page),
            Route("/{token}/{name:path}", self._file),
        ]
        self.app = Starlette(routes=routes, exception_handlers={HTTPException: _told})
        # A log of requests would hold the token.
        settings = uvicorn.Config(
            self, http="h11", ws="none", lifespan="off", proxy_headers=False, access_log=False,
            log_level="warning", limit_concurrency=100, timeout_graceful_shutdown=5,
        )  # fmt: skip
        self.server = uvicorn.Server(settings)

    def run(self) -> None:
        """Answers until Ctrl-C, or until ``server.should_exit`` is set."""
        with self.worker, suppress(KeyboardInterrupt):
            self.server.run(sockets=[self.listening])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or refuses it before anything of its body is read."""

        async def headed(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refused = self._refused(Headers(scope=scope), scope["path"].strip("/").partition("/")[0])
        app = self.app if refused is None else await _told(Request(scope), refused)
        await app(scope, receive, headed)

    def _refused(self, headers: Headers, token: str) -> HTTPException | None:
        if headers.get("host") not in self.hosts:
            return HTTPException(421, "this server has another address")
        if headers.get("origin") not in {None, *(f"http://{host}" for host in self.hosts)}:
            return HTTPException(403, "only the page of this server may ask")
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            return HTTPException(404, "there is nothing here; use the address that was printed")
        return None

    async def _file(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in FILES:
            raise HTTPException(404, "there is nothing here")
        return Response(self.files[name], media_type=FILES[name], headers=POLICY)

    async def _ask(self, request: Request) -> Response:
        question, number = await _question(request), next(self.numbers)
        path, note = await _in_thread(self.worker, self.answer, *question, number)
        self.pages[number] = path
        while len(self.pages) > KEPT:
            self.pages.pop(next(iter(self.pages))).unlink(missing_ok=True)
        return JSONResponse({"answer": f"answer/{number}", "note": note})

    async def _picture(self, request: Request) -> Response:
        _, text = await _question(request)  # it need not wait for answers, as the model does
        drawn = await _in_thread(None, sketch, (text.split() or [""])[0])
        return Response(drawn, media_type="image/svg+xml")

    async def _page(self, request: Request) -> Response:
        path = self.pages.get(request.path_params["number"])
        if path is None:
            raise HTTPException(404, "this answer is not kept any more; ask again")
        return Response(path.read_bytes(), media_type="text/html")  # it has a policy of its own


async def _question(request: Request) -> tuple[str, str]:
    """Kind and text of a question; never more of it is read than is allowed."""
    more = f"a question has at most {LIMIT:,} bytes; hpme explain and hpme apply read larger files"
    too_long = HTTPException(413, more, {"connection": "close"})
    if int(request.headers.get("content-length", 0)) > LIMIT:
        raise too_long
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > LIMIT:
            raise too_long
    try:
        found = read_json(bytes(body))
        return str(found["kind"]), str(found["text"])
    except (ValueError, TypeError, KeyError) as error:
        raise HTTPException(400, f"a question is JSON with kind and text: {error!r}") from error


async def _in_thread(worker: Executor | None, function: Callable[..., Any], *given: Any) -> Any:
    """What a function returns; what goes wrong is told, and ends nothing."""
    try:
        return await asyncio.get_running_loop().run_in_executor(worker, function, *given)
    except HPMEError as error:
        raise HTTPException(400, str(error)) from error
    except Exception as error:
        logger.warning("a question failed: %r", error)
        why = "memory is too short" if short_of_memory(error) else f"this failed: {error!r}"
        raise HTTPException(500, f"{why}; ask about less, or about other graphs") from error


async def _told(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
