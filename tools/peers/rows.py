"""The rows of the table: measurements of one system in a separate process.

In: a system, the folder of its store (or a copy that can be changed), a corpus. Out: figures by name. ``_s`` and
``_ms`` are processor time (:mod:`peers.spent`), of all documents or of one question.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from .corpus import Batch, Corpus, Question
from .peer import Found, Peer
from .spent import get_bytes_written, get_peak_megabytes, get_processor_seconds

Figures = dict[str, float | None]

TOP = 10
#: The maximum number of rounds, the processor time after which no further question is asked, and the minimum questions.
ROUNDS, SECONDS, MIN_QUESTIONS = 3, 20.0, 20
#: The number of replaced documents.
REPLACED = 200
#: The share and field of each filter.
FILTERS = {"1": "drawer", "10": "shelf"}


def load(peer: Peer, corpus: Corpus, batch: int) -> Figures:
    """Measure building the store from batches of ``batch`` documents, without the time for reading them."""
    reading = 0.0

    def read() -> Iterator[Batch]:
        """Yield the batches, and add up the time for reading them, which is not part of the measurement."""
        nonlocal reading
        batches = corpus.iter_batches(batch)
        while True:
            start = time.thread_time()
            documents = next(batches, None)
            reading += time.thread_time() - start
            if documents is None:
                return
            yield documents

    before, written = get_processor_seconds(), get_bytes_written()
    peer.load(read())
    return {
        "load_s": get_processor_seconds() - before - reading,
        "load_memory_mb": get_peak_megabytes(),
        **_measure_written_bytes("load", "mb", written, 1e6),
    }


def measure_vector_search(peer: Peer, corpus: Corpus) -> Figures:
    """Measure vector search: time, memory of the process, and recall."""
    queries = [(question, "", 0) for question in corpus.read_questions()]
    figures, results = _measure_queries(
        peer, "vector", queries, lambda question, *_: peer.search_by_vector(question.vector, TOP)
    )
    figures["vector_memory_mb"] = get_peak_megabytes()
    return figures | {"vector_recall": _compute_recall(corpus, queries, results)}


def measure_filtered_search(peer: Peer, corpus: Corpus) -> Figures:
    """Measure vector search among one percent and ten percent of the documents; filter values vary by question."""
    figures: Figures = {}
    for share, field in FILTERS.items():
        values = 100 if field == "drawer" else 10
        queries = [(question, field, number % values) for number, question in enumerate(corpus.read_questions())]
        more, results = _measure_queries(
            peer,
            f"filter_{share}",
            queries,
            lambda question, field, value: peer.search_filtered(question.vector, TOP, field, value),
        )
        figures |= more | {f"filter_{share}_recall": _compute_recall(corpus, queries, results)}
    return figures


def measure_lexical_search(peer: Peer, corpus: Corpus) -> Figures:
    """Measure search by words with BM25."""
    queries = [(question, "", 0) for question in corpus.read_questions()]
    return _measure_queries(peer, "bm25", queries, lambda question, *_: peer.search_by_words(question.text, TOP))[0]


def measure_hybrid_search(peer: Peer, corpus: Corpus) -> Figures:
    """Measure search by words and vectors together."""
    queries = [(question, "", 0) for question in corpus.read_questions()]
    return _measure_queries(
        peer, "hybrid", queries, lambda question, *_: peer.search_hybrid(question.text, question.vector, TOP)
    )[0]


def measure_strategies(peer: Peer, corpus: Corpus) -> Figures:
    """Measure the strategies that only this system has."""
    queries = [(question, "", 0) for question in corpus.read_questions()]
    figures: Figures = {}
    peer.open()
    names = list(peer.list_strategies())
    peer.close()
    for name in names:
        figures |= _measure_queries(peer, name, queries, _get_strategy(peer, name))[0]
    return figures


def replace(peer: Peer, corpus: Corpus) -> Figures:
    """Measure replacing documents one by one, each durably.

    The cost of deferred work until the store is closed is divided among them.
    """
    documents, vectors = corpus.make_replacements(REPLACED)
    rows = zip(documents, vectors, strict=True)
    return _measure_one_by_one(
        peer, "replace", [partial(peer.replace, document, row.tobytes()) for document, row in rows]
    )


def delete_one(peer: Peer, corpus: Corpus) -> Figures:
    """Measure deleting documents one by one, each durably, counted like replaced ones."""
    documents, _ = corpus.make_replacements(REPLACED)
    return _measure_one_by_one(
        peer, "delete_one", [partial(peer.delete_keys, [document.key]) for document in documents]
    )


def delete(peer: Peer, corpus: Corpus) -> Figures:
    """Measure deleting a tenth of the documents by their keys, in one call."""
    keys = [document.key for document in corpus.read_documents() if document.shelf == 3]
    return _measure_deletion(peer, "delete", lambda: peer.delete_keys(keys))


def delete_where(peer: Peer, corpus: Corpus) -> Figures:
    """Measure deleting a tenth of the documents by a condition."""
    return _measure_deletion(peer, "delete_where", lambda: peer.delete_where("shelf", 3))


def _measure_one_by_one(peer: Peer, name: str, changes: list[Callable[[], None]]) -> Figures:
    """Measure changes that are made durable one by one: mean and median time, and bytes written per change."""
    peer.open()
    before, written = get_processor_seconds(), get_bytes_written()
    times = []
    for change in changes:
        start = get_processor_seconds()
        change()
        times.append(get_processor_seconds() - start)
    peer.close()
    return {
        f"{name}_ms": 1000 * (get_processor_seconds() - before) / len(changes),
        f"{name}_p50_ms": 1000 * statistics.median(times),
        **_measure_written_bytes(name, "kb", written, 1e3 * len(changes)),
    }


def _measure_deletion(peer: Peer, name: str, delete: Callable[[], None]) -> Figures:
    """Measure one call that deletes many documents: its time until the store is closed, and the bytes written."""
    peer.open()
    before, written = get_processor_seconds(), get_bytes_written()
    delete()
    peer.close()
    return {f"{name}_s": get_processor_seconds() - before, **_measure_written_bytes(name, "mb", written, 1e6)}


def _measure_written_bytes(name: str, unit: str, before: tuple[int, int], divisor: float) -> Figures:
    """Return the bytes written since ``before`` by write calls, and those that reached the disk, in ``unit``."""
    calls, disk = (now - then for now, then in zip(get_bytes_written(), before, strict=True))
    return {f"{name}_written_{unit}": calls / divisor, f"{name}_disk_written_{unit}": disk / divisor}


Asked = tuple[Question, str, int]


def _measure_queries(
    peer: Peer, name: str, questions: list[Asked], ask: Callable[..., Found]
) -> tuple[Figures, list[Found]]:
    """Ask all questions in several rounds; return the figures and the results of the first round.

    The figures are the median of the rounds' mean times, and the mean time of the first round, which repeats no
    question.
    """
    peer.open()
    for question in questions[-3:]:
        ask(*question)
    rounds: list[float] = []
    results: list[Found] = []
    began = get_processor_seconds()
    for _ in range(ROUNDS):
        start = get_processor_seconds()
        answers = []
        for question in questions:
            answers.append(ask(*question))
            if get_processor_seconds() - began > SECONDS and len(answers) >= MIN_QUESTIONS:
                break
        if len(answers) == len(questions) or not rounds:
            rounds.append((get_processor_seconds() - start) / len(answers))
        results = results or answers
        if get_processor_seconds() - began > SECONDS:
            break
    peer.close()
    return {f"{name}_ms": 1000 * statistics.median(rounds), f"{name}_first_ms": 1000 * rounds[0]}, results


def _get_strategy(peer: Peer, name: str) -> Callable[..., Found]:
    """Return a function that asks one of the peer's strategies. The peer must be open when it is called."""
    return lambda question, *_: peer.list_strategies()[name](question.text, question.vector, TOP)


