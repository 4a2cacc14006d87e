"""The documents of every system: texts with vectors, as many as requested, the same in every run. The original texts
come first, then *copies* of them with other words and noisy vectors. The numbers ``shelf`` (0 to 9) and ``drawer`` (0
to 99) are metadata that filters use.

In: a folder with ``corpus.jsonl`` (id, title, text) and ``questions.jsonl`` (question). On disk, in a cache folder: the
documents of each size as JSON lines, and their vectors as rows of float32. Out: a :class:`Corpus`. The words of copies
are drawn by a seeded generator from the running text, so frequent words stay frequent.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Matrix = npt.NDArray[np.float32]

DIMENSION = 384
EMBEDDER = "all-MiniLM-L6-v2"
#: For a copy: the fraction of words that are replaced, and the length of the noise added to its vector.
CHANGED_WORD_SHARE = 0.15
NOISE_LENGTH = 0.35
#: The copy number of replacement documents, which no corpus reaches.
REPLACEMENT = 1_000_000


class Document(NamedTuple):
    """A document that every system stores; ``shelf`` and ``drawer`` are metadata."""

    key: str
    title: str
    text: str
    shelf: int
    drawer: int


class Batch(NamedTuple):
    """Documents, and their unit vectors, shape (documents, 384)."""

    documents: list[Document]
    vectors: Matrix


class Question(NamedTuple):
    """A question and its unit vector, as float32 in bytes."""

    text: str
    vector: bytes


class Corpus:
    """The first ``count`` documents made from the texts of a folder, cached in another folder.

    Reading holds only the current batch in memory.
    """

    def __init__(self, cache: Path, count: int) -> None:
        """Describe a corpus in the ``cache`` folder; :meth:`prepare` builds it."""
        self.count = count
        self._cache = cache
        self._documents = cache / f"documents-{count}.jsonl"
        self._vectors = cache / f"vectors-{count}.f32"

    @classmethod
    def prepare(cls, data: Path, cache: Path, count: int | None, embedder: str = EMBEDDER) -> Corpus:
        """Return the corpus of ``count`` documents (None: one per original text), and build it if the cache lacks it.

        The vectors of ``embedder`` have 384 components; a cache is for one folder and one embedder.
        """
        cache.mkdir(parents=True, exist_ok=True)
        passages = _read_lines(data / "corpus.jsonl")
        corpus = cls(cache, len(passages) if count is None else count)
        vectors = cache / "passages.f32"
        texts = [f"{passage['title']}\n\n{passage['text']}" for passage in passages]
        if not _is_complete(vectors, len(passages)):
            _write_rows(vectors, _embed_texts(texts, embedder))
        if not (cache / "questions.json").exists():
            questions = [line["question"] for line in _read_lines(data / "questions.jsonl")]
            rows = [row.tolist() for row in _embed_texts(questions, embedder)]
            _write_atomically(cache / "questions.json", json.dumps([questions, rows]).encode())
        if not (corpus._documents.exists() and _is_complete(corpus._vectors, corpus.count)):
            corpus._build(passages, vectors)
        return corpus

    def iter_batches(self, size: int) -> Iterator[Batch]:
        """Yield all documents in order, ``size`` at a time."""
        import numpy as np

        with self._documents.open(encoding="utf-8") as lines, self._vectors.open("rb") as rows:
            documents: list[Document] = []
            for line in lines:
                documents.append(Document(*json.loads(line)))
                if len(documents) == size:
                    yield Batch(documents, _read_rows(np, rows, size))
                    documents = []
            if documents:
                yield Batch(documents, _read_rows(np, rows, len(documents)))

    def read_documents(self) -> list[Document]:
        """Return all documents in order."""
        with self._documents.open(encoding="utf-8") as lines:
            return [Document(*json.loads(line)) for line in lines]

    def read_vectors(self) -> Matrix:
        """Return all vectors in order, shape (documents, 384)."""
        import numpy as np

        return np.fromfile(self._vectors, np.float32).reshape(-1, DIMENSION)

    def read_questions(self) -> list[Question]:
        """Return the questions of the folder with their vectors."""
        from array import array

        texts, rows = json.loads((self._cache / "questions.json").read_bytes())
        return [Question(text, array("f", row).tobytes()) for text, row in zip(texts, rows, strict=True)]

    def make_replacements(self, count: int) -> Batch:
        """Return altered texts and vectors of ``count`` documents, evenly spaced, with the same keys and fields.

        A smaller corpus has a replacement for every document.
        """
        import numpy as np

        documents, vectors = self.read_documents(), self.read_vectors()
        count = min(count, self.count)
        indexes = [index * self.count // count for index in range(count)]
        words = _list_words(documents[:6000])  # enough to draw from
        # REPLACEMENT takes the place of the number of a copy.
        replacements = [
            _alter_document(documents[index], documents[index].key, REPLACEMENT, *words)._replace(
                shelf=documents[index].shelf, drawer=documents[index].drawer
            )
            for index in indexes
        ]
        return Batch(replacements, _add_noise(np, vectors[indexes], REPLACEMENT))

    def compute_size(self) -> int:
        """Return the bytes of all texts and titles, and of all vectors."""
        texts = sum(len(document.text.encode()) + len(document.title.encode()) for document in self.read_documents())
        return texts + self.count * DIMENSION * 4

    def _build(self, passages: list[dict[str, Any]], vectors: Path) -> None:
        """Write the documents and vectors of the corpus: the passages, then altered copies of them."""
        import numpy as np

        originals = [
            Document(passage["id"], passage["title"], passage["text"], *_compute_shelf_and_drawer(index))
            for index, passage in enumerate(passages)
        ]
        passage_vectors = np.fromfile(vectors, np.float32).reshape(-1, DIMENSION)
        words = _list_words(originals)
        draft = self._documents.with_suffix(f".{os.getpid()}")
        with draft.open("w", encoding="utf-8") as lines, self._vectors.open("wb") as vector_file:
            for first in range(0, self.count, len(originals)):
                copy = first // len(originals)  # 0: the passages themselves
                documents = originals[: self.count - first]
                rows = passage_vectors[: len(documents)]
                if copy:
                    documents = [
                        _alter_document(original, f"{original.key}/{copy}", copy, *words) for original in documents
                    ]
                    rows = _add_noise(np, rows, copy)
                for index, document in enumerate(documents, start=first):
                    shelf, drawer = _compute_shelf_and_drawer(index)
                    document = document._replace(shelf=shelf, drawer=drawer)
                    lines.write(json.dumps(document, ensure_ascii=False) + "\n")
                vector_file.write(rows.tobytes())
        draft.replace(self._documents)  # last, because this file shows that the corpus is complete


def _compute_shelf_and_drawer(index: int) -> tuple[int, int]:
    """Return shelf and drawer of the document at an index.

    Each drawer has one document in a hundred, each shelf one in ten, evenly spread.
    """
    return (index * 3 + index // 10) % 10, (index * 37 + index // 100) % 100


def _alter_document(document: Document, key: str, copy: int, words: list[str], names: list[str]) -> Document:
    """Return a copy of a document, with another key, in which some words of the text and one of the title are replaced.

    New words are drawn from ``words`` for the text, and from ``names`` for the title, which therefore stays a name. A
    title of one word gets a second. The number ``copy`` is a part of the seed.
    """
    generator = Random(f"{copy}/{document.key}")
    text_words = document.text.split()
    positions = {position for position in range(len(text_words)) if generator.random() < CHANGED_WORD_SHARE} | {
        generator.randrange(len(text_words))
    }
    for position in sorted(positions):
        text_words[position] = generator.choice(words)
    title_words = document.title.split()
    position = generator.randrange(len(title_words)) if len(title_words) > 1 else len(title_words)
    title_words[position : position + 1] = [generator.choice(names)]
    return document._replace(key=key, title=" ".join(title_words), text=" ".join(text_words))


def _list_words(documents: list[Document]) -> tuple[list[str], list[str]]:
    """Return the words of all texts, and the long capitalized words of all titles, each as often as it occurs.

    If titles have no such word, the second list is "Other".
    """
    words = [word for document in documents for word in document.text.split()]
    names = [word for document in documents for word in document.title.split() if len(word) > 3 and word[0].isupper()]
    return words, names or ["Other"]


def _add_noise(np: Any, rows: Matrix, copy: int) -> Matrix:
    """Return the vectors of a copy: noise of the length NOISE_LENGTH is added to each, and the sum normalized.

    ``np`` is the ``numpy`` module, which this module does not import.
    """
    noise = np.random.default_rng(copy).standard_normal(rows.shape, np.float32)
    noisy_rows: Matrix = rows + noise * np.float32(NOISE_LENGTH / DIMENSION**0.5)
    noisy_rows /= np.linalg.norm(noisy_rows, axis=1, keepdims=True)
    return noisy_rows


def _embed_texts(texts: list[str], embedder: str) -> Matrix:
    """Return the vectors of texts from one of kvstore's embedders."""
    from kvstore.models.embedder import open_embedder

    return open_embedder(embedder).embed(texts)


def _read_rows(np: Any, file: Any, num_rows: int) -> Matrix:
    """Return the next ``num_rows`` vectors of an open file; ``np`` is the ``numpy`` module."""
    rows: Matrix = np.frombuffer(file.read(num_rows * DIMENSION * 4), np.float32).reshape(num_rows, DIMENSION)
    return rows


def _is_complete(file: Path, num_rows: int) -> bool:
    """True if a file of vectors exists and has ``num_rows`` rows."""
    return file.exists() and file.stat().st_size == num_rows * DIMENSION * 4


def _write_rows(file: Path, rows: Matrix) -> None:
    """Write vectors to a file as float32."""
    import numpy as np

    _write_atomically(file, np.ascontiguousarray(rows, np.float32).tobytes())


def _write_atomically(file: Path, content: bytes) -> None:
    """Replace a file in one step, so that an interrupted run leaves no partial file."""
    draft = file.with_suffix(f".{os.getpid()}")
    draft.write_bytes(content)
    draft.replace(file)


def _read_lines(file: Path) -> list[dict[str, Any]]:
    """Return the objects of a file of JSON lines."""
    with file.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
