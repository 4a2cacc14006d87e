"""CONTRIBUTING.md, docs/source.md and docs/extend: examples run, the layers are pyproject's, and named files exist."""

from __future__ import annotations

import functools
import importlib
import io
import re
import sys
import tomllib
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

import kvstore
from kvstore import readers
from kvstore import registry as systems

ROOT = Path(__file__).resolve().parent.parent
#: The pages for contributors, by path.
PAGES = {
    path: path.read_text(encoding="utf-8")
    for path in [
        ROOT / "CONTRIBUTING.md",
        ROOT / "docs/source.md",
        *sorted((ROOT / "docs" / "extend").glob("*.md")),
    ]
}
#: Each heading with the text below it, up to the next heading.
SECTIONS = dict(
    re.findall(r"^##+ (.*?)\n(.*?)(?=^##|\Z)", "".join(f"#{page}" for page in PAGES.values()), re.MULTILINE | re.DOTALL)
)
#: The first line of a block that is the content of a file.
FILE = re.compile(r"# (kvstore/[\w/]+\.py)\n")


def list_fenced_blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def restored_registries() -> Iterator[None]:
    """Unregister, at the end of a test, everything that its example registers."""
    registries: list[dict[str, Any]] = [
        systems.SYSTEMS,
        systems.STRATEGIES,
        systems.INDEXES,
        systems.SQL_TABLES,
        readers._FORMATS,
        readers._FORMATS_BY_SUFFIX,
    ]
    copies = [dict(registry) for registry in registries]
    yield
    for registry, copy in zip(registries, copies, strict=True):
        registry.clear()
        registry.update(copy)


@pytest.fixture
def package_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder whose files below ``kvstore`` are imported as if they were in the package."""
    loaded = set(sys.modules)
    yield tmp_path
    for name in sorted(set(sys.modules) - loaded, reverse=True):  # what is in a package before the package
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            parent, _, child = name.rpartition(".")
            delattr(sys.modules[parent], child)
            del sys.modules[name]


def add_file(path: str, content: str, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a file outside the package and extend the path of its parent package to import it."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(content, encoding="utf-8")
    room = next(parent for parent in Path(path).parents if (ROOT / parent).is_dir())
    module = importlib.import_module(".".join(room.parts))
    if str(root / room) not in module.__path__:
        monkeypatch.setattr(module, "__path__", [*module.__path__, str(root / room)])


@pytest.mark.parametrize("section", [name for name, text in SECTIONS.items() if list_fenced_blocks(text, "python")])
@pytest.mark.usefixtures("restored_registries")
def test_examples_print_the_shown_output(section: str, package_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(package_folder)
    monkeypatch.setattr(kvstore, "open", functools.partial(kvstore.open, settings={"language": "rules"}))
    for block, expected in re.findall(
        r"^```python\n(.*?)^```\n(?:\nprints\n\n```text\n(.*?)^```)?", SECTIONS[section], re.MULTILINE | re.DOTALL
    ):
        file_name = FILE.match(block)
        if file_name:
            add_file(file_name[1], block, package_folder, monkeypatch)
            continue
        output = io.StringIO()
        with redirect_stdout(output):
            exec(compile(block, section, "exec"), {"__name__": "example"})
        assert output.getvalue() == expected


def test_every_kind_of_addition_has_an_example() -> None:
    for kind in ("a strategy", "a reader", "an embedder", "a structure", "a derivation", "an index", "a fact"):
        assert list_fenced_blocks(SECTIONS[f"Add {kind}"], "python"), kind


def test_the_picture_of_the_layers_is_that_of_pyproject() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    (picture,) = list_fenced_blocks(SECTIONS["The layers"], "plain")
    assert [re.split(r"   |\n", line)[0].strip() for line in picture.splitlines() if line[0] != " "] == layers


def test_named_files_exist() -> None:
    num_links = 0
    for page, text in PAGES.items():
        links = {page.parent / link for link in re.findall(r"\]\(([\w./-]+)\)", text)}
        file_names = re.findall(r"`((?:kvstore|cext|shell|migrations|tests|tools)/[\w./]*)`", text)
        created_files = set(FILE.findall(text))
        missing = [path for path in file_names if not (ROOT / path).exists()]
        assert [path for path in links if not path.exists()] == []
        assert [path for path in missing if not any(file.startswith(path) for file in created_files)] == []
        num_links += len(links)
    assert num_links > 50


def test_names_on_the_pages_exist_in_the_code() -> None:
    """A link's text that is code names something in the file: a function, a class, or a method of one."""
    for page, content in PAGES.items():
        for names, path in re.findall(r"\[`([\w.]+)`\]\(([\w./]+\.py)\)", content):
            text = (page.parent / path).read_text(encoding="utf-8")
            for name in [] if names.endswith(".py") else names.split("."):
                assert re.search(rf"\b(def|class) {name}\b|^{name}\b", text, re.MULTILINE), (names, path)


def test_targets_of_make_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"make ([a-z-]+)", "".join(re.findall(r"`[^`\n]*`", PAGES[ROOT / "CONTRIBUTING.md"])))
    assert {"install", "test", "test-slow", "lint"} <= set(targets)
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []
