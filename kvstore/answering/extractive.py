"""Extractive answers: *excerpts* quoted word for word, with citations. An excerpt is adjacent *snippets* (sentences,
items, table rows) of a *passage*, the text around retrieved chunks (*hits*). A *position* is the indexes of both. A
*term* is the stem of a word; its *rarity* is its IDF in the store.

In: passages around the retrieved chunks, and a :class:`SnippetScorer` that scores their snippets. Out: a few excerpts
of snippets, best first, each a paragraph. An excerpt that does not name its subject begins with the title or heading
that does. The relations of the question's rarest entity in the entity forest follow, if the evidence has them. If the
store does not answer, the text says so and shows the nearest sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from ..retrieval.evidence import Evidence
from .answer_span import AnswerPart, AnswerSpan, Verdict
from .citations import Citation, neutralize_citations
from .excerpts import Excerpt, SnippetPosition, get_snippet, put_best_first, render_excerpt, select_excerpts
from .passages import Passage
from .question_form import find_topic
from .snippet_scoring import SnippetScorer, SnippetScores


class ScoredPassages:
    """Passages and the scores of their snippets, computed on first use if they are not given."""

    def __init__(self, passages: Sequence[Passage], scorer: SnippetScorer, scores: SnippetScores | None = None) -> None:
        """Combine passages with ``scores`` of their snippets (None: ``scorer`` computes the scores on first use)."""
        self.passages = passages
        self.scorer = scorer
        if scores is not None:
            self.snippet_scores = scores  # replaces the cached property

    @cached_property
    def snippet_scores(self) -> SnippetScores:
        """The scores of the passages' snippets by relevance to the question, computed on first use."""
        return self.scorer.score_snippets(self.passages)

    @cached_property
    def first_paragraph(self) -> str:
        """The first excerpt of the answer that rules select, as displayed; empty if there is no text to quote."""
        excerpts = self._displayed_excerpts[:1]
        return render_excerpts(self.passages, excerpts, self.scorer)[0] if excerpts else ""

    @cached_property
    def first_passage_text(self) -> str:
        """The text of the passage of the first excerpt, with its file name, title and headings."""
        if not self._displayed_excerpts:
            return ""
        passage = self.passages[self._displayed_excerpts[0].passage_index]
        return "\n".join([passage.document, passage.title or "", passage.heading, passage.text])

    @cached_property
    def terms_of_empty_cells(self) -> set[str]:
        """The terms of the question that are only in the names of columns for which the first row has no value.

        The set is empty if an answer does not begin with a row of a table.
        """
        if not self._displayed_excerpts:
            return set()
        snippets = self._displayed_excerpts[0].get_snippets(self.passages)
        labels = self.passages[self._displayed_excerpts[0].passage_index].list_labels(self._displayed_excerpts[0].first)
        text = " ".join([*labels, *(snippet.scored_text for snippet in snippets)])
        empty_columns = " ".join(snippet.empty_columns for snippet in snippets)
        return self.scorer.list_question_terms(empty_columns) - self.scorer.list_question_terms(text)

    @cached_property
    def excerpts(self) -> list[Excerpt]:
        """The excerpts that rules select for an answer of the default length, best first."""
        return select_excerpts(self.passages, self.snippet_scores.scores)

    @cached_property
    def _displayed_excerpts(self) -> list[Excerpt]:
        """The same ``excerpts`` in the order in which an answer displays them."""
        return put_best_first(self.passages, self.excerpts, self.snippet_scores.scores)


class ExtractedAnswer(NamedTuple):
    """The text of an extractive answer, its citations, and the words that answer, if they are known.

    ``verdict`` is the answer to a yes-no question if the first sentence settles it. ``parts`` are the answers
    to the parts of a question that asks for several facts.
    """

    text: str
    citations: list[Citation]
    span: AnswerSpan | None = None
    verdict: Verdict | None = None
    parts: tuple[AnswerPart, ...] = ()


