"""A page that is zeroed, or swapped with or overwritten by another: no statement ends the process, and none gives a
wrong result without an error."""

from __future__ import annotations

import json
import mmap
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pytest

import kvstore
from kvstore.errors import CorruptionError, KvstoreError, TransactionError
from kvstore.sql.table_catalog import get_sql_tables
from kvstore.storage.mapped_pages import VerifiedTransaction
from kvstore_cext.pages import PageError, Pages

PAGE = mmap.PAGESIZE
KINDS = ("zero", "swap", "copy")
NAMES = ("Cryostat", "Maria Lindqvist", "The Pump", "Nobody")

Operation = Callable[[Path], object]


def _make_read_operation(read: Callable[[kvstore.Store], object]) -> Operation:
    def operation(path: Path) -> object:
        with kvstore.open(path, embedder="hashing:32") as store:
            return read(store)

    return operation


def _dump(store: kvstore.Store) -> object:
    target = Path(store.path).parent / "dump.jsonl"
    target.unlink(missing_ok=True)
    store.export(target)
    return sorted(target.read_text().splitlines())


def _write(store: kvstore.Store) -> object:
    store.put("new", "The Vacuum Pump is new in Uppsala.")
    store.delete("cold")
    return sorted(store.keys())


def _repair(store: kvstore.Store) -> object:
    report = store.repair()
    return report.lost, report.remaining


#: The statements that are run over a damaged store, each in a copy of its own.
OPERATIONS: dict[str, Operation] = {
    **{
        f"SELECT {table}": _make_read_operation(
            lambda store, table=table: store.execute(f"SELECT * FROM {table}").fetchall()
        )  # type: ignore[misc]
        for table in get_sql_tables()
    },
    "LOOKUP": _make_read_operation(lambda store: [store.lookup(name, limit=20) for name in NAMES]),
    "ASK": _make_read_operation(lambda store: store.ask("Who built the Vacuum Pump in Uppsala?").text),
    "RETRIEVE": _make_read_operation(lambda store: store.retrieve("the Cryostat in Uppsala", top=4).hits),
    "get": _make_read_operation(lambda store: [store.get(key) for key in ("pumps", "cold", "own", "parts", "nothing")]),
    "dump": _make_read_operation(_dump),
    "write": _make_read_operation(_write),
    "CHECK": _make_read_operation(lambda store: store.check()),
    "REPAIR": _make_read_operation(_repair),
}
#: The statements that a repaired store must answer as before; a repair hands out new ids.
REPAIRED = (*(f"SELECT {table}" for table in ("documents", "edges", "triples", "aliases")),)
REPAIRED += ("LOOKUP", "ASK", "RETRIEVE", "get", "dump")


def test_a_snapshot_that_commits_have_overtaken_is_not_mapped_by_their_meta_page(store: kvstore.Store) -> None:
    store.put("tea", "Tea is made from leaves.")
    data = store._session.store.environment.data
    with data.environment.begin(buffers=True) as transaction:
        store.put("milk", "Milk is white.")
        store.put("oil", "Oil burns in lamps.")
        data._address = None
        assert data.wrap_read_transaction(transaction) is None
    assert store.keys() == ["milk", "oil", "tea"]


def fill_store(path: Path) -> None:
    with kvstore.open(path, embedder="hashing:32", settings={"chunk_tokens": 16, "language": "rules"}) as store:
        store.put(
            "pumps",
            "# Pumps\n\nThe Vacuum Pump feeds the Cryostat. It was built in Uppsala by Maria Lindqvist.\n\n## Care\n\n"
            + "The Cryostat stands in Uppsala and the Turbine turns. " * 120,
            title="Vacuum Pump",
            format="markdown",
        )
        store.put("cold", "The Cryostat keeps the Detector cold in Uppsala.", title="Cryostat", meta={"year": 2023})
        store.put("parts", "Vacuum Pump,Cryostat\nCryostat,Turbine\nTurbine,Instrument\n", format="pairs")
        store.put("own", "A text whose vector its owner brought along.", vectors=[np.linspace(-1, 1, 32)])
        for part in range(40):
            store.put(f"names {part}", " ".join(f"Alpha{part * 20 + n} is Beta{n}." for n in range(20)))
        store.put_edge("Maria Lindqvist", "Laboratory", tree="staff")
        store.alias("The Pump", "Vacuum Pump")
        store.merge("Turbine", "Instrument")
        store.compact()
        store.put("late", "The Detector is late in Uppsala.")


