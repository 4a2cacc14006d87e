"""The confidence: the estimated probability that a store answers a question. A logistic model computes it from
*signals*, such as the *coverage* of the question by a passage. A *passage* is a hit with title and headings. A *term*
is the stem of a word; its *rarity* is its IDF. A *logit* is log-odds.

In: a question, the hits and their state. Out: a :class:`Confidence`: a number from 0 to 1 and its signals, most of them
from 0 to 1 as well, so that values are comparable between a store of ten documents and one of a million. The model is a
weighted sum, mapped by 1 / (1 + e^-x). ``tools/fit_confidence.py`` fitted the weights by asking several stores their
own questions and those of other stores, both kinds with equal total weight. A value of 0.5 therefore means "as likely
answered as not" if half of the questions are answered.

The number of question words in the evidence does not distinguish a store with the answer from one with similar texts on
other subjects. Two signals do: whether *one window of a passage* has the words, and whether a passage has the
question's names as they are written (see :mod:`.question_names`). Among notes on the same subject, the similarity of
the best *sentence* distinguishes the one that answers. The similarity of a chunk says little if the chunk covers
several subjects.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..models.embedder import is_english_only
from ..models.protocol import DEFAULT_EMBEDDER, MULTILINGUAL_EMBEDDER
from ..process.frozen_dataclass import frozen_dataclass
from ..retrieval.dense_search import compute_cosines
from ..retrieval.evidence import Hit
from ..retrieval.query import Query
from ..text.everyday_words import NOUN, get_part_of_speech
from ..text.languages import detect_question_language, is_latin
from ..text.patterns import compile_lazily
from ..text.words import (
    WORD_PATTERN,
    detect_word_language,
    get_function_words,
    is_unspaced,
    list_content_words,
    list_terms,
)
from .answer_types import FIXED_FORM_TYPES, AnswerType, detect_answer_type, find_missing_answer_type
from .confidence_weights import (
    OTHER_LANGUAGE_WEIGHTS,
    UNSPACED_WEIGHTS,
    WEIGHTS_BY_EMBEDDER,
    WORD_WEIGHTS,
    SignalWeights,
)
from .mismatches import (
    blank_decimals,
    find_missing_numbers,
    is_in_other_section,
    is_question_contradicted,
    is_section_missing,
    lacks_rare_name,
)
from .passages import iter_spans
from .question_dates import spell_dates_like_question
from .question_names import PassageWords, QuestionName
from .question_terms import QuestionTerms
from .snippet_scoring import CODE_PATTERN

if TYPE_CHECKING:
    from .answer_reader.reading import ReaderResult
    from .extractive import ScoredPassages

#: The number of hits examined, and the number of best cosines averaged as ``nearby``.
_MAX_CHUNKS, _NUM_NEARBY = 8, 5
#: The end of the key of a record in a file: the number of its row.
_ROW_NUMBER_PATTERN = compile_lazily(r":\d+\Z")
#: The amount added to the logit if the best sentence lacks a form that can be recognized, such as the form of an
#: address, or if the best row has no value in the column that the question names.
_FORMLESS_LOGIT = -4.0
#: The amount added to the logit if the passages are about another thing than the question names by a number, a date or
#: a name: no passage has "Haus 7", "section 7" or the year, or the first one has another weekday or lacks the person,
#: or the document of the sentence that the answer reader chose has no word of the name, or its section is another one.
_OTHER_THING_LOGIT = -5.0
#: The amount for each further term of a long question, because the answer reader lowers its logit for each detail that
#: a sentence lacks. And the amount for each noun that other chunks have, but not the passage of the best sentence,
#: which is often what the question asks for. With both, 11 more of 347 right answers about twelve folders are given,
#: and 2 fewer of 243 near misses are answered.
_EXTRA_TERM_LOGIT, _MIN_EXTRA_TERMS, _MAX_EXTRA_TERMS = 0.35, 4.5, 3
_MISSING_NOUN_LOGIT, _MAX_MISSING_NOUNS = -0.2, 3
#: Stems of nouns that only say what kind of answer a question asks for.
_KIND_TERMS = frozenset("amount cost date day fee hour month name number peopl person phone price time year".split())
#: The amount for a missing section in another language than English, in which no answer reader judges the passages.
_MISSING_SECTION_LOGIT = -8.0
#: The amount added to the logit if the first paragraph of an answer has the codes (*E05*) of a question that is not in
#: English. A text about a code rarely has other words of the question.
_CODE_LOGIT = 4.0
#: The types whose form the paragraph that is displayed first must have in a language other than English, and those for
#: which its passage must have the name of the question if another passage has it.
_NAMED_TYPES = FIXED_FORM_TYPES | {"money", "person"}
_FIRST_PARAGRAPH_TYPES = _NAMED_TYPES | {"time of day"}


@frozen_dataclass
class Confidence:
    """A confidence ``value``, and the signals from which it was computed, all from 0 to 1.

    ``similarity`` is the best cosine between the question and a sentence with its title and heading. ``nearby`` is the
    mean of the five best cosines of hits. Both are None if the scale of the embedder's cosines is unknown.

    ``coverage`` is the fraction of the question's informative terms, weighted by rarity, in the best window (of
    consecutive words) of a passage. ``amount`` is the total weight of the terms in that window, which is low for few or
    common terms. ``phrases`` is the fraction of adjacent terms in the question that are also adjacent in a passage.

    ``unnamed`` is the fraction of names that occur in no passage with the same spelling. ``lacking`` is the fraction of
    technical tokens that occur in no passage, and ``missing`` the fraction of terms that occur in no chunk of the
    store. ``unknown`` lists the names with a term that occurs in no chunk.

    ``missing_kind`` is True if the best sentence lacks what the question asks for (such as an amount of money). If the
    answer reader read the passages, ``reading`` is its estimate of the probability that this sentence answers the
    question. ``value`` is then the probability that it does.

    ``formless`` is what the question asks for (such as a telephone number) if its form is recognizable and no
    passage contains it. ``overview`` is True if the question asks for an overview and the hits are one; the other
    signals then do not matter.
    """

    value: float
    similarity: float | None = None
    nearby: float | None = None
    coverage: float = 0.0
    amount: float = 0.0
    phrases: float = 0.0
    unnamed: float = 0.0
    lacking: float = 0.0
    missing: float = 0.0
    unknown: tuple[str, ...] = ()
    overview: bool = False
    formless: str = ""
    reading: float | None = None
    missing_kind: bool = False

    def __str__(self) -> str:
        """Return the value and the signals that decided it as one line, for EXPLAIN.

        An overview, and a form of answer that no passage has (``formless``), each decide alone.
        """
        if self.overview:
            return f"{self.value:.2f}: the question asks for an overview, and the hits are one"
        if self.formless:
            return f"{self.value:.2f}: no passage contains any {self.formless}"
        cosines = (("similarity", self.similarity), ("nearby", self.nearby))
        similarities = "".join(f"{name} {value:.2f}, " for name, value in cosines if value is not None)
        reading = "" if self.reading is None else f"reading {self.reading:.2f}, "
        similarities = f"{reading}{'wrong kind, ' if self.missing_kind else ''}{similarities}"
        signals = f"{similarities}coverage {self.coverage:.2f}, amount {self.amount:.2f}, phrases {self.phrases:.2f}"
        names = f" ({', '.join(self.unknown)})" if self.unknown else ""
        lacking = f", lacking {self.lacking:.2f}" if self.lacking else ""
        return f"{self.value:.2f}: {signals}, unnamed {self.unnamed:.2f}{lacking}, missing {self.missing:.2f}{names}"


#: The confidence of an overview, which is given only to a question that asks for one.
OVERVIEW_CONFIDENCE = Confidence(1.0, coverage=1.0, amount=1.0, phrases=1.0, overview=True)


def estimate_confidence(
    query: Query,
    hits: Sequence[Hit],
    context: Sequence[str],
    scored_passages: ScoredPassages,
    reader_result: ReaderResult | None,
    *,
    has_section: bool,
) -> Confidence:
    """Return the estimated probability that the hits answer the question of a query, and the signals behind it.

    It is 0 if the question asks for something with a recognizable form, such as a telephone number, that no passage
    has. ``context`` are lines of evidence in addition to the hits. ``scored_passages`` are the passages around the
    hits; their sentences are scored only if needed. ``reader_result`` is the result of the answer reader (None: it did
    not read the passages). ``has_section`` is True if the hits are from the section that the question names.
    """
    hits = hits[:_MAX_CHUNKS]
    if not (hits or context):
        terms = QuestionTerms.from_question(query, detect_question_language(query.question))
        return Confidence(0.0, missing=terms.missing_fraction, unknown=terms.unknown_names)
    comparison = _compare(query, hits, context, scored_passages if reader_result is None else None)
    terms, passage_terms = comparison.question_terms, comparison.passage_terms
    coverages = list(map(terms.compute_coverage, passage_terms))
    signals: dict[str, Any] = terms.compute_signals(passage_terms, max(coverages), comparison.missing_names)
    weights = _select_weights(query, hits, is_english=comparison.is_english)
    if weights is not WORD_WEIGHTS:
        signals |= _compute_cosine_signals(query, hits, scored_passages)
    logit = _compute_logit(weights, signals, reader_result, has_unknown_names=bool(comparison.unknown_names))
    if reader_result is None:
        judgment = _judge_by_rules(logit, comparison, scored_passages)
    else:
        judgment = _judge_by_reader(logit, comparison, reader_result)
    logit = judgment.logit
    lacks_section = not has_section and is_section_missing(query, comparison.language, hits, context)
    if lacks_section and not comparison.is_english:
        logit += _MISSING_SECTION_LOGIT
    elif lacks_section or judgment.is_about_other_thing:
        logit += _OTHER_THING_LOGIT
    missing_form = ""
    # A row of a table is read with the names of its columns ("Phone: 23"), which its passage lacks.
    if reader_result is None or judgment.lacks_answer:
        texts, answer_type = [*_list_answering_texts(hits, scored_passages), *context], comparison.answer_type
        missing_form = find_missing_answer_type(
            answer_type, comparison.passages, texts, coverages, names=terms.names, is_english=comparison.is_english
        )
    return Confidence(
        0.0 if missing_form else _to_probability(logit),
        unknown=comparison.unknown_names,
        formless=missing_form,
        reading=None if reader_result is None else _to_probability(reader_result.logit_in_context),
        missing_kind=judgment.lacks_answer,
        **signals,
    )


class _PassageComparison(NamedTuple):
    """A question compared with the passages for it: ``texts`` are the passages, ``passages`` their words, and
    ``passage_terms`` the terms of each passage.

    ``language`` is the language of the question (None: English), and ``answer_type`` what it asks for.
    ``missing_names`` are the names of the question that no passage has. ``lacks_number`` is True if no passage has a
    reference number of the question, or the number of a name ("Haus 7"). ``unknown_names`` are the names that no chunk
    of the store has, and the missing reference numbers.
    """

    query: Query
    language: str | None
    question_terms: QuestionTerms
    answer_type: AnswerType
    texts: Sequence[str]
    passages: Sequence[PassageWords]
    passage_terms: Sequence[Sequence[str]]
    missing_names: Sequence[QuestionName]
    lacks_number: bool
    unknown_names: tuple[str, ...]

    @property
    def is_english(self) -> bool:
        """True if the question is in English or in an unknown language."""
        return self.language in (None, "english")


def _compare(
    query: Query, hits: Sequence[Hit], context: Sequence[str], rule_passages: ScoredPassages | None
) -> _PassageComparison:
    """Compare the question of a query with the hits and the lines of ``context``, of which there must be one.

    ``rule_passages`` are the passages around the hits if rules choose the sentences (None: the answer reader does).
    """
    question = query.question
    texts = [spell_dates_like_question(text, question) for text in [*map(_join_texts, hits), *context]]
    passages = list(map(PassageWords, texts))
    passage_language = detect_word_language(chain.from_iterable(passage.words for passage in passages))
    function_words = get_function_words(passage_language)
    for passage in passages:
        passage.function_words = function_words
    language = detect_question_language(question, passage_language)
    terms = QuestionTerms.from_question(query, language)
    if language not in (None, "english"):  # names can have case endings, so their stems are compared
        passages = [replace(words, text=blank_decimals(words.text, question), stem=terms.stem) for words in passages]
    # The name of a column says nothing about a row without a value in it.
    empty_terms = set() if rule_passages is None else rule_passages.terms_of_empty_cells
    words_by_passage = [list_content_words(passage.text, function_words, terms.stem) for passage in passages]
    passage_terms = [[term for term in map(terms.stem, words) if term not in empty_terms] for words in words_by_passage]
    missing_names, unknown_names = _find_missing_names(terms, passages, rule_passages)
    missing_numbers = find_missing_numbers(question, [passage.text for passage in passages])
    unknown_numbers = [number for number in missing_numbers if not any(number in name for name in unknown_names)]
    return _PassageComparison(
        query,
        language,
        terms,
        detect_answer_type(question, language),
        texts,
        passages,
        passage_terms,
        missing_names,
        bool(missing_numbers) or any(name.number_indexes for name in missing_names),
        (*unknown_names, *unknown_numbers),
    )


class _Judgment(NamedTuple):
    """The judgment of the passages for a question: the ``logit`` of the confidence, and two reasons to lower it.

    ``lacks_answer`` is True if the best sentence lacks what the question asks for, such as an amount of money.
    ``is_about_other_thing`` is True if the passages are about another thing than the question names.
    """

    logit: float
    lacks_answer: bool
    is_about_other_thing: bool


def _judge_by_rules(logit: float, comparison: _PassageComparison, scored_passages: ScoredPassages) -> _Judgment:
    """Judge the passages by rules, because the answer reader did not read them.

    ``logit`` is the weighted sum of the signals.
    """
    answer_type = comparison.answer_type
    lacks_answer = bool(scored_passages.terms_of_empty_cells) or (
        answer_type.name in _FIRST_PARAGRAPH_TYPES and answer_type.is_unlikely_in(scored_passages.first_paragraph)
    )
    if lacks_answer:
        logit += _FORMLESS_LOGIT
    if comparison.is_english:
        return _Judgment(logit, lacks_answer, comparison.lacks_number)
    codes = set(CODE_PATTERN.findall(comparison.query.question))
    if codes and codes.issubset(CODE_PATTERN.findall(scored_passages.first_paragraph)):
        logit += _CODE_LOGIT
    is_about_other_thing = (
        comparison.lacks_number
        or not codes.issubset(CODE_PATTERN.findall("\n".join(comparison.texts)))
        or is_question_contradicted(
            comparison.query.question,
            comparison.language,
            texts=comparison.texts,
            passages=comparison.passages,
            first_text=scored_passages.first_passage_text,
            first_paragraph=scored_passages.first_paragraph,
            names=comparison.question_terms.names if answer_type.name in _NAMED_TYPES else (),
        )
        or _asks_about_unknown_name(comparison)
    )
    return _Judgment(logit, lacks_answer, is_about_other_thing)


def _asks_about_unknown_name(comparison: _PassageComparison) -> bool:
    """True if a question asks for the price or the person of a thing that no document mentions.

    German names do not count, because they can be ordinary nouns.
    """
    return comparison.answer_type.name in _NAMED_TYPES and any(
        name.text in comparison.unknown_names and not (name.can_include_nouns or name.text.isdecimal())
        for name in comparison.missing_names
    )


def _judge_by_reader(logit: float, comparison: _PassageComparison, reader_result: ReaderResult) -> _Judgment:
    """Judge the passages by the sentence that the answer reader chose. ``logit`` includes the reader's own logit."""
    best, terms = reader_result.best, comparison.question_terms
    is_about_other_thing = comparison.lacks_number
    if best.lacks_answer_type and comparison.answer_type.name in FIXED_FORM_TYPES:
        logit += _FORMLESS_LOGIT
    if not reader_result.needs_several_passages:
        passage = reader_result.passages[best.position.passage_index]
        is_about_other_thing = (
            is_about_other_thing
            or lacks_rare_name(passage, terms, comparison.query)
            or is_in_other_section(reader_result, terms)
        )
        nouns = _find_missing_nouns(comparison.query.question, reader_result, terms)
        logit += _MISSING_NOUN_LOGIT * min(len(nouns), _MAX_MISSING_NOUNS)
        if not best.is_contrary:
            num_extra_terms = min(max(len(terms.rarities) - _MIN_EXTRA_TERMS, 0.0), _MAX_EXTRA_TERMS)
            # Details raise the probability of an answer to one half at most: they never make a likely answer surer.
            logit += min(_EXTRA_TERM_LOGIT * num_extra_terms, max(0.0, -logit))
    return _Judgment(logit, best.lacks_answer_type, is_about_other_thing)


