"""Answers with citations, written by a language model or quoted from the documents (*extractive*). *Evidence* is the
result of a retrieval. A *passage* is a hit in a prompt, with the number that the model cites. To *abstain* is to say
that the documents have no answer.

In: :class:`~kvstore.retrieval.evidence.Evidence`, and a model if one is configured. Out: an :class:`Answer`. The
model's output is used only as text; its citations are checked against the passages in its prompt.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from ..errors import InputError, ModelUnavailableError
from ..models.text_pieces import TextPieces
from ..process.frozen_dataclass import frozen_dataclass
from ..rendering.columnar import Columnar, NamedRows
from ..retrieval.evidence import Evidence, Hit, Trace
from .answer_span import AnswerPart, AnswerSpan, Verdict
from .citations import Citation, CitationFilter, cite_hit

if TYPE_CHECKING:
    from ..models.llm import LanguageModel, ModelAnswer
    from .confidence import Confidence
    from .extractive import ExtractedAnswer
    from .prompt import Prompt

#: What an answer is, see :attr:`Answer.outcome`.
Outcome = Literal["answered", "nearest", "nothing"]


#: The number of characters of an answer without sources that are shown in the reason.
_MAX_SHOWN_CHARACTERS = 80


@frozen_dataclass
class Answer(Columnar):
    """An answer with its citations; ``extractive`` if no language model wrote it. ``weighed`` is its confidence. If
    this is too low, the answer has ``abstained``: it says that the documents do not contain the answer, and cites the
    sentences nearest to the question.

    ``str()`` returns its text. As a table, its rows are the citations.

    ``weighed`` also has the signals of the confidence. ``abstained`` is true if the confidence is below the session's
    ``least_confidence`` setting or, with a confidence of 0, if no passage has a sentence to quote.

    ``answer_span`` contains the words in an extractive answer that answer the question, if the answer reader found
    them. ``verdict`` is the answer to a yes-no question if the first sentence settles it. ``parts`` contains the
    answers to the parts of a question about several facts, each with its own span and verdict.

    For a model's answer, ``dropped`` lists the invalid passage numbers that it cited and that were removed from
    ``text``. ``reasoning`` is the model's reasoning, and ``cached`` is true if the answer came from the cache.
    ``problem`` explains why the model did not answer, or not completely.
    """

    text: str
    citations: list[Citation]
    extractive: bool
    model: str | None
    evidence: Evidence = field(repr=False)  # its hits and steps would fill a screen of an interactive session
    dropped: list[int] = field(default_factory=list)
    reasoning: str = ""
    cached: bool = False
    problem: str | None = None
    weighed: Confidence | None = None
    abstained: bool = False
    answer_span: AnswerSpan | None = None
    verdict: Verdict | None = None
    parts: tuple[AnswerPart, ...] = ()

    def __str__(self) -> str:
        """Return the text of the answer."""
        return self.text

    def _get_named_rows(self) -> NamedRows:
        """Return the column names, a row per citation, and the SQL types of the columns."""
        columns = {
            "number": "INTEGER", "document": "TEXT", "ordinal": "INTEGER", "start": "INTEGER", "end": "INTEGER",
            "text": "TEXT", "kind": "TEXT",
        }  # fmt: skip
        rows = [[*(getattr(citation, name) for name in columns), citation.ordinal] for citation in self.citations]
        columns["chunk"] = "INTEGER"  # the deprecated name of ordinal
        return tuple(columns), rows, tuple(columns.values())

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: the text and the cited passages, with the cited bytes marked."""
        from .answer_markup import render_answer_html

        writer = "sentences of the documents, word for word" if self.extractive else f"written by {self.model}"
        remarks = self.remarks if self.abstained else [writer, *self.remarks]
        return render_answer_html(self.text, self.citations, self.evidence, remarks)

    @property
    def outcome(self) -> Outcome:
        """``answered``, or ``nearest`` if it abstained and shows the nearest sentences, else ``nothing``."""
        if not self.abstained:
            return "answered"
        return "nearest" if self.citations else "nothing"

    @property
    def confidence(self) -> float:
        """The estimated probability that the store answers the question, from 0 to 1; 0 without an estimate."""
        return 0.0 if self.weighed is None else self.weighed.value

    @property
    def remarks(self) -> list[str]:
        """Remarks about the answer for its reader: what went wrong, was removed or is unknown, one sentence each."""
        remarks = [] if self.problem is None else [self.problem]
        if self.evidence.hint is not None:
            remarks.append(self.evidence.hint)
        if self.dropped:
            numbers = ", ".join(f"[{number}]" for number in self.dropped)
            ending = "this number" if len(self.dropped) == 1 else "these numbers"
            remarks.append(f"removed {numbers}: the model was given no passage with {ending}")
        if self.weighed is not None and self.weighed.unknown and not self.abstained:
            names = " or ".join(self.weighed.unknown)
            remarks.append(f"no document mentions {names}; the answer may be about something else")
        return remarks


