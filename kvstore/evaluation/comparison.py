"""Compare strategies and settings of a store on questions, and say which setting is better. An *outcome* is an asked
question, with its hits and its answer. The *gold* documents of a question have its answer; a question that is not
*answerable* has none.

In: a store and questions. Out: an :class:`EvaluationReport`: the figures of each strategy, of the reranker, of values
of ``least_confidence`` and of chunk sizes (in temporary stores of a sample of the documents). A better setting is
chosen on one half of the questions, and its gain is reported on the other half, with a 95 % interval.
"""

from __future__ import annotations

import math
import statistics
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import InputError
from .asked_questions import AskedQuestion, ask_questions, compute_interval, compute_metrics
from .question_files import Question
from .question_making import make_questions

if TYPE_CHECKING:
    from ..store.store import Store

#: Strategies that are compared by default: strategies that need no index, except for overviews and trees.
DEFAULT_STRATEGIES = ("adaptive", "hybrid", "vector", "lexical", "bridge", "graph", "hipporag", "sprag")
#: The columns of a report, with their keys in the metrics.
COLUMNS = {
    "hit@1": "hit@1",
    "hit@3": "hit@3",
    "hit@8": "hit@8",
    "answered": "answered",
    "right": "right_all",
    "refused": "near_refused",
}
_THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
_RERANKERS = ("none", "combination")
_MAX_SAMPLE_DOCUMENTS = 100
#: The range of chunk sizes that are tried.
_MIN_CHUNK_TOKENS, _MAX_CHUNK_TOKENS = 16, 2000

#: A function that is called with a label of the compared setting, the number of questions asked, and of all questions.
EvaluationProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class ReportRow:
    """The metrics of one value of a setting: fractions from 0 to 1, and the median time of an answer in milliseconds.

    ``compared`` is the setting that differs between the rows of a group: ``strategy``, ``reranker``,
    ``least_confidence`` or ``chunk_tokens``. ``name`` is its value. A metric without questions is None. ``is_current``
    is True for the value that the store uses now.
    """

    compared: str
    name: str
    figures: Mapping[str, float | None]
    ms: float | None
    is_current: bool = False


@dataclass(frozen=True)
class Advice:
    """Advice to change the setting ``compared``, such as ``reranker``, from the value ``current`` to ``name``.

    ``gain`` is how much better its score is on questions that were not used to choose it, and ``low`` to ``high`` is
    the 95 % interval of the gain.
    """

    compared: str
    name: str
    current: str
    gain: float
    low: float
    high: float

    @property
    def is_certain(self) -> bool:
        """True if the whole interval of the gain is above 0."""
        return self.low > 0

    def __str__(self) -> str:
        """Return the advice as a sentence."""
        gain = f"{self.gain:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"
        if self.is_certain:
            return f"{self.compared}: {self.name} is better than {self.current}: {gain}"
        return f"{self.compared}: keep {self.current}; {self.name} is not significantly better: {gain}"


@dataclass(frozen=True)
class EvaluationReport:
    """The questions, the rows of all compared settings, and advice on settings that may be better.

    ``counts`` is the number of questions of each kind. ``missing_documents`` are the keys of gold documents that the
    store does not have, so that no hit can count.
    """

    store: str
    questions: Sequence[Question]
    rows: Sequence[ReportRow]
    advice: Sequence[Advice]
    counts: Mapping[str, int] = field(default_factory=dict)
    missing_documents: Sequence[str] = ()

    @property
    def current(self) -> ReportRow:
        """The row of the strategy that the store uses by default."""
        return next(row for row in self.rows if row.compared == "strategy" and row.is_current)

    def to_dict(self) -> dict[str, Any]:
        """Return the report without its questions, for JSON."""
        rows = [asdict(row) for row in self.rows]
        advice = [{**asdict(advice), "is_certain": advice.is_certain, "text": str(advice)} for advice in self.advice]
        return {
            "store": self.store,
            "questions": dict(self.counts),
            "missing_documents": list(self.missing_documents),
            "rows": rows,
            "advice": advice,
        }