def _list_answering_texts(hits: Sequence[Hit], scored_passages: ScoredPassages) -> list[str]:
    """Return for each hit the texts in it that can answer: its headings, its text, and its rows as displayed.

    A date in the file name or the title of a hit does not answer. Its rows have the currency of their columns.
    """
    rows = [snippet for passage in scored_passages.passages for snippet in passage.snippets if snippet.cell_text]
    return ["\n".join([hit.heading, hit.text, *(row.text for row in rows if row.hit == hit)]) for hit in hits]


def _find_missing_nouns(question: str, reader_result: ReaderResult, question_terms: QuestionTerms) -> set[str]:
    """Return the nouns of a question (as stems) that occur in the store, but not in the passage of the best sentence.

    A noun that occurs nowhere can be another word for what the passage says. Only the last sentence of the question
    asks, and nouns such as "amount" only say what kind of answer it asks for.
    """
    passage_index, index = reader_result.best.position
    passage = reader_result.passages[passage_index]
    labels = [passage.document, *passage.list_labels(index)]
    text = " ".join([*labels, passage.heading, passage.text, reader_result.best.compared_text])
    stem, max_rarity = question_terms.stem, question_terms.max_rarity
    terms = {term for term, rarity in question_terms.rarities.items() if rarity <= max_rarity}  # those that chunks have
    words = WORD_PATTERN.findall(question.rpartition(". ")[2])
    nouns = {stem(word.lower()) for word in words if get_part_of_speech(word) in (NOUN, None)}
    return (terms & nouns) - _KIND_TERMS - set(list_terms(text, stem))


