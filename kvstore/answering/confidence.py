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
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, islice, pairwise
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..models.embedder import is_english_only
from ..models.protocol import DEFAULT_EMBEDDER, MULTILINGUAL_EMBEDDER
from ..process.frozen_dataclass import frozen_dataclass
from ..retrieval.dense_search import compute_cosines
from ..retrieval.evidence import Hit
from ..retrieval.lexical_search import compute_term_rarity
from ..retrieval.query import Query
from ..structures.state import State
from ..text.everyday_words import NOUN, get_part_of_speech
from ..text.languages import detect_question_language, is_latin
from ..text.name_words import CALENDAR_WORDS
from ..text.normalize import fold_text
from ..text.patterns import compile_lazily
from ..text.question_words import load_question_words
from ..text.segmenters import Segmenter
from ..text.words import (
    FUNCTION_WORDS,
    WORD_PATTERN,
    QuestionStemmer,
    detect_word_language,
    get_function_words,
    is_bigram,
    is_unspaced,
    list_content_terms,
    list_content_words,
    list_informative_words,
    list_search_words,
    list_terms,
)
from .answer_types import FIXED_FORM_TYPES, detect_answer_type, find_missing_answer_type
from .confidence_weights import (
    OTHER_LANGUAGE_WEIGHTS,
    UNSPACED_WEIGHTS,
    WEIGHTS_BY_EMBEDDER,
    WORD_WEIGHTS,
    SignalWeights,
)
from .extractive import CODE_PATTERN
from .mismatches import blank_decimals, find_missing_numbers, is_question_contradicted, is_section_missing
from .passages import Passage, iter_spans
from .question_dates import spell_dates_like_question
from .question_form import find_topic
from .question_names import PassageWords, QuestionName, drop_crossing_bigrams, find_question_names

if TYPE_CHECKING:
    from .answer_reader.reading import ReaderResult
    from .extractive import ScoredPassages

#: The number of hits examined, and the number of best cosines averaged as ``nearby``.
_MAX_CHUNKS, _NUM_NEARBY = 8, 5
#: The length of a window of a passage in words, without function words.
_MAX_WINDOW_WORDS = 25
#: An abbreviation without vowels, such as "dvd", whose plural has another stem.
_ABBREVIATION_PATTERN = compile_lazily(r"[b-df-hj-np-tv-xz]{2,}")
#: Words of a question that only say what kind of quantity it asks for.
_HOW_MUCH_PATTERN = compile_lazily(
    r"\bhow (?:long|many|much|old|often|far|large|big|tall|high|fast|deep|wide)\b", re.IGNORECASE
)
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
#: The number of chunks from other texts assumed in addition to the store's, to smooth the rarity of terms.
BACKGROUND_CHUNKS = 1000


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


def compute_question_rarities(
    question: str, state: State, language: str | None, stem: Callable[[str], str]
) -> dict[str, float]:
    """Return the rarity in the store of each content term of a question.

    ``language`` is the language of the question (None: English), and ``stem`` its stemming function. Words that only
    say what is asked for ("how long") are omitted, unless there are no others. Rarities are smoothed by adding
    ``BACKGROUND_CHUNKS`` chunks from other texts: in a store of ten chunks, a word in five of them is not necessarily
    common.
    """
    chunks = state.counters.chunks + BACKGROUND_CHUNKS
    subject = _strip_question_words(question, language)
    subject = subject if WORD_PATTERN.search(subject) else question
    # The given language is used, because the rest of the question can be too short to show its language.
    is_english = language in (None, "english")
    words = [] if is_english else list_content_words(subject, get_function_words(language), stem)
    terms = sorted(set(map(stem, words) if words else list_content_terms(subject, stem)))
    counts = _count_chunks(question, terms, state, stem)
    return {term: compute_term_rarity(chunks, counts[term]) for term in terms}


def _strip_question_words(question: str, language: str | None) -> str:
    """Return the topic of a question, or the question if it has none, without words that ask, such as "how long".

    ``language`` is the language of the question (None: English).
    """
    subject = find_topic(question) or question
    vocabulary = load_question_words(language)  # None for English
    if vocabulary is not None:
        subject = vocabulary.remove_interrogatives(subject)
    return _HOW_MUCH_PATTERN.sub(" ", subject)


