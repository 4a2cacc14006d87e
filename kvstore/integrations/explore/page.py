"""The definition of an explorer page: a function from a request to plain data, and a template that renders it.

In: a :class:`PageRequest`. Out: a mapping of JSON data. The template gets its keys as variables, and the page's URL
with ``.json`` returns it unchanged, so that both always agree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import kvstore

from ...errors import InputError
from ...language.bounded_query import BoundedQueries

#: The content of a page.
PageContent = dict[str, Any]
#: The maximum number of characters of an argument.
MAX_ARGUMENT_CHARS = 20_000
#: The maximum number of seconds that a page may spend on queries of the user.
SECONDS = 20.0
#: The minimum number of seconds of a call, for a page that has used up its time.
_MIN_SECONDS = 0.01

_Result = TypeVar("_Result")


class PageRequest:
    """A request for a page.

    ``store`` is its own session on the read-only store. ``name`` is the part of the URL after the page's path (``tea``
    in ``/doc/tea``). ``in_full`` is true if the content is needed all at once instead of streamed.
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
        """The seconds that the page has left."""
        return max(_MIN_SECONDS, self._deadline - time.monotonic())

    def within(self, read: Callable[[], _Result]) -> _Result:
        """Call ``read`` and return its result. Raises QueryInterruptedError when the page has used up its time."""
        return self._calls.call(read, self.seconds)

    def get_texts(self, name: str) -> list[str]:
        """Return every value of an argument in order, unchanged. Raises InputError for one that is too long."""
        texts = [text for argument, text in self.arguments if argument == name]
        for text in texts:
            if len(text) > MAX_ARGUMENT_CHARS:
                raise InputError(
                    f"{name} has {len(text):,} characters, but at most {MAX_ARGUMENT_CHARS:,} are allowed; shorten it"
                )
        return texts

    def get_text(self, name: str, default: str = "") -> str:
        """Return the last value of an argument, stripped, or the default if it is missing or empty."""
        values = self.get_texts(name)
        return (values[-1].strip() if values else "") or default

    def get_numbers(self, name: str, *, minimum: int = 0, maximum: int = 2**53) -> list[int]:
        """Return every value of an argument as an integer. Raises InputError."""
        return [_parse_number(name, value, minimum, maximum) for value in self.get_texts(name)]

    def get_number(self, name: str, default: int, *, minimum: int = 0, maximum: int = 2**53) -> int:
        """Return the value of an argument as an integer, or the default if it is missing. Raises InputError."""
        value = self.get_text(name)
        return _parse_number(name, value, minimum, maximum) if value else default

    def get_flag(self, name: str) -> bool:
        """True if an argument is given and is neither empty nor 0."""
        return self.get_text(name) not in ("", "0")


def _parse_number(name: str, value: str, minimum: int, maximum: int) -> int:
    """Parse a whole number in a range. Raises InputError."""
    text = value.strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 16 and minimum <= int(text) <= maximum):
        raise InputError(f"{name} must be a whole number from {minimum} to {maximum:,}, not {value[:40]!r}")
    return int(text)


@dataclass(frozen=True, slots=True)
class PageForm:
    """Another form of a page: text or bytes of a media type. A browser saves it as a file if it has a file name.

    The ``method`` POST is for a form that changes something of the user's, never the store; the guard lists its path.
    """

    media_type: str
    make: Callable[[PageRequest], str | bytes | Iterator[str]]
    file_name: str | None = None
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class ExplorerPage:
    """A page: its URL, the function that returns its content, and its template.

    ``label`` is its name in the navigation; pages without a label are not listed there. The URL of a ``is_named`` page
    ends in a slash and is followed by a name. ``exists`` tests for an item with a name, so that an item called
    ``package.json`` has a page. ``forms`` are additional forms by the suffix of their URLs, besides ``.json``. If the
    content includes an iterator, the page is streamed while the template renders.
    """

    url: str
    build_content: Callable[[PageRequest], PageContent]
    template: str
    label: str | None = None
    is_named: bool = False
    exists: Callable[[kvstore.Store, str], bool] = lambda store, name: False
    forms: Mapping[str, PageForm] = field(default_factory=dict)
