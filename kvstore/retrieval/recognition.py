"""The entities that a question names (*recognition*), and the parts that their names divide it into (*decomposition*).
The *key* of an entity is its name in normal form (case-folded). An *identity* is an entity with all its names. The
*remainder* is the question without names.

Entity recognition: every word n-gram of the question is looked up in the filter, and matches are confirmed exactly. In:
a query. Out: its entities, with the spans that name them; the longest match wins. Names of the same entity count as
one, and function words never match. Strategies that follow names over several steps use only names that the question
capitalizes: "evening" is seldom the film.

Decomposition: which names the question compares, and what it asks about them. In: a question and the entities
recognized in it. Out: a :class:`Decomposition`. No model is used. Two names joined by "or" are compared ("Which film
came out first, A or B?"). Two names joined by "and" are compared if the question can only be about both ("Are A and B
from the same country?"). The remainder ("Where was the composer of film born?") describes the chunks at the end of a
chain, which may not contain any name from the question.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..process.frozen_dataclass import frozen_dataclass
from ..structures.filter.entity_filter import Matches, select_longest_matches
from ..structures.names.aliases import Identity
from ..structures.read_requests import ReadRequest
from ..structures.state import State
from ..text.normalize import FoldedText, fold
from ..text.patterns import compile_lazily
from ..text.words import FUNCTION_WORDS, split_words
from .evidence import StepNotes
from .query import Query


@frozen_dataclass
class QuestionEntity:
    """An entity recognized in a question.

    ``key`` is the normal form of its name, ``count`` the number of places in documents and trees that name it, and
    ``spans`` are the byte ranges of its mentions in the question.
    """

    key: str
    identity: Identity
    count: int
    spans: tuple[tuple[int, int], ...]


class RecognitionRequest(ReadRequest[list[QuestionEntity]]):
    """A request for the distinct entities that a question names, the rarest first.

    ``capitalized_only`` selects only names with a capital or a digit, if the question has any.
    """

    question: str
    capitalized_only: bool = False

    def fetch(self, state: State) -> list[QuestionEntity]:
        """Return the entities that the question names, the rarest first.

        An entity is rare if few places in documents and trees name it. Entities that no place names, and function
        words, are omitted. With ``capitalized_only``, so are names without a capital or digit if others have one.
        """
        folded = fold(self.question)  # the normal form, which maps its offsets to those of the question
        matches = state.filter.recognize(folded, state.settings.name_words)
        if self.capitalized_only:
            matches = _filter_capitalized(self.question, folded, matches)
        matches = select_longest_matches(matches)
        identities: dict[str, Identity] = {}
        spans: dict[str, list[tuple[int, int]]] = {}
        for start, end in zip(matches.start.tolist(), matches.end.tolist(), strict=True):
            key = " ".join(folded.data[start:end].decode().split())
            identity = None if key in FUNCTION_WORDS else state.resolve(key)  # the entity with all its names
            if identity is not None:
                identities[identity.key] = identity
                spans.setdefault(identity.key, []).append(folded.to_original_span(start, end))
        entities = []
        for key, identity in identities.items():
            # Names of the same entity can share places (addresses), so their counts cannot be added.
            has_one_name = len(identity.names) == 1
            count = identity.entry.count if has_one_name else len(state.find_addresses(identity))
            if count:
                entities.append(QuestionEntity(key, identity, count, tuple(spans[key])))
        return sorted(entities, key=lambda entity: (entity.count, entity.key))


class EntityKeyRequest(ReadRequest[dict[int, str]]):
    """A request for the keys (normal forms of the names) of ``entities``, given by their ids."""

    entities: Sequence[int]

    def fetch(self, state: State) -> dict[int, str]:
        """Return the key of each requested entity, by entity id."""
        records = state.entities.get_many(self.entities)
        return {entity: record.key for entity, record in zip(self.entities, records, strict=True)}


def recognize_entities(query: Query) -> list[QuestionEntity]:
    """Return the entities that the question names, the rarest first; only capitalized names, if it has any.

    An entity is rare if few places in documents and trees name it. A name with a digit counts as capitalized. The step
    is recorded in the trace, and a lookup of each entity is counted in the store.
    """
    with query.trace.step("recognize entities") as step:
        entities = query.reading.fetch(RecognitionRequest(query.question, capitalized_only=True))
        record_recognized_entities(query, entities, step)
    return entities


def record_recognized_entities(query: Query, entities: Sequence[QuestionEntity], step: StepNotes) -> None:
    """Describe the recognized ``entities`` in the notes of a step, and count a lookup of each in the store.

    The number of lookups of an entity is its temperature in CFT-RAG (section 3).
    """
    query.count_lookups(entity.key for entity in entities)
    step.detail = ", ".join(f"{entity.key} ({entity.count})" for entity in entities) or "none known"
    step.count = len(entities)


def is_written_as_name(question: str, entity: QuestionEntity, allow_phrases: bool) -> bool:
    """True if a question writes a recognized ``entity`` as a name: with a capital or a digit.

    The capital of a function word at the start of the question does not count. In a question without capitals, a name
    needs a digit after its first character or, if ``allow_phrases``, several words.
    """
    encoded_question = question.encode()
    written_names = [encoded_question[start:end].decode() for start, end in entity.spans]
    has_capitals = any(character.isupper() for character in question.lstrip()[1:])
    for name in written_names:
        words = split_words(name)
        begins_with_function_word = bool(words) and words[0] in FUNCTION_WORDS
        is_sentence_capital = begins_with_function_word and question.lstrip().startswith(name)
        ignores_first = not has_capitals or is_sentence_capital
        is_long_phrase = not has_capitals and allow_phrases and len(words) > 1
        if is_long_phrase or _has_capital_or_digit(name[1:] if ignores_first else name):
            return True
    return False


def _filter_capitalized(question: str, folded: FoldedText, matches: Matches) -> Matches:
    """Return the matches of names that the question writes with a capital or a digit.

    Returns all matches if there are no such names, or if the question has no capital after its first letter. ``folded``
    is the normal form of the question, in which matches are spans; it maps these to spans of the question.
    """
    if not any(character.isupper() for character in question.lstrip()[1:]):
        return matches
    encoded_question = question.encode()
    spans = map(folded.to_original_span, matches.start.tolist(), matches.end.tolist())
    is_capitalized = [_has_capital_or_digit(encoded_question[start:end].decode()) for start, end in spans]
    mask: npt.NDArray[np.bool_] = np.array(is_capitalized, np.bool_)
    return Matches(matches.start[mask], matches.end[mask], matches.entity[mask]) if mask.any() else matches


def _has_capital_or_digit(text: str) -> bool:
    """True if a text contains a capital or a digit."""
    return any(character.isupper() or character.isdigit() for character in text)


#: The text between two compared names.
_CONJUNCTION_PATTERN = compile_lazily(
    r"[\W_]*\b(?P<word>or|and)\b(?:\s+(?:the|a|an|is|was|does|did|do|films?|movies?|songs?))*[\W_]*", re.I
)
_YES_NO_PATTERN = compile_lazily(
    r"\W*(?:are|is|am|did|do|does|were|was|have|has|had|can|could|will|would)\b", re.IGNORECASE
)
_BOTH_PATTERN = compile_lazily(r"\b(?:both|same|common|share)\b", re.IGNORECASE)


class Decomposition(NamedTuple):
    """The parts of a question.

    ``compared_keys`` are the keys of the entities that the question compares with each other. ``remainder`` is the
    question without its names, or the whole question if it consists of names only.
    """

    compared_keys: tuple[str, ...]
    remainder: str

    def __str__(self) -> str:
        """Return the text that EXPLAIN shows."""
        remainder_text = f"asks {self.remainder!r}"
        return f"compares {', '.join(self.compared_keys)}; {remainder_text}" if self.compared_keys else remainder_text


def decompose(question: str, entities: Sequence[QuestionEntity]) -> Decomposition:
    """Return the names that a question compares, and the question without any recognized name (``remainder``).

    ``entities`` are the recognized names. Two names joined by "or" are compared. Two names joined by "and" are compared
    only in a yes/no question, or in a question with a word such as "both" or "same". If no words remain, the remainder
    is the whole question.
    """
    encoded_question = question.encode()  # the spans of entities are in bytes
    name_spans = sorted((start, end, entity.key) for entity in entities for start, end in entity.spans)
    compares_by_and = _YES_NO_PATTERN.match(question) or _BOTH_PATTERN.search(question)
    compared_keys: list[str] = []
    remainder_parts: list[bytes] = []
    last_end, last_key = 0, None
    for start, end, key in name_spans:
        text_between = encoded_question[last_end:start]
        remainder_parts.append(text_between)
        conjunction = _CONJUNCTION_PATTERN.fullmatch(text_between.decode())
        if last_key is not None and conjunction and (compares_by_and or conjunction["word"].lower() == "or"):
            compared_keys += [last_key, key]
        last_end, last_key = end, key
    remainder_parts.append(encoded_question[last_end:])
    remainder = " ".join(b" ".join(remainder_parts).decode().split())
    has_word = any(character.isalnum() for character in remainder)
    return Decomposition(tuple(dict.fromkeys(compared_keys)), remainder if has_word else question)


def decompose_question(query: Query, names: Sequence[QuestionEntity]) -> Decomposition:
    """Return the names that the question compares, and the question without names; record the step in the trace.

    ``names`` are the recognized entities in the question.
    """
    with query.trace.step("decompose question") as step:
        parts = decompose(query.question, names)
        step.detail, step.count = str(parts), len(names)
    return parts