def extract_answer(
    evidence: Evidence, scored_passages: ScoredPassages, max_words: int | None
) -> ExtractedAnswer | None:
    """Return an answer that quotes the excerpts with the best scores; None if there is no text to quote.

    If the evidence has groups of hits, the best excerpt from each group is quoted. Otherwise, the answer begins with
    the snippet with the best score and has at most ``max_words`` words (None: ``MAX_WORDS``). If the question asks for
    a topic instead of a fact, excerpts about something else are omitted. The first line of ``evidence.context``, which
    describes relations of an entity, follows.
    """
    passages, scores = scored_passages.passages, scored_passages.snippet_scores.scores
    if evidence.groups:
        excerpts = _select_group_excerpts(evidence, passages, scores)
    else:
        excerpts = scored_passages.excerpts if max_words is None else select_excerpts(passages, scores, max_words)
        scorer = scored_passages.scorer
        topic = find_topic(scorer.question) if scorer.language in (None, "english") else None
        if topic is not None:
            excerpts = _select_topic_excerpts(passages, excerpts, topic, scorer)
        excerpts = put_best_first(passages, excerpts, scores)
    text, citations = render_excerpts(passages, excerpts, scored_passages.scorer)
    paragraphs = [*filter(None, [text]), *(f"{line}." for line in evidence.context[:1])]
    return ExtractedAnswer("\n\n".join(paragraphs), citations) if paragraphs else None


def render_excerpts(
    passages: Sequence[Passage], excerpts: Sequence[Excerpt], scorer: SnippetScorer, first_number: int = 1
) -> tuple[str, list[Citation]]:
    """Return a text with a paragraph for each excerpt, and the citation of each paragraph.

    A paragraph ends with the number of its citation in brackets, counted from ``first_number``. ``scorer`` has the
    question.
    """
    paragraphs, citations = [], []
    for number, excerpt in enumerate(excerpts, first_number):
        passage = passages[excerpt.passage_index]
        text = render_excerpt(passage, excerpt, scorer.rarities.keys(), scorer.stem)
        # Bracketed numbers of the document would look like citations.
        paragraphs.append(f"{neutralize_citations(text)} [{number}]")
        snippets = excerpt.get_snippets(passages)
        start, end = passage.to_byte_offset(snippets[0].start), passage.to_byte_offset(snippets[-1].end)
        # An excerpt has at least one snippet within a hit, and the first of them is cited.
        kind, ordinal = next((snippet.hit.kind, snippet.ordinal) for snippet in snippets if snippet.hit is not None)
        citations.append(Citation(number, passage.document, ordinal, start, end, text, kind))
    return "\n\n".join(paragraphs), citations


def _select_topic_excerpts(
    passages: Sequence[Passage], excerpts: Sequence[Excerpt], topic: str, scorer: SnippetScorer
) -> list[Excerpt]:
    """Return the excerpts that are about a topic: those that cover it at least half as well as the best one does.

    Coverage is the total rarity of the topic's terms in an excerpt, its title and headings.
    """
    topic_terms = scorer.list_question_terms(topic)
    fractions = []
    for excerpt in excerpts:
        passage = passages[excerpt.passage_index]
        texts = [snippet.labeled_text for snippet in excerpt.get_snippets(passages)]
        terms = scorer.list_question_terms(" ".join([*passage.list_labels(excerpt.first), *texts]))
        fractions.append(scorer.compute_rarity_fraction(terms & topic_terms))
    return [excerpt for excerpt, fraction in zip(excerpts, fractions, strict=True) if fraction >= max(fractions) / 2]


def _select_group_excerpts(
    evidence: Evidence, passages: Sequence[Passage], scores: Mapping[SnippetPosition, float]
) -> list[Excerpt]:
    """Return the best excerpt from each group of hits, in the order of the groups.

    A snippet is used for one group only, so a later group may get no excerpt.
    """
    excerpts: list[Excerpt] = []
    remaining_scores = dict(scores)
    for group in evidence.groups:
        hits = {evidence.hits[index] for index in group.hits}
        group_scores = {
            position: score
            for position, score in remaining_scores.items()
            if get_snippet(passages, position).hit in hits
        }
        for excerpt in select_excerpts(passages, group_scores)[:1]:
            excerpts.append(excerpt)
            for position in excerpt.positions:
                remaining_scores.pop(position, None)
    return excerpts