def damage_page(data: Path, kind: str, page: int) -> None:
    """Zero a page, swap it with a later page, or overwrite it with that page."""
    content = bytearray(data.read_bytes())
    count = len(content) // PAGE
    second_page = (page + 1 + page * 7 % (count - 1)) % count
    first_slice = slice(page * PAGE, (page + 1) * PAGE)
    second_slice = slice(second_page * PAGE, (second_page + 1) * PAGE)
    first_content, second_content = bytes(content[first_slice]), bytes(content[second_slice])
    if kind == "zero":
        content[first_slice] = bytes(PAGE)
    else:
        content[first_slice] = second_content
        if kind == "swap":
            content[second_slice] = first_content
    data.write_bytes(content)


def to_json_value(value: object) -> Any:
    """Return a result as it looks after its way through a pipe."""
    return json.loads(json.dumps(value, default=repr))


def run_operations(original: Path, folder: Path, kind: str | None, page: int, names: list[str]) -> dict[str, Any]:
    """Run statements over a store with one damaged page; return each result, ``error``, ``raw`` or ``abort``.

    They run in children, of which each goes on behind the statement that ended the one before.
    """
    outcomes: dict[str, Any] = {}
    while len(outcomes) < len(names):
        reader, writer = os.pipe()
        if not (child := os.fork()):
            code = 1
            try:
                os.close(reader)
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                for name in names[len(outcomes) :]:
                    _run_operation(original, folder, kind, page, name, writer)
                code = 0
            finally:
                os._exit(code)
        os.close(writer)
        with os.fdopen(reader) as lines:
            for line in lines:
                outcomes.update(json.loads(line))
        _, status = os.waitpid(child, 0)
        if status:
            outcomes[names[len(outcomes)]] = {"abort": status}
    return outcomes


def _run_operation(original: Path, folder: Path, kind: str | None, page: int, name: str, writer: int) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    copy = folder / "store"
    copy.mkdir(parents=True)
    shutil.copy(original / "data.mdb", copy)
    if kind is not None:
        damage_page(copy / "data.mdb", kind, page)
    outcome: dict[str, Any]
    try:
        outcome = {"result": to_json_value(OPERATIONS[name](copy))}
        if name == "REPAIR":
            outcome["answers"] = {name: to_json_value(OPERATIONS[name](copy)) for name in REPAIRED}
    except KvstoreError as error:
        outcome = {"error": f"{type(error).__name__}: {error}"}
    except Exception as error:
        outcome = {"raw": f"{type(error).__name__}: {error}"}
    os.write(writer, json.dumps({name: outcome}).encode() + b"\n")


