"""Opening a store, and comparing its settings with the requested ones.
*Creation settings* are settings that the caller passes; a new store uses defaults for the others. *Structures* and
*derivations* are data derived from the documents; outdated structures are rebuilt when the store is opened.

In: a path and creation settings. Out: a :class:`~kvstore.store.Store`. Invalid creation settings are reported before
anything is created.
"""

from __future__ import annotations

import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kvstore_migrations

from ..arguments import check_arguments, format_value
from ..database.open_store import OpenStore
from ..errors import ArgumentError, CorruptionError, InputError, NotAStoreError, SettingsMismatchError, StoreFormatError
from ..registry import get_buffered_tables
from ..registry.structure_versions import explain_migration, explain_read_only, find_outdated
from ..settings import LANGUAGE_SETTINGS, FixedSettings, check_fixed_names
from ..storage.environment import Environment, View
from ..storage.lmdb_errors import translate_system_errors
from ..storage.location import DATA_FILE, WRITER_FILE, require_accessible
from ..storage.locks import MAX_PAUSE, get_file_identity, has_living_holder
from ..storage.open_options import check_lock_timeout
from ..text.segmenters import SEGMENTERS
from .store import Store
from .stored_settings import (
    describe_retokenized_scripts,
    get_stored_format,
    has_earlier_tokenizer,
    is_rebuild_pending,
    read_settings,
    write_settings,
)

if TYPE_CHECKING:
    from ..models.embedder import Embedder

#: The maximum number of seconds between two transactions of a process that is creating a store.
_CREATION_PAUSE = 0.5


@partial(check_arguments, name="kvstore.open")
def open_store(
    path: str | os.PathLike[str],
    *,
    create: bool = True,
    readonly: bool = False,
    embedder: str | Embedder | None = None,
    settings: Mapping[str, Any] | None = None,
    lock_timeout: float = 5.0,
    max_bytes: int | None = None,
    durability: str = "full",
) -> Store:
    """Open the store at ``path``, creating it if it does not exist. This is :func:`kvstore.open`.

    If this process already has the store open, the result is another handle on it, with a separate session
    (:meth:`Store.session`). The store is closed with its last handle. A handle can be ``readonly`` on a writable store,
    but not the reverse. ``durability`` and ``max_bytes`` must match the open store. Each handle has its own
    ``lock_timeout``, but index changes, such as CREATE INDEX, and backups with ``compact=False`` use the timeout of the
    first handle.

    ``embedder`` is the embedder of a new store or its name (default ``all-MiniLM-L6-v2``); ``settings`` are further
    creation settings. For an existing store both must match. Without the ``english`` extra, a new store finds names
    only by rules (the ``language`` setting ``rules``), with a warning unless the caller chose it. ``lock_timeout`` is
    how many seconds a change waits for another writer, ``max_bytes`` is the largest size of the store, and
    ``durability`` is ``full`` or ``relaxed``.
    Raises StoreNotFoundError, NotAStoreError, StoreFormatError, SettingsMismatchError, CorruptionError,
    LockTimeoutError, InputError.

    >>> import kvstore, tempfile
    >>> path = tempfile.mkdtemp() + "/store"
    >>> with kvstore.open(path, embedder="hashing", settings={"chunk_tokens": 200}) as store:
    ...     store.put("tea", "Tea is made from leaves.")
    True
    >>> with kvstore.open(path, readonly=True) as store:
    ...     store.keys(), store.settings.chunk_tokens
    (['tea'], 200)
    """
    creation_settings = dict(settings or {})
    check_fixed_names(creation_settings)
    own_embedder = _record_embedder(creation_settings, embedder)
    require_accessible(Path(path, DATA_FILE))
    with translate_system_errors(str(path)):  # a relative path, if the working directory was deleted
        real_path = os.path.realpath(path)
    with _locks.setdefault(real_path, threading.Lock()):
        identity = get_file_identity(Path(path, DATA_FILE))  # the same for all paths to the file; None: no file
        for candidate in list(_open_stores):
            if identity is None or candidate.environment.identity != identity:
                continue
            with candidate.lock:  # waits for a handle that is closing the store
                if candidate.environment.identity == identity:
                    return _open_handle(
                        candidate, creation_settings, own_embedder, readonly, lock_timeout, durability, max_bytes
                    )
        store = _load_store(
            path, creation_settings, own_embedder, create, readonly, lock_timeout, max_bytes, durability
        )
        _open_stores.add(store)
        return Store(store, readonly=readonly)


