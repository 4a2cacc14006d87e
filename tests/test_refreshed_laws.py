"""Refreshed indexes obey the laws.

After any history, no strategy shows text of a deleted document, each finds a new document, and after REFRESH everything
is as in a new store.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_profile import num_examples
from theme_texts import THEMES, write_theme_text

import kvstore
from kvstore.changes.dump import dump
from kvstore.registry import SYSTEMS, list_generation_indexes

KINDS = ("topics", "communities")
#: The strategies that read what is refreshed.
STRATEGIES = [strategy.name for name in ("raptor", "graphrag", "archrag") for strategy in SYSTEMS[name].strategies]
OPTIONS: dict[str, Any] = {"embedder": "hashing", "settings": {"language": "rules"}}

KEYS = [f"{theme}-{number}" for theme in THEMES for number in range(5)]
#: Documents put, in some version, or taken out (a negative one), and REFRESH (no key).
HISTORIES = st.lists(st.tuples(st.sampled_from([*KEYS, None]), st.integers(-2, 2)), min_size=5, max_size=25)


def make_word(key: str, version: int) -> str:
    """Return a name that only this version of a document has."""
    theme, _, number = key.partition("-")
    return f"Zqx{theme}{number}v{version}"


def make_text(key: str, version: int) -> str:
    theme, _, number = key.partition("-")
    return f"{write_theme_text(theme, int(number))} Warden {make_word(key, version)} was there as well."


def collect_results(store: kvstore.Store) -> Iterator[tuple[str, str]]:
    """Yield the results of statements and strategies, by name."""
    for table in ("topics", "topic_members", "communities", "community_members"):
        yield table, repr(store.execute(f"SELECT * FROM {table}").fetchall())
    for kind in KINDS:
        yield f"EXPAND {kind}", repr(store.outline(kind, depth=5))
    for name in STRATEGIES:
        for question in ("What are the documents about?", "Who was joined with Port Ellery at the harbour?"):
            yield name, repr(store.retrieve(question, using=name))
            yield f"ASK {name}", repr(store.ask(question, using=name))


def dump_refreshed(store: kvstore.Store) -> dict[str, Any]:
    """Return the dumped rows of the refreshed indexes."""
    with store.state() as state:
        rows = dump(state)
    return {table: rows[table] for kind in list_generation_indexes() for table in kind.tables if table in rows}


def check_history(path: Path, fresh_path: Path, history: list[tuple[str | None, int]], relatedness: int) -> None:
    """Assert that a store with a history equals a store of the remaining documents."""
    kinds = {kind: {"relatedness": relatedness} if kind == "topics" else {} for kind in KINDS}
    versions: dict[str, int] = {}
    deleted_words: set[str] = set()
    newest: str | None = None
    with kvstore.open(path, **OPTIONS) as store:
        for first in KEYS[::2]:
            versions[first] = 9
            store.put(first, make_text(first, 9))
        for kind, options in kinds.items():
            store.create_index(kind, options)
        for key, version in history:
            if key is None:
                store.refresh()
                newest = None  # as old as the rest, which an overview need not mention
                continue
            if versions.get(key) == version:
                store.put(key, make_text(key, version))
                continue  # the same text changes nothing, so the document is as old as before
            if key in versions:
                deleted_words.add(make_word(key, versions.pop(key)))
            if version < 0:
                store.delete(key)
                newest = None if key == newest else newest
            else:
                store.put(key, make_text(key, version))
                versions[key], newest = version, key
        words = deleted_words - {make_word(*stored) for stored in versions.items()}
        for who, what in collect_results(store):
            assert not [word for word in words if word in what], who
        if newest is not None:
            word = make_word(newest, versions[newest])
            for name in STRATEGIES:
                evidence = store.retrieve(f"What is known of Warden {word}?", using=name, top=20)
                assert word in repr(evidence.hits), f"{name} does not find {newest}"
        store.refresh()
        after = dump_refreshed(store)
        assert store.check() == []
    with kvstore.open(fresh_path, **OPTIONS) as fresh:
        for key in sorted(versions, reverse=True):
            fresh.put(key, make_text(key, versions[key]))
        for kind, options in kinds.items():
            fresh.create_index(kind, options)
        assert dump_refreshed(fresh) == after


@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORIES, relatedness=st.integers(0, 1))
def test_some_histories_leave_nothing_behind(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str | None, int]], relatedness: int
) -> None:
    folder = tmp_path_factory.mktemp("refreshed")
    check_history(folder / "lived", folder / "fresh", history, relatedness)


@pytest.mark.slow
@pytest.mark.long
@settings(max_examples=num_examples(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=HISTORIES, relatedness=st.integers(0, 1))
def test_a_hundred_histories_leave_nothing_behind(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str | None, int]], relatedness: int
) -> None:
    folder = tmp_path_factory.mktemp("refreshed")
    check_history(folder / "lived", folder / "fresh", history, relatedness)
