"""Indexes: what a search finds by one is what the state holds, whatever has happened to the store or to the file."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from other_process import NOBODY, requires_root

import kvstore
from kvstore import errors
from kvstore.storage import index_file
from kvstore.storage.view import LmdbView
from kvstore.structures import tables
from kvstore.structures.indexes import vector_index
from kvstore.structures.indexes.index import IndexRecord, IndexWriter
from kvstore.structures.indexes.index_building import IndexBuilder
from kvstore.structures.indexes.vector_index import VECTOR_INDEX
from kvstore_cext.vector_rows import gather_rows

#: So small that a file is made for the first chunk, and the graph is walked, not compared.
TINY = {"exact_below": 1, "ef_search": 10}
DIMENSION = 256  # of the hashing embedder


def make_unit_vector(seed: int) -> np.ndarray:
    vector = np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)
    return vector / np.linalg.norm(vector)


def get_status(store: kvstore.Store, kind: str = "vectors") -> tuple[str, int]:
    index = next(index_status for index_status in store.indexes() if index_status.kind == kind)
    return index.state, index.stale


def search_documents(reading: Any, query: np.ndarray, top: int = 5, **options: Any) -> dict[str, float]:
    """Return documents by strategy ``vector``, with their scores; every document here is one chunk."""
    evidence = reading.retrieve("x", using="vector", top=top, vector=query, options=options)
    return {hit.document: round(hit.score, 5) for hit in evidence.hits}


def put_vector(target: Any, key: str, seed: int) -> None:
    target.put(key, f"text {seed}", vectors=make_unit_vector(seed))


def list_segments(store: kvstore.Store) -> list[Path]:
    """Return the files of the parts of the index, the oldest first."""
    head = index_file.read_head(store.path / "vectors.index", "vectors", lambda token: True)
    return [store.path / name for name in head["parts"]]


def reopen(store: kvstore.Store) -> kvstore.Store:
    store.close()
    return kvstore.open(store.path)


def fill_store(store: kvstore.Store) -> None:
    with store.transaction() as transaction:
        for number in range(40):
            put_vector(transaction, f"d{number}", number)
    store.create_index("vectors", TINY)


@pytest.fixture
def filled_store(copy_store: Callable[..., kvstore.Store]) -> kvstore.Store:
    """Return a store of forty documents, all in the graph."""
    store = copy_store(fill_store)
    assert get_status(store) == ("ready", 0)
    return store


step = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 7), st.integers(0, 30)),
    st.tuples(st.just("put"), st.integers(0, 7), st.integers(0, 30)),
    st.tuples(st.just("delete"), st.integers(0, 7)),
    st.tuples(st.just("refresh")),
    st.tuples(st.just("snapshot")),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("roll back"), st.integers(0, 7), st.integers(0, 30)),
)


@settings(max_examples=20, deadline=None)
@given(st.lists(step, max_size=25), st.integers(0, 30), st.booleans())
@example([("put", 0, 8), ("refresh",), ("put", 1, 0), ("put", 1, 1), ("put", 2, 0), ("put", 3, 0)], 0, True)
def test_after_any_history_a_search_agrees_with_the_state(
    history: list[tuple[Any, ...]], query_seed: int, walked: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if walked:
            patch.setattr("kvstore.structures.vectors.hnsw.CODES_PER_CANDIDATE", 0)
        _compare_searches(history, query_seed)


def _compare_searches(history: list[tuple[Any, ...]], query_seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = kvstore.open(Path(folder) / "s", embedder="hashing", settings={"language": "rules"})
        store.create_index("vectors", TINY)
        seeds: dict[str, int] = {}
        snapshots: list[tuple[kvstore.Snapshot, dict[str, int]]] = []

        def compare_search(reading: Any, documents: dict[str, int], top: int) -> None:
            query = make_unit_vector(query_seed)
            scores = {key: float(make_unit_vector(seed) @ query) for key, seed in documents.items()}
            hits = reading.retrieve("x", using="vector", top=top, vector=query).hits
            assert [hit.score for hit in hits] == pytest.approx([scores[hit.document] for hit in hits], abs=1e-5)
            best = sorted(scores.values(), reverse=True)[:top]
            assert [hit.score for hit in hits] == pytest.approx(best, abs=1e-5)

        try:
            for action, *values in history:
                if action == "put":
                    key, seed = f"d{values[0]}", values[1]
                    put_vector(store, key, seed)
                    seeds[key] = seed
                elif action == "delete":
                    store.delete(f"d{values[0]}")
                    seeds.pop(f"d{values[0]}", None)
                elif action == "refresh":
                    store.refresh("vectors")
                elif action == "snapshot":
                    snapshots.append((store.snapshot(), dict(seeds)))
                elif action == "reopen":
                    for snapshot, _ in snapshots:
                        snapshot.close()
                    snapshots.clear()
                    store.close()
                    store = kvstore.open(Path(folder) / "s")
                else:
                    transaction = store.transaction()
                    try:
                        put_vector(transaction, f"d{values[0]}", values[1])
                        compare_search(transaction, {**seeds, f"d{values[0]}": values[1]}, 3)
                    finally:
                        transaction.rollback()
                for top in (3, 8):
                    compare_search(store, seeds, top)
                    for snapshot, documents in snapshots:
                        compare_search(snapshot, documents, top)
            assert store.check() == []
        finally:
            for snapshot, _ in snapshots:
                snapshot.close()
            store.close()


def test_a_search_reports_its_method(filled_store: kvstore.Store) -> None:
    def get_method(**options: int) -> str:
        evidence = filled_store.retrieve("x", using="vector", top=4, vector=make_unit_vector(1), options=options)
        return next(get_method.detail for get_method in evidence.steps if get_method.name == "vector search")

    assert "HNSW" in get_method()
    assert get_method(exact=1) == "exact cosine over all chunks"
    filled_store.drop_index("vectors")
    assert get_method() == "exact cosine over all chunks"


def test_below_the_threshold_there_is_no_file(store: kvstore.Store) -> None:
    put_vector(store, "a", 1)
    assert get_status(store) == ("exact", 0)
    assert store.refresh() == []
    store.create_index("vectors", {"exact_below": 2})
    assert not (store.path / "vectors.index").exists()
    put_vector(store, "b", 2)
    assert store.refresh() == ["vectors"]
    assert get_status(store) == ("ready", 0)
    assert store.refresh() == []


@pytest.mark.parametrize("walked", [True, False])
def test_conditions_restrict_the_results_of_an_index(
    filled_store: kvstore.Store, walked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if walked:
        monkeypatch.setattr("kvstore.structures.vectors.hnsw.CODES_PER_CANDIDATE", 0)
    for top in (1, 3, 30):
        evidence = filled_store.retrieve(
            "x", using="vector", top=top, vector=make_unit_vector(7), where="key LIKE 'd1%'"
        )
        assert {hit.document for hit in evidence.hits} <= {f"d{n}" for n in (1, *range(10, 20))}
        assert len(evidence.hits) == min(top, 11)
    assert filled_store.retrieve("x", using="vector", vector=make_unit_vector(7), where="key = 'none'").hits == []


def test_an_extension_writes_new_vectors_and_merges_small_segments(store: kvstore.Store) -> None:
    store.create_index("vectors", TINY)
    random = np.random.default_rng(3)
    vectors = random.standard_normal((96, DIMENSION)).astype(np.float32)
    sizes, written = [], 0
    for number in range(0, 96, 6):
        before = list_segments(store) if sizes else []
        with store.transaction() as transaction:
            for document_number in range(number, number + 6):
                transaction.put(f"d{document_number}", f"text {document_number}", vectors=vectors[document_number])
        assert store.refresh() == ["vectors"]
        after = list_segments(store)
        new = after.pop()
        assert after == before[: len(after)]  # what stays is not written again
        assert sorted(store.path.glob("vectors-*.index")) == sorted([*after, new])
        written += new.stat().st_size
        sizes.append(len(after) + 1)
    assert max(sizes) == 4
    assert sizes[-1] == 1
    assert written < 4 * new.stat().st_size
    query = make_unit_vector(1)
    cosines = vectors @ query / np.linalg.norm(vectors, axis=1)
    assert list(search_documents(store, query, top=9)) == [
        f"d{document_number}" for document_number in np.argsort(-cosines)[:9]
    ]
    assert store.check() == []


def test_a_cancelled_merge_leaves_the_segments_and_adds_new_vectors(
    store: kvstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.structures.indexes.vector_index._LINK_BATCH", 4)
    store.create_index("vectors", TINY)
    for first, last in ((0, 40), (40, 55)):
        with store.transaction() as transaction:
            for number in range(first, last):
                put_vector(transaction, f"d{number}", number)
        store.refresh()
    first, second = list_segments(store)
    with store.transaction() as transaction:
        for number in range(55, 65):
            put_vector(transaction, f"d{number}", number)
    looks = iter([False, False, True])
    assert IndexBuilder(store._session.environment, store.settings, store.embed).refresh(
        VECTOR_INDEX, is_cancelled=lambda: next(looks)
    )
    assert list_segments(store)[:2] == [first, second]
    assert len(list_segments(store)) == 3
    assert get_status(store) == ("ready", 0)
    for number in (3, 50, 64):
        assert list(search_documents(store, make_unit_vector(number), top=1)) == [f"d{number}"]


def test_hnswlib_builds_the_segments(store: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.execute("CREATE INDEX vectors WITH (engine = hnswlib, exact_below = 1, ef_search = 10)")
    for first, last in ((0, 40), (40, 60)):
        with store.transaction() as transaction:
            for number in range(first, last):
                put_vector(transaction, f"d{number}", number)
        store.refresh()
    # A search needs no hnswlib.
    monkeypatch.setitem(sys.modules, "hnswlib", None)
    monkeypatch.setattr("kvstore.structures.vectors.hnsw.CODES_PER_CANDIDATE", 0)
    for number in (3, 50):
        assert list(search_documents(store, make_unit_vector(number), top=1)) == [f"d{number}"]
    assert store.check() == []
    put_vector(store, "new", 99)
    message = r"engine = hnswlib needs hnswlib; pip install 'kvstore-db\[hnswlib\]'"
    with pytest.raises(errors.MissingExtraError, match=message):
        store.refresh()
    assert list(search_documents(store, make_unit_vector(99), top=1)) == ["new"]
    store.drop_index("vectors")
    with pytest.raises(errors.MissingExtraError, match=message):
        store.execute("CREATE INDEX vectors WITH (engine = hnswlib)")
    store.create_index("vectors", TINY)
    assert get_status(store) == ("ready", 0)
    assert list(search_documents(store, make_unit_vector(99), top=1)) == ["new"]


def test_results_beyond_the_graph_are_found(filled_store: kvstore.Store) -> None:
    assert len(search_documents(filled_store, make_unit_vector(3), top=100)) == 40


def test_a_mostly_dead_graph_is_rebuilt(filled_store: kvstore.Store) -> None:
    size = filled_store.statistics()["index_vectors_bytes"]
    for number in range(30):
        filled_store.delete(f"d{number}")
    assert set(search_documents(filled_store, make_unit_vector(3), top=40)) == {
        f"d{number}" for number in range(30, 40)
    }
    put_vector(filled_store, "new", 99)
    assert filled_store.refresh() == ["vectors"]
    assert filled_store.statistics()["index_vectors_bytes"] < size
    assert "new" in search_documents(filled_store, make_unit_vector(99), top=1)


@pytest.mark.parametrize("damage", ["cut", "cut to nothing", "flipped", "foreign", "deleted", "not ours"])
def test_an_unusable_file_counts_as_missing(
    filled_store: kvstore.Store, make_store: Callable[..., kvstore.Store], damage: str
) -> None:
    path = filled_store.path / "vectors.index"
    expected = search_documents(filled_store, make_unit_vector(5))
    content = bytearray(path.read_bytes())
    if damage == "deleted":
        path.unlink()
    elif damage == "foreign":
        other = make_store("other")
        put_vector(other, "x", 1)
        other.create_index("vectors", TINY)
        shutil.copy(other.path / "vectors.index", path)
    else:
        content[len(content) // 2] ^= 1
        changed = {"cut": content[:-4000], "cut to nothing": b"", "flipped": content, "not ours": b"x" * 5000}[damage]
        path.write_bytes(changed)
    assert search_documents(filled_store, make_unit_vector(5)) == expected
    assert get_status(filled_store)[0] == ("absent" if damage == "deleted" else "damaged")
    assert filled_store.refresh() == ["vectors"]
    assert get_status(filled_store) == ("ready", 0)
    assert search_documents(filled_store, make_unit_vector(5)) == expected


@pytest.mark.parametrize("damage", ["cut", "cut to nothing", "foreign", "deleted", "not ours"])
def test_a_file_without_one_of_its_parts_counts_as_missing(filled_store: kvstore.Store, damage: str) -> None:
    expected = search_documents(filled_store, make_unit_vector(5))
    part = list_segments(filled_store)[0]
    content = part.read_bytes()
    if damage == "deleted":
        part.unlink()
    else:
        foreign = content.replace(bytes.fromhex(part.stem.split("-")[1]), bytes(16))
        part.write_bytes({"cut": content[:-4000], "cut to nothing": b"", "foreign": foreign}.get(damage, b"x" * 5000))
    filled_store = reopen(filled_store)
    assert search_documents(filled_store, make_unit_vector(5)) == expected
    assert get_status(filled_store)[0] == "damaged"
    assert filled_store.refresh() == ["vectors"]
    assert get_status(filled_store) == ("ready", 0)
    assert search_documents(filled_store, make_unit_vector(5)) == expected
    assert part not in list_segments(filled_store)
    filled_store.close()


@pytest.mark.parametrize("walked", [True, False])
def test_wherever_a_segment_is_damaged_a_search_is_right_or_does_without(
    filled_store: kvstore.Store, walked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if walked:
        monkeypatch.setattr("kvstore.structures.vectors.hnsw.CODES_PER_CANDIDATE", 0)
    (part,), num_reported = list_segments(filled_store), 0
    sound = part.read_bytes()
    expected = [search_documents(filled_store, make_unit_vector(number), top=3) for number in range(0, 40, 8)]
    for place in range(16, len(sound), len(sound) // 60):
        part.write_bytes(sound[:place] + bytes([sound[place] ^ 64]) + sound[place + 1 :])
        filled_store = reopen(filled_store)
        assert [
            search_documents(filled_store, make_unit_vector(number), top=3) for number in range(0, 40, 8)
        ] == expected
        num_reported += get_status(filled_store)[0] == "damaged"
    assert num_reported > 30
    part.write_bytes(sound[: len(sound) // 2] + bytes([sound[len(sound) // 2] ^ 64]) + sound[len(sound) // 2 + 1 :])
    assert filled_store.refresh() == ["vectors"]
    assert get_status(filled_store) == ("ready", 0)
    filled_store.close()


def test_questions_verify_a_block_of_vectors_once_and_check_verifies_it_again(
    filled_store: kvstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified: list[int] = []

    def record_checksum(content: Any) -> int:
        verified.append(len(content))
        return zlib.crc32(content)

    def record_rows(
        blocks: Any, size: int, encoding: bytes, rows: int, quantised: bool, verified_blocks: Any, *arguments: Any
    ) -> int:
        before = verified_blocks.copy()
        unsound = gather_rows(blocks, size, encoding, rows, quantised, verified_blocks, *arguments)
        verified.extend([size] * int((verified_blocks != before).sum()))
        return unsound

    monkeypatch.setattr("kvstore.structures.vectors.vectors.compute_checksum", record_checksum)
    monkeypatch.setattr("kvstore.structures.vectors.vectors.gather_rows", record_rows)
    search_documents(filled_store, make_unit_vector(5), top=40)
    assert verified
    verified.clear()
    search_documents(filled_store, make_unit_vector(9), top=40)
    assert not verified
    put_vector(filled_store, "d5", 99)
    verified.clear()
    search_documents(filled_store, make_unit_vector(99), top=40)
    assert verified  # other content has another checksum
    verified.clear()
    assert filled_store.check() == []
    assert verified


def test_a_search_looks_up_the_chunks_that_it_finds_together(
    filled_store: kvstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []
    get_many = LmdbView.get_many

    def record_lookup(view: LmdbView, table: str, keys: Any) -> Any:
        if table == tables.CHUNKS:
            counts.append(len(keys))
        return get_many(view, table, keys)

    filled_store.delete_many([f"d{number}" for number in range(10)])
    monkeypatch.setattr(LmdbView, "get_many", record_lookup)
    for options in ({}, {"exact": 1}):
        search_documents(
            filled_store, make_unit_vector(20), top=15, **options
        )  # what is in memory already is not read again
        counts.clear()
        assert len(search_documents(filled_store, make_unit_vector(20), top=15, **options)) == 15
        assert len(counts) <= 4, counts


def test_a_restored_backup_does_not_use_the_file_of_the_history_it_has_left(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "s", embedder="hashing") as store:
        for number in range(20):
            put_vector(store, f"d{number}", number)
        store.create_index("vectors", TINY)
        store.backup(tmp_path / "backup")
        for number in range(20, 30):
            put_vector(store, f"d{number}", number)
        store.refresh()
    shutil.copy(tmp_path / "backup" / "data.mdb", tmp_path / "s" / "data.mdb")
    with kvstore.open(tmp_path / "s") as store:
        for number in range(20, 40):  # the same chunk ids, other vectors
            put_vector(store, f"e{number}", 100 + number)
        assert get_status(store)[0] == "damaged"
        assert list(search_documents(store, make_unit_vector(125), top=1)) == ["e25"]
        store.refresh()
        assert list(search_documents(store, make_unit_vector(125), top=1)) == ["e25"]
        assert store.check() == []


def test_new_files_have_at_most_the_permissions_of_the_data_file(tmp_path: Path) -> None:
    path = tmp_path / "store"
    kvstore.open(path, embedder="hashing").close()
    (path / "data.mdb").chmod(0o600)
    for name in ("lock.mdb", "writer.lock"):
        (path / name).unlink()
    (tmp_path / "light.txt").write_text("The light burns.\n\nThe keeper sleeps.")
    old_mask = os.umask(0)
    try:
        with kvstore.open(path) as store:
            store.ingest(tmp_path / "light.txt")
            store.create_index("vectors", TINY)
            store.refresh()
    finally:
        os.umask(old_mask)
    files = list(path.iterdir())
    assert len(files) >= 6  # among them an index and its part
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}


@requires_root
def test_new_files_have_the_owner_of_the_data_file(tmp_path: Path) -> None:
    path = tmp_path / "store"
    kvstore.open(path, embedder="hashing").close()
    os.chown(path / "data.mdb", NOBODY, NOBODY)
    (path / "writer.lock").unlink()
    with kvstore.open(path) as store:
        store.execute("INSERT DOCUMENT 'light' TEXT 'The light burns.'")
    assert ((path / "writer.lock").stat().st_uid, (path / "writer.lock").stat().st_gid) == (NOBODY, NOBODY)


def test_files_do_not_hinder_backup_compact_and_opening(filled_store: kvstore.Store, tmp_path: Path) -> None:
    filled_store.backup(tmp_path / "backup")
    assert sorted(os.listdir(tmp_path / "backup")) == ["data.mdb"]
    with kvstore.open(tmp_path / "backup") as copy:
        assert get_status(copy)[0] == "absent"
        assert search_documents(copy, make_unit_vector(2)) == search_documents(filled_store, make_unit_vector(2))
    filled_store.delete("d0")
    filled_store.compact()
    assert get_status(filled_store)[0] == "ready"
    assert list(search_documents(filled_store, make_unit_vector(2), top=1)) == ["d2"]
    filled_store.close()
    for name in ("data.mdb", "lock.mdb"):
        (filled_store.path / name).unlink()
    with kvstore.open(filled_store.path, embedder="hashing") as again:  # what an index left behind makes no difference
        put_vector(again, "a", 1)
        again.create_index("vectors", TINY)
        assert list(search_documents(again, make_unit_vector(1))) == ["a"]


def test_readonly_stores_search_and_change_nothing(filled_store: kvstore.Store) -> None:
    expected = search_documents(filled_store, make_unit_vector(4))
    path = filled_store.path
    filled_store.close()
    with kvstore.open(path, readonly=True) as reader:
        assert search_documents(reader, make_unit_vector(4)) == expected
        assert get_status(reader) == ("ready", 0)
        for change in (reader.refresh, lambda: reader.create_index("synonyms"), lambda: reader.drop_index("vectors")):
            with pytest.raises(errors.ReadOnlyError):
                change()


def test_dropping_removes_the_file(filled_store: kvstore.Store) -> None:
    filled_store.drop_index("vectors")
    assert not list(filled_store.path.glob("vectors*.index"))
    assert get_status(filled_store) == ("exact", 0)
    with pytest.raises(errors.InputError, match="CREATE INDEX"):
        filled_store.refresh("vectors")
    filled_store.create_index("vectors", TINY)
    with pytest.raises(errors.InputError, match="already"):
        filled_store.create_index("vectors")
    assert get_status(filled_store) == ("ready", 0)


CHILD = """
import sys, numpy as np, kvstore
from kvstore.storage import index_file
from kvstore.storage.view import LmdbView
from kvstore.structures import tables
def unit(seed):
    vector = np.random.default_rng(seed).standard_normal(256).astype(np.float32)
    return vector / np.linalg.norm(vector)
