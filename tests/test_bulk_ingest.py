"""Bulk ingest: workers give what one process gives, and what happens to them costs a file, not the ingest."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgpack
import numpy as np
import pytest

import kvstore
from kvstore import errors
from kvstore.changes.dump import dump
from kvstore.extraction.extraction import extract
from kvstore.extraction.validation import MAX_TEXT_BYTES
from kvstore.ingest.document_batch import BATCH_CHUNKS
from kvstore.ingest.file_documents import Failure, FileDocument
from kvstore.ingest.sources import Source
from kvstore.ingest.transport import Inbox, frame_message
from kvstore.models.openai_embedder import OpenAIEmbedder
from kvstore.models.packaged_embedder import get_weights_digest
from kvstore.readers import SkippedPart
from kvstore.settings import FixedSettings

MakeStore = Callable[..., kvstore.Store]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "harbours"
    root.mkdir()
    for number in range(40):
        (root / f"{number:02}.md").write_text(f"# Pier {number}\n\nPort Ellen built Pier {number} for Captain Reid.\n")
    rows = [{"id": f"row-{number}", "text": f"Captain Reid wrote letter {number}."} for number in range(100)]
    (root / "30.jsonl").write_text("\n".join(map(json.dumps, [*rows, {"id": "row-3", "text": "Twice."}])))
    (root / "latin.txt").write_bytes(b"caf\xe9")
    (root / "empty.txt").write_text("")
    (root / "kinds.csv").write_text("id,text,year\na,A tug is a ship,1900\nb,too,many,cells\n")
    return root


def dump_store(store: kvstore.Store) -> list[str]:
    with store.state() as state:
        return [str(line) for line in dump(state)]


def test_messages_arrive_as_they_were_sent_however_they_are_cut(store: kvstore.Store) -> None:
    text = "# Pier\n\nPort Ellen stands at the Pier.\n\n- one\n- two\n\n## Reid\n\nCaptain Reid, again."
    extracted = extract("k", text, store.settings, title="T", meta={"a": [1, {"b": None}]}, format="markdown")
    vectors = np.arange(8, dtype=np.float32).reshape(2, 4)
    document = FileDocument("k", "a place", b"0123", extracted)
    messages = [
        ("found", 3, document),
        ("found", 4, Failure("\udcff", "why")),
        [(1, 0, Source("/a/b\udcff", "b", None, None, "/a/b\\xff"))],
        (store.settings,),
    ]
    data = b"".join(map(frame_message, messages))
    for step in (1, 7, len(data)):
        inbox = Inbox()
        received = [m for start in range(0, len(data), step) for m, _ in inbox.feed(data[start : start + step])]
        assert received == messages
    (_, unpacked), _ = Inbox().feed(frame_message(("vectors", vectors)))[0]
    assert np.array_equal(unpacked, vectors)
    with pytest.raises(ValueError, match="cannot be sent between processes"):
        frame_message(print)


def test_tags_of_messages_are_fixed_and_unknown_ones_are_typed_errors() -> None:
    # A cluster may run an older version: a change of these bytes is a change of what it understands.
    for value, tag in ((FixedSettings(), 0), (Failure("place", "why"), 7), (SkippedPart("place", "suffix .png"), 13)):
        assert msgpack.unpackb(frame_message(value)[8:]).code == tag
    for body, wrong in (
        (msgpack.ExtType(77, msgpack.packb([])), "has the unknown tag 77; run the same version of kvstore"),
        (msgpack.ExtType(13, msgpack.packb([])), "has unexpected fields .*; run the same version of kvstore"),
    ):
        packed = msgpack.packb(body)
        with pytest.raises(errors.EngineError, match=wrong):
            Inbox().feed(len(packed).to_bytes(8, "big") + packed)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_workers_give_the_result_of_one_process(make_store: MakeStore, folder: Path, workers: int) -> None:
    single, parallel = make_store("alone"), make_store("together")
    expected = single.ingest(folder, workers=0)
    report = parallel.ingest(folder, workers=workers)
    assert report.failures == expected.failures
    assert len(report.failures) == 3 and report.skipped_by["empty"] == 1
    assert (report.added, report.chunks) == (expected.added, expected.chunks) == (141, 141)
    assert dump_store(parallel) == dump_store(single)
    assert [hit.text for hit in parallel.search("letter 7", using="vector", top=3)] == [
        hit.text for hit in single.search("letter 7", using="vector", top=3)
    ]
    again = parallel.ingest(folder, workers=workers)
    assert (again.unchanged, again.added, again.changed) == (141, 0, 0)


def test_a_worker_that_the_system_does_not_start(
    store: kvstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing program stands for every reason, such as a limit of processes or open files."""
    with monkeypatch.context() as patches, pytest.raises(errors.EngineError, match=r"\(No such .*workers=0"):
        patches.setattr(sys, "executable", "/nowhere/python")
        store.ingest(folder, workers=2)
    assert store.ingest(folder, workers=0).added > 0


