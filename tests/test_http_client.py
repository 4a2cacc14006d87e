"""The line to a model's endpoint: proxies, certificates, kept connections, limits, threads, forks; no key is shown."""

from __future__ import annotations

import gzip
import json
import logging
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore import errors
from kvstore.models import endpoint, http_client
from kvstore.models.embedder import open_embedder
from kvstore.models.llm import LanguageModel
from kvstore.models.timeouts import Timeouts

CERTIFICATES = Path(__file__).parent / "certificates"
KEY = "sk-very-secret-0123456789"
ASKED = [{"role": "user", "content": "How long?"}]
CHUNK = b'data: {"choices": [{"delta": {"content": "Twenty."}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'


class Handler(BaseHTTPRequestHandler):
    """A server of both protocols that keeps the connection open."""

    protocol_version = "HTTP/1.1"
    server: Server

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.paths.append(self.path)
        self.server.cookies.append(self.headers["Cookie"])
        self.server.connections.add(self.client_address)
        if self.server.answer is not None:
            self.server.answer(self)
            return
        if self.path.endswith("/embeddings"):
            rows = [{"index": at, "embedding": [1.0, 2.0]} for at, _ in enumerate(json.loads(body)["input"])]
            self.send_response_with_body("application/json", gzip.compress(json.dumps({"data": rows}).encode()), "gzip")
        else:
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.send_header("Set-Cookie", "session=1")
            self.end_headers()
            self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(CHUNK), CHUNK))

    def send_response_with_body(self, kind: str, body: bytes, encoding: str = "identity", status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Encoding", encoding)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.paths: list[str] = []
        self.cookies: list[str | None] = []
        self.connections: set[Any] = set()
        self.answer: Callable[[Handler], None] | None = None
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, *_: Any) -> None:
        pass  # a client that goes is what these tests are about


@contextmanager
def run_server(certificate: Path | None = None) -> Iterator[Server]:
    with Server() as server:
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            server.socket = context.wrap_socket(server.socket, server_side=True)
            server.url = server.url.replace("http:", "https:")
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in http_client._ENVIRONMENT_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(endpoint, "FIRST_PAUSE", 0.001)


@pytest.fixture
def server() -> Iterator[Server]:
    with run_server() as server:
        yield server


def make_model(server: Server, **timeouts: Any) -> LanguageModel:
    limits = {"connect": 5.0, "first_part": 5.0, "next_part": 5.0, "total": 5.0, "attempts": 1} | timeouts
    return LanguageModel("tiny", timeouts=Timeouts(**limits), base_url=server.url)


def embed_texts(url: str, **options: Any) -> Any:
    return open_embedder("openai:small", base_url=url, attempts=1, **options).embed(["text"])


def test_without_the_extra_the_error_names_it(
    store: kvstore.Store, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put("leave", "Parental leave lasts twenty weeks.")
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(errors.EmbedderError, match=r"needs httpx; pip install 'kvstore-db\[llm\]'"):
        embed_texts(server.url)
    store.set("base_url", server.url)
    with pytest.raises(errors.ModelError, match=r"'tiny'.* needs httpx; pip install 'kvstore-db\[llm\]'"):
        store.ask("How long does parental leave last?", model="tiny")


def test_a_connection_serves_one_request_after_the_other(server: Server) -> None:
    language_model = make_model(server)
    for _ in range(3):
        assert language_model.write(ASKED).text == "Twenty."
        assert embed_texts(server.url).shape == (1, 2)
    assert len(server.paths) == 6
    assert len(server.connections) == 1
    assert set(server.cookies) == {None}


def test_threads_ask_at_the_same_time(server: Server) -> None:
    all_there = threading.Barrier(4)

    def answer(handler: Handler) -> None:
        all_there.wait(10)  # none is answered before all have arrived
        handler.send_response_with_body("text/event-stream", CHUNK)

    server.answer = answer
    language_model = make_model(server)
    with ThreadPoolExecutor(4) as threads:
        assert [written.text for written in threads.map(language_model.write, [ASKED] * 4)] == ["Twenty."] * 4


def test_a_proxy_of_the_environment_is_used(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", server.url.removesuffix("/v1"))
    assert embed_texts("http://models.invalid/v1").shape == (1, 2)
    assert server.paths == ["http://models.invalid/v1/embeddings"]
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert embed_texts(server.url).shape == (1, 2)
    assert server.paths[1:] == ["/v1/embeddings"]


@pytest.mark.parametrize(
    ("proxy", "message"),
    [
        (f"ftp://user:{KEY}@host", "ALL_PROXY or NO_PROXY is invalid"),
        (f"http://user:{KEY}@host:port", "ALL_PROXY or NO_PROXY is invalid"),
        (f"socks5://user:{KEY}@host", r"needs the package socksio; run pip install 'httpx\[socks\]'"),
        (f"http://user:{KEY}@127.0.0.1:9", "no answer after 1 attempt .*refused"),
    ],
)
def test_an_unusable_proxy_is_reported_without_its_password(
    monkeypatch: pytest.MonkeyPatch, proxy: str, message: str
) -> None:
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(errors.EmbedderError, match=message) as raised:
        embed_texts("http://models.invalid/v1")
    assert KEY not in str(raised.value)
    assert raised.value.__context__ is None


def test_a_certificate_is_trusted_if_the_environment_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with run_server(CERTIFICATES / "localhost.pem") as server:
        with pytest.raises(errors.EmbedderError, match=r"certificate is not trusted \(self-signed .*SSL_CERT_FILE"):
            embed_texts(server.url)
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "authority.pem"))
        assert embed_texts(server.url).shape == (1, 2)
        assert make_model(server).write(ASKED).text == "Twenty."
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATES / "missing.pem"))
        with pytest.raises(errors.EmbedderError, match="certificates that SSL_CERT_FILE, SSL_CERT_DIR name cannot be"):
            embed_texts(server.url)


