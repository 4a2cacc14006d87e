"""Validation of the documents passed to ``put_many``, before any of them is stored.
A *pending* document is one to be stored: it is cut into chunks, unless only its metadata changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..arguments import check_clauses, format_value, to_plain_value
from ..changes.pending import PendingDocument, make_pending, make_pending_change
from ..errors import ArgumentError, InputError
from ..extraction.validation import ValidDocument, validate
from ..settings import FixedSettings
from ..structures.state import State

if TYPE_CHECKING:
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class CheckedDocument:
    """A validated document, with the user's vectors (if any), its origin, and its position (from 1) in the batch."""

    document: ValidDocument
    vectors: npt.ArrayLike | None
    origin: str | None
    position: int
    batch_size: int

    def to_pending(self, settings: FixedSettings) -> PendingDocument:
        """Return the document to store, cut into chunks. An error begins with the document's position in the batch."""
        with _locate_errors(self.position, self.batch_size):
            return make_pending(self.document, settings, self.vectors, self.origin)

    def to_pending_change(self, state: State) -> PendingDocument | None:
        """Return the document to store, or None if ``state`` already has it unchanged.

        The document is cut into chunks, unless only its metadata changes. Raises the errors of :meth:`to_pending`.
        """
        with _locate_errors(self.position, self.batch_size):
            return make_pending_change(state, self.document, self.vectors, self.origin)


def validate_documents(documents: Iterable[Mapping[str, Any]], put: Callable[..., Any]) -> list[CheckedDocument]:
    """Return validated documents in the same order, each from a mapping of the arguments of ``put``.

    ``put`` is the method that stores one document; its annotations are the types of these arguments. Raises TypeError
    for unknown or missing arguments, InputError for an invalid document; both name its position.
    """
    if isinstance(documents, Mapping):
        raise ArgumentError(
            "put_many(): documents must be a sequence of mappings, not one mapping; put() stores one document"
        )
    if hasattr(documents, "columns"):  # iteration over a DataFrame yields the names of its columns
        raise ArgumentError(
            f"put_many(): documents must be a sequence of mappings, not {type(documents).__name__}; pass its rows: "
            'to_dict("records") in pandas, to_dicts() in polars'
        )
    parameters = {name: type for name, type in put.__annotations__.items() if name != "return"}
    mappings = list(documents)
    return [
        _validate_document(arguments, parameters, position, len(mappings))
        for position, arguments in enumerate(mappings, 1)
    ]


def _validate_document(
    arguments: object, parameters: Mapping[str, Any], position: int, batch_size: int
) -> CheckedDocument:
    """Return the validated document at a position (from 1) in a batch, from a mapping of the ``arguments`` of put().

    ``parameters`` has the annotation of each valid argument. Errors begin with the position.
    """
    with _locate_errors(position, batch_size):
        if not isinstance(arguments, Mapping):
            raise ArgumentError(f"it must map the names of put() arguments to values, not {format_value(arguments)}")
        arguments = _drop_missing_values(arguments)
        check_clauses("put", arguments, parameters)
        missing_names = [name for name in ("key", "text") if name not in arguments]
        if missing_names:
            raise ArgumentError(f"put() is missing {missing_names[0]!r}")
        properties = {name: value for name, value in arguments.items() if name not in ("vectors", "origin")}
        return CheckedDocument(
            document=validate(**properties),
            vectors=arguments.get("vectors"),
            origin=arguments.get("origin"),
            position=position,
            batch_size=batch_size,
        )


def _drop_missing_values(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments without the optional ones that are None, NaN or another missing value of a data frame."""
    return {
        name: value for name, value in arguments.items() if name in ("key", "text") or to_plain_value(value) is not None
    }


def chunk_changed_documents(
    state: State, checked_documents: Sequence[CheckedDocument], *, replace: bool
) -> dict[int, PendingDocument]:
    """Return the documents that differ from the stored ones, by their index in the batch.

    They are cut into chunks, unless only their metadata changes. A later document with the key of a changed one is also
    included, because by then the earlier one has replaced the stored document. Without ``replace``, documents whose
    keys are stored are left out.
    """
    pending_documents: dict[int, PendingDocument] = {}
    changed_keys: set[str] = set()
    for index, checked_document in enumerate(checked_documents):
        key = checked_document.document.key
        if key in changed_keys:
            pending_documents[index] = checked_document.to_pending(state.settings)
        elif replace or state.documents.find_by_key(key) is None:
            pending_document = checked_document.to_pending_change(state)
            if pending_document is not None:
                pending_documents[index] = pending_document
                changed_keys.add(key)
    return pending_documents


@contextmanager
def _locate_errors(position: int, batch_size: int) -> Iterator[None]:
    """Prefix errors raised in the ``with`` block with the document's position in the batch."""
    try:
        yield
    except (InputError, TypeError) as error:
        raise type(error)(f"document {position:,} of {batch_size:,}: {error}") from None