def replace_pdf_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Replace the reader of PDF in workers by code: they import it from a path before that of kvstore."""
    package = tmp_path / "instead"
    package.mkdir()
    (package / "sitecustomize.py").write_text(
        "import sys, types, os, time, signal\n"
        "module = types.ModuleType('kvstore.readers.pdf')\n"
        f"def read(stream, origin, options):\n    {code}\n    yield\n"
        "module.read = read\n"
        "sys.modules[module.__name__] = module\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{package}:{os.environ.get('PYTHONPATH', '')}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by signal 11"),
        ("os._exit(7)", "ended with status 7"),
        ("time.sleep(600)", "took longer than 2 seconds"),
        ("raise RecursionError('deep')", "its reader crashed"),
    ],
)
def test_a_file_that_ends_its_worker_is_a_failure_and_the_rest_is_ingested(
    store: kvstore.Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    replace_pdf_reader(tmp_path, monkeypatch, code)
    for name in ("03.pdf", "99.pdf"):
        (folder / name).write_bytes(b"%PDF-1.4")
    report = store.ingest(folder, workers=2, time_limit=2)
    reasons = {Path(failure.place).name: failure.reason for failure in report.failures}
    assert reason in reasons["03.pdf"]
    assert reason in reasons["99.pdf"]
    assert len(report.failures) == 5 and report.skipped_by["empty"] == 1
    assert report.added == 141


@pytest.mark.slow
def test_a_file_that_wants_more_memory_than_a_worker_may_have_is_a_failure(
    store: kvstore.Store, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_pdf_reader(tmp_path, monkeypatch, "bytearray(1 << 30); raise ValueError('it has enough')")
    (folder / "03.pdf").write_bytes(b"%PDF-1.4")
    for limit, count, reason in [(800, 141, "it needs more memory than a worker may use"), (4000, 0, "it has enough")]:
        report = store.ingest(folder, workers=1, memory_limit=limit)
        reasons = {Path(failure.place).name: failure.reason for failure in report.failures}
        assert reason in reasons["03.pdf"]
        assert report.added == count


MODEL = """
import sys, types, os
module = types.ModuleType("kvstore.models.packaged_embedder")
class PackagedEmbedder:
    dimension = 384
    weights = {weights!r}
    def __init__(self, **options):
        pass
    def load(self):
        {load}
    def embed(self, texts):
        import numpy
        if any("letter 90" in text for text in texts):
            {embed}
        return numpy.ones((len(texts), 384), numpy.float32) / 384**0.5
