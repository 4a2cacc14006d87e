"""The reading of the passages of a question by the answer reader: sentences by score, and the words that answer.

In: passages, the question, and the rules that score sentences. Out: a :class:`PassageReading`, from which the answer,
its confidence and the nearest sentences are made.

The reader reads the passages of the strategy's hits, then of the chunks with the nearest vectors, and then of the
document that the question names by its date or number. It reads them in windows: one snippet each, after its title and
heading. A snippet that refers to the sentence before it is read with that. Only the likeliest windows are read, at most
:data:`MAX_WINDOWS`, chosen by the terms that they share with the question, by the rank of their hits, and by what the
question asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ...retrieval.dense_search import compute_cosines, rank_by_vector
from ...retrieval.evidence import Hit
from ...retrieval.query import Query, evidence_of
from ...structures.ranking import Ranking, best
from ...text.patterns import compile_lazily
from ...text.words import find_reference_numbers, list_terms
from ..answer_span import Verdict
from ..extractive import MAX_CHUNKS, SnippetScorer, SnippetScores, list_candidates
from ..passages import Passage
from ..question_form import find_asking_sentence, is_yes_no_question
from ..question_kinds import QuestionKind, classify_question, find_contrasts, find_quality, is_contrary
from ..runs import SnippetPosition, find_required_span, has_previous
from ..snippets import Snippet
from ..verdicts import decide_verdict, find_names

if TYPE_CHECKING:
    from .reader import AnswerReader

#: The maximum number of chunks examined in a document that the question identifies by a number.
_MAX_DOCUMENT_CHUNKS = 500
#: The maximum number of windows that are read for a question.
MAX_WINDOWS = 16
#: The weights of a term in the title or headings of a snippet, of 1 / (1 + half the rank of its hit), and of a snippet
#: without what the question asks for. A term in the snippet itself has weight 1.
_TITLE_WEIGHT, _RANK_WEIGHT, _MISSING_WEIGHT = 0.5, 0.5, -0.5
#: The name of a field that is written with underscores.
_FIELD_NAME_PATTERN = compile_lazily(r"\b[^\W_]+(?:_[^\W_]+)+(?=: )")

#: Letters and a number, such as "T250" or "KX-120".
_IDENTIFIER_PATTERN = compile_lazily(r"\b[^\W\d_]+-?\d[\w-]*")
#: The start of a field of a row: its name.
_FIELD_START_PATTERN = compile_lazily(r"(?:\A|; )[^:;]{1,60}: ")
#: A snippet that is only a web address, and the kinds of questions that it can answer.
_ADDRESS_PATTERN = compile_lazily(r"\W*https?://\S+\s*")
_ADDRESS_KINDS = frozenset(("place", "web address"))


def add_candidate_hits(hits: Sequence[Hit], query: Query) -> list[Hit]:
    """Return the hits, then the nearest chunks by vector, then those of a document that the question identifies.

    Each chunk is returned once. The embedder must be able to embed the question.
    """
    limited_query = query.copy_with_limits(top=min(query.top, MAX_CHUNKS), within=None)
    explained_rankings = [
        (rank_by_vector(limited_query, MAX_CHUNKS), "near the question"),
        (_rank_identified_document(hits, query), "in the document with the number that the question names"),
    ]
    hits_by_chunk = {(hit.document, hit.ordinal): hit for hit in hits}
    for ranking, explanation in explained_rankings:
        if ranking:
            for hit in evidence_of(limited_query, "vector", ranking, explanation, query.chunk_count).hits:
                hits_by_chunk.setdefault((hit.document, hit.ordinal), hit)
    return list(hits_by_chunk.values())


def _rank_identified_document(hits: Sequence[Hit], query: Query) -> Ranking:
    """Rank the chunks of the document that has all reference numbers of the question, nearest to the question first.

    It is the first document of the hits that has these dates, invoice numbers or versions in its name, its title or the
    text of its hit. Return an empty ranking if the question has no reference number, or if no document has all of them.
    """
    numbers = set(find_reference_numbers(query.question))
    if not numbers:
        return []
    for hit in hits:
        text = f"{PurePosixPath(hit.document).stem} {hit.title or ''} {hit.text}"
        record = query.state.documents.find_by_key(hit.document)
        if record is not None and numbers.issubset(find_reference_numbers(text)):
            ordinals = range(min(record.chunk_count, _MAX_DOCUMENT_CHUNKS))
            chunks = np.array([record.get_chunk_id(ordinal) for ordinal in ordinals], np.uint64)
            return best(query.state, chunks, compute_cosines(query.state, chunks, query.vector), MAX_CHUNKS)
    return []


class Window(NamedTuple):
    """A snippet as the reader reads it: ``text``, in which the snippet begins at character ``offset``.

    ``is_kind_missing`` is True if the snippet lacks what the question asks for, such as an amount of money, or if it is
    a row of a table about something else.
    """

    position: SnippetPosition
    text: str
    offset: int
    is_kind_missing: bool


def select_windows(kind: QuestionKind, passages: Sequence[Passage], scorer: SnippetScorer) -> list[Window]:
    """Return the windows to read, at most ``MAX_WINDOWS`` with different texts, likeliest first.

    A window is a snippet after its title, its headings and the sentence that it refers to. ``kind`` is the kind of
    thing that the question asks for. A snippet that is itself a question is not read, and a web address only if the
    question can ask for one.
    """
    estimator = _CandidateEstimator(kind, passages, scorer)
    numbers = frozenset(find_reference_numbers(scorer.question))
    # Each candidate, with True if it lacks what the question asks for.
    candidates = {
        (passage_index, index): estimator.is_kind_missing(passages[passage_index].snippets, index)
        for passage_index, index in list_candidates(passages)
        if not (snippet := passages[passage_index].snippets[index]).is_question
        and (kind.name in _ADDRESS_KINDS or not _ADDRESS_PATTERN.fullmatch(snippet.text))
    }
    candidates |= dict.fromkeys(_iter_release_headings(passages, scorer.question), False)
    scores = {position: estimator.estimate_score(position, is_missing) for position, is_missing in candidates.items()}
    windows: dict[str, Window] = {}  # by text, because documents can repeat each other
    for position in sorted(candidates, key=lambda position: (-scores[position], position)):
        text, offset = _build_window_text(passages[position[0]], position[1], numbers)
        windows.setdefault(text, Window(position, text, offset, candidates[position]))
        if len(windows) == MAX_WINDOWS:
            break
    return list(windows.values())


class _CandidateEstimator:
    """Estimates, without embedding any text, how likely a snippet answers a question."""

    def __init__(self, kind: QuestionKind, passages: Sequence[Passage], scorer: SnippetScorer) -> None:
        """Compute what all candidates share: the terms of the passages' titles, and the identifiers to look for.

        ``scorer`` has the question, and ``kind`` is the kind of thing that the question asks for.
        """
        self._kind = kind
        self._passages = passages
        self._scorer = scorer
        self._quality = find_quality(scorer.question)
        self._title_terms = [
            scorer.list_question_terms(f"{passage.title or passage.document} {passage.heading}") for passage in passages
        ]
        #: The identifiers of the question that a row within a hit has.
        self._row_identifiers = _find_identifiers(scorer.question)
        if self._row_identifiers:
            rows = (
                snippet.text for passage in passages for snippet in passage.snippets if snippet.hit and _is_row(snippet)
            )
            self._row_identifiers &= set().union(*map(_find_identifiers, rows))

    def estimate_score(self, position: SnippetPosition, is_kind_missing: bool) -> float:
        """Return a score from a snippet's terms and rank, lowered if it lacks what the question asks for."""
        snippet = self._passages[position[0]].snippets[position[1]]
        assert snippet.hit is not None  # as list_candidates and _iter_release_headings ensure
        own_terms = self._scorer.list_question_terms(snippet.labeled_text)
        above_terms = self._scorer.list_question_terms(f"{snippet.heading} {snippet.caption}")
        if snippet.heading.endswith("?"):  # the question that the snippet answers
            own_terms |= above_terms
        above_terms |= self._title_terms[position[0]]
        return (
            self._scorer.compute_rarity_fraction(own_terms)
            + _TITLE_WEIGHT * self._scorer.compute_rarity_fraction(above_terms - own_terms)
            + _RANK_WEIGHT / (1 + snippet.hit.rank / 2)
            + _MISSING_WEIGHT * is_kind_missing
        )

    def is_kind_missing(self, snippets: Sequence[Snippet], index: int) -> bool:
        """True if the snippet at ``index``, with the block that it introduces, lacks what the question asks for.

        A row of a table is about the things in its cells: one of them must have a term of the question, or name the
        quality that it asks for. If a row has an identifier of the question, the rows without one are about others.
        """
        snippet = snippets[index]
        is_row = bool(self._row_identifiers) and _is_row(snippet)
        if is_row and self._row_identifiers.isdisjoint(_find_identifiers(snippet.text)):
            return True
        if snippet.cells and not self._scorer.list_question_terms(f"{snippet.label} {snippet.cells}"):
            quality = self._quality
            if quality is None or self._scorer.stem(quality) not in list_terms(snippet.cells, self._scorer.stem):
                return True
        return self._kind.is_missing_in(_render_with_block(snippets, index))