#: The stores open in this process. A store without handles is closed and drops out.
_open_stores: weakref.WeakSet[OpenStore] = weakref.WeakSet()
#: Locks by path, held while a store is being opened, so that no other thread opens it at the same time.
_locks: dict[str, threading.Lock] = {}


# A thread of the parent can hold a lock while it opens a store; the child does not have that thread.
os.register_at_fork(after_in_child=_locks.clear)


def _record_embedder(creation_settings: dict[str, Any], embedder: str | Embedder | None) -> Embedder | None:
    """Record in ``creation_settings`` the embedder that the caller of kvstore.open passed.

    The embedder can also be in these settings. A name is recorded as the full name of the model, and None is returned.
    For an object, its name and the digest of its weights are recorded, and the object is returned. Raises ArgumentError
    for an invalid object.
    """
    if embedder is None:
        embedder = creation_settings.get("embedder")
    if embedder is None:
        return None
    from ..models.embedder import find_weights_digest, open_embedder

    if isinstance(embedder, str):
        creation_settings["embedder"] = open_embedder(embedder).name
        return None
    if not (hasattr(embedder, "embed") and isinstance(getattr(embedder, "name", None), str)):
        raise ArgumentError(
            "open(): embedder must be a name, or an object with a name and the method embed, not "
            f"{format_value(embedder)}"
        )
    creation_settings["embedder"] = embedder.name
    creation_settings["weights"] = find_weights_digest(embedder)
    return embedder


def _open_handle(
    store: OpenStore,
    creation_settings: Mapping[str, Any],
    embedder: Embedder | None,
    readonly: bool,
    lock_timeout: float,
    durability: str,
    max_bytes: int | None,
) -> Store:
    """Return another handle on a store that this process has open already.

    ``embedder`` is the object that the caller of kvstore.open passed, or None; the other arguments are the caller's.
    A new store chooses some settings by its first documents, but not those that the caller passes. Raises
    SettingsMismatchError or InputError if the arguments differ from those that the store was opened with.
    """
    environment = store.environment
    check_lock_timeout(lock_timeout)
    store.settings.require_equal_settings(creation_settings, environment.path)
    store.finalize_settings(creation_settings)
    is_readonly_by_request = environment.readonly and environment.readonly_reason is None
    if is_readonly_by_request and not readonly:
        raise InputError(
            f"{environment.path} is open read-only in this process; close it there, or open it for writing first"
        )
    for name, current, requested in (
        ("durability", environment.data.durability, durability),
        ("max_bytes", environment.max_bytes, max_bytes or environment.max_bytes),  # None matches any limit
    ):
        if current != requested and not readonly:
            raise SettingsMismatchError(
                f"{environment.path} is open in this process with {name} = {current!r}, not {requested!r}; close it "
                "first, or open it with the same value"
            )
    if embedder is not None:
        store.embedder.use_supplied(embedder)
    return Store(store, readonly=readonly, lock_timeout=lock_timeout)


