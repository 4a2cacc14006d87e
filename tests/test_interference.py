"""Changes by others to the files of an open store: deleted locks, a read-only directory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from other_process import read_line, send_line, start_python

from kvstore.errors import KvstoreError, LockTimeoutError, ReadOnlyError
from kvstore.storage.environment import Environment

#: A process that opens the store until it reads "close", and writes each other key that it reads, in two steps.
WRITER = """
environment = Environment.open(path)
print("open", flush=True)
for line in sys.stdin:
    if line.strip() == "close":
        break
    with environment.write() as transaction:
        transaction.put("a", line.strip().encode(), b"value")
        print("in", line.strip(), flush=True)
        sys.stdin.readline()
    print("done", flush=True)
environment.close()
"""


def put_record(environment: Environment, key: bytes) -> None:
    with environment.write() as transaction:
        transaction.put("a", key, b"value")


def list_keys(environment: Environment) -> list[bytes]:
    with environment.snapshot() as snapshot:
        return [bytes(key) for key, _ in snapshot.scan("a")]


def test_opening_a_store_with_a_deleted_reader_table_waits_for_open_handles(tmp_path: Path) -> None:
    """Their reads are in the table that is gone, so a writer with a new one would take their pages for free."""
    path = tmp_path / "store"
    with Environment.open(path) as environment:
        put_record(environment, b"first")
    with start_python(WRITER, path) as writer:
        assert read_line(writer) == "open"
        (path / "lock.mdb").unlink()
        for readonly in (False, True):
            with pytest.raises(LockTimeoutError, match=r"lock\.mdb: deleted while another process .* close the store"):
                Environment.open(path, readonly=readonly, lock_timeout=0.1)
        assert not (path / "lock.mdb").exists()
        send_line(writer, "second")
        assert read_line(writer) == "in second"
        send_line(writer)
        assert read_line(writer) == "done"
        # One that waits gets it as soon as it is closed there.
        closing = threading.Timer(0.2, send_line, [writer, "close"])
        closing.start()
        with Environment.open(path) as environment:
            assert list_keys(environment) == [b"first", b"second"]
            assert environment.verify() == []
        closing.join()


def test_a_store_opened_to_read_that_is_to_be_written_needs_its_table_of_readers(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with start_python(WRITER, path) as writer:
        assert read_line(writer) == "open"
        send_line(writer, "first")
        assert read_line(writer) == "in first"
        # Another process writes, so this one opens the store to read, and again when it comes to write.
        with Environment.open(path, lock_timeout=0.1) as environment:
            send_line(writer)
            assert read_line(writer) == "done"
            (path / "lock.mdb").unlink()
            with pytest.raises(LockTimeoutError, match=r"lock\.mdb: deleted"):
                put_record(environment, b"second")
            assert list_keys(environment) == [b"first"]
            send_line(writer, "close")
            writer.wait()
            put_record(environment, b"second")
            assert list_keys(environment) == [b"first", b"second"]


def test_many_may_open_a_restored_copy_at_once(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Environment.open(path) as environment:
        put_record(environment, b"first")
    code = """
for turn in range(20):
    with Environment.open(path, readonly=turn % 2 == 0) as environment:
        with environment.snapshot() as snapshot:
            assert bytes(snapshot.get("a", b"first")) == b"value"
    if turn % 5 == 0:
        try:
            os.unlink(path + "/lock.mdb")
        except FileNotFoundError:
            pass
"""
    prelude = "import os, sys\nfrom kvstore.storage.environment import Environment\npath = sys.argv[1]\n"
    processes = [subprocess.Popen([sys.executable, "-c", prelude + code, str(path)]) for _ in range(4)]
    try:
        assert [process.wait(60) for process in processes] == [0] * 4
    finally:
        for process in processes:
            process.kill()


def test_two_writers_take_turns_though_the_lock_between_them_was_deleted(tmp_path: Path) -> None:
    """Both hold a writer's lock then; LMDB's own keeps them apart."""
    path = tmp_path / "store"
    with start_python(WRITER, path) as writer:
        assert read_line(writer) == "open"
        send_line(writer, "first")
        assert read_line(writer) == "in first"
        with Environment.open(path) as environment:  # to read, as long as the other writes
            (path / "writer.lock").unlink()
            written = threading.Event()

            def second() -> None:
                put_record(environment, b"second")
                written.set()

            thread = threading.Thread(target=second)
            thread.start()
            assert not written.wait(0.3)
            send_line(writer)
            assert read_line(writer) == "done"
            thread.join(30)
            assert written.is_set()
            assert list_keys(environment) == [b"first", b"second"]
            # From now on both lock the file that has the name.
            send_line(writer, "third")
            assert read_line(writer) == "in third"
            with pytest.raises(LockTimeoutError, match=f"process {writer.pid}"):
                environment.write(0.1)
            send_line(writer)
            assert read_line(writer) == "done"
            assert environment.verify() == []


def test_two_directories_that_link_to_one_data_file_share_their_locks(tmp_path: Path) -> None:
    """With locks of their own, their writers overwrote each other's pages."""
    path, linked = tmp_path / "store", tmp_path / "linked"
    with Environment.open(path) as environment:
        put_record(environment, b"first")
    linked.mkdir()
    (linked / "data.mdb").symlink_to("../store/data.mdb")
    with start_python(WRITER, path) as writer:
        assert read_line(writer) == "open"
        send_line(writer, "second")
        assert read_line(writer) == "in second"
        with Environment.open(linked) as environment:
            with pytest.raises(LockTimeoutError, match=f"process {writer.pid}"):
                environment.write(0.1)
            with environment.snapshot() as snapshot:
                send_line(writer)
                assert read_line(writer) == "done"
                for number in range(20):  # would reuse the pages of the snapshot if the writer did not know of it
                    send_line(writer, f"later {number}")
                    read_line(writer)
                    send_line(writer)
                    assert read_line(writer) == "done"
                assert [bytes(key) for key, _ in snapshot.scan("a")] == [b"first"]
            put_record(environment, b"third")
            assert environment.verify() == []
    with Environment.open(linked) as environment:
        environment.compact()
        assert len(list_keys(environment)) == 23
    assert [file.name for file in linked.iterdir()] == ["data.mdb"]
    assert (linked / "data.mdb").is_symlink()


