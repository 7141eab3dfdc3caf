"""Asks a server, as a browser would or as nobody should."""

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Asker:
    """A running server.

    Args:
        address: What it printed.
        answers: What answers there, if that is known here.
    """

    address: str
    answers: Any = None

    def __post_init__(self):
        self.host, self.path = urlsplit(self.address).netloc, urlsplit(self.address).path

    def connect(self):
        return http.client.HTTPConnection(self.host, timeout=300)

    def request(self, method="GET", path="", body=None, base=None, **headers):
        """Status, headers and content of a reply."""
        connection = self.connect()
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            base = self.path if base is None else base
            connection.request(method, base + path, body, given)
            reply = connection.getresponse()
            return reply.status, reply.headers, reply.read()
        finally:
            connection.close()

    def ask(self, text, kind="text", **headers):
        """Status and what the reply says."""
        body = json.dumps({"kind": kind, "text": text})
        status, _, content = self.request("POST", "ask", body, **headers)
        return status, json.loads(content)

    def page(self, text, kind="text"):
        """The page that answers a question."""
        status, told = self.ask(text, kind)
        assert status == 200, told
        status, _, content = self.request(path=told["answer"])
        assert status == 200
        return content.decode()
