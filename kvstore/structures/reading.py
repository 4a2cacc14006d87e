"""Reading protocol: what a strategy asks of one state of a store, many things at once.

In: requests, plain data that says what is wanted: these terms, these chunks, this vector, all of them at once. Out: an
answer to each. What is asked together is one *round*: no argument of a round depends on an answer of the same, so a
question takes as long as its rounds, wherever the state is. Requests as data that are fetched in rounds are those of
Haxl (Marlow, Brandy, Coens and Purdy 2014, "There is no Fork: an Abstraction for Efficient, Concurrent, and Concise
Data Access", ICFP).

A strategy asks and reckons; it knows no table. What answers a request stands beside the structures that have the answer
and is all that knows how they are laid out. :class:`StateReader` reads one state in this process.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload

from ..settings import FixedSettings
from .counters import Counters
from .state import ChunkSortKey, State
from .vectors.vectors import Ids, Matrix

__all__ = ["BatchedReader", "ChunkSortKeys", "Ids", "Matrix", "ReadRequest", "StateReader"]

Wanted = TypeVar("Wanted", covariant=True)
First = TypeVar("First")
Second = TypeVar("Second")
Third = TypeVar("Third")
Fourth = TypeVar("Fourth")


class ReadRequest(ABC, Generic[Wanted]):
    """Something that is wanted of a state; a subclass is a frozen dataclass of what to answer it takes."""

    __slots__ = ()

    @abstractmethod
    def fetch(self, state: State) -> Wanted:
        """The answer of a state."""

    def list_chunks(self, answer: Any) -> Iterable[int]:
        """The chunks of an answer that come with what orders them, so that nobody asks for it again."""
        return ()


@dataclass(frozen=True, slots=True)
class ChunkSortKeys(ReadRequest[list[ChunkSortKey]]):
    """What orders chunks that are equals: for each the key of its document, and its id, which goes up with the text."""

    chunks: Sequence[int]

    def fetch(self, state: State) -> list[ChunkSortKey]:
        return state.get_sort_keys(self.chunks)

    def list_chunks(self, answer: list[ChunkSortKey]) -> Iterable[int]:
        return self.chunks


class BatchedReader(ABC):
    """One state of a store, to be asked for things; ``rounds`` and ``requests`` count what was asked so far."""

    def __init__(self) -> None:
        self.rounds = 0
        self.requests = 0
        #: Called after each answer, by who tells how long each takes.
        self.on_answer: Callable[[], None] | None = None
        self._known_chunks: set[int] = set()

    @property
    @abstractmethod
    def settings(self) -> FixedSettings:
        """What the store was made with; known without a round."""

    @property
    @abstractmethod
    def counters(self) -> Counters:
        """How much there is in it; known without a round."""

    @abstractmethod
    def _answer_requests(self, requests: Sequence[ReadRequest[Any]]) -> list[Any]:
        """The answers to some requests of one round."""

    @abstractmethod
    def _get_known_sort_keys(self, chunks: Sequence[int]) -> list[ChunkSortKey]:
        """What orders chunks that earlier answers have named."""

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
        """The answers to one round of requests, in their order; to a single one its answer alone."""
        answers = self.fetch_all(requests)
        return answers[0] if len(requests) == 1 else tuple(answers)

    def fetch_all(self, requests: Sequence[ReadRequest[Any]]) -> list[Any]:
        """As :meth:`fetch`, of any number of requests."""
        self.rounds += 1
        self.requests += len(requests)
        answers = self._answer_requests(requests)
        for request, answer in zip(requests, answers, strict=True):
            self._known_chunks.update(request.list_chunks(answer))
        return answers

    def get_sort_keys(self, chunks: Sequence[int]) -> list[ChunkSortKey]:
        """What orders chunks that are equals; a round, unless earlier answers have named them all."""
        if self._known_chunks.issuperset(chunks):
            return self._get_known_sort_keys(chunks)
        return self.fetch(ChunkSortKeys(chunks))


class StateReader(BatchedReader):
    """Asks a state in this process. What orders chunks is read where it is needed: few of a ranking are equals."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state

    @property
    def settings(self) -> FixedSettings:
        return self._state.settings

    @property
    def counters(self) -> Counters:
        return self._state.counters

    def _answer_requests(self, requests: Sequence[ReadRequest[Any]]) -> list[Any]:
        answers = []
        for request in requests:
            answers.append(request.fetch(self._state))
            if self.on_answer is not None:
                self.on_answer()
        return answers

    def _get_known_sort_keys(self, chunks: Sequence[int]) -> list[ChunkSortKey]:
        return self._state.get_sort_keys(chunks)
