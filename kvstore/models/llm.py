"""The language model that writes answers, behind an OpenAI-compatible ``/chat/completions``.

In: messages. Out: the model's text, piece by piece as it arrives. Ollama, vLLM, the server of llama.cpp and OpenAI
accept the request: model, messages, ``stream`` and a temperature of 0, which is left out for a model that rejects it. A
wrong address, key or name, and an answer that violates the protocol, raise :class:`~kvstore.errors.ModelError`. A
server that is down, busy or too slow, or whose answer breaks off, raises
:class:`~kvstore.errors.ModelUnavailableError`. A request is not repeated once a piece was passed on.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from ..errors import KvstoreError, ModelError, ModelUnavailableError
from ..settings import SessionSettings
from .chat_stream import ChatStream, Piece, StreamError
from .endpoint import KEY_VARIABLE as OPENAI_KEY_VARIABLE
from .endpoint import Endpoint
from .text_pieces import collect_result
from .timeouts import Timeouts

if TYPE_CHECKING:
    from .http_client import Reply

MODEL_VARIABLE = "KVSTORE_LLM_MODEL"
URL_VARIABLE = "KVSTORE_LLM_URL"
KEY_VARIABLE = "KVSTORE_LLM_KEY"

#: The name for no model, in the environment or the session.
NO_MODEL = "none"

Message = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A model's answer; ``is_truncated`` if its token limit ended it.

    ``prompt_tokens`` and ``answer_tokens`` are the counts that the server reports, 0 if it does not.
    """

    text: str
    reasoning: str
    is_truncated: bool = False
    prompt_tokens: int = 0
    answer_tokens: int = 0


class LanguageModel:
    """A model of one server."""

    def __init__(self, name: str, *, timeouts: Timeouts, base_url: str | None = None) -> None:
        """Prepare requests to a model; the address defaults to the environment. Raises ModelError if it is invalid."""
        self.name = name
        self._timeouts = timeouts
        address = base_url or os.environ.get(URL_VARIABLE, "").strip()
        # OPENAI_API_KEY is sent only to OpenAI's own address.
        keys = (KEY_VARIABLE,) if address else (KEY_VARIABLE, OPENAI_KEY_VARIABLE)
        try:
            self._endpoint = Endpoint(
                ModelError,
                unavailable=ModelUnavailableError,
                timeouts=timeouts,
                base_url=address,
                base_url_name="base_url" if base_url else URL_VARIABLE,
                key_variables=keys,
                remedy="check that the server runs, or SET base_url, connect_timeout, first_token_timeout or attempts",
            )
        except ModelError as problem:
            raise self._add_model_name(problem) from None
        self._temperature: float | None = 0.0

    @property
    def url(self) -> str:
        """The address of the model."""
        return f"{self._endpoint.base_url}/chat/completions"

    def get_identity(self) -> tuple[str, ...]:
        """Return everything that the model's answers depend on besides the messages."""
        return self.url, self.name, "temperature 0"

    def write(
        self,
        messages: Sequence[Message],
        *,
        response_format: Mapping[str, Any] | None = None,
        may_be_empty: bool = False,
    ) -> ModelAnswer:
        """Return the model's answer.

        ``response_format`` is the protocol's field of this name. An answer without text is an error, unless it
        ``may_be_empty``.
        """
        return collect_result(self.stream_pieces(messages, response_format=response_format, may_be_empty=may_be_empty))

    def stream_pieces(
        self,
        messages: Sequence[Message],
        *,
        response_format: Mapping[str, Any] | None = None,
        may_be_empty: bool = False,
    ) -> Generator[str, None, ModelAnswer]:
        """Yield the pieces of an answer's text as they arrive, without the reasoning, and return the whole answer.

        The parameters are those of :meth:`write`. Closing the generator early stops the server.
        """
        try:
            stream, pieces = self._open_stream(messages, response_format)
        except ModelError as problem:
            raise self._add_model_name(problem) from None
        text: list[str] = []
        reasoning: list[str] = []
        try:
            while (piece := self._read_next_piece(pieces, text)) is not None:
                (reasoning if piece.is_reasoning else text).append(piece.text)
                if not piece.is_reasoning:
                    yield piece.text
        finally:
            stream.close()
        if not may_be_empty and not "".join(text).strip():
            reason = "the token limit ended its reasoning" if stream.is_truncated else "it is empty"
            raise self._add_model_name(
                ModelUnavailableError(f"{self.url}: the answer has no text ({reason}); use another model")
            )
        return ModelAnswer("".join(text), "".join(reasoning), stream.is_truncated, *stream.tokens)

    def _read_next_piece(self, pieces: Iterator[Piece], received: Sequence[str]) -> Piece | None:
        """Return the next piece, or None after the last; ``received`` is the text so far, for the error message."""
        try:
            return next(pieces, None)
        except (OSError, StreamError, ValueError) as problem:
            message = self._endpoint.extract_message(str(problem)) or type(problem).__name__
        # Raised outside of the except clause, because the cause can contain what the server repeated.
        failure = f"{self.url}: the answer broke off after {sum(map(len, received))} characters ({message})"
        remedy = "SET token_timeout or answer_timeout if it was too slow"
        raise self._add_model_name(ModelUnavailableError(f"{failure}; ask again, or {remedy}"))

    def _open_stream(
        self, messages: Sequence[Message], response_format: Mapping[str, Any] | None
    ) -> tuple[ChatStream, Iterator[Piece]]:
        """Send the request, and return the stream and its pieces.

        The first piece is read at once, because a broken connection can be retried only before a piece is passed on. If
        the server rejects the temperature, the request is repeated without it.
        """
        payload: dict[str, Any] = {
            "model": self.name,
            "messages": [dict(message) for message in messages],
            "stream": True,
        }
        if response_format is not None:
            payload["response_format"] = response_format
        if self._temperature is not None:
            payload["temperature"] = self._temperature
        try:
            return self._endpoint.exchange("chat/completions", payload, self._read_first_piece)
        except ModelError as problem:
            if self._temperature is None or "status 400" not in str(problem) or "temperature" not in str(problem):
                raise
        self._temperature = None
        return self._open_stream(messages, response_format)

    def _read_first_piece(self, reply: Reply) -> tuple[ChatStream, Iterator[Piece]]:
        """Return the stream of a reply and its pieces, of which the first is already read."""
        stream = ChatStream(
            reply, first=self._timeouts.first, between=self._timeouts.between, secret=self._endpoint.secret
        )
        pieces = iter(stream)
        try:
            return stream, chain(list(islice(pieces, 1)), pieces)
        except StreamError as problem:
            message = self._endpoint.extract_message(str(problem))
        raise ModelError(f"{self.url}: {message}")

    def _add_model_name(self, problem: KvstoreError) -> KvstoreError:
        """Return an error with the model's name before its message."""
        return type(problem)(f"language model {self.name!r}: {problem}")


def open_language_model(name: str | None, session: SessionSettings) -> LanguageModel | None:
    """Return the model of a name, by default the one of the session or of the environment.

    Return None if none of them names a model, or if the name is ``none``. Raises ModelError for an invalid address.
    """
    model_name = name or session.model or os.environ.get(MODEL_VARIABLE, "").strip() or NO_MODEL
    if model_name.lower() == NO_MODEL:
        return None
    timeouts = Timeouts(
        session.connect_timeout,
        session.first_token_timeout,
        session.token_timeout,
        session.answer_timeout,
        session.attempts,
    )
    return LanguageModel(model_name, timeouts=timeouts, base_url=session.base_url)
