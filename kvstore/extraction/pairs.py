"""Hierarchies given as data: CSV lines ``child,parent``, each a relation of full confidence.

In: the text of a document of format ``pairs``. Out: :class:`~kvstore.extraction.relation.Relation` objects, one for
each distinct pair of names, with the bytes of its line. A line that does not have two names is an InputError. A line
that gives the same name twice is ignored.
"""

from __future__ import annotations

import csv
import io

from ..errors import InputError
from ..text.normalize import to_entity_key
from .relation import Relation

PAIR_KIND = "pair"


def parse_pairs(text: str) -> list[Relation]:
    """Return the relations in a document of format ``pairs``, in document order."""
    lines = io.StringIO(text).readlines()
    relations: dict[tuple[str, str], Relation] = {}
    reader = csv.reader(lines)
    line, start = 0, 0
    try:
        for row in reader:
            size = sum(len(part.encode()) for part in lines[line : reader.line_num])
            if len(row) != 2 or not all(cell.strip() for cell in row):
                raise InputError(f"a pair has two names, child and parent, not {row!r}")
            child, parent = (" ".join(cell.split()) for cell in row)
            keys = to_entity_key(child), to_entity_key(parent)
            if keys[0] != keys[1] and keys not in relations:
                end = start + size - lines[reader.line_num - 1].endswith("\n")
                relations[keys] = Relation(child, parent, PAIR_KIND, 1.0, start, end)
            line, start = reader.line_num, start + size
    except csv.Error as error:
        raise InputError(f"pairs are lines of CSV, child and parent: {error}") from None
    return list(relations.values())