def _count_chunks(question: str, terms: Iterable[str], state: State, stem: Callable[[str], str]) -> dict[str, int]:
    """Return about how many chunks have each of the ``terms`` of a question.

    The number is a sum over the variants of a term: the stems of its word in each language of the documents, and the
    plural of an abbreviation. A chunk with several variants counts several times, which is rare.
    """
    variants: dict[str, list[str]] = {}
    if isinstance(stem, QuestionStemmer):  # the documents have several languages
        variants = {stem(word): stem.list_variants(word) for word in list_search_words(question, stem)}
    forms_by_term: dict[str, list[str]] = {}
    for term in terms:
        forms = variants.get(term, [term])
        plurals = [f"{form}s" for form in forms if _ABBREVIATION_PATTERN.fullmatch(form)]
        forms_by_term[term] = [*forms, *plurals]
    counts = state.postings.count_chunks_by_term(list(chain.from_iterable(forms_by_term.values())))
    return {term: sum(counts[form] for form in forms) for term, forms in forms_by_term.items()}


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
    texts = [spell_dates_like_question(text, query.question) for text in [*map(_join_texts, hits), *context]]
    passages = list(map(PassageWords, texts))
    language = detect_word_language(chain.from_iterable(passage.words for passage in passages))
    function_words = get_function_words(language)
    for passage in passages:
        passage.function_words = function_words
    question_language = detect_question_language(query.question, language)
    question_terms = _QuestionTerms.from_question(query, question_language)
    if not passages:
        return Confidence(0.0, missing=question_terms.missing_fraction, unknown=question_terms.unknown_names)
    is_english = question_language in (None, "english")
    stem = question_terms.stem
    if not is_english:  # names can have case endings, so their stems are compared
        passages = [
            replace(passage, text=blank_decimals(passage.text, query.question), stem=stem) for passage in passages
        ]
    # The name of a column says nothing about a row without a value in it.
    empty_terms = scored_passages.terms_of_empty_cells if reader_result is None else set()
    passage_terms = [
        [term for term in map(stem, list_content_words(passage.text, function_words, stem)) if term not in empty_terms]
        for passage in passages
    ]
    coverages = list(map(question_terms.compute_coverage, passage_terms))
    missing_names, unknown_names = _find_missing_names(
        question_terms, passages, scored_passages if reader_result is None else None
    )
    missing_numbers = find_missing_numbers(query.question, [passage.text for passage in passages])
    unknown_names += tuple(number for number in missing_numbers if not any(number in name for name in unknown_names))
    signals: dict[str, Any] = question_terms.compute_signals(passage_terms, max(coverages), missing_names)
    weights = _select_weights(query.state.settings.embedder, query.question, is_english=is_english)
    if hits and weights is not None and query.user_vector is None:
        signals |= _compute_cosine_signals(query, hits, scored_passages)
    else:
        weights = WORD_WEIGHTS
    logit = _compute_logit(weights, signals, reader_result, has_unknown_names=bool(unknown_names))
    answer_type = detect_answer_type(query.question, question_language)
    lacks_answer_type = reader_result is not None and reader_result.best.lacks_answer_type
    if reader_result is None and answer_type.name in _FIRST_PARAGRAPH_TYPES:
        lacks_form = answer_type.is_unlikely_in(scored_passages.first_paragraph)
    else:
        lacks_form = lacks_answer_type and answer_type.name in FIXED_FORM_TYPES
    if lacks_form or empty_terms:
        logit += _FORMLESS_LOGIT
    codes = set() if is_english or reader_result is not None else set(CODE_PATTERN.findall(query.question))
    if codes and codes.issubset(CODE_PATTERN.findall(scored_passages.first_paragraph)):
        logit += _CODE_LOGIT
    lacks_section = not has_section and is_section_missing(query, question_language, hits, context)
    is_about_something_else = bool(missing_numbers) or any(name.number_indexes for name in missing_names)
    is_about_something_else |= not codes.issubset(CODE_PATTERN.findall("\n".join(texts)))
    if reader_result is None and not is_english and not is_about_something_else:
        is_about_something_else = is_question_contradicted(
            query.question,
            question_language,
            texts=texts,
            passages=passages,
            first_text=scored_passages.first_passage_text,
            first_paragraph=scored_passages.first_paragraph,
            names=question_terms.names if answer_type.name in _NAMED_TYPES else (),
        )
        # The price or the person of a thing that no document mentions; German names can be ordinary nouns.
        is_about_something_else |= answer_type.name in _NAMED_TYPES and any(
            name.text in unknown_names and not (name.can_include_nouns or name.text.isdecimal())
            for name in missing_names
        )
    if reader_result is not None and not reader_result.needs_several_passages:
        best = reader_result.passages[reader_result.best.position.passage_index]
        is_about_something_else |= _lacks_rare_name(best, question_terms, query.state)
        is_about_something_else |= _is_in_other_section(reader_result, question_terms)
        nouns = _find_missing_nouns(query.question, reader_result, question_terms)
        logit += _MISSING_NOUN_LOGIT * min(len(nouns), _MAX_MISSING_NOUNS)
        if not reader_result.best.is_contrary:
            num_extra_terms = min(max(len(question_terms.rarities) - _MIN_EXTRA_TERMS, 0.0), _MAX_EXTRA_TERMS)
            # Details raise the probability of an answer to one half at most: they never make a likely answer surer.
            logit += min(_EXTRA_TERM_LOGIT * num_extra_terms, max(0.0, -logit))
    if lacks_section and not is_english:
        logit += _MISSING_SECTION_LOGIT
    elif lacks_section or is_about_something_else:
        logit += _OTHER_THING_LOGIT
    missing_form = ""
    # A row of a table is read with the names of its columns ("Phone: 23"), which its passage lacks.
    if reader_result is None or lacks_answer_type:
        rows = [snippet for passage in scored_passages.passages for snippet in passage.snippets if snippet.cell_text]
        missing_form = find_missing_answer_type(
            answer_type,
            passages,
            # A date in the file name or title of a hit does not answer. Its rows have the currency of their columns.
            [
                *("\n".join([hit.heading, hit.text, *(row.text for row in rows if row.hit == hit)]) for hit in hits),
                *context,
            ],
            coverages,
            names=question_terms.names,
            is_english=is_english,
        )
    confidence = Confidence(
        0.0 if missing_form else _to_probability(logit), unknown=unknown_names, formless=missing_form, **signals
    )
    if reader_result is None:
        return replace(confidence, missing_kind=lacks_form or bool(empty_terms))
    probability = _to_probability(reader_result.logit_in_context)
    return replace(confidence, reading=probability, missing_kind=lacks_answer_type)


