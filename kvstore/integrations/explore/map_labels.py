"""Labels of clusters of chunks, made of their words and headings. A *term* is a word, a pair of adjacent words, a
heading or a title, case-folded. Its *spelling* is how texts write it. A label is up to three terms that are specific to
the cluster.

In: for each cluster the headings and texts of its chunks. Out: one label per cluster. The weight of a term is the share
of the cluster's chunks that have it, times its information, the logarithm of the inverse of its share of all chunks
(Grootendorst 2022, "BERTopic", c-TF-IDF).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

#: The number of terms of a label, and the maximum number of characters of a term.
_NUM_TERMS, _MAX_TERM_CHARS = 3, 32
#: The maximum number of words of a heading that is a term, and the minimum number of characters of another word.
_MAX_HEADING_WORDS, _MIN_WORD_CHARS = 4, 3
#: Two words of one label do not have the same first letters; this number of letters is compared.
_STEM_CHARS = 5
#: A word in more than this share of chunks is not a term, and a pair of words does not contain it. Function words are
#: short in most languages, so the share of a word in lower case is smaller the shorter it is, by number of characters.
_MAX_SHARE = 0.22
_MAX_SHARES_OF_SHORT_WORDS = {1: 0.0, 2: 0.0, 3: 0.02, 4: 0.04, 5: 0.07}
#: A word in headings of at least this share of its chunks is a term even if it is short.
_MIN_TERM_HEADING_FRACTION = 0.3
#: A pair of words must be in at least this share of the chunks that contain its rarer word, unless it is capitalized.
_MIN_PAIR_SHARE = 0.5
#: The number before a title, such as ``1.2`` of "1.2 Tea".
_NUMBERING_PATTERN = re.compile(r"^(?:(?:\d[\d.]*|[A-Z]|[ivxIVX]+)[.):]?\s+)+(?=\S)|^\w+ \d+[.:]\s+")
#: The factors of pairs of words and of headings, which say more than a word.
_PAIR_FACTOR, _HEADING_FACTOR = 1.6, 1.9
_WORD_PATTERN = re.compile(r"[^\W\d_][\w'’-]*[^\W_]")
#: Parts of Markdown without prose: code, targets of links, tags and addresses.
_NO_PROSE_PATTERN = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|<[^>\n]*>|https?://\S+|[\w.-]+@[\w.-]+", re.DOTALL)


def label_clusters(clusters: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
    """Return a label for each cluster, such as "Tea · leaves"; a cluster is a list of (heading, text) of its chunks.

    >>> label_clusters([[("Tea", "Tea leaves dry."), ("Tea", "Tea leaves wilt.")], [("Rum", "Rum is old.")]])
    ['Tea · leaves', 'Rum · old']
    """
    terms_by_cluster = [[_find_terms(heading, text) for heading, text in chunks] for chunks in clusters]
    counts_by_cluster = list(map(_count_terms, terms_by_cluster))
    totals = sum((counts.texts for counts in counts_by_cluster), Counter[str]())
    heading_totals = sum((counts.headings for counts in counts_by_cluster), Counter[str]())
    num_chunks = sum(map(len, clusters))
    spelling_by_term = _choose_spellings(chunk_terms.spellings for chunks in terms_by_cluster for chunk_terms in chunks)
    # A word in more than two chunks, and in more than its maximum share of all chunks, is too common.
    common_words = {
        term
        for term, total in totals.items()
        if " " not in term
        and total > max(2, num_chunks * _get_max_share(spelling_by_term[term], heading_totals[term] / total))
    }
    labels = []
    for chunks, counts in zip(clusters, counts_by_cluster, strict=True):
        min_count = min(2, len(chunks))  # a term of only one of several chunks is not typical of the cluster
        weights = {
            term: _compute_weight(term, count, counts.headings[term], totals[term], len(chunks), num_chunks)
            for term, count in counts.texts.items()
            if count >= min_count and _can_be_label(term, spelling_by_term[term], totals)
        }
        # Texts with a small vocabulary, such as forms, may have only common words.
        specific_weights = {term: weight for term, weight in weights.items() if common_words.isdisjoint(term.split())}
        weights = specific_weights or weights
        labels.append(" · ".join(spelling_by_term[term] for term in _choose_terms(weights)))
    return _make_unique(labels)


def _choose_spellings(terms_by_chunk: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return the most frequent spelling of each term; of equally frequent spellings, the last in lexicographic order.

    Each mapping has the spellings of the terms of a chunk, by term.
    """
    spellings: dict[str, Counter[str]] = {}
    for terms in terms_by_chunk:
        for term, spelling in terms.items():
            spellings.setdefault(term, Counter())[spelling] += 1
    return {term: max(counts, key=lambda spelling: (counts[spelling], spelling)) for term, counts in spellings.items()}


def _get_max_share(spelling: str, heading_fraction: float) -> float:
    """Return the fraction of chunks above which a word is too common to be a term; it is lower for short words.

    Capitalized words and words that are often in headings do not count as short. ``heading_fraction`` is the fraction
    of the word's chunks that have it in a heading.
    """
    if not spelling.islower() or heading_fraction >= _MIN_TERM_HEADING_FRACTION:
        return _MAX_SHARE
    return _MAX_SHARES_OF_SHORT_WORDS.get(len(spelling), _MAX_SHARE)