"""


def run_child(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", CHILD + code, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


def test_another_process_makes_the_file_that_this_one_reads(filled_store: kvstore.Store) -> None:
    old = filled_store.snapshot()
    ran = run_child(
        """
with kvstore.open(sys.argv[1]) as store:
    store.delete("d3")
    for seed in range(50, 60):
        store.put(f"d{seed}", "new", vectors=unit(seed))
    print(store.refresh())
""",
        filled_store.path,
    )
    assert ran.stdout.strip() == "['vectors']", ran.stderr
    assert get_status(filled_store) == ("ready", 0)
    assert next(iter(search_documents(filled_store, make_unit_vector(55), top=4))) == "d55"
    assert "d3" not in search_documents(filled_store, make_unit_vector(3), top=40)
    assert next(iter(search_documents(old, make_unit_vector(3), top=4))) == "d3"
    assert not {f"d{seed}" for seed in range(50, 60)} & search_documents(old, make_unit_vector(55), top=40).keys()
    old.close()


@pytest.mark.parametrize("moment", ["write", "_write_part", "publish"])
def test_a_build_that_is_killed_leaves_nothing_harmful(filled_store: kvstore.Store, moment: str) -> None:
    expected = search_documents(filled_store, make_unit_vector(8))
    put_vector(filled_store, "later", 77)
    ran = run_child(
        """