def _lacks_rare_name(passage: Passage, question_terms: _QuestionTerms, state: State) -> bool:
    """True if the document of a passage has no word of a name in the question, and no words with the initials of "ICU".

    The name must be in few other chunks: that of a company is not repeated in each of its documents.
    """
    rare_names = {
        name: words
        for name, rarity in question_terms.names.items()
        if (words := set(name.words) - CALENDAR_WORDS - FUNCTION_WORDS)
        and rarity >= question_terms.max_rarity / 2 * len(name.words)
        and not (name.opens_sentence or name.is_token or any(map(str.isdigit, name.text)))
        and name.text not in question_terms.unknown_names
    }
    if not rare_names:
        return False
    content = state.documents.read_text(state.documents.get_by_key(passage.document).id).decode()
    text = fold_text(f"{passage.document} {passage.title or ''} {content}")

    def has_initials(name: QuestionName) -> bool:
        """True if the text has adjacent words with the initials of a name in capitals."""
        initials = r"\w*[\s-]+".join(map(re.escape, name.words[0]))
        return name.text.isupper() and re.search(rf"\b{initials}", text) is not None

    return any(not (any(word in text for word in words) or has_initials(name)) for name, words in rare_names.items())


def _find_missing_nouns(question: str, reader_result: ReaderResult, question_terms: _QuestionTerms) -> set[str]:
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