def _can_be_label(term: str, spelling: str, totals: Counter[str]) -> bool:
    """True if a term is a single word, is capitalized, or is two words that often occur together.

    They do if the term is in at least ``_MIN_PAIR_SHARE`` of the chunks that contain its rarer word. ``spelling`` is
    the term as texts spell it, and ``totals`` has the number of chunks that contain each term.
    """
    if " " not in term or not spelling.islower():
        return True
    return totals[term] >= _MIN_PAIR_SHARE * min(totals.get(word, totals[term]) for word in term.split())


class _ChunkTerms(NamedTuple):
    """The terms of a chunk, case-folded, each with its spelling, and those of them that its heading contains."""

    spellings: dict[str, str]
    heading_terms: set[str]


class _ChunkCounts(NamedTuple):
    """The number of chunks of a cluster that have each term, and that have it in their heading."""

    texts: Counter[str]
    headings: Counter[str]


def _count_terms(chunks: Sequence[_ChunkTerms]) -> _ChunkCounts:
    """Return the number of chunks of a cluster with each term, and with each term in a heading.

    ``chunks`` has the terms of each chunk.
    """
    return _ChunkCounts(
        Counter(term for chunk_terms in chunks for term in chunk_terms.spellings),
        Counter(term for chunk_terms in chunks for term in chunk_terms.heading_terms),
    )


def _find_terms(heading: str, text: str) -> _ChunkTerms:
    """Return the terms of a chunk (its short titles, words, and pairs of adjacent words), and those of its heading.

    ``heading`` is a path of titles such as ``Tea > 1. Leaves``.
    """
    titles = [_NUMBERING_PATTERN.sub("", title.strip(" .:#*_`")) for title in heading.split(" > ")]
    terms: dict[str, str] = {}
    for title in titles:
        words = _WORD_PATTERN.findall(title)
        if 0 < len(words) <= _MAX_HEADING_WORDS and len(title) <= _MAX_TERM_CHARS:
            terms[" ".join(word.casefold() for word in words)] = title
    heading_terms = set(terms)
    for line in _NO_PROSE_PATTERN.sub(" ", text).splitlines():
        words = _WORD_PATTERN.findall(line)
        for word in words:
            if _MIN_WORD_CHARS <= len(word) <= _MAX_TERM_CHARS:
                terms.setdefault(word.casefold(), word)
        for first, second in pairwise(words):
            is_term = min(len(first), len(second)) >= _MIN_WORD_CHARS and len(first) + len(second) < _MAX_TERM_CHARS
            if is_term and f"{first} {second}" in line:
                terms.setdefault(f"{first.casefold()} {second.casefold()}", f"{first} {second}")
    # A single word of a title is a term of the heading only if the text has it, too.
    heading_words = {word for term in heading_terms for word in term.split()}
    return _ChunkTerms(terms, heading_terms | (heading_words & terms.keys()))


def _compute_weight(
    term: str, num_cluster_chunks: int, num_headings: int, num_term_chunks: int, cluster_size: int, num_chunks: int
) -> float:
    """Return the weight of a term for a cluster of ``cluster_size`` chunks.

    It is the product of the fraction of the cluster's chunks with the term, the term's information (terms of few chunks
    have more), and the fraction of the term's chunks in the cluster. Pairs of words and terms of headings weigh more.

    ``num_cluster_chunks`` chunks of the cluster have the term, ``num_headings`` of them in a heading, and
    ``num_term_chunks`` of all ``num_chunks`` chunks have it.
    """
    information = math.log((num_chunks + 1) / num_term_chunks)
    factor = _PAIR_FACTOR if " " in term else 1.0
    factor *= 1 + (_HEADING_FACTOR - 1) * num_headings / num_cluster_chunks
    return factor * num_cluster_chunks / cluster_size * information * (num_cluster_chunks / num_term_chunks)


def _choose_terms(weights: dict[str, float]) -> list[str]:
    """Return up to three terms by descending weight. No two share a word, compared by its first five letters."""
    terms: list[str] = []
    stems: set[str] = set()
    for term in sorted(weights, key=lambda term: (-weights[term], term)):
        term_stems = {word[:_STEM_CHARS] for word in term.split()}
        if not term_stems & stems:
            terms.append(term)
            stems |= term_stems
        if len(terms) == _NUM_TERMS:
            break
    return terms


def _make_unique(labels: Iterable[str]) -> list[str]:
    """Number repeated labels so that all are different; an empty label becomes ``other``.

    >>> _make_unique(["tea", "", "other", "tea"])
    ['tea', 'other', 'other (2)', 'tea (2)']
    """
    counts: Counter[str] = Counter()
    unique_labels = []
    for label in labels:
        name = label or "other"
        counts[name] += 1
        unique_labels.append(name if counts[name] == 1 else f"{name} ({counts[name]})")
    return unique_labels
