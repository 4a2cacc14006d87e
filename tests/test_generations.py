"""A kind of index in generations, from outside the package: built, read during a build, written by a model, killed."""

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
from model_server import PlannedResponse, Server, make_refusal, stream_answer

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
from kvstore_shell.completion import complete
from kvstore_shell.repl import LiveCatalog
from kvstore_shell.statement_layout import render_groups

SCHEMA = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}


class Groups:
    """The documents of a state by the beginning of their keys."""

    def __init__(self, rows: GenerationRows, state: State) -> None:
        self._rows = rows
        self._state = state
        self.change, self.chunk_stop = rows.change, rows.chunk_stop
        self.present = {record.id: record.key for record in state.documents.scan()}
        self.stored = rows.get_cached("groups", lambda stored: dict(stored.scan("toy_groups")))

    def list_keys(self) -> dict[str, list[str]]:
        """Return the keys of stored documents by their beginning, without empty groups."""
        keys_by_letter = {
            letter: [self.present[document] for document in documents if document in self.present]
            for letter, documents, _ in self.stored.values()
        }
        return {letter: keys for letter, keys in keys_by_letter.items() if keys}

    def read_titles(self) -> dict[str, str]:
        """Return the texts of a model about groups whose documents all exist."""
        titles = {}
        for letter, documents, content in self.stored.values():
            written = WrittenTexts(self._state.lmdb).get(content)
            if written is not None and self.present.keys() >= set(documents):
                titles[letter] = f"{written.value['title']} ({written.model})"
        return titles

    def read_texts(self, documents: Iterable[int]) -> list[str]:
        return [self._state.documents.read_text(document).decode() for document in documents]


class ToyGroups(GenerationIndex[Groups]):
    """Documents by the beginning of their keys."""

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
            stored = sorted((document.key, document.id, document.digest) for document in state.documents.scan())
            counters = state.counters
        lower = record.get_str_option("case") == "lower"

        def letter(document: tuple[str, int, bytes]) -> str:
            key = document[0][: record.get_int_option("letters")]
            return key.lower() if lower else key

        groups = [(name, list(members)) for name, members in groupby(sorted(stored, key=letter), key=letter)]
        rows = []
        for number, (name, members) in enumerate(groups):
            content = blake2b(b"toy 1" + b"".join(sorted(digest for _, _, digest in members)), digest_size=16).digest()
            rows.append((U32.pack(number), [name, [document for _, document, _ in members], content]))
        members = sorted(
            (U32.pack(document), number) for number, (_, members) in enumerate(groups) for _, document, _ in members
        )
        tools.progress(len(groups), len(groups))
        return Generation(
            counters.change, counters.next_chunk, {"groups": len(groups)}, {"toy_groups": rows, "toy_members": members}
        )

    def bind(self, rows: GenerationRows, state: State) -> Groups:
        return Groups(rows, state)

    def describe(self, bound: Groups) -> str:
        return f"{len(bound.stored)} groups, {len(bound.read_titles())} written"

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
        text = "\n".join(bound.read_texts(documents))
        return StructuredPrompt("title", [{"role": "user", "content": f"Name this.\n{text}"}], SCHEMA)

    def build_outline(self, bound: Groups) -> Iterable[OutlineNode]:
        for letter, keys in bound.list_keys().items():
            yield OutlineNode(letter, "", len(keys), lambda keys=keys: [OutlineNode(key, "", 1) for key in keys])  # type: ignore[misc]


class ToyLengths(FileIndex["ToyLengths.Read", list[int]]):
    """A file next to the groups: the number of documents of each."""

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
def registered_indexes() -> Iterator[None]:
    take_back = register(SYSTEM)
    yield
    take_back()


@pytest.fixture
def toy_store(registered_indexes: None, make_store: Callable[..., kvstore.Store]) -> kvstore.Store:
    """Return a store of three documents, and an index of them."""
    store = make_store()
    for key in ("tea", "toast", "milk"):
        store.put(key, f"About {key}. It is on the table.")
    store.create_index("toy_groups")
    return store


def get_groups(store: kvstore.Store | kvstore.Snapshot) -> dict[str, list[str]] | None:
    with store.state() as state:
        bound = bind_index(state, TOY)
        return None if bound is None else bound.list_keys()


def get_titles(store: kvstore.Store) -> dict[str, str]:
    with store.state() as state:
        bound = bind_index(state, TOY)
        assert bound is not None
        return bound.read_titles()


