"""The chunks of a state in canonical order (document key and ordinal), and their sentences, as topics are built from
them. A chunk is given by its *index* in that order. A sentence is given by the index of its chunk and its byte range
there.

In: a state. On disk: unnamed files (:mod:`...storage.scratch_file`) that hold texts and vectors, since a large store
has more of them than fit in memory. Out: texts, sentences, sums of vectors, and spans of stored documents. A sentence
is read again each time it is compared.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...retrieval.cover import iter_content_sentences
from ...retrieval.evidence import StoredSpan
from ...storage.scratch_file import ScratchFile
from ...structures.clustering.affinity import IntArray
from ...structures.state import State
from ...structures.vectors.vectors import Matrix
from ...text.blocks import format_summary_sentence
from ...text.greedy_cover import SentenceWords, extract_sentence_words

#: The number of chunks whose vectors are read together.
_VECTOR_BATCH_SIZE = 4096
#: The maximum number of chunks of a topic whose vectors are summed at query time; larger topics store their sum.
MAX_SUMMED_CHUNKS = 8


@dataclass(frozen=True)
class OrderedChunks:
    """Chunks in order of document keys and ordinals, copied to scratch files. ``ids``, ``documents`` and ``starts``
    hold the id of each chunk, its document, and its byte offset there. ``texts`` holds all texts one after another, and
    ``ends`` the end of each chunk in it. Methods take the index of a chunk.

    ``is_plain`` is True for plain text. ``languages`` holds the index in ``language_names`` of the language whose rules
    split the sentences of each chunk (None: English). ``vectors`` holds the unit vectors of size ``dimension``, packed
    float32.
    """

    ids: IntArray
    documents: IntArray
    starts: IntArray
    texts: ScratchFile
    ends: IntArray
    is_plain: npt.NDArray[np.bool_]
    languages: IntArray
    language_names: list[str | None]
    vectors: ScratchFile
    dimension: int

    @staticmethod
    def from_state(state: State) -> tuple[OrderedChunks, Matrix]:
        """Copy the texts and vectors of all chunks to scratch files; return them, and the vectors also in memory.

        The array of unit vectors has shape (chunks, dimension).
        """
        keyed_documents = sorted((record.key, record.id) for record in state.documents.scan())
        ordered_documents = array("q", (document for _, document in keyed_documents))
        # For each chunk: its id, its start in the document, its end in ``texts``, and the location of its vector.
        chunks, starts, ends, blocks, rows = (array("q") for _ in range(5))
        # For each document: its number of chunks, whether it is plain text, and the index of its language.
        counts, is_plain, languages = (array("q") for _ in range(3))
        language_indexes: dict[str | None, int] = {}
        folder = None if state.open_indexes is None else state.open_indexes.environment.path  # None: a temporary folder
        texts, vector_file = ScratchFile(folder), ScratchFile(folder)
        for document in ordered_documents:
            record = state.documents.get(document)
            text = state.documents.read_text(document)
            ids = list(record.chunk_ids())
            for chunk in state.chunks.get_many(ids):
                texts.append(text[chunk.start : chunk.end])
                starts.append(chunk.start)
                ends.append(len(texts))
                blocks.append(chunk.block)
                rows.append(chunk.row)
            chunks.extend(ids)
            counts.append(len(ids))
            is_plain.append(record.format == "text")
            language = state.find_sentence_language(document)
            languages.append(language_indexes.setdefault(language, len(language_indexes)))
        vectors = _copy_vectors(state, blocks, rows, vector_file)
        ordered_chunks = OrderedChunks(
            ids=np.frombuffer(chunks, np.int64),
            documents=np.repeat(ordered_documents, counts),
            starts=np.frombuffer(starts, np.int64),
            texts=texts,
            ends=np.frombuffer(ends, np.int64),
            is_plain=np.repeat(is_plain, counts).astype(np.bool_),
            languages=np.repeat(languages, counts),
            language_names=list(language_indexes),
            vectors=vector_file,
            dimension=state.settings.dimension,
        )
        return ordered_chunks, vectors

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self.ids)

    def read_text(self, chunk_index: int, start: int = 0, end: int | None = None) -> bytes:
        """Return bytes ``start`` to ``end`` (None: to its end) of the text of the chunk with this index, in UTF-8."""
        first = int(self.ends[chunk_index - 1]) if chunk_index else 0
        last = int(self.ends[chunk_index]) if end is None else first + end
        return self.texts.read(first + start, last)

    def get_size(self, chunk_index: int) -> int:
        """Return the size of the text of the chunk with this index, in bytes."""
        return int(self.ends[chunk_index] - (self.ends[chunk_index - 1] if chunk_index else 0))

    def sum_vectors(self, chunk_indexes: Sequence[int]) -> bytes:
        """Return the sum of the vectors of the chunks with these indexes, packed float32.

        For at most :data:`MAX_SUMMED_CHUNKS` chunks, which are summed at query time, it is empty.
        """
        if len(chunk_indexes) <= MAX_SUMMED_CHUNKS:
            return b""
        row_bytes = 4 * self.dimension  # the size of a vector of 32-bit floats
        total = np.zeros(self.dimension)
        for start in range(0, len(chunk_indexes), _VECTOR_BATCH_SIZE):
            batch = chunk_indexes[start : start + _VECTOR_BATCH_SIZE]
            rows = b"".join([self.vectors.read(row_bytes * row, row_bytes * (row + 1)) for row in batch])
            total += np.frombuffer(rows, np.float32).reshape(-1, self.dimension).sum(axis=0, dtype=np.float64)
        return total.astype("<f4").tobytes()

    def iter_sentences(self, chunk_index: int) -> Iterator[TopicSentence]:
        """Yield the sentences in the paragraphs and list items of the chunk with this index, in order."""
        format = "text" if self.is_plain[chunk_index] else "markdown"
        language = self.language_names[int(self.languages[chunk_index])]
        for sentence in iter_content_sentences(self.read_text(chunk_index).decode(), format, language):
            yield TopicSentence(chunk_index, sentence.start, sentence.end, sentence.words)

    def build_sentence(self, chunk_index: int, start: int, end: int) -> TopicSentence:
        """Return the sentence at bytes ``start`` to ``end`` of the chunk with this index, with its words."""
        text = format_summary_sentence(self.read_text(chunk_index, start, end).decode())
        return TopicSentence(chunk_index, start, end, extract_sentence_words(text))

    def to_span(self, chunk_index: int, start: int, end: int) -> StoredSpan:
        """Convert bytes ``start`` to ``end`` of the chunk with this index to a span of its document."""
        offset = int(self.starts[chunk_index])
        return StoredSpan(int(self.documents[chunk_index]), int(self.ids[chunk_index]), offset + start, offset + end)


def _copy_vectors(state: State, blocks: array[int], rows: array[int], file: ScratchFile) -> Matrix:
    """Append the vectors at these blocks and rows of the store to a file; return them, shape (vectors, dimension)."""
    vectors: Matrix = np.empty((len(blocks), state.settings.dimension), np.float32)
    for start in range(0, len(blocks), _VECTOR_BATCH_SIZE):
        batch = slice(start, start + _VECTOR_BATCH_SIZE)
        vectors[batch] = state.vectors.gather(list(zip(blocks[batch], rows[batch], strict=True)))
        file.append(vectors[batch].tobytes())
    return vectors


class TopicSentence(NamedTuple):
    """A sentence: the index of its chunk in canonical order, its byte range there, and its words."""

    chunk_index: int
    start: int
    end: int
    words: SentenceWords

    @property
    def span(self) -> tuple[int, int, int]:
        """The index of the chunk, and the byte range in it."""
        return self.chunk_index, self.start, self.end


class EntitySentences(NamedTuple):
    """The sentences that mention an entity, in canonical order. ``spans`` has shape (n, 3): the index of the chunk and
    the byte range in it. ``entities`` (ids) has several entities if they share all sentences.
    """

    entities: list[int]
    spans: IntArray

    @property
    def chunk_indexes(self) -> list[int]:
        """The distinct indexes of the chunks that contain the sentences, ascending."""
        chunk_indexes: list[int] = np.unique(self.spans[:, 0]).tolist()
        return chunk_indexes
