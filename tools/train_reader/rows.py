"""Read the data of the answer reader. A *row* is a question with its passage and the spans of its answers, if any; an
*article* has several passages. An *example* is what the reader reads: a question and a *window* of one to three
sentences. In a *near miss*, the window only seems to answer.

In: `train.jsonl.xz`, one question with its passage per line (see the README of the data). Out: :class:`Row` values with
the sentences of their passages, and :class:`Example` values, some with the title of the passage before the window.
"""

from __future__ import annotations

import collections
import dataclasses
import hashlib
import json
import lzma
import math
import random
import re
from pathlib import Path
from typing import Any, NamedTuple

MAX_QUESTION_CHARACTERS = 300
MAX_SENTENCES = 3
WINDOW_SIZES = (0.55, 0.27, 0.18)  # shares of windows with 1, 2 and 3 sentences
MAX_SPAN_CHARACTERS = 120  # a longer answer is a sentence, not a span
_HARD_NEAR_MISS_SHARE = 0.9  # of the near misses: their windows have a plausible answer, or resemble the question
_HARD_NEGATIVE_SHARE = 0.6  # of the unanswered examples: their sentences resemble the question
_MAX_SENTENCE_SHARE = 0.8  # a larger part of a sentence is not a span either
HELD_OUT_SHARE = 0.15
SQUAD2_SOURCES = ("squad2_dev_half", "squad2_dev_other", "squad2_more")
SQUAD2_SPAN_SOURCES = ("squad2_dev_half", "squad2_more")  # squad2_dev_other has sentences instead of spans
UNTITLED = {"", "miscellaneous"}
#: The number of sentences of the article that share the most words with a question, which negative windows are made of.
NUM_RANKED = 12

Span = tuple[int, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Passage:
    """A passage with the spans of its sentences."""

    text: str
    sentences: list[Span]


@dataclasses.dataclass(frozen=True, eq=False)
class Row:
    """One question with its passage; all spans are (start, end) in characters of the passage.

    ``answers`` is empty if the passage does not answer; ``plausible`` are then the spans that only seem to.
    """

    question: str
    passage: str
    sentences: list[Span]
    answers: list[Span]
    plausible: list[Span]
    source: str
    article: str
    title: str
    #: The sentences of the article that share the most words with the question and do not hold the answer, as
    #: (passage, ordinal of the sentence), best first; see :func:`rank_sentences_of_articles`.
    ranked: list[tuple[Passage, int]] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class Example:
    """One input of the model; `spans` are (start, end) in characters of the window."""

    question: str
    window: str
    answered: bool
    spans: list[Span]


class DrawnExamples(NamedTuple):
    """Examples, and the ordinals of pairs (answered, near miss) and of groups in them.

    The first ordinal of a group is that of the window that answers.
    """

    examples: list[Example]
    pairs: list[tuple[int, int]]
    groups: list[list[int]]


_BOUNDARY = re.compile(r"[.!?][\"'”’)\]]*(?:\[\d+\])*\s+(?=[\"'“‘(\[]*[A-Z0-9])|\n+")
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|St|Prof|Gen|Col|Sen|Rep|Jr|Sr|vs|etc|No|Vol|Fig|ca|cf|e\.g|i\.e))\.$"
)


def split_sentences(text: str) -> list[Span]:
    """Return the spans of the sentences of a text, without surrounding white space."""
    spans, start = [], 0
    for match in _BOUNDARY.finditer(text):
        end = match.end()
        if "\n" not in match.group() and _ABBREVIATION.search(text[start:end].rstrip()):
            continue
        spans.append((start, end))
        start = end
    spans.append((start, len(text)))
    stripped_spans = []
    for start, end in spans:
        sentence = text[start:end]
        first = start + len(sentence) - len(sentence.lstrip())
        last = start + len(sentence.rstrip())
        if first < last:
            stripped_spans.append((first, last))
    return stripped_spans


