"""Measurement of one row (a measured operation) of one system, in a process started for it. A *job* is a JSON object
with the system, the row and the folders; a *peer* is a system with its store.

In: a job as the only argument. On disk: the figures, one JSON object, in the file that the job names; the output of
libraries is ignored.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np  # noqa: F401  imported for all, because every system needs it

from .corpus import Corpus
from .peer import Peer, UnsupportedError
from .rows import Figures, measure_row
from .spent import get_peak_megabytes
from .systems import load_system


def main() -> None:
    """Run the job that the command line describes, and write its figures to the job's file ``out``.

    A job has the names of the system and of the row, the folders of the store and of the cache, the number of documents
    (``count``), the documents per batch, and ``out``. Two rows are not in the table: "interpreter" is a process that
    only reads the documents, "warm" a run before the measurements.
    """
    job = json.loads(sys.argv[1])
    corpus = Corpus(Path(job["cache"]), job["count"])
    figures: Figures | dict[str, str]
    if job["row"] == "interpreter":
        figures = _measure_interpreter(corpus, job["batch"])
    else:
        peer: Peer = load_system(job["system"])(job["folder"])
        if job["row"] == "warm":
            _warm_up(peer, corpus)
            return
        arguments = {"batch": job["batch"]} if job["row"] == "load" else {}
        try:
            figures = measure_row(job["row"], peer, corpus, **arguments)
        except UnsupportedError as error:
            figures = {"not_answered": str(error)}
    Path(job["out"]).write_text(json.dumps(figures))


def _warm_up(peer: Peer, corpus: Corpus) -> None:
    """Load a few documents and query once, so that imported modules are compiled before the measurement."""
    peer.load(islice(corpus.iter_batches(50), 1))
    question = corpus.read_questions()[0]
    peer.open()
    for search in (
        lambda: peer.search_by_vector(question.vector, 3),
        lambda: peer.search_by_words(question.text, 3),
        lambda: peer.search_hybrid(question.text, question.vector, 3),
    ):
        with suppress(UnsupportedError):
            search()
    peer.close()


def _measure_interpreter(corpus: Corpus, batch: int) -> Figures:
    """Return the peak memory of a process that only reads all documents, a batch at a time."""
    for _ in corpus.iter_batches(batch):
        pass
    return {"memory_mb": get_peak_megabytes()}
