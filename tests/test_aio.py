"""The asyncio interface: the methods of a store as coroutines, and what a cancelled task leaves."""

from __future__ import annotations

import asyncio
import doctest
import inspect
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore import aio, errors

pytestmark = pytest.mark.public_api

#: Methods that asyncio replaces: a task is cancelled, and a state belongs to a thread.
LEFT_OUT = {"interrupt", "state"}
#: Methods that return an object to await or to enter, or an async iterator.
OPENING = {"ask_pieces", "dump", "execute", "ingest_progress", "query", "session", "snapshot", "transaction"}


def run_with_store(path: Path, test: Callable[[aio.AsyncStore], Coroutine[Any, Any, Any]], **options: Any) -> Any:
    """Run a test on a store of two documents, which must pass CHECK at the end."""

    async def main() -> Any:
        async with aio.open(path / "store", embedder="hashing", settings={"language": "rules"}, **options) as store:
            await store.put_many([{"key": "tea", "text": "Tea is made from leaves."}, {"key": "sea", "text": "Salty."}])
            result = await test(store)
            assert await store.check() == []
        assert store.closed
        return result

    return asyncio.run(main())


def test_the_example_of_the_module_runs() -> None:
    assert doctest.testmod(aio).failed == 0


@pytest.mark.parametrize("name", ["Store", "Snapshot", "Transaction", "Cursor"])
def test_every_method_exists_with_the_same_arguments(name: str) -> None:
    original, wrapped = getattr(kvstore, name), getattr(aio, f"Async{name}")
    public = {method for method in dir(original) if method[0] != "_"} - LEFT_OUT
    attributes = {"kind", "columns", "types", "rowcount", "message", "problems", "failed", "description"}
    assert public - set(dir(wrapped)) - attributes == set()
    for method in public - attributes - {"ingest"}:
        value = getattr(wrapped, method)
        if callable(value):
            expected = list(inspect.signature(getattr(original, method)).parameters.values())
            parameters = [
                (parameter.name, parameter.kind, parameter.default)
                for parameter in inspect.signature(value).parameters.values()
            ]
            assert parameters == [(parameter.name, parameter.kind, parameter.default) for parameter in expected]
            assert inspect.iscoroutinefunction(value) != (method in OPENING)


def test_a_task_runs_a_statement_and_async_for_opens_a_stream(tmp_path: Path) -> None:
    async def test(store: aio.AsyncStore) -> None:
        cursor = await asyncio.create_task(store.execute("SELECT key FROM documents ORDER BY key"))
        assert repr(cursor) == "<kvstore.aio.Cursor SELECT: key>"
        assert await cursor.fetchall() == [("sea",), ("tea",)]
        async with store.snapshot() as snapshot:
            assert repr(snapshot).startswith("<kvstore.aio.Snapshot ")
        assert [row async for row in store.query("SELECT key FROM documents ORDER BY key")] == [("sea",), ("tea",)]
        async for piece in store.ask_pieces("What is tea made from?"):
            assert piece.startswith("Tea is made")
            break
        with pytest.raises(errors.StatementError):
            await asyncio.create_task(store.execute("SELEC"))

    run_with_store(tmp_path, test)


def test_open_has_the_arguments_of_open() -> None:
    parameters = inspect.signature(aio.open).parameters
    original = inspect.signature(kvstore.open).parameters
    assert {name: parameter.default for name, parameter in parameters.items() if name != "threads"} == {
        name: parameter.default for name, parameter in original.items()
    }


def test_calls_of_many_tasks_run_at_the_same_time(tmp_path: Path) -> None:
    async def test(store: aio.AsyncStore) -> Any:
        changes = await asyncio.gather(*(store.put(f"note {number}", f"Note {number}.") for number in range(20)))
        hits = await asyncio.gather(*(store.search(f"note {number}", using="lexical") for number in range(20)))
        return all(changes), [hit[0].document for hit in hits][:2], await store.count()

    assert run_with_store(tmp_path, test, threads=3) == (True, ["note 0", "note 1"], 22)


def test_a_cursor_is_iterated_and_closed(tmp_path: Path) -> None:
    async def test(store: aio.AsyncStore) -> Any:
        async with store.query("SELECT key FROM documents ORDER BY key") as cursor:
            rows = [row async for row in cursor]
        cursor = await store.execute("SELECT key FROM documents ORDER BY key")
        first = await cursor.fetchone()
        await cursor.close()
        return rows, cursor.columns, first, await cursor.fetchall()

    assert run_with_store(tmp_path, test) == ([("sea",), ("tea",)], ("key",), ("sea",), [])


def test_begin_and_commit_belong_together(tmp_path: Path) -> None:
    async def test(store: aio.AsyncStore) -> Any:
        await store.execute("BEGIN")
        await store.execute("DELETE DOCUMENT 'sea'")
        inside_keys = (
            await store.in_transaction,
            await (await store.execute("SELECT count(*) FROM documents")).fetchone(),
        )
        outside_keys = await store.count()
        await store.execute("ROLLBACK")
        async with store.session() as session:
            await session.set("top", 1)
            hits = len((await session.retrieve("tea leaves")).hits)
        return inside_keys, outside_keys, await store.count(), hits

    assert run_with_store(tmp_path, test) == ((True, (1,)), 2, 2, 1)