def _find_missing_names(
    question_terms: QuestionTerms,
    passages: Sequence[PassageWords],
    scored_passages: ScoredPassages | None,
) -> tuple[list[QuestionName], tuple[str, ...]]:
    """Return the names of a question that no passage has, and the texts of those among them that no chunk has.

    A name with a number can also be in a table row of ``scored_passages`` (None: rows do not count).
    """
    missing_names = [name for name in question_terms.names if not any(passage.has_name(name) for passage in passages)]
    if scored_passages is not None and any(name.number_indexes for name in missing_names):
        # A displayed row has the name of a column before its number: "Haus: 7".
        snippets = chain.from_iterable(passage.snippets for passage in scored_passages.passages)
        text = "\n".join(snippet.text for snippet in snippets if snippet.cell_text)
        rows = replace(passages[0], text=text, stem=question_terms.stem)
        missing_names = [name for name in missing_names if not rows.has_name(name)]
    # If the passages have "Frau Blum" of "Frau Blum Geburtstag", only its last noun can be unknown, and nothing else of
    # the name is missing.
    names_of_persons = {name for name in missing_names if any(passage.has_person(name) for passage in passages)}
    # A name with a word that no chunk has can still be in a file name, so only missing names are unknown.
    unknown_names = tuple(
        name.forms[-1] if name in names_of_persons else name.text
        for name in missing_names
        if name.text in question_terms.unknown_names
    )
    missing_names = [
        name for name in missing_names if name not in names_of_persons or name.text in question_terms.unknown_names
    ]
    return missing_names, unknown_names


