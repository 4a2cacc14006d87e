"""Measurement of one row of one system, in a process started for it.

In: a job, one JSON object as the only argument. On disk: the figures, one JSON object, in the file that the job names;
the output of libraries is ignored.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from itertools import islice
from pathlib import Path

import numpy as np  # noqa: F401  what every system needs is not counted as one's own

from .corpus import Corpus
from .peer import NotAnswered, Peer
from .rows import Figures, measure
from .spent import get_peak_megabytes
from .systems import load_system


def main() -> None:
    """Run the job."""
    order = json.loads(sys.argv[1])
    corpus = Corpus(Path(order["cache"]), order["count"])
    figures: Figures | dict[str, str]
    if order["row"] == "interpreter":
        figures = _measure_interpreter(corpus, order["batch"])
    else:
        peer: Peer = load_system(order["system"])(order["folder"])
        if order["row"] == "warm":
            _warm_up(peer, corpus)
            return
        more = {"batch": order["batch"]} if order["row"] == "load" else {}
        try:
            figures = measure(order["row"], peer, corpus, **more)
        except NotAnswered as reason:
            figures = {"describe_nearest": str(reason)}
    Path(order["out"]).write_text(json.dumps(figures))


def _warm_up(peer: Peer, corpus: Corpus) -> None:
    """Load a few documents and query once, so that imported modules are compiled before the measurement."""
    peer.load(islice(corpus.iter_batches(50), 1))
    question = corpus.read_questions()[0]
    peer.open()
    for ask in (
        lambda: peer.search_by_vector(question.vector, 3),
        lambda: peer.search_by_words(question.text, 3),
        lambda: peer.search_hybrid(question.text, question.vector, 3),
    ):
        with suppress(NotAnswered):
            ask()
    peer.close()


def _measure_interpreter(corpus: Corpus, batch: int) -> Figures:
    """Return the memory of a process that only reads all documents, a batch at a time."""
    for _ in corpus.iter_batches(batch):
        pass
    return {"memory_mb": get_peak_megabytes()}
