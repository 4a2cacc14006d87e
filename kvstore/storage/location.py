"""Paths of stores: whether a path holds a store, or can become one.

In: a path typed by the user. Out: a decision (open it, create it) or an error that describes what is there instead. On
disk, a store is a directory with ``data.mdb`` (everything), ``lock.mdb`` (LMDB's reader table) and ``writer.lock``. A
killed creation or COMPACT leaves ``data.mdb.new``, which the next writer removes. There may be index files, including
kinds that only a later version knows, and they may outlive a deleted store; files with such names are ignored.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from ..arguments import is_text
from ..errors import CorruptionError, InputError, NotAStoreError, ReadOnlyError, StoreFullError, StoreNotFoundError
from .records import PAGE_SIZE

DATA_FILE = "data.mdb"
#: The new data file that a creation, COMPACT or a repair writes and then renames to ``DATA_FILE``.
NEW_DATA_FILE = "data.mdb.new"
#: The directory in which a repair writes the new data file.
REPAIR_DIRECTORY = "data.mdb.repair"
READERS_FILE = "lock.mdb"
WRITER_FILE = "writer.lock"
#: The suffixes of index files: of a complete file, and of one that is being built.
INDEX_SUFFIXES = (".index", ".index.new")

#: The size of LMDB's two meta pages, which a new data file consists of; a shorter data file was truncated.
MIN_DATA_BYTES = 2 * PAGE_SIZE

#: LMDB's magic number, at byte 16 of each of its two meta pages, in the byte order of the machine.
_LMDB_MAGIC = struct.pack("=I", 0xBEEFC0DE)


def is_creation_needed(path: Path, *, create: bool) -> bool:
    """True if a store must be created at ``path``, False if there is one already.

    Raises StoreNotFoundError if there is no store and ``create`` is false or the parent directory is missing, or if the
    directory or its data file is a symbolic link to a missing file. Raises NotAStoreError if there is something else,
    such as a named pipe, and CorruptionError if the data file is shorter than its meta pages. Raises InputError if the
    data file or directory may not be read, if ``path`` is ``:memory:``, or if LMDB's file of readers is not a regular
    file, and the errors of :func:`require_utf8_path` and :func:`require_accessible`.
    """
    require_utf8_path(path)
    require_accessible(path / DATA_FILE)
    for link in (path, path / DATA_FILE):
        if link.is_symlink() and not link.exists():
            raise StoreNotFoundError(
                f"{link}: a symbolic link to {os.readlink(link)}, which does not exist; check whether its disk is "
                "mounted, or remove the link"
            )
    if not path.exists():
        if not create:
            raise StoreNotFoundError(
                f"{path}: there is no store here; check the path, or create one with kvstore.open()"
            )
        if str(path) == ":memory:":  # the database in memory of SQLite and DuckDB
            raise InputError(":memory: is not a store, because every store is a directory; use a temporary directory")
        if not path.parent.is_dir():
            raise StoreNotFoundError(f"{path}: the folder {path.parent} does not exist; create it first")
        return True
    if not path.is_dir():
        raise NotAStoreError(f"{path}: this is a file, but a store is a directory; choose another path")
    data_file = path / DATA_FILE
    if data_file.exists() and not data_file.is_file():
        raise NotAStoreError(f"{data_file}: not a regular file, so this is not a store; choose another path")
    readers_file = resolve_data_link(path) / READERS_FILE
    if readers_file.exists() and not readers_file.is_file():
        raise InputError(f"{readers_file}: not a regular file; remove it, and kvstore creates the file that it needs")
    foreign_names = [] if (path / DATA_FILE).is_file() else _list_foreign_names(path)
    if (path / DATA_FILE).is_file():  # another process may have created it while the names were listed
        # Check before anything is opened: kvstore must not create files in a directory of another application.
        _require_data_file(path / DATA_FILE)
        return False
    if foreign_names:
        name_list = ", ".join(foreign_names[:3]) + (", ..." if len(foreign_names) > 3 else "")
        raise NotAStoreError(
            f"{path}: not a store ({DATA_FILE} is missing, but there is {name_list}); choose another path"
        )
    if not create:
        raise StoreNotFoundError(
            f"{path}: there is no store in this directory ({DATA_FILE} is missing); check the path, or create one with "
            "kvstore.open()"
        )
    return True


def _list_foreign_names(path: Path) -> list[str]:
    """Return the sorted names of files in a directory that do not belong to kvstore.

    Files left by a deleted store, or by a process killed while creating one, are not foreign. Raises InputError if the
    directory may not be read.
    """
    new_path = path / NEW_DATA_FILE
    with _report_denied_access(path):
        names = {entry.name for entry in path.iterdir()} - {READERS_FILE, WRITER_FILE}
        if new_path.is_file() and get_file_size(new_path) <= MIN_DATA_BYTES:  # a killed creation left it
            names.discard(NEW_DATA_FILE)
    return sorted(name for name in names if not name.endswith(INDEX_SUFFIXES))


def resolve_data_link(path: Path) -> Path:
    """Return the directory that contains the data file of the store at ``path``.

    It is ``path``, or the directory of another ``data.mdb`` that ``path/data.mdb`` is a symbolic link to.
    All processes then use the same lock files, whichever directory they open. Otherwise, two of them could write at the
    same time, and damage the file.
    """
    data_path = path / DATA_FILE
    target = data_path.resolve()
    return target.parent if data_path.is_symlink() and target.name == DATA_FILE else path


def explain_hard_links(directory: Path) -> str | None:
    """Return why the data file in ``directory`` must not be changed: it has several hard links; None if it has one.

    Each directory with a link has its own lock files, so two processes could write to the file at the same time.
    """
    num_links = (directory / DATA_FILE).stat().st_nlink
    if num_links <= 1:
        return None
    return (
        f"{DATA_FILE} has {num_links} hard links, and processes that open it in other directories do not wait for each "
        "other, so it is open read-only; remove the other links, or change a copy (kvstore backup makes one)"
    )


def _require_data_file(data_path: Path) -> None:
    """Raise NotAStoreError if the data file is not an LMDB file, CorruptionError if it is shorter than its meta pages.

    Raises InputError if it may not be read.
    """
    if data_path.stat().st_size < MIN_DATA_BYTES:
        raise CorruptionError(
            f"{data_path}: only {data_path.stat().st_size} bytes long, so it was truncated; restore the store from a "
            "backup, or delete the directory if nothing was ever written to it"
        )
    with _report_denied_access(data_path), data_path.open("rb") as file:
        meta_pages = file.read(MIN_DATA_BYTES)
    # Bytes 16 to 19 of each of the two meta pages.
    if _LMDB_MAGIC not in (meta_pages[16:20], meta_pages[PAGE_SIZE + 16 : PAGE_SIZE + 20]):
        raise NotAStoreError(f"{data_path}: not an LMDB file, so this is not a store; choose another path")


def require_utf8_path(path: Path) -> None:
    """Raise InputError if the path of a store is not UTF-8, because the LMDB binding accepts no other."""
    if not is_text(str(path)):
        raise InputError(f"{str(path)!r}: the path of a store must be valid UTF-8; rename it")


def find_access_error(path: Path) -> OSError | None:
    """Return the error with which the system refuses to look up ``path``, or None; a missing path is not an error."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return error
    return None