def _is_in_other_section(reader_result: ReaderResult, question_terms: _QuestionTerms) -> bool:
    """True if the question names the heading of a table other than that of the reader's best row: "Dogs", not "Cats".

    Both tables are in one document and have the same first column. The question has no word of the first heading, and
    the row no word of the second.
    """
    passages, (passage_index, index) = reader_result.passages, reader_result.best.position
    passage, row = passages[passage_index], passages[passage_index].snippets[index]
    own_text = " ".join([*passage.list_labels(index), row.labeled_text])
    own_terms, heading_terms = (set(list_terms(text, question_terms.stem)) for text in (own_text, row.heading))
    if row.kind != "table" or not heading_terms or heading_terms & question_terms.rarities.keys():
        return False
    column, _, _ = row.text.partition(": ")
    related_passages = (other for other in passages if other.document == passage.document)
    related_rows = chain.from_iterable(other.snippets for other in related_passages)
    headings = {other.heading for other in related_rows if other.text.startswith(f"{column}: ")}
    terms_of_headings = (list_terms(heading, question_terms.stem) for heading in headings)
    missing_terms = question_terms.rarities.keys() - own_terms
    return any(terms and missing_terms.issuperset(terms) for terms in terms_of_headings)


def _find_missing_names(
    question_terms: _QuestionTerms,
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


def _select_weights(embedder: str, question: str, *, is_english: bool) -> SignalWeights | None:
    """Return the weights for the cosines of an embedder, or None if its cosines are meaningless for the question.

    ``is_english`` is True if the question is in English or in an unknown language. The cosines of an unknown embedder
    are meaningless, because their scale is unknown. An embedder of English texts gives any two texts in another script
    a high cosine.
    """
    if is_english_only(embedder) and not is_latin(question):
        return None
    if embedder == MULTILINGUAL_EMBEDDER and is_unspaced(question):
        return UNSPACED_WEIGHTS
    if embedder == DEFAULT_EMBEDDER and not is_english:
        return OTHER_LANGUAGE_WEIGHTS
    return WEIGHTS_BY_EMBEDDER.get(embedder)


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


class _QuestionTerms(NamedTuple):
    """A question prepared for comparison with passages: its informative terms with their ``rarities``.

    ``pairs`` maps consecutive terms to the lower rarity of the two. ``names`` maps its names to the total rarity of
    their terms. ``total_rarity`` is the sum of ``rarities``, or 1 without terms, and ``max_rarity`` the rarity of a
    term that almost no chunk has. ``missing_fraction`` is the fraction of the terms, by rarity, that no chunk has, and
    ``unknown_names`` are the names with such a term. ``stem`` stems words.
    """

    rarities: Mapping[str, float]
    pairs: Mapping[tuple[str, str], float]
    names: Mapping[QuestionName, float]
    total_rarity: float
    max_rarity: float
    missing_fraction: float
    unknown_names: tuple[str, ...]
    stem: Callable[[str], str]

    @classmethod
    def from_question(cls, query: Query, language: str | None) -> _QuestionTerms:
        """Parse the question of a query in a language (None: English), and look up how rare its terms are in the store.

        The rarity of a pair of consecutive terms is the lower of their rarities, and the rarity of a name is the sum of
        the rarities of its words. A name is unknown, and a term is missing, if no chunk of the store has it.
        """
        question, state, stem = query.question, query.state, query.stem
        function_words = get_function_words(language)
        consecutive_terms = _list_consecutive_terms(query, language)
        question_terms = sorted(set(consecutive_terms or list_content_terms(question, stem)))
        name_terms = {
            name: [stem(word) for word in name.words if word not in function_words]
            for name in find_question_names(question, language)
        }
        counts = _count_chunks(question, chain(question_terms, *name_terms.values()), state, stem)
        chunks = state.counters.chunks + BACKGROUND_CHUNKS
        term_rarities = {term: compute_term_rarity(chunks, count) for term, count in counts.items()}
        rarities = {term: term_rarities[term] * _compute_size_in_words(term, stem) for term in question_terms}
        total_rarity = math.fsum(rarities.values()) or 1.0  # not 0, because it is a divisor
        missing_rarity = math.fsum(rarity for term, rarity in rarities.items() if not counts[term])
        return cls(
            rarities,
            pairs={pair: min(rarities[term] for term in pair) for pair in sorted(set(pairwise(consecutive_terms)))},
            names={name: math.fsum(term_rarities[term] for term in terms) for name, terms in name_terms.items()},
            total_rarity=total_rarity,
            max_rarity=math.log(chunks),
            missing_fraction=missing_rarity / total_rarity,
            unknown_names=tuple(
                name.text for name, terms in name_terms.items() if not all(counts[term] for term in terms)
            ),
            stem=stem,
        )

    def compute_coverage(self, terms: Sequence[str]) -> float:
        """Return the rarity of the question's terms in the best window of a passage, divided by ``total_rarity``.

        ``terms`` are the terms of the passage in order. A window is consecutive terms of at most ``_MAX_WINDOW_WORDS``
        words.
        """
        word_offsets = accumulate(_compute_size_in_words(term, self.stem) for term in terms)
        matches = [(offset, term) for offset, term in zip(word_offsets, terms, strict=True) if term in self.rarities]
        max_covered_rarity, first, covered_rarity = 0.0, 0, 0.0
        counts = dict.fromkeys(self.rarities, 0)  # of the matches in the window
        for offset, term in matches:
            covered_rarity += 0 if counts[term] else self.rarities[term]
            counts[term] += 1
            while offset - matches[first][0] > _MAX_WINDOW_WORDS:  # move the start of the window
                _, first_term = matches[first]
                counts[first_term] -= 1
                covered_rarity -= 0 if counts[first_term] else self.rarities[first_term]
                first += 1
            max_covered_rarity = max(max_covered_rarity, covered_rarity)
        return min(1.0, max_covered_rarity / self.total_rarity)

    def compute_signals(
        self, passage_terms: Sequence[Sequence[str]], coverage: float, missing_names: Sequence[QuestionName]
    ) -> dict[str, float]:
        """Return the signals of a :class:`Confidence` that need no vectors, by name.

        ``passage_terms`` are the terms (stems) of each passage. ``coverage`` is the fraction (0 to 1) of the question
        that the best passage covers. ``missing_names`` are the names of the question that occur in no passage.
        """
        missing_rarity = math.fsum(self.names[name] for name in missing_names)
        max_missing_rarity = max(self.total_rarity, math.fsum(self.names.values()))
        num_tokens = sum(name.is_token for name in self.names)
        num_missing_tokens = sum(name.is_token for name in missing_names)
        # The total rarity of the pairs of consecutive terms that the question shares with a passage, for the best one.
        phrase_rarity = max(
            math.fsum(self.pairs[pair] for pair in self.pairs.keys() & set(pairwise(terms))) for terms in passage_terms
        )
        return {
            "coverage": coverage,
            # High for two rare terms, and low for one common term: the unit is two terms of the greatest rarity.
            "amount": 1 - math.exp(-coverage * self.total_rarity / (2 * self.max_rarity)),
            "phrases": 1 - math.exp(-phrase_rarity / self.max_rarity),
            "unnamed": missing_rarity / max_missing_rarity if missing_rarity else 0.0,
            "lacking": num_missing_tokens / num_tokens if num_tokens else 0.0,
            "missing": self.missing_fraction,
        }


def _list_consecutive_terms(query: Query, language: str | None) -> list[str]:
    """Return the informative terms of the question of a query in a language (None: English), in order.

    Terms of a script without spaces are bigrams of characters; those that cross the boundary of two words are omitted.
    """
    stem = query.stem
    subject = _strip_question_words(query.question, language)
    terms = list(map(stem, list_informative_words(subject, get_function_words(language), stem)))
    bigrams = list(filter(is_bigram, terms))
    if bigrams and not isinstance(stem, Segmenter):  # a segmenter yields words instead of bigrams
        return drop_crossing_bigrams(terms, query.state.postings.count_chunks_by_term(bigrams))
    return terms


def _compute_size_in_words(term: str, stem: Callable[[str], str]) -> float:
    """Return the size of a term in words: 0.5 for a bigram of characters, because neighboring bigrams overlap.

    With a segmenter as the stemmer, every term is a word.
    """
    return 0.5 if is_bigram(term) and not isinstance(stem, Segmenter) else 1.0