def _load_store(
    path: str | os.PathLike[str],
    creation_settings: Mapping[str, Any],
    own_embedder: Embedder | None,
    create: bool,
    readonly: bool,
    lock_timeout: float,
    max_bytes: int | None,
    durability: str,
) -> OpenStore:
    """Open a store that this process does not have open yet, or create it.

    ``own_embedder`` is the embedder that the caller of kvstore.open passed as an object (None: the caller passed a
    name, which is in ``creation_settings``, or no embedder). The other arguments are those of the caller.
    """
    # Built only for a new store, and once, because it loads the models.
    build_settings = cache(lambda: _build_settings(creation_settings, own_embedder))
    if create and not readonly and not Path(path, DATA_FILE).exists():
        build_settings()  # reports invalid settings before anything is created
    environment = Environment.open(
        path,
        create=create,
        readonly=readonly,
        lock_timeout=lock_timeout,
        max_bytes=max_bytes,
        durability=durability,
        buffered_tables=get_buffered_tables(),
    )
    try:
        settings, is_new = _load_or_create_settings(environment, build_settings, create=create and not readonly)
        settings.require_equal_settings(creation_settings, environment.path)
        _update_structures(environment, settings)
    except BaseException:
        environment.close()
        raise
    # The settings that the language of the first documents decides.
    undecided_settings = frozenset(LANGUAGE_SETTINGS) - creation_settings.keys() if is_new else frozenset()
    if "language" in undecided_settings:
        _warn_without_english(settings)
    if not creation_settings.keys().isdisjoint(("dimension", "weights")):  # chosen for the default embedder
        undecided_settings -= {"embedder"}
    return OpenStore(environment, settings, own_embedder, undecided_settings)


def _warn_without_english(settings: FixedSettings) -> None:
    """Warn the caller of kvstore.open if a new store finds names by rules because the parser for English is missing."""
    from ..extensions.extras import format_install
    from ..models.language import RULES

    if settings.language == RULES:
        warnings.warn(
            "the parser for English prose is not installed, so kvstore finds names in the new store only by rules, "
            f"and no relations in prose; {format_install('english')} and create the store again, or create it with "
            f"language = {RULES}",
            stacklevel=5,  # of the call of kvstore.open
        )


def _build_settings(creation_settings: Mapping[str, Any], embedder: Embedder | None) -> FixedSettings:
    """Return the settings of a new store: ``creation_settings``, and the defaults of the others.

    ``embedder`` is the object that the caller passed, or None if the settings name the embedder. Raises InputError,
    EmbedderError, LanguageError or SettingsMismatchError if a setting is invalid.
    """
    from ..models.embedder import find_weights_digest, open_embedder
    from ..models.language import ENGLISH, RULES, is_english_installed, open_language, require_installed
    from ..text.words import get_stemmer

    settings = FixedSettings(**creation_settings)
    get_stemmer(settings.stemmer)  # raises InputError for an unknown name
    if "language" not in creation_settings and not is_english_installed():
        settings = replace(settings, language=RULES)
    pipeline = open_language(settings.language)
    if settings.language == ENGLISH:
        require_installed(ENGLISH)
    elif pipeline is not None:
        pipeline.load()
    model = embedder or open_embedder(settings.embedder)
    if not hasattr(model, "dimension"):
        raise ArgumentError(f"open(): the embedder {model.name} has no dimension, the number of components of a vector")
    if creation_settings.get("dimension", model.dimension) != model.dimension:
        raise SettingsMismatchError(
            f"the vectors of {model.name} have {model.dimension} dimensions, not {creation_settings['dimension']}; "
            "omit dimension"
        )
    weights = find_weights_digest(model)
    if settings.weights not in ("", weights):
        raise SettingsMismatchError(
            f"the weights of {model.name} have the digest {weights or 'none'}, not {settings.weights}; leave "
            "weights out"
        )
    return replace(settings, embedder=model.name, dimension=model.dimension, weights=weights)


