"""README and the pages below ``docs/``: what they show prints what is shown, and what they name is there."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

import click
import pytest
from page_running import ROOT, find_difference, parse_blocks, parse_commands, run_page
from tool_modules import import_tool

import kvstore
from kvstore.language import parser
from kvstore.models.embedder import EMBEDDER_FORMS
from kvstore.registry import STRATEGIES
from kvstore.settings import FixedSettings, SessionSettings
from kvstore_shell.cli import cli
from kvstore_shell.script import split_items

#: The pages of the documentation, README first, by their paths in the repository.
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
#: What is written beside the code, and is part of the documentation too.
BESIDE = ("kvstore/language/LANGUAGE.md", "kvstore/storage/FORMAT.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
#: The pages whose examples are run.
SHOWING = [
    name
    for name, page in PAGES.items()
    # test_executor.py runs the first, in one store, and test_contributing.py the second, with their own registries.
    if not name.startswith(("docs/language/", "docs/extend/"))
    and any(
        block.not_run is None and block.language in ("console", "sh", "python", "sql") for block in parse_blocks(page)
    )
]


def build_tool_files(name: str) -> dict[Path, str]:
    """Return the files that a tool of the documentation generates, with their contents."""
    files = import_tool(name).build_files()
    assert isinstance(files, dict)
    return files


def read_table(page: str, header: str) -> dict[str, str]:
    """Return the rows of the table with this header: first cells, without backquotes, to second cells."""
    rows = re.search(rf"^\| {header} \|.*\n\|[-|]+\n((?:\|.*(?:\n|\Z))+)", PAGES[page], re.MULTILINE)
    assert rows is not None, header
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in rows[1].splitlines()]
    return {first.strip("` "): second.strip("` ") for first, second, *_ in cells}


def iter_commands(page: str) -> Iterator[list[str]]:
    """Yield the arguments of every command ``kvstore ...`` of a page."""
    lines = [line for block in parse_blocks(page) if block.language == "sh" for line in block.text.splitlines()]
    lines += [
        line
        for block in parse_blocks(page)
        if block.language == "console"
        for command in parse_commands(block.text)
        for line in command.typed.splitlines()
    ]
    lines += re.findall(r"`(kvstore [a-z]+[^`\n]*)`", re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL))
    for line in lines:
        for part in re.split(r" (?:\||&&|<) ", line):
            words = shlex.split(part.replace("<(", ""), comments=True)
            if words and words[0] == "kvstore":
                yield [word.rstrip(")") for word in words[1:]]


def iter_statements(page: str) -> Iterator[str]:
    """Yield every statement of a page: in scripts, sessions, the table of statements and options ``-c``."""
    for block in parse_blocks(page):
        if block.language == "sql":
            yield block.text
        for command in parse_commands(block.text) if block.language == "console" else ():
            yield from (piece.text for piece in split_items(command.input) if not piece.is_command)
    for arguments in iter_commands(page):
        yield from (value for option, value in pairwise(arguments) if option == "-c")


@pytest.mark.parametrize("name", PAGES)
def test_commands_and_statements_can_be_typed(name: str) -> None:
    for words in iter_commands(PAGES[name]):
        if words[0].startswith("-") or words[0].isupper():  # kvstore --version, kvstore COMMAND --help
            continue
        command = cli.commands.get(words[0])
        assert command is not None, words
        if "--help" in words:
            continue
        # A command that is only named is given what it takes.
        arguments = [parameter for parameter in command.params if isinstance(parameter, click.Argument)]
        for_want = ["bash" if isinstance(argument.type, click.Choice) else "x" for argument in arguments]
        command.make_context(words[0], words[1:] or for_want).close()
        if words[0] in ("ingest", "watch") and len(words) > 2:  # a store cannot be the folder that is ingested
            assert words[1].rstrip("/") not in [path.rstrip("/") for path in words[2:]], words
    for statement in iter_statements(PAGES[name]):
        assert parser.parse(statement), statement


def test_the_statements_of_the_table_give_the_stated_results(store: kvstore.Store) -> None:
    store.put("hr/leave", "Parental leave lasts twenty weeks.", meta={"year": 2024})
    store.execute("INSERT EDGE 'name' UNDER 'names'")
    for statement in read_table("docs/how-to/ask.md", "statement"):
        cursor = store.execute(statement)
        assert (cursor.fetchall() or cursor.message) and not cursor.failed, statement


def test_tables_list_the_settings_embedders_strategies_and_extras() -> None:
    assert read_table("docs/settings.md", "setting") == {
        name: str(value) for name, value in asdict(FixedSettings()).items()
    }
    names = {name for row in read_table("docs/settings.md", "setting of a session") for name in re.findall(r"\w+", row)}
    assert names == asdict(SessionSettings()).keys()
    embedders = read_table("docs/how-to/models.md", "embedder")
    assert {name.partition(":")[0] for name in embedders} == {name.partition(":")[0] for name in EMBEDDER_FORMS}
    assert read_table("docs/strategies.md", "strategy").keys() == STRATEGIES.keys()
    assert set(re.findall(r"^## (\w+)$", PAGES["docs/strategies.md"], re.MULTILINE)) == STRATEGIES.keys()
    with (ROOT / "pyproject.toml").open("rb") as file:
        extras = tomllib.load(file)["project"]["optional-dependencies"]
    names = {name for row in read_table("docs/how-to/install.md", "extra") for name in re.findall(r"[\w-]+", row)}
    assert names == extras.keys()


def test_the_python_page_names_every_public_name() -> None:
    page = PAGES["docs/python.md"]
    names = [name for name in kvstore.__all__ if name not in ("KvstoreError", "FORMATS")]
    assert [name for name in names if f"\n::: kvstore.{name}\n" not in page] == []
    methods = {
        method
        for face in (kvstore.Store, kvstore.Snapshot, kvstore.Transaction)
        for method in dir(face)
        if method[0] != "_"
    }
    linked = set(re.findall(r"\(#kvstore\.(?:Store|Snapshot|Transaction)\.(\w+)\)", page))
    assert linked == methods
    assert "`kvstore.FORMATS`" in page and "`kvstore.KvstoreError`" in page


@pytest.mark.parametrize("name", ["command_reference", "peers_tables", "strategy_pictures"])
def test_generated_files_are_up_to_date(name: str) -> None:
    stale = [
        path.name
        for path, text in build_tool_files(name).items()
        if not path.exists() or path.read_text("utf-8") != text
    ]
    assert stale == [], f"run python tools/{name}.py"


def test_every_strategy_has_a_picture() -> None:
    pictures = {path.stem for path in build_tool_files("strategy_pictures")}
    assert pictures == STRATEGIES.keys()
    assert {path.stem for path in (ROOT / "docs" / "pictures").glob("*.svg")} >= pictures
    assert all(f"(pictures/{name}.svg)" in PAGES["docs/strategies.md"] for name in pictures)


def list_anchors(page: str) -> set[str]:
    """Return the anchors of a page's headings as Markdown viewers build them."""
    text = re.sub(r"^```.*?^```", "", page, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def iter_links(name: str, page: str) -> Iterator[tuple[Path, str]]:
    """Yield the files that a page links to, with their paths in the repository, and the linked headings."""
    prose = re.sub(r"^```.*?^```|`[^`\n]*`", "", page, flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^()\s]+)\)", prose):
        path, _, heading = target.partition("#")
        if ":" not in path:
            yield ((ROOT / name).parent / path if path else ROOT / name).resolve(), heading


