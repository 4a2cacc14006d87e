"""Statement context: the database that a statement runs on, what it reads, and the transaction it changes.

In: a database and the statement's place in the text. Out: the state to read, the transaction to write to, and errors
that show the place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..database.database import Database
from ..database.queryable import Queryable
from ..database.transaction import Transaction
from ..errors import ReadOnlyError, StatementError, TransactionError
from ..sql.condition import ConditionError, OffsetMap, map_offset
from ..sql.diagnosis import make_statement_error

if TYPE_CHECKING:
    from ..database.model_extraction import ExtractionProgress
    from ..ingest.pipeline import IngestProgress
    from ..structures.indexes.index_building import IndexProgress

#: Hears how far an INGEST, an index or an EXTRACT is.
Progress = Callable[["IngestProgress | IndexProgress | ExtractionProgress"], None]


@dataclass(frozen=True, slots=True)
class StatementContext:
    """A statement of ``text`` that begins at character ``start``.

    ``offset_map`` say where its condition stands; ``progress`` hears how far an INGEST or an index is, ``on_text`` what a
    language model writes; ``state`` is what the statement reads where that is settled already.
    """

    database: Database
    text: str
    start: int
    offset_map: OffsetMap = ()
    progress: Progress | None = None
    on_text: Callable[[str], None] | None = None
    state: Queryable | None = None

    @property
    def target(self) -> Queryable:
        """What the statement reads: ``state``, the open transaction, else the last commit."""
        return self.state or self.database._open_transaction or self.database

    @contextmanager
    def open_transaction(self, *, models: bool = False) -> Iterator[Transaction]:
        """The transaction to change: the one that BEGIN opened, else one that is committed at the end.

        ``models``: whether documents are put, which needs the models.
        """
        if self.database._open_transaction is not None:
            yield self.database._open_transaction
            return
        with self.database.transaction(models=models) as transaction:
            yield transaction

    def require_no_transaction(self, reason: str) -> None:
        """Raise TransactionError where BEGIN has opened a transaction; ``reason`` says why the statement cannot be in
        it."""
        if self.database._open_transaction is not None:
            raise TransactionError(f"{reason}, so it stands outside BEGIN; COMMIT or ROLLBACK first")

    def require_writable(self, action: str) -> None:
        """Raise ReadOnlyError where the store was opened to read only; ``action`` it must not do then."""
        if self.database.readonly:
            raise ReadOnlyError(f"{self.database.path} was opened read-only, and {action}; open it for writing")

    @contextmanager
    def locate_errors(self) -> Iterator[None]:
        """Errors within the statement's condition are shown in the text."""
        try:
            yield
        except ConditionError as error:
            if error.offset is None:
                raise self.make_error(error.reason) from error
            raise make_statement_error(self.text, map_offset(error.offset, self.offset_map), error.reason) from error

    def make_error(self, reason: str, excerpt: str = "") -> StatementError:
        """An error that shows the beginning of the statement, or of ``excerpt`` where it stands in the statement."""
        return make_statement_error(self.text, max(self.start, self.text.find(excerpt, self.start)), reason)
