"""Questions about folders of invented documents, with the windows that kvstore selects for them. A *window* is a
sentence, list item or table row after its title and headings. A *near miss* is a question that no document answers.

    python tools/train_reader/folder_questions.py STORE QUESTIONS >> folders.jsonl

In: a store, and a file with a question per line: ``{"q": …, "quote": …, "answer": …}``, with the text that answers
(or a list of texts) and its words that answer, or ``{"q": …, "near": …}`` for a near miss. Out: a line for the folder:
its distinct windows, and for each question the windows that answer, each with the characters that answer if they are
known, and up to ``_MAX_OTHERS`` others, the likeliest by the installed reader first. A window that may answer, because
it has the words of the answer, is left out.

``tools/everyday_questions/folders.jsonl.xz`` has such lines for folders of different organizations. Most questions
share at most one content word with the text that answers: everyday words for official ones, or a situation for a rule.
"""

from __future__ import annotations

import json
import lzma
import random
import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import click
from rows import MAX_SPAN_CHARACTERS, DrawnExamples, Example, Span, vary_form

import kvstore
from kvstore.answering.answer_reader import reading
from kvstore.answering.answer_reader.reader import load_reader
from kvstore.answering.answer_reader.windows import Window

#: The numbers of answered questions and of near misses of a batch, and of other windows for each of them.
_NUM_ANSWERED, _NUM_NEAR_MISSES, _NUM_OTHERS, _NUM_OTHERS_OF_NEAR_MISS = 26, 16, 3, 2
#: The mean rank of the other windows that are drawn by rank, and the share of these; the rest are any of the question.
_MEAN_RANK, _RANKED_SHARE = 4, 0.8
_MAX_OTHERS = 16
#: The least share of the words of a text that the other text has if both say the same.
_SAME_SHARE = 0.85


class FolderQuestion(NamedTuple):
    """A question, the windows that answer it, each with its spans that answer, and others, the likeliest first."""

    text: str
    answers: list[tuple[str, list[Span]]]
    others: list[str]


class FolderQuestions:
    """The questions of all folders. Near misses include answered questions whose answers kvstore does not read."""

    def __init__(self, path: Path) -> None:
        """Read a file with a folder per line."""
        self._answered: list[FolderQuestion] = []
        self._near_misses: list[FolderQuestion] = []
        #: The questions that a window answers, each with its spans.
        self._by_window: dict[str, list[tuple[str, list[Span]]]] = defaultdict(list)
        with lzma.open(path, "rt", encoding="utf-8") as file:
            for folder in map(json.loads, file):
                for text, answers, others in folder["questions"]:
                    windows = [(folder["windows"][window], [tuple(span)] if span else []) for window, span in answers]
                    question = FolderQuestion(text, windows, [folder["windows"][window] for window in others])
                    (self._answered if windows else self._near_misses).append(question)
                    for window, spans in windows:
                        self._by_window[window].append((text, spans))

    def draw_examples(self, rng: random.Random) -> DrawnExamples:
        """Return examples of random questions, with the pairs to distinguish and the groups to choose from.

        A near miss is paired with a question that one of its windows answers, if there is one.
        """
        drawn = DrawnExamples([], [], [])
        for question in rng.choices(self._answered, k=_NUM_ANSWERED):
            window, spans = rng.choice(question.answers)
            examples = [Example(question.text, window, answered=True, spans=spans)]
            examples += _build_others(question, _NUM_OTHERS, rng)
            start = len(drawn.examples)
            drawn.groups.append(list(range(start, start + len(examples))))
            drawn.examples.extend(vary_form(examples, "", rng))
        for question in rng.choices(self._near_misses, k=_NUM_NEAR_MISSES):
            examples = _build_others(question, _NUM_OTHERS_OF_NEAR_MISS, rng)
            start = len(drawn.examples)
            paired = next((index for index, example in enumerate(examples) if example.window in self._by_window), None)
            if paired is not None:
                window = examples[paired].window
                text, spans = rng.choice(self._by_window[window])
                drawn.pairs.append((start + len(examples), start + paired))
                examples.append(Example(text, window, answered=True, spans=spans))
            drawn.examples.extend(vary_form(examples, "", rng))
        return drawn