def compute_digest(path: Path) -> str:
    """Return the SHA-256 of a file in hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text in hexadecimal digits, which is the same in every process."""
    return hashlib.sha256(text.encode()).hexdigest()


def load_rows(path: Path) -> list[Row]:
    """Return the rows of a file of questions, each with the name of its article; overlong questions are omitted."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    sentences = {passage: split_sentences(passage) for passage in {record["passage"] for record in records}}
    articles = _name_articles(records, sentences)
    return [
        Row(
            record["question"].strip(),
            record["passage"],
            sentences[record["passage"]],
            [(start, start + len(text)) for start, text in record["answers"]],
            [(start, start + len(text)) for start, text in record.get("plausible") or []],
            record["source"],
            article,
            _get_title(record),
        )
        for record, article in zip(records, articles, strict=True)
        if len(record["question"]) <= MAX_QUESTION_CHARACTERS
    ]


def _name_articles(records: list[dict[str, Any]], sentences: dict[str, list[Span]]) -> list[str]:
    """Return the name of the article of each record; ``sentences`` has the spans of the sentences of each passage.

    A record without a title takes the title of a titled passage that shares a sentence with it, because
    `squad1_sentences` repeats sentences from SQuAD articles. Otherwise a hash of its passage names its article.
    """
    titles = [_get_title(record).lower() for record in records]
    articles_by_sentence: dict[str, str] = {}
    for record, title in zip(records, titles, strict=True):
        if title not in UNTITLED:
            for start, end in sentences[record["passage"]]:
                if end - start >= 30:  # a shorter sentence can occur in several articles
                    articles_by_sentence.setdefault(record["passage"][start:end].lower(), title)
    articles = []
    for record, title in zip(records, titles, strict=True):
        passage = record["passage"]
        if title in UNTITLED:
            keys = (passage[start:end].lower() for start, end in sentences[passage])
            title = next((articles_by_sentence[key] for key in keys if key in articles_by_sentence), hash_text(passage))
        articles.append(title)
    return articles


def _get_title(record: dict[str, Any]) -> str:
    """Return the title of a record with spaces instead of underscores, or an empty one."""
    return (record.get("title") or "").replace("_", " ").strip()


def choose_held_out_articles(rows: list[Row]) -> set[str]:
    """Return the articles to hold out: of each source, articles in the order of their hashes.

    Articles are chosen until they have HELD_OUT_SHARE of the rows of the source.
    """
    counts: dict[str, collections.Counter] = {}
    for row in rows:
        counts.setdefault(row.source, collections.Counter())[row.article] += 1
    order = [*SQUAD2_SOURCES, *sorted(set(counts) - set(SQUAD2_SOURCES))]
    held_out: set[str] = set()
    for source in order:
        articles = counts.get(source, collections.Counter())
        target = HELD_OUT_SHARE * articles.total()
        num_rows = sum(count for article, count in articles.items() if article in held_out)
        for article in sorted(articles, key=hash_text):
            if num_rows >= target:
                break
            if article not in held_out:
                held_out.add(article)
                num_rows += articles[article]
    return held_out


def find_sentences(row: Row, span: Span) -> tuple[int, int]:
    """Return the ordinals of the first and the last sentence that a span overlaps, or (-1, -1)."""
    ordinals = [ordinal for ordinal, (start, end) in enumerate(row.sentences) if start < span[1] and span[0] < end]
    return (ordinals[0], ordinals[-1]) if ordinals else (-1, -1)


def extend_window(row: Row, first: int, last: int, rng: random.Random, blocked: frozenset[int] = frozenset()) -> Span:
    """Return the span of a window: the sentences ``first`` to ``last``, and random neighbors that are not blocked."""
    num_sentences = max(rng.choices(range(1, MAX_SENTENCES + 1), WINDOW_SIZES)[0], last - first + 1)
    while last - first + 1 < num_sentences:
        neighbors = [
            ordinal for ordinal in (first - 1, last + 1) if 0 <= ordinal < len(row.sentences) and ordinal not in blocked
        ]
        if not neighbors:
            break
        ordinal = rng.choice(neighbors)
        first, last = min(first, ordinal), max(last, ordinal)
    return row.sentences[first][0], row.sentences[last][1]


_WORD = re.compile(r"\w+")
_STOP_WORDS = frozenset(
    "a an the of in on at to for from by with and or is are was were be been did do does has have had what which who "
    "whom whose when where why how that this these those it its their his her as than s".split()
)


def find_content_words(text: str) -> set[str]:
    """Return the lower-case words of a text without stop words."""
    return {word for word in _WORD.findall(text.lower()) if word not in _STOP_WORDS}


def rank_by_overlap(row: Row, ordinals: list[int]) -> list[int]:
    """Return sentence ordinals, those of the sentences that share the most words with the question first."""
    words = find_content_words(row.question)
    return sorted(
        ordinals, key=lambda ordinal: -len(words & find_content_words(row.passage[slice(*row.sentences[ordinal])]))
    )


def index_words(texts: list[str]) -> dict[str, list[int]]:
    """Return the indexes of the texts that contain each content word, in ascending order."""
    indexes_by_word: dict[str, list[int]] = collections.defaultdict(list)
    for index, text in enumerate(texts):
        for word in find_content_words(text):
            indexes_by_word[word].append(index)
    return indexes_by_word


def rank_by_rare_words(question: str, indexes_by_word: dict[str, list[int]], num_texts: int) -> list[int]:
    """Return the indexes of the texts that share a word with a question, those with the rarest words first."""
    scores: collections.Counter[int] = collections.Counter()
    for word in sorted(find_content_words(question)):
        if indexes := indexes_by_word.get(word):
            rarity = math.log(1 + num_texts / len(indexes))
            for index in indexes:
                scores[index] += rarity
    return sorted(scores, key=lambda index: (-scores[index], index))


def rank_sentences_of_articles(rows: list[Row]) -> None:
    """Fill `ranked` of all rows: sentences of their article by the rarity of the words shared with the question.

    Sentences that hold an answer, or its text, are left out. If an answer is a whole sentence, the words that answer
    are unknown, so only sentences of the same passage are used.
    """
    by_article: dict[str, list[Row]] = collections.defaultdict(list)
    for row in rows:
        by_article[row.article].append(row)
    for article_rows in by_article.values():
        passages = {row.passage: Passage(row.passage, row.sentences) for row in article_rows}
        sentences = [(passage, ordinal) for passage in passages.values() for ordinal in range(len(passage.sentences))]
        texts = [passage.text[slice(*passage.sentences[ordinal])].lower() for passage, ordinal in sentences]
        indexes_by_word = index_words(texts)
        for row in article_rows:
            answers = {row.passage[start:end].lower() for start, end in row.answers}
            has_known_answers = all(is_short_answer(row, answer) for answer in row.answers)
            blocked = _find_answer_sentences(row)
            for index in rank_by_rare_words(row.question, indexes_by_word, len(texts)):
                passage, ordinal = sentences[index]
                is_same_passage = passage.text == row.passage
                if (is_same_passage and ordinal in blocked) or not (is_same_passage or has_known_answers):
                    continue
                if any(answer in texts[index] for answer in answers):
                    continue
                row.ranked.append((passage, ordinal))
                if len(row.ranked) == NUM_RANKED:
                    break


def _find_answer_sentences(row: Row) -> set[int]:
    """Return the ordinals of the sentences that an answer overlaps."""
    ordinals: set[int] = set()
    for answer in row.answers:
        first, last = find_sentences(row, answer)
        ordinals.update(range(first, last + 1))
    return ordinals


def build_similar_example(row: Row, rng: random.Random) -> Example | None:
    """Return an example with a window around a sentence that resembles the question without answering it.

    Such a window is hard to distinguish from one with an answer. Return None if the row has no such sentence.
    """
    if not row.ranked:
        return None
    weights = [1 / (2 + rank) for rank in range(len(row.ranked))]
    passage, ordinal = rng.choices(row.ranked, weights)[0]
    first = last = ordinal
    answers = {row.passage[start:end].lower() for start, end in row.answers}
    num_attempts = rng.choices(range(MAX_SENTENCES), WINDOW_SIZES)[0]
    for _ in range(num_attempts):  # to extend the window by a neighbor that does not contain an answer
        neighbor = rng.choice((first - 1, last + 1))
        if not 0 <= neighbor < len(passage.sentences):
            continue
        text = passage.text[slice(*passage.sentences[neighbor])].lower()
        if any(answer in text or text in answer for answer in answers):
            continue
        first, last = min(first, neighbor), max(last, neighbor)
    return Example(
        row.question, passage.text[passage.sentences[first][0] : passage.sentences[last][1]], answered=False, spans=[]
    )


def vary_form(examples: list[Example], title: str, rng: random.Random) -> list[Example]:
    """Return the examples in a random form: with or without a title before the window, question mark, and capitals.

    All examples of a question, and its near misses, are varied alike, so that the form does not give the label away.
    """
    prefix = f"{title}. " if title and rng.random() < 0.5 else ""
    without_mark, in_lower_case = rng.random() < 0.15, rng.random() < 0.1
    varied = []
    for example in examples:
        question = example.question.rstrip("?! ") if without_mark else example.question
        spans = [(start + len(prefix), end + len(prefix)) for start, end in example.spans]
        varied.append(
            Example(question.lower() if in_lower_case else question, prefix + example.window, example.answered, spans)
        )
    return varied


def build_answered_example(row: Row, rng: random.Random) -> Example | None:
    """Return an example whose window holds a random answer; None if the answer extends over too many sentences."""
    first, last = find_sentences(row, rng.choice(row.answers))
    if first < 0 or last - first >= MAX_SENTENCES:
        return None
    window_start, window_end = extend_window(row, first, last, rng)
    spans = [
        (start - window_start, end - window_start)
        for start, end in row.answers
        if window_start <= start and end <= window_end and is_short_answer(row, (start, end))
    ]
    return Example(row.question, row.passage[window_start:window_end], answered=True, spans=sorted(set(spans)))


def is_short_answer(row: Row, answer: Span) -> bool:
    """True if an answer is a phrase, which the network can learn to extract: neither long nor most of its sentence.

    Any other answer only says which sentence answers the question.
    """
    start, end = answer
    if end - start > MAX_SPAN_CHARACTERS:
        return False
    first, last = find_sentences(row, answer)
    return end - start <= _MAX_SENTENCE_SHARE * (row.sentences[last][1] - row.sentences[first][0])


def build_near_miss_example(row: Row, rng: random.Random, share_plausible: float = 0.75) -> tuple[Example, Span]:
    """Return an example for a question that its passage does not answer, and the span of its window in the passage.

    The window usually holds a plausible but wrong answer, or else a sentence that resembles the question.
    """
    draw = rng.random()
    first = last = -1
    if row.plausible and draw < share_plausible:
        first, last = find_sentences(row, rng.choice(row.plausible))
    if first < 0 or last - first >= MAX_SENTENCES:
        ordinals = list(range(len(row.sentences)))
        if draw < _HARD_NEAR_MISS_SHARE:
            ordinals = rank_by_overlap(row, ordinals)[:2]
        first = last = rng.choice(ordinals)
    window_start, window_end = extend_window(row, first, last, rng)
    return Example(row.question, row.passage[window_start:window_end], answered=False, spans=[]), (
        window_start,
        window_end,
    )


def build_unanswered_example(row: Row, rng: random.Random) -> Example | None:
    """Return an example whose window is in the passage but holds no answer; None if every sentence holds one."""
    blocked = _find_answer_sentences(row)
    texts = {row.passage[start:end].lower() for start, end in row.answers}
    ordinals = [
        ordinal
        for ordinal, (start, end) in enumerate(row.sentences)
        if ordinal not in blocked and not any(text in row.passage[start:end].lower() for text in texts)
    ]
    if not ordinals:
        return None
    unusable = frozenset(range(len(row.sentences))) - frozenset(ordinals)
    if rng.random() < _HARD_NEGATIVE_SHARE:
        ordinals = rank_by_overlap(row, ordinals)[:2]
    ordinal = rng.choice(ordinals)
    window_start, window_end = extend_window(row, ordinal, ordinal, rng, unusable)
    return Example(row.question, row.passage[window_start:window_end], answered=False, spans=[])


_MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
_KINDS = {
    "date": re.compile(rf"\b(?:{_MONTHS})(?: \d{{1,2}}(?:, \d{{4}})?)?\b|\b\d{{1,2}} (?:{_MONTHS})\b"),
    "year": re.compile(r"\b(?:1\d{3}|20\d{2})\b"),
    "number": re.compile(r"\b\d[\d,.]*\d\b|\b\d\b"),
    "name": re.compile(r"(?<=[a-z,] )[A-Z][\w'’-]*[a-z](?: (?:(?:of|de|the|von) )?[A-Z][\w'’-]*[a-z])*"),
}
_NEGATION = re.compile(r"\b(is|are|was|were|did|does|do|has|have|had|can|could|will|would|should)\b(?! not|n't)")
_CONTRACTIONS = {word: word + "n't" for word in ("did", "does", "do", "could", "would", "should")}
_CONTRACTIONS.update({"can": "can't", "will": "won't"})
_OPPOSITES = dict(
    pair.split("-")
    for pair in (
        "first-last last-first before-after after-before most-least least-most largest-smallest smallest-largest "
        "highest-lowest lowest-highest oldest-youngest more-fewer less-more fewer-more increase-decrease "
        "decrease-increase increased-decreased won-lost lost-won began-ended begin-end start-end started-ended "
        "born-buried north-south south-north east-west west-east early-late late-early above-below below-above "
        "support-oppose supported-opposed accepted-rejected allowed-prohibited allow-prohibit best-worst "
        "common-rare same-different major-minor male-female positive-negative larger-smaller higher-lower"
    ).split()
)
_OPPOSITE = re.compile(r"\b(?:" + "|".join(_OPPOSITES) + r")\b")


def replace_term(row: Row, rng: random.Random) -> str | None:
    """Return the question with a name, number or date replaced by another one from its passage, or None."""
    kinds = list(_KINDS)
    rng.shuffle(kinds)
    for kind in kinds:
        matches = list(_KINDS[kind].finditer(row.question))
        if not matches:
            continue
        match = rng.choice(matches)
        term = match.group()
        replacements = sorted(
            {
                replacement
                for replacement in _KINDS[kind].findall(row.passage)
                # Neither the term itself nor a variant of it.
                if replacement.lower() not in row.question.lower() and not set(term.split()) & set(replacement.split())
            }
        )
        if replacements:
            return row.question[: match.start()] + rng.choice(replacements) + row.question[match.end() :]
    return None


def negate_question(question: str, rng: random.Random) -> str | None:
    """Return the question with an opposite word or an added "not"; None if neither is possible."""
    match = _OPPOSITE.search(question)
    if match and rng.random() < 0.8:
        return question[: match.start()] + _OPPOSITES[match.group()] + question[match.end() :]
    match = _NEGATION.search(question)
    if match is None or question.split(" ", 1)[0].lower() in ("how", "why"):
        return None
    if match.group() in _CONTRACTIONS:
        return question[: match.start()] + _CONTRACTIONS[match.group()] + question[match.end() :]
    return question[: match.end()] + " not" + question[match.end() :]


def change_question(row: Row, rng: random.Random) -> str | None:
    """Return a changed question that the window of the original one does not answer; None if no rule applies."""
    if rng.random() < 0.25:
        return negate_question(row.question, rng)
    return replace_term(row, rng)