class AnswerPieces(TextPieces[Answer]):
    """The text of an answer in pieces, returned by :meth:`kvstore.Store.ask_pieces`.

    ``evidence`` is available before the first piece, ``answer`` after the last. Closing the iterator or leaving its
    context early stops the model.
    """

    def __init__(self, evidence: Evidence, pieces: Generator[str, None, Answer]) -> None:
        """Iterate over the text that ``pieces`` yields, and keep the answer that it returns.

        If ``pieces`` yields no text, the whole text of the answer is the only piece.
        """
        super().__init__(_yield_all_text(pieces))
        self.evidence = evidence

    @property
    def answer(self) -> Answer:
        """The whole answer; waits for the remaining pieces.

        Raises InputError if the iterator was closed before the end.
        """
        for _ in self:
            pass
        if self.result is None:
            raise InputError("this answer was closed before it was complete; ask again")
        return self.result


def _yield_all_text(pieces: Generator[str, None, Answer]) -> Generator[str, None, Answer]:
    """Yield the ``pieces`` of a model's text, or the whole text of the answer if there are none; return the answer."""
    has_text = False
    with TextPieces(pieces) as texts:
        for text in texts:
            has_text = True
            yield text
    answer = texts.result
    assert answer is not None
    if not has_text:
        yield answer.text
    return answer


def make_extractive_answer(
    content: ExtractedAnswer,
    evidence: Evidence,
    confidence: Confidence,
    *,
    abstained: bool = False,
    problem: str | None = None,
) -> Answer:
    """Return an answer that no language model wrote, with the text, citations, span, verdict and parts of ``content``.

    ``abstained`` is True if the text says that the documents do not answer the question. ``problem`` explains why a
    model did not write the answer (None: no model was asked).
    """
    return Answer(
        content.text,
        content.citations,
        extractive=True,
        model=None,
        evidence=evidence,
        problem=problem,
        weighed=confidence,
        abstained=abstained,
        answer_span=content.span,
        verdict=content.verdict,
        parts=content.parts,
    )


def yield_nothing(answer: Answer) -> Generator[str, None, Answer]:
    """Yield no text and return ``answer``: the generator of an answer that no model writes."""
    yield from ()
    return answer


def write_answer(
    evidence: Evidence, prompt: Prompt, model: LanguageModel, *, use_cache: bool, trace: Trace
) -> Generator[str, None, Answer]:
    """Yield the text of the model's answer to ``prompt`` as it arrives, without invalid citations; return the answer.

    With ``use_cache``, a cached answer is used instead of the model, and a new complete answer is cached. The request
    is recorded as a step in ``trace``. An answer without citations gets citations of the passages that it matches.
    Raises ModelError. Also raises ModelUnavailableError if such an answer matches no passage.
    """
    from .cache import AnswerCache

    cache = AnswerCache() if use_cache else None
    citation_filter = CitationFilter(len(prompt.passages))
    texts: list[str] = []

    def record_text(text: str) -> Iterator[str]:
        """Record and yield a piece of the answer, unless it is empty; strip white space before the first piece."""
        text = text if texts else text.lstrip()
        if text:
            texts.append(text)
            yield text

    with trace.step("ask model") as step:
        response = None if cache is None else cache.find(model.get_identity(), prompt.messages)
        is_cached = response is not None
        if response is None:
            with TextPieces(model.stream_pieces(prompt.messages)) as pieces:
                for text in pieces:
                    yield from record_text(citation_filter.feed(text))
            response = pieces.result
            assert response is not None
        else:
            yield from record_text(citation_filter.feed(response.text))
        yield from record_text(citation_filter.flush())
        text = "".join(texts)
        cited_numbers = citation_filter.cited or _match_passages(text, prompt.passages, model)
        if cache is not None and not (is_cached or response.is_truncated or response.is_loop):
            cache.store(model.get_identity(), prompt.messages, response)
        origin = "cached answer" if is_cached else f"POST {model.url}"
        step.detail, step.count = f"{model.name}: {origin}", len(cited_numbers)
    citations = [cite_hit(number, prompt.passages[number - 1]) for number in sorted(cited_numbers)]
    return Answer(
        text,
        citations,
        extractive=False,
        model=model.name,
        evidence=evidence,
        dropped=citation_filter.dropped,
        reasoning=response.reasoning,
        cached=is_cached,
        problem=_describe_problems(response, is_cited=bool(citation_filter.cited)),
    )


def _describe_problems(response: ModelAnswer, *, is_cited: bool) -> str | None:
    """Return a description of what is wrong with a model's answer; None if it is complete and cites a passage.

    ``is_cited`` is True if it cites a passage.
    """
    problems = []
    if response.is_loop:
        problems.append("this answer was cut off because the model repeated itself")
    elif response.is_truncated:
        problems.append("this answer is incomplete because the model reached its token limit")
    if not is_cited:
        problems.append(
            "the model cited no passages; kvstore added the citations by comparing its sentences with the passages"
        )
    return "; ".join(problems) or None


def _match_passages(text: str, passages: Sequence[Hit], model: LanguageModel) -> list[int]:
    """Return the numbers of the passages that an answer's sentences match, counted from 1 and ascending.

    If no sentence matches, the request counts as refused by kvstore, and the function raises ModelUnavailableError.
    """
    from ..models.text_checks import find_sources

    numbers = [index + 1 for index in find_sources(text, [f"{hit.title or ''} {hit.text}" for hit in passages])]
    if not numbers:
        model.num_refused += 1
        shown_text = f"{text[:_MAX_SHOWN_CHARACTERS]}{'...' if len(text) > _MAX_SHOWN_CHARACTERS else ''}"
        raise ModelUnavailableError(
            f"language model {model.name!r}: the answer cites no passages, and none of its sentences matches "
            f"one ({shown_text!r}); use another model"
        )
    return numbers