def _load_or_create_settings(
    environment: Environment, build_settings: Callable[[], FixedSettings], *, create: bool
) -> tuple[FixedSettings, bool]:
    """Return the store's settings, and True if this call created the store, with ``build_settings``.

    Without ``create``, it waits until the lock timeout for another process that is creating the store. It gives up
    earlier, with NotAStoreError, if no process holds the writer lock for :data:`_CREATION_PAUSE` seconds. Also raises
    the errors of :func:`_load_settings`.
    """
    deadline = time.monotonic() + environment.lock_timeout
    last_held = time.monotonic()
    while True:
        settings = _load_settings(environment)
        if settings is not None:
            return settings, False
        if create:
            break
        if has_living_holder(environment.path / WRITER_FILE):
            last_held = time.monotonic()
        if time.monotonic() >= min(deadline, last_held + _CREATION_PAUSE):
            raise NotAStoreError(
                f"{environment.path}: the store is incomplete, because another process is still creating it, or its "
                "creation was interrupted; try again later, or create it again with kvstore.open() or kvstore ingest"
            )
        time.sleep(MAX_PAUSE)
    build_settings()  # reports invalid settings before anything is written
    with environment.hold_lmdb() as lmdb_environment:
        kvstore_migrations.migrate(lmdb_environment)
    return environment.write_with_growth(lambda view: write_settings(view, build_settings))


def _load_settings(environment: Environment) -> FixedSettings | None:
    """Return the settings of a store, or None if they are not written yet.

    Raises NotAStoreError for other LMDB files, and StoreFormatError for another format or an interrupted migration.
    """
    path = environment.path
    with environment.snapshot() as snapshot:
        try:
            settings = read_settings(snapshot)
        except StoreFormatError as error:
            raise StoreFormatError(f"{path}: {error}") from None
        if is_rebuild_pending(snapshot):
            raise StoreFormatError(f"{path}: its migration was interrupted; finish it with: kvstore migrate {path}")
        is_foreign = bool(snapshot.get_table_statistics()) and get_stored_format(snapshot) is None
    if settings is None and is_foreign:
        raise NotAStoreError(f"{path} is an LMDB environment, but not a kvstore store; choose another path")
    return settings


def _explain_segmenter_mismatch(view: View, settings: FixedSettings) -> str | None:
    """Return a message if the installed word segmenter is not the one that split the store's texts, else None."""
    # A segmenter finds the words of Chinese or Japanese; only some values of the setting stemmer are segmenters.
    if settings.stemmer not in SEGMENTERS:
        return None
    from ..structures.language_version import explain_segmenter_mismatch

    return explain_segmenter_mismatch(view, settings)


def _update_structures(environment: Environment, settings: FixedSettings) -> None:
    """Rebuild outdated structures (derived data) of a store, or make it read-only if this kvstore must not change it.

    Also records the current tokenizer if an earlier one gave the same words. ``settings`` are the store's fixed
    settings. Raises StoreFormatError if the store must be migrated first.
    """
    with environment.snapshot() as snapshot:
        scripts = describe_retokenized_scripts(snapshot)
        if scripts is not None:
            raise StoreFormatError(
                f"{environment.path}: an earlier version of kvstore split words in {scripts} by other rules; update "
                f"the store with: kvstore migrate {environment.path} (it keeps a copy)"
            )
        if environment.readonly:
            return
        read_only_reason = explain_read_only(snapshot) or _explain_segmenter_mismatch(snapshot, settings)
        outdated_structures, migration_reason = _find_outdated_data(snapshot)
        is_tokenizer_outdated = has_earlier_tokenizer(snapshot)
    if read_only_reason is None and is_tokenizer_outdated:  # ``settings`` name the current tokenizer instead
        from ..structures.language_version import put_settings

        environment.write_with_growth(lambda view: put_settings(view, settings))
    if read_only_reason is not None:
        environment.refuse_changes(read_only_reason)
    elif migration_reason is not None:
        raise StoreFormatError(
            f"{environment.path}: {migration_reason}; update it with: kvstore migrate {environment.path} (it keeps "
            "a copy), or open it read-only"
        )
    elif outdated_structures:
        from ..changes.structure_rebuilding import rebuild_outdated

        rebuild_outdated(environment, settings)


def _find_outdated_data(view: View) -> tuple[set[str], str | None]:
    """Return the names of outdated structures (derived data), and the reason why the store must be migrated.

    The reason is None if it need not be migrated. A store whose records of indexes are damaged opens without an update,
    so that CHECK REPAIR can rebuild it. Until then every change fails, because it reads the same records.
    """
    try:
        return find_outdated(view), explain_migration(view)
    except CorruptionError:
        return set(), None
