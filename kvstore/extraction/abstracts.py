"""Abstracts: a tree of extractive summaries of a document (Bridge-RAG §4.1). A *leaf* summarizes up to five consecutive
chunks, and the nodes above it follow the headings. Nodes, sections and chunks are given by their indexes. A *span* is
(start, end) in bytes of the text.

In: the sections and chunks of a document, and the terms and sentences of each chunk. Out: the leaf groups and the tree,
with a summary in every node: the spans of the sentences that cover most of the content below the node
(:mod:`~kvstore.text.greedy_cover`). A group never crosses the end of a top-level section. Parent nodes follow the
document's headings; if a section has too many groups, neighbors are joined by the similarity of their terms. The result
depends on the document alone.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, groupby

from ..structures.documents.chunks import GROUP_SIZE, AbstractRecord
from ..text.greedy_cover import (
    SentenceWords,
    compute_cover_weights,
    count_sentence_words,
    extract_sentence_words,
    select_greedy_cover,
)
from ..text.words import FUNCTION_WORDS, count_text_terms
from .chunking import Chunk, Heading, Span

#: The section of abstracts that are in no single section, and of the root of the tree.
_WHOLE_DOCUMENT = -1
#: The maximum number of leaves under one heading; more are joined by similarity.
_MAX_CHILDREN = 5
_MAX_SUMMARY_WORDS = 60


@dataclass(slots=True)
class AbstractNode:
    """A node of the tree of abstracts (summaries) of a document that is not stored yet.

    ``children`` and ``parent`` are indexes of other nodes, and ``section`` is the innermost section around it, or
    :data:`_WHOLE_DOCUMENT`. ``first_chunk`` to ``last_chunk`` are the ordinals of the chunks below it. ``summary`` has
    the spans of its summary sentences, most informative first.
    """

    level: int
    first_chunk: int
    last_chunk: int
    children: list[int]
    section: int
    parent: int | None = None
    summary: list[Span] = field(default_factory=list)


@dataclass(slots=True)
class AbstractTree:
    """The tree of abstracts (summaries) of a document: the leaves in text order first, and the root last."""

    nodes: list[AbstractNode]
    num_leaves: int
    section_nodes: list[int]  # for each section, the index of its node

    @property
    def leaf_sizes(self) -> list[int]:
        """The number of chunks in each leaf of the tree."""
        return [node.last_chunk - node.first_chunk + 1 for node in self.nodes[: self.num_leaves]]

    def build_records(self, document: int, first_group: int, first_upper: int) -> dict[int, AbstractRecord]:
        """Return the records to store for the abstracts (summaries) of the tree, by abstract id, leaves first.

        ``document`` is the document's id, and ``first_group`` the id of its first group of chunks. Leaf abstracts have
        the ids of their groups; the abstracts above them have ids from ``first_upper`` on.
        """
        num_uppers = len(self.nodes) - self.num_leaves
        ids = [*range(first_group, first_group + self.num_leaves), *range(first_upper, first_upper + num_uppers)]
        # The id of a chunk is its group's id times the group size, plus its ordinal in the group.
        chunk_ids = [
            GROUP_SIZE * (first_group + leaf) + ordinal
            for leaf, leaf_size in enumerate(self.leaf_sizes)
            for ordinal in range(leaf_size)
        ]
        return {
            abstract: AbstractRecord(
                document=document,
                parent=None if node.parent is None else ids[node.parent],
                level=node.level,
                first_chunk=chunk_ids[node.first_chunk],
                last_chunk=chunk_ids[node.last_chunk],
                children=[ids[child] for child in node.children],
                section=node.section,
                summary=sorted(node.summary),
            )
            for abstract, node in zip(ids, self.nodes, strict=True)
        }


TermCounts = dict[str, int]


class AbstractTreeBuilder:
    """The construction of the abstract tree of one document with at least one chunk (Bridge-RAG §4.1).

    Its leaves summarize up to five consecutive chunks, and the abstracts above them follow the sections.
    """

    def __init__(
        self,
        sections: Sequence[Heading],
        chunks: Sequence[Chunk],
        sentences: Sequence[Mapping[Span, str]],
        texts: Sequence[str],
        stem: Callable[[str], str],
    ) -> None:
        """Prepare to summarize the ``chunks`` of a document with these ``sections`` in a tree of abstracts.

        ``sentences[i]`` maps the spans (in bytes) of the sentences of chunk *i*, in text order, to their texts.
        ``texts[i]`` is the text of chunk *i*; ``stem`` converts its words to terms.
        """
        self._sections = sections
        self._chunks = chunks
        self._texts = texts
        self._stem = stem
        #: The spans of the sentences of each chunk, and the text of each sentence by its span.
        self._sentence_spans = [list(chunk_sentences) for chunk_sentences in sentences]
        self._sentence_texts = {
            span: sentence for chunk_sentences in sentences for span, sentence in chunk_sentences.items()
        }
        #: The abstracts made so far: first the leaves in order of the text, then the abstracts above them.
        self._nodes: list[AbstractNode] = []
        #: The offset where the last chunk of each leaf ends.
        self._leaf_ends: list[int] = []

    @cached_property  # lazy: most documents are too short to need it
    def _chunk_terms(self) -> list[TermCounts]:
        """The number of times that each term occurs in each chunk, without function words."""
        return [count_text_terms(text, self._stem, FUNCTION_WORDS) for text in self._texts]

    @cached_property
    def _term_rarity(self) -> dict[str, float]:
        """The inverse document frequency of each term (stem): the fewer chunks contain it, the higher."""
        chunk_counts = Counter(chain.from_iterable(self._chunk_terms))
        return {term: math.log(1 + len(self._texts) / count) for term, count in chunk_counts.items()}

    def build(self) -> AbstractTree:
        """Build and return the tree: the leaf abstracts (summaries) in text order, then each parent after its children.

        Call it only once, because it adds to the nodes of this object.
        """
        for first, last in self._split_leaves():
            section = self._find_common_section(first, last)
            self._nodes.append(AbstractNode(level=0, first_chunk=first, last_chunk=last, children=[], section=section))
        num_leaves = len(self._nodes)
        self._leaf_ends = [self._chunks[node.last_chunk].end for node in self._nodes]
        for node in self._nodes:
            node.summary = self._select_summary(node.first_chunk, node.last_chunk)
        node_by_section: dict[int, int] = {}
        self._build_node(_WHOLE_DOCUMENT, range(num_leaves), node_by_section)
        return AbstractTree(
            nodes=self._nodes,
            num_leaves=num_leaves,
            section_nodes=[self._get_section_node(index, node_by_section) for index in range(len(self._sections))],
        )

    def _get_section_path(self, section: int) -> list[int]:
        """Return the indexes of ``section`` and of the sections around it, outermost first.

        The list is empty for :data:`_WHOLE_DOCUMENT`.
        """
        path = []
        while section >= 0:
            path.append(section)
            section = self._sections[section].parent
        return path[::-1]

    def _find_common_section(self, first: int, last: int) -> int:
        """Return the index of the innermost section that contains chunks ``first`` to ``last``.

        If there is none, return :data:`_WHOLE_DOCUMENT`.
        """
        first_path = self._get_section_path(self._chunks[first].section)
        last_path = self._get_section_path(self._chunks[last].section)
        shared_sections = [section for section, other in zip(first_path, last_path, strict=False) if section == other]
        return shared_sections[-1] if shared_sections else _WHOLE_DOCUMENT

    def _split_leaves(self) -> list[tuple[int, int]]:
        """Return (first, last), the ordinals of the first and last chunk, for each leaf of the abstract tree.

        A leaf summarizes up to ``GROUP_SIZE`` chunks of one top-level section.
        """
        top_level = self._find_top_level()
        top_sections = [self._find_top_section(chunk, top_level) for chunk in range(len(self._chunks))]
        spans: list[tuple[int, int]] = []
        start = 0
        for index in range(1, len(self._chunks) + 1):
            is_full = index - start == GROUP_SIZE
            is_end = index == len(self._chunks)
            if is_full or is_end or top_sections[index] != top_sections[index - 1]:
                spans.append((start, index - 1))
                start = index
        return spans

    def _find_top_level(self) -> int:
        """Return the heading level of the sections that no leaf of the tree of summaries crosses.

        It is the shallowest level. If only the first heading has that level, it is the title of the document, and the
        next deeper level, if there is one, is returned. For a document without headings, return 0.
        """
        levels = sorted({section.level for section in self._sections})
        if not levels:
            return 0
        is_single = [section.level for section in self._sections].count(levels[0]) == 1
        has_title = is_single and self._sections[0].level == levels[0]
        return levels[1] if has_title and len(levels) > 1 else levels[0]

    def _find_top_section(self, chunk: int, top_level: int) -> int:
        """Return the index of the innermost section around a chunk whose level is at most ``top_level``.

        Level 1 is the outermost. If there is none, return :data:`_WHOLE_DOCUMENT`.
        """
        for section in reversed(self._get_section_path(self._chunks[chunk].section)):
            if self._sections[section].level <= top_level:
                return section
        return _WHOLE_DOCUMENT

    def _build_node(self, section: int, leaves: Sequence[int], node_by_section: dict[int, int]) -> int:
        """Build the abstracts (summaries) above the leaves of a section, and return the index of the topmost.

        ``leaves`` are the indexes of adjacent leaf abstracts. Leaves in the same subsection get a common abstract, by
        recursion. No abstract is added above a single child. ``node_by_section`` receives the index of the topmost
        abstract of this section and of each section in it that has leaves.
        """
        children: list[int] = []
        leaf_groups = groupby(leaves, key=lambda leaf: self._get_child_toward(section, self._nodes[leaf].section))
        for inner_section, leaf_group in leaf_groups:
            if inner_section is None:
                children += leaf_group
            else:
                children.append(self._build_node(inner_section, list(leaf_group), node_by_section))
        # Leaves that no heading divides are grouped by their terms.
        if len(children) > _MAX_CHILDREN and len(children) == len(leaves):
            children = self._join_similar(children, section)
        node_index = children[0] if len(children) == 1 else self._add_parent(children, section)
        node_by_section[section] = node_index
        return node_index

    def _get_child_toward(self, section: int, inner_section: int) -> int | None:
        """Return the child of ``section`` on the path to ``inner_section``; None if both are the same section.

        A section is an index, or :data:`_WHOLE_DOCUMENT`.
        """
        path = self._get_section_path(inner_section)
        if section == _WHOLE_DOCUMENT:
            return path[0] if path else None
        depth = path.index(section) + 1
        return path[depth] if depth < len(path) else None

    def _get_section_node(self, section: int, node_by_section: dict[int, int]) -> int:
        """Return the index of the abstract (summary) of a section; for a section without a leaf, the leaf at its start.

        After the last leaf, it is the abstract of the whole document. ``node_by_section`` has the indexes by section.
        """
        if section in node_by_section:
            return node_by_section[section]
        leaf = bisect_right(self._leaf_ends, self._sections[section].start)
        return leaf if leaf < len(self._leaf_ends) else len(self._nodes) - 1  # the last node is the root

    def _add_parent(self, children: list[int], section: int) -> int:
        """Add an abstract with a summary above the abstracts with the indexes ``children``, and return its index.

        ``section`` is the innermost section that contains them, or :data:`_WHOLE_DOCUMENT`.
        """
        nodes = [self._nodes[child] for child in children]
        level = 1 + max(node.level for node in nodes)
        parent = AbstractNode(level, nodes[0].first_chunk, nodes[-1].last_chunk, children, section)
        parent.summary = self._select_summary(parent.first_chunk, parent.last_chunk)
        node_index = len(self._nodes)
        for node in nodes:
            node.parent = node_index
        self._nodes.append(parent)
        return node_index

    def _join_similar(self, children: list[int], section: int) -> list[int]:
        """Join adjacent summaries with similar terms, most similar first, until at most ``_MAX_CHILDREN`` are left.

        ``children`` are indexes of abstracts of ``section``. A parent is added for each group of joined abstracts.
        Return the indexes of the parents, and of the abstracts that were not joined, in order.
        """
        while len(children) > _MAX_CHILDREN:
            positions = _cluster_adjacent([self._compute_term_weights(child) for child in children], _MAX_CHILDREN)
            groups = [[children[position] for position in group] for group in positions]
            children = [group[0] if len(group) == 1 else self._add_parent(group, section) for group in groups]
        return children

    def _compute_term_weights(self, node_index: int) -> dict[str, float]:
        """Return the TF-IDF weight of each term (stem) in the chunks that an abstract summarizes, by term."""
        node = self._nodes[node_index]
        counts: TermCounts = {}
        for chunk in range(node.first_chunk, node.last_chunk + 1):
            for term, count in self._chunk_terms[chunk].items():
                counts[term] = counts.get(term, 0) + count
        return {term: (1 + math.log(count)) * self._term_rarity[term] for term, count in counts.items()}

    def _select_summary(self, first: int, last: int) -> list[Span]:
        """Return the spans, in bytes, of sentences that summarize chunks ``first`` to ``last``.

        They are all sentences, in text order, if these fit a summary. Otherwise, they are the sentences that cover most
        of the content within the length of a summary, most informative first (:mod:`~kvstore.text.greedy_cover`).
        Sentences with an empty text are omitted.
        """
        spans = [
            span
            for chunk_spans in self._sentence_spans[first : last + 1]
            for span in chunk_spans
            if self._sentence_texts[span]
        ]
        if sum(count_sentence_words(self._sentence_texts[span]) for span in spans) <= _MAX_SUMMARY_WORDS:
            return spans
        sentences = [self._sentence_words[span] for span in spans]
        weights = compute_cover_weights(sentences, self._chunk_frequencies, len(self._chunks))
        selected_indexes = select_greedy_cover(sentences, weights, _MAX_SUMMARY_WORDS)
        # A displayed sentence is never longer than a summary, so the first fits if no sentence was selected.
        return [spans[index] for index in selected_indexes or [0]]

    @cached_property
    def _sentence_words(self) -> dict[Span, SentenceWords]:
        """The content words of each sentence, which a summary should cover, by the sentence's span in bytes."""
        return {span: extract_sentence_words(sentence) for span, sentence in self._sentence_texts.items()}

    @cached_property
    def _chunk_frequencies(self) -> Mapping[str, int]:
        """The number of chunks that contain each content word of the sentences, by word."""
        if len(self._sentence_spans) == 1:  # a fast path for documents of one chunk
            return dict.fromkeys(chain.from_iterable(words.words for words in self._sentence_words.values()), 1)
        words_by_chunk = (
            {word for span in chunk_spans for word in self._sentence_words[span].words}
            for chunk_spans in self._sentence_spans
        )
        return Counter(chain.from_iterable(words_by_chunk))


