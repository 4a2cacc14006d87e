"""URLs of pages about objects with arbitrary names, such as documents and entities. A name that a path cannot express,
such as ``..``, becomes the argument ``name`` of the URL.

In: keys, names, spans. Out: percent-encoded paths with a query. The slashes of a key stay readable unless a browser
would resolve or drop a part of the path.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote, urlencode


def can_be_path(name: str) -> bool:
    """True if a path can express ``name``: browsers resolve ``.`` and ``..``, and a route matches no line break."""
    return name not in ("", ".", "..") and "\n" not in name


def build_path(url: str, name: str) -> str:
    """Return the URL of the page of ``name``, such as a document's key, below ``url``, such as ``/doc/``.

    >>> build_path("/doc/", "hr/leave.md"), build_path("/doc/", "../a b"), build_path("/doc/", "..")
    ('/doc/hr/leave.md', '/doc/..%2Fa%20b', '/doc/?name=..')
    """
    if not can_be_path(name):
        return f"{url}?{urlencode({'name': name})}"
    # Browsers resolve the parts "." and "..", and servers may merge empty parts, so the slashes are then quoted, too.
    parts = name.split("/")
    return url + quote(name, safe="" if {"", ".", ".."}.intersection(parts) else "/")


def build_document_url(key: str, start: int | None = None, end: int | None = None) -> str:
    """Return the URL of a document's page, with a marked span if one is given.

    >>> build_document_url("tea", 3, 9)
    '/doc/tea?start=3&end=9#mark'
    """
    return build_path("/doc/", key) if start is None or end is None else build_spans_url(key, [(start, end)])


def build_spans_url(key: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return the URL of a document's page that marks some spans, in bytes, and scrolls to the first."""
    arguments = [pair for start, end in spans for pair in (("start", str(start)), ("end", str(end)))]
    return add_query(build_path("/doc/", key), arguments) + "#mark"


def build_entity_url(name: str) -> str:
    """Return the URL of an entity's page."""
    return build_path("/entity/", name)


def build_tree_url(name: str, under: str | None = None) -> str:
    """Return the URL of an entity tree's page, or of the page of the subtree below the name ``under``."""
    return add_query(build_path("/tree/", name), [] if under is None else [("under", under)])


def build_page_url(url: str, **arguments: str | int | None) -> str:
    """Return the URL of a page with arguments; arguments that are None or empty are omitted.

    >>> build_page_url("/ask", q="What is tea?", using=None)
    '/ask?q=What+is+tea%3F'
    """
    return add_query(url, [(name, str(value)) for name, value in arguments.items() if value not in (None, "")])


def add_query(url: str, arguments: Sequence[tuple[str, str]]) -> str:
    """Return a URL with arguments appended to its query; without arguments, the URL unchanged."""
    return f"{url}{'&' if '?' in url else '?'}{urlencode(arguments)}" if arguments else url
