"""From evidence to an answer with citations: a language model's, or sentences of the documents.

In: :class:`~kvstore.retrieval.evidence.Evidence`, and a model where there is one. Out: an :class:`Answer`. What a model
writes is text and nothing else; its citations are checked against the passages it was given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..retrieval.evidence import Evidence, Trace
from .citations import Citation, CitationFilter, citation_of

if TYPE_CHECKING:
    from ..models.llm import LanguageModel
    from .confidence import Confidence
    from .prompt import Prompt


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its citations; ``extractive`` where no language model wrote it. It prints as its text.

    ``weighed`` says how likely the store is to answer the question, and from what that was told; where that is below
    the session's ``least_confidence``, the answer has ``abstained``: it says so, and its citations are the passages
    nearest to the question.

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

    def _repr_html_(self) -> str:
        """What a notebook shows: the text, and the passages cited, the cited bytes marked."""
        from .answer_markup import answer_html

        writer = "sentences of the documents, word for word" if self.extractive else f"written by {self.model}"
        remarks = self.remarks if self.abstained else [writer, *self.remarks]
        return answer_html(self.text, self.citations, self.evidence, remarks)

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


def written_answer(
    evidence: Evidence,
    prompt: Prompt,
    model: LanguageModel,
    *,
    kept: bool,
    trace: Trace,
    on_text: Callable[[str], None],
) -> Answer:
    """What ``model`` answers to ``prompt``; ``on_text`` hears the text as it comes, its citations checked.

    Where answers are ``kept``, one that was given before is given again.

    Raises ModelError and ModelUnavailableError.
    """
    from .cache import AnswerCache

    cache = AnswerCache() if kept else None
    checked = CitationFilter(len(prompt.passages))
    told: list[str] = []

    def tell(text: str) -> None:
        text = text if told else text.lstrip()
        if text:
            told.append(text)
            on_text(text)

    with trace.step("ask model") as step:
        written = None if cache is None else cache.find(model.identity(), prompt.unmarked_messages)
        cached = written is not None
        if written is None:
            written = model.write(prompt.messages, lambda text: tell(checked.feed(text)))
            if cache is not None and not written.cut:
                cache.keep(model.identity(), prompt.unmarked_messages, written)
        else:
            tell(checked.feed(written.text))
        tell(checked.rest())
        where = "the answer given before" if cached else f"POST {model.url}"
        step.detail, step.count = f"{model.name}: {where}", len(checked.cited)
    citations = [citation_of(number, prompt.passages[number - 1]) for number in sorted(checked.cited)]
    problem = "the model's limit of tokens cut this answer off" if written.cut else None
    text = "".join(told)
    return Answer(text, citations, False, model.name, evidence, checked.dropped, written.reasoning, cached, problem)
