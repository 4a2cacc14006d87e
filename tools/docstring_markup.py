"""Docstrings as Markdown: a griffe extension for the page of the Python API.

In: docstrings of the source, with examples as doctests and names in roles such as ``:class:`kvstore.Store```. Out: the
same docstrings with examples in code blocks, and names as code.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def as_markdown(docstring: str) -> str:
    """Return a docstring as Markdown: examples become code blocks, and roles become code."""
    return _EXAMPLE.sub(lambda example: f"```pycon\n{example[0]}\n```", _ROLE.sub(r"`\1`", docstring))


class DocstringMarkup(Extension):
    """An extension that converts every docstring to Markdown."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        """Convert the docstring of an object as soon as griffe has loaded it."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
