"""Each name of a class or of a module has one meaning in the whole code base."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import kvstore
import kvstore_shell

HOUSE = [
    (package.__name__, path)
    for package in (kvstore, kvstore_shell)
    for path in sorted(Path(str(package.__file__)).parent.rglob("*.py"))
]


@dataclass(frozen=True)
class Definitions:
    """What a module contains: classes with lines, type aliases with values, lines of misplaced docstrings."""

    classes: list[tuple[str, int]]
    aliases: list[tuple[str, str]]
    misplaced_docstrings: list[int]


@cache
def read_definitions(path: Path) -> Definitions:
    """Return what a module defines. It drops the syntax tree: hundreds of them slow down garbage collection."""
    module = ast.parse(path.read_text(encoding="utf-8"))
    classes, misplaced = [], []
    for node in iter_definitions(module):
        if isinstance(node, ast.ClassDef):
            classes.append((node.name, node.lineno))
        for index, statement in enumerate(node.body):
            value = statement.value if isinstance(statement, ast.Expr) else None
            is_text = isinstance(value, ast.Constant) and isinstance(value.value, str)
            if isinstance(value, ast.JoinedStr) or (index and is_text):
                misplaced.append(statement.lineno)
    aliases = []
    for statement in module.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            name, value = statement.targets[0].id.lstrip("_"), statement.value
            if name[:1].isupper() and not name.isupper():
                aliases.append((name, ast.unparse(value)))
    return Definitions(classes, aliases, misplaced)


def iter_definitions(parent: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Yield the functions and classes below a node, also nested ones. It skips expressions, which contain none."""
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
        if not isinstance(node, ast.expr):
            yield from iter_definitions(node)


def find_duplicates(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Return the names that occur several times, each with its places."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, place in names:
        places[name].append(place)
    return {name: matches for name, matches in places.items() if len(matches) > 1}


def is_adapter(path: Path) -> bool:
    """True if a module belongs to an adapter; adapters to several frameworks may use the same names."""
    return path.parts[-3] == "integrations"


def iter_classes() -> Iterator[tuple[str, str]]:
    """Yield the name and place of every class, a private one without its underscore.

    The class of an adapter that stands for a store (``Kvstore...``) is the same thing in each adapter and left out.
    """
    for package, path in HOUSE:
        for name, line in read_definitions(path).classes:
            if not (is_adapter(path) and name.startswith("Kvstore")):
                yield name.lstrip("_"), f"{package}, {path.name}:{line}"


def find_aliases() -> dict[tuple[str, str], str]:
    """Return every type alias, by its name and value, with one of its modules. Type variables are omitted."""
    return {
        (name, value): str(path)
        for _, path in HOUSE
        for name, value in read_definitions(path).aliases
        if not value.startswith(("TypeVar", "ParamSpec"))
    }


def test_every_docstring_is_first() -> None:
    """A string after the first statement is no docstring, nor is an f-string."""
    assert [f"{path}:{line}" for _, path in HOUSE for line in read_definitions(path).misplaced_docstrings] == []


def test_no_class_name_means_two_things() -> None:
    assert find_duplicates([*iter_classes(), *((name, place) for (name, _), place in find_aliases().items())]) == {}
    assert find_duplicates([*iter_classes(), ("Store", "elsewhere")])["Store"][1:] == ["elsewhere"]


def iter_modules() -> Iterator[tuple[str, str]]:
    """Yield every module except ``__init__``, ``__main__``, ``system`` and ``strategy`` of systems, and adapters."""
    for package, path in HOUSE:
        is_system_module = path.parts[-3] in ("systems", "derived") and path.stem in ("system", "strategy")
        if not (path.stem.startswith("__") or is_system_module or is_adapter(path)):
            yield path.stem, f"{package}, {path.parent.name}"


def test_no_module_name_means_two_things() -> None:
    assert find_duplicates(iter_modules()) == {}