def show_index(store: kvstore.Store, kind: str = "toy_groups") -> tuple[str, int, str] | None:
    rows = {kind: (state, stale, detail) for kind, state, _, stale, detail in store.execute("SHOW INDEXES")}
    return rows.get(kind)


def list_stored_generations(store: kvstore.Store) -> set[int]:
    with store.state() as state:
        keys = [bytes(key) for table in TOY.tables for key, _ in state.lmdb.scan(table)]
    return {int.from_bytes(key[:4], "big") for key in keys}


def test_it_is_created_shown_refreshed_and_dropped(toy_store: kvstore.Store) -> None:
    assert show_index(toy_store) == ("ready", 0, "2 groups, 0 written")
    assert get_groups(toy_store) == {"m": ["milk"], "t": ["tea", "toast"]}
    toy_store.delete("toast")
    toy_store.put("thyme", "It is a herb.")
    assert show_index(toy_store) == ("ready", 2, "2 groups, 0 written")
    assert get_groups(toy_store) == {"m": ["milk"], "t": ["tea"]}, "corrected when it is read"
    assert toy_store.refresh("toy_groups") == ["toy_groups", "toy_lengths"]
    assert get_groups(toy_store) == {"m": ["milk"], "t": ["tea", "thyme"]}
    assert toy_store.refresh() == []
    assert list_stored_generations(toy_store) == {2}
    toy_store.drop_index("toy_groups")
    assert show_index(toy_store) is None
    assert get_groups(toy_store) is None
    assert list_stored_generations(toy_store) == set()
    with pytest.raises(errors.InputError, match="CREATE INDEX creates it"):
        toy_store.refresh("toy_groups")
    assert sorted(os.listdir(toy_store.path)) == ["data.mdb", "lock.mdb", "writer.lock"]


def test_options_may_be_words(toy_store: kvstore.Store) -> None:
    toy_store.drop_index("toy_groups")
    toy_store.put("Tilsit", "It is a cheese.")
    toy_store.execute("CREATE INDEX toy_groups WITH (case = LOWER, letters = 1)")
    assert get_groups(toy_store) == {"m": ["milk"], "t": ["Tilsit", "tea", "toast"]}
    toy_store.drop_index("toy_groups")
    for options, message in (
        ({"case": "lowr"}, "did you mean lower?"),
        ({"case": 1}, "must be one of kept, lower, not 1"),
    ):
        with pytest.raises(errors.InputError) as raised:
            toy_store.create_index("toy_groups", options)
        assert message in str(raised.value)


def test_its_companion_tables_are_created_and_dropped_with_it(toy_store: kvstore.Store) -> None:
    def get_lengths() -> list[int] | None:
        with toy_store.state() as state:
            return bind_index(state, LENGTHS)

    assert get_lengths() == [1, 2]
    assert show_index(toy_store, "toy_lengths") == ("ready", 0, "2 groups")
    toy_store.delete("toast")
    toy_store.execute("REFRESH INDEX toy_groups")
    assert get_lengths() == [1, 1]
    for statement in ("CREATE INDEX toy_lengths", "REFRESH INDEX toy_lengths", "DROP INDEX toy_lengths"):
        with pytest.raises(errors.InputError, match="together with toy_groups; use toy_groups"):
            toy_store.execute(statement)
    toy_store.drop_index("toy_groups")
    assert get_lengths() is None
    assert not (toy_store.path / "toy_lengths.index").exists()


def test_a_reader_keeps_the_generation_of_its_snapshot(toy_store: kvstore.Store) -> None:
    with toy_store.snapshot() as snapshot:
        toy_store.put("mint", "It is a herb.")
        toy_store.refresh("toy_groups")
        assert get_groups(snapshot) == {"m": ["milk"], "t": ["tea", "toast"]}
        assert get_groups(toy_store) == {"m": ["milk", "mint"], "t": ["tea", "toast"]}
    with toy_store.transaction() as transaction:
        transaction.delete("milk")
        with transaction.state() as state:
            bound = bind_index(state, TOY)
            assert bound is not None
            assert bound.list_keys() == {"m": ["mint"], "t": ["tea", "toast"]}
        transaction.rollback()


def test_after_refresh_it_is_that_of_a_fresh_store(
    toy_store: kvstore.Store, make_store: Callable[..., kvstore.Store]
) -> None:
    toy_store.put("mint", "It is a herb.")
    toy_store.put("milk", "It is white.")
    toy_store.delete("tea")
    with toy_store.state() as state:
        assert "toy_groups" not in dump(state), "what is stale is not in the dump"
    toy_store.refresh()
    fresh = make_store("fresh")
    for key, text in ("mint", "It is a herb."), ("toast", "About toast. It is on the table."), ("milk", "It is white."):
        fresh.put(key, text)
    fresh.create_index("toy_groups")
    with toy_store.state() as state, fresh.state() as fresh_state:
        assert dump(state)["toy_groups"] == dump(fresh_state)["toy_groups"]


