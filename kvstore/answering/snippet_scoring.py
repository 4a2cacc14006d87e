"""The scores of *snippets* (sentences, items, table rows) by their relevance to a question, by rules. A *passage* is
the text around retrieved chunks (*hits*). A *position* is the indexes of a snippet and its passage. A *term* is the
stem of a word; its *rarity* is its IDF in the store.

In: a question, passages, and a function that compares texts with the question by their embeddings. Out: for each
snippet, a weighted sum of its features, which :data:`_WEIGHTS` explains.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import PurePosixPath
from typing import NamedTuple

from ..models.embedder import is_english_only
from ..models.protocol import MULTILINGUAL_EMBEDDER
from ..process.frozen_dataclass import frozen_dataclass
from ..text.blocks import to_plain_text
from ..text.languages import capitalizes_nouns
from ..text.normalize import fold_text
from ..text.patterns import compile_lazily, remove_long_runs
from ..text.question_words import build_count_pattern, build_role_pattern, load_question_words
from ..text.words import find_reference_numbers, list_terms
from .answer_types import FOREIGN_FORM_TYPES, AnswerType, detect_answer_type
from .block_kinds import FIELD_PATTERN
from .document_versions import find_newer_entries, find_newer_versions, names_version_year
from .excerpts import SnippetPosition, Stem, get_snippet
from .passages import Passage
from .question_dates import find_date_words
from .snippets import Snippet, is_unasked_mail_field

#: The maximum number of hits whose snippets are scored.
MAX_CHUNKS = 8
#: The maximum number of snippets embedded for an answer.
MAX_EMBEDDED_SNIPPETS = 48
#: The weights of the features of a snippet's score. The first seven were fitted on the even questions of hotpotqa,
#: musique and the excerpts of chunking_evaluation: a softmax over the snippets of a question should give the answering
#: ones as much probability as possible. Among similar weights, those with the best coverage by the excerpts were
#: chosen, together with the constants of :mod:`.excerpts`. The others were chosen on questions about the documents in
#: brackets.
_WEIGHTS = {
    # The cosine of its title, heading and text with the question, and with the question without names.
    "cosine": 2.0,
    "rest_cosine": 7.9,
    # The fraction of the question's terms, by rarity, in it, and in it and the adjacent snippets.
    "own_terms": 2.75,
    "adjacent_terms": 0.7,
    # 1 / (1 + rank of its hit).
    "rank": 4.2,
    # It has something of the type that the question asks for.
    "answer_type": 2.2,
    # It opens a document that is no longer than its passage.
    "document_start": 1.6,
    # The fractions of the question's technical tokens in it and in its term [manuals].
    "text_tokens": 1.5,
    "term_tokens": 3.0,
    # It is a field, such as "Facilitator: Ann", and the question has all words of its name [price lists, minutes].
    "field": 2.0,
    # It is in a changelog, which describes former states, and the question does not ask for changes.
    "changelog": -3.0,
    # It is a question itself, which rarely answers one [private folders].
    "question": -1.0,
    # The fraction of the question's numbers, such as that of an invoice, that its passage lacks, and the best has:
    # it is about something else [private folders].
    "number_mismatch": -12.0,
    # Only in languages other than English: it has a weekday of the question, perhaps in a range; or other weekdays or
    # months [folders in Spanish, French and Italian].
    "weekday": 1.5,
    "date_mismatch": -4.0,
    # Only in those languages: the number or the name next to the noun that the question asks for ("5 DVD",
    # "Chair: Ann") [the same folders].
    "counted": 3.0,
    # Only in those languages: a term of the question, and what nearly all answers have, such as an amount of money
    # [the same folders].
    "fixed_form": 1.1,
    # Only in those languages: it is a row with something of the answer type, and with a cell that has only words of the
    # question, such as the name of a product [a folder in four languages, in which few words agree].
    "named_row": 2.5,
    # Only in those languages: the code of the question, such as *E05* [folders in eight languages].
    "code": 3.0,
    # A newer version of its document, such as a policy of another year, has been retrieved too.
    "outdated": -2.0,
    # A snippet of that newer version, with its headings, has all its terms of the question, or the question has the
    # year of that version.
    "superseded": -4.0,
    # It is an entry of a table or section ("2016: …"), and the entry of the latest year ("2023: …") has these terms.
    "former": -8.0,
}
#: The code of a product, a building or an error.
CODE_PATTERN = compile_lazily(r"(?<!\w)[A-ZΑ-ΩА-ЯІЇЄҐ]{1,3}-?\d{1,4}(?!\d)")
#: The factor of the cosines of multilingual-e5-small, which have a third of the range of those that the weights were
#: fitted to, and the factor of cosines of an English embedder in other languages. Chosen on tools/language_folders; on
#: XQuAD, the first sentence has the fact in 62 instead of 54 % of German, Spanish, Russian and Chinese answers.
_MULTILINGUAL_COSINE_FACTOR, _OTHER_LANGUAGE_COSINE_FACTOR = 3.0, 0.6

#: The amount by which the cosine of a sentence counts less if it has nothing that matches the type that the question
#: asks for.
_UNLIKELY_DISCOUNT = 0.05
#: Titles and headings of changelogs or indexes, and words of questions that ask for changes.
_CHANGELOG_PATTERN = compile_lazily(
    r"change ?logs?|changes|history|news|release notes|index|what(?:'|’)?s new|(?:community )?updates", re.IGNORECASE
)
_CHANGE_QUESTION_PATTERN = compile_lazily(
    r"\b(?:version|release|chang(?:e|ed|es|ing)|new|news|since|fix(?:ed|es)?|introduced|added|removed|renamed|deprecated"
    r"|history|when|who)\b",
    re.IGNORECASE,
)

#: Technical tokens: options, paths, calls, and words with inner punctuation or capitals.
_TOKEN_PATTERN = compile_lazily(
    r"(?<![\w-])--?\w[\w-]*|(?<![\w/])(?:~|\.{1,2})?/\w[\w./-]*|\b\w+\(\w?\)|\b\w+(?:[._:/]\w+)+|\b\w+=[\w-]*"
    r"|\b\w*[^\W_]_[^\W_]\w*|\b[^\W\d_]*[a-z][A-Z]\w*"
)


class SnippetScores(NamedTuple):
    """The scores of the snippets that can be chosen, by position.

    ``best_cosine`` is the highest cosine of the question and a snippet with its title and heading; 0 without snippets.
    The cosine of a snippet that lacks what the question asks for, such as a date, is reduced.
    """

    scores: Mapping[SnippetPosition, float]
    best_cosine: float


@frozen_dataclass
class SnippetScorer:
    """A scorer of snippets by their relevance to a question. ``rarities`` has the rarity of each term of the question.

    ``language`` is the language of the question (None: English). ``compute_similarities`` returns two cosines per text:
    with the question, and with the question without its names. They are 0 if the store has no ``embedder``.
    """

    question: str
    language: str | None
    rarities: Mapping[str, float]
    stem: Stem
    embedder: str
    compute_similarities: Callable[[Sequence[str]], Sequence[tuple[float, float]]]

    def score_snippets(
        self, passages: Sequence[Passage], positions: Sequence[SnippetPosition] | None = None
    ) -> SnippetScores:
        """Return the scores of the snippets at ``positions`` in ``passages``, and the highest cosine among them.

        A score is a weighted sum of features; ``_WEIGHTS`` names and explains them. For the cosines, each snippet is
        embedded with its title and headings. ``positions`` is None for the likeliest ``MAX_EMBEDDED_SNIPPETS``
        snippets, which are chosen without embeddings. The sender and the date of a mail are then omitted if the
        question cannot ask for them, unless there is nothing else.
        """
        snippet_terms = {  # a row about the thing in the question counts even if its cell for the answer is empty
            SnippetPosition(passage_index, index): self.list_question_terms(
                f"{snippet.scored_text} {snippet.empty_columns}"
            )
            for passage_index, passage in enumerate(passages)
            for index, snippet in enumerate(passage.snippets)
        }
        features = _SnippetFeatures(self, passages, snippet_terms)
        if positions is None:
            candidates = list_candidates(passages, features.answer_type) or list_candidates(passages)
            positions = self._select_likeliest(passages, candidates, snippet_terms)
        texts = [get_snippet(passages, position).labeled_text for position in positions]
        titled_texts = [
            ": ".join([*self.list_labels(passages[passage_index], index), text])
            for (passage_index, index), text in zip(positions, texts, strict=True)
        ]
        similarities = self.compute_similarities(titled_texts)
        cosine_factor = 1.0  # to the scale for which the weights were fitted
        if self.embedder == MULTILINGUAL_EMBEDDER:
            cosine_factor = _MULTILINGUAL_COSINE_FACTOR
        elif is_english_only(self.embedder) and self.language not in (None, "english"):
            cosine_factor = _OTHER_LANGUAGE_COSINE_FACTOR
        scores, best_cosine = {}, 0.0
        for position, text, (cosine, rest_cosine) in zip(positions, texts, similarities, strict=True):
            # A sentence without a date, for example, is not near a question for a date.
            best_cosine = max(best_cosine, cosine - _UNLIKELY_DISCOUNT * features.answer_type.is_unlikely_in(text))
            values = features.compute(position)
            values |= {"cosine": cosine_factor * cosine, "rest_cosine": cosine_factor * rest_cosine}
            scores[position] = math.fsum(_WEIGHTS[name] * value for name, value in values.items())
        return SnippetScores(scores, best_cosine)

    def asks_for_field(self, snippet: Snippet) -> bool:
        """True if a snippet is a field (``Name: value``) and the question has all words of its name.

        A name without letters, such as a year, does not count.
        """
        field = FIELD_PATTERN.fullmatch(snippet.text)
        name = "" if field is None else field["name"]
        name_terms = list_terms(name, self.stem) if any(map(str.isalpha, name)) else []
        return bool(name_terms) and self.rarities.keys() >= set(name_terms)

    def list_labels(self, passage: Passage, index: int) -> list[str]:
        """Return the title, the headings and the caption of a passage above the snippet at ``index``.

        If the title is missing or only repeats the file name ("Changelog"), the file name comes first, provided that it
        has a word of the question that the snippet and its labels lack. The folder's name replaces a file name of one
        word: ``phones`` is the kind of the notes in a file, and not the subject of each note.
        """
        labels = passage.list_labels(index)
        path = PurePosixPath(passage.document)
        if passage.title and fold_text(passage.plain_title) != fold_text(path.stem):
            return labels
        names = (name.replace("-", " ").replace("_", " ") for name in (path.stem, path.parent.name))
        name = next((name for name in names if " " in name), path.parent.name)
        terms = self.list_question_terms(" ".join([*labels, passage.snippets[index].labeled_text]))
        return [name, *labels] if self.list_question_terms(name) - terms else labels

    def list_question_terms(self, text: str) -> set[str]:
        """Return the distinct terms of a text that the question has too."""
        return set(list_terms(text, self.stem)) & self.rarities.keys()

    def compute_rarity_fraction(self, terms: set[str]) -> float:
        """Return the total rarity of ``terms`` of the question, as a fraction of the total of all its terms."""
        # The sum of fsum is exact, so it does not depend on the order of the set.
        return math.fsum(self.rarities[term] for term in terms) / (math.fsum(self.rarities.values()) or 1.0)

    def _select_likeliest(
        self,
        passages: Sequence[Passage],
        candidates: list[SnippetPosition],
        snippet_terms: Mapping[SnippetPosition, set[str]],
    ) -> list[SnippetPosition]:
        """Return the positions of the ``MAX_EMBEDDED_SNIPPETS`` likeliest of the ``candidates``, in order of position.

        The estimate uses the ranks of their hits and ``snippet_terms``, the question's terms in each snippet. The
        number is limited because embedding snippets is most of the cost of an answer.
        """
        if len(candidates) <= MAX_EMBEDDED_SNIPPETS:
            return candidates

        def estimate_score(position: SnippetPosition) -> float:
            """Estimate a snippet's score by the question's terms in it and the rank of its hit, without a vector."""
            hit = get_snippet(passages, position).hit
            rank = hit.rank if hit else len(passages)
            return self.compute_rarity_fraction(snippet_terms[position]) + 1 / (1 + rank)

        likeliest = sorted(candidates, key=lambda position: (-estimate_score(position), position))
        return sorted(likeliest[:MAX_EMBEDDED_SNIPPETS])


class _SnippetFeatures:
    """Computes the features of snippets for one question, except the cosines; ``_WEIGHTS`` explains them."""

    def __init__(
        self, scorer: SnippetScorer, passages: Sequence[Passage], snippet_terms: Mapping[SnippetPosition, set[str]]
    ) -> None:
        """Compute the values that all snippets share, such as the type of answer that the question asks for.

        ``snippet_terms`` has the question's terms (stems) in each snippet, by position.
        """
        question = scorer.question
        self.answer_type = detect_answer_type(question, scorer.language)
        self._scorer = scorer
        self._passages = passages
        self._snippet_terms = snippet_terms
        self._technical_tokens = frozenset(_find_technical_tokens(question))
        #: The indexes of the passages of changelogs and indexes, unless the question asks for changes.
        self._changelogs = {
            index
            for index, passage in enumerate(() if _CHANGE_QUESTION_PATTERN.search(question) else passages)
            if _is_changelog_or_index(passage)
        }
        self._number_mismatches = _compute_number_mismatches(find_reference_numbers(question), passages)
        self._newer_versions = find_newer_versions(question, passages)
        self._newer_entries = {} if self.answer_type.name == "time" else find_newer_entries(question, passages)
        #: The question's terms in each snippet of a newer version and in its labels, by the index of the passage.
        self._labeled_terms = {
            passage_index: [
                scorer.list_question_terms(" ".join([*passages[passage_index].list_labels(index), snippet.scored_text]))
                for index, snippet in enumerate(passages[passage_index].snippets)
            ]
            for passage_index in set(chain.from_iterable(self._newer_versions.values()))
        }
        self._dates, self._counted_pattern = None, None
        self._codes: frozenset[str] = frozenset()
        vocabulary = load_question_words(scorer.language)  # None for English
        if vocabulary is not None:
            self._dates = find_date_words(question, scorer.language)
            self._codes = frozenset(CODE_PATTERN.findall(question))
            noun = vocabulary.find_asked_noun(question, self.answer_type.name)
            if noun is not None and self.answer_type.name == "number":
                self._counted_pattern = build_count_pattern(noun)
            elif noun is not None and self.answer_type.name == "person" and not capitalizes_nouns(scorer.language):
                self._counted_pattern = build_role_pattern(noun)

    def compute(self, position: SnippetPosition) -> dict[str, float]:
        """Return the features of the snippet at a position, by name: the numbers whose weighted sum is its score.

        The snippet must begin in a hit. Its cosines are added by the caller.
        """
        passage_index, index = position
        passage, snippet = self._passages[passage_index], get_snippet(self._passages, position)
        assert snippet.hit is not None
        text = snippet.labeled_text
        terms = self._snippet_terms[position]
        neighbors = (SnippetPosition(passage_index, index + step) for step in (-1, 0, 1))
        adjacent_terms = set().union(*(self._snippet_terms.get(neighbor, set()) for neighbor in neighbors))
        newer_versions = self._newer_versions.get(passage_index, [])
        newer_terms = chain.from_iterable(map(self._labeled_terms.__getitem__, newer_versions))
        is_of_other_year = bool(newer_versions) and names_version_year(self._scorer.question)
        newer_entries = self._newer_entries.get(position, [])
        untitled_terms = terms - self._scorer.list_question_terms(passage.title or "")
        features = {
            "own_terms": self._scorer.compute_rarity_fraction(terms),
            "adjacent_terms": self._scorer.compute_rarity_fraction(adjacent_terms),
            "rank": 1 / (1 + snippet.hit.rank),
            "answer_type": self.answer_type.score_match(text),
            "field": float(self._scorer.asks_for_field(snippet)),
            "number_mismatch": self._number_mismatches[passage_index],
            "outdated": float(passage_index in self._newer_versions),
            "superseded": float(is_of_other_year or (bool(terms) and any(map(terms.issubset, newer_terms)))),
            "former": float(any(untitled_terms <= self._snippet_terms[newer] for newer in newer_entries)),
            "question": float(snippet.is_question),
            "document_start": float(index == 0 and passage.is_whole_document and not snippet.cell_text),
            "changelog": float(passage_index in self._changelogs),
        }
        if self._scorer.language not in (None, "english"):
            features |= self._compute_foreign_features(position)
        if self._technical_tokens:
            features["text_tokens"] = _compute_token_fraction(self._technical_tokens, text)
            features["term_tokens"] = _compute_token_fraction(self._technical_tokens, snippet.term)
        return features

    def _compute_foreign_features(self, position: SnippetPosition) -> dict[str, float]:
        """Return the features that count only for a question in another language than English, by name."""
        passage, snippet = self._passages[position.passage_index], get_snippet(self._passages, position)
        text, language, dates = snippet.labeled_text, self._scorer.language, self._dates
        has_weekday = has_other_date = False
        if dates is not None and dates.weekdays:  # an abbreviation or a range can have the weekday
            has_weekday = not dates.weekdays.isdisjoint(find_date_words(text, language).weekdays)
        if dates is not None and (dates.weekdays or dates.months):
            labeled_text = "\n".join([*passage.list_labels(position.snippet_index), text])
            has_other_date = dates.is_contradicted_by(find_date_words(labeled_text, language))
        has_answer_type = self.answer_type.is_present_in(text)
        # Nearly every row has a number.
        can_be_named = has_answer_type and bool(snippet.cell_text) and self.answer_type.name != "number"
        cells = (field.partition(": ")[2] for field in text.split("; ") if can_be_named)
        cell_terms = (list_terms(cell, self._scorer.stem) for cell in cells if any(map(str.isalpha, cell)))
        is_fixed_form = has_answer_type and self.answer_type.name in FOREIGN_FORM_TYPES
        return {
            "counted": float(self._counted_pattern is not None and bool(self._counted_pattern.search(text))),
            "named_row": float(any(terms and self._scorer.rarities.keys() >= set(terms) for terms in cell_terms)),
            "fixed_form": float(is_fixed_form and bool(self._snippet_terms[position])),
            "weekday": float(has_weekday),
            "code": float(not self._codes.isdisjoint(CODE_PATTERN.findall(text))),
            "date_mismatch": float(has_other_date),
        }


def list_candidates(passages: Sequence[Passage], answer_type: AnswerType | None = None) -> list[SnippetPosition]:
    """Return the positions of the snippets that an answer can quote, in order: selectable ones that begin in a hit.

    Code is included only if no other snippet of its passage can be quoted. The sender and the date of a mail are
    omitted if a question with the ``answer_type`` cannot ask for them (None: they are included).
    """
    candidates = []
    for passage_index, passage in enumerate(passages):
        hit_snippets = [(index, snippet) for index, snippet in enumerate(passage.snippets) if snippet.hit is not None]
        has_selectable = any(snippet.is_selectable for _, snippet in hit_snippets)
        candidates += [
            SnippetPosition(passage_index, index)
            for index, snippet in hit_snippets
            if snippet.is_selectable or (snippet.kind == "code" and not has_selectable)
            if answer_type is None or not is_unasked_mail_field(snippet, answer_type)
        ]
    return candidates


def _find_technical_tokens(text: str) -> list[str]:
    """Return the technical tokens of a text (options, paths, calls) in order, as written, because case matters."""
    return [match.group().rstrip(".,:;?!") for match in _TOKEN_PATTERN.finditer(remove_long_runs(text))]


def _compute_token_fraction(tokens: frozenset[str], text: str) -> float:
    """Return the fraction of the technical ``tokens`` that a text has. There must be at least one token."""
    return len(tokens.intersection(_find_technical_tokens(text))) / len(tokens)


def _compute_number_mismatches(numbers: Sequence[str], passages: Sequence[Passage]) -> list[float]:
    """Return for each passage how many fewer of the reference ``numbers`` it has than the best passage.

    Such a number identifies an invoice or a version. The result is a fraction of ``numbers``: 0 for the passage with
    the most of them, and for all without ``numbers``. Numbers in the title, headings and file name of a passage count.
    """
    if not numbers:
        return [0.0] * len(passages)
    texts = [
        f"{PurePosixPath(passage.document).stem} {passage.title or ''} {passage.heading} {passage.text}"
        for passage in passages
    ]
    num_missing = [
        sum(number not in passage_numbers for number in numbers)
        for passage_numbers in map(find_reference_numbers, texts)
    ]
    return [(count - min(num_missing)) / len(numbers) for count in num_missing]


def _is_changelog_or_index(passage: Passage) -> bool:
    """True if a passage is part of a changelog or index, by its file name, title or heading ("Release notes")."""
    file_name = to_plain_text(PurePosixPath(passage.document).stem)
    return any(map(_CHANGELOG_PATTERN.fullmatch, (file_name, passage.plain_title, passage.plain_heading)))