import os
def die(*_):
    os._exit(9)
setattr(index_file.Draft, sys.argv[2], die)
store = kvstore.open(sys.argv[1])
store.refresh()
""",
        filled_store.path,
        moment,
    )
    assert ran.returncode == 9, ran.stderr
    assert (filled_store.path / "vectors.index.new").exists()
    assert get_status(filled_store)[0] == "ready"
    assert search_documents(filled_store, make_unit_vector(8)) == expected
    assert list(search_documents(filled_store, make_unit_vector(77), top=1)) == ["later"]
    assert filled_store.refresh() == ["vectors"]
    assert not (filled_store.path / "vectors.index.new").exists()
    assert sorted(filled_store.path.glob("vectors-*.index")) == sorted(list_segments(filled_store))
    assert get_status(filled_store) == ("ready", 0)


def test_only_one_builds_at_a_time(filled_store: kvstore.Store) -> None:
    put_vector(filled_store, "later", 77)
    with index_file.open_draft(filled_store.path / "vectors.index"):
        assert get_status(filled_store)[0] == "building"
        with pytest.raises(errors.IndexUnavailableError, match="wait until it has finished"):
            filled_store.refresh("vectors")
        assert list(search_documents(filled_store, make_unit_vector(77), top=1)) == ["later"]
    assert filled_store.refresh("vectors") == ["vectors"]


def test_ingest_extends_the_file_in_the_background(
    make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_index, "_EXTEND_AFTER", 5)
    store = make_store()
    store.create_index("vectors", TINY)
    built = threading.Event()
    publish = index_file.Draft.publish

    def publish_and_signal(draft: index_file.Draft) -> None:
        publish(draft)
        built.set()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_file.Draft, "publish", publish_and_signal)
        for number in range(12):
            put_vector(store, f"d{number}", number)
        assert built.wait(60)
    assert get_status(store)[0] in ("ready", "building")
    assert list(search_documents(store, make_unit_vector(11), top=1)) == ["d11"]
    store.close()  # waits for the thread
    assert not any(thread.name == "kvstore index" for thread in threading.enumerate())


def test_new_chunks_are_counted_only_if_there_may_be_enough(
    store: kvstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vector_index, "_EXTEND_AFTER", 40)
    store.create_index("vectors", TINY)
    with pytest.MonkeyPatch.context() as patch:
        counts: list[int] = []
        extension = IndexBuilder.find_next_and_due_chunk

        def count_chunks(builder: IndexBuilder, *of: Any) -> tuple[int, int]:
            counts.append(extension(builder, *of)[0])
            return extension(builder, *of)

        patch.setattr(IndexBuilder, "find_next_and_due_chunk", count_chunks)
        for number in range(16):  # a chunk each, numbered in steps of five
            put_vector(store, f"d{number}", number)
            for thread in threading.enumerate():
                if thread.name == "kvstore index":
                    thread.join()
    assert 0 < len(counts) < 8, counts


def test_a_cancelled_build_keeps_its_progress(store: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvstore.structures.indexes.vector_index._LINK_BATCH", 4)
    with store.transaction() as transaction:
        for number in range(30):
            put_vector(transaction, f"d{number}", number)
    store.create_index("vectors", {**TINY, "exact_below": 1000})
    store.drop_index("vectors")
    looks = iter([False, False, False, True])
    record = IndexRecord(VECTOR_INDEX, TINY)
    store._session.environment.write_with_growth(lambda view: IndexWriter(view).put(record))
    builder = IndexBuilder(store._session.environment, store.settings, store.embed)

    def count_missing() -> int:
        next_chunk, enough_at = builder.find_next_and_due_chunk(VECTOR_INDEX, record)
        return next_chunk + vector_index._EXTEND_AFTER - enough_at

    assert builder.refresh(VECTOR_INDEX, is_cancelled=lambda: next(looks))
    assert count_missing() == 18
    assert get_status(store)[0] == "ready"
    assert list(search_documents(store, make_unit_vector(29), top=1)) == ["d29"]
    assert builder.refresh(VECTOR_INDEX)
    assert count_missing() == 0


def test_an_interrupted_refresh_leaves_the_file_as_it_was(filled_store: kvstore.Store) -> None:
    put_vector(filled_store, "later", 77)

    def interrupt(progress: kvstore.IndexProgress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        filled_store.refresh(progress=interrupt)
    assert get_status(filled_store) == ("ready", 1)
    assert not (filled_store.path / "vectors.index.new").exists()


def test_index_statements_are_refused_in_transactions(store: kvstore.Store) -> None:
    store.execute("BEGIN")
    for statement in ("CREATE INDEX synonyms", "REFRESH", "DROP INDEX vectors"):
        with pytest.raises(errors.TransactionError, match="outside BEGIN"):
            store.execute(statement)
    store.execute("ROLLBACK")


def test_a_rebuild_leaves_no_file_in_use(filled_store: kvstore.Store) -> None:
    from kvstore.changes.repair import rebuild_store

    rebuild_store(filled_store._session.environment, filled_store.settings, filled_store.embed)
    assert get_status(filled_store)[0] == "damaged"
    assert list(search_documents(filled_store, make_unit_vector(9), top=1)) == ["d9"]
    assert filled_store.refresh() == ["vectors"]
    assert get_status(filled_store) == ("ready", 0)
    assert list(search_documents(filled_store, make_unit_vector(9), top=1)) == ["d9"]


def forge_head(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the head of an index file, and correct its checksum."""
    content = path.read_bytes()
    _, length, _ = struct.unpack_from("<8sII", content)
    head = msgpack.unpackb(content[16 : 16 + length])
    change(head)
    packed = msgpack.packb(head)
    path.write_bytes(
        (struct.pack("<8sII", b"kvindex1", len(packed), zlib.crc32(packed)) + packed).ljust(16 + length, b"\0")
        + content[16 + length :]
    )


