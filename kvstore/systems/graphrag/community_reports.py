"""Reports on communities without a language model: sentences of the documents, each with its span. A report has a
*summary* and *findings*, sentences that each mention two related members. A *node* is an entity, given by its index in
the graph; a *relation* is an edge between two nodes.

In: a :class:`~.community_building.CommunityTree` over a state. Out: for every community a summary and findings. The
summary is a set of sentences that together cover most of what its chunks share (:mod:`~kvstore.text.greedy_cover`).
Each finding is a sentence that mentions both ends of one of the strongest relations between members (Edge et al. 2024,
section 3.1.4, in which a model writes them).

The sentences of a finest community come from its home chunks; coarser communities also choose from the sentences chosen
for their children. Words are not weighted by statistics of the whole store. A document therefore changes only the
sentences of its own communities and of their ancestors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple

from ...retrieval.cover import select_summary
from ...retrieval.evidence import StoredSpan
from ...structures.display_entities import load_display_entities
from ...structures.documents.documents import Documents
from ...structures.forest.forest import DATA_KINDS
from ...structures.state import State
from ...text.blocks import format_summary_sentence, split_chunk_blocks
from ...text.greedy_cover import SentenceWords, extract_sentence_words
from ...text.sentences import split_sentences
from ..descriptions.written_descriptions import iter_descriptions
from .community_building import NO_COMMUNITY, CommunityTree
from .entity_graph import NodeMentionReader

MAX_SUMMARY_WORDS = 120
#: The maximum number of member names in a title, and of strongest members considered for it.
MAX_TITLE_NAMES, MAX_TITLE_CANDIDATES = 3, 12
#: The maximum number of findings of a community, and of findings that it inherits from each child.
MAX_FINDINGS, _MAX_INHERITED_FINDINGS = 8, 2
#: The maximum number of home chunks, largest share first, that a report is made from.
MAX_REPORT_CHUNKS = 48
#: The minimum and maximum number of words of a finding.
_MIN_FINDING_WORDS, _MAX_FINDING_WORDS = 4, 60
#: The number of members listed in a report, and the version of the method; the digest covers both.
MAX_NAMED_MEMBERS, _DIGEST_VERSION = 20, b"community 1"


class Finding(NamedTuple):
    """A sentence that mentions two members (entities) of a community; ``weight`` is the weight of their edge."""

    entities: tuple[int, int]
    weight: int
    span: StoredSpan


@dataclass(frozen=True)
class CommunityReport:
    """A report on a community: the sentences of its summary, and its findings, strongest first.

    ``content_digest`` is the digest of all material that a model would write a report from.
    """

    summary: list[StoredSpan]
    findings: list[Finding]
    content_digest: bytes


def list_report_spans(summary: Iterable[StoredSpan], findings: Iterable[Finding]) -> list[StoredSpan]:
    """Return the spans of the sentences of a report that no model wrote: summary, then findings, without duplicates."""
    return list(dict.fromkeys((*summary, *(finding.span for finding in findings))))


def build_title(names: Iterable[str]) -> str:
    """Return a title, such as "Bergen, Oslo", of the first names that do not contain each other.

    ``names`` are the names of a community's members, strongest first.
    """
    title_names: list[str] = []
    for name in names:
        if not any(name in other or other in name for other in title_names):
            title_names.append(name)
        if len(title_names) == MAX_TITLE_NAMES:
            break
    return ", ".join(title_names)


def read_slices(documents: Documents, slices: Sequence[tuple[int, int, int]]) -> list[str]:
    """Return the text of each slice (document, start, end), in order; reads all slices of a document together."""
    ranges: dict[int, list[tuple[int, int]]] = {}
    for document, start, end in slices:
        ranges.setdefault(document, []).append((start, end))
    # The texts of a document are in the order of its slices.
    texts_by_document = {document: iter(texts) for document, texts in documents.read_text_slices(ranges).items()}
    return [next(texts_by_document[document]) for document, _, _ in slices]


def read_spans(documents: Documents, spans: Sequence[StoredSpan]) -> list[str]:
    """Return the texts of spans, in order, each on one line."""
    texts = read_slices(documents, [(span.document, span.start, span.end) for span in spans])
    return [" ".join(text.split()) for text in texts]


class _CandidateSentence(NamedTuple):
    """A sentence that can be selected for a report. ``order`` is its position: the index of its chunk, and the offset
    there. ``words`` include a marker for each node (entity of the graph) that it mentions. ``nodes`` has, by node, the
    byte ranges of these mentions in the chunk.
    """

    span: StoredSpan
    order: tuple[int, int]
    words: SentenceWords
    nodes: Mapping[int, Sequence[tuple[int, int]]]

    def contains_any(self, positions: Iterable[tuple[int, int]]) -> bool:
        """True if the sentence contains one of the positions (document, byte offset)."""
        span = self.span
        return any(span.document == document and span.start <= start < span.end for document, start in positions)

    def has_both(self, first: int, second: int) -> bool:
        """True if the sentence has mentions of both nodes that do not overlap, so neither is part of the other."""
        return any(
            end <= other_start or other_end <= start
            for start, end in self.nodes.get(first, ())
            for other_start, other_end in self.nodes.get(second, ())
        )


class _EntityRelation(NamedTuple):
    """An edge of the entity graph: its weight, and its two nodes, smaller first."""

    weight: int
    nodes: tuple[int, int]


class _FindingCandidate(NamedTuple):
    """An edge of the entity graph (its weight and its two nodes, smaller first), and a sentence that mentions both.

    It becomes a finding of a report if it is among the strongest.
    """

    weight: int
    nodes: tuple[int, int]
    sentence: _CandidateSentence


@dataclass
class _ReportMaterial:
    """The sentences and relations that the report of a community is selected from. ``relations`` are candidates for its
    findings. ``spans`` are the spans of the children's reports: a list for each child, last child first.
    """

    sentences: list[_CandidateSentence] = field(default_factory=list)
    relations: list[_FindingCandidate] = field(default_factory=list)
    spans: list[list[StoredSpan]] = field(default_factory=list)

    def add_child_report(self, summary: Sequence[_CandidateSentence], findings: Sequence[_FindingCandidate]) -> None:
        """Add the sentences of the summary and of all findings of a child community's report, each once.

        The strongest findings are also added as relations; ``findings`` are sorted, strongest first.
        """
        report_sentences = (*summary, *(finding.sentence for finding in findings))
        sentences_by_span = {sentence.span: sentence for sentence in report_sentences}
        self.sentences += sentences_by_span.values()
        self.relations += findings[:_MAX_INHERITED_FINDINGS]
        self.spans.append(list(sentences_by_span))

    def list_sources(self, own_spans: Iterable[StoredSpan]) -> list[StoredSpan]:
        """Return the distinct spans that a model would write the report from.

        They are the sentences of the children's reports, first child first, then the community's ``own_spans``.
        """
        return list(dict.fromkeys((*chain.from_iterable(reversed(self.spans)), *own_spans)))


def iter_reports(state: State, tree: CommunityTree) -> Iterator[tuple[int, CommunityReport]]:
    """Yield the id and the report of every community, children before their parents.

    As in GraphRAG (section 3.1.4), the report of a parent is made from the reports of its children and from its own
    chunks. Unlike there, no model writes it: its sentences are selected.
    """
    reader = _ChunkReader(state, tree)
    members_by_community = _list_top_members(tree)
    relations_by_community = _group_relations(tree)
    chunks_by_community = _select_report_chunks(tree)
    assertions = _find_assertions(state, reader)
    materials: dict[int, _ReportMaterial] = {}
    for community in reversed(range(len(tree))):  # a child has a greater number than its parent
        # The material already has the reports of the children. Add the sentences of the community's own chunks.
        material = materials.pop(community, _ReportMaterial())
        chunk_indexes = chunks_by_community.get(community, [])
        own_sentences = [sentence for chunk_index in chunk_indexes for sentence in reader.iter_sentences(chunk_index)]
        material.sentences += own_sentences
        own_relations = relations_by_community.get(community, ())
        material.relations += _match_sentences(own_relations, own_sentences, assertions)
        summary = _select_summary(material.sentences)
        findings = _select_findings(material.relations)
        parent = int(tree.parents[community])
        if parent != NO_COMMUNITY:
            materials.setdefault(parent, _ReportMaterial()).add_child_report(summary, findings)
        # What a model would write the report from.
        sources = material.list_sources(map(reader.get_span, chunk_indexes))
        names = [tree.graph.keys[node] for node in members_by_community[community]]
        report = CommunityReport(
            summary=[sentence.span for sentence in summary],
            findings=[
                Finding(reader.get_entities(finding.nodes), finding.weight, finding.sentence.span)
                for finding in findings
            ],
            content_digest=_compute_material_digest(state, names, sources),
        )
        yield community, report


def _select_report_chunks(tree: CommunityTree) -> dict[int, list[int]]:
    """Return, by community, the indexes of the chunks that its report is made from, ascending.

    They are the chunks whose home is the community: the one in which their names have the most weight. A report uses at
    most the :data:`MAX_REPORT_CHUNKS` chunks with the largest shares of names in the community. Communities without
    chunks are omitted.
    """
    chunks_by_home: dict[int, list[int]] = {}
    for chunk_index, home in enumerate(tree.homes.tolist()):
        if home != NO_COMMUNITY:
            chunks_by_home.setdefault(home, []).append(chunk_index)
    for home, chunk_indexes in chunks_by_home.items():
        largest_first = sorted(chunk_indexes, key=lambda index: (-tree.shares[index], index))
        chunks_by_home[home] = sorted(largest_first[:MAX_REPORT_CHUNKS])
    return chunks_by_home


def _compute_material_digest(state: State, names: Sequence[str], sources: Collection[StoredSpan]) -> bytes:
    """Return the digest of the texts that a model would write a report from: names, ``sources``, then descriptions.

    The descriptions are sentences that a model wrote about the entities with these ``names``, from the documents of the
    sources. A report that a model wrote is valid as long as this digest is the same.
    """
    descriptions = iter_descriptions(state, set(names), dict.fromkeys(span.document for span in sources))
    source_texts = read_slices(state.documents, [(span.document, span.start, span.end) for span in sources])
    texts = [*names, *source_texts, *(sentence for _, sentence in descriptions)]
    digest = blake2b(_DIGEST_VERSION, digest_size=16)
    for text in map(str.encode, texts):
        digest.update(len(text).to_bytes(4, "big") + text)  # with its length, so that no two lists are confused
    return digest.digest()


def _list_top_members(tree: CommunityTree) -> list[list[int]]:
    """Return, by community, the nodes that its report lists: its strongest members, in the order of their names.

    The nodes of the graph are numbered in that order.
    """
    members_by_community: list[list[int]] = [[] for _ in range(len(tree))]
    members = tree.group_members()  # the strongest members of each community first
    for community, node in zip(members.communities.tolist(), members.nodes.tolist(), strict=True):
        if len(members_by_community[community]) < MAX_NAMED_MEMBERS:
            members_by_community[community].append(node)
    return [sorted(nodes) for nodes in members_by_community]


def _group_relations(tree: CommunityTree) -> dict[int, list[_EntityRelation]]:
    """Return, by community, the edges of the entity graph between two of its members, strongest first.

    Only the finest communities have edges; their parents inherit them from the reports of their children.
    """
    edges = tree.graph.edges
    first_communities, second_communities = tree.finest[edges.first], tree.finest[edges.second]
    is_inside = (first_communities == second_communities) & (first_communities != NO_COMMUNITY)
    columns = (first_communities[is_inside], edges.weights[is_inside], edges.first[is_inside], edges.second[is_inside])
    relations_by_community: dict[int, list[_EntityRelation]] = {}
    for community, weight, first, second in zip(*(column.tolist() for column in columns), strict=True):
        relations_by_community.setdefault(community, []).append(_EntityRelation(weight, (first, second)))
    for relations in relations_by_community.values():
        relations.sort(key=lambda relation: (-relation.weight, relation.nodes))
    return relations_by_community


#: Positions (document id, byte offset) at which prose asserts a relation, by its two graph nodes, smaller first.
_Assertions = Mapping[tuple[int, int], Sequence[tuple[int, int]]]


def _find_assertions(state: State, reader: _ChunkReader) -> _Assertions:
    """Return, by pair of graph nodes, the positions (document id, byte offset) at which prose asserts their relation.

    The entity forest (trees of parent and child) records where each of its edges is asserted. Its nodes are places of
    entities in trees; they are mapped to nodes of the entity graph, one per entity, which the reports use. Pairs of
    forest nodes with the same pair of graph nodes, smaller first, are merged. Assertions in tables, lists and headings,
    and those made by users, are omitted.
    """
    graph_nodes = {forest_node: reader.find_node(node.entity) for forest_node, node in state.forest.iter_nodes()}
    positions_by_pair: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for child, parent in state.forest.iter_edges():
        child_node, parent_node = graph_nodes[child], graph_nodes[parent]
        if child_node is None or parent_node is None or child_node == parent_node:
            continue  # an entity is not in the graph, or both are names of one entity
        pair = (min(child_node, parent_node), max(child_node, parent_node))
        positions_by_pair.setdefault(pair, []).extend(
            (assertion.document, assertion.start)
            for assertion in state.forest.iter_assertions(child, parent)
            if assertion.kind not in DATA_KINDS
        )
    return positions_by_pair


def _match_sentences(
    relations: Iterable[_EntityRelation], sentences: Sequence[_CandidateSentence], assertions: _Assertions
) -> Iterator[_FindingCandidate]:
    """Yield each relation with the best sentence that mentions both of its nodes, at most 2 · MAX_FINDINGS relations.

    Relations without such a sentence are omitted, and very short and very long sentences are ignored. A sentence that
    asserts the relation (at a position in ``assertions``) is preferred to a sentence that only mentions both nodes;
    otherwise, a shorter sentence is preferred.
    """
    sentences_by_node: dict[int, list[_CandidateSentence]] = {}
    for sentence in sentences:
        if _MIN_FINDING_WORDS <= sentence.words.length <= _MAX_FINDING_WORDS:
            for node in sentence.nodes:
                sentences_by_node.setdefault(node, []).append(sentence)
    match_count = 0
    for weight, (first, second) in relations:
        matches = [sentence for sentence in sentences_by_node.get(first, ()) if sentence.has_both(first, second)]
        if matches:
            positions = assertions.get((first, second), ())
            best_sentence = min(
                matches,
                key=lambda sentence: (not sentence.contains_any(positions), sentence.words.length, sentence.order),
            )
            yield _FindingCandidate(weight, (first, second), best_sentence)
            match_count += 1
        if match_count == 2 * MAX_FINDINGS:  # more than needed, because one sentence can assert several
            return


def _select_findings(relations: Sequence[_FindingCandidate]) -> list[_FindingCandidate]:
    """Return the strongest relations with distinct sentences, at most :data:`MAX_FINDINGS`, strongest first.

    A relation is an edge between two entities, with a sentence that mentions both.
    """
    strongest_by_span: dict[StoredSpan, _FindingCandidate] = {}
    for relation in sorted(relations, key=lambda relation: (-relation.weight, relation.nodes)):
        strongest_by_span.setdefault(relation.sentence.span, relation)
    return list(strongest_by_span.values())[:MAX_FINDINGS]


def _select_summary(candidates: Sequence[_CandidateSentence]) -> list[_CandidateSentence]:
    """Return the sentences of a summary, in order of chunks: together they have most of the words that chunks share."""
    sentences_by_span = {sentence.span: sentence for sentence in candidates}
    candidates = sorted(sentences_by_span.values(), key=lambda sentence: sentence.order)
    documents = [sentence.span.document for sentence in candidates]
    words_by_chunk: dict[int, set[str]] = {}
    for sentence in candidates:
        words_by_chunk.setdefault(sentence.span.chunk, set()).update(sentence.words.words)
    chunk_counts = Counter(word for chunk_words in words_by_chunk.values() for word in chunk_words)
    words = [sentence.words for sentence in candidates]
    selected_indexes = select_summary(words, documents, chunk_counts, len(words_by_chunk), MAX_SUMMARY_WORDS)
    return [candidates[index] for index in selected_indexes]


class _ChunkReader:
    """A reader of the sentences of chunks, with the nodes that each mentions. A chunk is identified by its index in the
    entity graph.
    """

    def __init__(self, state: State, tree: CommunityTree) -> None:
        """Create a reader of the chunks in the graph of ``tree``, through ``state``, the state of the store."""
        self._state = state
        self._tree = tree
        self._display = load_display_entities(state)
        self._mention_reader = NodeMentionReader(state, tree.graph, self._display)
        self._nodes_by_entity = {entity: node for node, entity in enumerate(tree.graph.entities.tolist())}
        #: A cache: the format and the language of each document, which decide how it is split into sentences.
        self._sentence_rules: dict[int, tuple[str, str | None]] = {}

    def find_node(self, entity: int) -> int | None:
        """Return the node of an entity: its index in the graph, or None if the graph does not contain it.

        The entity of an alias is replaced by the entity that the alias names.
        """
        return self._nodes_by_entity.get(self._display.resolve_entity(entity))

    def get_entities(self, nodes: tuple[int, int]) -> tuple[int, int]:
        """Return the ids of the entities of two nodes, in order; a node is the index of an entity in the graph."""
        first, second = (int(self._tree.graph.entities[node]) for node in nodes)
        return first, second

    def get_span(self, chunk_index: int) -> StoredSpan:
        """Return the span of a whole chunk; ``chunk_index`` is its index among the chunks of the graph."""
        chunk = int(self._tree.graph.chunks[chunk_index])
        record = self._state.chunks.get(chunk)
        return StoredSpan(record.document, chunk, record.start, record.end)

    def iter_sentences(self, chunk_index: int) -> Iterator[_CandidateSentence]:
        """Yield the sentences of a chunk as candidates for a report, with the graph nodes that each mentions.

        Headings, tables, code and sentences of one word are skipped. ``chunk_index`` is the chunk's index in the graph.
        """
        chunk = int(self._tree.graph.chunks[chunk_index])
        record = self._state.chunks.get(chunk)
        text = self._state.documents.read_text_slice(record.document, record.start, record.end)
        encoded_text = text.encode()
        mentions = self._mention_reader.list_mentions(chunk_index)
        for first, last in _iter_sentence_spans(text, *self._get_sentence_rules(record.document)):
            words = extract_sentence_words(format_summary_sentence(text[first:last]))
            if words.length < 2:
                continue
            start, end = _to_byte_offset(text, encoded_text, first), _to_byte_offset(text, encoded_text, last)
            node_ranges: dict[int, list[tuple[int, int]]] = {}
            for node, mention_start, mention_end in mentions:
                if start <= mention_start < end:
                    node_ranges.setdefault(node, []).append((mention_start, mention_end))
            # Each mentioned node counts as one more word. Words of texts do not begin with NUL.
            words = words._replace(words=[*words.words, *(f"\0{node}" for node in node_ranges)])
            span = StoredSpan(record.document, chunk, record.start + start, record.start + end)
            yield _CandidateSentence(span, (chunk_index, start), words, node_ranges)

    def _get_sentence_rules(self, document: int) -> tuple[str, str | None]:
        """Return the format (text or markdown) and the language (None: English) of a document; cached.

        Both decide how its text is split into sentences.
        """
        rules = self._sentence_rules.get(document)
        if rules is None:
            format = "text" if self._state.documents.get(document).format == "text" else "markdown"
            rules = self._sentence_rules[document] = format, self._state.find_sentence_language(document)
        return rules


def _iter_sentence_spans(text: str, format: str, language: str | None) -> Iterator[tuple[int, int]]:
    """Yield the character ranges of the sentences in the paragraphs and list items of a chunk.

    ``format`` is ``text`` or ``markdown``, and ``language`` selects the rules for sentences (None: English).
    """
    for block in split_chunk_blocks(text, format):
        if block.kind in ("prose", "item"):
            for first, last in split_sentences(text[block.start : block.end], language):
                yield block.start + first, block.start + last


def _to_byte_offset(text: str, encoded: bytes, offset: int) -> int:
    """Convert a character offset in ``text`` to a byte offset in ``encoded``, the same text in UTF-8."""
    return offset if len(text) == len(encoded) else len(text[:offset].encode())
