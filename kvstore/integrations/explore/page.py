"""The definition of an explorer page: a function from a request to its *content*, a mapping of JSON data, and a
template that gets the keys of the content as variables.

In: a :class:`PageRequest`. Out: the content. The page's URL with ``.json`` returns it unchanged, so that it always
agrees with the page.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import kvstore

from ...errors import InputError, KvstoreError
from ...language.bounded_query import BoundedQueries
from ..tool_definitions import check_argument_length

#: The content of a page. A page that reports invalid input in its form has the message as ``invalid``.
PageContent = dict[str, Any]
#: The maximum number of characters of an argument.
_MAX_ARGUMENT_CHARS = 20_000
#: The maximum number of seconds that a page may spend on the user's queries.
SECONDS = 20.0
#: The minimum number of seconds of a call, for a page that has used up its time.
_MIN_SECONDS = 0.01
#: The maximum number of digits of a number: 2**53 has 16.
_MAX_DIGITS = 16

_Result = TypeVar("_Result")


class PageRequest:
    """A request for a page. ``store`` is a read-only session for this request, ``name`` the object in the path (``tea``
    in ``/doc/tea``), and ``arguments`` those of the URL's query. ``as_data`` is true if the response is JSON or a file
    instead of HTML.

    The content of data has no iterators, and nothing that only the template shows. ``bounded_queries`` runs the calls
    of :meth:`run_within_deadline`.
    """

    def __init__(
        self,
        store: kvstore.Store,
        name: str,
        arguments: Sequence[tuple[str, str]],
        *,
        as_data: bool = True,
        bounded_queries: BoundedQueries | None = None,
    ) -> None:
        """Create a request whose time limit starts now; ``arguments`` are the names and values of the URL's query.

        ``name`` is the object in the path, or empty. The content is for JSON if ``as_data``, else for a template.
        ``bounded_queries`` runs calls that have a deadline.
        """
        self.store = store
        self.name = name
        self.arguments = tuple(arguments)
        self.as_data = as_data
        self._bounded_queries = bounded_queries or BoundedQueries()
        self._deadline = time.monotonic() + SECONDS

    @property
    def seconds_left(self) -> float:
        """The seconds left until the page's deadline, at least 0.01."""
        return max(_MIN_SECONDS, self._deadline - time.monotonic())

    def run_within_deadline(self, read: Callable[[], _Result]) -> _Result:
        """Run ``read`` and return its result. Raises QueryInterruptedError when the page has used up its time."""
        return self._bounded_queries.call(read, self.seconds_left)

    def get_texts(self, name: str) -> list[str]:
        """Return every value of an argument in order, unchanged. Raises InputError for a value that is too long."""
        texts = [text for argument, text in self.arguments if argument == name]
        for text in texts:
            check_argument_length(name, text, _MAX_ARGUMENT_CHARS)
        return texts

    def get_text(self, name: str, default: str = "") -> str:
        """Return the last value of an argument, stripped, or the default if it is missing or empty."""
        values = self.get_texts(name)
        return (values[-1].strip() if values else "") or default

    def get_numbers(self, name: str) -> list[int]:
        """Return every value of an argument as an integer. Raises InputError for anything but integers from 0 on."""
        return [_parse_number(name, value) for value in self.get_texts(name)]

    def get_number(self, name: str, default: int, *, minimum: int = 0, maximum: int = 2**53) -> int:
        """Return the value of an argument as an integer, or the default if it is missing or empty.

        Raises InputError for anything but an integer from ``minimum`` to ``maximum``.
        """
        value = self.get_text(name)
        return _parse_number(name, value, minimum, maximum) if value else default

    def report_invalid(self, content: PageContent, error: KvstoreError) -> PageContent:
        """Return ``content``, the form of a page, with the message of an error in the user's input.

        Raises the error if the response is data instead of a page.
        """
        if self.as_data:
            raise error
        return content | {"invalid": str(error)}


def _parse_number(name: str, value: str, minimum: int = 0, maximum: int = 2**53) -> int:
    """Parse a whole number from ``minimum`` to ``maximum``. Raises InputError for any other text."""
    text = value.strip()
    is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
    if not is_number or not minimum <= int(text) <= maximum:
        raise InputError(f"{name} must be a whole number from {minimum} to {maximum:,}, not {value[:40]!r}")
    return int(text)


@dataclass(frozen=True, slots=True)
class PageRepresentation:
    """Another representation of a page, such as its rows as CSV; ``make`` returns its content for a request.

    A browser saves it as a file if it has a ``file_name``. The ``method`` is POST if the request changes the user's
    settings; no request changes the store. The guard lists the paths with POST.
    """

    media_type: str
    make: Callable[[PageRequest], str | bytes | Iterator[str]]
    file_name: str | None = None
    method: str = "GET"


@dataclass(frozen=True, slots=True)
class ExplorerPage:
    """A page: its URL, the function that returns its content, and its template.

    ``label`` is its name in the navigation; pages without a label are not listed there. If ``is_named``, the URL ends
    in a slash and is followed by a name. ``exists`` says whether the store has an item with a name, so that an item
    called ``package.json`` has a page. ``representations`` are the formats of the page besides HTML and ``.json``, by
    the suffix of their URLs. If the content includes an iterator, the page is streamed while the template renders.
    """

    url: str
    build_content: Callable[[PageRequest], PageContent]
    template: str
    label: str | None = None
    is_named: bool = False
    exists: Callable[[kvstore.Store, str], bool] = lambda store, name: False
    representations: Mapping[str, PageRepresentation] = field(default_factory=dict)
