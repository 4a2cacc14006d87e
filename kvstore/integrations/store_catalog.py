"""The names in a store, for completion of its statements.

In: an open store. Out: a :class:`~kvstore.language.statement_completion.StatementCatalog` without files; a caller that
completes paths adds them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import kvstore


class StoreCatalog:
    """The names in the store that ``get_store`` returns. Tables, strategies and trees are cached until
    :meth:`clear_cache`; everything else is read at every call.
    """

    def __init__(self, get_store: Callable[[], kvstore.Store]) -> None:
        """Create a catalog of the store that ``get_store`` returns, with an empty cache."""
        self._get_store = get_store
        self.clear_cache()

    def clear_cache(self) -> None:
        """Clear the cache, so that names added since the last completion are offered."""
        self._tables: dict[str, list[str]] = {}
        self._strategies: dict[str, list[str]] = {}
        self._trees: list[str] | None = None

    def list_tables(self) -> Mapping[str, Sequence[str]]:
        """Return the tables by name, each with the names of its columns. They are cached."""
        if not self._tables:
            self._tables = {
                table.name: [column.name for column in table.columns] for table in self._get_store().tables()
            }
        return self._tables

    def list_strategies(self) -> Mapping[str, Sequence[str]]:
        """Return the strategies by name, each with the names of its options. They are cached."""
        if not self._strategies:
            self._strategies = {strategy.name: list(strategy.options) for strategy in self._get_store().strategies()}
        return self._strategies

    def list_settings(self) -> Sequence[str]:
        """Return the names of the settings that SET may change."""
        return [name for name, _, is_fixed in self._get_store().settings_table() if not is_fixed]

    def list_trees(self) -> Sequence[str]:
        """Return the names of at most 100 entity trees. They are cached."""
        if self._trees is None:
            self._trees = [name for (name,) in self._get_store().execute("SELECT name FROM trees LIMIT 100")]
        return self._trees

    def list_entity_names(self, prefix: str, limit: int) -> Sequence[str]:
        """Return at most ``limit`` names of entities that begin with a prefix."""
        with self._get_store().snapshot() as snapshot:
            return snapshot.names(prefix, limit)

    def list_document_keys(self, prefix: str, limit: int) -> Sequence[str]:
        """Return at most ``limit`` document keys that begin with a prefix."""
        with self._get_store().snapshot() as snapshot:
            return snapshot.keys(prefix, limit)

    def list_paths(self, prefix: str) -> Sequence[str]:
        """Return an empty list: this catalog does not know files."""
        return []
