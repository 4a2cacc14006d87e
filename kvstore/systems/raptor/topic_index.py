"""The index of kind ``topics``: building, reading and checking it. A *topic* is a group of similar chunks of all
documents, with a summary; coarse topics contain finer ones. A second tree has topics of *related content*: sentences
that mention the same entity.

In: the chunks of a store with their vectors. On disk, in generations: ``topics``, a row for each topic, and
``topic_trees``. Out: :class:`~kvstore.systems.raptor.topics.Topics`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any

from ...arguments import Choice, Option, format_count
from ...retrieval.evidence import StoredSpan
from ...structures.clustering.affinity import IntArray, Partition
from ...structures.indexes.generations import (
    Generation,
    GenerationIndex,
    GenerationRows,
    KeyedRows,
    OutlineNode,
    WritingTask,
)
from ...structures.indexes.index import BuildTools, IndexRecord, States
from ...structures.logical import LogicalNames
from ...structures.state import State
from ...structures.vectors.vectors import Matrix
from .naming_sentences import EntityMentions, compute_leaf_vectors, group_entity_sentences
from .ordered_chunks import OrderedChunks
from .topic_building import RelatedTree, Topic, TopicTree, fit_partitions, iter_partitions
from .topic_trees import TREES_TABLE, TreeColumns
from .topics import TOPICS_TABLE, Topics, iter_topic_rows

if TYPE_CHECKING:
    from ...models.structured import StructuredPrompt

#: The number of topics between two progress reports.
_PROGRESS_INTERVAL = 500

#: The maximum number of levels of topics.
_MAX_LEVELS = 4


class TopicIndex(GenerationIndex[Topics]):
    """The index of a tree of topics across all documents."""

    name = "topics"
    description = "a tree of topics above all documents, with summaries"
    options: Mapping[str, Option | Choice] = {
        "method": Choice(
            "affinity",
            ("affinity", "gmm"),
            "how chunks are grouped; gmm is the paper's method, in which a chunk can be in several topics",
        ),
        "size": Option(12, 2, 1000, "maximum members of a topic; gmm splits topics with more chunks again"),
        "soft": Option(
            0.0, 0, 1, "a chunk also joins a second topic if its cosine with that topic is at most this much lower"
        ),
        "relatedness": Option(0, 0, 1, "1 adds a second tree, over the sentences that name each entity"),
    }
    version = 3
    tables = (TOPICS_TABLE, TREES_TABLE)
    has_outline = True

    def build(self, states: States, record: IndexRecord, tools: BuildTools) -> Generation:
        """Cluster the chunks of a snapshot of the store into trees of topics (RAPTOR, section 3).

        One tree groups chunks with similar vectors. The option ``relatedness`` adds a tree of sentences that mention
        the same entity, and ``soft`` above 0 or the method ``gmm`` can put a chunk into a second topic. Returns the
        generation (the table rows of this build); its rows are built one by one as the caller stores them. ``states()``
        opens the snapshot, ``record`` has the options of the index, and ``tools`` reports progress.
        """
        has_related_tree, soft = record.get_int_option("relatedness"), record.get_float_option("soft")
        with states() as state:
            counters = state.counters
            chunks, vectors = OrderedChunks.from_state(state)
            mentions = EntityMentions.from_state(state) if has_related_tree else None
            open_indexes = state.open_indexes
        if open_indexes is not None:  # None: a state without an open store
            open_indexes.environment.release_pages()  # reading all chunks brought the file into memory
        method, size = record.get_str_option("method"), record.get_int_option("size")
        retained_vectors = vectors if has_related_tree or soft else None
        second_topics: IntArray | None = None
        if method == "gmm":
            partitions, second_topics = fit_partitions(vectors, size, _MAX_LEVELS)
        else:
            partition_iterator = iter_partitions(vectors, method, size, _MAX_LEVELS)
            del vectors  # Clustering frees them when it no longer needs them: a third of the memory, for a large store.
            partitions = list(partition_iterator)
        similar_tree = TopicTree(chunks, partitions, soft, vectors=retained_vectors, second_topics=second_topics)
        trees: list[TopicTree | RelatedTree] = [similar_tree]
        if mentions is not None and retained_vectors is not None:
            trees.append(
                _build_related_tree(chunks, mentions, retained_vectors, method, size, first_id=len(similar_tree))
            )
        columns = TreeColumns()
        # Topics are built one by one as the first table is written, which fills ``columns``; the second table follows.
        rows: Mapping[str, KeyedRows] = {
            TOPICS_TABLE: iter_topic_rows(_iter_topics(trees, tools), columns),
            TREES_TABLE: columns.iter_rows(),
        }
        # ``similar`` is the number of topics of the first tree; the topics of the second tree follow.
        header = {"levels": len(partitions), "topics": sum(map(len, trees)), "similar": len(similar_tree)}
        return Generation(change=counters.change, chunk_stop=counters.next_chunk, header=header, rows=rows)

    def bind(self, rows: GenerationRows, state: State) -> Topics:
        """Return the stored topics of one build, limited to documents and chunks that still exist in ``state``."""
        return Topics(rows, state)

    def describe(self, topics: Topics) -> str:
        """Return a summary for SHOW INDEXES: the sizes of both trees, the chunks added later, and model-written texts.

        The first tree groups chunks with similar vectors (similar content). The second groups sentences that mention
        the same entities (related content).
        """
        trees = topics.trees
        description = (
            f"{format_count(trees.similar_count, 'topic')} of {format_count(len(trees.known_chunks), 'chunk')} in "
            f"{format_count(topics.levels, 'level')}"
        )
        leaf_count = len(trees.list_level(0, in_related_tree=True))
        if leaf_count:
            related_count = len(trees) - trees.similar_count
            description += (
                f"; {format_count(related_count, 'topic')} of related content, {leaf_count:,} of them about one name"
            )
        newer_count = len(topics.newer_chunks)
        if newer_count:
            description += f"; {newer_count:,} chunk{' is' if newer_count == 1 else 's are'} newer"
        return description + topics.format_text_counts()

    def dump(self, topics: Topics, names: LogicalNames) -> Mapping[str, Iterable[tuple[Any, ...]]]:
        """Return the topics with ``names`` in place of the ids of chunks and entities.

        Equal stores then have equal dumps.
        """

        def to_spans(spans: Iterable[StoredSpan]) -> tuple[Any, ...]:
            """Return spans with the names of their chunks in place of internal ids."""
            return tuple((names.name_chunk(span.chunk), span.start, span.end) for span in spans)

        return {
            TOPICS_TABLE: [
                (
                    topic_id,
                    topic.level,
                    topic.parent,
                    topic.chunk_count,
                    topic.document_count,
                    topic.content_digest,
                    tuple(map(names.name_chunk, topic.children)) if topic.level == 0 else tuple(topic.children),
                    *(to_spans(spans) for spans in (topic.title, topic.summary, topic.prompt_spans)),
                    *([tuple(map(names.name_entity, topic.entities))] if topic.is_in_related_tree else []),
                )
                for topic_id, topic in topics.iter_stored()
            ]
        }

    def check(self, topics: Topics) -> Iterator[str]:
        """Yield an error message for each topic without valid children, and for each chunk in no topic.

        Raises CorruptionError if the record of a topic is missing.
        """
        trees = topics.trees
        for topic in trees.levels.nonzero()[0].tolist():  # above the finest level
            children = trees.list_children(topic)
            is_in_related_tree = trees.is_in_related_tree(topic)
            if not children or any(trees.is_in_related_tree(child) != is_in_related_tree for child in children):
                yield f"topic {topic} has no children, or children of the other tree: {children}"
        for _ in topics.iter_stored():  # raises CorruptionError
            pass
        yield from topics.iter_faults()

    def list_writing_tasks(self, topics: Topics) -> Iterable[WritingTask]:
        """Yield a task to write a summary for each topic with more than one chunk, if all its source texts still exist.

        Topics with the same source texts share one task.
        """
        seen_digests: set[bytes] = set()  # a topic with one child can have the same texts as the child
        for topic_id, topic in topics.iter_stored():
            is_new = topic.content_digest not in seen_digests
            if topic.chunk_count > 1 and is_new and topics.has_prompt_documents(topic_id):
                seen_digests.add(topic.content_digest)
                yield WritingTask(topic.content_digest, topic.chunk_count, f"topic {topic_id}", topic_id)

    def build_prompt(
        self, topics: Topics, task: WritingTask, max_tokens: int | None = None
    ) -> StructuredPrompt[Mapping[str, Any]] | None:
        """Return the prompt for a topic's title and summary, or None if a source was deleted or no source fits.

        ``task`` identifies the topic. The sources have at most ``max_tokens`` tokens (None: no limit).
        """
        from .topic_writing import build_topic_prompt

        return build_topic_prompt(topics, task.group, max_tokens)

    def build_outline(self, topics: Topics) -> Iterable[OutlineNode]:
        """Yield the roots of both trees of topics, of similar and related content, as nodes for ``Store.outline``."""
        for in_related_tree in (False, True):
            yield from _iter_outline_nodes(topics, topics.list_roots(in_related_tree=in_related_tree))


def _build_related_tree(
    chunks: OrderedChunks, mentions: EntityMentions, vectors: Matrix, method: str, size: int, first_id: int
) -> RelatedTree:
    """Return the tree of topics of related content: sentences that mention the same entity, grouped by ``vectors``.

    ``mentions`` are the mentions of entities in the chunks, ``method`` and ``size`` the options of the index, and
    ``first_id`` the id of the tree's first topic.
    """
    leaves = group_entity_sentences(chunks, mentions)
    partitions: Sequence[Partition] = ()
    if leaves and _MAX_LEVELS > 1:
        leaf_vectors = compute_leaf_vectors(vectors, leaves)
        partitions = list(iter_partitions(leaf_vectors, method, size, _MAX_LEVELS - 1))  # the leaves are a level
    return RelatedTree(chunks, leaves, partitions, first_id)


def _iter_topics(trees: Sequence[TopicTree | RelatedTree], tools: BuildTools) -> Iterator[Topic]:
    """Yield the topics of both trees and report progress; each topic is built when it is requested."""
    count = sum(map(len, trees))
    for num_built, topic in enumerate(chain.from_iterable(trees), 1):
        yield topic
        if num_built % _PROGRESS_INTERVAL == 0:
            tools.progress(num_built, count)
    tools.progress(count, count)


def _iter_outline_nodes(topics: Topics, topic_ids: Iterable[int]) -> Iterator[OutlineNode]:
    """Yield topics as nodes of the hierarchy of ``Store.outline``, the largest first.

    Their children are read on demand.
    """
    chunk_counts = {topic: len(topics.list_chunks(topic)) for topic in topic_ids}
    for topic in sorted(chunk_counts, key=lambda topic: (-chunk_counts[topic], topic)):
        model_text = topics.get_written_text(topic)
        detail = f"by {model_text.model}" if model_text is not None else ""
        if topics.is_in_related_tree(topic):
            detail = f"related content, {detail}" if detail else "related content"
        children = topics.list_children(topic)
        yield OutlineNode(
            title=topics.get_title(topic),
            detail=detail,
            count=chunk_counts[topic],
            children=partial(_iter_outline_nodes, topics, children),
        )


#: The instance that strategies use.
TOPICS = TopicIndex()
