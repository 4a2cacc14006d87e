"""A kind of index in generations, from outside the package: made, read while it is made, written by a model, killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from model_server import Planned, Server, refusal, stream

import kvstore
from kvstore import errors
from kvstore.arguments import Choice, Option
from kvstore.changes.dump import dump
from kvstore.models.structured import StructuredModel, StructuredPrompt
from kvstore.registry import register
from kvstore.registry.contract import System
from kvstore.storage.environment import Environment
from kvstore.storage.records import U32
from kvstore.structures.indexes import generation_building
from kvstore.structures.indexes.generations import Generation, GenerationIndex, GenerationRows, OutlineNode, WritingTask
from kvstore.structures.indexes.index import BuildTools, FileIndex, IndexContent, IndexRecord, States
from kvstore.structures.indexes.index_reading import bind_index
from kvstore.structures.indexes.written_texts import WrittenTexts
from kvstore.structures.logical import LogicalNames
from kvstore.structures.state import State
from kvstore_shell import layout
from kvstore_shell.completion import complete
from kvstore_shell.repl import LiveCatalog

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}


class Groups:
    """The documents of a state by what their keys begin with."""

    def __init__(self, rows: GenerationRows, state: State) -> None:
        self._rows = rows
        self._state = state
        self.change, self.chunk_stop = rows.change, rows.chunk_stop
        self.present = {record.id: record.key for record in state.documents.scan()}
        self.stored = rows.get_cached("groups", lambda stored: dict(stored.scan("toy_groups")))

    def all(self) -> dict[str, list[str]]:
        """Keys of living documents by what they begin with; groups that have none left are none."""
        found = {
            letter: [self.present[document] for document in documents if document in self.present]
            for letter, documents, _ in self.stored.values()
        }
        return {letter: keys for letter, keys in found.items() if keys}

    def titles(self) -> dict[str, str]:
        """Return the texts of a model about groups whose documents all exist."""
        found = {}
        for letter, documents, content in self.stored.values():
            written = WrittenTexts(self._state.lmdb).get(content)
            if written is not None and self.present.keys() >= set(documents):
                found[letter] = f"{written.value['title']} ({written.model})"
        return found

    def texts(self, documents: Iterable[int]) -> list[str]:
        return [self._state.documents.read_text(document).decode() for document in documents]


class ToyGroups(GenerationIndex[Groups]):
    """Documents by what their keys begin with."""

    name = "toy_groups"
    description = "documents by what their keys begin with"
    options: Mapping[str, Option | Choice] = {
        "letters": Option(1, 1, 3, "how much of a key counts"),
        "case": Choice("kept", ("kept", "lower"), "of letters"),
    }
    tables = ("toy_groups", "toy_members")
    has_outline = True

    def build(self, states: States, record: IndexRecord, tools: BuildTools) -> Generation:
        with states() as state:
            stored = sorted((one.key, one.id, one.digest) for one in state.documents.scan())
            counters = state.counters
        lower = record.get_str_option("case") == "lower"

        def letter(document: tuple[str, int, bytes]) -> str:
            key = document[0][: record.get_int_option("letters")]
            return key.lower() if lower else key

        groups = [(name, list(found)) for name, found in groupby(sorted(stored, key=letter), key=letter)]
        rows = []
        for number, (name, found) in enumerate(groups):
            content = blake2b(b"toy 1" + b"".join(sorted(digest for _, _, digest in found)), digest_size=16).digest()
            rows.append((U32.pack(number), [name, [document for _, document, _ in found], content]))
        members = sorted(
            (U32.pack(document), number) for number, (_, found) in enumerate(groups) for _, document, _ in found
        )
        tools.progress(len(groups), len(groups))
        return Generation(
            counters.change, counters.next_chunk, {"groups": len(groups)}, {"toy_groups": rows, "toy_members": members}
        )

    def bind(self, rows: GenerationRows, state: State) -> Groups:
        return Groups(rows, state)

    def describe(self, bound: Groups) -> str:
        return f"{len(bound.stored)} groups, {len(bound.titles())} written"

    def dump(self, bound: Groups, names: LogicalNames) -> Mapping[str, Iterable[tuple[Any, ...]]]:
        return {
            "toy_groups": [
                (letter, tuple(map(names.name_document, documents)), content)
                for letter, documents, content in bound.stored.values()
            ]
        }

    def check(self, bound: Groups) -> Iterator[str]:
        for letter, documents, _ in bound.stored.values():
            if not documents:
                yield f"toy group {letter!r} has no documents"

    def list_writing_tasks(self, bound: Groups) -> Iterable[WritingTask]:
        for number, (letter, documents, content) in enumerate(bound.stored.values()):
            if bound.present.keys() >= set(documents):
                yield WritingTask(content, len(documents), letter, number)

    def build_prompt(
        self, bound: Groups, task: WritingTask, max_tokens: int | None = None
    ) -> StructuredPrompt[Mapping[str, Any]] | None:
        _, documents, _ = bound.stored[U32.pack(task.group)]
        if not bound.present.keys() >= set(documents):
            return None
        text = "\n".join(bound.texts(documents))
        return StructuredPrompt("title", [{"role": "user", "content": f"Name this.\n{text}"}], SCHEMA)

    def build_outline(self, bound: Groups) -> Iterable[OutlineNode]:
        for letter, keys in bound.all().items():
            yield OutlineNode(letter, "", len(keys), lambda keys=keys: [OutlineNode(key, "", 1) for key in keys])  # type: ignore[misc]


class ToyLengths(FileIndex["ToyLengths.Read", list[int]]):
    """A file that goes with the groups: how many documents each has."""

    name = "toy_lengths"
    description = "how many documents each group has"
    options: Mapping[str, Option | Choice] = {}
    companion_of = "toy_groups"

    class Read:
        def __init__(self, change: int, lengths: list[int]) -> None:
            self.change, self.lengths = change, lengths

    def build(self, states: States, old: Read | None, record: IndexRecord, tools: BuildTools) -> IndexContent | None:
        with states() as state:
            groups = bind_index(state, TOY)
            if groups is None or (old is not None and old.change == groups.change):
                return None
            lengths = [len(documents) for _, documents, _ in groups.stored.values()]
            return IndexContent({"change": groups.change}, {"lengths": np.array(lengths, np.uint32)})

    def read(self, content: IndexContent) -> Read:
        return self.Read(content.head["change"], content.arrays["lengths"].tolist())

    def bind(self, read: Read, record: IndexRecord, state: State) -> list[int]:
        return read.lengths

    def describe(self, read: Read) -> str:
        return f"{len(read.lengths)} groups"


TOY, LENGTHS = ToyGroups(), ToyLengths()
SYSTEM = System("toy", "of this test", indexes=(TOY, LENGTHS))


@pytest.fixture
def registered() -> Iterator[None]:
    take_back = register(SYSTEM)
    yield
    take_back()


@pytest.fixture
def toyed(registered: None, make_store: Callable[..., kvstore.Store]) -> kvstore.Store:
    """Three documents, and an index of them."""
    store = make_store()
    for key in ("tea", "toast", "milk"):
        store.put(key, f"About {key}. It is on the table.")
    store.create_index("toy_groups")
    return store


def groups(store: kvstore.Store | kvstore.Snapshot) -> dict[str, list[str]] | None:
    with store.state() as state:
        bound = bind_index(state, TOY)
        return None if bound is None else bound.all()


def titles(store: kvstore.Store) -> dict[str, str]:
    with store.state() as state:
        bound = bind_index(state, TOY)
        assert bound is not None
        return bound.titles()


def show_index(store: kvstore.Store, kind: str = "toy_groups") -> tuple[str, int, str] | None:
    rows = {kind: (state, stale, detail) for kind, state, _, stale, detail in store.execute("SHOW INDEXES")}
    return rows.get(kind)


def list_stored_generations(store: kvstore.Store) -> set[int]:
    with store.state() as state:
        keys = [bytes(key) for table in TOY.tables for key, _ in state.lmdb.scan(table)]
    return {int.from_bytes(key[:4], "big") for key in keys}


def test_it_is_made_shown_refreshed_and_dropped(toyed: kvstore.Store) -> None:
    assert show_index(toyed) == ("ready", 0, "2 groups, 0 written")
    assert groups(toyed) == {"m": ["milk"], "t": ["tea", "toast"]}
    toyed.delete("toast")
    toyed.put("thyme", "It is a herb.")
    assert show_index(toyed) == ("ready", 2, "2 groups, 0 written")
    assert groups(toyed) == {"m": ["milk"], "t": ["tea"]}, "corrected when it is read"
    assert toyed.refresh("toy_groups") == ["toy_groups", "toy_lengths"]
    assert groups(toyed) == {"m": ["milk"], "t": ["tea", "thyme"]}
    assert toyed.refresh() == []
    assert list_stored_generations(toyed) == {2}
    toyed.drop_index("toy_groups")
    assert show_index(toyed) is None
    assert groups(toyed) is None
    assert list_stored_generations(toyed) == set()
    with pytest.raises(errors.InputError, match="CREATE INDEX creates it"):
        toyed.refresh("toy_groups")
    assert sorted(os.listdir(toyed.path)) == ["data.mdb", "lock.mdb", "writer.lock"]


def test_options_may_be_words(toyed: kvstore.Store) -> None:
    toyed.drop_index("toy_groups")
    toyed.put("Tilsit", "It is a cheese.")
    toyed.execute("CREATE INDEX toy_groups WITH (case = LOWER, letters = 1)")
    assert groups(toyed) == {"m": ["milk"], "t": ["Tilsit", "tea", "toast"]}
    toyed.drop_index("toy_groups")
    for given, said in ({"case": "lowr"}, "did you mean lower?"), ({"case": 1}, "must be one of kept, lower, not 1"):
        with pytest.raises(errors.InputError) as raised:
            toyed.create_index("toy_groups", given)
        assert said in str(raised.value)


def test_its_companion_tables_are_created_and_dropped_with_it(toyed: kvstore.Store) -> None:
    def lengths() -> list[int] | None:
        with toyed.state() as state:
            return bind_index(state, LENGTHS)

    assert lengths() == [1, 2]
    assert show_index(toyed, "toy_lengths") == ("ready", 0, "2 groups")
    toyed.delete("toast")
    toyed.execute("REFRESH INDEX toy_groups")
    assert lengths() == [1, 1]
    for statement in ("CREATE INDEX toy_lengths", "REFRESH INDEX toy_lengths", "DROP INDEX toy_lengths"):
        with pytest.raises(errors.InputError, match="with toy_groups; name toy_groups"):
            toyed.execute(statement)
    toyed.drop_index("toy_groups")
    assert lengths() is None
    assert not (toyed.path / "toy_lengths.index").exists()


def test_a_reader_keeps_the_generation_of_its_snapshot(toyed: kvstore.Store) -> None:
    with toyed.snapshot() as snapshot:
        toyed.put("mint", "It is a herb.")
        toyed.refresh("toy_groups")
        assert groups(snapshot) == {"m": ["milk"], "t": ["tea", "toast"]}
        assert groups(toyed) == {"m": ["milk", "mint"], "t": ["tea", "toast"]}
    with toyed.transaction() as transaction:
        transaction.delete("milk")
        with transaction.state() as state:
            bound = bind_index(state, TOY)
            assert bound is not None
            assert bound.all() == {"m": ["mint"], "t": ["tea", "toast"]}
        transaction.rollback()


def test_after_refresh_it_is_that_of_a_fresh_store(
    toyed: kvstore.Store, make_store: Callable[..., kvstore.Store]
) -> None:
    toyed.put("mint", "It is a herb.")
    toyed.put("milk", "It is white.")
    toyed.delete("tea")
    with toyed.state() as state:
        assert "toy_groups" not in dump(state), "what is stale is not in the dump"
    toyed.refresh()
    fresh = make_store("fresh")
    for key, text in ("mint", "It is a herb."), ("toast", "About toast. It is on the table."), ("milk", "It is white."):
        fresh.put(key, text)
    fresh.create_index("toy_groups")
    with toyed.state() as one, fresh.state() as other:
        assert dump(one)["toy_groups"] == dump(other)["toy_groups"]


def test_it_is_written_in_commits_of_some_bytes(toyed: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation_building, "_BATCH_BYTES", 64)
    monkeypatch.setattr(generation_building, "_MAX_REMOVED_ROWS", 1)
    toyed.put("jam", "It is sweet.")
    assert toyed.refresh("toy_groups") == ["toy_groups", "toy_lengths"]
    assert groups(toyed) == {"j": ["jam"], "m": ["milk"], "t": ["tea", "toast"]}
    assert list_stored_generations(toyed) == {2}


def test_an_index_dropped_while_it_is_made_leaves_nothing(
    toyed: kvstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = TOY.build

    def dropping(states: States, record: IndexRecord, tools: BuildTools) -> Generation:
        toyed.drop_index("toy_groups")
        return build(states, record, tools)

    toyed.put("jam", "It is sweet.")
    monkeypatch.setattr(TOY, "build", dropping)
    assert toyed.refresh("toy_groups") == []
    assert groups(toyed) is None
    assert list_stored_generations(toyed) == set()


def test_one_at_a_time(toyed: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    build = TOY.build

    def looking(states: States, record: IndexRecord, tools: BuildTools) -> Generation:
        assert show_index(toyed) == ("building", 1, TOY.building_detail)
        with pytest.raises(errors.IndexUnavailableError, match="wait for it"):
            toyed.refresh("toy_groups")
        return build(states, record, tools)

    toyed.put("jam", "It is sweet.")
    monkeypatch.setattr(TOY, "build", looking)
    assert toyed.refresh("toy_groups") == ["toy_groups", "toy_lengths"]


def test_check_reads_it_and_a_rebuild_starts_again(
    toyed: kvstore.Store, make_store: Callable[..., kvstore.Store]
) -> None:
    environment: Environment = toyed._session.environment
    key = U32.pack(1) + U32.pack(0)
    environment.write_with_growth(lambda view: view.put("toy_groups", key, b"spoilt"))
    (found,) = toyed.check()
    assert "table toy_groups" in found
    toyed.close()
    toyed = make_store()
    assert show_index(toyed)[0] == "damaged"  # type: ignore[index]
    report = toyed.repair()
    assert report.remaining == []
    assert show_index(toyed)[0] == "absent"  # type: ignore[index]
    toyed.refresh("toy_groups")
    assert groups(toyed) == {"m": ["milk"], "t": ["tea", "toast"]}


def answer_writing(request: dict[str, Any]) -> Planned:
    return stream(json.dumps({"title": request["messages"][-1]["content"].splitlines()[1].rstrip(".")[6:20]}))


def write(store: kvstore.Store, limit: int | None = None) -> int:
    model = store.language_model("scribe")
    assert model is not None
    writer = StructuredModel(model, limit)
    store._session.store.indexing.refresh("toy_groups", None, writer)
    return writer.num_calls


def test_a_model_writes_only_missing_texts(toyed: kvstore.Store, server: Server) -> None:
    server.answering = answer_writing
    assert titles(toyed) == {}
    assert write(toyed) == 2
    assert titles(toyed) == {"m": "milk. It is on (scribe)", "t": "tea. It is on  (scribe)"}
    assert write(toyed) == 0
    toyed.put("jam", "About jam. It is sweet.")
    assert write(toyed) == 1, "what is as it was is not paid for again"
    assert show_index(toyed) == ("ready", 0, "3 groups, 3 written")
    toyed.delete("toast")
    assert titles(toyed).keys() == {"j", "m"}, "what is written of a document that is gone is not shown"
    toyed.refresh("toy_groups")
    with toyed.state() as state:
        assert state.lmdb.count("written") == 2, "and it is forgotten"
    assert write(toyed) == 1


def test_the_largest_first_within_some_tokens(toyed: kvstore.Store, server: Server) -> None:
    server.answering = answer_writing
    forecast = toyed._session.store.indexing.forecast("toy_groups")["toy_groups"]
    assert (forecast.texts, forecast.written, forecast.calls) == (2, 0, 2)
    assert write(toyed, limit=0) == 0
    assert write(toyed, limit=forecast.tokens - 1) == 1
    assert titles(toyed).keys() == {"t"}
    left = toyed._session.store.indexing.forecast("toy_groups")["toy_groups"]
    assert (left.texts, left.written, left.calls) == (2, 1, 1)
    assert write(toyed, limit=left.tokens) == 1
    assert titles(toyed).keys() == {"m", "t"}
    assert len(server.requests) == 2


def test_texts_that_were_paid_for_survive_a_failing_server(toyed: kvstore.Store, server: Server) -> None:
    server.answering = lambda request: answer_writing(request) if len(server.requests) < 2 else refusal(404, "gone")
    with pytest.raises(errors.ModelError):
        write(toyed)
    assert titles(toyed).keys() == {"t"}
    asked = [request["messages"] for request in server.requests]
    server.answering = answer_writing
    assert write(toyed) == 1
    assert server.requests[-1]["messages"] != asked[0], "what was written is not asked for again"
    assert titles(toyed).keys() == {"m", "t"}


def test_statements_report_the_cost_before_they_ask_a_model(toyed: kvstore.Store, server: Server) -> None:
    server.answering = answer_writing
    tokens = toyed.forecast_refresh("toy_groups")["toy_groups"].tokens
    clauses = f"INDEX toy_groups MODEL 'scribe' WITHIN {tokens - 1} TOKENS"
    steps = list(toyed.execute(f"EXPLAIN REFRESH {clauses}"))
    assert steps == [
        ("group", "toy_groups: 2 groups, 0 written", None),
        ("keep", "texts that are already written, of unchanged groups", 0),
        (
            "ask model",
            f"scribe: about {tokens} tokens to send, of which at most {tokens - 1} would be sent, for the largest "
            "groups; "
            "nothing is sent now",
            2,
        ),
    ]
    assert server.requests == []
    assert toyed.execute("REFRESH INDEX toy_groups").message == "nothing to refresh"
    assert server.requests == [], "a model is asked only where the statement says so"
    cursor = toyed.execute(f"REFRESH {clauses}")
    assert cursor.columns == ("kind", "model", "texts", "calls", "sent", "received", "refused", "left")
    ((kind, model, texts, calls, sent, received, refused, left),) = cursor.fetchall()
    assert (kind, model, texts, calls, refused, left) == ("toy_groups", "scribe", 1, 1, 0, 1)
    assert 0 < sent < tokens and received > 0 and cursor.problems == ()
    assert cursor.message == "toy_groups: 2 groups, 1 written"
    assert toyed.refresh(model="scribe") == ["toy_groups"]
    assert titles(toyed).keys() == {"m", "t"}
    assert toyed.refresh(within=1000) == []
    toyed.put("jam", "About jam. It is sweet.")
    assert toyed.refresh(within=1000) == ["toy_groups", "toy_lengths"]
    assert titles(toyed)["j"].endswith("(tiny)")
    (group, *_) = toyed.execute("EXPLAIN REFRESH")
    assert group[0] == "group"


def test_without_a_model_no_request_is_sent(toyed: kvstore.Store) -> None:
    with pytest.raises(errors.InputError, match="no language model is named"):
        toyed.refresh("toy_groups", within=100)
    with pytest.raises(errors.ArgumentError, match="within"):
        toyed.refresh("toy_groups", within="all")  # type: ignore[arg-type]
    with pytest.raises(errors.InputError, match="within takes 1 or more"):
        toyed.refresh("toy_groups", within=0)
    (_, _, asked) = toyed.execute("EXPLAIN REFRESH INDEX toy_groups")
    assert asked[1].startswith("a model (none is set): about")
    assert list(toyed.execute("EXPLAIN REFRESH INDEX vectors")) == [
        ("refresh", "no index has texts that a model can write", 0)
    ]


def test_expand_draws_it(toyed: kvstore.Store) -> None:
    assert toyed.execute("EXPAND toy_groups").fetchall() == [(0, "m", 1, ""), (0, "t", 2, "")]
    assert toyed.execute("EXPAND Toy_Groups DEPTH 5").fetchall() == [
        (0, "m", 1, ""),
        (1, "milk", 1, ""),
        (0, "t", 2, ""),
        (1, "tea", 1, ""),
        (1, "toast", 1, ""),
    ]
    rows = toyed.execute("EXPAND toy_groups DEPTH 2").fetchall()
    assert list(layout.render_groups(rows, 40)) == ["m (1)", "└─ milk (1)", "t (2)", "├─ tea (1)", "└─ toast (1)"]
    catalog = LiveCatalog(SimpleNamespace(store=toyed))  # type: ignore[arg-type]
    assert "toy_groups" in [completion.text for completion in complete("EXPAND to", catalog)]
    with pytest.raises(errors.StatementError, match=r"expected .*TOY_GROUPS, found Tea; write EXPAND 'Tea'"):
        toyed.execute("EXPAND Tea")
    toyed.drop_index("toy_groups")
    with pytest.raises(errors.InputError, match="CREATE INDEX or REFRESH builds it"):
        toyed.execute("EXPAND toy_groups")


def test_a_forecast_is_of_the_next_generation_and_changes_nothing(toyed: kvstore.Store) -> None:
    toyed.put("jam", "It is sweet.")
    forecast = toyed._session.store.indexing.forecast("toy_groups")["toy_groups"]
    assert (forecast.described, forecast.calls) == ("3 groups, 0 written", 3)
    assert show_index(toyed) == ("ready", 1, "2 groups, 0 written")


def test_texts_of_a_model_survive_a_repair_and_invalid_replies(toyed: kvstore.Store, server: Server) -> None:
    server.answering = lambda request: stream("I would rather not.")
    assert write(toyed) == 4, "each is asked for once more"
    assert titles(toyed) == {}
    server.answering = answer_writing
    write(toyed)
    environment: Environment = toyed._session.environment
    environment.write_with_growth(lambda view: view.put("toy_groups", U32.pack(1) + U32.pack(0), b"spoilt"))
    toyed.repair()
    assert write(toyed) == 0
    assert titles(toyed).keys() == {"m", "t"}
    with toyed.state() as state:
        content = next(bytes(key) for key, _ in state.lmdb.scan("written"))
    environment.write_with_growth(lambda view: view.put("written", content, b"spoilt"))
    report = toyed.repair()
    assert [lost for lost in report.lost if "a model wrote" in lost]


def test_refresh_names_every_failure_and_stops_if_the_model_is_useless(toyed: kvstore.Store, server: Server) -> None:
    server.answering = lambda request: stream("no") if "milk" in str(request) else answer_writing(request)
    cursor = toyed.execute("REFRESH INDEX toy_groups MODEL 'scribe'")
    ((_, _, texts, calls, _, _, refused, left),) = cursor.fetchall()
    assert (texts, calls, refused, left) == (1, 3, 2, 1)
    (failure,) = cursor.problems
    assert failure.startswith("toy_groups, m: language model 'scribe': no usable answer for") and cursor.failed
    for letter in "abcdefghijkl":
        toyed.put(f"{letter}-document", f"About {letter}.")
    server.answering = lambda request: stream("no")
    kinds = toyed.refresh("toy_groups", model="scribe")
    (report,) = kinds.written
    assert kinds[0] == "toy_groups" and (report.texts, report.calls, report.refused, report.left) == (0, 20, 20, 13)
    assert len(report.failures) == 11 and "stopped after 10 requests" in report.failures[-1]


def test_dropping_removes_written_texts(toyed: kvstore.Store, server: Server) -> None:
    server.answering = answer_writing
    write(toyed)
    toyed.drop_index("toy_groups")
    with toyed.state() as state:
        assert state.lmdb.count("written") == 0


#: Refreshes the index in a forked child per line of input, and kills it at the commit with that number (from 0).
#: Prints the exit status of each child. The modules are imported once, before the forks.
CHILD = """
import os, sys
sys.path.insert(0, os.path.dirname(sys.argv[2]))
import kvstore, {module} as toy
from kvstore.storage.write_transaction import WriteTransaction
toy.register(toy.SYSTEM)
toy.generation_building._BATCH_BYTES, toy.generation_building._MAX_REMOVED_ROWS = 64, 2
commit = WriteTransaction.commit
def refresh(left):
    def commit_or_die(self):
        nonlocal left
        if left == 0:
            os._exit(9)
        left -= 1
        commit(self)
    store = kvstore.open(sys.argv[1])
    WriteTransaction.commit = commit_or_die
    store.refresh("toy_groups")
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        try:
            refresh(int(line))
            os._exit(0)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_kill_at_any_commit_leaves_the_old_generation_or_the_new_one(toyed: kvstore.Store, every: int) -> None:
    old = groups(toyed)
    for key in ("jam", "mint", "salt"):
        toyed.put(key, f"About {key}.")
    new = {"j": ["jam"], "m": ["milk", "mint"], "s": ["salt"], "t": ["tea", "toast"]}
    survived = []
    command = [sys.executable, "-c", CHILD.format(module=Path(__file__).stem), toyed.path, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdin is not None and runner.stdout is not None
        for commits in range(0, 60, every):
            print(commits, file=runner.stdin, flush=True)
            status = int(runner.stdout.readline())
            assert status in (0, 9)
            assert groups(toyed) in (old, new)
            assert toyed.check() == []
            survived.append(groups(toyed))
            if status == 0:
                break
    assert old in survived
    assert survived[-1] == new
    assert list_stored_generations(toyed) == {2}