def _find_identifiers(text: str) -> set[str]:
    """Return the identifiers in a text (letters with a number), in lower case.

    >>> sorted(_find_identifiers("Does KX-120 replace the T250 of 1990?"))
    ['kx-120', 't250']
    """
    return set(_IDENTIFIER_PATTERN.findall(text.lower()))


def _is_row(snippet: Snippet) -> bool:
    """True if a snippet is a row of a table or a record with several fields."""
    return bool(snippet.cells) or (snippet.kind == "table" and len(_FIELD_START_PATTERN.findall(snippet.text)) > 1)


def _iter_release_headings(passages: Sequence[Passage], question: str) -> Iterator[SnippetPosition]:
    """Yield the position of each heading, within a hit, that dates a release that the question names; in order."""
    for passage_index, passage in enumerate(passages):
        for index, snippet in enumerate(passage.snippets):
            if snippet.release is not None and snippet.hit is not None and snippet.release.is_asked_for_in(question):
                yield passage_index, index


def _build_window_text(passage: Passage, index: int, numbers: Collection[str]) -> tuple[str, int]:
    """Return the text of the window of the snippet at ``index``, and the character offset of the snippet in it.

    The title, the headings and a sentence that the snippet refers to precede it. The name of the document is first if
    it has one of the reference ``numbers`` of the question. A heading that dates a release is read as a sentence.
    """
    snippets = passage.snippets
    snippet = snippets[index]
    if snippet.release is not None:
        return snippet.release.sentence, 0
    name = PurePosixPath(passage.document).stem
    document_name = "" if set(numbers).isdisjoint(find_reference_numbers(name)) else name
    labels = [document_name, *passage.list_labels(index)]
    before = "".join(
        f"{label.rstrip('.')}{'' if label.endswith(('?', '!', ':')) else '.'} "
        for label in dict.fromkeys(filter(None, labels))
    )
    refers_back = (snippet.needs_previous or snippet.needs_subject) and has_previous(snippets, index)
    if refers_back and snippets[index - 1].text not in labels:  # a question is also the heading of its reply
        before += f"{snippets[index - 1].labeled_text} "
    return before + _render_with_block(snippets, index), len(before)