def send_drops(handler: Handler, head: bytes, chunk: bytes) -> None:
    """Send one byte after another, each before its timeout, as long as the client listens."""
    handler.wfile.write(head)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        handler.wfile.write(chunk)
        time.sleep(0.01)


STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"


@pytest.mark.parametrize(
    ("first", "chunk", "timeouts"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"X-A: 1\r\n", {"connect": 0.2, "first_part": 0.2}),
        (STREAM, b": wait\n\n", {"first_part": 0.3}),
        (STREAM, b": wait\n\n", {"total": 0.3}),
        (STREAM + CHUNK.partition(b"data: [DONE]")[0].replace(b'"stop"', b"null"), b": wait\n\n", {"next_part": 0.3}),
    ],
)
def test_an_answer_of_slow_drops_times_out(
    server: Server, limit_cpu_time: Callable[[float], None], first: bytes, chunk: bytes, timeouts: dict[str, float]
) -> None:
    limit_cpu_time(10)
    server.answer = lambda handler: send_drops(handler, first, chunk)
    with pytest.raises(errors.ModelUnavailableError, match="timed out"):
        make_model(server, **timeouts).write(ASKED)


def start_dripping(server: Server, head: bytes, chunk: bytes) -> list[bool]:
    """Let a server send drops for 30 seconds, and return a list that gets an entry after the last drop."""
    ended: list[bool] = []

    def send_answer(handler: Handler) -> None:
        send_drops(handler, head, chunk)
        ended.append(True)

    server.answer = send_answer
    return ended


@pytest.mark.slow
@pytest.mark.parametrize(("texts", "seconds"), [(1, 1.5), (128, 3.0)])
def test_an_attempt_to_embed_ends_by_the_number_of_texts_however_the_answer_drips(
    server: Server, texts: int, seconds: float
) -> None:
    ended = start_dripping(server, b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", b" ")
    embedder = open_embedder("openai:small", base_url=server.url, attempts=1, timeout=1.5)
    started = time.monotonic()
    with pytest.raises(errors.EmbedderError, match="no answer after 1 attempt .*timed out"):
        embedder.embed(["text"] * texts)
    assert time.monotonic() - started >= seconds
    assert not ended


def test_an_error_that_drips_is_read_no_longer_than_a_part_may_take(server: Server) -> None:
    ended = start_dripping(server, b"HTTP/1.1 503 Busy\r\nContent-Type: text/plain\r\n\r\n", b"busy ")
    with pytest.raises(errors.ModelUnavailableError, match="status 503: busy"):
        make_model(server, next_part=1.5, total=60.0).write(ASKED)
    assert not ended


def test_an_endless_answer_is_cut_off(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_client, "MAX_JSON_BYTES", 1 << 20)
    server.answer = lambda handler: send_drops(
        handler, b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[", b"1," * (1 << 17)
    )
    with pytest.raises(errors.EmbedderError, match="answer is longer than 1 MiB"):
        embed_texts(server.url)


def test_logs_do_not_contain_a_key_that_the_server_repeats(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    def send_key(handler: Handler) -> None:
        handler.responses = {401: (KEY, KEY)}  # type: ignore[dict-item]
        handler.send_response_with_body(f"text/{KEY}", KEY.encode(), status=401)

    server.answer = send_key
    caplog.set_level(logging.DEBUG)
    with pytest.raises(errors.EmbedderError, match="status 401") as raised:
        embed_texts(server.url, api_key=KEY)
    assert KEY not in caplog.text + str(raised.value)
    logging.getLogger("httpx").info("of the application's own")
    assert "of the application's own" in caplog.text


def test_an_abandoned_answer_can_be_closed_by_the_thread_of_all_requests(server: Server) -> None:
    """The garbage collector runs in any thread; in this one it cannot wait for the end of a request."""
    pieces = make_model(server).stream_pieces(ASKED)
    next(pieces)
    loop = http_client._get_connections()._loop
    closed = threading.Event()
    loop.call_soon_threadsafe(lambda: (pieces.close(), closed.set()))
    assert closed.wait(5)
    assert make_model(server).write(ASKED).text == "Twenty."


def test_a_forked_child_opens_its_own_connection(server: Server) -> None:
    code = (
        "import os, sys\n"
        "from kvstore.models.embedder import open_embedder\n"
        "embedder = open_embedder('openai:small', base_url=sys.argv[1], attempts=1)\n"
        "embedder.embed(['parent'])\n"
        "child = os.fork()\n"
        "vectors = embedder.embed(['both'])\n"
        "if child == 0:\n"
        "    os._exit(7)\n"
        "assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7\n"
    )
    process = subprocess.run(
        # Since Python 3.12, os.fork warns of threads.
        [sys.executable, "-W", "error::ResourceWarning", "-W", "ignore::DeprecationWarning", "-c", code, server.url],
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stderr) == (0, "")
    assert len(server.paths) == 3
    assert len(server.connections) == 2
