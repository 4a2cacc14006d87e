"""Terms of the titles and reports of communities, as used in word search. A *term* is a stemmed word. The terms of a
report are one string, in which each is between two spaces and repeated as often as it occurs.

In: texts; at build time, the rows of communities and their reports. Out: a string of terms for each report, stored with
the communities (:mod:`.community_rows`), so that strategies compare reports without reading them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice

from ...storage import records
from ...structures.state import State
from ...text.languages import get_text_stemmer
from ...text.words import count_text_terms
from .community_reports import MAX_TITLE_CANDIDATES, CommunityReport, build_title, list_report_spans, read_spans

#: The number of reports read together.
_BATCH_SIZE = 64


def join_terms(text: str, stem: Callable[[str], str]) -> str:
    """Return the terms of a text as one string, each repeated as often as it occurs, with a space on both sides.

    The result is small and fast to search.

    >>> join_terms("Bergen ferries, Bergen", str.lower)
    ' bergen  bergen  ferries '
    """
    return "".join(f" {term} " * count for term, count in count_text_terms(text, stem).items())


def build_report_terms(title: str, report: str, stemmer: str) -> str:
    """Return the terms of a community's title and report as one string; "" if the report is empty.

    Each term is between spaces, as often as it occurs. ``stemmer`` is the name of the stemmer in the store's settings.
    """
    return join_terms(f"{title}\n{report}", get_text_stemmer(stemmer, report)) if report else ""


def iter_term_rows(
    state: State, members: Sequence[tuple[bytes, Sequence[int]]], reports: Mapping[int, CommunityReport]
) -> Iterator[tuple[bytes, str]]:
    """Yield (key, terms) for each community: a row of the ``community_terms`` table.

    The terms come from its title and report. ``members`` are the rows (key, [entity, weight, entity, weight, …]) of the
    table of members, strongest member first. ``reports`` are the reports by community.
    """
    member_rows = iter(members)
    while batch := list(islice(member_rows, _BATCH_SIZE)):
        # The strongest members of each community, whose names can be in its title.
        entity_groups = [list(islice(row, 0, 2 * MAX_TITLE_CANDIDATES, 2)) for _, row in batch]
        entities = list(dict.fromkeys(chain.from_iterable(entity_groups)))
        names = {
            entity: record.name for entity, record in zip(entities, state.entities.get_many(entities), strict=True)
        }
        batch_reports = [reports[records.U32.unpack(key)[0]] for key, _ in batch]
        span_groups = [list_report_spans(report.summary, report.findings) for report in batch_reports]
        sentences = iter(read_spans(state.documents, list(chain.from_iterable(span_groups))))
        for (key, _), group, spans in zip(batch, entity_groups, span_groups, strict=True):
            title = build_title(map(names.__getitem__, group))
            report_text = "\n".join(islice(sentences, len(spans)))
            yield key, build_report_terms(title, report_text, state.settings.stemmer)
