"""Topics as one state may use them: nothing of a document that is gone, and newer chunks in their places.

In: a generation of the index ``topics`` and a state. Out: topics by level, with what of them is still there. A topic
without a living chunk is none. A sentence or title word of a document that is gone is not shown, and what a model wrote
is shown only while all that it was written from is there. A chunk that is newer than the generation belongs where its
nearest older chunk does and, in the tree of what is related, where the names in it do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from ...errors import CorruptionError
from ...storage.records import U32
from ...structures import tables
from ...structures.indexes.generations import GenerationRows
from ...structures.indexes.vector_search import find_nearest_chunks
from ...structures.indexes.written_texts import WrittenText, get_written_text
from ...structures.shown_entities import load_display_entities
from ...structures.state import State
from ...structures.vectors.vectors import Matrix
from ...text.blocks import format_summary_sentence
from .topic_building import MOST_ADDED, NUM_TITLE_WORDS, StoredSpan, Topic
from .topic_trees import StoredTopicTrees, TreeColumns

TOPICS_TABLE = "topics"
#: Where in a row the sum of vectors is.
_SUM_COLUMN = 6
#: As many newer chunks are placed by one search each; more by one pass over all vectors.
_SEARCHED = 32
#: Neighbours looked at of a newer chunk, which may be newer themselves.
_NUM_NEIGHBORS = 32


class Topics:
    """The topics of one state; see the module."""

    def __init__(self, rows: GenerationRows, state: State) -> None:
        self.change = rows.change
        self.chunk_stop = rows.chunk_stop
        self.levels = int(rows.head["levels"])
        #: Which topic is part of which.
        self.tree: StoredTopicTrees = rows.get_cached("tree", StoredTopicTrees.from_rows)
        self._rows = rows
        self._state = state
        self._topics: dict[int, Topic] = {}
        #: Of documents and chunks that were asked for whether they are there; of finest topics whether they changed.
        self._document_exists: dict[int, bool] = {}
        self._chunk_exists: dict[int, bool] = {}
        self._topic_changed: dict[int, bool] = {}

    def __len__(self) -> int:
        return len(self.tree)

    def iter_stored(self) -> Iterator[tuple[int, Topic]]:
        """All topics by their numbers, as they were made; raises CorruptionError where one is missing."""
        expected = 0
        for key, row in self._rows.scan(TOPICS_TABLE):
            if U32.unpack(key)[0] != expected or expected == len(self):
                break
            yield expected, self._parse_topic(expected, row)
            expected += 1
        if expected < len(self):
            raise _make_missing_error(expected)

    def list_level(self, level: int, *, related: bool = False) -> list[int]:
        """The topics of a level, 0 being the finest, that have a living chunk; together they have every chunk, or of
        those of what is ``related`` every one that names what another does."""
        return list(filter(self.is_alive, self.tree.list_level(level, related=related).tolist()))

    def select_largest(self, limit: int) -> list[int]:
        """Topics with a living chunk that share none: as fine ones as are so many at most, or the largest."""
        return list(filter(self.is_alive, self.tree.select_largest(limit).tolist()))

    def list_roots(self, *, related: bool = False) -> list[int]:
        """The topics that are part of no other."""
        return list(filter(self.is_alive, self.tree.list_roots(related=related).tolist()))

    def get(self, topic: int) -> Topic:
        """A topic as it was when it was made; raises CorruptionError where it is not stored."""
        return self.load_topics([topic])[topic]

    def load_topics(self, topics: Sequence[int]) -> Mapping[int, Topic]:
        """Some topics as they were when they were made, and perhaps others; see :meth:`get`."""
        missing = [topic for topic in topics if topic not in self._topics]
        for topic, row in zip(missing, self._read_rows(missing), strict=True):
            self._topics[topic] = self._parse_topic(topic, row)
        return self._topics

    def _read_rows(self, topics: Sequence[int]) -> Iterator[Sequence[Any]]:
        rows = self._rows.get_many(TOPICS_TABLE, list(map(U32.pack, topics)))
        for topic, row in zip(topics, rows, strict=True):
            if row is None:
                raise _make_missing_error(topic)
            yield row

    def is_related(self, topic: int) -> bool:
        """Whether it is of the tree of what is related."""
        return self.tree.is_related(topic)

    def list_children(self, topic: int) -> list[int]:
        """The topics that one is made of; none of one of the finest."""
        return list(filter(self.is_alive, self.tree.list_children(topic)))

    def is_alive(self, topic: int) -> bool:
        """Whether it has a living chunk."""
        return not self._is_changed or any(
            any(map(self._has_chunk, self.tree.list_chunks(finest))) or finest in self._newer_by_topic
            for finest in self.tree.iter_finest(topic)
        )

    def count_chunks(self, topic: int) -> int:
        """How many living chunks are below it."""
        return len(self.list_chunks(topic)) if self._is_changed else int(self.tree.sizes[topic])

    def find_summands(self, topic: int) -> tuple[list[int], list[int]]:
        """What adds up to the sum of the vectors of the living chunks below it: topics with a stored sum, and chunks.

        A topic of which something has come or gone is the sum of those below it, where these share no chunk. Topics
        with the same chunks have the same summands.
        """
        topic = int(self.tree.branching[topic])
        if self.tree.sizes[topic] > MOST_ADDED:
            if not self.is_stale(topic):
                return [topic], []
            if self.tree.levels[topic] and self.tree.has_disjoint_leaves and not self.is_related(topic):
                child_summands = [self.find_summands(child) for child in self.tree.list_children(topic)]
                topics, chunks = (
                    [number for part in parts for number in part] for parts in zip(*child_summands, strict=True)
                )
                return topics, chunks
        return [], self.list_chunks(topic)

    def read_vector_sums(self, topics: Sequence[int]) -> list[Matrix]:
        """The stored sum of the vectors of all chunks that were below each of some topics when they were made."""
        return [np.frombuffer(row[_SUM_COLUMN], "<f4") for row in self._read_rows(topics)]

    def list_chunks(self, topic: int) -> list[int]:
        """The living chunks below it, newer ones last."""
        found: dict[int, None] = {}
        newer_chunks: dict[int, None] = {}
        for finest in self.tree.iter_finest(topic):
            found.update((chunk, None) for chunk in self.tree.list_chunks(finest) if self._has_chunk(chunk))
            newer_chunks.update((chunk, None) for chunk in self._newer_by_topic.get(finest, ()))
        return [*found, *newer_chunks]

    def find_topics(self, chunk: int) -> list[int]:
        """The topics that a chunk is below, the finest first; of several finest ones the first leads upwards."""
        return self.find_topics_by_chunk([chunk])[0]

    def find_topics_by_chunk(self, chunks: Sequence[int]) -> list[list[int]]:
        """The topics that each of some chunks is below; see :meth:`find_topics`."""
        leaves_by_chunk = self._find_leaves(chunks)
        for chunk, finest in zip(chunks, leaves_by_chunk, strict=True):
            if not finest and chunk in self._topic_by_chunk:
                finest.append(self._topic_by_chunk[chunk])
        return [[*finest, *self._list_ancestors(finest[:1])] for finest in leaves_by_chunk]

    def find_related_by_chunk(self, chunks: Sequence[int]) -> list[list[int]]:
        """The topics of what is related that each of some chunks is below: those of its names, and all above any of
        these."""
        topics_by_chunk = []
        for chunk, finest in zip(chunks, self.tree.find_leaves(chunks, related=True), strict=True):
            leaves = finest or self._related_by_chunk.get(chunk, ())
            topics_by_chunk.append([*leaves, *self._list_ancestors(leaves)])
        return topics_by_chunk

    def list_newer_chunks(self) -> list[int]:
        """The chunks that came after it was made."""
        return self._newer_chunks

    def get_title(self, topic: int) -> str:
        """What it is called: by a model, or by words that its members share, or the names of what is related; empty
        where none is left."""
        model_text = self.get_written_text(topic)
        if model_text is not None:
            return str(model_text.value["title"])
        if self.is_related(topic):
            return ", ".join(self._list_names(topic))
        return ", ".join(map(self._read_text, self._filter_existing(self.get(topic).title)))

    def list_summary_spans(self, topic: int) -> list[StoredSpan]:
        """The sentences that sum it up, in the order of documents, as far as they are there."""
        return self._filter_existing(self.get(topic).summary)

    def get_text(self, topic: int) -> str:
        """Its summary: a model's, or its sentences."""
        model_text = self.get_written_text(topic)
        if model_text is not None:
            return str(model_text.value["summary"])
        return " ".join(format_summary_sentence(self._read_text(span)) for span in self.list_summary_spans(topic))

    def get_written_text(self, topic: int) -> WrittenText | None:
        """What a model wrote of it, while all that it wrote from is there."""
        if not self._state.lmdb.count(tables.WRITTEN) or not self.is_whole(topic):
            return None
        return get_written_text(self._state.lmdb, self.get(topic).content)

    def is_whole(self, topic: int) -> bool:
        """Whether all that a model is shown of it is there."""
        return all(self._has_document(span.document) for span in self.get(topic).prompt_spans)

    def list_prompt_texts(self, topic: int) -> list[str]:
        """What a model is shown of it."""
        return [self._read_text(span) for span in self.get(topic).prompt_spans]

    def is_stale(self, topic: int) -> bool:
        """Whether a chunk below it is gone, or a newer one belongs there."""
        return self._is_changed and any(map(self._has_changed, self.tree.iter_finest(topic)))

    def describe_texts(self) -> str:
        """How many of the texts that a model may write are there, by which models; empty where none is."""
        models: Counter[str] = Counter()
        texts = 0
        for _, topic in self.iter_stored() if self._state.lmdb.count(tables.WRITTEN) else ():
            if topic.chunk_count > 1:
                texts += 1
                is_whole = all(self._has_document(span.document) for span in topic.prompt_spans)
                model_text = get_written_text(self._state.lmdb, topic.content) if is_whole else None
                models.update(() if model_text is None else (model_text.model,))
        return f"; {models.total():,} of {texts:,} texts by {', '.join(sorted(models))}" if models else ""

    def find_unplaced(self) -> Iterator[str]:
        """Chunks that no topic has, and should, as sentences; each is told once."""
        known_chunks = set(self.tree.known_chunks.tolist())
        for chunk, _ in self._state.chunks.scan(0, self.chunk_stop):
            if chunk not in known_chunks:
                yield f"chunk {chunk} is in no topic"

    def _list_ancestors(self, finest: Sequence[int]) -> list[int]:
        """All that is above some topics, the nearest first, each once."""
        ancestors: dict[int, None] = {}
        for topic in finest:
            parent = self.tree.get_parent(topic)
            while parent is not None and parent not in ancestors:
                ancestors[parent] = None
                parent = self.tree.get_parent(parent)
        return list(ancestors)

    def _list_names(self, topic: int) -> list[str]:
        """The names that it is called by, as far as they are there; none is a part of another."""
        names: list[str] = []
        for entity in self.get(topic).entities:
            if len(names) < NUM_TITLE_WORDS and entity in self._state.entities:
                name = self._state.entities.get(entity).name
                if not any(name in other or other in name for other in names):
                    names.append(name)
        return names

    def _parse_topic(self, number: int, row: Sequence[Any]) -> Topic:
        """A topic of its row."""
        level = int(self.tree.levels[number])
        children = self.tree.list_children(number) if level else self.tree.list_chunks(number)
        return parse_topic((level, self.tree.get_parent(number), children), row)

    def _filter_existing(self, spans: Sequence[StoredSpan]) -> list[StoredSpan]:
        return [span for span in spans if self._has_document(span.document)]

    def _has_document(self, document: int) -> bool:
        exists = self._document_exists.get(document)
        if exists is None:
            exists = self._document_exists[document] = self._state.documents.has_id(document)
        return exists

    def _has_changed(self, finest: int) -> bool:
        changed = self._topic_changed.get(finest)
        if changed is None:
            changed = finest in self._newer_by_topic or not all(map(self._has_chunk, self.tree.list_chunks(finest)))
            self._topic_changed[finest] = changed
        return changed

    def _has_chunk(self, chunk: int) -> bool:
        if not self._has_lost_chunks:
            return True
        exists = self._chunk_exists.get(chunk)
        if exists is None:
            exists = self._chunk_exists[chunk] = self._state.chunks.has_many([chunk])[0]
        return exists

    def _read_text(self, span: StoredSpan) -> str:
        return self._state.documents.text_slice(span.document, span.start, span.end)

    @cached_property
    def _is_changed(self) -> bool:
        return self._state.counters.change != self.change or self._state.lmdb.writable

    @cached_property
    def _has_lost_chunks(self) -> bool:
        """Whether a chunk that the topics were made of is gone."""
        if not self._is_changed:
            return False
        return self._state.lmdb.writable or self._state.counters.chunks - len(self._newer_chunks) < len(
            self.tree.known_chunks
        )

    @cached_property
    def _newer_chunks(self) -> list[int]:
        return [chunk for chunk, _ in self._state.chunks.scan(self.chunk_stop)]

    @cached_property
    def _newer_by_topic(self) -> Mapping[int, Sequence[int]]:
        """The newer chunks by the finest topic in which each is placed."""
        chunks_by_topic: dict[int, list[int]] = {}
        for chunk, topic in self._topic_by_chunk.items():
            chunks_by_topic.setdefault(topic, []).append(chunk)
        for chunk, topics in self._related_by_chunk.items():
            for topic in topics:
                chunks_by_topic.setdefault(topic, []).append(chunk)
        return chunks_by_topic

    @cached_property
    def _related_by_chunk(self) -> Mapping[int, Sequence[int]]:
        """The leaves of what is related, with an older chunk each, that newer chunks name."""
        if not self._newer_chunks or not self._leaf_by_entity:
            return {}
        display = load_display_entities(self._state)
        leaves_by_chunk: dict[int, list[int]] = {}
        for chunk in self._newer_chunks:
            names = (display.resolve_one(entity) for entity, _, _ in self._state.mentions.get_in_chunk(chunk))
            leaves = sorted({self._leaf_by_entity[entity] for entity in names if entity in self._leaf_by_entity})
            living_leaves = [leaf for leaf in leaves if any(map(self._has_chunk, self.tree.list_chunks(leaf)))]
            if living_leaves:
                leaves_by_chunk[chunk] = living_leaves
        return leaves_by_chunk

    @cached_property
    def _topic_by_chunk(self) -> Mapping[int, int]:
        """The finest topic of each newer chunk."""
        if not self._newer_chunks or not len(self):
            return {}
        records = self._state.chunks.get_many(self._newer_chunks)
        vectors = self._state.vectors.gather([(record.block, record.row) for record in records])
        nearest = (
            self._scan_nearest_older(vectors)
            if len(vectors) > _SEARCHED
            else [self._find_nearest_older(vector) for vector in vectors]
        )
        pairs = [(chunk, older) for chunk, older in zip(self._newer_chunks, nearest, strict=True) if older is not None]
        leaves = self._find_leaves([older for _, older in pairs])
        return {chunk: finest[0] for (chunk, _), finest in zip(pairs, leaves, strict=True) if finest}

    def _find_nearest_older(self, vector: Matrix) -> int | None:
        """The older chunk nearest to a vector."""
        count = _NUM_NEIGHBORS
        while True:
            ranking, _ = find_nearest_chunks(self._state, vector, count)
            chunks = [chunk for chunk, _ in ranking]
            older = next(
                (chunk for chunk, finest in zip(chunks, self._find_leaves(chunks), strict=True) if finest), None
            )
            if older is not None or len(ranking) < count:
                return older
            count *= 8

    def _scan_nearest_older(self, vectors: Matrix) -> list[int | None]:
        """The older chunks nearest to many vectors, in one pass over those that are stored."""
        chunks = np.zeros(len(vectors), np.uint64)
        cosines = np.full(len(vectors), -np.inf, np.float32)
        for ids, matrix in self._state.vectors.scan():
            older = ids < self.chunk_stop
            if not older.any():
                continue
            ids = ids[older]
            products = vectors @ matrix[older].T
            best = products.argmax(axis=1)
            values = products[np.arange(len(vectors)), best]
            is_better = values > cosines
            cosines[is_better], chunks[is_better] = values[is_better], ids[best[is_better]]
        nearest: list[int] = chunks.tolist()
        return [chunk if finest else None for chunk, finest in zip(nearest, self._find_leaves(nearest), strict=True)]

    def _find_leaves(self, chunks: Sequence[int]) -> list[list[int]]:
        """The finest topics that each of some chunks had when they were made."""
        return self.tree.find_leaves(chunks, related=False)

    @property
    def _leaf_by_entity(self) -> Mapping[int, int]:
        """By entity the leaf of what is related."""
        return self._rows.get_cached("of_entity", lambda rows: _map_entities_to_leaves(rows, self.tree))


