"""Labels of clusters of chunks, made of their words and headings.

In: for each cluster the headings and texts of its chunks. Out: one label per cluster: the up to three terms that are
most specific to it. A term is a word, a pair of words, a heading or a title. Its weight is the share of the cluster's
chunks that have it, times its information, the logarithm of the inverse of its share of all chunks (Grootendorst 2022,
"BERTopic", c-TF-IDF).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

#: The number of terms of a label, and the maximum number of characters of a term.
_NUM_TERMS, _MAX_TERM_CHARS = 3, 32
#: A word in more than this share of chunks is no term, and a pair of words does not contain it. Function words are
#: short in most languages, so the share of a word in lower case is smaller the shorter it is, by number of characters.
_MAX_SHARE = 0.22
_MAX_SHARES_OF_SHORT_WORDS = {1: 0.0, 2: 0.0, 3: 0.02, 4: 0.04, 5: 0.07}
#: A word in headings of at least this share of its chunks is a term even if it is short.
_MIN_TERM_HEADING_FRACTION = 0.3
#: The share of the rarer word of a pair that the pair must have, unless it is capitalized.
_MIN_PAIR_SHARE = 0.5
_NUMBERING_PATTERN = re.compile(r"^(?:(?:\d[\d.]*|[A-Z]|[ivxIVX]+)[.):]?\s+)+(?=\S)|^\w+ \d+[.:]\s+")
#: The factors of pairs of words and of headings, which say more than a word.
_PAIR_FACTOR, _HEADING_FACTOR = 1.6, 1.9
_WORD_PATTERN = re.compile(r"[^\W\d_][\w'’-]*[^\W_]")
_NO_PROSE_PATTERN = re.compile(r"```.*?```|`[^`\n]*`|\]\([^)]*\)|<[^>\n]*>|https?://\S+|[\w.-]+@[\w.-]+", re.DOTALL)


def label_clusters(clusters: Sequence[Sequence[tuple[str, str]]]) -> list[str]:
    """Return a label for each cluster; a cluster is a list of pairs, the heading and the text of a chunk.

    >>> label_clusters([[("Tea", "Tea leaves dry."), ("Tea", "Tea leaves wilt.")], [("Rum", "Rum is old.")]])
    ['Tea · leaves', 'Rum · old']
    """
    terms_by_cluster = [[_find_terms(*chunk) for chunk in chunks] for chunks in clusters]
    spellings: dict[str, Counter[str]] = {}
    counts: list[Counter[str]] = []
    headings: list[Counter[str]] = []
    for chunk_terms in terms_by_cluster:
        counts.append(Counter())
        headings.append(Counter())
        for terms, heading_terms in chunk_terms:
            counts[-1].update(terms.keys())
            headings[-1].update(heading_terms)
            for term, spelling in terms.items():
                spellings.setdefault(term, Counter())[spelling] += 1
    totals: Counter[str] = Counter()
    for count in counts:
        totals.update(count)
    num_chunks = sum(len(chunks) for chunks in clusters)
    names = {
        term: max(spelling.items(), key=lambda item: (item[1], item[0]))[0] for term, spelling in spellings.items()
    }
    in_headings = Counter[str]()
    for heading_count in headings:
        in_headings.update(heading_count)
    common = {
        term
        for term, total in totals.items()
        if " " not in term and total > max(2, num_chunks * _get_max_share(names[term], in_headings[term] / total))
    }
    labels = []
    for chunks, count, heading_count in zip(clusters, counts, headings, strict=True):
        weights = {
            term: _compute_weight(term, number, heading_count[term], totals[term], len(chunks), num_chunks)
            for term, number in count.items()
            if not common.intersection(term.split())
            and number >= min(2, len(chunks))
            and _is_collocation(term, names[term], totals)
        }
        chosen = _choose_terms(weights)
        labels.append(" · ".join(names[term] for term in chosen))
    return _make_unique(labels)


def _get_max_share(name: str, heading_fraction: float) -> float:
    """Return the fraction of chunks above which a word is too common to be a term.

    ``heading_fraction`` is the fraction of the word's chunks that have it in a heading.
    """
    if not name.islower() or heading_fraction >= _MIN_TERM_HEADING_FRACTION:
        return _MAX_SHARE
    return _MAX_SHARES_OF_SHORT_WORDS.get(len(name), _MAX_SHARE)


def _is_collocation(term: str, name: str, totals: Counter[str]) -> bool:
    """True if a term is one word, is capitalized, or is a pair that half of the chunks of its rarer word contain."""
    if " " not in term or not name.islower():
        return True
    return totals[term] >= _MIN_PAIR_SHARE * min(totals.get(word, totals[term]) for word in term.split())


def _find_terms(heading: str, text: str) -> tuple[dict[str, str], set[str]]:
    """Return the terms of a chunk with their spelling, by their case-folded form, and the terms that its heading
    contains.

    Terms are short headings, words, and pairs of adjacent words.
    """
    parts = [_NUMBERING_PATTERN.sub("", part.strip(" .:#*_`")) for part in heading.split(" > ")]
    terms: dict[str, str] = {}
    for part in parts:
        words = _WORD_PATTERN.findall(part)
        if 0 < len(words) <= 4 and len(part) <= _MAX_TERM_CHARS:
            terms[" ".join(word.casefold() for word in words)] = part
    heading_terms = set(terms)
    for line in _NO_PROSE_PATTERN.sub(" ", text).splitlines():
        words = _WORD_PATTERN.findall(line)
        for word in words:
            if len(word) > 2:
                terms.setdefault(word.casefold(), word)
        for first, second in pairwise(words):
            if f"{first} {second}" in line and len(first) > 2 and len(second) > 2:
                terms.setdefault(f"{first.casefold()} {second.casefold()}", f"{first} {second}")
    heading_words = {word for term in heading_terms for word in term.split()}
    return terms, heading_terms | (heading_words & terms.keys())


def _compute_weight(term: str, number: int, in_headings: int, total: int, size: int, num_chunks: int) -> float:
    """Return the weight of a term for a cluster of ``size`` chunks.

    It is the product of the fraction of the cluster's chunks with the term, the term's information, the fraction of the
    term's chunks in the cluster, and the factors of pairs and headings.

    ``number`` chunks of the cluster have the term, ``in_headings`` of them in a heading, and ``total`` of all
    ``num_chunks`` chunks have it.
    """
    information = math.log((num_chunks + 1) / total)
    factor = _PAIR_FACTOR if " " in term else 1.0
    factor *= 1 + (_HEADING_FACTOR - 1) * in_headings / number
    return factor * number / size * information * (number / total)


def _choose_terms(weights: dict[str, float]) -> list[str]:
    """Return up to three terms by descending weight. No two share a word, compared by its first five letters."""
    chosen: list[str] = []
    stems: set[str] = set()
    for term in sorted(weights, key=lambda term: (-weights[term], term)):
        term_stems = {word[:5] for word in term.split()}
        if not term_stems & stems:
            chosen.append(term)
            stems |= term_stems
        if len(chosen) == _NUM_TERMS:
            break
    return chosen


def _make_unique(labels: Iterable[str]) -> list[str]:
    """Number repeated labels so that all are different; an empty label becomes ``other``."""
    counts: Counter[str] = Counter()
    unique = []
    for label in labels:
        counts[label] += 1
        name = label or "other"
        unique.append(name if counts[label] == 1 else f"{name} ({counts[label]})")
    return unique
