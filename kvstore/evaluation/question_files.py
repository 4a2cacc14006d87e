"""Questions to a store, with what a right answer holds or cites, and files of them. The *gold* documents of a question
have its answer, and its *span* is the place of the answer. A *near miss* is on the store's topic, but no document
answers it; a *foreign* question is on another topic.

In: a file of JSON lines (``question``; optionally ``answer``, ``answers``, ``document``, ``start``, ``end``, ``kind``),
or a text file with a question per line. Out: :class:`Question` objects.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from ..errors import InputError

#: The relation of a question to a store: answerable from its documents, a near miss, or foreign.
Kind = Literal["answerable", "near", "foreign"]

_NEGATION_PATTERN = re.compile(r"\b(?:not|never|no|without|cannot|none|nor)\b|n['’]t\b", re.IGNORECASE)
_WORD_PATTERN = re.compile(r"\w+")
#: The minimum number of words of a gold sentence, and the fraction of them that an answer must contain, since sentences
#: may be split differently there.
_MIN_SENTENCE_WORDS, _MIN_SENTENCE_SHARE = 8, 0.8


@dataclass(frozen=True)
class Question:
    """A question to a store.

    ``is_right`` returns True if a text contains the answer. ``gold`` are the keys of the documents that have the
    answer: all of them are needed if ``needs_all_gold``, else any of them. ``span`` is the part of the only gold
    document that contains the answer, in bytes of its text. ``is_long`` is True if the answer does not fit into one
    sentence. ``part`` names the source of the question. ``answers`` are the texts that ``is_right`` looks for; empty if
    it tests otherwise.
    """

    text: str
    kind: Kind = "answerable"
    is_right: Callable[[str], bool] = lambda text: False
    gold: frozenset[str] = frozenset()
    needs_all_gold: bool = False
    is_long: bool = False
    part: str = ""
    span: tuple[int, int] | None = None
    answers: tuple[str, ...] = ()

    @property
    def is_negated(self) -> bool:
        """True if the question has a negation."""
        return bool(_NEGATION_PATTERN.search(self.text))


def make_question(
    text: str,
    kind: Kind = "answerable",
    *,
    answers: Iterable[str] = (),
    gold: Iterable[str] = (),
    span: tuple[int, int] | None = None,
    part: str = "",
) -> Question:
    """Return a question whose right answers are the texts with the words of one of ``answers``.

    ``gold`` are the keys of the documents that have the answer. ``span`` is the place of the answer in the only one of
    these, in bytes of its text. ``part`` names the source of the question.
    """
    texts = tuple(answers)
    return Question(
        text,
        kind,
        lambda answer: any(contains_words(gold_text, answer) for gold_text in texts),
        frozenset(gold),
        part=part,
        span=span,
        answers=texts,
    )


def contains_words(gold: str, text: str) -> bool:
    """True if a text contains all words of the expected answer ``gold`` in a row or, for a sentence, 80 % of them.

    A text of at least ``_MIN_SENTENCE_WORDS`` words counts as a sentence. Case and punctuation do not matter.

    >>> contains_words("the 4th of May", "It was on the 4th of May."), contains_words("4", "It was in 1914.")
    (True, False)
    """
    gold_words, words = _WORD_PATTERN.findall(gold.lower()), _WORD_PATTERN.findall(text.lower())
    if f" {' '.join(gold_words)} " in f" {' '.join(words)} ":
        return True
    distinct_words = set(gold_words)
    is_sentence = len(gold_words) >= _MIN_SENTENCE_WORDS
    return is_sentence and len(distinct_words.intersection(words)) >= _MIN_SENTENCE_SHARE * len(distinct_words)


def read_questions(path: Path) -> list[Question]:
    """Return the questions of a file.

    Raises InputError if the file cannot be read, has no questions, or has an invalid line, which the message names.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); specify a question file") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 text ({error}); specify a question file") from error
    start = text.lstrip()
    if start.startswith("[") and _is_json(text):
        raise InputError(f'{path}: is a JSON list; write one object per line: {{"question": "...", "answer": "..."}}')
    are_objects = path.suffix in (".jsonl", ".ndjson") or start.startswith("{")
    questions = []
    for number, line in enumerate(text.split("\n"), 1):  # JSON can contain other line breaks, such as U+2028
        if line.strip():
            questions.append(_parse_line(line, f"{path}:{number}") if are_objects else make_question(line.strip()))
    if not questions:
        raise InputError(f"{path}: has no questions; write one per line, as text or as JSON")
    return questions


def _is_json(text: str) -> bool:
    """True if a text is a JSON value."""
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _parse_line(line: str, location: str) -> Question:
    """Return the question in a line of a file, which is a JSON object.

    ``location`` is the file and the number of the line, for the InputError if it is invalid. In the object, ``answer``
    and ``document`` are short for ``answers`` and ``gold`` with one text. If ``answer`` is null and there is no
    ``kind``, the question is a near miss.
    """
    try:
        row = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"{location}: is not JSON ({error}); write one object per line") from error
    if not isinstance(row, dict) or not isinstance(row.get("question"), str) or not row["question"].strip():
        raise InputError(f'{location}: has no question; write {{"question": "...", "answer": "..."}}')
    answers = [row["answer"]] if row.get("answer") else (row.get("answers") or ())
    gold = [row["document"]] if row.get("document") else (row.get("gold") or ())
    has_no_answer = "answer" in row and row["answer"] is None
    kind = row.get("kind") or ("near" if has_no_answer else "answerable")
    span = (row["start"], row["end"]) if "start" in row and "end" in row else None
    if kind not in get_args(Kind):
        raise InputError(f"{location}: the kind {kind!r} is not one of {', '.join(get_args(Kind))}")
    are_texts = all(isinstance(text, str) for text in (*answers, *gold))
    is_valid_span = span is None or (len(gold) == 1 and all(isinstance(offset, int) for offset in span))
    if not are_texts or not is_valid_span or isinstance(answers, str) or isinstance(gold, str):
        raise InputError(
            f"{location}: answers and gold must be lists of strings; start and end must be byte offsets in one document"
        )
    return make_question(
        row["question"], cast("Kind", kind), answers=answers, gold=gold, span=span, part=str(row.get("part") or "")
    )


def write_questions(path: Path, questions: Iterable[Question]) -> None:
    """Write questions to a file, which is replaced if it exists, as one JSON object per line."""
    lines = [json.dumps(_to_json_object(question), ensure_ascii=False) + "\n" for question in questions]
    path.write_text("".join(lines), encoding="utf-8")


def _to_json_object(question: Question) -> Mapping[str, Any]:
    """Return a question as an object of a JSON Lines file, without keys for missing answers, documents and spans."""
    row: dict[str, Any] = {"question": question.text, "kind": question.kind, "part": question.part}
    if question.answers:
        row["answers"] = list(question.answers)
    if question.gold:
        row["gold"] = sorted(question.gold)
    if question.span:
        row["start"], row["end"] = question.span
    return row