def _cluster_adjacent(vectors: list[dict[str, float]], max_size: int) -> list[list[int]]:
    """Merge the most similar adjacent vectors into groups of at most ``max_size``, and return their indexes by group.

    A vector maps the terms of a text to their weights. This is agglomerative clustering by the cosine of the sums of
    the groups' vectors. It stops at a third as many groups as vectors, or earlier if no merge fits.
    """
    # A group is numbered by its first vector, and its vector is the sum of its vectors. ``next_group`` and
    # ``previous_group`` link the groups that remain.
    next_group = list(range(1, len(vectors) + 1))
    previous_group = list(range(-1, len(vectors) - 1))
    groups: list[list[int]] = [[index] for index in range(len(vectors))]
    sums = [dict(vector) for vector in vectors]
    versions = [0] * len(vectors)
    # (negative cosine, left group, right group, and their versions, which are outdated after a merge)
    heap = [(-_compute_cosine(sums[i], sums[i + 1]), i, i + 1, 0, 0) for i in range(len(vectors) - 1)]
    heapq.heapify(heap)
    num_groups, target_count = len(vectors), math.ceil(len(vectors) / 3)
    while heap and num_groups > target_count:
        _, left, right, left_version, right_version = heapq.heappop(heap)
        is_outdated = (versions[left], versions[right]) != (left_version, right_version)
        if is_outdated or not groups[left] or not groups[right]:  # a group is empty after it was merged to the left
            continue
        if len(groups[left]) + len(groups[right]) > max_size:
            continue
        groups[left] += groups[right]
        groups[right] = []
        for term, weight in sums[right].items():
            sums[left][term] = sums[left].get(term, 0.0) + weight
        versions[left] += 1
        next_group[left] = next_group[right]
        if next_group[left] < len(vectors):
            previous_group[next_group[left]] = left
        num_groups -= 1
        for first, second in ((previous_group[left], left), (left, next_group[left])):
            if first >= 0 and second < len(vectors):
                cosine = _compute_cosine(sums[first], sums[second])
                heapq.heappush(heap, (-cosine, first, second, versions[first], versions[second]))
    return [group for group in groups if group]


def _compute_cosine(left: dict[str, float], right: dict[str, float]) -> float:
    """Return the cosine of two vectors, which map terms to weights; 0 if one is empty. Rounded to 9 decimals."""
    if len(right) < len(left):
        left, right = right, left
    product = math.fsum(weight * right.get(term, 0.0) for term, weight in left.items())
    left_norm, right_norm = (
        math.sqrt(math.fsum(weight * weight for weight in vector.values())) for vector in (left, right)
    )
    norms = left_norm * right_norm
    # Rounded, so that the order of summation does not change which texts are joined.
    return round(product / norms, 9) if norms else 0.0