FORGED: dict[str, Callable[[dict[str, Any]], None]] = {
    "a negative position": lambda head: head["arrays"][0].__setitem__(3, -(1 << 40)),
    "a small negative position": lambda head: head["arrays"][0].__setitem__(3, -64),
    "a position past the end": lambda head: head["arrays"][0].__setitem__(3, 1 << 62),
    "a position between two items": lambda head: head["arrays"][0].__setitem__(3, 1),
    "a position that is no number": lambda head: head["arrays"][0].__setitem__(3, "x"),
    "a type of objects": lambda head: head["arrays"][0].__setitem__(1, "|O"),
    "a type of nothing": lambda head: head["arrays"][0].__setitem__(1, "nonsense"),
    "a type of records": lambda head: head["arrays"][0].__setitem__(1, "i4,i4"),
    "a negative shape": lambda head: head["arrays"][0].__setitem__(2, [-1, 4]),
    "a huge shape": lambda head: head["arrays"][0].__setitem__(2, [1 << 62, 1 << 62]),
    "a huge shape of nothing": lambda head: head["arrays"][0].__setitem__(2, [0, 1 << 62, 1 << 62]),
    "a shape of texts": lambda head: head["arrays"][0].__setitem__(2, ["x"]),
    "no shape": lambda head: head["arrays"][0].__setitem__(2, None),
    "a row that is none": lambda head: head["arrays"].__setitem__(0, 7),
    "arrays that are none": lambda head: head.__setitem__("arrays", 7),
    "a name that is none": lambda head: head["arrays"][0].__setitem__(0, []),
    "an array of another name": lambda head: head["arrays"][0].__setitem__(0, "other"),
    "no token": lambda head: head.pop("token"),
    "a token that is none": lambda head: head.__setitem__("token", [1]),
    "no kind": lambda head: head.pop("kind"),
    "an epoch that is none": lambda head: head.__setitem__("epoch", "x"),
    "parts that are none": lambda head: head.__setitem__("parts", 7),
    "parts elsewhere": lambda head: head.__setitem__("parts", ["vectors-x/../../../../etc/passwd"]),
}


