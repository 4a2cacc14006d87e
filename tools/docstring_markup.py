"""Docstrings as Markdown: a griffe extension for the page of the Python API.

In: docstrings as they stand in the source: examples as doctests, names in roles such as ``:class:`kvstore.Store```.
Out: the same with examples in blocks of code, and names as code.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_ROLE = re.compile(r":[a-z]+:`~?([^`]+)`")
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


def as_markdown(docstring: str) -> str:
    """A docstring as Markdown."""
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", _ROLE.sub(r"`\1`", docstring))


class DocstringMarkup(Extension):
    """Turns every docstring that is read into Markdown."""

    def on_instance(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)
