"""What a page of the explorer is: a function of a request that gives plain data, and a template that shows it.

In: a :class:`PageRequest`, which is a request as a page sees it. Out: a mapping that JSON can hold. The page's template
sees its keys as variables, and the page's address with ``.json`` gives it as it is, so that both always tell the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import kvstore

from ...errors import InputError
from ...language.bounded_query import BoundedQueries

#: What is on a page.
PageContent = dict[str, Any]
#: Characters of an argument.
MAX_ARGUMENT_CHARS = 20_000
#: Seconds that a page may take to read what a user's text asks for.
SECONDS = 20.0
#: Seconds of the shortest call, for a page whose time is over.
_MIN_SECONDS = 0.01

_Result = TypeVar("_Result")


class PageRequest:
    """A request for a page.

    ``store`` is a session of its own on the read-only store, ``name`` what follows the page's address (of ``/doc/tea``:
    ``tea``), ``in_full`` whether everything is wanted at once, which a template can take in pieces.
    """

    def __init__(
        self,
        store: kvstore.Store,
        name: str,
        arguments: Sequence[tuple[str, str]],
        *,
        in_full: bool = True,
        calls: BoundedQueries | None = None,
    ) -> None:
        self.store = store
        self.name = name
        self.arguments = tuple(arguments)
        self.in_full = in_full
        self._calls = calls or BoundedQueries()
        self._deadline = time.monotonic() + SECONDS

    @property
    def seconds(self) -> float:
        """The seconds that are left to the page."""
        return max(_MIN_SECONDS, self._deadline - time.monotonic())

    def within(self, read: Callable[[], _Result]) -> _Result:
        """Return what ``read`` returns; raises QueryInterruptedError once the time of the page is over."""
        return self._calls.call(read, self.seconds)

    def get_texts(self, name: str) -> list[str]:
        """Every value of an argument, in order, as it was given; raises InputError for one that is too long."""
        values = [value for argument, value in self.arguments if argument == name]
        for value in values:
            if len(value) > MAX_ARGUMENT_CHARS:
                raise InputError(
                    f"{name} has {len(value):,} characters, and may have {MAX_ARGUMENT_CHARS:,}; give less"
                )
        return values

    def get_text(self, name: str, default: str = "") -> str:
        """The last value of an argument without space around it, or the default where it is missing or empty."""
        values = self.get_texts(name)
        return (values[-1].strip() if values else "") or default

    def get_numbers(self, name: str, *, minimum: int = 0, maximum: int = 2**53) -> list[int]:
        """Every value of an argument as a whole number; raises InputError."""
        return [_parse_number(name, value, minimum, maximum) for value in self.get_texts(name)]

    def get_number(self, name: str, default: int, *, minimum: int = 0, maximum: int = 2**53) -> int:
        """The value of an argument as a whole number, or the default where there is none; raises InputError."""
        value = self.get_text(name)
        return _parse_number(name, value, minimum, maximum) if value else default

    def get_flag(self, name: str) -> bool:
        """Whether an argument is given, and neither empty nor 0."""
        return self.get_text(name) not in ("", "0")


def _parse_number(name: str, value: str, minimum: int, maximum: int) -> int:
    text = value.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and minimum <= int(text) <= maximum):
        raise InputError(f"{name} is a whole number from {minimum} to {maximum:,}, not {value[:40]!r}")
    return int(text)


@dataclass(frozen=True, slots=True)
class PageForm:
    """Another form of a page: text or bytes of some media type; a browser saves it as a file where that has a name."""

    media_type: str
    make: Callable[[PageRequest], str | bytes | Iterator[str]]
    file_name: str | None = None


@dataclass(frozen=True, slots=True)
class ExplorerPage:
    """A page: where it is, the function that knows what is on it, and the template that shows that.

    ``label`` is what the navigation calls it; one without a label is not in it. The address of a page that is
    ``is_named`` ends in a slash, and a name follows it; ``exists`` says whether there is a thing of a name, so that one
    called ``package.json`` has a page. ``forms`` are further forms by the suffix of their addresses, beside
    ``.json``. A page that has an iterator among its content is sent while its template is written, which may then wait
    for what comes.
    """

    address: str
    build_content: Callable[[PageRequest], PageContent]
    template: str
    label: str | None = None
    is_named: bool = False
    exists: Callable[[kvstore.Store, str], bool] = lambda store, name: False
    forms: Mapping[str, PageForm] = field(default_factory=dict)
