"""The answer of a chat model as it arrives, as server-sent events or as one JSON object. *Reasoning* is what the model
writes before its answer, in a field of its own or between ``<think>`` and ``</think>``. A *filter* replaces the API key
with stars, and joins the halves of characters.

In: a reply of ``/chat/completions``. Out: pieces of text, with reasoning separate. All pieces can be encoded, even if a
server cuts a character in two, and never contain the key. A timeout, a stream that ends before its answer, and an
answer without an end raise OSError; a violation of the protocol raises ValueError; an error that the server sends
inside the stream raises :class:`StreamError`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .text_pieces import join_surrogates

if TYPE_CHECKING:
    from .http_client import Reply

#: The maximum length of one answer in bytes, because a model can repeat itself without end.
MAX_ANSWER_BYTES = 4 << 20

_THINK_START, _THINK_END = "<think>", "</think>"
#: The replacement of the key, and the number of characters of the key's beginning that are passed on before it is
#: known that the key follows: a piece that ends in "s" must not wait for the next one because keys begin with "sk-".
_STARS = "***"
_MAX_PREFIX_SHOWN = 4


class TokenCounts(NamedTuple):
    """The numbers of tokens of a prompt and of its answer, as a server reports them; 0 if it does not."""

    prompt: int = 0
    answer: int = 0


class StreamError(Exception):
    """A server reported an error inside a stream instead of the answer."""


class Piece(NamedTuple):
    """Some text from a model's answer, or of its reasoning before the answer, as it arrives."""

    text: str
    is_reasoning: bool = False


class ChatStream:
    """A reader of one answer from a server: iterate it once, to read the texts as they arrive. Each text moves the
    deadline of the next one. After the last text, ``is_truncated`` is true if the model stopped at its token limit, and
    ``tokens`` has the numbers of tokens of prompt and answer.
    """

    def __init__(self, reply: Reply, *, first_timeout: float, next_timeout: float, secret: str = "") -> None:
        """Create a reader of a model's answer, streamed in an HTTP reply; the time of the first timeout starts now.

        ``first_timeout`` and ``next_timeout`` are the seconds to wait for the first text of the answer and for each
        further text. Stars replace ``secret``, the API key, in the answer.
        """
        self._reply = reply
        self._next_timeout = next_timeout
        #: The latest time for the next text; each text moves it.
        self._deadline = time.monotonic() + first_timeout
        #: Remove the secret from both fields, and repair cut characters.
        self._text_filter, self._reasoning_filter = _SafeTextFilter(secret), _SafeTextFilter(secret)
        #: Separates reasoning between tags from the answer after it.
        self._tag_splitter = _ReasoningSplitter()
        self.is_truncated = False
        self.tokens = TokenCounts()

    def __iter__(self) -> Iterator[Piece]:
        """Yield the texts of the answer and of its reasoning as they arrive, then close the reply."""
        with self._reply:
            for text, reasoning in self._iter_deltas():
                if safe_reasoning := self._reasoning_filter.feed(reasoning):
                    yield Piece(safe_reasoning, is_reasoning=True)
                yield from self._tag_splitter.feed(self._text_filter.feed(text))
            # The filters and the splitter held back the last characters, which more text could have changed.
            if safe_reasoning := self._reasoning_filter.flush():
                yield Piece(safe_reasoning, is_reasoning=True)
            yield from self._tag_splitter.feed(self._text_filter.flush())
            yield from self._tag_splitter.flush()

    def close(self) -> None:
        """Close the reply; a server that is still writing stops."""
        self._reply.close()

    def _iter_deltas(self) -> Iterator[tuple[str, str]]:
        """Yield (text, reasoning), what each event adds to these fields, up to the event that ends the answer.

        Also updates ``tokens``, ``is_truncated`` and the deadline. Raises StreamError for an error that the server
        reports, ConnectionError if the stream ends too early, and ValueError if an event violates the protocol.
        """
        is_finished = False
        for event in self._iter_events():
            if event.get("error"):
                raise StreamError(json.dumps({"error": event["error"]}))
            self.tokens = _parse_usage(event) or self.tokens
            choices = event.get("choices")
            if not choices:  # statistics at the end, or the first event of some servers
                continue
            choice = choices[0]
            delta = choice.get("delta") or choice.get("message") or {}
            text = delta.get("content") or ""
            reasoning = delta.get("reasoning_content") or delta.get("reasoning") or ""
            if not (isinstance(text, str) and isinstance(reasoning, str)):
                raise ValueError("a field of the response must be text, but is not")
            if text or reasoning:
                self._deadline = time.monotonic() + self._next_timeout
                yield text, reasoning
            is_finished = is_finished or choice.get("finish_reason") is not None
            self.is_truncated = self.is_truncated or choice.get("finish_reason") == "length"
        if not is_finished:
            raise ConnectionError("the stream ended before the answer did")

    def _iter_events(self) -> Iterator[dict[str, Any]]:
        """Yield the decoded events of a stream, or the whole answer as one event.

        Raises ValueError if the answer is neither a stream nor JSON.
        """
        content_type = self._reply.content_type
        if content_type == "application/json":
            yield _decode_event(b"".join(self._read_bytes()))
        elif content_type == "text/event-stream":
            for data in _split_events(self._read_bytes()):
                if data == b"[DONE]":
                    self._reply.finish()
                    return
                yield _decode_event(data)
        else:
            raise ValueError(f"the response is of type {content_type}, not JSON or an event stream")

    def _read_bytes(self) -> Iterator[bytes]:
        """Yield the bytes of the reply as they arrive; raises OSError after the deadline or above the size limit."""
        size = 0
        while data := self._reply.read(self._deadline - time.monotonic()):
            size += len(data)
            if size > MAX_ANSWER_BYTES:
                raise ConnectionError(f"the answer is longer than {MAX_ANSWER_BYTES >> 20} MiB and has not ended")
            yield data