def test_a_file_that_the_system_refuses_to_read_is_not_used(filled_store: kvstore.Store) -> None:
    """A link to itself stands for every file that cannot be read, such as one without permission."""
    expected = search_documents(filled_store, make_unit_vector(5))
    (segment, *_) = list_segments(filled_store)
    segment.unlink()
    segment.symlink_to(segment)
    filled_store = reopen(filled_store)
    assert search_documents(filled_store, make_unit_vector(5)) == expected
    assert get_status(filled_store)[0] == "damaged"
    filled_store.refresh()
    assert get_status(filled_store)[0] == "ready"
    filled_store.close()


def test_a_file_that_cannot_be_removed_is_reported(filled_store: kvstore.Store) -> None:
    """A directory stands for every file that the system does not remove, such as one in a read-only directory."""
    directory = filled_store.path / "vectors-0.index"
    directory.mkdir()
    with pytest.raises(errors.IndexUnavailableError, match=r"vectors-0\.index: the index was dropped, .*; remove it"):
        filled_store.drop_index("vectors")
    directory.rmdir()
    filled_store.create_index("vectors")
    filled_store.close()


@pytest.mark.matrix
@pytest.mark.parametrize("forgery", FORGED)
@pytest.mark.parametrize("part", [False, True])
def test_a_forged_head_is_refused(filled_store: kvstore.Store, forgery: str, part: bool) -> None:
    expected = search_documents(filled_store, make_unit_vector(5))
    path = list_segments(filled_store)[0] if part else filled_store.path / "vectors.index"
    head: dict[str, Any] = {}
    forge_head(path, head.update)
    if not head["arrays"]:
        head["arrays"] = [["x", "<i4", [1], 0, 0]]
    FORGED[forgery](head)
    forge_head(path, lambda read: read.update(head, **dict.fromkeys(read.keys() - head.keys())))
    filled_store = reopen(filled_store)
    assert search_documents(filled_store, make_unit_vector(5)) == expected
    assert get_status(filled_store)[0] == "damaged" or (part and "epoch" in forgery) or (part and "parts" in forgery)
    filled_store.refresh()
    assert search_documents(filled_store, make_unit_vector(5)) == expected
    filled_store.close()


def test_leftovers_of_a_killed_build_are_removed_with_the_index_or_on_open(filled_store: kvstore.Store) -> None:
    unfinished = filled_store.path / "vectors.index.new"
    unfinished.write_bytes(b"half")
    filled_store.drop_index("vectors")
    assert not unfinished.exists()
    unfinished.write_bytes(b"half")
    filled_store = reopen(filled_store)
    assert not unfinished.exists()
    filled_store.close()


def test_files_being_built_stay(filled_store: kvstore.Store) -> None:
    with index_file.open_draft(filled_store.path / "vectors.index"):
        filled_store = reopen(filled_store)
        assert (filled_store.path / "vectors.index.new").exists()
    filled_store.close()


def test_refresh_writes_nothing_into_the_folder_of_another_store(
    filled_store: kvstore.Store, make_store: Callable[..., kvstore.Store]
) -> None:
    path = filled_store.path
    path.rename(path.with_name("moved"))
    with kvstore.open(path, embedder="hashing", settings={"language": "rules"}) as other:
        other.put("x", "Some text.")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    for change in (filled_store.refresh, lambda: filled_store.drop_index("vectors")):
        with pytest.raises(errors.StoreNotFoundError, match="another store has replaced"):
            change()
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    filled_store.close()
