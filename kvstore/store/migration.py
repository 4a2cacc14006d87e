"""Migrating a store to the current format of its file. It also *rebuilds* the store if data that is derived from the
documents is outdated.
"""

from __future__ import annotations

import os
from functools import cache, partial
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

import kvstore_migrations
from kvstore_migrations import CURRENT_FORMAT

from ..arguments import check_arguments
from ..errors import StoreFormatError, StoreFullError
from ..process.frozen_dataclass import frozen_dataclass
from ..registry import get_buffered_tables
from ..registry.structure_versions import explain_migration, explain_read_only
from ..storage.environment import Environment, View, WriteTransaction
from .stored_settings import describe_retokenized_scripts, get_stored_format, is_rebuild_pending, read_settings

if TYPE_CHECKING:
    from ..changes.repair import RebuildReport

#: The first format with the current change buffer.
_CHANGE_BUFFER_FORMAT = 6


@frozen_dataclass
class Migrated:
    """The result of a migration: the formats it went through, the path of the copy, and the report of a rebuild."""

    formats: list[int]
    backup: Path | None = None
    rebuilt: RebuildReport | None = None

    @property
    def changed(self) -> bool:
        """True if the store was changed."""
        return bool(self.formats) or self.rebuilt is not None


@partial(check_arguments, name="kvstore.migrate")
def migrate_store(path: str | os.PathLike[str], *, backup: bool = True) -> Migrated:
    """Migrate the store at ``path`` to the current format. This is :func:`kvstore.migrate`.

    Unless ``backup`` is False, a copy named after its format (``notes.format-1``) is first made in the same folder. A
    migration that fails or is killed leaves the store in its previous format, or in a state that the next migration
    completes. A store in the current format is not changed, unless data derived from its documents is outdated. Raises
    StoreNotFoundError, NotAStoreError, StoreFullError (no room for the copy), and StoreFormatError for a store written
    by a newer kvstore.

    >>> store.close()
    >>> kvstore.migrate(store.path).changed
    False
    """
    with Environment.open(path, create=False, buffered_tables=get_buffered_tables()) as environment:
        with environment.snapshot() as snapshot:
            stored_format = get_stored_format(snapshot) or 0
            read_only_reason = explain_read_only(snapshot)
            was_interrupted = is_rebuild_pending(snapshot)  # an earlier migration, which has already made a copy
            is_outdated = stored_format == CURRENT_FORMAT and _has_outdated_data(snapshot)
        if read_only_reason is not None:
            raise StoreFormatError(f"{environment.path}: {read_only_reason}")
        if stored_format == CURRENT_FORMAT and not was_interrupted and not is_outdated:
            return Migrated([])
        if stored_format > CURRENT_FORMAT:
            kvstore_migrations.check_format(stored_format)  # raises StoreFormatError
        backup_path = _find_free_path(environment.path, stored_format) if backup and not was_interrupted else None
        if backup_path is not None:
            _copy_store(environment, backup_path)
        if stored_format >= _CHANGE_BUFFER_FORMAT:  # migration steps read tables without the buffer
            environment.write_with_growth(WriteTransaction.merge_buffer)
        with environment.hold_lmdb() as lmdb_environment:
            formats = kvstore_migrations.migrate(lmdb_environment)
        return Migrated(formats, backup_path, _rebuild_if_needed(environment))


def _copy_store(environment: Environment, backup_path: Path) -> None:
    """Copy a store to ``backup_path`` before it is migrated. Raises StoreFullError, whose message names the remedy."""
    try:
        environment.copy_to(backup_path)
    except StoreFullError as error:
        reason = error.__cause__.strerror if isinstance(error.__cause__, OSError) else error
        raise StoreFullError(
            f"{backup_path}: the copy of the old store cannot be written ({reason}); fix this, or migrate "
            f"without a copy: kvstore migrate --no-backup {environment.path}"
        ) from error


def _rebuild_if_needed(environment: Environment) -> RebuildReport | None:
    """Derive the data of a migrated store from its documents again if necessary, and compact the file then.

    Returns the report, or None if the data is current.
    """
    with environment.snapshot() as snapshot:
        needs_rebuild = is_rebuild_pending(snapshot) or _has_outdated_data(snapshot)
        settings = read_settings(snapshot) if needs_rebuild else None
    if settings is None:
        return None
    from ..changes.compaction import compact_if_sparse
    from ..changes.repair import rebuild_store
    from ..models.embedder import open_recorded_embedder

    # The embedder is loaded only if vectors must be computed.
    embedder = cache(lambda: open_recorded_embedder(settings.embedder, settings.weights))
    report = rebuild_store(environment, settings, lambda texts: embedder().embed(texts))
    compact_if_sparse(environment)
    return report


def _has_outdated_data(view: View) -> bool:
    """True if data of a store in the current format must be derived from the documents again."""
    return explain_migration(view) is not None or describe_retokenized_scripts(view) is not None


def _find_free_path(path: Path, stored_format: int) -> Path:
    """Return an unused path next to a store for a copy of it, named after the store and its format."""
    store_path = path.resolve()
    first_path = store_path.with_name(f"{store_path.name}.format-{stored_format}")
    numbered_paths = (first_path.with_name(f"{first_path.name}-{suffix}") for suffix in count(2))
    return next(candidate for candidate in chain([first_path], numbered_paths) if not candidate.exists())
