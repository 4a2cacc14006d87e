"""What a process loads before its first answer: what only writing, answering or a model needs is not among it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import kvstore
from kvstore.systems import STRATEGIES
from kvstore.systems.deferred_strategy import DeferredStrategy

#: A process that opens a store and finds something.
ASKING = """
import sys, kvstore
with kvstore.open(sys.argv[1]) as store:
    assert store.search("harbour", using="lexical")
print(*sys.modules)
"""
#: Packages that nothing of this needs, each the first of many.
UNASKED = (
    "kvstore.answering",
    "asyncio",
    "email",
    "httpx",
    "importlib.metadata",
    "importlib.resources",
    "spacy",
    "statistics",
    "urllib.request",
)


def test_to_find_something_a_process_loads_no_more_than_it_needs(tmp_path: Path) -> None:
    with kvstore.open(tmp_path / "store", embedder="hashing:16", settings={"language": "rules"}) as store:
        store.put("a", "The harbour is open.")
    asked = subprocess.run([sys.executable, "-c", ASKING, str(tmp_path / "store")], capture_output=True, text=True)
    assert asked.returncode == 0, asked.stderr
    loaded = asked.stdout.split()
    assert [name for name in UNASKED if any(one == name or one.startswith(f"{name}.") for one in loaded)] == []
    searching = {type(strategy.strategy).__module__ for strategy in STRATEGIES.values()}  # type: ignore[attr-defined]
    assert searching.intersection(loaded) == {"kvstore.systems.lexical.strategy"}


def test_a_strategy_is_what_it_is_whether_or_not_it_was_asked_before() -> None:
    made: list[str] = []

    class Late:
        name, description, options, needs = "late", "of this test", {}, "units"

        def __init__(self) -> None:
            made.append("late")

    late = DeferredStrategy("late", Late)  # type: ignore[arg-type]
    assert late.name == "late"
    assert not made
    assert not hasattr(late, "_private")
    assert (late.description, late.options, late.needs) == ("of this test", {}, "units")
    assert not hasattr(late, "overview")
    assert made == ["late"]
