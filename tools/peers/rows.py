"""The rows of the table: measurements of one system in a separate process. A *peer* is a system with its store, or with
a copy that can be changed. A *figure* is a result of a row; ``_s`` and ``_ms`` are processor time.

In: a peer and a corpus. Out: figures by name. Processor time (:mod:`peers.spent`) is of all documents or of one
question.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from .corpus import Batch, Corpus, Question
from .peer import Peer, Results
from .spent import get_bytes_written, get_peak_megabytes, get_processor_seconds

Figures = dict[str, float | None]

TOP = 10
#: The maximum number of rounds, the processor time after which no further question is asked, and the minimum questions.
ROUNDS, SECONDS, MIN_QUESTIONS = 3, 20.0, 20
#: The number of replaced documents.
NUM_REPLACED = 200
#: The field of each filter, by the percentage of the documents that have one value of it.
FILTERS = {"1": "drawer", "10": "shelf"}


def measure_load(peer: Peer, corpus: Corpus, batch: int) -> Figures:
    """Return the time, memory and written bytes of building the store from batches of ``batch`` documents.

    The time for reading the documents is not included.
    """
    reading_seconds = 0.0

    def iter_batches() -> Iterator[Batch]:
        """Yield the batches, and add up the time for reading them, which is not part of the measurement."""
        nonlocal reading_seconds
        batches = corpus.iter_batches(batch)
        while True:
            start = time.thread_time()
            documents = next(batches, None)
            reading_seconds += time.thread_time() - start
            if documents is None:
                return
            yield documents

    seconds_before, written_before = get_processor_seconds(), get_bytes_written()
    peer.load(iter_batches())
    return {
        "load_s": get_processor_seconds() - seconds_before - reading_seconds,
        "load_memory_mb": get_peak_megabytes(),
        **_measure_written_bytes("load", "mb", written_before, 1e6),
    }


def measure_vector_search(peer: Peer, corpus: Corpus) -> Figures:
    """Return the figures of vector search: time, memory of the process, and recall."""
    queries = _list_unfiltered_queries(corpus)
    figures, results = _measure_queries(
        peer, "vector", queries, lambda question, *_: peer.search_by_vector(question.vector, TOP)
    )
    figures["vector_memory_mb"] = get_peak_megabytes()
    return figures | {"vector_recall": _compute_recall(corpus, queries, results)}


def measure_filtered_search(peer: Peer, corpus: Corpus) -> Figures:
    """Return the times and recall of vector search among one percent and ten percent of the documents.

    The value of the filter varies by question.
    """
    figures: Figures = {}
    for share, field in FILTERS.items():
        num_values = 100 if field == "drawer" else 10
        queries = [Query(question, field, index % num_values) for index, question in enumerate(corpus.read_questions())]
        share_figures, results = _measure_queries(
            peer,
            f"filter_{share}",
            queries,
            lambda question, field, value: peer.search_filtered(question.vector, TOP, field, value),
        )
        figures |= share_figures | {f"filter_{share}_recall": _compute_recall(corpus, queries, results)}
    return figures


def measure_lexical_search(peer: Peer, corpus: Corpus) -> Figures:
    """Return the times of search by words with BM25."""
    queries = _list_unfiltered_queries(corpus)
    figures, _ = _measure_queries(peer, "bm25", queries, lambda question, *_: peer.search_by_words(question.text, TOP))
    return figures


def measure_hybrid_search(peer: Peer, corpus: Corpus) -> Figures:
    """Return the times of search by words and vectors together."""
    queries = _list_unfiltered_queries(corpus)
    figures, _ = _measure_queries(
        peer, "hybrid", queries, lambda question, *_: peer.search_hybrid(question.text, question.vector, TOP)
    )
    return figures


def measure_strategies(peer: Peer, corpus: Corpus) -> Figures:
    """Return the times of the query methods that only this system has, such as kvstore's strategies."""
    queries = _list_unfiltered_queries(corpus)
    figures: Figures = {}
    peer.open()
    names = list(peer.make_strategy_searches())
    peer.close()
    for name in names:
        strategy_figures, _ = _measure_queries(peer, name, queries, _make_search(peer, name))
        figures |= strategy_figures
    return figures


def measure_replacement(peer: Peer, corpus: Corpus) -> Figures:
    """Return the times and written bytes of replacing documents one by one, each durably.

    The cost of work that the system defers until the store is closed is divided among the documents.
    """
    documents, vectors = corpus.make_replacements(NUM_REPLACED)
    pairs = zip(documents, vectors, strict=True)
    return _measure_one_by_one(
        peer, "replace", [partial(peer.replace, document, vector.tobytes()) for document, vector in pairs]
    )


def measure_single_deletion(peer: Peer, corpus: Corpus) -> Figures:
    """Return the times and written bytes of deleting documents one by one, as for :func:`measure_replacement`."""
    documents, _ = corpus.make_replacements(NUM_REPLACED)
    return _measure_one_by_one(
        peer, "delete_one", [partial(peer.delete_keys, [document.key]) for document in documents]
    )


def measure_deletion_by_keys(peer: Peer, corpus: Corpus) -> Figures:
    """Return the time and written bytes of deleting a tenth of the documents by their keys, in one call."""
    keys = [document.key for document in corpus.read_documents() if document.shelf == 3]  # one of ten shelves
    return _measure_bulk_deletion(peer, "delete", lambda: peer.delete_keys(keys))


def measure_deletion_by_condition(peer: Peer, corpus: Corpus) -> Figures:
    """Return the time and written bytes of deleting a tenth of the documents by a condition."""
    return _measure_bulk_deletion(peer, "delete_where", lambda: peer.delete_where("shelf", 3))


