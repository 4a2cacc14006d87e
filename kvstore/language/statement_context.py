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
from ..sql.condition import ConditionError, Places, place_of
from ..sql.diagnosis import failure

if TYPE_CHECKING:
    from ..database.model_extraction import ExtractionProgress
    from ..ingest.pipeline import IngestProgress
    from ..structures.indexes.index_building import IndexProgress

#: Hears how far an INGEST, an index or an EXTRACT is.
Progress = Callable[["IngestProgress | IndexProgress | ExtractionProgress"], None]


@dataclass(frozen=True, slots=True)
class StatementContext:
    """A statement of ``text`` that begins at character ``start``.

    ``places`` say where its condition stands; ``progress`` hears how far an INGEST or an index is, ``on_text`` what a
    language model writes; ``state`` is what the statement reads where that is settled already.
    """

    database: Database
    text: str
    start: int
    places: Places = ()
    progress: Progress | None = None
    on_text: Callable[[str], None] | None = None
    state: Queryable | None = None

    @property
    def target(self) -> Queryable:
        """What the statement reads: ``state``, the open transaction, else the last commit."""
        return self.state or self.database._begun or self.database

    @contextmanager
    def writing(self, *, models: bool = False) -> Iterator[Transaction]:
        """The transaction to change: the one that BEGIN opened, else one that is committed at the end.

        ``models``: whether documents are put, which needs the models.
        """
        if self.database._begun is not None:
            yield self.database._begun
            return
        with self.database.transaction(models=models) as transaction:
            yield transaction

    def require_no_transaction(self, why: str) -> None:
        """Raise TransactionError where BEGIN has opened a transaction; ``why`` says why the statement cannot be in
        it."""
        if self.database._begun is not None:
            raise TransactionError(f"{why}, so it stands outside BEGIN; COMMIT or ROLLBACK first")

    def require_writable(self, what: str) -> None:
        """Raise ReadOnlyError where the store was opened to read only; ``what`` it must not do then."""
        if self.database.readonly:
            raise ReadOnlyError(f"{self.database.path} was opened read-only, and {what}; open it for writing")

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Errors within the statement's condition are shown in the text."""
        try:
            yield
        except ConditionError as error:
            if error.offset is None:
                raise self.failure(error.reason) from error
            raise failure(self.text, place_of(error.offset, self.places), error.reason) from error

    def failure(self, reason: str, at: str = "") -> StatementError:
        """An error that shows the beginning of the statement, or of ``at`` where it stands in the statement."""
        return failure(self.text, max(self.start, self.text.find(at, self.start)), reason)
