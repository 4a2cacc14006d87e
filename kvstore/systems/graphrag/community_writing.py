"""Prompts for reports on communities, and the checks of a model's answer.

In: a community, with the names of its strongest members and its source spans. Out: a prompt whose answer is a report:
title, summary, rating and findings (Edge et al. 2024, section 3.1.4 and appendix E.2; the wording is kvstore's).
Sources are quoted and numbered. A finding that cites no valid source is dropped, and a report without findings is
rejected. The stored report identifies sources by their index in :meth:`Communities.list_sources`, so that each finding
can be cited.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...models.json_schema import build_object_schema
from ...models.quoting import Quotation, to_printable
from ...models.structured import StructuredPrompt
from ...models.token_estimate import token_estimate
from .communities import Communities

#: The maximum number of tokens of the sources in one prompt, and of findings in a report.
_MAX_SOURCE_TOKENS, _MAX_FINDINGS = 6000, 10
_TASK = (
    "You write a report on a group of names that belong together in a collection of documents: who or what they are, "
    "how they are related, what is important about them. Use only the numbered sources. Give a short title that names "
    "two or three of them; a summary of the whole group in a few sentences; a rating from 0 to 10 of how much the "
    "group matters to somebody who wants to know what the collection is about, with one sentence that explains it; and "
    f"up to {_MAX_FINDINGS} findings, the most important first. A finding has a summary of one sentence, an "
    "explanation of "
    "a few sentences that stands by itself, and the numbers of the sources that say so. Leave out what no source says."
)
_TEXT_SCHEMA = {"type": "string", "minLength": 1}
#: The number of tokens around a source: its number and the delimiters.
_FRAME_TOKENS = 16


def build_report_prompt(communities: Communities, community: int) -> StructuredPrompt[Mapping[str, Any]] | None:
    """Return the prompt for a report on a community, or None if one of its sources is gone."""
    spans = communities.list_sources(community)
    if not communities.has_spans(spans):
        return None
    numbered_texts: list[tuple[int, str]] = []
    room = _MAX_SOURCE_TOKENS
    for number, source in enumerate(spans):
        text = to_printable(communities.read_text(source))
        cost = token_estimate(text) + _FRAME_TOKENS
        if cost <= room:
            numbered_texts.append((number, text))
            room -= cost
    names = communities.list_member_names(community)
    quotation = Quotation([*names, *(text for _, text in numbered_texts)])
    sources = "\n\n".join(f"[{source}]\n{quotation.quote(text)}" for source, (_, text) in enumerate(numbered_texts, 1))
    numbers = [number for number, _ in numbered_texts]

    def check(answer: Any) -> Mapping[str, Any]:
        findings = list(_resolve_sources(answer["findings"], numbers))
        if not findings:
            raise ValueError("no finding gives the number of one of the sources")
        fields = {part: " ".join(answer[part].split()) for part in ("title", "summary", "rating_explanation")}
        return {**fields, "rating": answer["rating"], "findings": findings}

    return StructuredPrompt(
        "report",
        [
            {"role": "system", "content": f"{_TASK} {quotation.rule}"},
            {"role": "user", "content": f"Names:\n{quotation.quote(', '.join(names))}\n\nSources:\n\n{sources}"},
        ],
        build_object_schema(
            title=_TEXT_SCHEMA,
            summary=_TEXT_SCHEMA,
            rating={"type": "number", "minimum": 0, "maximum": 10},
            rating_explanation=_TEXT_SCHEMA,
            findings={
                "type": "array",
                "minItems": 1,
                "items": build_object_schema(
                    summary=_TEXT_SCHEMA,
                    explanation=_TEXT_SCHEMA,
                    sources={"type": "array", "items": {"type": "integer"}},
                ),
            },
        ),
        check,
    )


def _resolve_sources(findings: list[Mapping[str, Any]], numbers: list[int]) -> Iterator[dict[str, Any]]:
    """Yield the findings that cite valid sources, with source numbers mapped to indices in the full list."""
    for finding in findings[:_MAX_FINDINGS]:
        sources = [numbers[source - 1] for source in dict.fromkeys(finding["sources"]) if 1 <= source <= len(numbers)]
        if sources:
            fields = {part: " ".join(finding[part].split()) for part in ("summary", "explanation")}
            yield {**fields, "sources": sources}
