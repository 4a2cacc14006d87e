"""A kind of index, as it declares itself; what there is to do with indexes is done for every registered kind alike.

An index is refreshed (a materialised view): made of states of the store, as new as its last REFRESH, and corrected when
it is read. What it holds is a file that may be thrown away; its record in the store says which file to trust, and with
which options it was made.
"""

from __future__ import annotations

import difflib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ...arguments import Option
from ...errors import InputError
from ...storage.index_file import Arrays, FileHead
from ..state import State
from ..vectors.vectors import Matrix


class Dated(Protocol):
    """What an index file holds: as of the change number ``change``."""

    @property
    def change(self) -> int: ...


Read = TypeVar("Read", bound=Dated)
Bound = TypeVar("Bound")
#: The newest state, for as long as the block lasts: neither COMPACT nor a growing map may wait for a whole build.
States = Callable[[], AbstractContextManager[State]]


@dataclass(frozen=True, slots=True)
class Content:
    """What is to be written: the head's entries of this kind (msgpack-able), and named arrays."""

    head: FileHead
    arrays: Arrays


@dataclass(frozen=True, slots=True)
class BuildTools:
    """What a build may use.

    ``embed`` gives unit vectors of texts, shape (n, dimension); ``progress`` hears how many steps of how many are done;
    once ``cancelled`` is true the build ends, with what is worth keeping.
    """

    embed: Callable[[Sequence[str]], Matrix]
    progress: Callable[[int, int], None]
    cancelled: Callable[[], bool]


class Index(ABC, Generic[Read, Bound]):
    """A kind of index. ``Read`` is what its file holds, the same for all states; ``Bound`` what one state may use.

    An ``automatic`` kind every store has until it is dropped, and it is extended in the background. ``building`` is
    what SHOW INDEXES adds while a file is made.
    """

    name: str
    description: str
    options: Mapping[str, Option]
    automatic: bool = False
    building: str = ""

    @abstractmethod
    def build(self, states: States, old: Read | None, record: IndexRecord, tools: BuildTools) -> Content | None:
        """The content of the next file, made of the newest state; None where there is nothing new.

        ``old`` is what the last file holds, where that can be gone on with, and the build's own to change.
        """

    @abstractmethod
    def read(self, arrays: Arrays, head: FileHead) -> Read:
        """What a file holds: the arrays, which are views of it, and the head as :meth:`build` gave them."""

    @abstractmethod
    def bound(self, read: Read, record: IndexRecord, state: State) -> Bound:
        """What a state may use of it: nothing that the state does not have is named."""

    @abstractmethod
    def describe(self, read: Read) -> str:
        """How much it holds, for SHOW INDEXES."""

    def lag(self, read: Read, state: State) -> int:
        """How many changes it lags behind a state."""
        return max(0, state.counters.change - read.change)

    def without_file(self, record: IndexRecord | None, state: State) -> str | None:
        """Why a state does without a file, and exactly; None where it needs one, or lacks something without."""
        return None

    def extended_from(self, head: FileHead | None, record: IndexRecord, state: State) -> int:
        """Of an automatic kind: how far chunks must be numbered until the file with this head is worth extending."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """An index that a store has; ``options`` are those that were given, ``tokens`` those of files to be trusted.

    ``epoch`` grows when chunks or entities are numbered anew, after which no older file means anything.
    """

    kind: Index[Any, Any]
    options: Mapping[str, float] = field(default_factory=dict)
    tokens: tuple[bytes, ...] = ()
    created: bool = True
    epoch: int = 0

    def option(self, name: str) -> float:
        """The value of an option, given or not."""
        return self.options.get(name, self.kind.options[name].default)

    def count(self, name: str) -> int:
        """The value of an option that is a whole number."""
        return int(self.option(name))

    def counts(self, names: Iterable[str]) -> dict[str, int]:
        """The values of some options that are whole numbers."""
        return {name: self.count(name) for name in names}


def checked_options(kind: Index[Any, Any], options: Mapping[str, Any]) -> dict[str, float]:
    """Options as numbers; raises InputError for one that the kind does not have, or out of range."""
    known = kind.options
    checked = {}
    for name, value in options.items():
        option = known.get(str(name).lower())
        if option is None:
            near = difflib.get_close_matches(str(name).lower(), known, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise InputError(f"index {kind.name} has no option {name!r}{hint}; it has: {', '.join(known) or 'none'}")
        whole = isinstance(option.default, int)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or (whole and value % 1 != 0):
            raise InputError(f"index {kind.name}: option {name} is a {'whole ' if whole else ''}number, not {value!r}")
        if not option.low <= value <= option.high:
            limits = f"{option.low:g} and {option.high:g}"
            raise InputError(f"index {kind.name}: option {name} lies between {limits}, not {value!r}")
        checked[name.lower()] = int(value) if whole else float(value)
    return checked
