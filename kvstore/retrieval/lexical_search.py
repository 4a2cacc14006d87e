"""Lexical search: BM25 over the posting lists (Robertson and Zaragoza 2009, with the non-negative idf of Lucene). A
*term* is the stem of a word; its *rarity* is its idf. A *posting list* has the chunks with a term, in *blocks*. A
*request* (ReadRequest) reads from a *state*, a snapshot of the store.

In: a question. Out: rankings, and the further scores that a strategy requests. A strategy searches in two rounds of
read requests: first for the number of chunks of each term, then for the best chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kvstore_cext.word_scores import WordScores

from ..structures.counters import Counters
from ..structures.documents.allowed import AllowedDocuments
from ..structures.postings import make_corruption_error
from ..structures.ranking import Ranking, best, list_chunk_ids
from ..structures.read_requests import Ids, ReadRequest, Vector
from ..structures.state import State
from ..text.words import QuestionStemmer, find_technical_tokens, list_content_terms, segment_words
from .query import Query

#: Parameters of BM25: how much repetitions of a word count, and how strongly long chunks are penalized.
K1 = 1.2
B = 0.75
#: The posting list of a term with more blocks is read in part: only the blocks that can change the result.
_MAX_WHOLE_BLOCKS = 512

Scores = npt.NDArray[np.float64]


def compute_term_rarity(num_chunks: int, num_containing: int) -> float:
    """Return the rarity (idf) of a term that ``num_containing`` of ``num_chunks`` chunks contain; never negative."""
    return math.log(1 + (num_chunks - num_containing + 0.5) / (num_containing + 0.5))


class CompoundTerm(NamedTuple):
    """The term of a word with underscores (``max_size``), and the terms of its parts (``max`` and ``size``)."""

    whole_term: str
    part_terms: list[str]


class QuestionWords(NamedTuple):
    """The words in a question to search for, as terms. ``terms`` are always searched. ``compounds`` are words with
    underscores (``max_size``), whose parts are searched only if no chunk contains the whole word. ``variants`` are the
    terms of the same words in documents of other languages.
    """

    terms: list[str]
    compounds: list[CompoundTerm]
    variants: Sequence[str] = ()

    def list_lookup_terms(self, counts: Mapping[str, int]) -> list[str]:
        """Return the terms to search for, without duplicates. ``counts`` has the number of chunks with each term.

        A word with underscores is also searched by its parts if no chunk contains it as one term.
        """
        part_terms = (
            part for compound in self.compounds if not counts[compound.whole_term] for part in compound.part_terms
        )
        return list(dict.fromkeys((*self.terms, *part_terms, *self.variants)))


def parse_question_words(text: str, stem: Callable[[str], str]) -> QuestionWords:
    """Return the search terms in a question: its stemmed words, and technical tokens such as ``--force``.

    The result also has the parts of words with underscores and, in a store of several languages, the stems of each word
    in the other languages. ``stem`` maps a word to its stem.
    """
    compounds = [
        CompoundTerm(stem(word), [stem(part) for part in word.split("_") if part])
        for word in segment_words(text)
        if "_" in word and word.strip("_")
    ]
    terms = [*find_technical_tokens(text), *list_content_terms(text, stem)]
    if not isinstance(stem, QuestionStemmer):
        return QuestionWords(terms, compounds)
    words = list_content_terms(text, str)  # not stemmed
    return QuestionWords(terms, compounds, [variant for word in words for variant in stem.list_variants(word)])


class TermWeights(NamedTuple):
    """The parameters of a BM25 search.

    ``rarities`` maps the terms that occur in some chunk to their idf. ``average_length`` is the average length of the
    chunks in words.
    """

    rarities: dict[str, float]
    average_length: float
    k1: float = K1
    b: float = B


def build_term_weights(
    counters: Counters, terms: Iterable[str], counts: Mapping[str, int], k1: float = K1, b: float = B
) -> TermWeights:
    """Return the parameters of a BM25 search for those ``terms`` that at least one chunk contains.

    ``counts`` has the number of chunks that contain each term. ``k1`` and ``b`` are the parameters of BM25.
    """
    rarities = {term: compute_term_rarity(counters.chunks, counts[term]) for term in terms if counts[term]}
    return TermWeights(rarities, counters.words / max(1, counters.chunks), k1, b)


def read_term_weights(state: State, terms: Sequence[str]) -> TermWeights:
    """Return the BM25 parameters for ``terms``, without those that no chunk contains, read from the state."""
    return build_term_weights(state.counters, terms, state.postings.count_chunks_by_term(terms))


def find_best_by_words(
    state: State, weights: TermWeights, top: int, allowed: AllowedDocuments | None = None
) -> tuple[Ids, Scores]:
    """Return the ids, ascending, and the scores of the ``top`` chunks by BM25 and of all that tie with the last.

    Only chunks of ``allowed`` documents (None: of all) that have at least one of the terms are returned. Raises
    CorruptionError if a posting list is damaged.

    The rarest term is read first. From some term on, a chunk without any of the terms before it can no longer reach the
    top. The posting lists of the remaining terms are then read only in part: the blocks that can contain chunks found
    before (MaxScore, see :mod:`kvstore_cext.word_scores`).
    """
    group_flags = None if allowed is None else allowed.group_flags
    search = WordScores(weights.k1, weights.b, weights.average_length, top, group_flags)
    terms = _sort_rarest_first(weights)
    rarities = [weights.rarities[term] for term in terms]
    sizes = state.postings.get_sizes(terms)
    block_lists = [
        state.postings.get_blocks(term) if size.blocks <= _MAX_WHOLE_BLOCKS else None
        for term, size in zip(terms, sizes, strict=True)
    ]
    try:
        # The most that each term can add to the score of a chunk. Without blocks, this is only an upper bound.
        max_scores = [
            search.compute_term_bound(rarity) if blocks is None else search.compute_bound(rarity, blocks)
            for rarity, blocks in zip(rarities, block_lists, strict=True)
        ]
        for index, (term, size, blocks) in enumerate(zip(terms, sizes, block_lists, strict=True)):
            max_score, max_remaining = max_scores[index], math.fsum(max_scores[index + 1 :])
            # A frequent term is read whole only if chunks without the terms before it can still enter the top.
            if blocks is None and search.can_enter(max_score + max_remaining):
                blocks = state.postings.get_blocks(term)
            elif blocks is None:
                blocks = state.postings.get_candidate_blocks(term, np.frombuffer(search.list_chunks(), np.uint64), size)
            search.add_term(rarities[index], blocks, max_score, max_remaining)
        chunks, scores = search.select_best()
        return np.frombuffer(chunks, np.uint64), np.frombuffer(scores, np.float64)
    except ValueError as error:
        raise make_corruption_error(error) from error


def compute_bm25_scores(state: State, weights: TermWeights, chunks: Ids) -> Scores:
    """Return the BM25 scores of distinct chunks, in the order of ``chunks``; 0 for a chunk without any of the terms.

    ``weights`` has the terms with their rarities, and the parameters of BM25. Raises CorruptionError if a posting list
    is damaged.
    """
    order = np.argsort(chunks)  # the search takes ascending ids
    ascending = np.ascontiguousarray(chunks[order])
    search = WordScores(weights.k1, weights.b, weights.average_length, top=1)  # ``restrict_to`` replaces ``top``
    terms = _sort_rarest_first(weights)
    try:
        search.restrict_to(ascending)
        for term, size in zip(terms, state.postings.get_sizes(terms), strict=True):
            rarity, blocks = weights.rarities[term], state.postings.get_candidate_blocks(term, ascending, size)
            # All chunks are scored, and none is pruned, so the bound of the remaining terms is not used (0).
            search.add_term(rarity, blocks, search.compute_term_bound(rarity), 0.0)
        scores = np.empty(len(chunks))
        _, best_scores = search.select_best()  # all chunks, ascending
        scores[order] = np.frombuffer(best_scores, np.float64)
        return scores
    except ValueError as error:
        raise make_corruption_error(error) from error


def _sort_rarest_first(weights: TermWeights) -> list[str]:
    """Return the terms by descending rarity (IDF).

    All scores are summed in this order, because the rounding of a floating-point sum depends on the order.
    """
    return sorted(weights.rarities, key=lambda term: -weights.rarities[term])


def list_stems(word: str, stem: Callable[[str], str]) -> list[str]:
    """Return the stems of a word: one, or several in a store of several languages."""
    return stem.list_variants(word) if isinstance(stem, QuestionStemmer) else [stem(word)]


def count_chunks_with_words(words: Sequence[str], state: State, stem: Callable[[str], str]) -> dict[str, int]:
    """Return about how many chunks contain each word in any form (with the same stem), by word.

    In a store of several languages, a word has a stem in each of them, and the counts of its stems are added up.
    """
    terms_by_word = {word: list_stems(word, stem) for word in words}
    terms = dict.fromkeys(term for word_terms in terms_by_word.values() for term in word_terms)
    counts = state.postings.count_chunks_by_term(list(terms))
    return {word: sum(counts[term] for term in word_terms) for word, word_terms in terms_by_word.items()}


class TermCountRequest(ReadRequest[Mapping[str, int]]):
    """A request for the number of chunks that contain each term."""

    terms: Sequence[str]

    def fetch(self, state: State) -> Mapping[str, int]:
        """Return the number of chunks that contain each term, by term."""
        return state.postings.count_chunks_by_term(self.terms)


class WordSearchResult(NamedTuple):
    """The best chunks by BM25, best first, and the requested scores of other chunks.

    ``other_scores`` are the scores of the other chunks, in order; a chunk without any of the terms has 0. ``cosines``
    has the cosine of each of the best chunks, in order, or is None if no vector was given.
    """

    ranking: Ranking
    other_scores: npt.NDArray[np.float64]
    cosines: npt.NDArray[np.float32] | None


class WordSearchRequest(ReadRequest[WordSearchResult]):
    """A request for the ``top`` chunks by BM25 of ``allowed`` documents (None: all) that have at least one term.

    The result also has the scores of ``other_chunks``, which are distinct ids (None: of no other chunks), and the
    cosines of the best chunks with a unit ``vector`` (None: no cosines).
    """

    weights: TermWeights
    top: int
    allowed: AllowedDocuments | None = None
    other_chunks: Ids | None = None
    vector: Vector | None = None

    def fetch(self, state: State) -> WordSearchResult:
        """Return the best chunks by BM25 and, if requested, their cosines and the scores of other chunks."""
        ranking = best(state, *find_best_by_words(state, self.weights, self.top, self.allowed), self.top)
        other_scores = (
            np.empty(0) if self.other_chunks is None else compute_bm25_scores(state, self.weights, self.other_chunks)
        )
        cosines = None
        if self.vector is not None:
            from .dense_search import compute_cosines

            cosines = compute_cosines(state, list_chunk_ids(ranking), self.vector)
        return WordSearchResult(ranking, other_scores, cosines)

    def list_chunks(self, answer: WordSearchResult) -> Iterable[int]:
        """Return the ids of the chunks in ``answer``, the result of this search."""
        return (chunk for chunk, _ in answer.ranking)


class WordScoreRequest(ReadRequest[npt.NDArray[np.float64]]):
    """A request for the BM25 scores of distinct chunks; 0 for chunks without any of the terms."""

    weights: TermWeights
    chunks: Ids

    def fetch(self, state: State) -> npt.NDArray[np.float64]:
        """Return the BM25 score of each requested chunk, in order."""
        return compute_bm25_scores(state, self.weights, self.chunks)


class TermSetCountRequest(ReadRequest[list[int]]):
    """A request for the number of chunks that contain all terms of each set; 0 for an empty set."""

    term_sets: Sequence[Collection[str]]

    def fetch(self, state: State) -> list[int]:
        """Return for each set of terms, in order, the number of chunks that contain all of them.

        In a state that is restricted to some documents, only their chunks count.
        """
        if state.allowed is not None:
            matching_chunks = (state.postings.find_chunks_with_terms(terms) for terms in self.term_sets)
            return [int(state.allowed.get_chunk_mask(chunks).sum()) for chunks in matching_chunks]
        # The count of a single term is stored, so its postings need not be read.
        single_terms = [term for terms in self.term_sets if len(terms) == 1 for term in terms]
        counts_by_term = state.postings.count_chunks_by_term(single_terms)
        counts = []
        for terms in self.term_sets:
            if len(terms) == 1:
                (term,) = terms
                counts.append(counts_by_term[term])
            else:
                counts.append(len(state.postings.find_chunks_with_terms(terms)))
        return counts


def build_count_request(words: QuestionWords) -> TermCountRequest:
    """Return a request for the number of chunks that contain each term in a question.

    The counts decide which terms are searched (:meth:`.QuestionWords.list_lookup_terms`) and how rare they are.
    """
    compound_terms = (term for compound in words.compounds for term in (compound.whole_term, *compound.part_terms))
    return TermCountRequest(list(dict.fromkeys((*words.terms, *compound_terms, *words.variants))))


def read_question_weights(query: Query, k1: float = K1, b: float = B) -> tuple[list[str], TermWeights]:
    """Return the terms in a question to search for, and the parameters of their BM25 search, read from the state.

    ``k1`` and ``b`` are the parameters of BM25.
    """
    words = parse_question_words(query.question, query.stem)
    counts = query.reading.fetch(build_count_request(words))
    terms = words.list_lookup_terms(counts)
    return terms, build_term_weights(query.reading.counters, terms, counts, k1, b)


def rank_by_words(query: Query, top: int, k1: float = K1, b: float = B) -> Ranking:
    """Return the ``top`` chunks by BM25, best first, and record the step; chunks without any term are omitted.

    ``k1`` and ``b`` are the parameters of BM25.
    """
    with query.trace.step("lexical search") as step:
        terms, weights = read_question_weights(query, k1, b)
        ranking = query.reading.fetch(WordSearchRequest(weights, top, query.allowed)).ranking
        step.detail, step.count = "BM25 of " + ", ".join(terms), len(ranking)
    return ranking