def _measure_one_by_one(peer: Peer, name: str, changes: list[Callable[[], None]]) -> Figures:
    """Return the mean and median time of changes that are durable one by one, and the bytes written per change."""
    peer.open()
    seconds_before, written_before = get_processor_seconds(), get_bytes_written()
    times = []
    for change in changes:
        start = get_processor_seconds()
        change()
        times.append(get_processor_seconds() - start)
    peer.close()
    return {
        f"{name}_ms": 1000 * (get_processor_seconds() - seconds_before) / len(changes),
        f"{name}_p50_ms": 1000 * statistics.median(times),
        **_measure_written_bytes(name, "kb", written_before, 1e3 * len(changes)),
    }


def _measure_bulk_deletion(peer: Peer, name: str, delete: Callable[[], None]) -> Figures:
    """Return the time of one call that deletes many documents and of closing the store, and the bytes written."""
    peer.open()
    seconds_before, written_before = get_processor_seconds(), get_bytes_written()
    delete()
    peer.close()
    return {
        f"{name}_s": get_processor_seconds() - seconds_before,
        **_measure_written_bytes(name, "mb", written_before, 1e6),
    }


def _measure_written_bytes(name: str, unit: str, written_before: tuple[int, int], divisor: float) -> Figures:
    """Return the bytes written since ``written_before``, to system calls and to the disk, divided by ``divisor``."""
    written_by_calls, written_to_disk = (
        count - count_before for count, count_before in zip(get_bytes_written(), written_before, strict=True)
    )
    return {
        f"{name}_written_{unit}": written_by_calls / divisor,
        f"{name}_disk_written_{unit}": written_to_disk / divisor,
    }


class Query(NamedTuple):
    """A question with the field and the value of its filter; the field is empty without a filter."""

    question: Question
    field: str
    value: int


def _list_unfiltered_queries(corpus: Corpus) -> list[Query]:
    """Return a query without a filter for each question of the corpus."""
    return [Query(question, field="", value=0) for question in corpus.read_questions()]


def _measure_queries(
    peer: Peer, name: str, queries: list[Query], search: Callable[..., Results]
) -> tuple[Figures, list[Results]]:
    """Run all queries in several rounds; return the figures and the results of the first round.

    The figures are the median of the rounds' mean times, and the mean time of the first round, which repeats no
    question, in milliseconds of processor time. ``search`` is called with the question, the field and the value of a
    query. A store that is too slow for all queries within SECONDS answers at least MIN_QUESTIONS of them.
    """
    peer.open()
    for query in queries[-3:]:  # warms up the store
        search(*query)
    round_means: list[float] = []
    results: list[Results] = []
    first_start = get_processor_seconds()
    for _ in range(ROUNDS):
        start = get_processor_seconds()
        round_results = []
        for query in queries:
            round_results.append(search(*query))
            if get_processor_seconds() - first_start > SECONDS and len(round_results) >= MIN_QUESTIONS:
                break
        # Later rounds count only if they are complete.
        if len(round_results) == len(queries) or not round_means:
            round_means.append((get_processor_seconds() - start) / len(round_results))
        results = results or round_results
        if get_processor_seconds() - first_start > SECONDS:
            break
    peer.close()
    return {f"{name}_ms": 1000 * statistics.median(round_means), f"{name}_first_ms": 1000 * round_means[0]}, results


def _make_search(peer: Peer, name: str) -> Callable[..., Results]:
    """Return a function that searches with one of the peer's strategies; the peer must be open when it is called."""
    return lambda question, *_: peer.make_strategy_searches()[name](question.text, question.vector, TOP)


def _compute_recall(corpus: Corpus, queries: list[Query], results: list[Results]) -> float:
    """Return the share of the exact nearest ten documents that the results contain; ties count as nearest.

    A slow system has results for the first queries only.
    """
    import numpy as np

    vectors, documents = corpus.read_vectors(), corpus.read_documents()
    indexes = {document.key: index for index, document in enumerate(documents)}
    fields = {field: np.array([getattr(document, field) for document in documents]) for field in FILTERS.values()}
    num_right = num_expected = 0
    for (question, field, value), query_results in zip(queries, results, strict=False):
        cosines = vectors @ np.frombuffer(question.vector, np.float32)
        if field:
            cosines[fields[field] != value] = -2  # below every cosine
        count = min(TOP, int(np.count_nonzero(cosines > -2)))
        min_cosine = np.partition(cosines, -count)[-count] - 1e-5  # peers round cosines differently
        num_right += sum(cosines[indexes[key]] >= min_cosine for key in dict(query_results))
        num_expected += count
    return num_right / num_expected


#: The rows by name, each with its function, and True if it changes the store, and therefore gets a copy.
ROWS: dict[str, tuple[Callable[[Peer, Corpus], Figures], bool]] = {
    "vector": (measure_vector_search, False),
    "filter": (measure_filtered_search, False),
    "bm25": (measure_lexical_search, False),
    "hybrid": (measure_hybrid_search, False),
    "strategies": (measure_strategies, False),
    "replace": (measure_replacement, True),
    "delete": (measure_deletion_by_keys, True),
    "delete_one": (measure_single_deletion, True),
    "delete_where": (measure_deletion_by_condition, True),
}


def measure_row(row: str, peer: Peer, corpus: Corpus, **more: Any) -> Figures:
    """Return the figures of one row of the table; raises UnsupportedError if the system lacks the operation."""
    if row == "load":
        return measure_load(peer, corpus, **more)
    measure, _ = ROWS[row]
    return measure(peer, corpus)
