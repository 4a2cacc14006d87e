"""Reading protocol: batched requests of a strategy to one state of a store. A *request* is plain data: these terms,
these chunks, this vector. Requests sent together are a *round*. No request depends on an answer of the same round, so
the number of rounds determines the time of a query.

In: requests. Out: an answer to each. Requests as data, fetched in rounds, are those of Haxl (Marlow, Brandy, Coens and
Purdy 2014, "There is no Fork: an Abstraction for Efficient, Concurrent, and Concise Data Access", ICFP).

A strategy sends requests and computes; it does not access tables. The code that answers a request is next to the
structures that hold the answer, and only this code knows their layout.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, dataclass_transform, overload

from .counters import Counters
from .state import ChunkSortKey, State
from .vectors.vectors import Ids, Matrix, Vector

__all__ = ["BatchedReader", "ChunkSortKeysRequest", "Ids", "Matrix", "ReadRequest", "Vector"]

Answer = TypeVar("Answer", covariant=True)
First = TypeVar("First")
Second = TypeVar("Second")
Third = TypeVar("Third")
Fourth = TypeVar("Fourth")


@dataclass_transform(eq_default=False, frozen_default=True, field_specifiers=(field,))
class ReadRequest(ABC, Generic[Answer]):
    """A request for data of a state. A subclass is a dataclass; its fields are the parameters of the request.

    Requests are never compared. Only mypy keeps their fields from being assigned, because creating a frozen class takes
    four times as long, and a process creates twenty of them for its first question.
    """

    def __init_subclass__(cls) -> None:
        """Make the subclass a dataclass without ``__eq__`` and ``__repr__``, which no caller needs."""
        dataclass(eq=False, repr=False)(cls)

    @abstractmethod
    def fetch(self, state: State) -> Answer:
        """Read the answer to this request from a state."""

    def list_chunks(self, answer: Any) -> Iterable[int]:
        """Return the chunks in ``answer``; by default, none.

        The caller can then read their sort keys (document key and chunk id) without another request.
        """
        return ()


class ChunkSortKeysRequest(ReadRequest[list[ChunkSortKey]]):
    """A request for the sort keys of chunks of equal score: document key and chunk id (ascending along the text)."""

    chunks: Sequence[int]

    def fetch(self, state: State) -> list[ChunkSortKey]:
        """Read the sort key of each chunk."""
        return state.get_sort_keys(self.chunks)

    def list_chunks(self, answer: list[ChunkSortKey]) -> Iterable[int]:
        """Return all requested chunks: ``answer`` has a sort key for each."""
        return self.chunks


class BatchedReader:
    """A reader of one state of a store. It counts the ``rounds`` and the ``requests`` sent so far."""

    def __init__(self, state: State) -> None:
        """Create a reader that sends requests to ``state``; nothing has been sent yet."""
        self._state = state
        #: The settings that the store was created with; no request is needed for them.
        self.settings = state.settings
        #: The numbers of rounds (batches of requests) and of requests sent so far.
        self.rounds = 0
        self.requests = 0
        #: Called after each answer, to measure how long each takes.
        self.on_answer: Callable[[], None] | None = None
        self._known_chunks: set[int] = set()  # chunks whose sort keys were in an answer

    @property
    def counters(self) -> Counters:
        """The counters of the state, which need no request."""
        return self._state.counters

    @overload
    def fetch(self, first: ReadRequest[First], /) -> First: ...

    @overload
    def fetch(self, first: ReadRequest[First], second: ReadRequest[Second], /) -> tuple[First, Second]: ...

    @overload
    def fetch(
        self, first: ReadRequest[First], second: ReadRequest[Second], third: ReadRequest[Third], /
    ) -> tuple[First, Second, Third]: ...

    @overload
    def fetch(
        self,
        first: ReadRequest[First],
        second: ReadRequest[Second],
        third: ReadRequest[Third],
        fourth: ReadRequest[Fourth],
        /,
    ) -> tuple[First, Second, Third, Fourth]: ...

    def fetch(self, *requests: ReadRequest[Any]) -> Any:
        """Send requests together (one round) and return their answers; for a single request, its answer alone."""
        answers = self.fetch_all(requests)
        return answers[0] if len(requests) == 1 else tuple(answers)

    def fetch_all(self, requests: Sequence[ReadRequest[Any]]) -> list[Any]:
        """Send any number of requests as one round, count them, and return their answers in order.

        ``on_answer`` is called after each answer. The reader remembers the chunks whose sort keys an answer contains.
        """
        self.rounds += 1
        self.requests += len(requests)
        answers = []
        for request in requests:
            answer = request.fetch(self._state)
            answers.append(answer)
            if self.on_answer is not None:
                self.on_answer()
            self._known_chunks.update(request.list_chunks(answer))
        return answers

    def get_sort_keys(self, chunks: Sequence[int]) -> list[ChunkSortKey]:
        """Return the sort keys of chunks; this takes a round unless earlier answers had all keys.

        Known keys are read from the state on demand, because few chunks of a ranking tie.
        """
        if self._known_chunks.issuperset(chunks):
            return self._state.get_sort_keys(chunks)
        return self.fetch(ChunkSortKeysRequest(chunks))