def judge_outcomes(outcomes: dict[str, Any], expected: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield statement, judgement and detail of each outcome."""
    for name, outcome in outcomes.items():
        if "result" not in outcome:
            ((judgement, detail),) = outcome.items()
        elif name == "CHECK":
            judgement, detail = ("finds" if outcome["result"] else "finds nothing"), str(outcome["result"][:2])
        elif name == "REPAIR":
            lost, remaining = outcome["result"]
            answers = outcome["answers"]
            different = [statement for statement in answers if answers[statement] != expected[statement]["result"]]
            judgement = "restores" if not different and not remaining else "loses, and says so" if lost else "wrong"
            detail = str((lost[:3], remaining[:2], different))
        else:
            judgement, detail = ("right" if outcome == expected[name] else "wrong"), ""
        yield name, judgement, str(detail)


@pytest.fixture(scope="module")
def intact_store(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Return the path of a closed store and the expected outcome of each statement."""
    folder = tmp_path_factory.mktemp("pages")
    fill_store(folder / "store")
    expected = run_operations(folder / "store", folder / "copy", None, 0, list(OPERATIONS))
    assert expected["CHECK"] == {"result": []}
    return folder / "store", expected


def count_judgements(
    intact_store: tuple[Path, dict[str, Any]], folder: Path, damages: list[tuple[str, int]]
) -> Counter[tuple[str, str, str]]:
    """Count the judgements over damages by kind, statement and judgement; print the wrong ones."""
    path, expected = intact_store
    counts: Counter[tuple[str, str, str]] = Counter()
    for kind, page in damages:
        for name, judgement, detail in judge_outcomes(
            run_operations(path, folder / "copy", kind, page, list(OPERATIONS)), expected
        ):
            counts[kind, "SELECT" if name.startswith("SELECT") else name, judgement] += 1
            if judgement in ("abort", "raw", "wrong") or os.environ.get("SHOW_DAMAGE"):
                print(kind, page, name, judgement, detail, flush=True)
    return counts


def list_pages(intact_store: tuple[Path, dict[str, Any]]) -> range:
    return range((intact_store[0] / "data.mdb").stat().st_size // PAGE)


def assert_no_wrong(counts: Counter[tuple[str, str, str]]) -> None:
    for key, count in sorted(counts.items()):
        print(*key, count)
    assert not [key for key in counts if key[2] in ("abort", "raw", "wrong")]


@pytest.mark.slow
def test_a_damaged_page_neither_ends_the_process_nor_gives_a_wrong_result(
    intact_store: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    sample = [(KINDS[page % 3], page) for page in list_pages(intact_store) if page % 12 == 1]
    assert_no_wrong(count_judgements(intact_store, tmp_path, sample))


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_no_damaged_page_ends_the_process_or_gives_a_wrong_result(
    intact_store: tuple[Path, dict[str, Any]], tmp_path: Path, kind: str
) -> None:
    assert_no_wrong(count_judgements(intact_store, tmp_path, [(kind, page) for page in list_pages(intact_store)]))


@pytest.mark.slow
def test_check_names_a_damaged_page_and_repair_restores_derived_data(
    intact_store: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    path, expected = intact_store
    content = (path / "data.mdb").read_bytes()
    page = content.index(b"KVB1") // PAGE  # a bucket page of the entity filter
    copy = tmp_path / "store"
    copy.mkdir()
    (copy / "data.mdb").write_bytes(content[: page * PAGE] + bytes(PAGE) + content[(page + 1) * PAGE :])
    with kvstore.open(copy, embedder="hashing:32") as store:
        with pytest.raises(CorruptionError, match=f"page {page} "):
            store.lookup("Cryostat")
        assert any(f"page {page} " in problem for problem in store.check())
        report = store.repair()
        assert (report.lost, report.remaining) == ([], [])
        assert to_json_value([store.lookup(name, limit=20) for name in NAMES]) == expected["LOOKUP"]["result"]
        assert sorted(file.name for file in copy.iterdir()) == ["data.mdb", "lock.mdb", "writer.lock"]


@pytest.mark.slow
def test_a_repair_of_damaged_pages_waits_for_no_other_process(
    intact_store: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    copy = tmp_path / "store"
    copy.mkdir()
    content = bytearray((intact_store[0] / "data.mdb").read_bytes())
    page = content.index(b"KVB1") // PAGE
    content[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
    (copy / "data.mdb").write_bytes(content)
    code = f"import kvstore; s = kvstore.open({str(copy)!r}, readonly=True); print('open', flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with kvstore.open(copy, embedder="hashing:32") as store, pytest.raises(TransactionError):
            store.repair()
        process.communicate(b"\n")
    assert (copy / "data.mdb").read_bytes()[: 2 * PAGE] == bytes(content[: 2 * PAGE])
    with kvstore.open(copy, embedder="hashing:32") as store:
        assert store.repair().remaining == []


def _list_nodes(content: np.ndarray, page: int, flags: int) -> tuple[list[bytes], list[int]]:
    """Return the keys of a page's nodes and the offsets of these keys in the file; none unless it has the flags."""
    fields = content[page * PAGE : (page + 1) * PAGE].view(np.uint16)
    if fields[5] != flags:
        return [], []
    offsets = [page * PAGE + int(offset) + 8 for offset in fields[8 : fields[6] // 2]]
    sizes = [int(content[offset - 2 : offset].view(np.uint16)[0]) for offset in offsets]
    return [content[offset : offset + size].tobytes() for offset, size in zip(offsets, sizes, strict=True)], offsets


@pytest.mark.parametrize("operation", ["get_many", "put_many", "delete_many"])
def test_damage_to_a_key_hides_no_damaged_page_from_a_batch(tmp_path: Path, operation: str) -> None:
    """A batch must verify the same pages as a call for each of its keys, even if keys on the way are wrong."""
    with lmdb.open(str(tmp_path), max_dbs=1, map_size=1 << 26, lib_version=0) as environment:
        handle = environment.open_db(b"t")
        with environment.begin(write=True) as transaction:
            for number in range(4000):
                transaction.put(b"%06d" % number, b"v" * 40, db=handle)
        change = environment.info()["last_txnid"]
        content = np.frombuffer((tmp_path / "data.mdb").read_bytes(), np.uint8)
        leaves = sorted(
            (keys[0], page, offsets[-1], keys)
            for page in range(2, len(content) // PAGE)
            for keys, offsets in [_list_nodes(content, page, 2)]
            if keys and len(keys[0]) == 6
        )
        branches = [_list_nodes(content, page, 1) for page in range(2, len(content) // PAGE)]
        separators = next(offsets for keys, offsets in branches if len(keys) > 30)
        _, lost_page, _, lost_keys = leaves[7]
        keys = [leaves[0][3][0], leaves[0][3][1], *lost_keys[3:5]]
        for damaged_offsets in ([leaves[0][2]], separators[1:2], [leaves[0][2], *separators[1:4]]):
            damaged = content.copy()
            damaged[lost_page * PAGE : (lost_page + 1) * PAGE] = 0
            damaged[damaged_offsets] = 0xFF
            with environment.begin(write=True, buffers=True) as transaction:
                pages = Pages(damaged.ctypes.data, PAGE, change)
                verified = VerifiedTransaction(transaction, pages, {"t": handle}, transaction.id())
                table = verified.find_table("t")
                assert table is not None
                assert table.tree is not None
                table.is_changed = True
                arguments = [(key, b"new") for key in keys] if operation == "put_many" else keys
                with pytest.raises(PageError, match=f"page {lost_page} is overwritten"):
                    table.tree.verify_paths([lost_keys[3]])
                with pytest.raises(PageError, match=f"page {lost_page} is overwritten"):
                    getattr(verified, operation)(arguments, table=table)


@pytest.mark.slow
def test_the_page_reader_passes_over_a_damaged_page_and_nothing_else(tmp_path: Path) -> None:
    records = {b"%06d" % number: b"value %d" % number * (1 + 300 * (number % 50 == 0)) for number in range(6000)}
    with lmdb.open(str(tmp_path), max_dbs=1, map_size=1 << 26, lib_version=0) as environment:
        table = environment.open_db(b"t")
        with environment.begin(write=True) as transaction:
            for key, value in records.items():
                transaction.put(key, value, db=table)
        change = environment.info()["last_txnid"]
    content = np.frombuffer((tmp_path / "data.mdb").read_bytes(), np.uint8)
    lost_of_pages = []
    for page in range(2, len(content) // PAGE):
        damaged = content.copy()
        damaged[page * PAGE : (page + 1) * PAGE] = 0
        pages = Pages(damaged.ctypes.data, PAGE, change)
        try:
            tree = pages.get("t")
        except PageError:
            continue  # the page has the record of the table
        assert tree is not None
        for key in list(records)[::120]:
            with suppress(PageError):
                value = tree.get(key)
                assert value is not None
                assert bytes(value) == records[key] or b"\x00" in bytes(value)  # the rest of a long value has no header
        cursor = tree.cursor(True)
        keys_read = [key for key, _ in cursor]
        assert keys_read == sorted(keys_read)
        assert set(keys_read) <= set(records)
        lost = len(records) - len(keys_read)
        assert bool(lost) == bool(cursor.damage)
        backward = tree.cursor(True)
        assert backward.last() == bool(keys_read)
        assert [key for key, _ in backward.iterprev()] == keys_read[::-1]
        if lost:
            lost_of_pages.append(lost)
            first = min(records.keys() - set(keys_read))
            after = tree.cursor(True)
            assert after.set_range(first) == any(key > first for key in keys_read)
            with pytest.raises(PageError):
                tree.get(first)
            with pytest.raises(PageError):
                list(tree.cursor())
    assert max(lost_of_pages) == len(records)  # the root
    assert sorted(lost_of_pages)[len(lost_of_pages) // 2] < 250  # a leaf