def _split_events(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the data of each server-sent event (HTML Living Standard, section 9.2.6); other fields are dropped.

    ``blocks`` yields the bytes of the stream in blocks, which can end anywhere.
    """
    buffer = bytearray()  # the line that is not complete yet
    lines: list[bytes] = []
    for block in blocks:
        buffer += block
        *complete_lines, remainder = buffer.replace(b"\r\n", b"\n").split(b"\n")
        buffer = bytearray(remainder)
        for line in complete_lines:
            if line.startswith(b"data:"):
                lines.append(bytes(line.removeprefix(b"data:").removeprefix(b" ")))
            elif not line and lines:
                yield b"\n".join(lines)
                lines = []
    if lines:  # the last event, without the empty line after it
        yield b"\n".join(lines)


def _decode_event(data: bytes) -> dict[str, Any]:
    """Parse the JSON object of an event of the OpenAI protocol; raises ValueError if it violates the protocol."""
    try:
        event = json.loads(data)
        choices = event.get("choices")
        are_objects = isinstance(choices, list) and all(isinstance(choice, dict) for choice in choices)
        if choices is not None and not are_objects:
            raise ValueError("its choices are not objects")
    except (ValueError, AttributeError, RecursionError) as problem:
        raise ValueError(f"the response is not JSON that follows the protocol ({problem})") from None
    return dict(event)


def _parse_usage(event: dict[str, Any]) -> TokenCounts | None:
    """Return the numbers of tokens if an event of the stream reports them, otherwise None."""
    usage = event.get("usage")
    if not isinstance(usage, dict):
        return None
    prompt_tokens, answer_tokens = (usage.get(name) for name in ("prompt_tokens", "completion_tokens"))
    if not (isinstance(prompt_tokens, int) and isinstance(answer_tokens, int)):
        return None
    return TokenCounts(prompt_tokens, answer_tokens)


class _SafeTextFilter:
    """A filter of a text that arrives in pieces, which are cut anywhere. It joins the halves of surrogate pairs, and
    replaces ``secret``, the API key, with stars. It holds back the end of the text (``_pending_text``) while this may
    begin a secret or a pair.
    """

    def __init__(self, secret: str) -> None:
        """Create a filter that replaces ``secret`` (an API key), unless it is empty, with stars."""
        self._secret = secret
        #: The end of the text, which more text can change.
        self._pending_text = ""
        #: The number of characters of ``_pending_text`` that were returned already.
        self._num_returned = 0

    def feed(self, text: str) -> str:
        """Add received text, and return the text that can be shown now, with the secret replaced by stars.

        A prefix of at most four characters of the secret is returned immediately, because common words can end with it;
        ``_pending_text`` still begins with it, and ``_num_returned`` counts the characters of ``_pending_text`` that
        were returned.
        """
        text = self._replace_secret(self._pending_text + text)
        returned_end = self._num_returned
        overlap = _count_overlap(text, self._secret)  # the length of a possible beginning of the secret
        ends_in_half_pair = "\ud800" <= text[-1:] <= "\udbff"  # the first of two surrogates
        num_unsafe = overlap if overlap > _MAX_PREFIX_SHOWN else int(ends_in_half_pair)
        safe_end = max(returned_end, len(text) - num_unsafe)
        pending_start = len(text) - max(overlap, num_unsafe)
        self._pending_text = text[pending_start:]
        self._num_returned = safe_end - pending_start
        return join_surrogates(text[returned_end:safe_end])

    def _replace_secret(self, text: str) -> str:
        """Return a text that begins with ``_pending_text``, with stars in place of each secret.

        If the beginning of the first secret was returned already, the stars replace the rest of it.
        """
        if not self._secret:
            return text
        secret_start = text.find(self._secret)
        if 0 <= secret_start < self._num_returned:
            text = text[: self._num_returned] + _STARS + text[secret_start + len(self._secret) :]
        return text.replace(self._secret, _STARS)

    def flush(self) -> str:
        """Return the text that was held back because more text could change it; call it at the end of the answer."""
        return join_surrogates(self._pending_text[self._num_returned :])


class _ReasoningSplitter:
    """A splitter that separates the reasoning at the beginning of a text (``<think>``) from the answer after it. It
    holds back the end of the text (``_buffer``) while this may begin a tag.
    """

    def __init__(self) -> None:
        """Create a splitter of one text: the reasoning between tags at its beginning, and the answer after it."""
        self._buffer = ""  # the end of the text, which may be the beginning of a tag
        self._state: Literal["before_reasoning", "in_reasoning", "before_answer", "in_answer"] = "before_reasoning"

    def feed(self, text: str) -> Iterator[Piece]:
        """Add received text, and yield the texts that are now known to be reasoning or answer.

        The white space before the reasoning and before the answer after it is dropped.
        """
        self._buffer += text
        if self._state == "before_reasoning":
            stripped = self._buffer.lstrip()
            if stripped.startswith(_THINK_START):
                self._state, self._buffer = "in_reasoning", stripped.removeprefix(_THINK_START)
            elif not _THINK_START.startswith(stripped):
                self._state = "in_answer"
        if self._state == "in_reasoning":
            reasoning, end_tag, answer = self._buffer.partition(_THINK_END)
            if end_tag:
                self._state, self._buffer = "before_answer", answer
            else:
                overlap = _count_overlap(reasoning, _THINK_END)
                reasoning, self._buffer = reasoning[: len(reasoning) - overlap], reasoning[len(reasoning) - overlap :]
            if reasoning:
                yield Piece(reasoning, is_reasoning=True)
        if self._state == "before_answer":
            self._buffer = self._buffer.lstrip()
            if self._buffer:
                self._state = "in_answer"
        if self._state == "in_answer" and self._buffer:
            yield Piece(self._buffer)
            self._buffer = ""

    def flush(self) -> Iterator[Piece]:
        """Yield and drop the text in the buffer, held back because it could begin a tag; call it at the end."""
        if self._buffer:
            yield Piece(self._buffer, self._state == "in_reasoning")
            self._buffer = ""


def _count_overlap(text: str, pattern: str) -> int:
    """Return the length of the longest suffix of ``text`` that is a proper prefix of ``pattern``."""
    return next((size for size in range(len(pattern) - 1, 0, -1) if text.endswith(pattern[:size])), 0)
