"""One statement under way: the session it belongs to, what it reads, and the transaction it changes.

In: a session and the statement's place in the text. Out: the state to read, the transaction to write to, and errors
that show the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ..errors import StatementError
from .diagnosis import failure
from .session import Readable, Session, Writable


@dataclass(frozen=True, slots=True)
class Running:
    """A statement of ``text`` that begins at character ``start``."""

    session: Session
    text: str
    start: int

    @property
    def target(self) -> Readable:
        """What the statement reads: the open transaction, else the last commit."""
        return self.session.begun or self.session

    @contextmanager
    def writing(self) -> Iterator[Writable]:
        """The transaction to change: the one that BEGIN opened, else one that is committed at the end."""
        if self.session.begun is not None:
            yield self.session.begun
            return
        transaction = self.session.transaction()
        try:
            yield transaction
        except BaseException:
            transaction.rollback()
            raise
        transaction.commit()

    def failure(self, reason: str, at: str = "") -> StatementError:
        """An error that shows the beginning of the statement, or of ``at`` where it stands in the statement."""
        return failure(self.text, max(self.start, self.text.find(at, self.start)), reason)
