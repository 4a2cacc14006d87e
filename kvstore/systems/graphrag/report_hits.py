"""Reports of communities (groups of related entities) as hits: written by a model, or else made of sentences from the
documents. The *spans* of a report are these sentences, or the sources that the model cites. Reports get a *share* of
the hits: report n has the rank n / share.

In: requests for the reports of some communities. Out: hits of the kind ``report``. A model's report is shown only if
all documents that it was written from are allowed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

from ...errors import InputError
from ...retrieval.cover import build_composed_hit
from ...retrieval.evidence import Evidence, Hit, StoredSpan, TextSpan, convert_spans
from ...retrieval.query import Query
from ...structures.indexes.index_reading import bind_index
from ...structures.read_requests import ReadRequest
from ...structures.state import State
from ...text.words import count_text_tokens
from .communities import Communities
from .community_index import COMMUNITIES
from .community_reports import read_spans


def require_communities(state: State) -> Communities:
    """Return the communities of a store; raises InputError if they are not built yet."""
    communities = bind_index(state, COMMUNITIES)
    if communities is None:
        raise InputError("the index communities is not built yet; run REFRESH INDEX communities to build it")
    return communities


class ReportContent(NamedTuple):
    """A report: its community's key, title and level, its text, and the spans that it consists of or cites.

    ``spans`` is empty if no part of the report may be shown.
    """

    key: str
    title: str
    level: int
    text: str
    spans: Sequence[TextSpan]


class CommunityReportsRequest(ReadRequest[list[ReportContent]]):
    """A request for the reports of communities, made only from documents that match the query's condition. A report has
    no spans if none of its documents match.
    """

    communities: Sequence[int]

    def fetch(self, state: State) -> list[ReportContent]:
        communities = require_communities(state)
        reports = find_report_sources(state, communities, self.communities)
        keys, titles = communities.get_keys(self.communities), communities.get_titles(self.communities)
        texts = render_reports(state, reports)
        # The spans of all reports are converted together, from ids to document keys.
        spans = iter(convert_spans(state, [span for report in reports for span in report.spans]))
        contents = []
        for community, key, title, text, report in zip(self.communities, keys, titles, texts, reports, strict=True):
            level, report_spans = communities.get(community).level, list(islice(spans, len(report.spans)))
            contents.append(ReportContent(key, title, level, text, report_spans))
        return contents


class ReportSource(NamedTuple):
    """The content of a report: the sentences at ``spans``, or a model's text, which cites the spans.

    ``spans`` is empty if no part of the report may be shown. ``model_text`` has the fields of the model's report (None:
    the report consists of sentences).
    """

    spans: Sequence[StoredSpan]
    model_text: Mapping[str, Any] | None


def find_report_sources(state: State, communities: Communities, community_ids: Sequence[int]) -> list[ReportSource]:
    """Return, for each community, a model's report, or else sentences of documents that match the query's condition."""
    reports = []
    for community, spans in zip(community_ids, communities.list_extracted_spans(community_ids), strict=True):
        allowed_spans = [span for span in spans if _is_allowed(state, span)]
        model_report = _find_model_report(state, communities, community)
        reports.append(model_report or ReportSource(allowed_spans, model_text=None))
    return reports


def _find_model_report(state: State, communities: Communities, community: int) -> ReportSource | None:
    """Return the report that a language model wrote on a community, with the spans that it cites, or None.

    Returns None if there is no such report, if it cites nothing, or if one of its source documents does not match the
    query's condition.
    """
    model_text = communities.get_written_text(community)
    if model_text is None:
        return None
    sources = communities.list_sources(community)
    if not all(_is_allowed(state, source) for source in sources):
        return None
    cited_indexes = dict.fromkeys(index for finding in model_text.value["findings"] for index in finding["sources"])
    return ReportSource([sources[index] for index in cited_indexes], model_text.value) if cited_indexes else None


def render_reports(state: State, reports: Sequence[ReportSource]) -> list[str]:
    """Return the text of each report, with a sentence or finding on each line; reads the sentences of all at once."""
    spans = dict.fromkeys(span for report in reports if report.model_text is None for span in report.spans)
    texts = dict(zip(spans, read_spans(state.documents, list(spans)), strict=True))
    return [
        "\n".join(map(texts.__getitem__, report.spans))
        if report.model_text is None
        else _render_model_text(report.model_text)
        for report in reports
    ]


def _render_model_text(report: Mapping[str, Any]) -> str:
    """Return the title, the summary and the findings of a model's report, each on a line."""
    findings = (f"{finding['summary']} {finding['explanation']}" for finding in report["findings"])
    return "\n".join([report["title"], report["summary"], *findings])