def _make_missing_error(topic: int) -> CorruptionError:
    return CorruptionError(f"index topics: topic {topic} is not stored; DROP INDEX topics, and make it anew")


def _map_entities_to_leaves(rows: GenerationRows, tree: StoredTopicTrees) -> dict[int, int]:
    leaves = tree.list_level(0, related=True).tolist()
    leaf_rows = rows.get_many(TOPICS_TABLE, list(map(U32.pack, leaves)))
    return {entity: leaf for leaf, row in zip(leaves, leaf_rows, strict=True) if row is not None for entity in row[-1]}


def iter_topic_rows(topics: Iterable[Topic], columns: TreeColumns) -> Iterator[tuple[bytes, list[object]]]:
    """Topics as rows of the table, without their places in the trees, of which ``columns`` take note."""
    for number, topic in enumerate(topics):
        columns.append(topic)
        yield U32.pack(number), [*topic[3 : None if topic.is_related else -1]]


def parse_topic(tree_fields: tuple[int, int | None, Sequence[int]], row: Sequence[Any]) -> Topic:
    """The topic of a row, with its place in the trees: level, parent and children."""
    chunk_count, document_count, title, summary, prompt_spans, content, vector_sum, *entities = row
    title, summary, prompt_spans = ([StoredSpan(*span) for span in spans] for spans in (title, summary, prompt_spans))
    return Topic(
        *tree_fields, chunk_count, document_count, title, summary, prompt_spans, content, vector_sum, *entities
    )