module.PackagedEmbedder = PackagedEmbedder
sys.modules[module.__name__] = module
"""


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("load", "embed", "committed"),
    [("bytearray(1 << 30)", "pass", False), ("os.abort()", "pass", False), ("pass", "bytearray(1 << 30)", True)],
)
def test_a_model_that_wants_more_memory_than_a_worker_may_have_ends_the_ingest_and_nothing_is_lost(
    make_store: MakeStore,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    load: str,
    embed: str,
    committed: bool,
) -> None:
    monkeypatch.setattr("kvstore.ingest.document_batch.BATCH_DOCUMENTS", 10)
    monkeypatch.setattr("kvstore.ingest.document_batch.MAX_WAIT_SECONDS", 0)
    package = tmp_path / "instead"
    package.mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{package}:{os.environ.get('PYTHONPATH', '')}")
    (package / "sitecustomize.py").write_text(MODEL.format(load=load, embed=embed, weights=get_weights_digest()))
    store = make_store("modelled", embedder="all-MiniLM-L6-v2")
    with pytest.raises(
        errors.OutOfMemoryError,
        match=r"more memory than a worker may use \(800 MB\); committed documents are kept; raise the memory",
    ):
        store.ingest(folder, workers=1, memory_limit=800)
    num_documents = len(store.keys())
    assert (num_documents > 0) == committed
    (package / "sitecustomize.py").write_text(MODEL.format(load="pass", embed="pass", weights=get_weights_digest()))
    report = store.ingest(folder, workers=1, memory_limit=4000)
    assert (report.unchanged, report.added) == (num_documents, 141 - num_documents)


@pytest.mark.parametrize("limit", [1, 60])
def test_a_memory_limit_below_the_size_of_python_is_one_error(
    make_store: Callable[..., kvstore.Store], folder: Path, capfd: pytest.CaptureFixture[str], limit: int
) -> None:
    with pytest.raises(
        errors.OutOfMemoryError,
        match=rf"than a worker may use \({limit} MB\); committed documents are kept; raise the memory limit",
    ):
        make_store("limited").ingest(folder, workers=1, memory_limit=limit)
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_small_inputs_are_read_in_this_process_unless_their_reader_may_hang(
    store: kvstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("a worker")

    monkeypatch.setattr("kvstore.ingest.worker_pool.WorkerPool", refuse)
    assert store.ingest(folder).added == 141
    (folder / "page.html").write_text("<p>" + "Captain Reid. " * 9_000)
    assert store.ingest(folder).added == 1
    for name, content in (("a.pdf", b"%PDF-1.4"), ("long.html", b"<p>" + b"Captain Reid. " * 10_000)):
        (folder / name).write_bytes(content)
        with pytest.raises(RuntimeError, match="a worker"):
            store.ingest(folder)
        (folder / name).unlink()


@pytest.mark.slow
def test_html_is_read_under_the_time_limit_if_its_parser_could_hang(store: kvstore.Store, tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    (folder / "good.html").write_text("<h1>Pier</h1><p>Captain Reid built it.")
    (folder / "bad.html").write_text("<select>" + "<option>x" * 80_000)  # 25 seconds, all of them in the parser
    report = store.ingest(folder, time_limit=2)
    assert report.added == 1
    assert [failure.reason.split(";")[0] for failure in report.failures] == ["took longer than 2 seconds"]


def test_an_embedder_of_the_programs_own_stays_in_its_process(make_store: MakeStore, folder: Path) -> None:
    from kvstore.models.hashing import HashingEmbedder

    class OwnEmbedder(HashingEmbedder):
        name = "own"

    store = make_store("own", embedder=OwnEmbedder(64))
    assert store.ingest(folder, workers=1).added == 141


def test_an_error_of_the_embedder_in_a_worker_ends_the_ingest(make_store: MakeStore, folder: Path) -> None:
    store = make_store("given", embedder="none:4")
    with pytest.raises(errors.EmbedderError, match="no embedder"):
        store.ingest(folder, workers=2)


def test_bad_options_are_refused_before_anything_is_read(store: kvstore.Store, folder: Path) -> None:
    for options in (
        {"workers": -1},
        {"workers": "two"},
        {"time_limit": 0},
        {"memory_limit": 0},
        {"options": {"no": "such"}},
    ):
        with pytest.raises(errors.InputError):
            store.ingest(folder, **options)
    assert store.keys() == []


@pytest.mark.slow
def test_an_interrupted_ingest_leaves_no_worker_and_continues(
    store: kvstore.Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.document_batch.BATCH_DOCUMENTS", 10)
    monkeypatch.setattr("kvstore.ingest.document_batch.MAX_WAIT_SECONDS", 0)
    processes: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start_process(*arguments: object, **options: object) -> subprocess.Popen[bytes]:
        processes.append(popen(*arguments, **options))  # type: ignore[call-overload]
        return processes[-1]

    monkeypatch.setattr("kvstore.ingest.engines.processes.subprocess.Popen", start_process)

    def interrupt(progress: kvstore.IngestProgress) -> None:
        if progress.done >= 25:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.ingest(folder, workers=2, progress=interrupt)
    assert processes
    assert all(process.poll() is not None for process in processes)
    assert len(store.keys()) == 20, "whole batches"
    report = store.ingest(folder, workers=2)
    assert (report.unchanged, report.added) == (20, 121)


INGESTING = """
import kvstore
if __name__ == "__main__":
    with kvstore.open(sys.argv[1], embedder="hashing") as store:
        store.ingest(sys.argv[2], workers=2, progress=lambda now: print("at", now.done, flush=True))
"""


@pytest.mark.slow
def test_workers_end_with_the_process_that_ingests(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_pdf_reader(tmp_path, monkeypatch, "time.sleep(600)")
    (folder / "00.pdf").write_bytes(b"%PDF-1.4")
    process = subprocess.Popen(
        [sys.executable, "-c", "import sys\n" + INGESTING, tmp_path / "killed", folder],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    children: list[int] = []
    while len(children) < 2:
        child_list = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        children = [int(child) for child in child_list.split()]
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=30)
    deadline = time.monotonic() + 30
    while any(_is_alive(child) for child in children) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(_is_alive(child) for child in children)


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_explain_ingest_describes_the_work_and_does_nothing(store: kvstore.Store, folder: Path) -> None:
    forecast = store.forecast_ingest(folder)
    assert (forecast.files, forecast.known, forecast.skipped, forecast.calls) == (44, 0, 0, 0)
    assert forecast.sampled == 24
    assert 40 <= forecast.documents <= 400
    assert forecast.seconds is not None
    rows = store.execute(f"EXPLAIN INGEST '{folder}' WITH (workers = 2)").fetchall()
    assert [row[0] for row in rows] == ["find files", "skip unchanged", "read and extract", "embed", "time"]
    assert rows[0][2] == 44
    assert store.keys() == []
    assert "no such file" in store.execute("EXPLAIN INGEST 'nowhere'").fetchall()[-1][1]
    with pytest.raises(errors.StatementError, match="EXPLAIN ANALYZE does not run"):
        store.execute(f"EXPLAIN ANALYZE INGEST '{folder}'")
    assert store.keys() == []


def test_explain_ingest_reckons_with_a_file_that_gives_nothing(
    store: kvstore.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.forecast.SAMPLE_SECONDS", 0.0)
    (tmp_path / "scripts.html").write_text("<script>" + "x()" * 100_000 + "</script>")
    forecast = store.forecast_ingest(tmp_path / "scripts.html")
    assert (forecast.sampled, forecast.documents, forecast.chunks) == (1, 0, 0)
    assert forecast.seconds is not None
    assert forecast.seconds < 3600, "not as many times longer as the file has bytes"


def test_a_misspelt_option_of_ingest_names_the_nearest(store: kvstore.Store, folder: Path) -> None:
    for name, nearest in (("wrokers", "workers"), ("timelimit", "time_limit"), ("delimeter", "delimiter")):
        for statement in (f"INGEST '{folder}' WITH ({name} = 1)", f"EXPLAIN INGEST '{folder}' WITH ({name} = 1)"):
            with pytest.raises(errors.KvstoreError, match=f"did you mean {nearest}"):
                store.execute(statement)


def test_explain_ingest_counts_requests_and_sends_none(
    make_store: MakeStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KVSTORE_OPENAI_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("kvstore.ingest.forecast.SAMPLE_SECONDS", 600.0)  # reads the whole file
    store = make_store("remote", embedder=OpenAIEmbedder("some", dimension=8))
    forecast = store.forecast_ingest(folder / "30.jsonl")
    assert (forecast.documents, forecast.chunks, forecast.calls, forecast.seconds) == (101, 101, 1, None)
    assert forecast.tokens > 500
    rows = store.execute(f"EXPLAIN INGEST '{folder / '30.jsonl'}'").fetchall()
    assert "1 requests to a server; none is sent" in rows[3][1]


def measure_memory(process: int) -> int:
    """Return the anonymous memory of a process and of its children in MiB."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    kib = 0
    for number in (process, *children):
        with suppress(OSError):  # it has ended
            status = Path(f"/proc/{number}/status").read_text()
            kib += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
    return kib >> 10


@pytest.mark.slow
@pytest.mark.long
def test_a_hundred_thousand_small_documents_take_little_memory(make_store: MakeStore, tmp_path: Path) -> None:
    make_store().close()
    with (tmp_path / "notes.jsonl").open("w") as file:
        for number in range(100_000):
            text = f"Captain Reid {number % 3000} met Port Ellen {number * 7 % 2000} in the year {number}."
            file.write(json.dumps({"id": f"note {number}", "text": text}) + "\n")
    command = [Path(sys.executable).with_name("kvstore"), "ingest", tmp_path / "store", tmp_path / "notes.jsonl"]
    process = subprocess.Popen([*command, "--quiet"])
    max_memory = 0
    while process.poll() is None:
        with suppress(OSError):
            max_memory = max(max_memory, measure_memory(process.pid))
        time.sleep(0.1)
    assert process.returncode == 0
    assert 50 < max_memory < 512
    with make_store() as store:  # too large for CHECK, which other tests run after every kind of ingest
        assert store.statistics()["documents"] == 100_000


@pytest.mark.slow
@pytest.mark.long
def test_the_largest_document_is_ingested_whole(make_store: MakeStore, tmp_path: Path) -> None:
    """Far more chunks than a batch: 32 MiB, the limit of a text; names come again and again, as in a long book."""
    paragraph = (
        "Captain Reid wrote of Pier {} that its stones came over the water from Port Ellen in the year of the gale."
    )
    paragraphs = (paragraph.format(number % 1000) for number in range(MAX_TEXT_BYTES // 120))
    text = "\n\n".join(paragraphs)
    assert MAX_TEXT_BYTES * 0.8 < len(text) < MAX_TEXT_BYTES
    (tmp_path / "long.txt").write_text(text)
    with make_store() as store:
        report = store.ingest(tmp_path / "long.txt", workers=1)
        assert (report.added, report.failures) == (1, [])
        assert report.chunks == store.statistics()["chunks"] > 20 * BATCH_CHUNKS
        assert store.get("long.txt").text == text


def test_a_worker_prints_an_unexpected_error_before_it_ends() -> None:
    program = "from kvstore.ingest.worker import main; main(4 << 30)"
    for message, reason in ((frame_message(["not a job"]), b"TypeError"), (b"", b"")):
        result = subprocess.run([sys.executable, "-c", program], input=message, capture_output=True, timeout=60)
        assert (result.returncode, result.stdout) == (1, b"")
        assert reason in result.stderr
        assert bool(reason) == (b"Traceback" in result.stderr)