def test_it_is_written_in_commits_of_some_bytes(toy_store: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation_building, "_BATCH_BYTES", 64)
    monkeypatch.setattr(generation_building, "_MAX_REMOVED_ROWS", 1)
    toy_store.put("jam", "It is sweet.")
    assert toy_store.refresh("toy_groups") == ["toy_groups", "toy_lengths"]
    assert get_groups(toy_store) == {"j": ["jam"], "m": ["milk"], "t": ["tea", "toast"]}
    assert list_stored_generations(toy_store) == {2}


def test_an_index_dropped_while_it_is_built_leaves_nothing(
    toy_store: kvstore.Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = TOY.build

    def drop_during_build(states: States, record: IndexRecord, tools: BuildTools) -> Generation:
        toy_store.drop_index("toy_groups")
        return build(states, record, tools)

    toy_store.put("jam", "It is sweet.")
    monkeypatch.setattr(TOY, "build", drop_during_build)
    assert toy_store.refresh("toy_groups") == []
    assert get_groups(toy_store) is None
    assert list_stored_generations(toy_store) == set()


def test_one_at_a_time(toy_store: kvstore.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    build = TOY.build

    def check_during_build(states: States, record: IndexRecord, tools: BuildTools) -> Generation:
        assert show_index(toy_store) == ("building", 1, TOY.building_detail)
        with pytest.raises(errors.IndexUnavailableError, match="wait until it has finished"):
            toy_store.refresh("toy_groups")
        return build(states, record, tools)

    toy_store.put("jam", "It is sweet.")
    monkeypatch.setattr(TOY, "build", check_during_build)
    assert toy_store.refresh("toy_groups") == ["toy_groups", "toy_lengths"]


def test_check_reads_it_and_a_rebuild_starts_again(
    toy_store: kvstore.Store, make_store: Callable[..., kvstore.Store]
) -> None:
    environment: Environment = toy_store._session.environment
    key = U32.pack(1) + U32.pack(0)
    environment.write_with_growth(lambda view: view.put("toy_groups", key, b"spoilt"))
    (finding,) = toy_store.check()
    assert "table toy_groups" in finding
    toy_store.close()
    toy_store = make_store()
    assert show_index(toy_store)[0] == "damaged"  # type: ignore[index]
    report = toy_store.repair()
    assert report.remaining == []
    assert show_index(toy_store)[0] == "absent"  # type: ignore[index]
    toy_store.refresh("toy_groups")
    assert get_groups(toy_store) == {"m": ["milk"], "t": ["tea", "toast"]}


def answer_writing(request: dict[str, Any]) -> PlannedResponse:
    return stream_answer(json.dumps({"title": request["messages"][-1]["content"].splitlines()[1].rstrip(".")[6:20]}))


def write_titles(store: kvstore.Store, limit: int | None = None) -> int:
    model = store.language_model("scribe")
    assert model is not None
    writer = StructuredModel(model, limit)
    store._session.store.index_manager.refresh("toy_groups", None, writer)
    return writer.num_calls


def test_a_model_writes_only_missing_texts(toy_store: kvstore.Store, server: Server) -> None:
    server.respond = answer_writing
    assert get_titles(toy_store) == {}
    assert write_titles(toy_store) == 2
    assert get_titles(toy_store) == {"m": "milk. It is on (scribe)", "t": "tea. It is on  (scribe)"}
    assert write_titles(toy_store) == 0
    toy_store.put("jam", "About jam. It is sweet.")
    assert write_titles(toy_store) == 1, "what is as it was is not paid for again"
    assert show_index(toy_store) == ("ready", 0, "3 groups, 3 written")
    toy_store.delete("toast")
    assert get_titles(toy_store).keys() == {"j", "m"}, "what is written of a document that is gone is not shown"
    toy_store.refresh("toy_groups")
    with toy_store.state() as state:
        assert state.lmdb.count("written") == 2, "and it is forgotten"
    assert write_titles(toy_store) == 1


def test_the_largest_first_within_some_tokens(toy_store: kvstore.Store, server: Server) -> None:
    server.respond = answer_writing
    forecast = toy_store._session.store.index_manager.forecast("toy_groups")["toy_groups"]
    assert (forecast.texts, forecast.written, forecast.calls) == (2, 0, 2)
    assert write_titles(toy_store, limit=0) == 0
    assert write_titles(toy_store, limit=forecast.tokens - 1) == 1
    assert get_titles(toy_store).keys() == {"t"}
    left = toy_store._session.store.index_manager.forecast("toy_groups")["toy_groups"]
    assert (left.texts, left.written, left.calls) == (2, 1, 1)
    assert write_titles(toy_store, limit=left.tokens) == 1
    assert get_titles(toy_store).keys() == {"m", "t"}
    assert len(server.requests) == 2


def test_texts_that_were_paid_for_survive_a_failing_server(toy_store: kvstore.Store, server: Server) -> None:
    server.respond = lambda request: answer_writing(request) if len(server.requests) < 2 else make_refusal(404, "gone")
    with pytest.raises(errors.ModelError):
        write_titles(toy_store)
    assert get_titles(toy_store).keys() == {"t"}
    messages = [request["messages"] for request in server.requests]
    server.respond = answer_writing
    assert write_titles(toy_store) == 1
    assert server.requests[-1]["messages"] != messages[0], "what was written is not asked for again"
    assert get_titles(toy_store).keys() == {"m", "t"}


def test_statements_report_the_cost_before_they_ask_a_model(toy_store: kvstore.Store, server: Server) -> None:
    server.respond = answer_writing
    tokens = toy_store.forecast_refresh("toy_groups")["toy_groups"].tokens
    clauses = f"INDEX toy_groups MODEL 'scribe' WITHIN {tokens - 1} TOKENS"
    steps = list(toy_store.execute(f"EXPLAIN REFRESH {clauses}"))
    assert steps == [
        ("group", "toy_groups: 2 groups, 0 written", None),
        ("keep", "texts that already exist, because their groups have not changed", 0),
        (
            "ask model",
            f"scribe: about {tokens} tokens to send, of which at most {tokens - 1} would be sent, for the largest "
            "groups; "
            "nothing is sent now",
            2,
        ),
    ]
    assert server.requests == []
    assert toy_store.execute("REFRESH INDEX toy_groups").message == "nothing to refresh"
    assert server.requests == [], "a model is asked only where the statement says so"
    cursor = toy_store.execute(f"REFRESH {clauses}")
    assert cursor.columns == ("kind", "model", "texts", "calls", "sent", "received", "refused", "left")
    ((kind, model, texts, calls, sent, received, refused, left),) = cursor.fetchall()
    assert (kind, model, texts, calls, refused, left) == ("toy_groups", "scribe", 1, 1, 0, 1)
    assert 0 < sent < tokens and received > 0 and cursor.problems == ()
    assert cursor.message == "toy_groups: 2 groups, 1 written"
    assert toy_store.refresh(model="scribe") == ["toy_groups"]
    assert get_titles(toy_store).keys() == {"m", "t"}
    assert toy_store.refresh(within=1000) == []
    toy_store.put("jam", "About jam. It is sweet.")
    assert toy_store.refresh(within=1000) == ["toy_groups", "toy_lengths"]
    assert get_titles(toy_store)["j"].endswith("(tiny)")
    (group, *_) = toy_store.execute("EXPLAIN REFRESH")
    assert group[0] == "group"


def test_without_a_model_no_request_is_sent(toy_store: kvstore.Store) -> None:
    with pytest.raises(errors.InputError, match="no language model is set"):
        toy_store.refresh("toy_groups", within=100)
    with pytest.raises(errors.ArgumentError, match="within"):
        toy_store.refresh("toy_groups", within="all")  # type: ignore[arg-type]
    with pytest.raises(errors.InputError, match="within takes 1 or more"):
        toy_store.refresh("toy_groups", within=0)
    (_, _, step) = toy_store.execute("EXPLAIN REFRESH INDEX toy_groups")
    assert step[1].startswith("a model (none is set): about")
    assert list(toy_store.execute("EXPLAIN REFRESH INDEX vectors")) == [
        ("refresh", "no index has texts that a model can write", 0)
    ]


def test_expand_draws_it(toy_store: kvstore.Store) -> None:
    assert toy_store.execute("EXPAND toy_groups").fetchall() == [(0, "m", 1, ""), (0, "t", 2, "")]
    assert toy_store.execute("EXPAND Toy_Groups DEPTH 5").fetchall() == [
        (0, "m", 1, ""),
        (1, "milk", 1, ""),
        (0, "t", 2, ""),
        (1, "tea", 1, ""),
        (1, "toast", 1, ""),
    ]
    rows = toy_store.execute("EXPAND toy_groups DEPTH 2").fetchall()
    assert list(render_groups(rows, 40)) == ["m (1)", "└─ milk (1)", "t (2)", "├─ tea (1)", "└─ toast (1)"]
    catalog = LiveCatalog(SimpleNamespace(store=toy_store))  # type: ignore[arg-type]
    assert "toy_groups" in [completion.text for completion in complete("EXPAND to", catalog)]
    with pytest.raises(errors.StatementError, match=r"expected .*TOY_GROUPS, found Tea; write EXPAND 'Tea'"):
        toy_store.execute("EXPAND Tea")
    toy_store.drop_index("toy_groups")
    with pytest.raises(errors.InputError, match="CREATE INDEX or REFRESH builds it"):
        toy_store.execute("EXPAND toy_groups")


def test_a_forecast_is_of_the_next_generation_and_changes_nothing(toy_store: kvstore.Store) -> None:
    toy_store.put("jam", "It is sweet.")
    forecast = toy_store._session.store.index_manager.forecast("toy_groups")["toy_groups"]
    assert (forecast.described, forecast.calls) == ("3 groups, 0 written", 3)
    assert show_index(toy_store) == ("ready", 1, "2 groups, 0 written")


def test_texts_of_a_model_survive_a_repair_and_invalid_replies(toy_store: kvstore.Store, server: Server) -> None:
    server.respond = lambda request: stream_answer("I would rather not.")
    assert write_titles(toy_store) == 4, "each is asked for once more"
    assert get_titles(toy_store) == {}
    server.respond = answer_writing
    write_titles(toy_store)
    environment: Environment = toy_store._session.environment
    environment.write_with_growth(lambda view: view.put("toy_groups", U32.pack(1) + U32.pack(0), b"spoilt"))
    toy_store.repair()
    assert write_titles(toy_store) == 0
    assert get_titles(toy_store).keys() == {"m", "t"}
    with toy_store.state() as state:
        content = next(bytes(key) for key, _ in state.lmdb.scan("written"))
    environment.write_with_growth(lambda view: view.put("written", content, b"spoilt"))
    report = toy_store.repair()
    assert [lost for lost in report.lost if "a model wrote" in lost]


def test_refresh_names_every_failure_and_stops_if_the_model_is_useless(
    toy_store: kvstore.Store, server: Server
) -> None:
    server.respond = lambda request: stream_answer("no") if "milk" in str(request) else answer_writing(request)
    cursor = toy_store.execute("REFRESH INDEX toy_groups MODEL 'scribe'")
    ((_, _, texts, calls, _, _, refused, left),) = cursor.fetchall()
    assert (texts, calls, refused, left) == (1, 3, 2, 1)
    (failure,) = cursor.problems
    assert failure.startswith("toy_groups, m: language model 'scribe': no usable answer for") and cursor.failed
    for letter in "abcdefghijkl":
        toy_store.put(f"{letter}-document", f"About {letter}.")
    server.respond = lambda request: stream_answer("no")
    kinds = toy_store.refresh("toy_groups", model="scribe")
    (report,) = kinds.written
    assert kinds[0] == "toy_groups" and (report.texts, report.calls, report.refused, report.left) == (0, 20, 20, 13)
    assert len(report.failures) == 11 and "stopped after 10 requests" in report.failures[-1]


def test_dropping_removes_written_texts(toy_store: kvstore.Store, server: Server) -> None:
    server.respond = answer_writing
    write_titles(toy_store)
    toy_store.drop_index("toy_groups")
    with toy_store.state() as state:
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
def test_a_kill_at_any_commit_leaves_the_old_generation_or_the_new_one(toy_store: kvstore.Store, every: int) -> None:
    old = get_groups(toy_store)
    for key in ("jam", "mint", "salt"):
        toy_store.put(key, f"About {key}.")
    new = {"j": ["jam"], "m": ["milk", "mint"], "s": ["salt"], "t": ["tea", "toast"]}
    survived = []
    command = [sys.executable, "-c", CHILD.format(module=Path(__file__).stem), toy_store.path, __file__]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdin is not None and runner.stdout is not None
        for commits in range(0, 60, every):
            print(commits, file=runner.stdin, flush=True)
            status = int(runner.stdout.readline())
            assert status in (0, 9)
            assert get_groups(toy_store) in (old, new)
            assert toy_store.check() == []
            survived.append(get_groups(toy_store))
            if status == 0:
                break
    assert old in survived
    assert survived[-1] == new
    assert list_stored_generations(toy_store) == {2}