def test_a_transaction_commits_or_rolls_back(tmp_path: Path) -> None:
    async def test(store: aio.AsyncStore) -> Any:
        async with store.transaction() as transaction:
            await transaction.put("milk", "Milk is white.")
            texts = await transaction.count(), await store.count()
        with pytest.raises(ZeroDivisionError):
            async with store.transaction() as transaction:
                await transaction.delete("milk")
                raise ZeroDivisionError
        with pytest.raises(errors.ClosedError):
            await transaction.count()
        return texts, await store.keys("milk"), transaction.open

    assert run_with_store(tmp_path, test) == ((3, 2), ["milk"], False)


def test_a_change_beside_an_open_transaction_names_the_remedy(tmp_path: Path) -> None:
    async def test() -> list[str]:
        async with aio.open(tmp_path / "s", embedder="hashing", lock_timeout=0.1) as store:
            with pytest.raises(errors.LockTimeoutError, match="within a transaction, use the methods"):
                async with store.transaction() as transaction:
                    await transaction.put("milk", "Milk is white.")
                    await store.put("tea", "Tea is green.")
            return await store.keys()

    assert asyncio.run(test()) == []


def test_a_snapshot_keeps_its_state(tmp_path: Path) -> None:
    async def test(store: aio.AsyncStore) -> Any:
        async with store.snapshot() as snapshot:
            await store.delete("tea")
            return await snapshot.count(), await store.count(), [line async for line in snapshot.dump()][1]

    assert run_with_store(tmp_path, test) == (2, 1, "BEGIN;")


def test_an_answer_arrives_in_pieces(tmp_path: Path) -> None:
    async def test(store: aio.AsyncStore) -> Any:
        async with store.ask_pieces("What is tea made from?") as pieces:
            text = "".join([piece async for piece in pieces])
            answer = await pieces.answer
        async with store.ask_pieces("What is tea made from?") as closed:
            evidence = closed.evidence.hits[0].document
        with pytest.raises(errors.InputError, match="was closed"):
            await closed.answer
        return text == answer.text, evidence

    assert run_with_store(tmp_path, test) == (True, "tea")


def test_an_ingest_reports_and_stops(tmp_path: Path) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    for number in range(3):
        (folder / f"{number}.md").write_text(f"# Note {number}\n\nThis is note {number}.")

    async def test(store: aio.AsyncStore) -> Any:
        loop_threads: list[bool] = []
        main = threading.current_thread()
        report = await store.ingest(
            folder, workers=0, progress=lambda step: loop_threads.append(threading.current_thread() is main)
        )
        async with store.ingest_progress(folder, workers=0) as ingestion:
            async for _ in ingestion:
                break
        return report.added, all(loop_threads), ingestion.report.added

    assert run_with_store(tmp_path, test) == (3, True, 0)


def test_a_cancelled_block_rolls_back(tmp_path: Path) -> None:
    async def test(store: aio.AsyncStore) -> Any:
        entered = asyncio.Event()

        async def change() -> None:
            async with store.transaction() as transaction:
                await transaction.delete("tea")
                entered.set()
                await asyncio.sleep(60)

        task = asyncio.create_task(change())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await store.count(), await store.put("milk", "Milk is white.")  # the writer's lock is free

    assert run_with_store(tmp_path, test) == (2, True)


def test_a_transaction_that_is_cancelled_while_it_waits_is_rolled_back(tmp_path: Path) -> None:
    async def test(store: aio.AsyncStore) -> Any:
        async def begin() -> None:
            async with store.transaction():
                raise AssertionError("the lock is taken")

        async with store.transaction() as transaction:
            task = asyncio.create_task(begin())
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await transaction.put("milk", "Milk is white.")
        return await store.put("rum", "Rum is brown."), await store.count()

    assert run_with_store(tmp_path, test) == (True, 4)


def test_a_cancelled_change_is_complete_or_missing(tmp_path: Path) -> None:
    async def test(store: aio.AsyncStore) -> Any:
        tasks = [asyncio.create_task(store.put(f"note {number}", f"Note {number}.")) for number in range(10)]
        await asyncio.sleep(0.02)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return 2 <= await store.count() <= 12

    assert run_with_store(tmp_path, test, threads=2)


def test_a_cancelled_query_is_interrupted(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

    async def test(store: aio.AsyncStore) -> Any:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await store.query(endless)
        return await store.count()  # the only thread is free again

    assert run_with_store(tmp_path, test, threads=1) == 2


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        store = await aio.open(tmp_path / "store", embedder="hashing", settings={"language": "rules"})
        await store.close()
        await store.close()
        with pytest.raises(errors.ClosedError):
            await store.count()
        with pytest.raises(errors.ClosedError):
            await store.execute("SELECT 1")

    asyncio.run(main())


def test_threads_are_a_number_above_zero(tmp_path: Path) -> None:
    with pytest.raises(errors.InputError, match="threads"):
        aio.open(tmp_path, threads=0)