def evaluate_store(
    store: Store,
    questions: Sequence[Question] | None = None,
    *,
    strategies: Sequence[str] = (),
    limit: int = 100,
    model: str = "none",
    compare_chunk_sizes: bool = True,
    progress: EvaluationProgress = lambda label, done, total: None,
) -> EvaluationReport:
    """Measure a store on questions. By default, :func:`make_questions` makes them from its documents.

    ``strategies`` (default: :data:`DEFAULT_STRATEGIES`) are compared with the current strategy, and ``limit`` is the
    maximum number of questions that are made. ``model`` is the language model of :meth:`kvstore.Store.ask`. Without
    ``compare_chunk_sizes``, no temporary stores with other chunk sizes are built. Raises InputError if a strategy is
    unknown or lacks its index, or if no question can be made from the documents. ``progress`` is called after each
    question.
    """
    if questions is None:
        questions = make_questions(store, limit)
        if not questions:
            raise InputError(
                f"{store.path}: no questions can be generated from its documents; ingest more documents, or specify a "
                "question file"
            )
    current_settings = {name: value for name, value, _ in store.settings_table()}
    strategy, reranker = str(current_settings["strategy"]), str(current_settings["reranker"])
    threshold = float(current_settings["least_confidence"])
    outcomes_by_strategy = {
        name: _ask_with_progress(store, questions, f"strategy {name}", progress, using=name, model=model)
        for name in dict.fromkeys([strategy, *(strategies or DEFAULT_STRATEGIES)])
    }
    current_outcomes = outcomes_by_strategy[strategy]
    outcomes_by_reranker = {reranker: current_outcomes} | {
        name: _ask_with_progress(store, questions, f"reranker {name}", progress, model=model, reranker=name)
        for name in _RERANKERS
        if name != reranker
    }
    # The threshold only decides which answers are shown, so nothing is asked again. An answer that was refused has no
    # text, so a lower threshold counts it as answered but not as right.
    outcomes_by_threshold = {
        f"{value}": [replace(outcome, answered=outcome.confidence >= value) for outcome in current_outcomes]
        for value in sorted({*_THRESHOLDS, threshold})
    }
    outcomes_by_size = _ask_with_other_chunk_sizes(store, questions, model, progress) if compare_chunk_sizes else {}
    return _build_report(
        store,
        questions,
        [
            _Comparison("strategy", strategy, outcomes_by_strategy),
            _Comparison("reranker", reranker, outcomes_by_reranker),
            _Comparison("least_confidence", f"{threshold}", outcomes_by_threshold),
            _Comparison("chunk_tokens", f"{store.settings.chunk_tokens}", outcomes_by_size),
        ],
    )


class _Comparison(NamedTuple):
    """A setting whose values are compared, its current value, and the outcomes of the questions by value."""

    setting: str
    current: str
    outcomes_by_name: Mapping[str, Sequence[AskedQuestion]]


def _build_report(store: Store, questions: Sequence[Question], comparisons: Iterable[_Comparison]) -> EvaluationReport:
    """Return the report on a store: a row of metrics for each value of each compared setting, and advice on these."""
    rows: list[ReportRow] = []
    advice: list[Advice] = []
    for setting, current, outcomes_by_name in comparisons:
        rows += [
            _build_row(setting, name, outcomes, is_current=name == current)
            for name, outcomes in outcomes_by_name.items()
        ]
        compute_scores = _SCORES[setting]
        scores_by_name = {name: compute_scores(outcomes) for name, outcomes in outcomes_by_name.items()}
        setting_advice = _build_advice(setting, current, scores_by_name)
        if setting_advice is not None:
            advice.append(setting_advice)
    kinds = [question.kind for question in questions]
    counts: dict[str, int] = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
    gold = {key for question in questions for key in question.gold}
    missing_documents = sorted(key for key in gold if key not in store)
    return EvaluationReport(
        store=str(store.path),
        questions=questions,
        rows=rows,
        advice=advice,
        counts=counts,
        missing_documents=missing_documents,
    )


def _ask_with_progress(
    store: Store, questions: Sequence[Question], label: str, progress: EvaluationProgress, **clauses: Any
) -> list[AskedQuestion]:
    """Ask a store the questions, and return the outcomes.

    After each question, ``progress`` is called with ``label``, the setting that is compared, and with the
    number of questions asked so far and in total. ``clauses`` are the other arguments of :func:`ask_questions`.
    """

    return ask_questions(store, questions, lambda num_asked: progress(label, num_asked, len(questions)), **clauses)


def _build_row(setting: str, name: str, outcomes: Sequence[AskedQuestion], is_current: bool = False) -> ReportRow:
    """Return a report row with the metrics of one value, ``name``, of a ``setting`` such as ``reranker``.

    ``is_current`` marks the value that the store uses now.
    """
    metrics = compute_metrics(outcomes) if outcomes else {}
    has_expected_answers = any(outcome.question.gold or outcome.question.answers for outcome in outcomes)
    if not has_expected_answers:  # no answer can be judged
        metrics.pop("right_all", None)
    ms = round(statistics.median(outcome.ms for outcome in outcomes), 1) if outcomes else None
    metrics_by_column = {column: metrics.get(key) for column, key in COLUMNS.items()}
    return ReportRow(compared=setting, name=name, figures=metrics_by_column, ms=ms, is_current=is_current)


def _score_correctness(outcomes: Sequence[AskedQuestion]) -> list[float]:
    """Return a score for each answerable question, in order: 1 if it was answered right, else 0.

    A question without gold documents (those that have the answer) and without answer texts counts as answered right if
    it was answered at all.
    """
    scores = []
    for outcome in outcomes:
        if outcome.question.kind == "answerable":
            has_expected_answer = bool(outcome.question.gold or outcome.question.answers)
            scores.append(float(outcome.answered and (outcome.is_right or not has_expected_answer)))
    return scores


