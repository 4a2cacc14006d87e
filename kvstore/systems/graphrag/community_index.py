"""The index of kind ``communities``: REFRESH builds it from one state, and later states read it. A *community* is a
group of related entities, its members; coarse communities contain finer ones. The rows of one build are a *generation*.

In: a state. On disk: the rows of :mod:`.community_rows`. Out: :class:`~.communities.Communities`, the communities
filtered to one state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from ...arguments import Choice, Option, format_count
from ...models.structured import StructuredPrompt
from ...registry.contract import DumpRow
from ...retrieval.evidence import StoredSpan
from ...structures.indexes.generations import Generation, GenerationIndex, GenerationRows, OutlineNode, WritingTask
from ...structures.indexes.index import BuildTools, IndexRecord, States
from ...structures.logical import LogicalNames
from ...structures.state import State
from .communities import Communities
from .community_building import build_communities
from .community_levels import AFFINITY, KNN, LEIDEN, NONE, CommunityOptions
from .community_reports import iter_reports
from .community_rows import CHUNK_HOMES, ENTITY_COMMUNITIES, MEMBERS, TABLES, TERMS, build_community_rows
from .community_rows import COMMUNITIES as COMMUNITY_TABLE
from .community_writing import MAX_SOURCE_TOKENS, build_report_prompt
from .leiden import require_leiden
from .report_terms import iter_term_rows

#: The number of reports between two progress reports.
_PROGRESS_INTERVAL = 256


class CommunityIndex(GenerationIndex[Communities]):
    """The index of communities of related entities."""

    name = "communities"
    description = "communities of related entities at several levels, each with a report"
    version = 2
    tables = TABLES
    quoting_tables = (TERMS,)
    has_outline = True
    options: Mapping[str, Option | Choice] = {
        "method": Choice(AFFINITY, (AFFINITY, LEIDEN), "how entities are grouped; leiden needs the extra communities"),
        "neighbours": Choice(
            NONE, (NONE, KNN), "none: entities are related by co-occurrence; knn: also by similar vectors"
        ),
        "largest": Option(15, 2, 1000, "maximum members of a community: entities, or communities of the finer level"),
        "least": Option(10, 1, 1_000_000, "minimum communities of a level; a coarser level with fewer is omitted"),
    }

    def build(self, states: States, record: IndexRecord, tools: BuildTools) -> Generation:
        """Build the community tree and its reports from a snapshot of the store.

        Returns the generation (the table rows of this build). ``states()`` opens the snapshot, ``record`` has the
        options of the index, and ``tools`` reports progress. Raises InputError if the method is ``leiden`` and its
        library is not installed.
        """
        options = CommunityOptions(
            record.get_str_option("method"),
            record.get_str_option("neighbours"),
            **record.get_int_options(("largest", "least")),
        )
        if options.method == LEIDEN:
            require_leiden()
        with states() as state:
            change, chunk_stop = state.counters.change, state.counters.next_chunk
            tree = build_communities(state, options)
            reports = {}
            for community, report in iter_reports(state, tree):
                reports[community] = report
                if len(reports) % _PROGRESS_INTERVAL == 0:
                    tools.progress(len(reports), len(tree))
            rows = build_community_rows(tree, reports.items())
            rows[TERMS] = list(iter_term_rows(state, rows[MEMBERS], reports))
        tools.progress(len(tree), len(tree))
        header = {"levels": len(tree.partitions), "communities": len(tree)}
        return Generation(change=change, chunk_stop=chunk_stop, header=header, rows=rows)

    def bind(self, rows: GenerationRows, state: State) -> Communities:
        """Return the communities of a generation as seen by ``state``: members and chunks deleted since are omitted."""
        return Communities(rows, state)

    def describe(self, communities: Communities) -> str:
        """Return a summary for SHOW INDEXES: the numbers of communities and entities, and what changed since.

        The changes are the numbers of chunks added later, and of communities hidden because of deletions. The numbers
        of descriptions of entities for the reports of a model, and of texts by each model, follow. A number that is 0
        is omitted.
        """
        community_ids = range(len(communities))
        newer_count = len(communities.list_newer_chunks())
        hidden_count = sum(not communities.is_visible(community) for community in community_ids)
        phrases = [
            f"{format_count(len(communities), 'community')} of {format_count(communities.entity_count, 'entity')} in "
            f"{format_count(communities.levels, 'level')}"
        ]
        if newer_count:
            phrases.append(f"{newer_count:,} newer chunks are assigned to communities when they are read")
        if hidden_count:
            phrases.append(f"{hidden_count:,} are hidden because all their members or chunks were deleted")
        descriptions = {item for community in community_ids for item in communities.list_descriptions(community)}
        if descriptions:
            phrases.append(f"{format_count(len(descriptions), 'description')} of entities for the reports of a model")
        model_texts = map(communities.get_written_text, community_ids)
        counts_by_model = Counter(text.model for text in model_texts if text is not None)
        phrases += [f"{format_count(count, 'text')} by {model}" for model, count in sorted(counts_by_model.items())]
        return "; ".join(phrases)

    def dump(self, communities: Communities, names: LogicalNames) -> Mapping[str, Iterable[DumpRow]]:
        """Return the rows of each table with ``names`` in place of the ids of chunks and entities.

        Equal stores then have equal dumps.
        """
        community_ids = range(len(communities))

        def to_row(span: StoredSpan) -> DumpRow:
            """Return a span with the name of its chunk in place of internal ids."""
            return names.name_chunk(span.chunk), span.start, span.end

        def iter_communities() -> Iterator[DumpRow]:
            """Yield the rows of communities for the dump: fields, key, and spans of the sentences of the report."""
            for community in community_ids:
                summary = list(map(to_row, communities.list_summary_spans(community)))
                findings = [
                    (tuple(map(names.name_entity, entities)), weight, *to_row(span))
                    for entities, weight, span in communities.list_findings(community)
                ]
                yield (*communities.get(community), communities.get_key(community), summary, findings)

        return {
            COMMUNITY_TABLE: iter_communities(),
            MEMBERS: (
                (community, names.name_entity(entity), weight)
                for community in community_ids
                for entity, weight in communities.list_members(community)
            ),
            CHUNK_HOMES: (
                (community, names.name_chunk(chunk), share)
                for community in community_ids
                for chunk, share in communities.list_chunks(community)
            ),
            ENTITY_COMMUNITIES: (
                (names.name_entity(entity), communities.find_by_entity(entity))
                for entity in communities.list_entities()
            ),
            TERMS: zip(community_ids, communities.get_built_terms(community_ids), strict=True),
        }

    def check(self, communities: Communities) -> Iterator[str]:
        """Yield an error message for each inconsistency in the stored rows of the communities."""
        return communities.iter_faults()

    def build_outline(self, communities: Communities) -> Iterable[OutlineNode]:
        """Return the coarsest communities as nodes of the hierarchy that ``Store.outline`` returns."""
        return _iter_outline_nodes(communities, communities.list_level(0))

    def list_writing_tasks(self, communities: Communities) -> Iterable[WritingTask]:
        """Yield the tasks of a language model: a report on each community whose source texts all exist.

        Communities without any member or chunk left are omitted.
        """
        for community in range(len(communities)):
            sources = communities.list_sources(community)
            if sources and communities.is_visible(community) and communities.has_spans(sources):
                record, title = communities.get(community), communities.get_title(community)
                yield WritingTask(record.content_digest, record.chunk_count, title, community)

    def build_prompt(
        self, communities: Communities, task: WritingTask, max_tokens: int | None = None
    ) -> StructuredPrompt[Mapping[str, Any]] | None:
        """Return the prompt for a model's report on a community; None if a source was deleted or no source fits.

        ``task`` identifies the community, and ``max_tokens`` limits the sources in the prompt (None: a default).
        """
        return build_report_prompt(communities, task.group, max_tokens or MAX_SOURCE_TOKENS)


def _iter_outline_nodes(communities: Communities, community_ids: Iterable[int]) -> Iterator[OutlineNode]:
    """Yield communities as nodes of the hierarchy of ``Store.outline``; children are computed on demand."""
    for community in community_ids:
        children = [child for child in communities.get(community).children if communities.is_visible(child)]
        num_members, num_chunks = len(communities.list_members(community)), len(communities.list_chunks(community))
        yield OutlineNode(
            title=communities.get_title(community),
            detail=f"{format_count(num_members, 'entity')}, {format_count(num_chunks, 'chunk')}",
            count=len(children),
            children=partial(_iter_outline_nodes, communities, children),
        )


#: The instance that strategies use.
COMMUNITIES = CommunityIndex()
