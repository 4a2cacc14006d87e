"""The data file and its memory map: opening it as large as the system allows, resizing, verification, copies. It is an
LMDB environment. ``change`` is the number of a commit. Each of the two *meta pages* has a commit's number and roots.
The *reader table* lists the open snapshots of all processes.

In: a store's directory, checked by ``location.py``. On disk: one LMDB 0.9 file, ``data.mdb``; its named databases are
the tables. Out: LMDB transactions. A file that is not an LMDB file, belongs to another application, was truncated, or
is not writable raises an error that describes it.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import mmap
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lmdb

from kvstore_cext.pages import PageError, Pages, get_address, verify_free_list

from ..errors import CorruptionError, InputError, NotAStoreError, ReadOnlyError, StoreFullError, StoreNotFoundError
from ..process.frozen_dataclass import frozen_dataclass
from .dense_copy import write_dense_copy
from .lmdb_errors import STORAGE_ERRORS, translate_error, translate_system_errors
from .location import DATA_FILE, NEW_DATA_FILE, REPAIR_DIRECTORY
from .mapped_pages import PageTransaction, VerifiedTransaction, release_pages
from .meta_pages import find_first_leaf, make_foreign_file_error, verify_meta_pages
from .partial_files import remove_directory
from .readers_table import MAX_READERS, reserve_reader_table

if TYPE_CHECKING:
    from lmdb import _Database as Handle

SMALLEST_MAP = 1 << 20
#: LMDB keeps an array of this size in memory; a later version may have more tables than this one knows.
MAX_TABLES = 256


@frozen_dataclass
class FileStatistics:
    """Sizes of the data file in bytes.

    ``change`` is the number of the last commit, ``readers`` the number of open snapshots of all processes.
    """

    bytes: int
    used_bytes: int
    map_bytes: int
    change: int
    readers: int
    max_readers: int


@frozen_dataclass
class CompactReport:
    """The result of COMPACT: the size of ``data.mdb`` in bytes, before and after."""

    bytes_before: int
    bytes_after: int


class OvertakenError(Exception):
    """Raised if later commits have overwritten the meta page of a transaction's snapshot.

    The caller begins another transaction.
    """


class DataFile:
    """One LMDB environment, open in this process. kvstore reads its pages itself (:class:`Pages`), and verifies their
    checksums; LMDB writes them. Not thread-safe: ``environment.py`` serializes its use.
    """

    def __init__(
        self, directory: Path, get_descriptor: Callable[[], int], *, readonly: bool, durability: str, map_size: int
    ) -> None:
        """Map the data file in ``directory`` to ``map_size`` bytes of address space, or fewer if the system refuses.

        ``get_descriptor`` returns the descriptor of the open file, which may no longer be the file with this name.
        ``durability`` is ``full``, ``relaxed`` (commits are flushed without their meta page) or ``none``.
        """
        self.directory = directory
        self.path = directory / DATA_FILE
        self._get_descriptor = get_descriptor
        self.readonly = readonly
        self.durability = durability
        #: False if reads are not registered in the reader table, because this user may not write to it.
        self.registers_readers = True
        #: True if the list of free pages has been verified since the file was opened.
        self._is_free_list_verified = False
        #: The number of commits before COMPACT replaced the file; LMDB counts those of the new file from 1.
        self._num_earlier_changes = 0
        #: The LMDB environment.
        self.environment = self._open(map_size)
        #: Bytes of address space that the file is mapped to.
        self.map_size = self.environment.info()["map_size"]
        if self.registers_readers:
            self.environment.reader_check()  # removes entries of dead processes from the reader table

    def _open(self, map_size: int) -> lmdb.Environment:
        """Map the file, reset the data that depends on the map, and return LMDB's environment.

        The size of the map is halved each time that the system refuses it. A read-only file is opened without the
        reader table if this user may not write to it. Raises StoreFullError if there is no address space,
        NotAStoreError for another kind of file, InputError if this process has the file open already, and the kvstore
        errors for other LMDB errors.
        """
        #: Bytes that the file is known to have at least.
        self._min_known_size = 0
        #: The address of the map; None until a transaction has found a table.
        self._address: int | None = None
        self._page_size = mmap.PAGESIZE
        verify_meta_pages(self.path)
        while True:
            if self.registers_readers:
                reserve_reader_table(self.directory)
            try:
                return lmdb.open(
                    str(self.directory),
                    map_size=map_size,
                    readonly=self.readonly,
                    create=False,
                    metasync=self.durability == "full",
                    sync=self.durability != "none",
                    max_dbs=MAX_TABLES,
                    max_readers=MAX_READERS,
                    lock=self.registers_readers,
                    lib_version=0,  # LMDB 0.9, whose file format kvstore reads
                )
            except lmdb.MemoryError as error:
                map_size //= 2
                if map_size < SMALLEST_MAP:
                    raise StoreFullError(
                        f"{self.path}: the process has no address space left to map it; close other stores, open them "
                        "with a smaller max_bytes, or raise the limit (ulimit -v)"
                    ) from error
            except (lmdb.InvalidError, lmdb.VersionMismatchError) as error:
                raise NotAStoreError(
                    f"{self.path}: not an LMDB 0.9 file; choose another path, or restore it if it was a store"
                ) from error
            except lmdb.Error as error:
                if "already open" in str(error):
                    raise InputError(f"{self.directory}: already open in this process; use the open store") from error
                is_denied = isinstance(error, lmdb.ReadonlyError) or error.code in (errno.EPERM, errno.EROFS)
                if not (is_denied and self.readonly and self.registers_readers):
                    raise translate_error(error, str(self.path)) from error
                self.registers_readers = False  # try again without the reader table

    def close(self) -> None:
        """Unmap and close the file; no transaction may be open."""
        self.environment.close()

    @property
    def size(self) -> int:
        """The size of the file in bytes; raises StoreNotFoundError if it is no longer at its path."""
        try:
            return self.path.stat().st_size
        except (FileNotFoundError, NotADirectoryError) as error:
            raise StoreNotFoundError(
                f"{self.path}: the store was deleted, moved or unmounted while it was open; open it where it is now"
            ) from error

    @property
    def used_bytes(self) -> int:
        """Bytes up to the end of the last page that was ever used."""
        return (self.environment.info()["last_pgno"] + 1) * self.environment.stat()["psize"]

    def release_pages(self) -> None:
        """Release the memory that holds pages of the file, which can all be read again.

        The map must not change during the call. Concurrent readers and writers continue. Does nothing if no snapshot
        can be opened.
        """
        with (
            contextlib.suppress(lmdb.Error),
            self.environment.begin(buffers=True) as transaction,
            transaction.cursor() as tables,
        ):
            if tables.first():  # any record of the file: its address identifies the memory map
                release_pages(tables.value())

    # -- Verified pages

    def open_pages(self, transaction: lmdb.Transaction[memoryview], change: int) -> Pages | None:
        """Return a reader of the pages of commit number ``change``, which ``transaction`` keeps valid.

        Returns None if the commit has no table, so that there is nothing to read. Raises CorruptionError if a page that
        leads to the tables is damaged, and OvertakenError if later commits may have overwritten the meta page of this
        one.
        """
        if self._address is None:
            self._address = self._compute_map_address(transaction, change)
        if self._address is None:
            return None
        try:
            pages = Pages(self._address, self._page_size, change)
        except PageError as error:
            self._verify_not_overtaken(change)
            raise translate_error(error, str(self.path)) from error
        if self.environment.info()["last_txnid"] != change:  # later commits may have written the page that was read
            self._verify_not_overtaken(change)
        return pages

    def _verify_not_overtaken(self, change: int) -> None:
        """Raise OvertakenError if the meta page of commit number ``change`` may already be overwritten.

        The second commit after it writes to the same page: first the tree roots, then the commit number. In between, a
        process can read new roots with the old number. This is impossible while the commit ``change`` is still the
        last.
        """
        try:
            with self.environment.begin() as latest:
                is_overtaken = latest.id() != change
        except lmdb.Error:  # the caller tries again with a new transaction, and gets this error itself if it persists
            is_overtaken = True
        if is_overtaken:
            raise OvertakenError

    def _compute_map_address(self, transaction: lmdb.Transaction[memoryview], change: int) -> int | None:
        """Compute the address of LMDB's map, which LMDB does not reveal; return None if the main tree is empty.

        The first record of the main tree has an address. The number of its page is read from the file, as of commit
        number ``change``; the map begins that many pages before. Also stores the page size. Raises CorruptionError and
        OvertakenError; see :meth:`open_pages`.
        """
        page_size = self._page_size = self.environment.stat()["psize"]
        verify_meta = partial(self._verify_not_overtaken, change)
        with translate_system_errors(str(self.path)):
            leaf = find_first_leaf(self.path, self._get_descriptor(), page_size, change, verify_meta)
        if leaf is None:
            return None
        with transaction.cursor() as cursor:
            if not cursor.first():
                return None
            record_address = get_address(cursor.value())
        return int((record_address // page_size - leaf) * page_size)

    def wrap_read_transaction(self, transaction: lmdb.Transaction[memoryview]) -> PageTransaction | None:
        """Wrap a read transaction so that it reads verified pages.

        Returns None if later commits may have overwritten the meta page of its snapshot; the caller begins another.
        Raises CorruptionError if a page that leads to the tables is damaged.
        """
        change = transaction.id()
        try:
            pages = self.open_pages(transaction, change)
        except OvertakenError:
            return None
        return PageTransaction(transaction, pages, change=self._num_earlier_changes + change)

    def wrap_write_transaction(
        self, transaction: lmdb.Transaction[memoryview], handles: Mapping[str, Handle]
    ) -> VerifiedTransaction:
        """Return a write transaction wrapped so that it verifies the committed pages that it reads.

        The list of free pages, which every write transaction reads, is verified once per opening of the file. Raises
        CorruptionError if it is damaged.
        """
        # The committed pages are those of the transaction before this one; None if there is no table.
        pages = self.open_pages(transaction, transaction.id() - 1)
        if pages is not None and not self._is_free_list_verified:
            try:
                verify_free_list(pages)
            except PageError as error:
                raise translate_error(error, str(self.path)) from error
            self._is_free_list_verified = True
        return VerifiedTransaction(transaction, pages, handles, change=self._num_earlier_changes + transaction.id())

    def resize(self, size: int) -> None:
        """Map ``size`` bytes (0: the size another process has grown the map to); no transaction may be open.

        Raises StoreFullError if the system refuses; the file is then mapped as before.
        """
        self._address = None
        try:
            self.environment.set_mapsize(size)
        except lmdb.Error as error:
            self.reopen()
            raise StoreFullError(
                f"{self.path}: the process has no address space left for a memory map of more than {self.map_size} "
                "bytes; close other stores, open them with a smaller max_bytes, or raise the limit (ulimit -v)"
            ) from error
        self.map_size = self.environment.info()["map_size"]

    def reopen_for_writing(self) -> None:
        """Reopen a read-only file for writing; no transaction may be open."""
        self.readonly = False
        self.reopen()

    def reopen(self) -> None:
        """Close the file and open it again; no transaction may be open."""
        self.environment.close()
        self._is_free_list_verified = False
        self.environment = self._open(self.map_size)
        self.map_size = self.environment.info()["map_size"]

    def list_table_names(self, pages: Pages | None) -> list[str]:
        """Return the names of all tables; raise CorruptionError if a page with their records is damaged."""
        try:
            return [] if pages is None else pages.names()
        except PageError as error:
            raise translate_error(error, str(self.path)) from error

    def open_table(self, name: bytes, transaction: lmdb.Transaction[memoryview] | None) -> Handle:
        """Return the handle of a table.

        It is usable once the write ``transaction`` has committed. A file opened read-only needs no transaction. Raises
        NotAStoreError if LMDB cannot open the table.
        """
        try:
            return self.environment.open_db(name, txn=transaction, create=False)
        except lmdb.Error as error:
            raise make_foreign_file_error(self.path) from error

    # -- The file's length and pages

    def is_short(self) -> bool:
        """True if the file ends before its last used page."""
        return self.size < self.used_bytes

    def extend_to_used_pages(self) -> None:
        """Extend a short file to its full length.

        LMDB does not write pages that were allocated and freed within one transaction. If these are the last pages, the
        file is short but sound. The extension distinguishes it from a truncated file. Does nothing if the file was
        moved or the disk is full.
        """
        used_bytes = self.used_bytes
        if used_bytes <= self._min_known_size:  # the common case
            return
        with contextlib.suppress(StoreNotFoundError):  # moved since the transaction began
            if self.size < used_bytes:
                with contextlib.suppress(OSError):  # no space: the next opening verifies the pages instead
                    os.truncate(self.path, used_bytes)
            self._min_known_size = self.size

    def verify_length(self) -> None:
        """Raise CorruptionError if used pages are missing at the end.

        If only free pages are missing, the file is extended, unless it is open read-only. No writer may be active.
        Reading a missing page would kill the process instead of raising an error.
        """
        if not self.is_short():
            return
        faults = self.verify()
        if faults:
            raise CorruptionError(
                f"{self.path}: only {self.size} bytes long, but its last used page ends at byte {self.used_bytes}, so "
                f"it was truncated ({faults[0]}); restore a backup (`kvstore backup STORE COPY` makes one)"
            )
        if not self.readonly:
            self.extend_to_used_pages()

    def verify(self) -> list[str]:
        """Return a sentence for each fault of the page structure. Reads every page from the file, not the map."""
        from lmdb.verify import VerifyError, verify

        try:
            with translate_system_errors(str(self.path)):
                faults = verify(str(self.path))  # type: ignore[no-untyped-call]
        except VerifyError as error:
            faults = [error]
        return [f"{self.path.name}: {fault}" for fault in faults]

    def copy_pages(self, target: Path) -> None:
        """Copy the last commit page by page, with free pages, to the new file ``target``; no writer may be active.

        The name of ``target`` must be ``DATA_FILE``, because LMDB always gives the copy this name.
        """
        self.environment.copy(str(target.parent))

    @contextlib.contextmanager
    def create_successor(self, write: Callable[[Path], None]) -> Iterator[Path]:
        """Create a file next to this one, fill it with ``write``, and yield its path, for the block to rename.

        It is flushed to the disk, gets this file's owner, group and mode, and is removed if the block does not rename
        it. The file must be open for writing, with the writer lock held. Raises StoreFullError if the copy cannot be
        written, ReadOnlyError if this user may not replace the file, and CorruptionError if records are missing. Raises
        InputError if the file is a symbolic link, because renaming would replace the link.
        """
        if self.path.is_symlink():
            raise InputError(
                f"{self.path}: a symbolic link, which COMPACT would replace; put the file itself into the directory, "
                "and link the directory instead"
            )
        copy = self.path.with_name(NEW_DATA_FILE)
        try:
            copy.unlink(missing_ok=True)
            self._write_successor(copy, write)
            yield copy
        except STORAGE_ERRORS as error:
            raise translate_error(error, str(self.path)) from error
        except PermissionError as error:
            raise ReadOnlyError(
                f"{self.path}: this user has no permission to replace it ({error.strerror}); run COMPACT as the file's "
                "owner, with write permission on the directory"
            ) from error
        except OSError as error:
            raise StoreFullError(
                f"{self.path}: a compacted copy cannot be moved into its place ({error.strerror}); free some space and "
                "try again"
            ) from error
        finally:
            self.remove_leftover_files()

    def _write_successor(self, copy: Path, write: Callable[[Path], None]) -> None:
        """Create a file, fill it with ``write``, give it this file's owner and mode, and flush it.

        Until then, only this user can read it.
        """
        status = self.path.stat()
        os.close(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        write(copy)
        descriptor = os.open(copy, os.O_RDONLY)
        try:
            os.fchown(descriptor, status.st_uid, status.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(status.st_mode))
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def write_compact_copy(self, copy: Path) -> None:
        """Write a compacted copy of the last commit to ``copy``, an empty file. No transaction may be open.

        Raises CorruptionError if the meta page of the commit was overwritten, or if records are missing.
        """
        with self.environment.begin(buffers=True) as transaction:
            source = self.wrap_read_transaction(transaction)
            if source is None:
                raise CorruptionError(f"{self.path}: the last commit is not in its meta page; restore a backup")
            write_dense_copy(source, copy, self.used_bytes)

    def open_successor(self) -> None:
        """Open the file that COMPACT or a repair has renamed to this path; no transaction may be open."""
        last_change = self.environment.info()["last_txnid"]
        self.reopen()  # LMDB counts the commits of the new file from 1, and kvstore's change numbers only grow
        self._num_earlier_changes += last_change - self.environment.info()["last_txnid"]

    def remove_leftover_files(self) -> None:
        """Remove the files left by a killed COMPACT or repair; neither may be active."""
        remove_directory(self.path.with_name(REPAIR_DIRECTORY))
        with contextlib.suppress(OSError):
            self.path.with_name(NEW_DATA_FILE).unlink(missing_ok=True)

    def statistics(self) -> FileStatistics:
        """Return the current sizes of the file, the number of its last commit and the number of open snapshots."""
        information: Mapping[str, int] = dict(self.environment.info())  # type: ignore[arg-type]
        return FileStatistics(
            bytes=self.size,
            used_bytes=self.used_bytes,
            map_bytes=information["map_size"],
            change=self._num_earlier_changes + information["last_txnid"],
            # LMDB's list of readers has a heading.
            readers=max(0, len(self.environment.readers().splitlines()) - 1) if self.registers_readers else 0,
            max_readers=information["max_readers"],
        )


def _ignore_inherited_environments() -> None:
    """Allow a forked child to open the files that its parent has open.

    LMDB's binding refuses to open a file twice in one process, and forgets a file when its environment is freed. A
    child never frees the environments of its parent (:mod:`.open_file`). With the process id in the identities of
    files, these environments do not count.
    """
    try:
        identities: Any = importlib.import_module("lmdb._envid")
        get_keys = identities.env_keys
    except (ImportError, AttributeError):  # another version of the binding; the child gets an error from it
        return
    process = os.getpid()
    identities.env_keys = lambda path, subdir: tuple((*key, process) for key in get_keys(path, subdir))


os.register_at_fork(after_in_child=_ignore_inherited_environments)