def build_context_text(window: Window, passages: Sequence[Passage]) -> str | None:
    """Return the text of a window with the sentence before its snippet inserted, if both are prose of one section.

    Returns None otherwise, and if the window has that sentence already.
    """
    passage_index, index = window.position
    snippets = passages[passage_index].snippets
    snippet = snippets[index]
    if snippet.needs_previous or snippet.needs_subject or not has_previous(snippets, index):
        return None
    if not snippet.kind == snippets[index - 1].kind == "prose":
        return None
    return f"{window.text[: window.offset]}{snippets[index - 1].labeled_text} {window.text[window.offset :]}"


def _render_with_block(snippets: Sequence[Snippet], index: int) -> str:
    """Return the text of the snippet at ``index``, with the items or rows that it introduces."""
    text = snippets[index].labeled_text
    if not snippets[index].is_lead_in:
        return text
    _, last = find_required_span(snippets, index)
    block = [snippet.labeled_text for snippet in snippets[index + 1 : last + 1] if snippet.kind != "code"]
    return " ".join([text, "; ".join(block)]).strip()


#: The maximum number of windows that are read, those with the best scores by rules. Reading and embedding them is most
#: of the cost of an answer; with 12 of 16, as many answers to the questions of four sets are right as with 12 of 20.
_MAX_READ = 12
#: The weights of a snippet's score: of the logit of the reader and of the score by rules. They were fitted by
#: ``tools/fit_answer_reader.py`` on every second question of notes, three folders, everyday documents and four articles
#: of SQuAD 2.0.
_LOGIT_WEIGHT, _RULES_WEIGHT = 0.97, 0.75
#: A logistic model of the probability that the best snippet answers: the weight of the reader's logit, and a constant.
#: They were fitted by the same tool on the same questions. As a second signal, the confidence by rules has the weight
#: -0.01 there, so it is left out.
_CONFIDENCE_WEIGHT, _CONFIDENCE_CONSTANT = 0.71, -0.92
#: The logit of the confidence exceeds that by rules by at most this. The reader was trained on questions that fit their
#: passages, and the rules recognize the others: on three folders, their logit is at least -3.1 for questions with an
#: answer, and at most -4.6 for foreign ones.
_MAX_GAIN_OVER_RULES = 3.0
#: The weight of the coverage, next to the logit of the reader, and the lowest sum with which a sentence alone answers a
#: question that may be a chain of facts. With 3, 32 of 60 answers to HotpotQA are right, and 33 by the rules alone;
#: most long questions of SQuAD 2.0 are read.
_COVERAGE_WEIGHT, _MIN_SINGLE_SENTENCE_SCORE = 3.0, 3.0
#: The maximum logit of the confidence in what the reader cannot judge: sentences of several passages, which hold the
#: answer to 57 % of the questions of HotpotQA. The second maximum is for a sentence that settles a yes-no question: 14
#: of 14 verdicts on 36 questions that chose no rule were right.
_MAX_UNJUDGED_LOGIT, _MAX_VERDICT_LOGIT = 0.0, 2.5
#: The weights of a snippet without the form that the question asks for, in its score and in the confidence. Such a
#: snippet hardly ever answers. The weights are not fitted, because too few of the best snippets lack the form.
MISSING_KIND_SCORE, MISSING_KIND_LOGIT = -3.0, -2.0
#: The weight of a snippet with the opposite of a word of the question. It is three quarters of the logarithm of the
#: ratio of two shares of questions with such a sentence: of the near misses and of the other questions of SQuAD 2.0,
#: outside the held-out articles.
_CONTRARY_LOGIT = -2.1


