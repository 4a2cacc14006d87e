"""Files of texts about stored documents, written by a language model or the user: ``INGEST ... AS`` a kind of text.
Each line is a JSON object with the key of a document and a list of texts about it. It becomes a *fact* about the
document.

In: JSON Lines as :mod:`.json_lines` reads them. A line names a document by ``document``, ``id`` or ``key``, and has a
list of texts in the field named like the kind, such as ``units``; ``model`` can name their author. Out: a
:class:`RawFact` for each line, and a ReadFailure for an invalid line.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

from ..readers.json_lines import BadLineError, read_lines, take_document_key
from ..readers.raw_document import JSON, FormatReader, Item, Origin, RawFact, ReadOptions
from ..registry import get_written_facts
from ..registry.written_passages import USER_SOURCE, WrittenFact


def make_model_text_readers() -> dict[str, FormatReader]:
    """Return the readers of JSON Lines files with texts that a model wrote about stored documents.

    There is one for each kind of such texts that files may contain, such as ``units``, by the kind's name.
    """
    return {name: partial(_read_model_texts, fact) for name, fact in get_written_facts().items() if fact.in_files}


def _read_model_texts(text_kind: WrittenFact, stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[Item]:
    """Yield the texts about a stored document in each line of a file, as a RawFact; a failure for an invalid line.

    ``text_kind`` is the kind of the texts, such as ``units``; ``origin`` names the file in messages; ``options`` are
    the reader options of the ingest.
    """

    def make_items(fields: dict[str, JSON], position: str) -> Iterator[Item]:
        """Yield one RawFact: the key of a document and the texts about it, from the JSON object of a line.

        ``position`` is ``path:line``. Raises BadLineError for an invalid line.
        """
        key = take_document_key(fields, options.key)
        texts, model = fields.get(text_kind.name), fields.get("model", USER_SOURCE)
        if not isinstance(texts, list) or not all(isinstance(text, str) and text.strip() for text in texts):
            raise BadLineError(f"the field {text_kind.name} must be a list of strings that are not blank")
        if not isinstance(model, str) or not model.strip():
            raise BadLineError("the field model must be the name of a model")
        rows: list[JSON] = [[None, model, texts]]  # without an ordinal: about the whole document
        key_name, rows_name = text_kind.fields  # the names of the two fields of a RawFact of this kind
        yield RawFact(key, {key_name: key, rows_name: rows}, position)

    return read_lines(stream, origin, make_items, options)
