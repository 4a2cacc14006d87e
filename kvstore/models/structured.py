"""Answers of a language model as JSON of a schema, within a token limit. A *retry prompt* is a simpler prompt for the
same thing, sent after an invalid answer. A *response format* is the field of a request that demands JSON, which some
servers reject.

In: a :class:`StructuredPrompt`: messages, a JSON Schema, and checks beyond the schema. Out: the value that the model
wrote, validated against both. The schema is sent as ``response_format`` (``json_schema``); a server that rejects this
gets ``json_object``, and one that rejects that gets plain text. Both get the schema in an instruction. An invalid
answer is requested once more, with its errors, by a prompt that asks for less or at a higher temperature; it is never
taken as text. Tokens are counted before they are sent, so a token limit holds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..errors import InvalidAnswerError, ModelError, PromptTooLongError, TokenLimitError
from .json_schema import check_keywords, check_value, parse_json, parse_longest_prefix
from .loops import trim_loop
from .token_estimate import MESSAGE_TOKENS, estimate_message_tokens, token_estimate

if TYPE_CHECKING:
    from .llm import LanguageModel, Message, ModelAnswer

Result = TypeVar("Result")

#: Status codes of servers that do not support a ``response_format``.
_REFUSALS = ("status 400", "status 415", "status 422", "status 501")
#: The number of consecutive requests without a valid answer after which a statement stops asking the model.
MAX_FAILURES = 10
#: The number of attempts at one request, and the temperature of a repeated prompt: at 0, a model repeats its answer.
_MAX_ATTEMPTS, _REPEAT_TEMPERATURE = 2, 0.7
#: The number of consecutive invalid answers to first prompts after which requests begin with the retry prompt.
_MAX_INVALID_FIRST_ANSWERS = 3


@dataclass(frozen=True, slots=True)
class StructuredPrompt(Generic[Result]):
    """A request to a model: its ``messages``, the JSON Schema of its answer (``schema``), and a ``check``, which
    converts the answer to the result. ``requested_schema`` is the schema sent to the model, if it demands more than
    ``schema`` accepts.

    ``name`` is one word that names the schema, which uses the keywords of :mod:`kvstore.models.json_schema`. ``check``
    raises a ValueError whose message describes to the model what is wrong with its answer. An answer has at most
    ``answer_tokens`` tokens. ``build_retry_prompt`` returns the simpler prompt that is sent after an invalid answer
    (None: this prompt is sent again at a higher temperature). Raises ValueError for a schema with other keywords.
    """

    name: str
    messages: Sequence[Message]
    schema: Mapping[str, Any]
    check: Callable[[Any], Result] = lambda value: value
    answer_tokens: int = 2000
    requested_schema: Mapping[str, Any] | None = None
    build_retry_prompt: Callable[[], StructuredPrompt[Result]] | None = None

    def __post_init__(self) -> None:
        """Raise ValueError if the schema has a keyword that kvstore does not support."""
        check_keywords(self.schema)

    @property
    def sent_schema(self) -> Mapping[str, Any]:
        """The schema in the request: ``requested_schema`` (possibly stricter than the accepted ``schema``), if set."""
        return self.requested_schema or self.schema

    @property
    def tokens(self) -> int:
        """The estimated number of tokens that one request sends, including the schema."""
        return estimate_message_tokens(self.messages) + MESSAGE_TOKENS + token_estimate(self.schema_instruction)

    @property
    def schema_instruction(self) -> str:
        """The instruction to answer with JSON of the schema, for a server that does not accept a schema separately."""
        schema = json.dumps(self.sent_schema, ensure_ascii=False)
        return f"Answer with JSON of this JSON Schema, and with nothing else: {schema}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelReport:
    """The requests of one statement to a model.

    ``calls`` requests were answered, with about ``sent`` and ``received`` tokens; ``refused`` of the answers were not
    usable. ``left`` of the texts to write were not written, because the token limit was reached or answers were
    unusable; ``failures`` has the reasons why answers were unusable.
    """

    kind: str
    model: str
    calls: int
    sent: int
    received: int
    refused: int
    left: int
    failures: list[str] = field(default_factory=list)


class StructuredModel:
    """A client of a language model that requests answers in JSON. All its requests together send at most ``max_tokens``
    tokens (None: any number). ``num_refused`` counts invalid answers, and ``num_failures`` consecutive requests without
    a valid answer.

    ``num_calls`` is the number of answered requests. ``sent_tokens`` and ``written_tokens`` are their tokens: the
    estimate, or the server's number if it is higher.
    """

    def __init__(self, model: LanguageModel, max_tokens: int | None = None) -> None:
        """Create a client of ``model``; all its requests together may send ``max_tokens`` tokens (None: any number)."""
        self.model = model
        self.max_tokens = max_tokens
        self.num_calls = 0
        self.num_refused = 0
        self.num_failures = 0
        self.sent_tokens = 0
        self.written_tokens = 0
        #: The number of consecutive invalid answers to prompts that have a retry prompt.
        self._num_invalid_first_answers = 0
        #: The types of ``response_format``, tried in this order; those that the server rejected are removed.
        self._response_formats = ["json_schema", "json_object", "text"]

    def get_usage(self) -> dict[str, int]:
        """Return the numbers of requests, tokens and invalid answers so far, by field of :class:`ModelReport`."""
        return {
            "calls": self.num_calls,
            "sent": self.sent_tokens,
            "received": self.written_tokens,
            "refused": self.num_refused,
        }

    def ask(self, prompt: StructuredPrompt[Result], *, max_attempts: int = _MAX_ATTEMPTS) -> Result:
        """Return the model's answer to a prompt, checked and converted.

        After an invalid answer, the prompt is sent again with the error, at most ``max_attempts`` times in total. If it
        has a simpler retry prompt, that is sent instead; after several invalid answers to prompts that have a retry
        prompt, only retry prompts are sent. Raises TokenLimitError if the first request would exceed the limit,
        InvalidAnswerError if no answer was valid, and the errors of :meth:`LanguageModel.write`.
        """
        if prompt.build_retry_prompt is not None and self._num_invalid_first_answers >= _MAX_INVALID_FIRST_ANSWERS:
            prompt = prompt.build_retry_prompt()
        self._require_tokens(prompt.tokens)
        correction, temperature = "", 0.0
        for _ in range(max_attempts):
            try:
                answer = self._request_answer(prompt, correction, temperature)
            except PromptTooLongError:
                self.num_failures += 1
                raise
            try:
                result = _parse_answer(answer, prompt)
            except ValueError as problem:
                reason = str(problem)
            else:
                self.num_failures = 0
                if prompt.build_retry_prompt is not None:
                    self._num_invalid_first_answers = 0
                return result
            self.num_refused += 1
            self.model.num_refused += 1
            # The invalid answer is not shown, and the correction comes first, because weak models copy what is last.
            correction = f"An earlier answer was invalid: {reason}. Answer with JSON of the schema.\n\n"
            if prompt.build_retry_prompt is None:
                temperature = _REPEAT_TEMPERATURE
            else:
                self._num_invalid_first_answers += 1
                prompt = prompt.build_retry_prompt()
            if not self._is_within_limit(prompt.tokens + token_estimate(correction)):
                break
        self.num_failures += 1
        raise InvalidAnswerError(
            f"language model {self.model.name!r}: no usable answer for {prompt.name!r} ({reason}); use another model"
        )

    def _require_tokens(self, tokens: int) -> None:
        """Raise TokenLimitError if sending ``tokens`` more tokens would exceed the token limit."""
        if not self._is_within_limit(tokens):
            raise TokenLimitError(
                f"language model {self.model.name!r}: {self.sent_tokens:,} of {self.max_tokens:,} tokens have been "
                f"used, and the next request needs about {tokens:,}; allow more TOKENS, or continue later"
            )

    def _is_within_limit(self, tokens: int) -> bool:
        """True if ``tokens`` more tokens can be sent without exceeding the token limit."""
        return self.max_tokens is None or self.sent_tokens + tokens <= self.max_tokens

    def _request_answer(self, prompt: StructuredPrompt[Any], correction: str, temperature: float) -> ModelAnswer:
        """Send a prompt, with ``correction`` prepended to the text of its last message, and return the model's answer.

        The model samples its words at ``temperature``. The answer is requested in the first response format that the
        server accepts. Rejected formats are removed from ``self``, and requests and tokens are counted. Raises the
        first rejection if the server rejects all formats.
        """
        first_refusal: ModelError | None = None
        sent_tokens, written_tokens = self.model.sent_tokens, self.model.written_tokens
        for response_format in list(self._response_formats):
            try:
                answer = self.model.write(
                    _build_messages(prompt, correction, response_format),
                    response_format=_build_response_format(response_format, prompt),
                    may_be_empty=True,
                    temperature=temperature,
                    max_tokens=prompt.answer_tokens,
                    estimated_tokens=prompt.tokens + token_estimate(correction),
                )
            except PromptTooLongError:
                raise
            except ModelError as problem:
                if not any(status in str(problem) for status in _REFUSALS):
                    raise
                first_refusal = first_refusal or problem
                continue
            self._response_formats = self._response_formats[self._response_formats.index(response_format) :]
            self.num_calls += 1
            self.sent_tokens += self.model.sent_tokens - sent_tokens
            self.written_tokens += self.model.written_tokens - written_tokens
            return answer
        assert first_refusal is not None  # at least one format was tried and rejected
        raise first_refusal


def _build_messages(prompt: StructuredPrompt[Any], correction: str, response_format: str) -> list[Message]:
    """Return the messages of a prompt, with ``correction`` and the schema before and after the text of the last one.

    The schema is omitted if the request has it in its ``response_format``.
    """
    # The schema comes last, so that servers can reuse the beginning of a prompt.
    instruction = "" if response_format == "json_schema" else f"\n\n{prompt.schema_instruction}"
    *first_messages, last_message = prompt.messages
    content = f"{correction}{last_message['content']}{instruction}"
    return [*first_messages, {**last_message, "content": content}]


def _build_response_format(format: str, prompt: StructuredPrompt[Any]) -> Mapping[str, Any] | None:
    """Return the ``response_format`` field of a request (OpenAI protocol) of type ``format``, or None for "text"."""
    if format == "text":
        return None
    if format == "json_object":
        return {"type": format}
    return {"type": format, "json_schema": {"name": prompt.name, "strict": True, "schema": prompt.sent_schema}}


def _parse_answer(answer: ModelAnswer, prompt: StructuredPrompt[Result]) -> Result:
    """Return the model's answer, parsed as JSON, validated against the prompt's schema, and converted by its check.

    If a loop or the token limit ended the answer, its longest valid prefix is used. Raises ValueError, with a
    message for the model, if the answer is invalid.
    """
    try:
        if answer.is_loop or answer.is_truncated:
            value = parse_longest_prefix(trim_loop(answer.text), prompt.schema)
        else:
            value = parse_json(answer.text)
            check_value(value, prompt.schema)
        return prompt.check(value)
    except ValueError as problem:
        reason = str(problem)
    if answer.is_loop:
        reason = "the answer repeats itself"
    elif answer.is_truncated:
        reason += ", and the token limit ended the answer: answer in fewer words"
    raise ValueError(reason)
