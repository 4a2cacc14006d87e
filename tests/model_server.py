"""A language model's server for tests: it speaks the OpenAI protocol, well and badly, at once and slowly.

What it answers is planned one by one, or made of each request by ``answering``.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-very-secret-0123456789"

#: A part of a body that never comes.
HANG = None


@dataclass
class Planned:
    """A planned answer of the server: parts of a body, sent one after another."""

    parts: Sequence[bytes | None]
    status: int = 200
    kind: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict)


def event(data: Any) -> bytes:
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


def delta(finish: str | None = None, **fields: str) -> bytes:
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


def stream(*texts: str, end: bytes = event(b"[DONE]")) -> Planned:
    first = event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]})
    return Planned([first, *(delta(content=text) for text in texts), delta("stop"), end])


def whole(message: dict[str, Any], finish: str = "stop") -> Planned:
    body = {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}
    return Planned([json.dumps(body).encode()], kind="application/json; charset=utf-8")


def refusal(status: int, said: str, **headers: str) -> Planned:
    body = json.dumps({"error": {"message": said}}).encode()
    return Planned(
        [body], status, "application/json", {name.replace("_", "-"): value for name, value in headers.items()}
    )


def list_quoted_texts(request: dict[str, Any]) -> list[str]:
    """The texts of documents that a request quotes, in order."""
    user = request["messages"][-1]["content"]
    return [found[1] for found in re.findall(r"<<(\w+)\n(.*?)\n\1>>", user, re.S)]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.planned: list[Planned] = []
        self.answering: Callable[[dict[str, Any]], Planned] | None = None
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.left = threading.Event()  # a client has gone while it was answered
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(request)
        self.server.keys.append(self.headers["Authorization"])
        assert self.path == "/v1/chat/completions"
        answering = self.server.answering
        planned = self.server.planned.pop(0) if answering is None else answering(request)
        try:
            self.send_response(planned.status)
            self.send_header("Content-Type", planned.kind)
            for name, content in planned.headers.items():
                self.send_header(name, content)
            self.end_headers()
            for part in planned.parts:
                if part is None:
                    self._wait()
                    return
                self.wfile.write(part)
                self.wfile.flush()
        except OSError:
            self.server.left.set()

    def _wait(self) -> None:
        """Until the client goes, or the test is over."""
        self.connection.settimeout(0.02)
        while not self.server.released.is_set():
            try:
                if not self.connection.recv(1):
                    self.server.left.set()
                    return
            except TimeoutError:
                continue

    def log_message(self, *_: Any) -> None:
        pass


def build_extract_answer(request: dict[str, Any], kind: str, write: Callable[[str], Any]) -> Planned:
    """An answer to EXTRACT, with what ``write`` makes of each passage."""
    texts = list_quoted_texts(request)
    passages = [{"passage": number, kind: write(text)} for number, text in enumerate(texts, 1)]
    return stream(json.dumps({"passages": passages}))


def units_of(request: dict[str, Any]) -> Planned:
    """An answer with the sentences of each passage, in capitals."""
    return build_extract_answer(
        request, "units", lambda text: [f"{part.strip().upper()}." for part in text.split(".") if part.strip()]
    )


def context_of(request: dict[str, Any]) -> Planned:
    """An answer with the first words of each passage, as a title and as a sentence."""

    def write(text: str) -> dict[str, str]:
        return {"title": " ".join(text.split()[:4]), "about": f"It is about {' '.join(text.split()[:9])}."}

    return build_extract_answer(request, "context", write)
