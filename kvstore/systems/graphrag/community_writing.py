"""Prompts for reports on communities (groups of related entities), and the checks of a model's answer. A report is
written from *sources*: spans of documents, and descriptions of members that a model wrote. Its *findings* are
statements that cite sources by number.

In: a community, with the names of its strongest members and its source spans. Out: a prompt whose answer is a report:
title, summary, rating and findings (Edge et al. 2024, section 3.1.4 and appendix E.2; the wording is kvstore's).
Sources are quoted and numbered: descriptions of the members that a model wrote (EXTRACT descriptions), then spans. A
finding that its sources do not support is dropped, and a report without findings is rejected. The stored report
identifies sources by their index in :meth:`Communities.list_sources`, so that each finding can be cited. In place of a
description, it has the span that supports the description.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from ...models.json_schema import build_array_schema, build_object_schema, build_text_schema
from ...models.quoting import Quotation, replace_quotes, to_printable
from ...models.structured import StructuredPrompt
from ...models.text_checks import check_text, find_sources, trim_to_sentences
from ...models.token_estimate import token_estimate
from ...retrieval.evidence import StoredSpan
from .communities import Communities

#: The maximum number of tokens of the sources in one prompt, and of findings in a report.
MAX_SOURCE_TOKENS, _MAX_FINDINGS = 6000, 10
_TASK = (
    "You write a report on a group of names that belong together in a collection of documents: who or what they are, "
    "how they are related, what is important about them. Use only the numbered sources. Give a short title that names "
    "two or three of them; a summary of the whole group in a few sentences; a rating from 0 to 10 of how much the "
    "group matters to somebody who wants to know what the collection is about; and "
    f"up to {_MAX_FINDINGS} findings, the most important first. A finding has a summary of one sentence, an "
    "explanation of "
    "a few sentences that stands by itself, and the numbers of the sources that say so. Leave out what no source says."
)
#: The maximum number of characters of a title, of a sentence, and of a text of a few sentences.
_MAX_TITLE_CHARS, _MAX_SENTENCE_CHARS, _MAX_TEXT_CHARS = 120, 400, 1200
#: The number of tokens around a source: its number and the delimiters.
_FRAME_TOKENS = 16
#: The maximum share of the sources' tokens for descriptions of entities.
_DESCRIPTIONS_SHARE = 0.5


def build_report_prompt(
    communities: Communities, community: int, max_tokens: int = MAX_SOURCE_TOKENS
) -> StructuredPrompt[Mapping[str, Any]] | None:
    """Return the prompt that asks a model for a report on a community (GraphRAG, section 3.1.4).

    The prompt quotes at most ``max_tokens`` tokens of sources: sentences and descriptions of members. Returns None if a
    source was deleted or no source fits.
    """
    spans = communities.list_sources(community)
    if not communities.has_spans(spans):
        return None
    descriptions, passages = _select_sources(communities, community, spans, max_tokens)
    source_texts = [
        _SourceText(index, replace_quotes(to_printable(text))) for index, text in (*descriptions, *passages)
    ]
    if not source_texts:
        return None
    names = [record.name for record in communities.list_top_members(community)]
    quotation = Quotation([*names, *(source.text for source in source_texts)])
    sources = "\n\n".join(
        f"[{number}]\n{quotation.quote(source.text)}" for number, source in enumerate(source_texts, 1)
    )

    def convert_answer(answer: Any) -> Mapping[str, Any]:
        """Return the report in a model's answer, without findings that the sources do not support.

        Raises ValueError if the title, the summary or all findings are unusable.
        """
        fields = {"title": " ".join(answer["title"].split()), "summary": trim_to_sentences(answer["summary"])}
        texts = [*names, *(source.text for source in source_texts)]
        check_text(fields["title"], texts, name="the title", prompt=_TASK, is_title=True)
        check_text(fields["summary"], texts, name="the summary", prompt=_TASK)
        findings = list(_iter_supported_findings(answer["findings"], names, source_texts))
        used_descriptions = {"descriptions": [sentence for _, sentence in descriptions]} if descriptions else {}
        return {**fields, "rating": answer["rating"], "findings": findings, **used_descriptions}

    return StructuredPrompt(
        name="report",
        messages=[
            {"role": "system", "content": f"{_TASK} {quotation.rule}"},
            {"role": "user", "content": f"Names:\n{quotation.quote(', '.join(names))}\n\nSources:\n\n{sources}"},
        ],
        schema=_build_report_schema(len(source_texts)),
        check=convert_answer,
    )


def _build_report_schema(num_sources: int) -> dict[str, Any]:
    """Return the JSON schema of a report whose findings cite sources by number, 1 to ``num_sources``."""
    source_schema = {"type": "integer", "minimum": 1, "maximum": num_sources}
    finding_schema = build_object_schema(
        summary=build_text_schema(_MAX_SENTENCE_CHARS),
        explanation=build_text_schema(_MAX_TEXT_CHARS),
        sources=build_array_schema(source_schema, num_sources),
    )
    return build_object_schema(
        title=build_text_schema(_MAX_TITLE_CHARS),
        summary=build_text_schema(_MAX_TEXT_CHARS),
        rating={"type": "number", "minimum": 0, "maximum": 10},
        findings=build_array_schema(finding_schema, _MAX_FINDINGS),
    )


class _SourceText(NamedTuple):
    """A text to quote in a prompt: the text of a span, or a description that the span with ``span_index`` supports."""

    span_index: int
    text: str


def _select_sources(
    communities: Communities, community: int, spans: Sequence[StoredSpan], max_tokens: int
) -> tuple[list[_SourceText], list[_SourceText]]:
    """Return the descriptions of members and the texts of ``spans`` that a prompt quotes, ``max_tokens`` in total.

    A description is quoted if one of the spans supports it. Descriptions have at most half of the tokens.
    """
    span_texts = list(map(communities.read_text, spans))
    descriptions, used_tokens = _select_fitting(
        _iter_descriptions(communities, community, span_texts), int(_DESCRIPTIONS_SHARE * max_tokens)
    )
    passages, _ = _select_fitting(map(_SourceText, count(), span_texts), max_tokens - used_tokens)
    return descriptions, passages


def _iter_descriptions(communities: Communities, community: int, span_texts: Sequence[str]) -> Iterator[_SourceText]:
    """Yield the descriptions of members that one of the community's source spans supports, with the span's index.

    A model wrote the descriptions. ``span_texts`` are the texts of the community's source spans, in order. A sentence
    that is a span itself is omitted.
    """
    indexes_by_document: dict[int, list[int]] = {}
    for index, span in enumerate(communities.list_sources(community)):
        indexes_by_document.setdefault(span.document, []).append(index)
    for document, sentence in communities.list_descriptions(community):
        span_indexes = indexes_by_document[document]
        supporting_positions = find_sources(sentence, [span_texts[index] for index in span_indexes])
        if supporting_positions and sentence not in span_texts:
            yield _SourceText(span_indexes[supporting_positions[0]], sentence)


def _select_fitting(sources: Iterable[_SourceText], max_tokens: int) -> tuple[list[_SourceText], int]:
    """Return the sources that fit into ``max_tokens``, in order, and their number of tokens.

    A source that is too long is skipped, and a later, shorter one can be selected.
    """
    selected_sources: list[_SourceText] = []
    used_tokens = 0
    for source in sources:
        num_tokens = token_estimate(source.text) + _FRAME_TOKENS
        if used_tokens + num_tokens <= max_tokens:
            selected_sources.append(source)
            used_tokens += num_tokens
    return selected_sources, used_tokens


def _iter_supported_findings(
    findings: Sequence[Mapping[str, Any]], names: Sequence[str], source_texts: Sequence[_SourceText]
) -> Iterator[dict[str, Any]]:
    """Yield the findings that their sources support, with the indexes of the cited spans.

    A model cites a text by its position in ``source_texts``, from 1. A finding may also use the community's ``names``.
    Raises ValueError if there are findings, but no supported one.
    """
    problem: ValueError | None = None
    num_findings = 0
    for finding in findings:
        cited_sources = [source_texts[number - 1] for number in dict.fromkeys(finding["sources"])]
        fields = {field: trim_to_sentences(finding[field]) for field in ("summary", "explanation")}
        try:
            sources = [*names, *(source.text for source in cited_sources)]
            for text in fields.values():
                check_text(text, sources, name="a finding", prompt=_TASK)
        except ValueError as error:
            problem = problem or error  # the first one is reported
            continue
        num_findings += 1
        yield {**fields, "sources": list(dict.fromkeys(source.span_index for source in cited_sources))}
    if problem is not None and not num_findings:
        raise problem