def require_accessible(path: Path) -> None:
    """Raise InputError if the system refuses to look up ``path``; the path may be missing."""
    error = find_access_error(path)
    if error is not None:
        raise InputError(
            f"{path}: cannot be accessed ({error.strerror}); check the path, and the permissions of its folders"
        ) from error


@contextlib.contextmanager
def _report_denied_access(path: Path) -> Iterator[None]:
    """Replace a PermissionError from the block, which reads ``path``, with InputError."""
    try:
        yield
    except PermissionError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error


def require_free_path(target: Path) -> None:
    """Raise InputError if ``target`` exists, even as a dangling link, or if it or its folder cannot be accessed.

    A copy or an export never overwrites a file.
    """
    require_accessible(target)
    if target.exists() or target.is_symlink():
        raise InputError(f"{target} already exists; choose a path that does not exist")
    if not target.parent.is_dir():
        raise InputError(f"{target}: the folder {target.parent} does not exist; create it first")
    with _report_denied_access(target.parent):
        os.close(os.open(target.parent, os.O_RDONLY))  # to flush the folder after the target has been created


def make_directory(path: Path) -> None:
    """Create the directory of a new store, unless it exists.

    Raises StoreFullError if there is no room, and ReadOnlyError for any other failure.
    """
    try:
        path.mkdir(exist_ok=True)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFullError(
                f"{path}: cannot be created, because the disk is full; free some space and try again"
            ) from error
        raise ReadOnlyError(f"{path}: cannot be created ({error.strerror}); choose another path") from error


def open_store_file(path: Path, flags: int) -> int:
    """Open a file next to the data file of a store, and return its descriptor; ``flags`` are passed to :func:`os.open`.

    A newly created file gets at most the permissions of the data file, and if possible its owner and group. A named
    pipe in place of the file is not waited for. Raises OSError.
    """
    flags |= os.O_NONBLOCK  # opening a named pipe would wait for its other end
    try:
        data_status = (path.parent / DATA_FILE).stat()
    except OSError:  # the store is being created
        return os.open(path, flags, 0o644)
    read_permissions = data_status.st_mode & 0o044  # of the group and of others
    descriptor = os.open(path, flags, 0o600 | read_permissions)
    status = os.fstat(descriptor)
    if status.st_uid == os.geteuid() and (status.st_uid, status.st_gid) != (data_status.st_uid, data_status.st_gid):
        # Without the group, other users of the store could not open the file. Only root can change the owner.
        for user_id in (data_status.st_uid, -1):
            with contextlib.suppress(OSError):
                os.fchown(descriptor, user_id, data_status.st_gid)
                break
    return descriptor


def flush(path: Path) -> None:
    """Make a file's content, or the entries of a directory, durable.

    Does nothing for a directory that this user may write to, but not read, because it cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:
        if not path.is_dir():
            raise
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some file systems, such as SMB shares, cannot flush a directory.
        if error.errno not in (errno.EBADF, errno.EINVAL) or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def get_file_size(path: Path) -> int:
    """Return the size of a file in bytes, 0 if it is missing."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
