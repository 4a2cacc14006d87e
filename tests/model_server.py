"""A language model server for tests: it speaks the OpenAI protocol, well and badly, at once and slowly.

Its responses are planned in order, or computed from each request by ``respond``.
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

#: A part of a body that is never sent.
HANG = None


@dataclass
class PlannedResponse:
    """A planned answer of the server: parts of a body, sent one after another."""

    parts: Sequence[bytes | None]
    status: int = 200
    kind: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict)


def encode_event(data: Any) -> bytes:
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"


def encode_delta(finish: str | None = None, **fields: str) -> bytes:
    return encode_event({"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]})


def stream_answer(*texts: str, end: bytes = encode_event(b"[DONE]")) -> PlannedResponse:
    role = encode_event(
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
    )
    return PlannedResponse([role, *(encode_delta(content=text) for text in texts), encode_delta("stop"), end])


def make_completion(message: dict[str, Any], finish: str = "stop") -> PlannedResponse:
    body = {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}
    return PlannedResponse([json.dumps(body).encode()], kind="application/json; charset=utf-8")


def make_refusal(status: int, message: str, **headers: str) -> PlannedResponse:
    body = json.dumps({"error": {"message": message}}).encode()
    return PlannedResponse(
        [body], status, "application/json", {name.replace("_", "-"): value for name, value in headers.items()}
    )


def list_quoted_texts(request: dict[str, Any]) -> list[str]:
    """Return the document texts that a request quotes, in order."""
    user = request["messages"][-1]["content"]
    return [text_match[1] for text_match in re.findall(r"<<(\w+)\n(.*?)\n\1>>", user, re.S)]


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.planned_responses: list[PlannedResponse] = []
        self.respond: Callable[[dict[str, Any]], PlannedResponse] | None = None
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.client_left = threading.Event()  # a client disconnected before its answer ended
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
        respond = self.server.respond
        response = self.server.planned_responses.pop(0) if respond is None else respond(request)
        try:
            self.send_response(response.status)
            self.send_header("Content-Type", response.kind)
            for name, content in response.headers.items():
                self.send_header(name, content)
            self.end_headers()
            for part in response.parts:
                if part is None:
                    self._wait_for_disconnect()
                    return
                self.wfile.write(part)
                self.wfile.flush()
        except OSError:
            self.server.client_left.set()

    def _wait_for_disconnect(self) -> None:
        """Wait until the client disconnects or the test ends."""
        self.connection.settimeout(0.02)
        while not self.server.released.is_set():
            try:
                if not self.connection.recv(1):
                    self.server.client_left.set()
                    return
            except TimeoutError:
                continue

    def log_message(self, *_: Any) -> None:
        pass


def build_extract_answer(request: dict[str, Any], kind: str, write: Callable[[str], Any]) -> PlannedResponse:
    """Return an answer to EXTRACT with the result of ``write`` for each passage."""
    texts = list_quoted_texts(request)
    passages = [{"passage": number, kind: write(text)} for number, text in enumerate(texts, 1)]
    return stream_answer(json.dumps({"passages": passages}))


def answer_units(request: dict[str, Any]) -> PlannedResponse:
    """Return an answer with the sentences of each passage, in capitals."""
    return build_extract_answer(
        request, "units", lambda text: [f"{part.strip().upper()}." for part in text.split(".") if part.strip()]
    )


def answer_context(request: dict[str, Any]) -> PlannedResponse:
    """Return an answer with the first words of each passage, as a title and as a sentence."""

    def write(text: str) -> dict[str, str]:
        return {"title": " ".join(text.split()[:4]), "about": f"It is about {' '.join(text.split()[:9])}."}

    return build_extract_answer(request, "context", write)
