"""A disk without a byte left, as a small tmpfs and a small ext4: no call ends the process, none raises anything but an
error of kvstore's, and the store is as the calls that succeeded left it.

Stores are opened in processes of their own: where the system cannot put a page behind a write to a map, it kills.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from other_process import read_line, start_python

import kvstore
from kvstore.errors import StoreFullError

MAKING = {"embedder": "hashing:16", "settings": {"language": "rules"}}

#: What the processes have: a disk that is filled before each call, and calls whose outcomes are printed.
HOST = """
import json, random, shutil
from pathlib import Path
import kvstore

disk, other = Path(path), Path(sys.argv[2])
draw = random.Random(1)

def text(sentences):
    words = "Ada Lovelace Bank Engine Harbour Pump Valve Cryostat Ledger Payroll".split()
    return " ".join(f"{draw.choice(words)} keeps the {draw.choice(words)} {draw.random()}." for _ in range(sentences))

def fill():
    with open(disk / "filler", "ab", buffering=0) as filler:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while filler.write(os.urandom(size)) == size:
                    pass
            except OSError:
                pass
    assert os.statvfs(disk).f_bavail == 0

def outcome(call):
    fill()
    try:
        call()
        return "done"
    except kvstore.errors.KvstoreError as error:
        return f"{type(error).__name__}: {error}"

def opened(name="store", **options):
    with kvstore.open(disk / name, **options) as store:
        return store.keys()

def say(outcomes):
    print(json.dumps(outcomes), flush=True)
"""


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Yield the path of a small file system."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root of a Linux machine can mount a small disk")
    folder, image = tmp_path / "disk", tmp_path / "image"
    folder.mkdir()
    commands: list[list[object]]
    if request.param == "tmpfs":
        commands = [["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", folder]]
    else:
        image.write_bytes(b"")
        os.truncate(image, 5 << 20)
        commands = [
            ["mkfs.ext4", "-q", "-F", "-m", "0", "-O", "^has_journal", image],
            ["mount", "-o", "loop", image, folder],
        ]
    for command in commands:
        try:
            subprocess.run([*map(str, command)], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError) as error:
            reason = (
                error.stderr.decode(errors="replace") if isinstance(error, subprocess.CalledProcessError) else error
            )
            pytest.skip(f"no {request.param} can be made here: {reason}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True, capture_output=True)


def run_calls(code: str, disk: Path, folder: Path) -> dict[str, str]:
    with start_python(HOST + code, disk, folder) as host:
        return dict(json.loads(read_line(host) or "{}"))


def create_store(path: Path) -> None:
    with kvstore.open(path, **MAKING) as store:
        store.put("tea", "Tea is grown in Darjeeling.")
        store.put("tree", "Assam,India\nDarjeeling,India\n", format="pairs")


def list_keys_of_sound_store(path: Path) -> list[str]:
    """Return the keys of a store that passes CHECK and stores a document."""
    with kvstore.open(path, **MAKING) as store:
        assert store.check() == []
        keys = store.keys()
        store.put("after", "There is room again.")
        assert store.check() == []
    return keys


@pytest.mark.slow
def test_a_store_that_is_open_when_its_disk_gets_full(disk: Path, tmp_path: Path) -> None:
    create_store(disk / "store")
    code = """
from kvstore.changes.repair import rebuild_store

store = kvstore.open(disk / "store")
(other / "in").mkdir()
for number in range(20):
    (other / "in" / f"{number}.txt").write_text(text(100))

def in_a_transaction():
    with store.transaction() as transaction:
        transaction.put("several", text(3000))
        transaction.delete("tea")

def in_statements():
    store.execute("BEGIN")
    try:
        store.execute("INSERT DOCUMENT 'stated' TEXT ?", [text(3000)])
        store.execute("COMMIT")
    except kvstore.errors.StoreFullError:
        if store.in_transaction:
            store.execute("ROLLBACK")
        raise

def many_snapshots():
    snapshots = [store.snapshot() for _ in range(1000)]
    assert all(snapshot.keys() == store.keys() for snapshot in snapshots[::100])
    for snapshot in snapshots:
        snapshot.close()

