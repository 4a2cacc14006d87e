"""Kill a writer at named points of every kind of write and at any time: no acknowledged change is lost or torn.

Each history of writes runs once without a kill, which records the points that it passes and the content of the store
after each commit. Then it runs again in other processes, each killed at one point. The store must open, pass CHECK,
contain exactly what the commits before that point left, and accept a further write. ``KILLS`` in the environment
multiplies the number of kills of the slow tests: ``KILLS=3`` makes more than a thousand.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import random
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import lmdb
import pytest
from pytest import MonkeyPatch

import kvstore
import kvstore_migrations as migrations
from kvstore.changes.dump import dump
from kvstore.changes.repair import rebuild_store
from kvstore.errors import CorruptionError, NotAStoreError, StoreNotFoundError
from kvstore.storage import index_file
from kvstore_migrations import migrate

from .killing import call_at_every_point, make_killer_at, run_until_killed

WORDS = "Ada Lovelace Bank Engine Harbour Pump Valve Cryostat Ledger Payroll Uppsala Oslo Turbine".split()
MAKING = {"embedder": "hashing:16", "settings": {"chunk_tokens": 16, "language": "rules"}}

#: How many times as often the slow tests kill.
KILLS = int(os.environ.get("KILLS", "1"))

Write = Callable[[kvstore.Store], object]
History = Callable[[random.Random, Path], list[tuple[str, Write]]]


def write_text(draw: random.Random, sentences: int) -> str:
    return " ".join(
        f"{draw.choice(WORDS)} {draw.choice(WORDS)} keeps the {draw.choice(WORDS)} of {draw.choice(WORDS)}."
        for _ in range(sentences)
    )


def make_history(draw: random.Random, folder: Path) -> list[tuple[str, Write]]:
    """Return named writes of every kind; ``folder`` holds their input and their output outside the store."""
    inbox = folder / "in"
    inbox.mkdir(parents=True)
    for number in range(40):  # three batches
        (inbox / f"{number:03}.txt").write_text(f"Note {number}: {draw.choice(WORDS)} met {draw.choice(WORDS)}.")
    # So many new names that pages of the filter split.
    names = " ".join(f"Alpha{number} Beta{number}." for number in range(draw.randint(520, 620)))
    long, short, third = (write_text(draw, draw.randint(low, 20)) for low in (10, 2, 2))

    def change_several(store: kvstore.Store) -> None:
        with store.transaction() as transaction:
            transaction.put("c", write_text(random.Random(1), 4), title="Ledger")
            transaction.delete("b")
            transaction.put_edge("Pump", "Turbine", tree="parts")

    return [
        ("put", lambda store: store.put("a", f"# Engine\n\n{long}\n\n## Pump\n\n{short}", format="markdown")),
        ("put", lambda store: store.put("b", third, title="Bank", meta={"year": 1843})),
        ("split", lambda store: store.put("names", names)),
        ("replace", lambda store: store.put("a", short, title="Engine")),
        ("edge", lambda store: store.put_edge("Valve", "Pump", tree="parts")),
        ("pairs", lambda store: store.put("p", "Pump,Turbine\nOslo,Turbine\nUppsala,Turbine\n", format="pairs")),
        ("alias", lambda store: store.alias("Rotor", "Turbine")),
        ("ingest", lambda store: store.ingest(inbox)),
        ("triples", lambda store: store.put_triples("b", [("Bank", "keeps", "Ledger"), ("Ledger", "lies in", "Oslo")])),
        ("create index", lambda store: store.create_index("synonyms")),
        ("merge", lambda store: store.merge("Oslo", "Uppsala")),
        ("heat", lambda store: (store.lookup("Ada"), store.flush())),
        ("transaction", change_several),
        ("update", lambda store: store.update("c", title="Payroll")),
        ("backup", lambda store: store.backup(folder / "copy")),
        ("export", lambda store: store.export(folder / "all.jsonl")),
        ("delete", lambda store: store.delete("names")),
        ("prune", lambda store: ((inbox / "007.txt").unlink(missing_ok=True), store.ingest(inbox, prune=True))),
        ("compact", lambda store: store.compact()),
        ("refresh", lambda store: store.refresh("synonyms")),
        ("repair", lambda store: rebuild_store(store._session.environment, store.settings, store.embed)),
        ("import", lambda store: store.import_(folder / "all.jsonl")),
        ("unedge", lambda store: store.delete_edge("Valve", "Pump", tree="parts")),
        ("delete", lambda store: store.delete("a")),
    ]


def make_upkeep_history(draw: random.Random, folder: Path) -> list[tuple[str, Write]]:
    """Merge the change buffer by small commits, build and refresh indexes, and rebuild all derived data."""
    folder.mkdir(parents=True)
    pages = [write_text(draw, draw.randint(1, 3)) for _ in range(16)]

    def put(number: int) -> tuple[str, Write]:
        title = f"{draw.choice(WORDS)} {number}"
        return "merge buffer", lambda store: store.put(f"d{number}", pages[number], title=title)

    return [
        *map(put, range(8)),
        ("create vectors", lambda store: store.create_index("vectors", {"exact_below": 1})),
        ("create synonyms", lambda store: store.create_index("synonyms", {"similarity": 0.5})),
        *map(put, range(4, 12)),
        ("refresh vectors", lambda store: store.refresh("vectors")),
        ("refresh synonyms", lambda store: store.refresh("synonyms")),
        ("repair", lambda store: rebuild_store(store._session.environment, store.settings, store.embed)),
        ("refresh", lambda store: store.refresh()),
        *map(put, range(10, 16)),
        ("drop index", lambda store: store.drop_index("vectors")),
        ("compact", lambda store: store.compact()),
    ]


def digest_content(store: kvstore.Store) -> str:
    """Return a digest of the contents of a store without vectors, times and temperatures."""
    with store.state() as state:
        return hashlib.sha256(repr(dump(state)).encode()).hexdigest()


@dataclass
class Course:
    """An undisturbed run: the points it passed, and the contents of the store after each commit.

    It is repeated in the same folder, since ingested files are identified by their paths.
    """

    history: History
    seed: int
    folder: Path
    #: Kind of write and point, in order.
    points: list[tuple[str, str]] = field(default_factory=list)
    #: How many commits came before each point.
    commits: list[int] = field(default_factory=list)
    #: Digests: of the empty store, and after each commit.
    states: list[str] = field(default_factory=list)
    #: How many commits each write was over after, itself included.
    after_write: list[int] = field(default_factory=list)


def run_undisturbed(history: History, seed: int, folder: Path) -> Course:
    """Run a history to its end, noting points and states."""
    course = Course(history, seed, folder)
    kind = ""

    def on_point(point: str) -> None:
        if point == "committed":
            course.states.append(digest_content(store))
        course.points.append((kind, point))
        course.commits.append(len(course.states) - 1)

    writes = history(random.Random(seed), folder)
    with kvstore.open(folder / "store", **MAKING) as store:
        course.states.append(digest_content(store))
        with call_at_every_point(on_point):
            for name, write in writes:
                kind = name
                write(store)
                if kind == "split":
                    assert store.execute("SELECT count(*) FROM filter_pages").fetchall() > [(1,)]
                course.after_write.append(len(course.states) - 1)
        assert store.check() == []
    shutil.rmtree(folder)
    return course


def run_history(course: Course, on_point: Callable[[str], None], acknowledge: Callable[[], None]) -> None:
    """Run the same history in a process that will be killed."""
    writes = course.history(random.Random(course.seed), course.folder)
    with kvstore.open(course.folder / "store", **MAKING) as store, call_at_every_point(on_point):
        for _, write in writes:
            write(store)
            acknowledge()


def check_after_crash(folder: Path, expected: set[str], *, copies: bool = True) -> None:
    """Check that a store is valid, has one of the expected states, and is writable; its copies are complete or absent.

    It is opened with the arguments of the killed process, which may have died before it created the store.
    """
    with kvstore.open(folder / "store", **MAKING) as store:
        assert store.check() == []
        assert digest_content(store) in expected
        store.put("after", "The Harbour is open again.")
        assert store.get("after") is not None
        store.refresh()  # an index whose build was killed does not block the next
        assert store.check() == []
    files = {"data.mdb", "lock.mdb", "writer.lock", "synonyms.index", "vectors.index"}
    files |= {"ingests.jsonl", "ingests.jsonl.part"}
    parts = {part.name for part in (folder / "store").glob("vectors-*.index")}
    assert (files | parts).issuperset(entry.name for entry in (folder / "store").iterdir())
    index = folder / "store" / "vectors.index"
    if index.exists():
        assert parts == set(index_file.read_head(index, "vectors", lambda token: True)["parts"])
    if copies and (folder / "copy").exists():
        with kvstore.open(folder / "copy", create=False) as copy:
            assert copy.check() == []
    if copies and (folder / "all.jsonl").exists():
        with kvstore.open(folder / "imported", **MAKING) as imported:
            imported.import_(folder / "all.jsonl")
            assert imported.check() == []


@pytest.fixture(scope="module")
def get_course(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Course]:
    course_cache: dict[tuple[History, int], Course] = {}

    def course(seed: int, kind: History = make_history) -> Course:
        if (kind, seed) not in course_cache:
            folder = tmp_path_factory.mktemp(f"course-{seed}") / "run"
            course_cache[kind, seed] = run_undisturbed(kind, seed, folder)
        return course_cache[kind, seed]

    return course


def choose_points(course: Course, count: int, draw: random.Random) -> list[int]:
    """Return places in a course: first every kind of write at every kind of point, then any."""
    every: dict[tuple[str, str], list[int]] = {}
    for place, point in enumerate(course.points):
        every.setdefault(point, []).append(place)
    places = [draw.choice(point_places) for point_places in every.values()]
    draw.shuffle(places)
    return (places + draw.choices(range(len(course.points)), k=count))[:count]


def kill_at(course: Course, place: int) -> None:
    """Kill a run at a point; check its copies if it was making one, since no later write changes them."""
    kind, _ = course.points[place]
    try:
        assert run_until_killed(lambda: run_history(course, make_killer_at(place), lambda: None)), course.points[place]
        expected = {course.states[course.commits[place]]}
        check_after_crash(course.folder, expected, copies=kind in ("backup", "export"))
    finally:
        shutil.rmtree(course.folder, ignore_errors=True)


def kill_after(course: Course, seconds: float) -> None:
    """Kill a run after some seconds."""
    read_end, write_end = os.pipe()
    try:
        try:
            run_until_killed(
                lambda: run_history(course, lambda _: None, lambda: os.write(write_end, b".")), seconds=seconds
            )
            os.close(write_end)
            with os.fdopen(read_end, "rb") as pipe:
                writes = len(pipe.read())
        except BaseException:
            os.close(read_end)
            raise
        if (course.folder / "store" / "data.mdb").exists():
            first_state = course.after_write[writes - 1] if writes else 0
            last_state = course.after_write[writes] if writes < len(course.after_write) else first_state
            check_after_crash(course.folder, set(course.states[first_state : last_state + 1]))
    finally:
        shutil.rmtree(course.folder, ignore_errors=True)


@pytest.mark.slow
def test_a_writer_killed_at_named_points(get_course: Callable[..., Course]) -> None:
    for place in choose_points(get_course(0), 5, random.Random(0)):
        kill_at(get_course(0), place)
    for place in choose_points(get_course(0, make_upkeep_history), 5, random.Random(0)):
        kill_at(get_course(0, make_upkeep_history), place)


@pytest.mark.parametrize("formats", [0, 1, migrations.CURRENT_FORMAT])
def test_a_store_whose_creator_was_killed_can_be_created_again(tmp_path: Path, formats: int) -> None:
    def die_at_first_put(point: str) -> None:
        if point == "put":  # of the settings
            os.kill(os.getpid(), signal.SIGKILL)

    def make_store() -> None:
        steps = {number: migrations.STEPS[number] for number in range(1, formats + 1)}
        with (
            MonkeyPatch.context() as patch,
            call_at_every_point(die_at_first_put),
        ):
            patch.setattr(migrations, "migrate", lambda raw: migrate(raw, steps) if steps else None)
            kvstore.open(tmp_path / "store", **MAKING)

    assert run_until_killed(make_store)
    with pytest.raises(NotAStoreError, match="create it again"):
        kvstore.open(tmp_path / "store", create=False, lock_timeout=0)
    start = time.monotonic()
    with pytest.raises(NotAStoreError, match="create it again"):
        kvstore.open(tmp_path / "store", readonly=True, lock_timeout=60)
    assert time.monotonic() - start < 30, "nobody is creating it: the timeout is not awaited"
    with kvstore.open(tmp_path / "store", **MAKING) as store:
        assert store.check() == []
        assert store.keys() == []


@pytest.fixture
def empty_digest(tmp_path: Path) -> str:
    with kvstore.open(tmp_path / "empty", **MAKING) as store:
        return digest_content(store)


@pytest.mark.parametrize("num_bytes", [0, 1, 4096])
def test_a_creator_killed_in_its_first_write_to_the_data_file_leaves_no_damage(
    tmp_path: Path, empty_digest: str, num_bytes: int
) -> None:
    """LMDB begins a file by writing two pages, so a kill can leave it empty or half written."""

    def die_in_first_write(path: str, *, subdir: bool = True, **options: Any) -> None:
        data_path = Path(path, "data.mdb") if subdir else Path(path)
        data_path.write_bytes(bytes(num_bytes))
        os.kill(os.getpid(), signal.SIGKILL)

    def make_store() -> None:
        with MonkeyPatch.context() as patch:
            patch.setattr(lmdb, "open", die_in_first_write)
            kvstore.open(tmp_path / "store", **MAKING)

    assert run_until_killed(make_store)
    with pytest.raises(StoreNotFoundError, match=r"data\.mdb is missing.* create one with kvstore\.open"):
        kvstore.open(tmp_path / "store", readonly=True)
    check_after_crash(tmp_path, {empty_digest})


def test_a_creator_killed_at_any_point_leaves_no_damage(tmp_path: Path, empty_digest: str) -> None:
    points: list[str] = []
    with call_at_every_point(points.append):
        kvstore.open(tmp_path / "whole", **MAKING).close()
    assert {"fsync", "rename path", "renamed path", "put", "committed"} <= set(points)
    for point_index in range(len(points)):
        folder = tmp_path / str(point_index)
        folder.mkdir()

        def make_store(point_index: int = point_index, folder: Path = folder) -> None:
            with call_at_every_point(make_killer_at(point_index)):
                kvstore.open(folder / "store", **MAKING).close()

        assert run_until_killed(make_store)
        check_after_crash(folder, {empty_digest})


def test_an_empty_data_file_is_reported_as_damage_and_left_as_it_is(tmp_path: Path) -> None:
    """No killed creation leaves one, so it was truncated later: the store may have had documents."""
    path = tmp_path / "store"
    with kvstore.open(path, **MAKING) as store:
        store.put("a", "The Harbour is open.")
    os.truncate(path / "data.mdb", 0)
    for lock_file in ("lock.mdb", "writer.lock"):
        for options in ({"readonly": True}, {"create": False}, MAKING):
            with pytest.raises(CorruptionError, match=r"only 0 bytes long, .*restore the store from a backup"):
                kvstore.open(path, **options)
        (path / lock_file).unlink()
    assert [(file.name, file.stat().st_size) for file in path.iterdir()] == [("data.mdb", 0)]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_a_writer_killed_at_every_kind_of_point(get_course: Callable[..., Course], seed: int) -> None:
    """Fifty kills a seed: with ten seeds, five hundred."""
    for place in choose_points(get_course(seed), 50, random.Random(seed)):
        kill_at(get_course(seed), place)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_upkeep_killed_at_every_kind_of_point(get_course: Callable[..., Course], seed: int) -> None:
    """Settling, indexes of each kind made and refreshed, repair."""
    course = get_course(seed, make_upkeep_history)
    for place in choose_points(course, 25 * KILLS, random.Random(seed)):
        kill_at(course, place)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_writer_killed_at_any_time(get_course: Callable[..., Course], seed: int) -> None:
    course = get_course(seed)
    begin = time.perf_counter()
    assert not run_until_killed(lambda: run_history(course, lambda _: None, lambda: None))
    duration = time.perf_counter() - begin
    shutil.rmtree(course.folder)
    draw = random.Random(seed)
    for _ in range(30):
        kill_after(course, draw.uniform(0.02, duration))


# Migration -----------------------------------------------------------------------------------------------------------


def unpack_old_store(path: Path, number: int) -> None:
    path.mkdir(parents=True)
    packed = Path(__file__).parent / "stores" / f"format_{number}" / "data.mdb.xz"
    (path / "data.mdb").write_bytes(lzma.decompress(packed.read_bytes()))


def migrate_copy(path: Path) -> str:
    kvstore.migrate(path)
    with kvstore.open(path, create=False) as store:
        assert store.check() == []
        return digest_content(store)


def kill_migration(number: int, folder: Path, count: int, draw: random.Random) -> None:
    """Kill the migration of a store of an older format at ``count`` places, the last place included."""
    points: list[str] = []
    unpack_old_store(folder / "store", number)
    with call_at_every_point(points.append):
        kvstore.migrate(folder / "store")
    expected = migrate_copy(folder / "store")
    shutil.rmtree(folder)

    for turn in range(count):
        place = draw.randrange(len(points)) if turn else len(points) - 1
        unpack_old_store(folder / "store", number)

        def migrate_until_killed(place: int = place) -> None:
            with call_at_every_point(make_killer_at(place)):
                kvstore.migrate(folder / "store")

        assert run_until_killed(migrate_until_killed), points[place]
        assert migrate_copy(folder / "store") == expected
        for copy in folder.glob(f"store.format-{number}*"):
            assert migrate_copy(copy) == expected
        shutil.rmtree(folder)


FORMER = range(1, migrations.CURRENT_FORMAT)


@pytest.mark.matrix
@pytest.mark.parametrize("number", FORMER)
def test_a_migration_killed_is_finished_by_the_next(tmp_path: Path, number: int) -> None:
    kill_migration(number, tmp_path / "run", 4, random.Random(number))


@pytest.mark.slow
@pytest.mark.parametrize("number", FORMER)
def test_a_migration_killed_anywhere_is_finished_by_the_next(tmp_path: Path, number: int) -> None:
    kill_migration(number, tmp_path / "run", 25 * KILLS, random.Random(number))
