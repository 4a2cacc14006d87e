"""The topics of one build of the index, filtered to what one state of the store contains. A *topic* is a group of
chunks with a summary; coarse topics contain finer ones. The tree of *similar* content groups chunks by vectors; the
tree of *related* content groups sentences about the same entity.

In: a generation of the ``topics`` index and a state. Out: topics by level, limited to what still exists. Topics of
which no chunk exists are hidden. Sentences and title words of deleted documents are hidden, and a model's text is used
only while all its sources exist. A chunk newer than the generation is assigned to the topic of its nearest older chunk
and, in the tree of related content, to the topics of its names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ...arguments import format_count
from ...errors import CorruptionError
from ...retrieval.evidence import StoredSpan
from ...storage.records import U32
from ...structures import tables
from ...structures.display_entities import load_display_entities
from ...structures.indexes.generations import GenerationRows
from ...structures.indexes.vector_search import find_nearest_chunks
from ...structures.indexes.written_texts import WrittenText, WrittenTexts
from ...structures.state import State
from ...structures.vectors.vectors import Matrix, Vector
from ...text.blocks import format_summary_sentence
from .ordered_chunks import MAX_SUMMED_CHUNKS
from .topic_building import Topic
from .topic_summaries import MAX_TITLE_WORDS
from .topic_trees import StoredTopicTrees, TreeColumns

TOPICS_TABLE = "topics"
#: The index of the vector sum in a row, and of the entities in a row of a topic of related content.
_SUM_COLUMN, _ENTITIES_COLUMN = 6, 7
#: The maximum number of newer chunks assigned to topics by one search each; more take one pass over all vectors.
_MAX_SEARCHES = 32
#: The number of neighbors first requested for a newer chunk, since the nearest can be newer too, and the factor by
#: which it is increased until one of them is older.
_NUM_NEIGHBORS, _NEIGHBORS_FACTOR = 32, 8


class Summands(NamedTuple):
    """Topics and chunks whose vectors add up to the sum of the vectors of a topic."""

    topics: list[int]
    chunks: list[int]


class Topics:
    """The topics of one build of the index in one state of the store; ids count from 0. A chunk *exists* if the state
    contains it, and a topic is *visible* if one of its chunks exists. A *newer* chunk was added after the build, and is
    assigned to topics when read. *Leaf* topics are the topics of level 0.
    """

    def __init__(self, rows: GenerationRows, state: State) -> None:
        """Open the topics of one build, which are stored in ``rows``; chunks missing from ``state`` are hidden."""
        #: The number of the change after which the topics were built, and the id after its last chunk.
        self.change, self.chunk_stop = rows.change, rows.chunk_stop
        self.levels = int(rows.header["levels"])
        #: The trees of similar and related content.
        self.trees: StoredTopicTrees = rows.get_cached("trees", StoredTopicTrees.from_rows)
        self._rows = rows
        self._state = state
        self._topics: dict[int, Topic] = {}  # a cache, by id
        #: Caches of :meth:`_has_document`, :meth:`_has_chunk` and :meth:`_has_leaf_changed`, by id.
        self._document_exists: dict[int, bool] = {}
        self._chunk_exists: dict[int, bool] = {}
        self._leaf_changed: dict[int, bool] = {}

    def __len__(self) -> int:
        """Return the number of topics as built, visible or not."""
        return len(self.trees)

    def iter_stored(self) -> Iterator[tuple[int, Topic]]:
        """Yield the id and the record of every topic, as built.

        Raises CorruptionError if one is missing.
        """
        next_id = 0
        for key, row in self._rows.scan(TOPICS_TABLE):
            if U32.unpack(key)[0] != next_id or next_id == len(self):
                break
            yield next_id, self._parse_topic(next_id, row)
            next_id += 1
        if next_id < len(self):
            raise _make_missing_error(next_id)

    def list_level(self, level: int, *, in_related_tree: bool = False) -> list[int]:
        """Return the visible topics at a level (0: the finest).

        Together they contain every chunk. With ``in_related_tree``, they are from the tree of sentences about the same
        entities, and contain every chunk that shares an entity with another.
        """
        return list(filter(self.is_visible, self.trees.list_level(level, in_related_tree=in_related_tree).tolist()))

    def select_finest_topics(self, limit: int) -> list[int]:
        """Return the topics of the finest level with at most ``limit`` topics of similar content.

        If no level has so few, they are the largest topics of the coarsest level. Topics that are not visible are
        omitted.
        """
        return list(filter(self.is_visible, self.trees.select_finest_topics(limit).tolist()))

    def list_roots(self, *, in_related_tree: bool) -> list[int]:
        """Return the visible topics without a parent in one tree.

        ``in_related_tree`` selects the tree of related content, otherwise the tree of similar content.
        """
        return list(filter(self.is_visible, self.trees.list_roots(in_related_tree=in_related_tree).tolist()))

    def get(self, topic: int) -> Topic:
        """Return a topic as it was built; raises CorruptionError if it is not stored."""
        return self.load_topics([topic])[topic]

    def load_topics(self, topics: Sequence[int]) -> Mapping[int, Topic]:
        """Read topics, as they were built, into the cache; return the cache, by topic id.

        Raises CorruptionError if one is missing.
        """
        missing_topics = [topic for topic in topics if topic not in self._topics]
        for topic, row in zip(missing_topics, self._iter_rows(missing_topics), strict=True):
            self._topics[topic] = self._parse_topic(topic, row)
        return self._topics

    def _iter_rows(self, topics: Sequence[int]) -> Iterator[Sequence[Any]]:
        """Yield the stored rows of topics; raises CorruptionError if one is missing."""
        rows = self._rows.get_many(TOPICS_TABLE, list(map(U32.pack, topics)))
        for topic, row in zip(topics, rows, strict=True):
            if row is None:
                raise _make_missing_error(topic)
            yield row

    def is_in_related_tree(self, topic: int) -> bool:
        """True if a topic belongs to the tree of related content, which groups sentences by their entities."""
        return self.trees.is_in_related_tree(topic)

    def list_children(self, topic: int) -> list[int]:
        """Return the visible children of a topic, ascending; empty for a leaf topic."""
        return list(filter(self.is_visible, self.trees.list_children(topic)))

    def is_visible(self, topic: int) -> bool:
        """True if a chunk of a topic still exists, or one was assigned to it after the build."""
        if not self._may_have_changed:
            return True
        return any(
            any(map(self._has_chunk, self.trees.list_chunks(leaf))) or leaf in self._newer_chunks_by_topic
            for leaf in self.trees.iter_leaves(topic)
        )

    def count_chunks(self, topic: int) -> int:
        """Return the number of chunks in a topic that still exist."""
        return len(self.list_chunks(topic)) if self._may_have_changed else int(self.trees.sizes[topic])

    def find_summands(self, topic: int) -> Summands:
        """Return topics and chunks whose vectors add up to the sum of the vectors of a topic's remaining chunks.

        The vector of a returned topic is its stored sum, which is valid if none of its chunks changed. A topic with few
        chunks has no stored sum, and is replaced by its chunks. A changed topic is replaced by its children if these
        share no chunk, otherwise by its chunks.
        """
        topic = int(self.trees.branching_topics[topic])  # skips topics with a single child, which has the same chunks
        if self.trees.sizes[topic] > MAX_SUMMED_CHUNKS:
            if not self.is_stale(topic):
                return Summands([topic], chunks=[])
            if self.trees.levels[topic] and self.trees.has_disjoint_leaves and not self.is_in_related_tree(topic):
                child_summands = list(map(self.find_summands, self.trees.list_children(topic)))
                return Summands(
                    topics=[summand for summands in child_summands for summand in summands.topics],
                    chunks=[chunk for summands in child_summands for chunk in summands.chunks],
                )
        return Summands([], self.list_chunks(topic))

    def read_vector_sums(self, topics: Sequence[int]) -> list[Matrix]:
        """Return the stored sums of the vectors of all chunks that each topic had at build time."""
        return [np.frombuffer(row[_SUM_COLUMN], "<f4") for row in self._iter_rows(topics)]

    def list_chunks(self, topic: int) -> list[int]:
        """Return the chunks in a topic that still exist; chunks that were added after the build come last."""
        chunks: dict[int, None] = {}
        newer_chunks: dict[int, None] = {}
        for leaf in self.trees.iter_leaves(topic):
            chunks.update((chunk, None) for chunk in self.trees.list_chunks(leaf) if self._has_chunk(chunk))
            newer_chunks.update((chunk, None) for chunk in self._newer_chunks_by_topic.get(leaf, ()))
        return [*chunks, *newer_chunks]

    def find_topics_by_chunk(self, chunks: Sequence[int]) -> list[list[int]]:
        """Return, for each chunk, the topics that contain it, finest first.

        If a chunk is in several leaf topics, only the ancestors of the first are included.
        """
        leaves_by_chunk = self.trees.find_leaves(chunks)
        for chunk, leaves in zip(chunks, leaves_by_chunk, strict=True):
            if not leaves and chunk in self._topic_by_newer_chunk:  # the chunk is newer than the topics
                leaves.append(self._topic_by_newer_chunk[chunk])
        return [[*leaves, *self._list_ancestors(leaves[:1])] for leaves in leaves_by_chunk]

    def find_related_topics(self, chunks: Sequence[int]) -> list[list[int]]:
        """Return, for each chunk, the topics of related content that contain it: leaf topics, then their ancestors."""
        topics_by_chunk = []
        for chunk, stored_leaves in zip(chunks, self.trees.find_leaves(chunks, in_related_tree=True), strict=True):
            # A chunk newer than the topics belongs to the topics of the entities that it mentions.
            leaves = stored_leaves or self._related_leaves_by_newer_chunk.get(chunk, ())
            topics_by_chunk.append([*leaves, *self._list_ancestors(leaves)])
        return topics_by_chunk

    def get_title(self, topic: int) -> str:
        """Return the title that a language model wrote for a topic, else words or names that its members share.

        Empty if none of these still exist. Names are used for topics of related content, and words for the others.
        """
        model_text = self.get_written_text(topic)
        if model_text is not None and "title" in model_text.value:
            return str(model_text.value["title"])
        if self.is_in_related_tree(topic):
            return ", ".join(self._list_names(topic))
        return ", ".join(map(self._read_text, self._filter_existing(self.get(topic).title)))

    def list_summary_spans(self, topic: int) -> list[StoredSpan]:
        """Return the spans of the sentences of a topic's summary whose documents still exist, in order of documents."""
        return self._filter_existing(self.get(topic).summary)

    def list_source_spans(self, topic: int) -> list[StoredSpan]:
        """Return the spans of documents that a topic's text comes from: the spans that a model cited as its sources.

        If there are none, or no model wrote the text, they are the sentences of the extractive summary.
        """
        model_text = self.get_written_text(topic)
        sources = () if model_text is None else model_text.value.get("sources", ())
        if not sources:
            return self.list_summary_spans(topic)
        prompt_spans = self.get(topic).prompt_spans
        return [prompt_spans[source] for source in sources]

    def get_text(self, topic: int) -> str:
        """Return the summary that a language model wrote about a topic, else the extracted summary sentences."""
        model_text = self.get_written_text(topic)
        if model_text is not None:
            return str(model_text.value["summary"])
        return " ".join(format_summary_sentence(self._read_text(span)) for span in self.list_summary_spans(topic))

    def get_written_text(self, topic: int) -> WrittenText | None:
        """Return the text that a language model wrote about a topic; None if it is missing or a source was deleted."""
        if not self._state.lmdb.count(tables.WRITTEN) or not self.has_prompt_documents(topic):
            return None
        return WrittenTexts(self._state.lmdb).get(self.get(topic).content_digest)

    def has_prompt_documents(self, topic: int) -> bool:
        """True if every document quoted in the prompt to summarize a topic still exists."""
        return self._has_documents(self.get(topic).prompt_spans)

    def list_prompt_texts(self, topic: int) -> list[str]:
        """Return the texts quoted in the prompt that asks a language model to summarize a topic."""
        return [self._read_text(span) for span in self.get(topic).prompt_spans]

    def is_stale(self, topic: int) -> bool:
        """True if a chunk of a topic was deleted, or a new one was assigned to it, since the topics were built."""
        return self._may_have_changed and any(map(self._has_leaf_changed, self.trees.iter_leaves(topic)))

    def format_text_counts(self) -> str:
        """Return how many topics have a text from a language model, and from which models, for SHOW INDEXES.

        The string continues the description of the index; it is empty if no topic has such a text.
        """
        if not self._state.lmdb.count(tables.WRITTEN):
            return ""
        counts_by_model: Counter[str] = Counter()
        num_texts = 0
        for _, topic in self.iter_stored():
            if topic.chunk_count > 1:
                num_texts += 1
                has_source = self._has_documents(topic.prompt_spans)
                model_text = WrittenTexts(self._state.lmdb).get(topic.content_digest) if has_source else None
                if model_text is not None:
                    counts_by_model[model_text.model] += 1
        models = ", ".join(sorted(counts_by_model))
        return f"; {counts_by_model.total():,} of {format_count(num_texts, 'text')} by {models}" if models else ""

    def iter_faults(self) -> Iterator[str]:
        """Yield an error message for CHECK for each chunk that should be in a topic but is in none."""
        known_chunks = set(self.trees.known_chunks.tolist())
        for chunk, _ in self._state.chunks.scan(0, self.chunk_stop):
            if chunk not in known_chunks:
                yield f"chunk {chunk} is in no topic"

    def _list_ancestors(self, topics: Sequence[int]) -> list[int]:
        """Return the distinct ancestors of topics.

        First come the ancestors of the first topic, from its parent to its root, then the new ancestors of the next
        topic.
        """
        ancestors: dict[int, None] = {}
        for topic in topics:
            parent = self.trees.get_parent(topic)
            while parent is not None and parent not in ancestors:
                ancestors[parent] = None
                parent = self.trees.get_parent(parent)
        return list(ancestors)

    def _list_names(self, topic: int) -> list[str]:
        """Return names of a topic's entities for its title, skipping deleted ones and names that contain each other."""
        names: list[str] = []
        for entity in self.get(topic).entities:
            if len(names) < MAX_TITLE_WORDS and entity in self._state.entities:
                name = self._state.entities.get(entity).name
                if not any(name in other or other in name for other in names):
                    names.append(name)
        return names

    def _parse_topic(self, topic: int, row: Sequence[Any]) -> Topic:
        """Build the record of a topic from its stored row, and from the tree, which has its level and relatives."""
        level = int(self.trees.levels[topic])
        children = self.trees.list_children(topic) if level else self.trees.list_chunks(topic)
        parent = self.trees.get_parent(topic)
        num_chunks, num_documents, *packed_spans = row[:5]
        title, summary, prompt_spans = ([StoredSpan(*span) for span in spans] for spans in packed_spans)
        # The other fields are the content digest, the vector sum and, in the tree of related content, the entities.
        return Topic(level, parent, children, num_chunks, num_documents, title, summary, prompt_spans, *row[5:])

    def _filter_existing(self, spans: Sequence[StoredSpan]) -> list[StoredSpan]:
        """Return the spans whose documents still exist."""
        return [span for span in spans if self._has_document(span.document)]

    def _has_documents(self, spans: Iterable[StoredSpan]) -> bool:
        """True if the documents of all spans still exist."""
        return all(self._has_document(span.document) for span in spans)

    def _has_document(self, document: int) -> bool:
        """True if a document still exists; cached."""
        exists = self._document_exists.get(document)
        if exists is None:
            exists = self._document_exists[document] = self._state.documents.has_id(document)
        return exists

    def _has_leaf_changed(self, leaf: int) -> bool:
        """True if a chunk of a leaf topic was deleted, or one was assigned to it, since the build; cached."""
        has_changed = self._leaf_changed.get(leaf)
        if has_changed is None:
            has_newer_chunks = leaf in self._newer_chunks_by_topic
            has_changed = has_newer_chunks or not all(map(self._has_chunk, self.trees.list_chunks(leaf)))
            self._leaf_changed[leaf] = has_changed
        return has_changed

    def _has_chunk(self, chunk: int) -> bool:
        """True if ``chunk``, which the topics were built from, still exists; cached."""
        if not self._may_have_lost_chunks:
            return True
        exists = self._chunk_exists.get(chunk)
        if exists is None:
            exists = self._chunk_exists[chunk] = self._state.chunks.has_many([chunk])[0]
        return exists

    def _read_text(self, span: StoredSpan) -> str:
        """Return the text of a span."""
        return self._state.documents.read_text_slice(span.document, span.start, span.end)

    @cached_property
    def _may_have_changed(self) -> bool:
        """True if the store may have changed since the topics were built; always True in a write transaction."""
        return self._state.counters.change != self.change or self._state.lmdb.writable

    @cached_property
    def _may_have_lost_chunks(self) -> bool:
        """True if a chunk that the topics were built from may have been deleted."""
        if not self._may_have_changed:
            return False
        # If a chunk was deleted, the store has fewer older chunks than at the build.
        num_older = self._state.counters.chunks - len(self.newer_chunks)
        return self._state.lmdb.writable or num_older < len(self.trees.known_chunks)

    @cached_property
    def newer_chunks(self) -> list[int]:
        """The chunks added after the build, ascending."""
        return [chunk for chunk, _ in self._state.chunks.scan(self.chunk_stop)]

    @cached_property
    def _newer_chunks_by_topic(self) -> Mapping[int, Sequence[int]]:
        """For each leaf topic, the chunks added after the build that are assigned to it.

        A chunk belongs to the topic of its nearest older chunk, and to the topics of the entities it mentions.
        """
        chunks_by_topic: dict[int, list[int]] = {}
        for chunk, topic in self._topic_by_newer_chunk.items():
            chunks_by_topic.setdefault(topic, []).append(chunk)
        for chunk, topics in self._related_leaves_by_newer_chunk.items():
            for topic in topics:
                chunks_by_topic.setdefault(topic, []).append(chunk)
        return chunks_by_topic

    @cached_property
    def _related_leaves_by_newer_chunk(self) -> Mapping[int, Sequence[int]]:
        """For each chunk added after the build, the leaf topics of related content whose entities it mentions.

        A topic is omitted if all chunks that it was built from were deleted.
        """
        if not self.newer_chunks or not self._leaf_by_entity:
            return {}
        display = load_display_entities(self._state)
        leaves_by_chunk: dict[int, list[int]] = {}
        for chunk in self.newer_chunks:
            # An alias counts as the entity that it refers to.
            entities = (display.resolve_entity(entity) for entity, _, _ in self._state.mentions.get_occurrences(chunk))
            leaves = sorted({self._leaf_by_entity[entity] for entity in entities if entity in self._leaf_by_entity})
            visible_leaves = [leaf for leaf in leaves if any(map(self._has_chunk, self.trees.list_chunks(leaf)))]
            if visible_leaves:
                leaves_by_chunk[chunk] = visible_leaves
        return leaves_by_chunk

    @cached_property
    def _topic_by_newer_chunk(self) -> Mapping[int, int]:
        """For each chunk added after the build, the finest topic of the nearest chunk that the build included.

        The topic is in the tree of similar content. A chunk is omitted if there is no older chunk in a topic.
        """
        if not self.newer_chunks or not len(self):
            return {}
        vectors = self._state.vectors.gather(self._state.chunks.get_vector_locations(self.newer_chunks))
        nearest_chunks = (
            self._scan_nearest_older(vectors)
            if len(vectors) > _MAX_SEARCHES
            else [self._find_nearest_older(vector) for vector in vectors]
        )
        chunk_pairs = zip(self.newer_chunks, nearest_chunks, strict=True)
        pairs = [(chunk, older_chunk) for chunk, older_chunk in chunk_pairs if older_chunk is not None]
        leaves_by_pair = self.trees.find_leaves([older_chunk for _, older_chunk in pairs])
        return {chunk: leaves[0] for (chunk, _), leaves in zip(pairs, leaves_by_pair, strict=True) if leaves}

    def _find_nearest_older(self, vector: Vector) -> int | None:
        """Return the chunk of the build that is nearest to a vector; None if all its chunks were deleted."""
        count = _NUM_NEIGHBORS
        while True:
            ranking, _ = find_nearest_chunks(self._state, vector, count)
            chunks = [chunk for chunk, _ in ranking]
            # A chunk that was added after the build is in no topic.
            older_chunks = [
                chunk for chunk, leaves in zip(chunks, self.trees.find_leaves(chunks), strict=True) if leaves
            ]
            if older_chunks or len(ranking) < count:
                return older_chunks[0] if older_chunks else None
            count *= _NEIGHBORS_FACTOR

    def _scan_nearest_older(self, vectors: Matrix) -> list[int | None]:
        """Return, for each of many vectors, the nearest of the chunks that the topics were built from.

        A vector gets None if there is no such chunk, or if it is in no topic. This takes one pass over all vectors.
        """
        chunks = np.zeros(len(vectors), np.uint64)  # 0 is not the id of a chunk
        cosines = np.full(len(vectors), -np.inf, np.float32)
        for ids, matrix in self._state.vectors.scan():
            is_older = ids < self.chunk_stop
            if not is_older.any():
                continue
            ids = ids[is_older]
            products = vectors @ matrix[is_older].T
            best = products.argmax(axis=1)
            max_products = products[np.arange(len(vectors)), best]
            is_better = max_products > cosines
            cosines[is_better], chunks[is_better] = max_products[is_better], ids[best[is_better]]
        nearest: list[int] = chunks.tolist()
        return [
            chunk if leaves else None for chunk, leaves in zip(nearest, self.trees.find_leaves(nearest), strict=True)
        ]

    @property
    def _leaf_by_entity(self) -> Mapping[int, int]:
        """The leaf topic of each entity in the tree of related content; cached."""
        return self._rows.get_cached("leaf_by_entity", lambda rows: _map_entities_to_leaf_topics(rows, self.trees))


