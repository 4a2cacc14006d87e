"""The examples in the documentation of the public face: each runs, and no method that needs one is without."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import kvstore

#: What stands for itself, is for a program that has made parts of the work its own, or needs an extra.
PLAIN = {"close", "state", "to_arrow", "to_pandas"}
CLASSES = (kvstore.Store, kvstore.Snapshot, kvstore.Transaction, kvstore.Cursor)


def iter_documented_objects() -> Iterator[tuple[str, Any]]:
    """Yield every public object that may have an example, each method once, with its full name."""
    objects: dict[str, Any] = {"kvstore": kvstore}
    for name in kvstore.__all__:
        value = getattr(kvstore, name)
        if isinstance(value, ModuleType | tuple):  # errors, FORMATS
            continue
        objects.setdefault(f"{value.__module__}.{value.__qualname__}", value)
        for _, method in inspect.getmembers(value, inspect.isfunction) if isinstance(value, type) else ():
            if method.__name__[0] != "_" and method.__module__.startswith("kvstore"):
                objects.setdefault(f"{method.__module__}.{method.__qualname__}", method)
    yield from objects.items()


EXAMPLES = {
    name: examples
    for name, value in iter_documented_objects()
    if (examples := doctest.DocTestParser().get_examples(inspect.getdoc(value) or ""))
}
#: The store that the examples of its methods go on with.
SETUP = EXAMPLES["kvstore.store.store.Store"]


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_the_stated_output(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    examples = EXAMPLES[name] if EXAMPLES[name] is SETUP else [*SETUP, *EXAMPLES[name]]
    test = doctest.DocTest(examples, {}, name, None, None, None)
    output: list[str] = []
    result = doctest.DocTestRunner().run(test, out=output.append, clear_globs=False)
    test.globs["store"].close()
    assert result.failed == 0, "".join(output)
    assert result.attempted == len(examples)


@pytest.mark.parametrize("of", CLASSES)
def test_every_method_has_an_example(of: type) -> None:
    documented = {name.rpartition(".")[2] for name in EXAMPLES}
    methods = {name for name, _ in inspect.getmembers(of, inspect.isfunction) if name[0] != "_"}
    assert methods - PLAIN - documented == set()
    assert all(inspect.getdoc(getattr(of, name)) for name in methods)


def test_public_names_are_documented() -> None:
    assert [name for name, value in iter_documented_objects() if not inspect.getdoc(value)] == []
    assert {"kvstore", "kvstore.store.opening.open_store", "kvstore.store.migration.migrate_store"} <= set(EXAMPLES)