def _join_texts(hit: Hit) -> str:
    """Return the file name, the title, the headings and the text of a hit, without the number of a row in the file."""
    file_name = _ROW_NUMBER_PATTERN.sub("", PurePosixPath(hit.document).name)
    return f"{file_name} {hit.title or ''} {hit.heading} {hit.text}"


def _compute_logit(
    weights: SignalWeights, signals: Mapping[str, float], reader_result: ReaderResult | None, *, has_unknown_names: bool
) -> float:
    """Return the logit of the confidence, from the weighted signals and the answer reader's result, if any.

    ``signals`` has the values of the signals that ``weights`` names. ``reader_result`` is None if the answer reader did
    not read the passages. ``has_unknown_names`` is True if the question has a name that no document has.
    """
    # The weight "constant" has no signal.
    rule_logit = math.fsum(weight * signals.get(name, 1.0) for name, weight in weights.items())
    if reader_result is None:
        return rule_logit
    # The penalty for names ("unnamed") and technical tokens ("lacking") that occur in no passage. It applies only if a
    # name occurs in no document.
    name_logit = weights["unnamed"] * signals["unnamed"] + weights["lacking"] * signals["lacking"]
    unknown_logit = name_logit if has_unknown_names else 0.0
    return reader_result.compute_confidence_logit(rule_logit, unknown_logit, signals.get("similarity"))