class SnippetReading(NamedTuple):
    """A snippet that was read: its score, the reader's ``logit`` that it answers, and the ``rule_score``.

    ``answer`` has the words that answer, which are in the snippet, or in a title, heading or sentence before it.
    ``is_kind_missing`` is True if the snippet lacks the kind of thing that the question asks for, such as an amount of
    money. ``coverage`` is the fraction of the question's terms, by rarity, that the snippet has with its title and
    heading. ``is_contrary`` is True if it has the opposite of a word of the question instead.
    """

    position: SnippetPosition
    score: float
    logit: float
    rule_score: float
    is_kind_missing: bool
    answer: str
    coverage: float
    is_contrary: bool


class PassageReading(NamedTuple):
    """The passages of a question with the readings of their likeliest snippets, best first; never empty.

    ``rule_scores`` has the scores that rules gave to the likely snippets. ``logit_in_context`` is the mean of the
    reader's logits for the likeliest snippet with and without the sentence before it. It separates answers from near
    misses slightly better than the logit without that sentence. With version 1.1 of the weights, the area under the
    curve was 0.79 instead of 0.78 on 440 questions of SQuAD 2.0, and 0.93 instead of 0.92 on 130 questions about notes.
    ``verdict`` is the yes or no of the likeliest answer, if that sentence settles a yes-no question. ``may_be_chain``
    is True if the question may need several passages, because it is a chain of facts or a comparison.
    """

    passages: Sequence[Passage]
    readings: Sequence[SnippetReading]
    rule_scores: SnippetScores
    verdict: Verdict | None
    may_be_chain: bool
    logit_in_context: float

    @property
    def best(self) -> SnippetReading:
        """The reading of the likeliest answer."""
        return self.readings[0]

    @property
    def needs_several_passages(self) -> bool:
        """True if the question may be a chain of facts, and the best sentence scores too low to answer it alone.

        The score is the reader's logit plus the weighted coverage of the question.
        """
        score = self.best.logit + _COVERAGE_WEIGHT * self.best.coverage
        return self.may_be_chain and score < _MIN_SINGLE_SENTENCE_SCORE

    def compute_confidence_logit(self, rule_logit: float, unknown_logit: float) -> float:
        """Return the logit of the confidence in the likeliest answer, from the reader's logit and that of the rules.

        ``rule_logit`` is the logit of the confidence by rules, and ``unknown_logit`` the part of it for names that no
        document has. That part is added, because the reader does not notice that a sentence is about another name.
        A snippet that lacks what the question asks for, or is contrary to it, gets a lower logit. A verdict, and an
        answer that the reader cannot judge, have the logit of the rules, up to a maximum.
        """
        if self.verdict is not None:
            return min(rule_logit, _MAX_VERDICT_LOGIT)
        if self.needs_several_passages:
            return min(rule_logit, _MAX_UNJUDGED_LOGIT)
        logit = _CONFIDENCE_WEIGHT * self.logit_in_context + _CONFIDENCE_CONSTANT
        logit = min(logit, rule_logit + _MAX_GAIN_OVER_RULES)
        return (
            logit
            + unknown_logit
            + MISSING_KIND_LOGIT * self.best.is_kind_missing
            + _CONTRARY_LOGIT * self.best.is_contrary
        )


