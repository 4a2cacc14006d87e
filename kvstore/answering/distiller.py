"""A language model that reads passages for a strategy, with each prompt within its token budget. It extracts *points*
(statements with a score and their passages), rates passages, and writes further questions.

In: questions and passages. Out: points, ratings, and further questions (:mod:`kvstore.retrieval.distillation`).
Passages are quoted and numbered as in the prompt of an answer. The model writes JSON of a schema. A point without a
score, or without a passage of its prompt, is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from ..errors import InvalidAnswerError
from ..models.json_schema import build_object_schema
from ..models.quoting import Quotation
from ..models.structured import StructuredModel, StructuredPrompt
from ..models.token_estimate import token_estimate
from ..retrieval.distillation import MAX_POINT_SCORE, DistillationResult, Point
from ..retrieval.evidence import Evidence, Hit, Trace
from ..retrieval.query import RERANKER_OPTION, Query, Strategy, get_reranker
from ..retrieval.question_clauses import Clauses, RetrieveFunction
from .prompt import LONGEST_NUMBER, build_quotation, quote_passage

Result = TypeVar("Result")

#: The maximum number of points per prompt, and the best rating of a passage.
_MAX_POINTS = 20
_MAX_RATING = 5
#: The number of tokens reserved for a task with its schema and corrections, as a multiple of the tokens of the task.
_TASK_FACTOR = 4
#: The number of tokens reserved for the titles of a prompt and the rules of quotation.
_FIXED_TOKENS = 200

_POINTS_TASK = (
    "You are given a question and numbered passages. Write down what the passages say that helps to answer the "
    "question, as points: each one sentence that stands by itself, with a score from 0 (no help) to 100 (answers the "
    "question) and the numbers of the passages that say it. Take nothing from anywhere else. Where no passage helps, "
    "give no points."
)
_QUESTIONS_TASK = (
    " Then write at most {count} further questions, the answers to which would help most, and which documents like "
    "these may answer; none where nothing is missing."
)
_RATINGS_TASK = (
    "You are given a question and numbered passages, each an account of a larger part of a collection of documents. "
    "For each passage say, from 0 (not at all) to 5 (very much), how much the part that it stands for may help to "
    "answer the question."
)


def _build_points_schema(*, with_questions: bool) -> dict[str, Any]:
    """Return the JSON schema of an answer with points and, if requested, further questions."""
    point_schema = build_object_schema(
        description={"type": "string", "minLength": 1},
        score={"type": "integer", "minimum": 0, "maximum": MAX_POINT_SCORE},
        sources={"type": "array", "items": {"type": "integer"}},
    )
    properties: dict[str, Any] = {"points": {"type": "array", "maxItems": _MAX_POINTS, "items": point_schema}}
    if with_questions:
        properties["questions"] = {"type": "array", "items": {"type": "string"}}
    return build_object_schema(**properties)


class ModelDistiller:
    """A :class:`~kvstore.retrieval.distillation.Distiller` with one model. ``budget`` is the maximum number of tokens
    of a prompt. A *task* is the instruction of a prompt. ``trace`` records steps for EXPLAIN.
    """

    def __init__(
        self,
        model: StructuredModel,
        budget: int,
        clauses: Clauses,
        *,
        open_query: Callable[[str, Clauses], AbstractContextManager[tuple[Strategy, Query]]],
        retrieve: RetrieveFunction,
    ) -> None:
        """Create a distiller that sends prompts of at most ``budget`` tokens to ``model``.

        ``clauses`` are those of the original question. ``open_query`` returns a context manager that yields the
        strategy and the query for a question, and ``retrieve`` returns the evidence for it.
        """
        self._model = model
        self._budget = budget
        self._clauses: Clauses = {**clauses, "vector": None}  # the vector belongs to the original question only
        self._reranker = get_reranker(clauses.get("options") or {})
        self._open_query = open_query
        self._retrieve = retrieve
        self.trace = Trace()

    def retrieve(self, question: str, using: str | None = None) -> Evidence:
        """Return the evidence for another question from the strategy ``using`` (None: the original strategy)."""
        if using is None:
            return self._retrieve(question, **self._clauses)
        # Options belong to one strategy, except the reranker.
        shared_options = None if self._reranker is None else {RERANKER_OPTION: self._reranker}
        strategy_clauses: Clauses = {**self._clauses, "using": using, "options": shared_options}
        return self._retrieve(question, **strategy_clauses)

    @contextmanager
    def open_query(self, question: str) -> Iterator[Query]:
        """Yield a query for another question, with the clauses of the original one except its vector."""
        with self._open_query(question, self._clauses) as (_, query):
            yield query

    def split_into_batches(self, question: str, passages: Sequence[Hit]) -> list[list[Hit]]:
        """Divide passages into batches that each fit in one prompt. A passage that is too long for one is omitted."""
        remaining_passages = list(passages)
        batches: list[list[Hit]] = []
        while remaining_passages:
            batch = self._select_fitting_passages(question, remaining_passages, _POINTS_TASK)
            if not batch:  # none fits, so the first is too long for any prompt
                remaining_passages = remaining_passages[1:]
                continue
            batches.append(batch)
            remaining_passages = [hit for hit in remaining_passages if hit not in batch]
        return batches

    def extract_points(self, question: str, passages: Sequence[Hit], *, num_questions: int = 0) -> DistillationResult:
        """Have the model extract points (statements with a score) that help to answer a question from passages.

        Only the passages that fit in one prompt are read. The result also has up to ``num_questions`` further questions
        that the model would ask. It is empty if the model gave no usable answer.
        """
        task = _POINTS_TASK + (_QUESTIONS_TASK.format(count=num_questions) if num_questions else "")
        fitting_passages = self._select_fitting_passages(question, passages, task)
        empty = DistillationResult([], [])
        if not fitting_passages:
            return empty

        def parse_points(answer: Any) -> DistillationResult:
            """Return the points and at most ``num_questions`` questions in the model's JSON.

            Points with a score of 0, or that cite no valid passage number, are dropped.
            """
            points = []
            for point in answer["points"]:
                numbers = dict.fromkeys(number for number in point["sources"] if 1 <= number <= len(fitting_passages))
                if point["score"] and numbers:
                    sources = tuple(fitting_passages[number - 1] for number in numbers)
                    points.append(Point(" ".join(point["description"].split()), point["score"], sources))
            next_questions = dict.fromkeys(" ".join(text.split()) for text in answer.get("questions", ()))
            return DistillationResult(points, [text for text in next_questions if text][:num_questions])

        with self.trace.step("points of passages") as step:
            schema = _build_points_schema(with_questions=num_questions > 0)
            result = self._ask_model("points", question, fitting_passages, task, schema, parse_points) or empty
            next_questions = f"; asked next: {' | '.join(result.questions)}" if result.questions else ""
            step.detail = f"{self._model.model.name}: {len(fitting_passages)} passages{next_questions}"
            step.count = len(result.points)
        return result

    def rate_passages(self, question: str, passages: Sequence[Hit]) -> list[int]:
        """Return the model's rating of each passage, from 0 to 5; 0 for a passage that is too long or was not rated."""
        ratings: list[int] = []
        with self.trace.step("rate passages") as step:
            while len(ratings) < len(passages):
                fitting_passages = self._select_fitting_passages(
                    question, passages[len(ratings) :], _RATINGS_TASK, contiguous=True
                )
                # If nothing fits, the next passage is too long for any prompt.
                ratings += self._request_ratings(question, fitting_passages) if fitting_passages else [0]
            step.detail = f"{self._model.model.name}: {len(passages)} passages"
            step.count = sum(1 for rating in ratings if rating)
        return ratings

    def _request_ratings(self, question: str, passages: Sequence[Hit]) -> list[int]:
        """Return the model's rating of each passage, 0 to ``_MAX_RATING``. The passages must fit in one prompt.

        The rating is 0 for a passage that the model did not rate, and for all if the model gave no valid answer.
        """
        rating_schema = build_object_schema(
            passage={"type": "integer"}, rating={"type": "integer", "minimum": 0, "maximum": _MAX_RATING}
        )
        schema = build_object_schema(ratings={"type": "array", "items": rating_schema})

        def parse_ratings(answer: Any) -> list[int]:
            """Return the ratings in the order of the passages, from the model's JSON."""
            ratings = {rating["passage"]: rating["rating"] for rating in answer["ratings"]}
            return [ratings.get(number, 0) for number in range(1, len(passages) + 1)]

        ratings = self._ask_model("ratings", question, passages, _RATINGS_TASK, schema, parse_ratings)
        return ratings or [0] * len(passages)

    def _select_fitting_passages(
        self, question: str, passages: Sequence[Hit], task: str, *, contiguous: bool = False
    ) -> list[Hit]:
        """Return the passages that fit in the token budget of one prompt with the instruction ``task``, in order.

        With ``contiguous``, stop at the first passage that does not fit. Otherwise, skip it.
        """
        quotation = Quotation(())
        fixed_tokens = _TASK_FACTOR * token_estimate(task) + token_estimate(question) + _FIXED_TOKENS
        tokens_left = self._budget - fixed_tokens
        fitting_passages: list[Hit] = []
        for hit in passages:
            num_tokens = token_estimate(quote_passage(LONGEST_NUMBER, hit, quotation)) + 1  # with the line end
            tokens_after = tokens_left - num_tokens
            if tokens_after >= 0:
                fitting_passages.append(hit)
                tokens_left = tokens_after
            elif contiguous:
                break
        return fitting_passages

    def _ask_model(
        self,
        name: str,
        question: str,
        passages: Sequence[Hit],
        task: str,
        schema: dict[str, Any],
        parse: Callable[[Any], Result],
    ) -> Result | None:
        """Have the model do a task with passages, and return its parsed answer, or None if it gave no valid answer.

        ``task`` is the instruction, and ``name`` identifies the kind of prompt. ``parse`` converts the model's JSON,
        which satisfies ``schema``, to the result.
        """
        quotation = build_quotation(passages, question)
        system = f"{task} {quotation.rule}"
        quoted_passages = "\n".join(quote_passage(number, hit, quotation) for number, hit in enumerate(passages, 1))
        user = f"Passages:\n{quoted_passages}\n\nQuestion:\n{question.strip()}"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        try:
            return self._model.ask(StructuredPrompt(name, messages, schema, parse))
        except InvalidAnswerError as problem:
            with self.trace.step(f"no {name}") as step:
                step.detail = str(problem)
            return None
