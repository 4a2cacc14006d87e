"""The addresses of pages about things whose names may be anything.

In: keys, names, places. Out: paths with a query, percent-encoded. The slashes of a key stay readable where no browser
would take a part of the path for a step up or leave an empty one out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote, urlencode


def build_path(address: str, name: str) -> str:
    """The address of the page of a name, below the address of its kind.

    >>> build_path("/doc/", "hr/leave.md"), build_path("/doc/", "../a b"), build_path("/doc/", "..")
    ('/doc/hr/leave.md', '/doc/..%2Fa%20b', '/doc/?name=..')
    """
    if name in ("", ".", ".."):
        return f"{address}?{urlencode({'name': name})}"
    steps = name.split("/")
    return address + quote(name, safe="" if {"", ".", ".."}.intersection(steps) else "/")


def build_document_address(key: str, start: int | None = None, end: int | None = None) -> str:
    """The page of a document; with a place, where that is marked.

    >>> build_document_address("tea", 3, 9)
    '/doc/tea?start=3&end=9#mark'
    """
    return build_path("/doc/", key) if start is None or end is None else build_places_address(key, [(start, end)])


def build_places_address(key: str, spans: Iterable[tuple[int, int]]) -> str:
    """The page of a document where some places are marked."""
    arguments = [pair for start, end in spans for pair in (("start", str(start)), ("end", str(end)))]
    return add_query(build_path("/doc/", key), arguments) + "#mark"


def build_entity_address(name: str) -> str:
    """The page of an entity."""
    return build_path("/entity/", name)


def build_page_address(address: str, **arguments: str | int | None) -> str:
    """The address of a page with arguments; those that are None or empty are left out.

    >>> build_page_address("/ask", q="What is tea?", using=None)
    '/ask?q=What+is+tea%3F'
    """
    return add_query(address, [(name, str(value)) for name, value in arguments.items() if value not in (None, "")])


def add_query(address: str, arguments: Sequence[tuple[str, str]]) -> str:
    """An address with arguments behind those that it has."""
    return f"{address}{'&' if '?' in address else '?'}{urlencode(arguments)}" if arguments else address