def _make_missing_error(topic: int) -> CorruptionError:
    """Return the error for a topic whose record is missing from the index."""
    return CorruptionError(f"index topics: topic {topic} is not stored; DROP INDEX topics, and create it again")


def _map_entities_to_leaf_topics(rows: GenerationRows, trees: StoredTopicTrees) -> dict[int, int]:
    """Return, for each entity, the id of the leaf topic of related content made of the sentences that mention it."""
    leaves = trees.list_level(0, in_related_tree=True).tolist()
    leaf_rows = rows.get_many(TOPICS_TABLE, list(map(U32.pack, leaves)))
    leaf_by_entity: dict[int, int] = {}
    for leaf, row in zip(leaves, leaf_rows, strict=True):
        if row is not None:
            leaf_by_entity.update(dict.fromkeys(row[_ENTITIES_COLUMN], leaf))
    return leaf_by_entity


def iter_topic_rows(topics: Iterable[Topic], columns: TreeColumns) -> Iterator[tuple[bytes, list[object]]]:
    """Yield the rows (key, fields) of the ``topics`` table; append the other fields of each topic to ``columns``."""
    for topic_id, topic in enumerate(topics):
        columns.append(topic)
        _level, _parent, _children, *fields, entities = topic  # the first three are in ``columns``
        yield U32.pack(topic_id), [*fields, entities] if topic.is_in_related_tree else fields