def _build_others(question: FolderQuestion, count: int, rng: random.Random) -> list[Example]:
    """Return examples of a question with up to ``count`` windows that do not answer it; most of them seem to."""
    drawn: list[str] = []
    while len(drawn) < min(count, len(question.others)):
        is_ranked = rng.random() < _RANKED_SHARE
        rank = int(rng.expovariate(1 / _MEAN_RANK)) if is_ranked else rng.randrange(len(question.others))
        window = question.others[min(rank, len(question.others) - 1)]
        if window not in drawn:
            drawn.append(window)
    return [Example(question.text, window, answered=False, spans=[]) for window in drawn]


def build_folder(store: kvstore.Store, records: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the line of a folder: the distinct windows of all questions, and the questions."""
    reader = load_reader()
    assert reader is not None
    ordinals: dict[str, int] = {}
    questions = []
    for record in records:
        question, windows = _select_windows(store, record["q"])
        quotes = record.get("quote", [])
        quotes = [quotes] if isinstance(quotes, str) else quotes
        answers, others = [], []
        for window in windows:
            if _is_answering(window, quotes, record.get("answer", "")):
                start = window.text.find(record["answer"], window.offset)
                is_phrase = start >= 0 and len(record["answer"]) <= MAX_SPAN_CHARACTERS
                span = [start, start + len(record["answer"])] if is_phrase else []
                answers.append([ordinals.setdefault(window.text, len(ordinals)), span])
            elif not (quotes and _measure_coverage(record["answer"], window.text) == 1):
                others.append(window.text)
        logits = [output.logit for output in reader.read(question, others)]
        ranked = sorted(range(len(others)), key=lambda index: -logits[index])[:_MAX_OTHERS]
        rows = [ordinals.setdefault(others[index], len(ordinals)) for index in ranked]
        questions.append([question, answers, rows])
    return {"windows": list(ordinals), "questions": questions}


def _select_windows(store: kvstore.Store, text: str) -> tuple[str, list[Window]]:
    """Return the question as the reader gets it, and the windows from which those to read are chosen."""
    selected: list[Window] = []
    select = reading.select_windows

    def select_and_keep(*arguments: Any) -> list[Window]:
        """Select windows, and keep them."""
        selected.extend(select(*arguments))
        return selected

    with mock.patch.object(reading, "select_windows", select_and_keep):
        store.ask(text)
    return reading.find_asking_sentence(text), selected


def _is_answering(window: Window, quotes: list[str], answer: str) -> bool:
    """True if the snippet of a window has most words of a quote, or is a part of a quote with the answer."""
    snippet = window.text[window.offset :]
    return any(
        _measure_coverage(quote, snippet) >= _SAME_SHARE
        or (_measure_coverage(snippet, quote) >= _SAME_SHARE and _measure_coverage(answer, snippet) == 1)
        for quote in quotes
    )


def _measure_coverage(text: str, other: str) -> float:
    """Return the share of the words of a text that another text has."""
    words, other_words = (re.findall(r"[^\W_]+", value.lower()) for value in (text, other))
    distinct_words = set(other_words)
    return sum(word in distinct_words for word in words) / max(1, len(words))


@click.command()
@click.argument("store_folder", metavar="STORE", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("questions", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def main(store_folder: Path, questions: Path) -> None:
    """Print the line of a folder: QUESTIONS with the windows that kvstore reads in STORE."""
    with kvstore.open(store_folder) as store:
        records = map(json.loads, questions.read_text(encoding="utf-8").splitlines())
        print(json.dumps(build_folder(store, records), ensure_ascii=False))


if __name__ == "__main__":
    main()
