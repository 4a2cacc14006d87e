"""A name of a class or of a module means one thing in the whole house."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import kvstore
import kvstore_shell

HOUSE = [
    (package.__name__, path)
    for package in (kvstore, kvstore_shell)
    for path in sorted(Path(str(package.__file__)).parent.rglob("*.py"))
]


@cache
def parse_module(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(path.read_text(encoding="utf-8"))


def twice(named: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names that stand for several things, with where these are."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, place in named:
        places[name].append(place)
    return {name: found for name, found in places.items() if len(found) > 1}


def is_adapter(path: Path) -> bool:
    """Whether a module is of the adapter to one framework: what several frameworks call alike is so called in each."""
    return path.parts[-3] == "integrations"


def classes() -> Iterator[tuple[str, str]]:
    """Every class, a private one without its underscore. That of a framework over a store is one thing, in each."""
    for package, path in HOUSE:
        for node in ast.walk(parse_module(path)):
            if isinstance(node, ast.ClassDef) and not (is_adapter(path) and node.name.startswith("Kvstore")):
                yield node.name.lstrip("_"), f"{package}, {path.name}:{node.lineno}"


def aliases() -> dict[tuple[str, str], str]:
    """Every alias of a type, by its name and what it stands for, with one of its places; type variables are letters."""
    found: dict[tuple[str, str], str] = {}
    for _, path in HOUSE:
        for node in parse_module(path).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                name, value = node.targets[0].id.lstrip("_"), ast.unparse(node.value)
                variable = value.startswith(("TypeVar", "ParamSpec"))
                if name[:1].isupper() and not name.isupper() and not variable:
                    found[name, value] = str(path)
    return found


def test_every_docstring_is_first() -> None:
    """A string after the first statement is no docstring, nor is an f-string."""
    misplaced = []
    for _, path in HOUSE:
        for node in ast.walk(parse_module(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                values = [(index, part.value) for index, part in enumerate(node.body) if isinstance(part, ast.Expr)]
                misplaced += [
                    f"{path}:{value.lineno}"
                    for index, value in values
                    if isinstance(value, ast.JoinedStr)
                    or (index and isinstance(value, ast.Constant) and isinstance(value.value, str))
                ]
    assert misplaced == []


def test_no_class_name_means_two_things() -> None:
    assert twice([*classes(), *((name, place) for (name, _), place in aliases().items())]) == {}
    assert twice([*classes(), ("Store", "elsewhere")])["Store"][1:] == ["elsewhere"]


def modules() -> Iterator[tuple[str, str]]:
    """Every module but ``__init__`` and ``__main__``. The ``strategy`` of a system is one thing, in each of them, and
    so is what frameworks call alike."""
    for package, path in HOUSE:
        is_strategy = path.parts[-3] == "systems" and path.stem == "strategy"
        if not (path.stem.startswith("__") or is_strategy or is_adapter(path)):
            yield path.stem, f"{package}, {path.parent.name}"


def test_no_module_name_means_two_things() -> None:
    assert twice(modules()) == {}
