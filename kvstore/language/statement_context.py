"""The context of a statement: the database it runs on, the state it reads, and the transaction it changes.

In: a database and the statement's offset in the text. Out: the state to read, the transaction to write to, and errors
that point at the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..database.database import Database
from ..database.queryable import Queryable
from ..errors import ReadOnlyError, StatementError, TransactionError
from ..sql.condition import ConditionError, OffsetMap, map_offset
from ..sql.diagnosis import make_statement_error

if TYPE_CHECKING:
    from ..database.model_extraction import ExtractionProgress
    from ..database.transaction import Transaction
    from ..ingest.ingest_interface import IngestProgress
    from ..structures.indexes.index_building import IndexProgress

#: Receives the progress of an INGEST, an index build or an EXTRACT.
Progress = Callable[["IngestProgress | IndexProgress | ExtractionProgress"], None]


@dataclass(frozen=True, slots=True)
class StatementContext:
    """The context of a statement of ``text`` that begins at character ``start``.

    ``offset_map`` maps offsets in its condition to offsets in ``text``. ``progress`` receives the progress of an INGEST
    or an index build, ``on_text`` the text that a language model generates. The statement reads ``snapshot`` (None: the
    open transaction or the last commit).
    """

    database: Database
    text: str
    start: int
    offset_map: OffsetMap = ()
    progress: Progress | None = None
    on_text: Callable[[str], None] | None = None
    snapshot: Queryable | None = None

    @property
    def queryable(self) -> Queryable:
        """The object to read from: the snapshot if there is one, else the open transaction, else the last commit."""
        return self.snapshot or self.database._open_transaction or self.database

    @contextmanager
    def open_transaction(self, *, models: bool = False) -> Iterator[Transaction]:
        """Yield the transaction to write to: the one that BEGIN opened, else a new one that is committed at the end.

        ``models`` is True if texts of documents are stored, which the embedder and other models must process. Ctrl-C
        can come between two changes of a statement, so it ends the transaction that BEGIN opened, as in SQLite.
        """
        open_transaction = self.database._open_transaction
        if open_transaction is not None:
            with open_transaction._roll_back_on_error(KeyboardInterrupt):
                yield open_transaction
            return
        with self.database.transaction(models=models) as transaction:
            yield transaction

    def require_no_transaction(self, reason: str) -> None:
        """Raise TransactionError if BEGIN has opened a transaction. The error message begins with ``reason``."""
        if self.database._open_transaction is not None:
            raise TransactionError(f"{reason}, so it must run outside BEGIN; COMMIT or ROLLBACK first")

    def require_writable(self, restriction: str) -> None:
        """Raise ReadOnlyError if the store is read-only; ``restriction`` says what is not possible then."""
        if self.database.readonly:
            reason = self.database._session.environment.readonly_reason
            if reason is not None:
                raise ReadOnlyError(f"{restriction}: {reason}")
            raise ReadOnlyError(f"{self.database.path} was opened read-only, so {restriction}; open it for writing")

    @contextmanager
    def locate_errors(self) -> Iterator[None]:
        """Convert a ConditionError in a ``with`` block to a StatementError that points at the text of the condition."""
        try:
            yield
        except ConditionError as error:
            if error.offset is None:
                raise self.make_error(error.reason) from error
            raise make_statement_error(self.text, map_offset(error.offset, self.offset_map), error.reason) from error

    def make_error(self, reason: str, excerpt: str = "") -> StatementError:
        """Return an error that shows the beginning of the statement, or of ``excerpt`` if the statement contains it."""
        return make_statement_error(self.text, max(self.start, self.text.find(excerpt, self.start)), reason)