def test_a_data_file_with_two_hard_links_is_only_read(tmp_path: Path) -> None:
    """Its two directories have locks of their own, so writers in them overwrote each other's pages."""
    path, linked = tmp_path / "store", tmp_path / "linked"
    with Environment.open(path) as environment:
        put_record(environment, b"first")
    linked.mkdir()
    os.link(path / "data.mdb", linked / "data.mdb")
    for directory in (path, linked):
        with Environment.open(directory) as environment:
            assert list_keys(environment) == [b"first"]
            with pytest.raises(ReadOnlyError, match=r"data\.mdb has 2 hard links, .* remove the other links"):
                environment.write()
    (linked / "data.mdb").unlink()
    with Environment.open(path) as environment:
        put_record(environment, b"second")
        assert list_keys(environment) == [b"first", b"second"]


def test_a_directory_in_the_place_of_the_lock_file(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with Environment.open(path) as environment:
        (path / "writer.lock").unlink()
        (path / "writer.lock").mkdir()
        with pytest.raises(KvstoreError, match=r"writer\.lock: cannot be used \(Is a directory\); check that it is"):
            environment.write()
    with pytest.raises(KvstoreError, match=r"writer\.lock: cannot be used \(Is a directory\)"):
        Environment.open(path)
    (path / "writer.lock").rmdir()
    with Environment.open(path) as environment:
        put_record(environment, b"first")


def test_a_waiter_for_a_deleted_lock_file_locks_its_replacement(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with start_python(WRITER, path) as first_writer, start_python(WRITER, path) as second_writer:
        assert read_line(first_writer) == read_line(second_writer) == "open"
        send_line(first_writer, "first")
        assert read_line(first_writer) == "in first"
        send_line(second_writer, "second")  # waits
        (path / "writer.lock").unlink()
        send_line(first_writer)
        assert read_line(first_writer) == "done"
        assert read_line(second_writer) == "in second"
        with (
            pytest.raises(LockTimeoutError, match=f"process {second_writer.pid}"),
            Environment.open(path) as environment,
        ):
            environment.write(0.1)
        send_line(second_writer)
        assert read_line(second_writer) == "done"


@pytest.fixture
def readonly_directory(tmp_path: Path) -> Iterator[Path]:
    """Yield a store that was copied, without its locks, to a file system that is mounted read-only."""
    folder, store = tmp_path / "disk", tmp_path / "store"
    with Environment.open(store) as environment:
        put_record(environment, b"first")
    folder.mkdir()
    try:
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    try:
        (folder / "store").mkdir()
        (folder / "store" / "data.mdb").write_bytes((store / "data.mdb").read_bytes())
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True, capture_output=True)
        yield folder / "store"
    finally:
        subprocess.run(["umount", str(folder)], check=True, capture_output=True)


def test_a_store_in_a_read_only_directory_is_read_by_any_number(readonly_directory: Path) -> None:
    reader = """
environment = Environment.open(path, readonly=True)
with environment.snapshot() as snapshot:
    print(bytes(snapshot.get("a", b"first")).decode(), flush=True)
    sys.stdin.readline()
environment.close()
"""
    with (
        start_python(reader, readonly_directory) as first_reader,
        start_python(reader, readonly_directory) as second_reader,
    ):
        assert read_line(first_reader) == read_line(second_reader) == "value"
        with pytest.raises(ReadOnlyError, match="open the store read-only"):
            Environment.open(readonly_directory)
        with Environment.open(readonly_directory, readonly=True) as environment:
            assert list_keys(environment) == [b"first"]
            environment.copy_to(readonly_directory.parent.parent / "copy")
    assert os.listdir(readonly_directory) == ["data.mdb"]
