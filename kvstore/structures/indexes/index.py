"""A kind of index, as it declares itself; what there is to do with indexes is done for every registered kind alike.

Its record in the store says with which options it was made. Most kinds are refreshed (a materialised view): made of
states of the store, as new as their last REFRESH, and corrected when they are read. What a :class:`FileIndex` holds is
a file that may be thrown away, and its record says which file to trust.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ...arguments import Choice, Option
from ...errors import InputError
from ..state import State

if TYPE_CHECKING:
    from ...storage.index_file import Arrays, FileHead, FilePart
    from ...storage.view import WriteView
    from ..vectors.vectors import Matrix


class HasChange(Protocol):
    """What an index file holds: as of the change number ``change``."""

    @property
    def change(self) -> int: ...


Read = TypeVar("Read", bound=HasChange)
Bound = TypeVar("Bound")
#: The newest state, for as long as the block lasts: neither COMPACT nor a growing map may wait for a whole build.
States = Callable[[], AbstractContextManager[State]]


@dataclass(frozen=True, slots=True)
class IndexContent:
    """What is to be written: the head's entries of this kind (msgpack-able), named arrays, and parts, those with a name
    as they stand in the last file."""

    head: FileHead
    arrays: Arrays
    parts: Sequence[FilePart] = ()


@dataclass(frozen=True, slots=True)
class BuildTools:
    """What a build may use.

    ``embed`` gives unit vectors of texts, shape (n, dimension); ``progress`` hears how many steps of how many are done;
    once ``is_cancelled`` is true the build ends, with what is worth keeping.
    """

    embed: Callable[[Sequence[str]], Matrix]
    progress: Callable[[int, int], None]
    is_cancelled: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """How an index stands: ``built`` is the change number it has seen, ``stale`` how many it lags behind."""

    kind: str
    state: str
    built: int
    stale: int
    detail: str = ""


class Index(ABC):
    """A kind of index, wherever it is kept; an ``automatic`` kind every store has until it is dropped."""

    name: str
    description: str
    options: Mapping[str, Option | Choice]
    automatic: bool = False

    def start_record(self, record: IndexRecord, view: WriteView) -> IndexRecord:
        """The record of one that is made now, in the write transaction that puts it."""
        return record

    @abstractmethod
    def carry_over(self, record: IndexRecord) -> IndexRecord | None:
        """The record after everything derived was made again; None where the store does not have the index then."""

    def get_status(self, record: IndexRecord, state: State) -> IndexStatus | None:
        """How it stands in a state, for SHOW INDEXES: of those that are not in a file."""
        raise NotImplementedError


class FileIndex(Index, Generic[Read, Bound]):
    """A kind of index in a file. ``Read`` is what the file holds, the same for all states; ``Bound`` what one state may
    use.

    An automatic kind is extended in the background. ``building_detail`` is what SHOW INDEXES adds while a file is made.
    ``checked_in_place`` names arrays that need not be read when the file is opened: ``Read`` verifies what it meets.
    ``beside`` names the kind that this one is made, refreshed and dropped with, and after: statements name only that.
    """

    building_detail: str = ""
    checked_in_place: Collection[str] = ()
    beside: str = ""

    def carry_over(self, record: IndexRecord) -> IndexRecord | None:
        # No file of before shall be used again.
        return replace(record, tokens=(), epoch=record.epoch + 1)

    @abstractmethod
    def build(self, states: States, old: Read | None, record: IndexRecord, tools: BuildTools) -> IndexContent | None:
        """The content of the next file, made of the newest state; None where there is nothing new.

        ``old`` is what the last file holds, where that can be gone on with, and the build's own to change.
        """

    @abstractmethod
    def read(self, content: IndexContent) -> Read:
        """What a file holds: the arrays, which are views of it, the head and the parts as :meth:`build` gave them."""

    @abstractmethod
    def bind(self, read: Read, record: IndexRecord, state: State) -> Bound:
        """What a state may use of it: nothing that the state does not have is named."""

    @abstractmethod
    def describe(self, read: Read) -> str:
        """How much it holds, for SHOW INDEXES."""

    def compute_lag(self, read: Read, state: State) -> int:
        """How many changes it lags behind a state."""
        return max(0, state.counters.change - read.change)

    def explain_no_file(self, record: IndexRecord | None, state: State) -> str | None:
        """Why a state does without a file, and exactly; None where it needs one, or lacks something without."""
        return None

    def compute_extension_start(self, head: FileHead | None, record: IndexRecord, state: State) -> int:
        """Of an automatic kind: how far chunks must be numbered until the file with this head is worth extending."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class IndexRecord:
    """An index that a store has; ``options`` are those that were given, ``tokens`` those of files to be trusted.

    ``epoch`` grows when chunks or entities are numbered anew, after which no older file means anything. ``state`` is
    plain data that the kind keeps of how it stands.
    """

    kind: Index
    options: Mapping[str, float | str] = field(default_factory=dict)
    tokens: tuple[bytes, ...] = ()
    created: bool = True
    epoch: int = 0
    state: Mapping[str, Any] = field(default_factory=dict)

    def get_float_option(self, name: str) -> float:
        """The value of an option that is a number, given or not."""
        return float(self.options.get(name, self.kind.options[name].default))

    def get_str_option(self, name: str) -> str:
        """The value of an option that is one of some words, given or not."""
        return str(self.options.get(name, self.kind.options[name].default))

    def get_int_option(self, name: str) -> int:
        """The value of an option that is a whole number."""
        return int(self.get_float_option(name))

    def get_int_options(self, names: Iterable[str]) -> dict[str, int]:
        """The values of some options that are whole numbers."""
        return {name: self.get_int_option(name) for name in names}


def validate_options(
    kind: Index, options: Mapping[str, Any], suggested_names: Collection[str] | None = None
) -> dict[str, float | str]:
    """Options as they are kept; raises InputError for one that the kind does not have, or out of range.

    ``suggested_names`` are those that may be stated, where they are more than its own.
    """
    option_types, suggested_names = kind.options, kind.options if suggested_names is None else suggested_names
    valid_options: dict[str, float | str] = {}
    for name, value in options.items():
        option = option_types.get(str(name).lower())
        if option is None:
            import difflib

            close_names = difflib.get_close_matches(str(name).lower(), suggested_names, 1)
            hint = f"; did you mean {close_names[0]}?" if close_names else ""
            raise InputError(
                f"index {kind.name} has no option {name!r}{hint}; it has: {', '.join(suggested_names) or 'none'}"
            )
        label = f"index {kind.name}: option {name}"
        valid_value = (
            option.parse_choice(label, value) if isinstance(option, Choice) else _validate_number(label, option, value)
        )
        valid_options[str(name).lower()] = valid_value
    return valid_options


def _validate_number(label: str, option: Option, value: Any) -> float:
    is_integer = isinstance(option.default, int)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (is_integer and value % 1 != 0):
        raise InputError(f"{label} is a {'whole ' if is_integer else ''}number, not {value!r}")
    if not option.low <= value <= option.high:
        raise InputError(f"{label} lies between {option.low:g} and {option.high:g}, not {value!r}")
    return int(value) if is_integer else float(value)
