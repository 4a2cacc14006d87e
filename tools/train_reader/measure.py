"""Measure a reader on held-out articles, which it was not trained on. A reader gets a question and a *window* of
sentences. It scores how likely the window answers, and finds the span of the answer.

There are two measures. One is of single windows: half of them answer, and half hold a plausible but wrong answer. The
other is of questions, each with the 24 sentences of all held-out articles that share the rarest words with it, as
behind a store.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from network import MAX_SPAN_TOKENS, Inputs, encode_examples
from rows import (
    SQUAD2_SOURCES,
    SQUAD2_SPAN_SOURCES,
    Example,
    Row,
    build_answered_example,
    build_near_miss_example,
    index_words,
    rank_by_rare_words,
)
from tokenizers import Tokenizer

_NUM_WINDOWS = 600
#: The number of questions with an answer, and without; and of sentences for each.
_NUM_QUESTIONS, _NUM_SENTENCES = 700, 24
_SHARE_ANSWERED = 0.9
_BATCH_SIZE = 256

Scores = npt.NDArray[np.float64]
#: The outputs of a reader for inputs: `answered`, `start` and `end`.
Compute = Callable[[Inputs], tuple[torch.Tensor, ...]]


class _Question(NamedTuple):
    """A question with sentences from all articles: (title and sentence, whether it contains the answer)."""

    text: str
    sentences: list[tuple[str, bool]]
    is_answerable: bool


def compute_auc(positive: Scores, negative: Scores) -> float:
    """Return the area under the ROC curve; ties count half."""
    comparisons = positive[:, None] - negative[None, :]
    return float(((comparisons > 0) + 0.5 * (comparisons == 0)).mean())


class Measurement:
    """The figures of readers on the same held-out windows and questions, which are encoded once."""

    def __init__(self, rows: list[Row], tokenizer: Tokenizer) -> None:
        """Draw windows and questions from held-out rows, always the same ones, and encode them."""
        self._windows = _draw_windows(rows)
        self._questions = _draw_questions([row for row in rows if row.source in SQUAD2_SOURCES])
        self._encoded_windows = list(encode_batches(tokenizer, self._windows))
        self._encoded_sentences = list(
            encode_batches(
                tokenizer,
                [
                    Example(question.text, text, answered=False, spans=[])
                    for question in self._questions
                    for text, _ in question.sentences
                ],
            )
        )

    @torch.no_grad()
    def measure(self, compute: Compute) -> dict[str, float]:
        """Return the figures of a reader, given the function that computes its outputs.

        `window_auc` and `exact_match` are measured on single windows. The others choose the best window of all
        articles, as a store does: `auc` is the area under the ROC curve of the scores of best windows, for questions
        with an answer against those without; `refused` is the share of the latter that are refused if 90 % of the
        former are answered, and `first` the share of the former whose best window contains the answer.
        """
        scores = np.zeros(len(self._windows))
        matches = []
        for ordinals, inputs in self._encoded_windows:
            answered, start, end = (output.float().cpu() for output in compute(inputs))
            scores[ordinals] = answered.numpy()
            spans = _find_spans(start, end)
            matches += [span in targets for span, targets in zip(spans, inputs.targets, strict=True) if targets]
        is_answered = np.array([example.answered for example in self._windows])
        window_auc = compute_auc(scores[is_answered], scores[~is_answered])
        return {"window_auc": window_auc, "exact_match": float(np.mean(matches)), **self._measure_questions(compute)}

    def _measure_questions(self, compute: Compute) -> dict[str, float]:
        """Return the figures of whole questions, each with the score of its best sentence."""
        scores = np.zeros(sum(len(ordinals) for ordinals, _ in self._encoded_sentences))
        for ordinals, inputs in self._encoded_sentences:
            scores[ordinals] = compute(inputs)[0].float().cpu().numpy()
        best_scores, is_first_right, start = [], [], 0
        for question in self._questions:
            question_scores = scores[start : start + len(question.sentences)]
            start += len(question.sentences)
            best_scores.append(question_scores.max())
            if question.is_answerable:
                is_first_right.append(question.sentences[int(question_scores.argmax())][1])
        is_answerable = np.array([question.is_answerable for question in self._questions])
        return compute_question_figures(np.array(best_scores), is_answerable, is_first_right)


def compute_question_figures(
    best_scores: Scores, is_answerable: npt.NDArray[np.bool_], is_first_right: list[bool]
) -> dict[str, float]:
    """Return `auc`, `refused` and `first`, from the score of the best window of each question.

    `is_first_right` is True for each answerable question whose best window contains the answer.
    """
    threshold = np.quantile(best_scores[is_answerable], 1 - _SHARE_ANSWERED)
    return {
        "auc": compute_auc(best_scores[is_answerable], best_scores[~is_answerable]),
        "refused": float((best_scores[~is_answerable] < threshold).mean()),
        "first": float(np.mean(is_first_right)),
    }


def _draw_windows(rows: list[Row]) -> list[Example]:
    """Return fixed windows of SQuAD 2.0: half are answered, half are near misses with the plausible words."""
    rng = random.Random("evaluation")
    rows = [row for row in rows if row.source in SQUAD2_SPAN_SOURCES]
    answered_rows = [row for row in rows if row.answers]
    near_miss_rows = [row for row in rows if row.plausible]
    rng.shuffle(answered_rows)
    rng.shuffle(near_miss_rows)
    answered = [example for row in answered_rows if (example := build_answered_example(row, rng)) and example.spans]
    near_misses = [build_near_miss_example(row, rng, share_plausible=1.0)[0] for row in near_miss_rows]
    return answered[: _NUM_WINDOWS // 2] + near_misses[: _NUM_WINDOWS // 2]


def _draw_questions(rows: list[Row]) -> list[_Question]:
    """Return the same questions each time, with the sentences of all articles that share the rarest words with them.

    Questions with an answer are first; a question that shares no word with any sentence is omitted.
    """
    rng = random.Random("store")
    titles = {row.passage: row.title for row in rows}
    spans = {row.passage: row.sentences for row in rows}
    sentences = [(passage[start:end], titles[passage]) for passage in titles for start, end in spans[passage]]
    indexes_by_word = index_words([f"{title} {sentence}" for sentence, title in sentences])
    answerable = [row for row in rows if row.answers and row.source in SQUAD2_SPAN_SOURCES]
    near_misses = [row for row in rows if not row.answers]
    rng.shuffle(answerable)
    rng.shuffle(near_misses)
    questions = []
    for row in answerable[:_NUM_QUESTIONS] + near_misses[:_NUM_QUESTIONS]:
        best_indexes = rank_by_rare_words(row.question, indexes_by_word, len(sentences))[:_NUM_SENTENCES]
        answers = [row.passage[start:end].lower() for start, end in row.answers]
        windows = [
            (f"{title}. {sentence}", any(answer in sentence.lower() for answer in answers))
            for sentence, title in (sentences[index] for index in best_indexes)
        ]
        if windows:
            questions.append(_Question(row.question, windows, bool(row.answers)))
    return questions


def encode_batches(tokenizer: Tokenizer, examples: list[Example]) -> Iterator[tuple[list[int], Inputs]]:
    """Yield the inputs of examples in batches of similar length, each with the ordinals of its examples."""
    indexes_by_length = sorted(
        range(len(examples)), key=lambda index: len(examples[index].question + examples[index].window)
    )
    for start in range(0, len(indexes_by_length), _BATCH_SIZE):
        ordinals = indexes_by_length[start : start + _BATCH_SIZE]
        yield ordinals, encode_examples(tokenizer, [examples[index] for index in ordinals])


def _find_spans(start: torch.Tensor, end: torch.Tensor) -> list[tuple[int, int]]:
    """Return the first and last token of the likeliest answer in each window, from the logits of all tokens."""
    length = start.shape[1]
    # A span begins at or before its last token, and has at most MAX_SPAN_TOKENS.
    is_span = torch.ones(length, length, dtype=torch.bool).triu().tril(MAX_SPAN_TOKENS - 1)
    span_logits = (start[:, :, None] + end[:, None, :]).masked_fill(~is_span, -1e9)
    return [divmod(flat_index, length) for flat_index in span_logits.flatten(1).argmax(1).tolist()]
