"""Derived texts of existing documents, written by a language model or the user: ``INGEST ... AS`` a kind of them.

In: JSON Lines as :mod:`.json_lines` reads them. A line names a document by ``document``, ``id`` or ``key``, and has a
list of texts in the field named like the kind, such as ``units``; ``model`` can name their author. Out: a
:class:`RawFact` for each line, and a ReadFailure for an invalid line.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

from ..readers.json_lines import BadLineError, read_lines, take_field
from ..readers.raw_document import JSON, FormatReader, Item, Origin, RawFact, ReadOptions
from ..registry import get_written_facts
from ..registry.written_passages import USER_SOURCE, WrittenFact

_KEY_FIELDS = ("document", "id", "key")


def make_model_text_readers() -> dict[str, FormatReader]:
    """Return the readers of JSON Lines files with texts that a model wrote about stored documents.

    There is one for each kind of such texts that files may contain, such as ``units``, by the kind's name.
    """
    return {name: partial(_read_facts, fact) for name, fact in get_written_facts().items() if fact.in_files}


def _read_facts(fact: WrittenFact, stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield a RawFact for each line of a file, which has texts about a stored document, or a failure if it is invalid.

    ``fact`` is the kind of the texts, ``origin`` the file, for messages, and ``options`` are the reader options of the
    ingest.
    """

    def make_items(fields: dict[str, JSON], position: str) -> Iterator[Item]:
        """Yield the key of a document and the texts about it in ``fields``, the JSON object of a line, as a RawFact.

        ``position`` is ``path:line``. Raises BadLineError for an invalid line.
        """
        key_field, key = take_field(fields, options.key, _KEY_FIELDS)
        if isinstance(key, bool) or not isinstance(key, (str, int)) or key == "":
            raise BadLineError(f"the field {key_field} must be the key of a document; write a string or an integer")
        texts, model = fields.get(fact.name), fields.get("model", USER_SOURCE)
        if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
            raise BadLineError(f"the field {fact.name} must be a list of texts that are not blank")
        if not isinstance(model, str) or not model.strip():
            raise BadLineError("the field model must be the name of a model")
        rows: list[JSON] = [[None, model, texts]]  # without an ordinal: about the whole document
        key_name, rows_name = fact.fields  # the names under which the fact stores the key and the rows
        yield RawFact(str(key), {key_name: str(key), rows_name: rows}, position)

    return read_lines(stream, origin, make_items, options)