def _score_hits(outcomes: Sequence[AskedQuestion]) -> list[float]:
    """Return a score for each answerable question, in order: 1 / the rank of the first hit with the answer, else 0.

    A question without gold documents (those that have the answer) has the score of :func:`_score_correctness`.
    """
    answerable = [outcome for outcome in outcomes if outcome.question.kind == "answerable"]
    return [
        outcome.reciprocal_rank if outcome.question.gold else score
        for outcome, score in zip(answerable, _score_correctness(outcomes), strict=True)
    ]


def _score_answer_decisions(outcomes: Sequence[AskedQuestion]) -> list[float]:
    """Return a score for each question, in order: 0 if it was wrongly answered or wrongly refused, else its weight.

    A question should be refused if it has no answer. Questions with and without an answer have the same total weight.
    """
    is_answerable = [outcome.question.kind == "answerable" for outcome in outcomes]
    # The weights of an answerable question (True) and of any other question (False).
    weights = {value: len(outcomes) / (2 * max(1, is_answerable.count(value))) for value in (True, False)}
    return [
        weights[should_answer] if outcome.answered == should_answer else 0.0
        for outcome, should_answer in zip(outcomes, is_answerable, strict=True)
    ]


#: The score by which the values of each setting are compared. On folders with hand-made questions, the order of
#: strategies by hits agreed better than the order by right answers, and ranks have fewer ties than shares of hits.
_SCORES = {
    "strategy": _score_hits,
    "reranker": _score_hits,
    "least_confidence": _score_answer_decisions,
    "chunk_tokens": _score_correctness,
}


def _build_advice(setting: str, current: str, scores: Mapping[str, Sequence[float]]) -> Advice | None:
    """Return advice to change a ``setting`` such as ``reranker``; None if the ``current`` value is the best.

    ``scores`` maps each value to a score for each question. The best value is chosen on the questions at even
    positions, and its gain is measured on the questions at odd positions. Also returns None without questions at odd
    positions.
    """
    even_positions, odd_positions = slice(0, None, 2), slice(1, None, 2)
    totals = {name: math.fsum(values[even_positions]) for name, values in scores.items()}
    # If another value has the same score, the current one is kept.
    best_name = max(totals, key=lambda name: (totals[name], name == current), default=current)
    if best_name == current:
        return None
    gains = np.array(scores[best_name][odd_positions]) - np.array(scores[current][odd_positions])
    if not len(gains):
        return None
    low, high = compute_interval(gains)
    return Advice(
        setting, best_name, current, gain=round(float(gains.mean()), 3), low=round(low, 3), high=round(high, 3)
    )


def _ask_with_other_chunk_sizes(
    store: Store, questions: Sequence[Question], model: str, progress: EvaluationProgress
) -> dict[str, list[AskedQuestion]]:
    """Ask temporary stores with the current chunk size, half of it and twice it, and return the outcomes by chunk size.

    The stores have a sample of the documents. Only questions whose gold documents (those that have the answer) are in
    the sample are asked. ``model`` is the language model that answers. The result is empty if the embedder is a server
    or missing, or if no question remains.
    """
    from ..store.opening import open_store

    # The settings that a new store does not choose by itself.
    settings = {
        name: value
        for name, value in asdict(store.settings).items()
        if name not in ("embedder", "dimension", "weights", "chunk_tokens", "tokenizer", "hash_seed")
    }
    gold_keys = dict.fromkeys(key for question in questions for key in sorted(question.gold))
    sample = list(dict.fromkeys([*gold_keys, *store.keys(limit=_MAX_SAMPLE_DOCUMENTS)]))[:_MAX_SAMPLE_DOCUMENTS]
    sample_questions = [question for question in questions if question.gold and question.gold <= set(sample)]
    if not sample_questions or store.settings.embedder.startswith(("openai:", "none:")):
        return {}
    current_size = store.settings.chunk_tokens
    sizes = {max(_MIN_CHUNK_TOKENS, current_size // 2), current_size, min(_MAX_CHUNK_TOKENS, 2 * current_size)}
    outcomes = {}
    with tempfile.TemporaryDirectory(prefix="kvstore-evaluate-") as scratch:
        for tokens in sorted(sizes):
            options = {**settings, "chunk_tokens": tokens}
            with open_store(Path(scratch) / str(tokens), embedder=store.embedder, settings=options) as other:
                _copy_documents(store, other, sample)
                outcomes[str(tokens)] = _ask_with_progress(
                    other, sample_questions, f"chunk_tokens {tokens}", progress, model=model
                )
    return outcomes


def _copy_documents(store: Store, other: Store, keys: Sequence[str]) -> None:
    """Put the documents of ``store`` with these keys into the store ``other``, in one transaction."""
    with other.transaction() as transaction:
        for key in keys:
            document = store.get(key)
            if document is not None:
                transaction.put(key, document.text, title=document.title, meta=document.meta, format=document.format)
