"""The index of kind ``communities``: made of one state by REFRESH, read as communities of another.

In: a state. On disk: a generation of the rows of :mod:`.community_rows`. Out: :class:`~.communities.Communities`, what
a state may use of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...arguments import Choice, Option
from ...models.structured import StructuredPrompt
from ...structures.indexes.generations import Generation, GenerationIndex, GenerationRows, OutlineNode, Writing
from ...structures.indexes.index import BuildTools, IndexRecord, States
from ...structures.logical import Logical
from ...structures.state import State
from ..contract import DumpRow
from .communities import Communities
from .community_building import build_communities
from .community_levels import AFFINITY, KNN, LEIDEN, NONE, CommunityOptions
from .community_reports import community_reports
from .community_rows import CHUNK_HOMES, ENTITY_COMMUNITIES, MEMBERS, TABLES, TERMS, community_rows
from .community_rows import COMMUNITIES as COMMUNITY_TABLE
from .community_writing import build_report_prompt
from .leiden import require_leiden
from .report_terms import build_term_rows

#: Reports between two words of progress.
_TOLD = 256


class CommunityIndex(GenerationIndex[Communities]):
    """Entities that belong together."""

    name = "communities"
    description = "entities that belong together, at several levels, and what they are about"
    version = 2
    tables = TABLES
    quoting = (TERMS,)
    outlined = True
    options: Mapping[str, Option | Choice] = {
        "method": Choice(AFFINITY, (AFFINITY, LEIDEN), "how entities are grouped; leiden needs the extra communities"),
        "neighbours": Choice(
            NONE, (NONE, KNN), "none: by what stands together; knn: by what is near to each other in meaning as well"
        ),
        "percentile": Option(0.7, 0.0, 1.0, "knn: which of the cosines of joined entities two others must exceed"),
        "largest": Option(15, 2, 1000, "members of a community at most, entities or communities of the level below"),
        "least": Option(10, 1, 1_000_000, "communities that make a level above the finest, at least"),
        "levels": Option(4, 1, 10, "levels at most"),
    }

    def build(self, states: States, record: IndexRecord, tools: BuildTools) -> Generation:
        options = CommunityOptions(
            record.choice("method"),
            record.choice("neighbours"),
            record.option("percentile"),
            **record.counts(("largest", "least", "levels")),
        )
        if options.method == LEIDEN:
            require_leiden()
        with states() as state:
            change, chunk_stop = state.counters.change, state.counters.next_chunk
            tree = build_communities(state, options)
            reports = {}
            for community, report in community_reports(state, tree):
                reports[community] = report
                if len(reports) % _TOLD == 0:
                    tools.progress(len(reports), len(tree))
            rows = community_rows(tree, reports.items())
            rows[TERMS] = list(build_term_rows(state, rows[MEMBERS], reports))
        tools.progress(len(tree), len(tree))
        head = {"levels": len(tree.levels), "communities": len(tree)}
        return Generation(change, chunk_stop, head, rows)

    def bound(self, rows: GenerationRows, state: State) -> Communities:
        return Communities(rows, state)

    def describe(self, bound: Communities) -> str:
        numbers = range(len(bound))
        newer_count, hidden_count = len(bound.newer()), sum(not bound.alive(community) for community in numbers)
        parts = [
            f"{len(bound):,} communities of {bound.nodes:,} entities in {bound.levels} level{'s' * (bound.levels != 1)}"
        ]
        if newer_count:
            parts.append(f"{newer_count:,} newer chunks are placed when they are read")
        if hidden_count:
            parts.append(f"{hidden_count:,} of nothing that is left are not shown")
        models: dict[str, int] = {}
        for community in numbers:
            model_text = bound.written(community)
            if model_text is not None:
                models[model_text.model] = models.get(model_text.model, 0) + 1
        parts += [f"{count:,} texts by {model}" for model, count in sorted(models.items())]
        return "; ".join(parts)

    def dump(self, bound: Communities, names: Logical) -> Mapping[str, Iterable[DumpRow]]:
        def communities() -> Iterator[DumpRow]:
            for number in range(len(bound)):
                community = bound.get(number)
                summary = [(names.chunk(span.chunk), span.start, span.end) for span in bound.summary(number)]
                findings = [
                    (tuple(map(names.entity, entities)), weight, names.chunk(span.chunk), span.start, span.end)
                    for entities, weight, span in bound.findings(number)
                ]
                yield (*community, bound.key(number), summary, findings)

        numbers = range(len(bound))
        return {
            COMMUNITY_TABLE: communities(),
            MEMBERS: (
                (number, names.entity(entity), weight) for number in numbers for entity, weight in bound.members(number)
            ),
            CHUNK_HOMES: (
                (number, names.chunk(chunk), share) for number in numbers for chunk, share in bound.passages(number)
            ),
            ENTITY_COMMUNITIES: ((names.entity(entity), bound.of_entity(entity)) for entity in bound.entities()),
            TERMS: zip(numbers, bound.get_built_terms(numbers), strict=True),
        }

    def check(self, bound: Communities) -> Iterator[str]:
        return bound.faults()

    def outline(self, bound: Communities) -> Iterable[OutlineNode]:
        return _outline(bound, bound.roots())

    def writings(self, bound: Communities) -> Iterable[Writing]:
        for number in range(len(bound)):
            sources = bound.sources(number)
            if sources and bound.alive(number) and bound.has_spans(sources):
                community = bound.get(number)
                yield Writing(community.content, community.passages, bound.title(number), number)

    def prompt(self, bound: Communities, writing: Writing) -> StructuredPrompt[Mapping[str, Any]] | None:
        return build_report_prompt(bound, writing.group)


def _outline(bound: Communities, communities: Iterable[int]) -> Iterator[OutlineNode]:
    for number in communities:
        community = bound.get(number)
        below = [child for child in community.children if bound.alive(child)]
        yield OutlineNode(
            bound.title(number),
            f"{len(bound.members(number)):,} entities, {len(bound.passages(number)):,} passages",
            len(below),
            lambda below=below: _outline(bound, below),  # type: ignore[misc]
        )


#: The one that strategies ask for.
COMMUNITIES = CommunityIndex()
