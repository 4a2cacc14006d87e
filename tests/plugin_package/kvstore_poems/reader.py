"""Files of poems: each begins with a line ``= Title``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from kvstore import RawDocument, ReadFailure

suffixes = (".poem",)


def read(stream: BinaryIO, origin: Any, options: Any) -> Iterator[RawDocument | ReadFailure]:
    """Yield a document a poem, and a failure for one that has no lines."""
    text = stream.read().decode(options.encoding or "utf-8")
    for number, poem in enumerate(text.removeprefix("= ").split("\n= ")):
        title, _, lines = poem.partition("\n")
        if lines.strip():
            yield RawDocument(f"{origin.key}#{number}", title, lines, {"lines": len(lines.splitlines())}, "text")
        else:
            yield ReadFailure(f"{origin.name}: {title}", "a poem without lines; write some below its title")