def read_passages(
    reader: AnswerReader, passages: Sequence[Passage], scorer: SnippetScorer, *, may_be_chain: bool
) -> PassageReading | None:
    """Read the likeliest snippets of the passages and return their readings, best first; None without a candidate.

    The reader gets the sentence that asks, as in training. The sentences before it only help to choose the snippets.
    ``may_be_chain`` is True if the question may need facts of several passages, so that no single snippet answers it.
    """
    question = find_asking_sentence(scorer.question)
    windows = select_windows(classify_question(question), passages, scorer)
    if not windows:
        return None
    rule_scores = scorer.score_snippets(passages, [window.position for window in windows])
    windows = sorted(windows, key=lambda window: (-rule_scores.scores[window.position], window.position))[:_MAX_READ]
    readings = []
    contrasts = find_contrasts(question)
    texts = [_separate_name_words(window.text, question) for window in windows]
    for window, reading in zip(windows, reader.read(question, texts), strict=True):
        rule_score = rule_scores.scores[window.position]
        readings.append(
            SnippetReading(
                window.position,
                score=_LOGIT_WEIGHT * reading.logit
                + _RULES_WEIGHT * rule_score
                + MISSING_KIND_SCORE * window.is_kind_missing,
                logit=reading.logit,
                rule_score=rule_score,
                is_kind_missing=window.is_kind_missing,
                answer=window.text[reading.start : reading.end],
                coverage=scorer.compute_rarity_fraction(scorer.list_question_terms(window.text)),
                is_contrary=is_contrary(contrasts, window.text),
            )
        )
    readings.sort(key=lambda reading: (-reading.score, reading.position))
    verdict = _find_verdict(passages, readings[0].position, scorer) if is_yes_no_question(question) else None
    best_window = next(window for window in windows if window.position == readings[0].position)
    logit_in_context = readings[0].logit
    if (context_text := build_context_text(best_window, passages)) is not None:
        logit_in_context = (logit_in_context + reader.read(question, [context_text])[0].logit) / 2
    return PassageReading(passages, readings, rule_scores, verdict, may_be_chain, logit_in_context)


def _separate_name_words(text: str, question: str) -> str:
    """Return the text of a window with spaces in the names of its fields, such as ``unit price: 5`` for ``unit_price``.

    The reader was trained on sentences. A name that the question has is unchanged. The length is unchanged.
    """
    return _FIELD_NAME_PATTERN.sub(lambda name: name[0] if name[0] in question else name[0].replace("_", " "), text)


def _find_verdict(passages: Sequence[Passage], position: SnippetPosition, scorer: SnippetScorer) -> Verdict | None:
    """Return yes or no if the snippet at ``position`` settles the question, otherwise None.

    Its title, heading and label, and the sentence that it refers to, can name its subject.
    """
    passage_index, index = position
    passage = passages[passage_index]
    snippet = passage.snippets[index]
    context = [passage.title or passage.document, passage.heading, snippet.heading, snippet.label or ""]
    if index and (snippet.needs_previous or snippet.needs_subject):
        previous = passage.snippets[index - 1]
        # A pronoun can stand for a name in the previous sentence; the rest of that sentence is another statement.
        context += [previous.text] if previous.is_question else find_names(previous.text)
    return decide_verdict(scorer.question, snippet.text, " ".join(context), scorer.stem)
