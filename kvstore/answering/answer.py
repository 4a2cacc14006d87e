"""From evidence to an answer with citations: a language model's, or sentences of the documents.

In: :class:`~kvstore.retrieval.evidence.Evidence`, and a model where there is one. Out: an :class:`Answer`. What a model
writes is text and nothing else; its citations are checked against the passages it was given.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..columnar import Columnar, NamedRows
from ..errors import InputError
from ..models.text_pieces import TextPieces
from ..retrieval.evidence import Evidence, Trace
from .citations import Citation, CitationFilter, cite_hit

if TYPE_CHECKING:
    from ..models.llm import LanguageModel
    from .confidence import Confidence
    from .prompt import Prompt


@dataclass(frozen=True, slots=True)
class Answer(Columnar):
    """An answer with its citations; ``extractive`` where no language model wrote it. It prints as its text.

    For other programs its rows are the citations.

    ``weighed`` says how likely the store is to answer the question, and from what that was told; where that is below
    the session's ``least_confidence``, the answer has ``abstained``: it says so, and its citations are the passages
    nearest to the question. It has also abstained, with a confidence of 0, if no passage has a sentence to quote.

    Of a model's answer: ``dropped`` are numbers it cited that are no passage it was given, left out of ``text``;
    ``reasoning`` is what it thought before; ``cached`` says that it was given before. ``problem`` says why the model
    that was to answer did not, or did not wholly.
    """

    text: str
    citations: list[Citation]
    extractive: bool
    model: str | None
    evidence: Evidence
    dropped: list[int] = field(default_factory=list)
    reasoning: str = ""
    cached: bool = False
    problem: str | None = None
    weighed: Confidence | None = None
    abstained: bool = False

    def __str__(self) -> str:
        return self.text

    def _get_named_rows(self) -> NamedRows:
        columns = {
            "number": "INTEGER", "document": "TEXT", "ordinal": "INTEGER", "start": "INTEGER", "end": "INTEGER",
            "text": "TEXT", "kind": "TEXT",
        }  # fmt: skip
        rows = [[*(getattr(citation, name) for name in columns), citation.ordinal] for citation in self.citations]
        columns["chunk"] = "INTEGER"  # the deprecated name of ordinal
        return tuple(columns), rows, tuple(columns.values())

    def _repr_html_(self) -> str:
        """What a notebook shows: the text, and the passages cited, the cited bytes marked."""
        from .answer_markup import render_answer_html

        writer = "sentences of the documents, word for word" if self.extractive else f"written by {self.model}"
        remarks = self.remarks if self.abstained else [writer, *self.remarks]
        return render_answer_html(self.text, self.citations, self.evidence, remarks)

    @property
    def confidence(self) -> float:
        """How likely it is that the store answers the question, from 0 to 1."""
        return 0.0 if self.weighed is None else self.weighed.value

    @property
    def remarks(self) -> list[str]:
        """What a reader of the answer should know, a sentence each."""
        found = [] if self.problem is None else [self.problem]
        if self.evidence.hint is not None:
            found.append(self.evidence.hint)
        if self.dropped:
            numbers = ", ".join(f"[{number}]" for number in self.dropped)
            found.append(f"left out: {numbers}, which the model cited and was not given")
        if self.weighed is not None and self.weighed.unknown and not self.abstained:
            names = " or ".join(self.weighed.unknown)
            found.append(f"no document names {names}; the answer may be about something else")
        return found


class AnswerPieces(TextPieces[Answer]):
    """The text of an answer in pieces, as :meth:`kvstore.Store.ask_pieces` gives it.

    ``evidence`` is what was found, and is there before the first piece; ``answer`` is the whole, after the last. Closed
    early, or left early as a context manager, the model that writes is stopped.
    """

    def __init__(self, evidence: Evidence, pieces: Generator[str, None, Answer]) -> None:
        super().__init__(_yield_extracts(pieces))
        self.evidence = evidence

    @property
    def answer(self) -> Answer:
        """The whole answer; what has not come of it yet is waited for. Raises InputError where it was closed before."""
        for _ in self:
            pass
        if self.result is None:
            raise InputError("this answer was closed before it was whole; ask again")
        return self.result


def _yield_extracts(pieces: Generator[str, None, Answer]) -> Generator[str, None, Answer]:
    """What a model writes; and where none has begun, the text of the answer as one piece."""
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


def yield_finished(answer: Answer) -> Generator[str, None, Answer]:
    """An answer that no model writes."""
    yield from ()
    return answer


def write_answer(
    evidence: Evidence, prompt: Prompt, model: LanguageModel, *, use_cache: bool, trace: Trace
) -> Generator[str, None, Answer]:
    """What ``model`` answers to ``prompt``, its text in pieces as it comes, with the citations checked.

    Where answers are ``use_cache``, one that was given before is given again.

    Raises ModelError and ModelUnavailableError.
    """
    from .cache import AnswerCache

    cache = AnswerCache() if use_cache else None
    citation_filter = CitationFilter(len(prompt.passages))
    texts: list[str] = []

    def iter_shown(text: str) -> Iterator[str]:
        text = text if texts else text.lstrip()
        if text:
            texts.append(text)
            yield text

    with trace.step("ask model") as step:
        response = None if cache is None else cache.find(model.get_identity(), prompt.unmarked_messages)
        is_cached = response is not None
        if response is None:
            with TextPieces(model.stream_pieces(prompt.messages)) as pieces:
                for text in pieces:
                    yield from iter_shown(citation_filter.feed(text))
            response = pieces.result
            assert response is not None
            if cache is not None and not response.is_truncated:
                cache.store(model.get_identity(), prompt.unmarked_messages, response)
        else:
            yield from iter_shown(citation_filter.feed(response.text))
        yield from iter_shown(citation_filter.flush())
        origin = "the answer given before" if is_cached else f"POST {model.url}"
        step.detail, step.count = f"{model.name}: {origin}", len(citation_filter.cited)
    citations = [cite_hit(number, prompt.passages[number - 1]) for number in sorted(citation_filter.cited)]
    problem = "the model's limit of tokens cut this answer off" if response.is_truncated else None
    text = "".join(texts)
    return Answer(
        text, citations, False, model.name, evidence, citation_filter.dropped, response.reasoning, is_cached, problem
    )