def _is_allowed(state: State, span: StoredSpan) -> bool:
    """True if the document of a span satisfies the query's condition on documents, or if there is no condition."""
    return state.allowed is None or span.document in state.allowed


class ReportCandidate(NamedTuple):
    """A community whose report can become a hit, and the reason for it (``path``), which EXPLAIN shows."""

    community: int
    path: str


def select_reports(query: Query, candidates: Sequence[ReportCandidate], share: float) -> dict[int, Hit]:
    """Return the reports that fit into a share of the query's hits and tokens, by community.

    They are in the order of the candidates, which are read in batches. The first batch usually suffices; others are
    read only if some reports do not fit or may not be shown. If the tokens are limited, the number of reports does not
    depend on the number of hits: the chunks get the rest of the tokens.
    """
    remaining_tokens = math.inf if query.within is None else share * query.within
    limit = _count_reports(share, query.top) if query.within is None else len(candidates)
    reports: dict[int, Hit] = {}
    start, batch_size = 0, max(1, _count_reports(share, query.top))
    while len(reports) < limit and start < len(candidates):
        batch = candidates[start : start + batch_size]
        contents = query.reading.fetch(CommunityReportsRequest([candidate.community for candidate in batch]))
        for (community, path), content in zip(batch, contents, strict=True):
            report = build_report_hit(content, path, score=0.0)
            if report is None or len(reports) == limit:
                continue
            num_tokens = count_text_tokens(report.text)
            if num_tokens <= remaining_tokens:
                reports[community] = report
                remaining_tokens -= num_tokens
        start += batch_size
        batch_size *= 2
    return reports


def _count_reports(share: float, top: int) -> int:
    """Return the number of reports among the first ``top`` hits if report n has the rank n / ``share``, rounded up."""
    if not share:
        return 0
    # The first count for which the next report would have a rank greater than ``top``.
    return next(count for count in range(top + 1) if math.ceil((count + 1) / share) > top)


def insert_reports(
    query: Query, share: float, reports: Mapping[int, Hit], find_chunks: Callable[[Query], Evidence]
) -> tuple[Evidence, list[int | None]]:
    """Return evidence of chunks and reports, and the community of each hit (None for a chunk).

    Report n has the rank n / ``share``, rounded up, or follows the last chunk. The first hits are therefore the same
    for every number of hits. ``find_chunks`` returns the chunks for a query with the rest of the hits and tokens. A
    report gets a score just below the score of the hit before it, and no hit gets a higher score than the hit before
    it.
    """
    num_reports = min(len(reports), _count_reports(share, query.top))
    within = None
    if query.within is not None:
        within = query.within - sum(count_text_tokens(report.text) for report in reports.values())
    evidence = find_chunks(query.copy_with_limits(query.top - num_reports, within))
    chunk_hits, report_hits = deque(evidence.hits), deque(reports.items())
    hits: list[Hit] = []
    communities: list[int | None] = []
    while len(hits) < query.top and (chunk_hits or report_hits):
        # The next report is due if its rank is reached, or if there are no chunks left.
        next_number = 1 + len(reports) - len(report_hits)
        is_report = bool(report_hits) and (not chunk_hits or math.ceil(next_number / share) <= len(hits) + 1)
        community, hit = report_hits.popleft() if is_report else (None, chunk_hits.popleft())
        score = _limit_score(hit, hits[-1]) if hits else hit.score
        hits.append(replace(hit, rank=len(hits) + 1, score=score))
        communities.append(community)
    return replace(evidence, hits=hits), communities


def _limit_score(hit: Hit, previous: Hit) -> float:
    """Return a score of a hit that is not higher than the score of the ``previous`` hit.

    A report gets the next lower number. A chunk keeps its score if possible, but does not tie with a report before it.
    """
    below_previous = math.nextafter(previous.score, -math.inf)
    if hit.kind == "report":
        return below_previous
    return min(hit.score, below_previous if previous.kind == "report" else previous.score)


def build_report_hit(content: ReportContent, path: str, score: float) -> Hit | None:
    """Return a report (``content``) as a hit of rank 1; None for a report without spans, which may not be shown.

    ``path`` is the reason for the hit that EXPLAIN shows.
    """
    if not content.spans:
        return None
    heading = content.key  # of the community
    return build_composed_hit(
        "report", tuple(content.spans), content.text, path, heading=heading, title=content.title, rank=1, score=score
    )


def renumber_hits(hits: Iterable[Hit]) -> list[Hit]:
    """Return copies of hits with the ranks 1, 2, …, in the same order."""
    return [replace(hit, rank=rank) for rank, hit in enumerate(hits, 1)]
