"""What the executor needs of a store, so that the language stands below it.

A store is a session: it holds the session's settings, the names last looked up, and the transaction that BEGIN opened.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, Unpack

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from ..answering.answer import Answer
    from ..answering.confidence import Confidence
    from ..answering.prompt import Prompt
    from ..changes.repair import RepairReport
    from ..ingest.forecast import Forecast
    from ..ingest.pipeline import IngestProgress, IngestReport
    from ..models.llm import LanguageModel
    from ..retrieval.evidence import Evidence, Hit, Location, Relative
    from ..retrieval.query import Clauses
    from ..storage.data_file import CompactReport
    from ..structures.indexes.index_building import IndexProgress
    from ..structures.state import State


class Readable(Protocol):
    """One state of the store: a snapshot, an open transaction, or the last commit."""

    def state(self) -> AbstractContextManager[State]:
        """The parts of the store, in one state."""
        ...

    def lookup(self, *names: str, limit: int = 10) -> list[Location]: ...

    def expand(
        self,
        entity: str | None = None,
        *,
        direction: str = "both",
        depth: int = 1,
        tree: str | None = None,
        limit: int = 100,
    ) -> list[Relative]: ...

    def search(self, text: str, *, using: str = "hybrid", where: str | None = None, top: int = 10) -> list[Hit]: ...

    def retrieve(self, question: str, **clauses: Unpack[Clauses]) -> Evidence: ...

    def weigh(self, question: str, **clauses: Unpack[Clauses]) -> tuple[Evidence, Confidence]: ...

    def ask(
        self,
        question: str,
        *,
        model: str | None = None,
        on_text: Callable[[str], None] = ...,
        **clauses: Unpack[Clauses],
    ) -> Answer: ...

    def prompt(self, question: str, **clauses: Unpack[Clauses]) -> Prompt: ...

    def describe_document(self, key: str) -> dict[str, Any]: ...

    def describe_entity(self, name: str) -> dict[str, Any]: ...


class Writable(Readable, Protocol):
    """An open transaction."""

    @property
    def open(self) -> bool:
        """False after a commit, a rollback, or an error that ended it."""
        ...

    def put(
        self,
        key: str,
        text: str,
        *,
        title: str | None = None,
        source: str | None = None,
        meta: Mapping[str, Any] | None = None,
        format: str = "text",
    ) -> bool: ...

    def update(
        self,
        key: str,
        *,
        text: str | None = None,
        title: str | None = None,
        meta: Mapping[str, Any] | None = None,
    ) -> bool: ...

    def _digest_of(self, key: str) -> bytes | None: ...

    def delete(self, key: str) -> bool: ...

    def delete_where(self, where: str) -> int: ...

    def put_edge(self, child: str, parent: str, *, tree: str = "edges") -> bool: ...

    def delete_edge(self, child: str, parent: str, *, tree: str = "edges") -> bool: ...

    def alias(self, name: str, entity: str) -> bool: ...

    def drop_alias(self, name: str) -> bool: ...

    def merge(self, name: str, into: str) -> bool: ...

    def unmerge(self, name: str) -> bool: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...


class Exchanged(Protocol):
    """How many of each an export wrote, or an import brought in."""

    @property
    def documents(self) -> int: ...

    @property
    def triples(self) -> int: ...

    @property
    def edges(self) -> int: ...

    @property
    def aliases(self) -> int: ...


class Imported(Exchanged, Protocol):
    """What an import did."""

    @property
    def unchanged(self) -> int:
        """Lines that said what is there already."""
        ...


class ReadState(Readable, Protocol):
    """A snapshot: a state that stays until it is closed."""

    #: What it reads; of no concern to those who use the package.
    _view: State

    def close(self) -> None: ...


class Session(Readable, Protocol):
    """An open store; ``_begun`` is the transaction that BEGIN opened in this thread, where there is one."""

    _begun: Writable | None

    @property
    def _begun_elsewhere(self) -> str | None:
        """The name of the other thread that has a transaction open, where one has."""
        ...

    @property
    def path(self) -> Path: ...

    def transaction(self, *, timeout: float | None = None, models: bool = True) -> Writable: ...

    def snapshot(self) -> ReadState: ...

    def ingest(
        self,
        paths: str,
        *,
        format: str | None = None,
        prune: bool = False,
        include: str | Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        progress: Callable[[IngestProgress], None] | None = None,
        workers: int | None = None,
        time_limit: float = ...,
        memory_limit: float | None = None,
    ) -> IngestReport: ...

    def forecast_ingest(
        self,
        paths: str,
        *,
        format: str | None = None,
        include: str | Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
    ) -> Forecast: ...

    def language_model(self, name: str | None = None) -> LanguageModel | None: ...

    def create_index(
        self,
        kind: str,
        options: Mapping[str, Any] | None = None,
        *,
        progress: Callable[[IndexProgress], None] | None = None,
    ) -> None: ...

    def drop_index(self, kind: str) -> None: ...

    def refresh(
        self, kind: str | None = None, *, progress: Callable[[IndexProgress], None] | None = None
    ) -> list[str]: ...

    def check(self) -> list[str]: ...

    def repair(self) -> RepairReport: ...

    def backup(self, path: str | os.PathLike[str]) -> None: ...

    def compact(self) -> CompactReport: ...

    def export(self, path: str | os.PathLike[str]) -> Exchanged: ...

    def import_(self, path: str | os.PathLike[str]) -> Imported: ...

    def statistics(self) -> dict[str, int | float | str]: ...

    def settings_table(self) -> list[tuple[str, Any, bool]]: ...

    def set(self, name: str, value: Any) -> None: ...