def _select_weights(query: Query, hits: Sequence[Hit], *, is_english: bool) -> SignalWeights:
    """Return the weights of the signals: ``WORD_WEIGHTS`` if the cosines of the hits are meaningless or missing.

    ``is_english`` is True if the question is in English or in an unknown language. The cosines of an unknown embedder
    are meaningless, because their scale is unknown, and so are those of a vector that the user passed. An embedder of
    English texts gives any two texts in another script a high cosine.
    """
    question, embedder = query.question, query.state.settings.embedder
    if not hits or query.user_vector is not None or (is_english_only(embedder) and not is_latin(question)):
        return WORD_WEIGHTS
    if embedder == MULTILINGUAL_EMBEDDER and is_unspaced(question):
        return UNSPACED_WEIGHTS
    if embedder == DEFAULT_EMBEDDER and not is_english:
        return OTHER_LANGUAGE_WEIGHTS
    return WEIGHTS_BY_EMBEDDER.get(embedder, WORD_WEIGHTS)


def _to_probability(logit: float) -> float:
    """Convert a logit to a probability by the logistic function."""
    return 1 / (1 + math.exp(-logit))


def _compute_cosine_signals(query: Query, hits: Sequence[Hit], scored_passages: ScoredPassages) -> dict[str, float]:
    """Return the signals ``similarity`` and ``nearby`` of a :class:`Confidence`, by name. There must be a hit.

    The cosine of a hit is the highest of its chunks, at least 0. ``similarity`` is the cosine of the best sentence of
    ``scored_passages`` or, if no sentence can be chosen, of the best hit.
    """
    hit_chunks = [list(dict.fromkeys(chunk for chunk, _ in iter_spans(hit, query.state))) for hit in hits]
    chunk_ids = np.array(list(chain.from_iterable(hit_chunks)), np.uint64)
    # One call for the chunks of all hits, whose cosines are then taken from the iterator hit by hit.
    cosines = iter(compute_cosines(query.state, chunk_ids, query.vector).tolist())
    hit_cosines = [max(0.0, *islice(cosines, len(chunks))) for chunks in hit_chunks]
    best_cosines = sorted(hit_cosines, reverse=True)[:_NUM_NEARBY]
    return {
        "similarity": scored_passages.snippet_scores.best_cosine or best_cosines[0],
        "nearby": math.fsum(best_cosines) / len(best_cosines),
    }
