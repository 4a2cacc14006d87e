"""The language model that writes answers, behind an OpenAI-compatible ``/chat/completions``. A *piece* is some text of
an answer, or of the model's *reasoning* before it, as it arrives. The *context* is what the model can read and write:
the prompt and the answer, in tokens.

In: messages. Out: the model's text, piece by piece as it arrives. Ollama, vLLM, the server of llama.cpp and OpenAI
accept the request: model, messages, ``stream``, and a temperature, ``max_tokens`` and ``stream_options``, which are
left out for a model that rejects them. A model that repeats itself is stopped. A wrong address, key or name, and an
answer that violates the protocol, raise :class:`~kvstore.errors.ModelError`; a prompt that the model has no room for,
:class:`~kvstore.errors.PromptTooLongError`. A server that is down, busy or too slow, or whose answer breaks off, raises
:class:`~kvstore.errors.ModelUnavailableError`. A request is not repeated once a piece was passed on.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import KvstoreError, ModelError, ModelUnavailableError, PromptTooLongError
from ..settings import MODEL_VARIABLE as MODEL_VARIABLE
from ..settings import SessionSettings
from ..text.patterns import compile_lazily
from .chat_stream import ChatStream, Piece, StreamError
from .endpoint import KEY_VARIABLE as OPENAI_KEY_VARIABLE
from .endpoint import Endpoint
from .loops import LoopDetector
from .text_pieces import collect_result
from .timeouts import Timeouts
from .token_estimate import estimate_message_tokens, token_estimate

if TYPE_CHECKING:
    from .http_client import Reply

#: The environment variables with the address and the key of the server.
URL_VARIABLE = "KVSTORE_LLM_URL"
KEY_VARIABLE = "KVSTORE_LLM_KEY"


#: A message of the OpenAI protocol, with ``role`` and ``content``.
Message = Mapping[str, str]

#: The default maximum number of tokens of an answer.
MAX_ANSWER_TOKENS = 4000
#: The statuses and the words with which servers refuse a prompt that is too long: the limit, and the prompt's tokens.
_INVALID_STATUSES = ("status 400", "status 413", "status 422")
_CONTEXT_PATTERN = compile_lazily(r"\bcontext\b|maximum (?:sequence|model) length|prompt is too long", re.IGNORECASE)
#: The size of the context in the message of a server: "maximum context length is 8192 tokens", "context size (4,096)".
_LIMIT_PATTERN = compile_lazily(r"(?:context|length)[\w\s]{0,20}?\D{0,10}?(?P<limit>\d[\d,]*)", re.IGNORECASE)
#: A number with or without commas.
_NUMBER_PATTERN = compile_lazily(r"\d[\d,]*")
#: The share of the computed size of a shorter prompt that is used, because sizes are estimates.
_ESTIMATE_SHARE = 0.95
#: The field for ``max_tokens`` that newer models of OpenAI require.
_NEW_LIMIT_FIELD = "max_completion_tokens"


class ModelAnswer(NamedTuple):
    """A model's answer and the reasoning before it.

    ``is_truncated`` is True if the token limit ended the answer, and ``is_loop`` if kvstore ended it because it
    repeated itself. ``prompt_tokens`` and ``answer_tokens`` are the counts that the server reports, or 0.
    """

    text: str
    reasoning: str
    is_truncated: bool = False
    prompt_tokens: int = 0
    answer_tokens: int = 0
    is_loop: bool = False


class LanguageModel:
    """A client of one language model on one server. It counts requests and tokens. It remembers the optional fields of
    a request that the model rejects, and the size of the model's context once the server has reported it.
    """

    def __init__(self, name: str, *, timeouts: Timeouts, base_url: str | None = None) -> None:
        """Create a client of the model ``name`` on the server ``base_url``; ``timeouts`` limit each request.

        The default address is in the environment variable ``KVSTORE_LLM_URL``. Raises ModelError if the address, the
        key or a timeout is invalid.
        """
        self.name = name
        self._timeouts = timeouts
        address = base_url or os.environ.get(URL_VARIABLE, "").strip()
        # Without an address, the server is the one in OPENAI_BASE_URL, or OpenAI; only these get OPENAI_API_KEY.
        keys = (KEY_VARIABLE,) if address else (KEY_VARIABLE, OPENAI_KEY_VARIABLE)
        try:
            self._endpoint = Endpoint(
                ModelError,
                unavailable=ModelUnavailableError,
                timeouts=timeouts,
                base_url=address,
                base_url_name="base_url" if base_url else URL_VARIABLE,
                key_variables=keys,
                remedy="check that the server is running, or SET base_url, connect_timeout, "
                "first_token_timeout or attempts",
            )
        except ModelError as problem:
            raise self._add_model_name(problem) from None
        #: The number of answered requests.
        self.num_calls = 0
        #: The numbers of tokens sent and written, as the server counts them, or estimated.
        self.sent_tokens = 0
        self.written_tokens = 0
        #: The number of unusable answers.
        self.num_refused = 0
        #: The optional fields of a request that the model rejects.
        self._rejected_fields: set[str] = set()
        #: The size of the model's context in tokens, once its server reported it.
        self._context_tokens: int | None = None
        #: True if an answer had reasoning, which counts as part of it.
        self._has_reasoned = False

    @property
    def url(self) -> str:
        """The URL to which requests are sent."""
        return f"{self._endpoint.base_url}/chat/completions"

    def get_identity(self) -> tuple[str, ...]:
        """Return the address, the name and the temperature (0 for answers), which identify the model in cache keys."""
        return self.url, self.name, "temperature 0"

    def write(
        self,
        messages: Sequence[Message],
        *,
        response_format: Mapping[str, Any] | None = None,
        may_be_empty: bool = False,
        temperature: float = 0.0,
        max_tokens: int = MAX_ANSWER_TOKENS,
        estimated_tokens: int | None = None,
    ) -> ModelAnswer:
        """Send a prompt (``messages``) to the model, wait for the whole answer, and return it.

        ``response_format`` and ``temperature`` are the fields of these names in the OpenAI protocol. An answer without
        text is an error, unless ``may_be_empty``. ``max_tokens`` limits the answer without its reasoning.
        ``estimated_tokens`` is the number of tokens to count as sent if the server reports fewer; the default is an
        estimate from the messages.
        """
        pieces = self.stream_pieces(
            messages,
            response_format=response_format,
            may_be_empty=may_be_empty,
            temperature=temperature,
            max_tokens=max_tokens,
            estimated_tokens=estimated_tokens,
        )
        return collect_result(pieces)

    def stream_pieces(
        self,
        messages: Sequence[Message],
        *,
        response_format: Mapping[str, Any] | None = None,
        may_be_empty: bool = False,
        temperature: float = 0.0,
        max_tokens: int = MAX_ANSWER_TOKENS,
        estimated_tokens: int | None = None,
    ) -> Generator[str, None, ModelAnswer]:
        """Yield the text of an answer in pieces as they arrive, without the reasoning, and return the whole answer.

        ``messages``, ``response_format`` and ``temperature`` are fields of the OpenAI protocol. ``estimated_tokens`` is
        counted as sent if the server reports fewer (None: an estimate from the messages). ``max_tokens`` limits the
        answer, and ``may_be_empty`` allows one without text. An answer that repeats itself is ended, and a whole answer
        is counted in ``self``. Closing the generator early stops the server. Raises ModelError, and
        ModelUnavailableError if the answer breaks off or has no text.
        """
        # Servers count reasoning as part of the answer.
        optional_fields = {
            "response_format": response_format,
            "temperature": temperature,
            "max_tokens": max_tokens + (MAX_ANSWER_TOKENS if self._has_reasoned else 0),
            "stream_options": {"include_usage": True},
        }
        try:
            stream, pieces = self._open_fitting_stream(messages, optional_fields)
        except ModelError as problem:
            raise self._add_model_name(problem) from None
        text: list[str] = []
        reasoning: list[str] = []
        detectors = {True: LoopDetector(), False: LoopDetector()}  # of the reasoning, and of the answer
        is_loop = False
        try:
            while not is_loop:
                piece = self._receive_piece(pieces, text)
                if piece is None:
                    break
                is_loop = detectors[piece.is_reasoning].feed(piece.text)
                (reasoning if piece.is_reasoning else text).append(piece.text)
                if piece.is_reasoning:
                    self._has_reasoned = True
                else:
                    yield piece.text
        finally:
            stream.close()
        answer = ModelAnswer("".join(text), "".join(reasoning), stream.is_truncated, *stream.tokens, is_loop)
        if not may_be_empty:
            self._require_text(answer)
        self.num_calls += 1
        # The server's numbers can be lower than the estimates.
        self.sent_tokens += max(estimated_tokens or estimate_message_tokens(messages), answer.prompt_tokens)
        self.written_tokens += max(token_estimate(answer.text + answer.reasoning), answer.answer_tokens)
        return answer

    def _require_text(self, answer: ModelAnswer) -> None:
        """Raise ModelUnavailableError if an answer has no text besides its reasoning."""
        if answer.text.strip():
            return
        reason = "it is empty"
        if answer.is_loop or answer.is_truncated:
            reason = f"{'a loop' if answer.is_loop else 'the token limit'} ended its reasoning"
        raise self._add_model_name(
            ModelUnavailableError(f"{self.url}: the answer has no text ({reason}); use another model")
        )

    def _receive_piece(self, pieces: Iterator[Piece], earlier_texts: Sequence[str]) -> Piece | None:
        """Wait for the next piece of an answer, and return it; return None at the end of the answer.

        ``earlier_texts`` are the texts of the earlier pieces. If the answer breaks off, raises ModelUnavailableError
        with their total length.
        """
        try:
            return next(pieces, None)
        except (OSError, StreamError, ValueError) as problem:
            message = self._endpoint.extract_message(str(problem)) or type(problem).__name__
        # Raised outside of the except clause, because the cause can contain what the server repeated.
        failure = f"{self.url}: the answer broke off after {sum(map(len, earlier_texts))} characters ({message})"
        remedy = "SET token_timeout or answer_timeout if it was too slow"
        raise self._add_model_name(ModelUnavailableError(f"{failure}; ask again, or {remedy}"))

    def _open_fitting_stream(
        self, messages: Sequence[Message], optional_fields: Mapping[str, Any]
    ) -> tuple[ChatStream, Iterator[Piece]]:
        """Send ``messages`` with ``optional_fields``; return the stream of the answer and an iterator over its texts.

        Some servers count the longest possible answer as part of the request. If the request is therefore too long, it
        is sent once more, and the answer is limited to a part of the context, whose size the server's error states.
        This size is used for later requests, too. Raises PromptTooLongError if the error states no size, or if the size
        was already known, so that a repetition cannot help.
        """
        try:
            return self._open_stream(messages, optional_fields)
        except PromptTooLongError as problem:
            if problem.limit is None or self._context_tokens is not None:
                raise
            self._context_tokens = problem.limit
        return self._open_stream(messages, optional_fields)

    def _open_stream(
        self, messages: Sequence[Message], optional_fields: Mapping[str, Any]
    ) -> tuple[ChatStream, Iterator[Piece]]:
        """Send a request, and return the stream of the answer and an iterator over its texts as they arrive.

        The first text is read immediately, because a broken connection can be retried only before a text is yielded. If
        the server rejects one of ``optional_fields``, such as "temperature", this and later requests omit it, or use
        the newer name of "max_tokens". Raises ModelError, and PromptTooLongError if the prompt does not fit into the
        model's context.
        """
        payload = self._build_payload(messages, optional_fields)
        try:
            return self._endpoint.exchange("chat/completions", payload, self._read_first_piece)
        except ModelError as problem:
            message = str(problem)
            if not any(status in message for status in _INVALID_STATUSES):
                raise
            if _CONTEXT_PATTERN.search(message):
                raise _build_prompt_error(message) from None
            # "response_format" is not listed, because the caller must change it.
            names = ("temperature", _NEW_LIMIT_FIELD, "max_tokens", "stream_options")
            rejected_field = next((name for name in names if name in payload and name in message), None)
            if rejected_field is None:
                raise
        self._rejected_fields.add(rejected_field)
        return self._open_stream(messages, optional_fields)

    def _build_payload(self, messages: Sequence[Message], optional_fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON of a request, with those of ``optional_fields`` that are not None and not rejected.

        A quarter of the context, if its size is known, is left for the answer. ``max_tokens`` has its newer name if the
        model rejects the old one.
        """
        fields = dict(optional_fields)
        if self._context_tokens is not None:
            fields["max_tokens"] = min(fields["max_tokens"], self._context_tokens // 4)
        if "max_tokens" in self._rejected_fields:
            fields[_NEW_LIMIT_FIELD] = fields["max_tokens"]
        accepted_fields = {
            name: value for name, value in fields.items() if value is not None and name not in self._rejected_fields
        }
        return {
            "model": self.name,
            "messages": [dict(message) for message in messages],
            "stream": True,
            **accepted_fields,
        }

    def _read_first_piece(self, reply: Reply) -> tuple[ChatStream, Iterator[Piece]]:
        """Return the stream of a reply and an iterator over its texts; the first is already read.

        Raises ModelError if the server reports an error instead of the first text.
        """
        stream = ChatStream(
            reply,
            first_timeout=self._timeouts.first_part,
            next_timeout=self._timeouts.next_part,
            secret=self._endpoint.secret,
        )
        pieces = iter(stream)
        try:
            first_pieces = list(islice(pieces, 1))
            return stream, chain(first_pieces, pieces)
        except StreamError as problem:
            message = self._endpoint.extract_message(str(problem))
        raise ModelError(f"{self.url}: {message}")

    def _add_model_name(self, problem: KvstoreError) -> KvstoreError:
        """Return the same error with the model's name before its message."""
        message = f"language model {self.name!r}: {problem}"
        if isinstance(problem, PromptTooLongError):
            return PromptTooLongError(message, problem.limit, problem.tokens)
        return type(problem)(message)


def _build_prompt_error(message: str) -> PromptTooLongError:
    """Return the error for a server's message that a prompt is too long, with the limit and size that it mentions.

    ``message`` has the word ``status``, the three digits of the HTTP status, and the server's text.
    """
    _, _, status_and_reason = message.partition("status ")
    reason = status_and_reason[3:]  # without the digits of the status
    limit_match = _LIMIT_PATTERN.search(reason)
    limit = _parse_number(limit_match["limit"]) if limit_match else None
    # A number above the limit is the size of the prompt, or of the prompt and the answer; the smallest is the prompt.
    sizes = [number for number in map(_parse_number, _NUMBER_PATTERN.findall(reason)) if limit and number > limit]
    return PromptTooLongError(
        f"{message}; use a model with a larger context, or SET a lower prompt_tokens", limit, min(sizes, default=None)
    )


def _parse_number(digits: str) -> int:
    """Convert a number such as "8,192", with or without commas, to an integer."""
    return int(digits.replace(",", ""))


def compute_fitting_tokens(tokens: int, problem: PromptTooLongError, answer_tokens: int) -> int | None:
    """Return the size for a shorter prompt, in estimated tokens, after a prompt of ``tokens`` did not fit.

    ``problem`` is the server's error, with the size of the model's context. A quarter of the context, at most
    ``answer_tokens``, is left for the answer. Return None if the server states no limit.
    """
    if problem.limit is None:
        return None
    prompt_limit = problem.limit - min(answer_tokens, problem.limit // 4)
    # The estimate is scaled by the ratio of the limit to the size that the server counted. The result is a little less,
    # because the error of the estimate depends on the text.
    return int(_ESTIMATE_SHARE * tokens * prompt_limit / max(problem.tokens or tokens, problem.limit))


def open_language_model(name: str | None, session: SessionSettings) -> LanguageModel | None:
    """Return the model named ``name`` (None: the model that the session or the environment names).

    Return None if no model is named, or if the name is ``none``. Raises ModelError for an invalid address.
    """
    model_name = session.find_model_name(name)
    if model_name is None:
        return None
    timeouts = Timeouts(
        connect=session.connect_timeout,
        first_part=session.first_token_timeout,
        next_part=session.token_timeout,
        total=session.answer_timeout,
        attempts=session.attempts,
    )
    return LanguageModel(model_name, timeouts=timeouts, base_url=session.base_url)
