"""The data file and its memory map: opening it as large as the system allows, resizing, verifying, copying.

In: a store's directory, found good by ``location.py``. On disk: one LMDB 0.9 file, ``data.mdb``; its named databases
are the tables. Out: LMDB transactions. A file that is no LMDB file, belongs to another application, was cut short, or
may not be written gets the error that says so.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb

from ..errors import CorruptionError, InputError, NotAStoreError, StoreFullError
from .location import DATA_FILE
from .view import translate

if TYPE_CHECKING:
    from lmdb import _Database as Handle

SMALLEST_MAP = 1 << 20
MAX_TABLES = 64
MAX_READERS = 1024


@dataclass(frozen=True)
class FileStatistics:
    """Sizes in bytes; ``change`` is the number of the last commit, ``readers`` counts over all processes."""

    bytes: int
    used_bytes: int
    map_bytes: int
    change: int
    readers: int
    largest_readers: int


class DataFile:
    """One LMDB environment, open in this process. Not for concurrent use: ``environment.py`` decides when."""

    def __init__(self, directory: Path, *, readonly: bool, durability: str, map_size: int) -> None:
        self.directory = directory
        self.path = directory / DATA_FILE
        self.readonly = readonly
        self.durability = durability
        #: Whether readers are listed in the table of readers; not so where this user may not write to it.
        self.registers = True
        #: The LMDB environment itself.
        self.environment = self._open(map_size)
        if self.registers:
            self.environment.reader_check()

    def _open(self, map_size: int) -> lmdb.Environment:
        """Map the file, with half the size as often as the system refuses."""
        while True:
            try:
                return lmdb.open(
                    str(self.directory),
                    map_size=map_size,
                    readonly=self.readonly,
                    create=False,
                    metasync=self.durability == "full",
                    max_dbs=MAX_TABLES,
                    max_readers=MAX_READERS,
                    lock=self.registers,
                    lib_version=0,
                )
            except lmdb.MemoryError as error:
                map_size //= 2
                if map_size < SMALLEST_MAP:
                    raise StoreFullError(
                        f"{self.path}: the system gives no address space to map it; raise the limit (ulimit -v)"
                    ) from error
            except (lmdb.InvalidError, lmdb.VersionMismatchError) as error:
                raise NotAStoreError(
                    f"{self.path}: not an LMDB 0.9 file; name another path, or restore it if it was a store"
                ) from error
            except lmdb.Error as error:
                if "already open" in str(error):
                    raise InputError(f"{self.directory}: already open in this process; share that store") from error
                denied = isinstance(error, lmdb.ReadonlyError) or error.code in (errno.EPERM, errno.EROFS)
                if not (denied and self.readonly and self.registers):
                    raise translate(error, str(self.path)) from error
                self.registers = False

    def close(self) -> None:
        """Unmap and close the file; no transaction may be open."""
        self.environment.close()

    @property
    def map_size(self) -> int:
        """Bytes of address space that the file is mapped to."""
        return self.environment.info()["map_size"]

    @property
    def used(self) -> int:
        """Bytes up to the end of the last page that was ever used."""
        return (self.environment.info()["last_pgno"] + 1) * self.environment.stat()["psize"]

    def begin(self, *, write: bool) -> lmdb.Transaction[memoryview]:
        """Begin a transaction; raises what LMDB raises."""
        return self.environment.begin(write=write, buffers=True)

    def resize(self, size: int) -> None:
        """Map ``size`` bytes (0: what another process has grown the map to); no transaction may be open.

        Raises StoreFullError when the system refuses; the file is then mapped as before.
        """
        before = self.map_size
        try:
            self.environment.set_mapsize(size)
        except lmdb.Error as error:
            self.environment.close()
            self.environment = self._open(before)
            raise StoreFullError(
                f"{self.path}: the system does not let the memory map grow beyond {before} bytes; raise the limit "
                "(ulimit -v)"
            ) from error

    def reopen_for_writing(self) -> None:
        """Open a file opened to read for writing; no transaction may be open."""
        size = self.map_size
        self.environment.close()
        self.readonly = False
        self.environment = self._open(size)

    def table_names(self, transaction: lmdb.Transaction[memoryview]) -> list[bytes]:
        """The names of all tables that ``transaction`` sees."""
        with transaction.cursor() as cursor:
            return [bytes(key) for key in cursor.iternext(keys=True, values=False)]

    def open_table(self, name: bytes, transaction: lmdb.Transaction[memoryview] | None) -> Handle:
        """The handle of a table.

        It is usable once the write ``transaction`` has committed; for a file opened to read, no transaction is needed.
        """
        try:
            return self.environment.open_db(name, txn=transaction, create=False)
        except lmdb.Error as error:
            raise NotAStoreError(f"{self.path}: an LMDB file of another application; name another path") from error

    def create_table(self, transaction: lmdb.Transaction[memoryview], table: str) -> Handle:
        """Make a table within a write transaction."""
        return self.environment.open_db(table.encode(), txn=transaction, create=True)

    # -- The file's length and pages

    def is_short(self) -> bool:
        """Whether the file ends before its last used page."""
        return self.path.stat().st_size < self.used

    def extend(self) -> None:
        """Lengthen a short file.

        LMDB leaves pages unwritten that were taken and freed within one transaction; when these are the last ones, the
        file is short and yet sound. Lengthened, it can be told from one that was cut.
        """
        if self.is_short():
            with contextlib.suppress(OSError):  # no space: the next opening verifies the pages instead
                os.truncate(self.path, self.used)

    def refuse_cut(self) -> None:
        """Raise CorruptionError when pages in use are missing at the end; lengthen the file when they are free ones.

        No writer may be at work. Reading a missing page would end the process, not raise.
        """
        if not self.is_short():
            return
        findings = self.verify()
        if findings:
            raise CorruptionError(
                f"{self.path}: {self.path.stat().st_size} bytes long, but its last used page ends at {self.used}: it "
                f"was cut ({findings[0]}); restore the store from a backup"
            )
        if not self.readonly:
            self.extend()

    def verify(self) -> list[str]:
        """Every fault of the page structure, as sentences; reads every page, and never through the map."""
        from lmdb.verify import VerifyError, verify

        try:
            return list(verify(str(self.path)))  # type: ignore[no-untyped-call]
        except VerifyError as error:
            return [str(error)]

    def copy_to(self, target: Path, *, compact: bool) -> None:
        """Copy the last commit into a new directory, durably: it appears complete or not at all.

        Raises InputError when ``target`` exists or its folder does not, StoreFullError when it cannot be written.
        """
        if target.exists():
            raise InputError(f"{target}: exists already; name a path that does not")
        if not target.parent.is_dir():
            raise InputError(f"{target}: the folder {target.parent} does not exist; make it first")
        partial = target.with_name(f".{target.name}.partial-{os.getpid()}")
        try:
            partial.mkdir()
            self.environment.copy(str(partial), compact)
            flush(partial / DATA_FILE)
            flush(partial)
            partial.rename(target)
            flush(target.resolve().parent)
        except lmdb.Error as error:
            raise translate(error, str(target)) from error
        except OSError as error:
            raise StoreFullError(f"{target}: cannot be written ({error.strerror}); choose another place") from error
        finally:
            with contextlib.suppress(FileNotFoundError):
                (partial / DATA_FILE).unlink(missing_ok=True)
                partial.rmdir()

    def statistics(self) -> FileStatistics:
        """Sizes and counts as they are now."""
        information: Mapping[str, int] = dict(self.environment.info())  # type: ignore[arg-type]
        return FileStatistics(
            bytes=self.path.stat().st_size,
            used_bytes=self.used,
            map_bytes=information["map_size"],
            change=information["last_txnid"],
            readers=max(0, len(self.environment.readers().splitlines()) - 1) if self.registers else 0,
            largest_readers=information["max_readers"],
        )


def flush(path: Path) -> None:
    """Make a file's content, or a directory's list of names, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