def _compute_recall(corpus: Corpus, queries: list[Asked], results: list[Found]) -> float:
    """Return the share of the exact nearest ten documents that the results contain; ties count as nearest."""
    import numpy as np

    vectors, documents = corpus.read_vectors(), corpus.read_documents()
    indexes = {document.key: index for index, document in enumerate(documents)}
    fields = {field: np.array([getattr(document, field) for document in documents]) for field in FILTERS.values()}
    num_right = num_wanted = 0
    for (question, field, value), answer in zip(queries, results, strict=False):
        cosines = vectors @ np.frombuffer(question.vector, np.float32)
        if field:
            cosines[fields[field] != value] = -2
        wanted = min(TOP, int(np.count_nonzero(cosines > -2)))
        min_cosine = np.partition(cosines, -wanted)[-wanted] - 1e-5  # peers round cosines differently
        num_right += sum(cosines[indexes[key]] >= min_cosine for key in dict(answer))
        num_wanted += wanted
    return num_right / num_wanted


#: The rows by name. The flag says whether a row changes the store, and therefore gets a copy.
ROWS: dict[str, tuple[Callable[[Peer, Corpus], Figures], bool]] = {
    "vector": (measure_vector_search, False),
    "filter": (measure_filtered_search, False),
    "bm25": (measure_lexical_search, False),
    "hybrid": (measure_hybrid_search, False),
    "strategies": (measure_strategies, False),
    "replace": (replace, True),
    "delete": (delete, True),
    "delete_one": (delete_one, True),
    "delete_where": (delete_where, True),
}


def measure(row: str, peer: Peer, corpus: Corpus, **more: Any) -> Figures:
    """Return the figures of one row of the table; raises NotAnswered if the system lacks the operation."""
    return load(peer, corpus, **more) if row == "load" else ROWS[row][0](peer, corpus)
