"""Triples: facts that a language model or another tool extracted from documents in the store.

In: JSON Lines as :mod:`.json_lines` reads them. A line names a document by ``document``, ``id`` or ``key``. It has
lists of ``triples`` and ``entities`` (names; numbers, dates and descriptions are left out), at least one of them, or is
a triple itself. A triple is a list of subject, relation and object, or an object with these fields (``predicate`` is
accepted for ``relation``). In a longer list, all texts between the first and the last are the relation ("is", "capital
of"). Out: a :class:`RawFact` for each line, and a ReadFailure for an invalid line or for its invalid triples.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from ..text.stated_names import is_written_as_name
from .json_lines import BadLineError, read_lines, take_document_key
from .raw_document import JSON, Item, Origin, RawFact, ReadFailure, ReadOptions


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield the triples and entity names of each line as a RawFact, and a failure for invalid triples or lines.

    Raises ReaderError if all lines are blank, or if the file is not text.
    """
    return read_lines(stream, origin, lambda fields, position: _build_items(fields, position, options), options)


def _build_items(fields: dict[str, JSON], position: str, options: ReadOptions) -> Iterator[Item]:
    """Yield a RawFact with the valid triples and the entity names that the object ``fields`` states about a document.

    If some triples are invalid, also yield a failure that lists them. ``position`` is the line's ``path:line``. Raises
    BadLineError if the key, the list of triples or a name is invalid.
    """
    key = take_document_key(fields, options.key)
    rows, names = fields.get("triples"), fields.get("entities")
    if rows is None and names is None:  # the line is a triple itself
        rows = [fields]
    rows, names = [] if rows is None else rows, [] if names is None else names
    if not isinstance(rows, list) or not isinstance(names, list):
        raise BadLineError("the fields triples and entities must be lists; put brackets around each")
    triples = [_parse_triple(row) for row in rows]
    bad_numbers = [number for number, triple in enumerate(triples, 1) if triple is None]
    name_texts = [_to_text(name) for name in names]
    if None in name_texts:
        raise BadLineError("the field entities must be a list of names; write each name as a nonempty string")
    entity_names: list[JSON] = [text for text in name_texts if text is not None and is_written_as_name(text)]
    # As in an export, the field "triples" has the key of the document.
    fact: dict[str, JSON] = {"triples": key, "names": entity_names, "rows": [row for row in triples if row]}
    yield RawFact(key, fact, position)
    if bad_numbers:
        subject = (
            f"triple {bad_numbers[0]} was"
            if len(bad_numbers) == 1
            else f"triples {', '.join(map(str, bad_numbers))} were"
        )
        yield ReadFailure(
            position, f"{subject} left out; write each triple as three nonempty strings: subject, relation and object"
        )


def _parse_triple(triple: JSON) -> list[JSON] | None:
    """Return the subject, relation and object of ``triple``, a list or object; None if one is missing or not text.

    In a list of more than three texts, the texts between the first and the last are the words of the relation.
    """
    if isinstance(triple, dict):
        triple = [triple.get("subject"), triple.get("relation", triple.get("predicate")), triple.get("object")]
    if not isinstance(triple, list) or len(triple) < 3:
        return None
    texts = [text for text in map(_to_text, triple) if text is not None]
    return [texts[0], " ".join(texts[1:-1]), texts[-1]] if len(texts) == len(triple) else None


def _to_text(value: JSON) -> str | None:
    """Return a nonblank text unchanged, a number as text, and None for any other value."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) and value.strip() else None
