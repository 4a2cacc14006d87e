"""Reports of communities as hits: written by a model, or else made of sentences of the documents.

In: the communities of one state, and the documents that may answer. Out: hits of the kind ``report``, whose spans are
the sentences, or the sources that the model's findings cite. A model's report is shown only if all documents that it
was written from may answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ...errors import InputError
from ...retrieval.evidence import Hit, TextSpan
from ...retrieval.query import Query
from ...structures.indexes.index_reading import bind_index
from ...text.words import count_text_tokens
from .communities import Communities
from .community_index import COMMUNITIES
from .community_reports import SentenceSpan, list_report_spans, read_spans


def require_communities(query: Query) -> Communities:
    """Return the communities for a strategy; raises InputError if they are not built yet."""
    communities = bind_index(query.view, COMMUNITIES)
    if communities is None:
        raise InputError("the index communities is not built yet: REFRESH INDEX communities; makes it")
    return communities


def build_community_report(
    query: Query, communities: Communities, community: int, *, path: str, score: float = 0.0
) -> Hit | None:
    """Return the report of a community as a hit, or None if nothing of it may answer."""
    report = find_report_source(query, communities, community)
    spans = [to_text_span(query, span) for span in report.spans]
    heading, title = communities.get_key(community), communities.get_title(community)
    return build_report_hit(spans, render_reports(query, [report])[0], heading, title, path, score)


class ReportSource(NamedTuple):
    """The basis of a report: sentences of documents, or a model's text with the spans it cites.

    ``spans`` is empty if nothing of the report may answer.
    """

    spans: Sequence[SentenceSpan]
    model_text: Mapping[str, Any] | None


def find_report_source(query: Query, communities: Communities, community: int) -> ReportSource:
    """Return the basis of the report of a community, limited to what may answer."""
    model_text = communities.get_written_text(community)
    if model_text is not None:
        sources = communities.list_sources(community)
        if all(is_allowed(query, source) for source in sources):
            source_numbers = dict.fromkeys(
                number for finding in model_text.value["findings"] for number in finding["sources"]
            )
            if source_numbers:
                return ReportSource([sources[number] for number in source_numbers], model_text.value)
    return ReportSource(
        [span for span in list_extracted_spans(communities, community) if is_allowed(query, span)], None
    )


def render_reports(query: Query, reports: Sequence[ReportSource]) -> list[str]:
    """Return the texts of reports; reads the sentences of all of them together."""
    spans = dict.fromkeys(span for report in reports if report.model_text is None for span in report.spans)
    texts = dict(zip(spans, read_spans(query.view.documents, list(spans)), strict=True))
    return [
        "\n".join(map(texts.__getitem__, report.spans))
        if report.model_text is None
        else _render_model_text(report.model_text)
        for report in reports
    ]


def _render_model_text(report: Mapping[str, Any]) -> str:
    findings = (f"{finding['summary']} {finding['explanation']}" for finding in report["findings"])
    return "\n".join([report["title"], report["summary"], *findings])


def fit_reports(
    query: Query, communities: Communities, paths: Mapping[int, str], share: float, limit: int
) -> list[Hit]:
    """Return at most ``limit`` reports of communities that fit in a share of the query's tokens, if these are limited.

    ``paths`` maps each community, in order, to the reason why it is included.
    """
    room = math.inf if query.within is None else share * query.within
    reports: list[Hit] = []
    for community, path in paths.items():
        if len(reports) >= limit:
            break
        report = build_community_report(query, communities, community, path=path)
        if report is not None and (size := count_text_tokens(report.text)) <= room:
            reports.append(report)
            room -= size
    return reports


def build_report_hit(
    spans: Sequence[TextSpan], text: str, heading: str, title: str, path: str, score: float
) -> Hit | None:
    """Return a hit of the kind ``report``, or None if there are no spans."""
    if not spans:
        return None
    first_span = spans[0]
    fields = (first_span.document, first_span.ordinal, text, path, first_span.start, first_span.end)
    return Hit(1, score, *fields, heading, title, "report", tuple(spans))


def list_extracted_spans(communities: Communities, community: int) -> list[SentenceSpan]:
    """Return the sentences of a report not written by a model: the summary, then the findings, without duplicates."""
    return list_report_spans(communities.list_summary_spans(community), communities.list_findings(community))


def to_text_span(query: Query, span: SentenceSpan) -> TextSpan:
    """Convert a span to the form used in hits and citations."""
    state = query.view
    return TextSpan(state.documents.get_key(span.document), state.chunks.get(span.chunk).ordinal, span.start, span.end)


def renumber_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Number hits from rank 1, in the given order."""
    return [replace(hit, rank=rank) for rank, hit in enumerate(hits, 1)]


def is_allowed(query: Query, span: SentenceSpan) -> bool:
    """True if the document of a span may answer."""
    return query.allowed is None or span.document in query.allowed