calls = {
    "many snapshots": many_snapshots,
    "search": lambda: store.search("Where is tea grown?"),
    "retrieve": lambda: store.retrieve("Where is tea grown?"),
    "ask": lambda: store.ask("Where is tea grown?"),
    "lookup": lambda: store.lookup("Darjeeling"),
    "expand": lambda: store.expand("India"),
    "select": lambda: store.execute("SELECT count(*), max(text) FROM chunks").fetchall(),
    "check": lambda: store.check(),
    "export elsewhere": lambda: store.export(other / "all.jsonl"),
    "put": lambda: store.put("large", text(3000)),
    "transaction": in_a_transaction,
    "statements": in_statements,
    "ingest": lambda: store.ingest(other / "in"),
    "edges": lambda: [store.put_edge(f"Valve {number}", "Pump", tree="parts") for number in range(400)],
    "flush": lambda: store.flush(),
    "backup": lambda: store.backup(disk / "copy"),
    "export": lambda: store.export(disk / "all.jsonl"),
    "compact": lambda: store.compact(),
    "index": lambda: store.create_index("synonyms"),
    "repair": lambda: rebuild_store(store._session.environment, store.settings, store.embed),
}
results = {name: outcome(call) for name, call in calls.items()}
store.close()
say(results)
"""
    results = run_calls(code, disk, tmp_path)
    completed = {name for name, message in results.items() if message == "done"}
    assert completed == {
        *("many snapshots", "search", "retrieve", "ask", "lookup", "expand", "select", "check", "export elsewhere")
    }
    refused = {name: message for name, message in results.items() if name not in completed}
    assert all(message.startswith(("StoreFullError: ", "IndexUnavailableError: ")) for message in refused.values()), (
        refused
    )
    assert all(str(disk) in message and "No space left" in message for message in refused.values()), refused
    assert sorted(path.name for path in disk.iterdir() if path.name != "lost+found") == ["filler", "store"]
    assert not [path.name for path in (disk / "store").iterdir() if path.suffix == ".new"]
    (disk / "filler").unlink()
    assert list_keys_of_sound_store(disk / "store") == ["tea", "tree"]


def test_opening_on_a_full_disk(disk: Path, tmp_path: Path) -> None:
    """A copy that was restored has no table of readers; one that an earlier version left is sparse."""
    create_store(disk / "store")
    create_store(disk / "sparse")
    for name in ("store", "sparse"):
        (disk / name / "lock.mdb").unlink()
    with open(disk / "sparse" / "lock.mdb", "wb") as table:
        table.truncate(65664)
    code = """
results = {
    "new": outcome(lambda: opened("new", embedder="hashing:16", settings={"language": "rules"})),
    **{
        f"{name} {'to read' if readonly else 'to write'}": outcome(lambda: opened(name, readonly=readonly))
        for name in ("store", "sparse") for readonly in (True, False)
    },
    "migrate": outcome(lambda: kvstore.migrate(disk / "store")),
}
os.unlink(disk / "store" / "writer.lock")
results["without writer.lock"] = outcome(lambda: opened("store"))
say(results)
"""
    results = run_calls(code, disk, tmp_path)
    assert len(results) == 7
    assert all(message.startswith("StoreFullError: ") and str(disk) in message for message in results.values()), results
    assert all("free some space" in message for message in results.values()), results
    (disk / "filler").unlink()
    assert list_keys_of_sound_store(disk / "store") == list_keys_of_sound_store(disk / "sparse") == ["tea", "tree"]
    assert list_keys_of_sound_store(disk / "new") == []


def test_the_table_of_readers_has_all_its_room(tmp_path: Path) -> None:
    """LMDB makes it no longer than the room that was taken: a later page of it is on the disk as well."""
    create_store(tmp_path / "store")
    table = tmp_path / "store" / "lock.mdb"
    status = table.stat()
    assert 512 * status.st_blocks >= status.st_size
    table.unlink()
    with kvstore.open(tmp_path / "store", readonly=True):
        assert 512 * table.stat().st_blocks >= table.stat().st_size == status.st_size


@pytest.mark.parametrize(("limit", "file"), [(1000, "data.mdb"), (10_000, "lock.mdb")])
def test_a_limit_on_the_length_of_files_is_reported(tmp_path: Path, limit: int, file: str) -> None:
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
try:
    Environment.open(path)
except Exception as error:
    print(type(error).__name__, {file!r} in str(error), flush=True)
"""
    with start_python(code, tmp_path / "store") as host:
        assert read_line(host) == f"{StoreFullError.__name__} True"