@pytest.mark.parametrize("name", [*PAGES, *BESIDE, "docs/llms.txt"])
def test_links_lead_somewhere(name: str) -> None:
    for path, heading in iter_links(name, (ROOT / name).read_text(encoding="utf-8")):
        assert path.is_relative_to(ROOT) and path.exists(), path
        # Those of the Python page are names.
        if heading and not heading.startswith("kvstore."):
            assert heading in list_anchors(path.read_text(encoding="utf-8")), (path.name, heading)


def test_every_page_can_be_reached() -> None:
    pages = {ROOT / name for name in (*PAGES, *BESIDE)} - {ROOT / "README.md"}
    listed_paths = {
        path for path, _ in iter_links("docs/llms.txt", (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8"))
    }
    assert {path.relative_to(ROOT) for path in pages - listed_paths - {ROOT / "docs" / "index.md"}} == set()
    site = re.findall(r"[\w/-]+\.md$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    outside_sources = import_tool("documentation_site").OUTSIDE_SOURCES
    assert {ROOT / outside_sources.get(page, f"docs/{page}") for page in site} == pages


def test_named_files_and_targets_exist() -> None:
    text = "".join(PAGES.values())
    names = set(re.findall(r"`((?:kvstore|cext|shell|migrations|tests|tools)/[\w./]*)`", text))
    names |= {"LICENSE"}
    assert [path for path in sorted(names) if not (ROOT / path).exists()] == []
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE)
    assert targets
    assert [target for target in targets if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_links_of_the_repository_become_links_of_the_site() -> None:
    site = import_tool("documentation_site")
    text = (
        "[a](../../setup.py) [b](../../kvstore/language/LANGUAGE.md)\n```\n[c](../x.py)\n```\n"
        "[`d`](../../x.py) ![e](../p.svg)"
    )
    assert site.rewrite_links(text, "docs/how-to/page.md", "how-to/page.md") == (
        "a [b](../language.md)\n```\n[c](../x.py)\n```\n`d` ![e](../p.svg)"
    )
    assert (
        site.rewrite_links("[a](../../CONTRIBUTING.md#x)", "docs/how-to/p.md", "how-to/p.md")
        == "[a](../contributing.md#x)"
    )
    assert site.rewrite_links("[a](../../README.md)", "kvstore/storage/FORMAT.md", "format.md") == "a"


def test_shown_output_is_compared_line_by_line() -> None:
    assert find_difference(["a", "", "in 3.0 s"], ["a ", "in 12 s", ""]) is None
    assert find_difference(["a", "...", "c"], ["a", "b", "b", "c"]) is None
    assert find_difference(["a", "..."], ["a", "b"]) is None
    for expected in (["a"], ["b", "a"], ["a", "b", "c"], ["...", "d"]):
        assert find_difference(expected, ["a", "b"]) is not None


@pytest.mark.slow
def test_statements_of_a_page_are_run_and_compared(tmp_path: Path) -> None:
    folder = tmp_path / "page"
    folder.mkdir()
    with kvstore.open(folder / "shelf", embedder="hashing", settings={"language": "rules"}) as store:
        store.put("soup", "Boil the leeks.")
    page = "```sql\nSELECT key FROM documents;\n```\n\nprints\n\n```text\n key\n------\n {}\n```\n"
    runs = [
        *run_page(
            "<!-- store: shelf -->\n" + page.format("soup") + "<!-- store: shelf -->\n" + page.format("cake"), folder
        ),
    ]
    assert [run.fault for run in runs] == [None, "' cake' is shown, ' soup' is printed"]


def test_every_statement_of_a_page_has_a_store() -> None:
    for name in SHOWING:
        sql_blocks = [block for block in parse_blocks(PAGES[name]) if block.language == "sql" and block.not_run is None]
        assert all(block.store or block.title for block in sql_blocks), name


@pytest.mark.slow
@pytest.mark.parametrize("name", SHOWING)
def test_a_page_prints_the_shown_output(name: str, tmp_path: Path) -> None:
    examples = parse_blocks(PAGES[name])
    imported = re.findall(r"^(?:from|import) (\w+)", "".join(b.text for b in examples if b.language == "python"), re.M)
    for package in sorted({*imported} - {"kvstore"} - {Path(block.title).stem for block in examples if block.title}):
        pytest.importorskip(package)
    folder = tmp_path / "page"
    folder.mkdir()
    (folder / "kvstore").symlink_to(ROOT / "kvstore")  # README speaks of a checkout
    faults = [f"{run.typed}\n  {run.fault}" for run in run_page(PAGES[name], folder) if run.fault is not None]
    assert faults == [], "\n".join(faults)


def test_most_recipes_have_examples_that_are_run() -> None:
    recipes = [name for name in PAGES if name.startswith("docs/recipes/") and name != "docs/recipes/index.md"]
    marked = re.findall(r"\]\((\S+\.md)\) \| (✓?)", PAGES["docs/recipes/index.md"])
    assert {f"docs/recipes/{page}" for page, _ in marked} == set(recipes)
    assert {f"docs/recipes/{page}" for page, mark in marked if mark} == set(recipes) & set(SHOWING)
    assert len(recipes) == 15 and len(set(recipes) & set(SHOWING)) >= 10


@pytest.mark.parametrize(
    "words, page",
    [
        ("fastapi", "recipes/fastapi"),
        ("streamlit", "recipes/streamlit"),
        ("docker", "recipes/docker"),
        ("nginx", "recipes/systemd"),
        ("langgraph", "recipes/langgraph"),
        ("ollama", "recipes/ollama"),
        ("german", "recipes/german"),
        ("duckdb", "recipes/duckdb"),
        ("cron", "recipes/pdf-cron"),
        ("obsidian", "recipes/obsidian"),
        ("memory agent", "recipes/memory"),
        ("tenants", "recipes/tenants"),
        ("s3", "recipes/s3-backup"),
        ("jupyter", "recipes/notebooks"),
        ("refusals", "recipes/refusals"),
        ("wrong answer", "how-to/troubleshoot"),
        ("slow", "how-to/troubleshoot"),
        ("missing document", "how-to/troubleshoot"),
        ("change embedder", "faq"),
        ("windows", "how-to/platforms"),
        ("macos", "how-to/platforms"),
        ("asyncio", "how-to/application"),
        ("haystack", "how-to/frameworks"),
        ("llamaindex", "how-to/frameworks"),
        ("parquet", "recipes/duckdb"),
        ("chroma", "how-to/switch"),
        ("lancedb", "how-to/switch"),
        ("txtai", "how-to/switch"),
    ],
)
def test_words_of_a_search_are_in_a_heading_of_their_page(words: str, page: str) -> None:
    # The search of the site ranks titles and headings first.
    headings = [line.lower() for line in PAGES[f"docs/{page}.md"].splitlines() if line.startswith("#")]
    assert any(all(word in re.findall(r"\w+", heading) for word in words.split()) for heading in headings)


@pytest.mark.slow
def test_tools_take_the_options_shown() -> None:
    used: dict[str, set[str]] = {}
    for path, arguments in re.findall(r"python (tools/\w+\.py)([^`\n]*)", "".join(PAGES.values())):
        used.setdefault(path, set()).update(re.findall(r"--\w[\w-]*", arguments))
    assert used
    for path, options in used.items():
        if options:
            run = subprocess.run([sys.executable, ROOT / path, "--help"], capture_output=True, text=True, check=True)
            assert {option for option in options if option not in run.stdout} == set(), path


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"]
    run = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    index = (tmp_path / "site" / "llms.txt").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^()]+)\)", index)
    assert len(targets) > 20 and [target for target in targets if not (tmp_path / "site" / target).exists()] == []
    assert "kvstore.Store.put" in (tmp_path / "site" / "python.html").read_text(encoding="utf-8")
