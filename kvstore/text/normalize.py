"""One normal form for names and text: NFKC, case folding, single white space.

In: a ``str``. Out: :func:`entity_key`, the key under which a name is stored, or :class:`Folded`, a whole text in the
same form as UTF-8 together with the way back to byte offsets of the original. A name *occurs* in a text where its key
stands in the folded text, runs of white space counting as one space, neither end cutting a word in two, and no blank
line inside.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from dataclasses import dataclass

#: Runs of white space and of everything else, alternating, nothing lost.
_PIECES = re.compile(r"\s+|\S+")


def _nfkc_casefold(text: str) -> str:
    # Folding can undo composition and composition can make new folds: twice is a fixed point for all of Unicode 15.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return unicodedata.normalize("NFKC", folded.casefold())


def entity_key(name: str) -> str:
    """Return the normal form of ``name``; names with equal keys are one entity.

    >>> entity_key("  Ludwig\\u00a0van  BEETHOVEN ")
    'ludwig van beethoven'
    """
    folded = name.lower() if name.isascii() else _nfkc_casefold(name)
    return " ".join(folded.split())


@dataclass(frozen=True, slots=True)
class Folded:
    """A text in normal form, white space kept as it stands.

    ``data`` is its UTF-8; ``offsets[i]`` is the byte of the original text at which byte ``i`` of ``data`` begins
    (``len(data) + 1`` numbers), or None where the two agree byte for byte.
    """

    data: bytes
    offsets: array[int] | None

    def original(self, offset: int) -> int:
        """Byte offset in the original text of byte ``offset`` of ``data``."""
        return offset if self.offsets is None else self.offsets[offset]


def _clusters(piece: str) -> list[str]:
    """Split before every character that starts a new combining sequence."""
    clusters: list[str] = []
    for character in piece:
        if clusters and unicodedata.combining(character):
            clusters[-1] += character
        else:
            clusters.append(character)
    return clusters


def fold(text: str) -> Folded:
    """Bring ``text`` into normal form and remember where each byte came from."""
    if text.isascii():
        return Folded(text.lower().encode(), None)
    data = bytearray()
    offsets: array[int] = array("Q")
    position = 0  # byte offset in the original
    for piece in _PIECES.findall(text):
        length = len(piece.encode())
        if piece.isascii():
            data += piece.lower().encode()
            offsets.extend(range(position, position + length))
        else:
            whole = _nfkc_casefold(piece)
            parts = [(_nfkc_casefold(cluster).encode(), len(cluster.encode())) for cluster in _clusters(piece)]
            if b"".join(part for part, _ in parts) != whole.encode():
                # Characters that compose across clusters (Hangul jamo): only the ends of the piece are known.
                parts = [(whole.encode(), length)]
            inner = position
            for part, size in parts:
                data += part
                offsets.extend([inner] * len(part))
                inner += size
        position += length
    offsets.append(position)
    return Folded(bytes(data), offsets)
