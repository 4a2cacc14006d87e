"""Refusals: the text of an answer that abstains, because the documents do not answer the question.

In: the evidence, its scored passages, and the confidence. Out: a text that says so and shows the nearest sentences,
with their citations.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..retrieval.evidence import Evidence
from ..retrieval.query import Query
from ..text.blocks import to_plain_text
from ..text.normalize import fold_text
from ..text.words import FUNCTION_WORDS
from .citations import cite_hit, neutralize_citations
from .excerpts import list_best_excerpts
from .extractive import ExtractedAnswer, ScoredPassages, render_excerpts
from .snippets import truncate_snippet

if TYPE_CHECKING:
    from .answer_reader.reading import ReaderResult
    from .confidence import Confidence

NO_ANSWER = "The documents do not say this."
#: The maximum number of sentences that a refusal shows.
MAX_NEAREST = 3


def build_refusal(
    query: Query,
    evidence: Evidence,
    scored_passages: ScoredPassages,
    confidence: Confidence,
    reader_result: ReaderResult | None = None,
) -> ExtractedAnswer:
    """Return a refusal: a text that says that the documents do not answer the question, then the nearest sentences.

    It also lists the names in the question that no document has (``confidence.unknown``). If the question asks for
    something that no passage has, such as a telephone number (``confidence.formless``), it says so. ``reader_result``
    has the scores by which the sentences are chosen (None: the scores in ``scored_passages``). If the evidence has
    summaries or reports, their beginnings are shown instead. If the query's condition selects no documents, nothing is
    shown.
    """
    if query.allowed is not None and not len(query.allowed.documents):
        return ExtractedAnswer(f"{NO_ANSWER} The condition selects no documents.", [])
    heading = NO_ANSWER
    if confidence.unknown:
        names = (_add_noun_of_number(name, query.question) for name in confidence.unknown)
        heading += f" No document mentions {' or '.join(names)}."
    if confidence.formless:
        heading += f" No passage contains any {confidence.formless}."
    if any(hit.kind in ("summary", "report") for hit in evidence.hits):
        citations = [cite_hit(number, hit) for number, hit in enumerate(evidence.hits[:MAX_NEAREST], 1)]
        paragraphs = [
            f"{neutralize_citations(truncate_snippet(to_plain_text(citation.text)))} [{citation.number}]"
            for citation in citations
        ]
        return ExtractedAnswer("\n\n".join([f"{heading} Nearest:", *paragraphs]), citations)
    if reader_result is None:
        scores = scored_passages.snippet_scores.scores
    else:
        scores = {snippet.position: snippet.score for snippet in reader_result.candidates}
    excerpts = list_best_excerpts(scored_passages.passages, scores, MAX_NEAREST)
    text, citations = render_excerpts(scored_passages.passages, excerpts, scored_passages.scorer)
    return ExtractedAnswer(f"{heading} Nearest:\n\n{text}" if citations else heading, citations)


def _add_noun_of_number(name: str, question: str) -> str:
    """Return a bare number with the noun before it in a question, such as "issue 41", and any other name unchanged.

    >>> _add_noun_of_number("41", "Who is assigned to issue 41?"), _add_noun_of_number("2019", "Who won in 2019?")
    ('issue 41', '2019')
    """
    if not name.isdigit():
        return name
    match = re.search(rf"([^\W\d_]+)\s+{name}\b", question)
    return name if match is None or fold_text(match[1]) in FUNCTION_WORDS else match[0]
