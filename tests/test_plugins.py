"""Plug-ins: parts of an installed package are used by name, also by workers, and broken ones are reported.

The example package is ``plugin_package/``.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import page_running
import pytest

import kvstore
from kvstore import errors
from kvstore.extensions import entry_points
from kvstore.models.embedder import EMBEDDERS, open_embedder
from kvstore.readers import READERS
from kvstore.registry.plugin_strategy import STRATEGY_PLUGINS
from kvstore_shell.cli import cli, run

EXAMPLE = Path(__file__).parent / "plugin_package"
POEMS = "= Owls\nThe owl hoots.\n= Tides\nThe sea is wide.\nThe moon will guide.\n= Nothing\n"

Install = Callable[..., Path]


def make_metadata(project: dict[str, object]) -> tuple[str, str]:
    """Return METADATA and entry_points.txt as an installer writes them."""
    groups = project["entry-points"]
    assert isinstance(groups, dict)
    lines = [
        f"[{group}]\n" + "\n".join(f"{name} = {value}" for name, value in points.items())
        for group, points in groups.items()
    ]
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    return head, "\n\n".join(lines) + "\n"


def forget_plugins() -> None:
    """Clear the caches of plugins, as in a new process."""
    entry_points._scan_packages.cache_clear()
    for group in (EMBEDDERS, READERS, STRATEGY_PLUGINS, cli.installed_plugins):  # type: ignore[attr-defined]
        group._loaded_plugins.clear()


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs a package: the example, or a module's text and entry points by group."""
    forget_plugins()
    before = set(sys.modules)

    def install_package(name: str = "", text: str = "", /, version: str = "1.0", **points: dict[str, str]) -> Path:
        site = tmp_path / f"site-{name}-{version}"
        if name:
            groups = {f"kvstore.{group}": entries for group, entries in points.items()}
            project: dict[str, object] = {"name": name, "version": version, "entry-points": groups}
            site.mkdir()
            (site / f"{name}.py").write_text(text, encoding="utf-8")
        else:
            with (EXAMPLE / "pyproject.toml").open("rb") as file:
                project = tomllib.load(file)["project"] | {"version": version}
            shutil.copytree(EXAMPLE / "kvstore_poems", site / "kvstore_poems")
        folder = site / f"{str(project['name']).replace('-', '_')}-{version}.dist-info"
        folder.mkdir()
        for file_name, content in zip(("METADATA", "entry_points.txt"), make_metadata(project), strict=True):
            (folder / file_name).write_text(content, encoding="utf-8")
        monkeypatch.syspath_prepend(str(site))
        forget_plugins()
        return site

    yield install_package
    forget_plugins()
    for module in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[module], "__file__", None)):
            del sys.modules[module]


def find_problems() -> dict[str, str]:
    """Return the reported problems by name (of a group, if the group has the problem)."""
    return {plugin.name: plugin.problem for plugin in kvstore.plugins() if plugin.problem is not None}


# -- The example


def test_a_store_made_with_an_embedder_object_opens_by_name(
    install: Install, make_store: Callable[..., kvstore.Store]
) -> None:
    install()
    from kvstore_poems import LetterEmbedder  # type: ignore[import-not-found]

    with make_store(embedder=LetterEmbedder("12")) as store:
        store.put("owl", "Aaa bbb.")
        assert (store.embedder.name, store.settings.dimension) == ("letters:12", 12)
    with make_store() as store:
        store.put("jay", "Lll kkk.")
        assert [hit.document for hit in store.search("k", using="vector", top=1)] == ["jay"]
        assert store.embedder.poor
    assert make_store("other", embedder="letters").settings.dimension == 26


@pytest.mark.parametrize("workers", [0, 1])
def test_a_reader_takes_its_files_from_folders(
    install: Install, make_store: Callable[..., kvstore.Store], tmp_path: Path, workers: int
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.poem").write_text(POEMS)
    os.utime(folder / "a.poem", (1, 1))
    store = make_store()
    assert store.ingest(folder, workers=0).skipped_by == {"suffix .poem": 1}
    install()
    report = store.ingest(folder, workers=workers)
    assert [failure.place for failure in report.failures] == [f"{folder / 'a.poem'}: Nothing"]
    assert store.keys() == ["a.poem#0", "a.poem#1"]
    document = store.get("a.poem#1")
    assert document is not None
    assert (document.title, document.meta) == ("Tides", {"lines": 2})


@pytest.mark.slow
def test_the_reader_of_markitdown_that_the_documentation_shows_reads_old_workbooks(
    install: Install, make_store: Callable[..., kvstore.Store], tmp_path: Path
) -> None:
    pytest.importorskip("markitdown")
    page = page_running.ROOT / "docs" / "how-to" / "files.md"
    files = {block.title: block.text for block in page_running.parse_blocks(page.read_text(encoding="utf-8"))}
    points = tomllib.loads(files["pyproject.toml"])["project"]["entry-points"]["kvstore.readers"]
    install("kvstore_markitdown", files["kvstore_markitdown.py"], readers=points)
    workbook = pytest.importorskip("xlwt").Workbook()
    sheet = workbook.add_sheet("Lamps")
    for place, text in {(0, 0): "lamp", (0, 1): "keeper", (1, 0): "Gannet Rock", (1, 1): "Elias Thornbury"}.items():
        sheet.write(*place, text)
    workbook.save(str(tmp_path / "lamps.xls"))
    (tmp_path / "bad.xls").write_bytes(b"\x00\xff")
    store = make_store()
    report = store.ingest([tmp_path / "lamps.xls", tmp_path / "bad.xls"])
    assert [failure.place for failure in report.failures] == [str(tmp_path / "bad.xls")]
    document = store.get("lamps.xls")
    assert document is not None and "| Gannet Rock | Elias Thornbury |" in document.text
    assert {place.document for place in store.lookup("Elias Thornbury")} == {"lamps.xls"}


def test_workers_know_the_embedder_and_the_reader(
    install: Install, make_store: Callable[..., kvstore.Store], tmp_path: Path
) -> None:
    install()
    (tmp_path / "b.txt").write_text("= Jays\nThe jay jabbers.\n")
    store = make_store(embedder="letters:20")
    # As text is what its suffix says; more than one worker embeds where it has read.
    store.execute(f"INGEST '{tmp_path / 'b.txt'}' AS poems WITH (workers = 2)")
    assert store.keys() == ["b.txt#0"]
    assert store.check() == []


def test_a_file_is_read_again_by_another_version_of_its_reader(
    install: Install, make_store: Callable[..., kvstore.Store], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvstore.ingest.file_visit.SETTLED_SECONDS", 0)
    (tmp_path / "a.poem").write_text("= Owls\nThe owl hoots.\n")
    store = make_store()
    install()
    assert store.ingest(tmp_path / "a.poem", workers=0).added == 1
    assert store.ingest(tmp_path / "a.poem", workers=0).known == 1
    install(version="2.0")
    report = store.ingest(tmp_path / "a.poem", workers=0)
    assert (report.known, report.unchanged) == (0, 1)


def test_a_strategy_is_asked_by_name_and_listed(install: Install, store: kvstore.Store) -> None:
    store.put("tea", "Tea grows in China.")
    store.put("sea", "The sea is salt.")
    with pytest.raises(errors.UnknownStrategyError, match="'rhymes'"):
        store.retrieve("What of the sea?", using="rhymes")
    install()
    assert [row[2] for row in store.execute("RETRIEVE 'Has tea to do with the sea?' USING Rhymes")] == ["sea"]
    assert [hit.document for hit in store.retrieve("tea or the sea", using="rhymes", options={"words": 4}).hits] == [
        "sea",
        "tea",
    ]
    assert "rhymes" in {name for name, _ in store.execute("SHOW STRATEGIES")}
    assert ("option words", "how many words at the end of the question count (1 to 9, by default 1)") in store.execute(
        "DESCRIBE STRATEGY rhymes"
    ).fetchall()
    store.set("strategy", "rhymes")
    assert store.ask("Where does it grow, in China?").citations[0].document == "tea"
    with pytest.raises(errors.UnknownStrategyError, match="did you mean rhymes"):
        store.retrieve("x", using="rhyme")


def test_commands_of_plugins_are_listed_after_those_of_kvstore(
    install: Install, make_store: Callable[..., kvstore.Store], capsys: pytest.CaptureFixture[str]
) -> None:
    install()
    path = make_store().path
    assert run(["poem-count", str(path)]) == 0
    assert run(["plugins"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "0 poems",
        "kind\tname\tpackage\tversion\tstate",
        "embedder\tletters\tkvstore-poems\t1.0\tused",
        "reader\tpoems\tkvstore-poems\t1.0\tused",
        "strategy\trhymes\tkvstore-poems\t1.0\tused",
        "command\tpoem-count\tkvstore-poems\t1.0\tused",
    ]
    assert run(["poem-counts", str(path)]) == 2
    assert "No such command 'poem-counts'" in capsys.readouterr().err


def test_nothing_is_looked_for_before_it_is_needed(make_store: Callable[..., kvstore.Store], tmp_path: Path) -> None:
    make_store().put("a", "The harbour.")
    code = (
        "import sys, kvstore; from kvstore_shell.cli import run\n"
        f"assert run(['--help']) == 0 and kvstore.open({str(tmp_path / 'store')!r}).search('harbour', using='hybrid')\n"
        "assert 'importlib.metadata' not in sys.modules"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "kvstore plugins lists the added commands" in " ".join(result.stdout.split())


# -- What is broken


def test_unusable_plugins_are_named_and_stop_nothing(
    install: Install, make_store: Callable[..., kvstore.Store], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install()
    text = "import sys\nNOTHING = 1\ndef strategy():\n    return 1\ndef ending():\n    sys.exit(3)\n"
    install(
        "faulty",
        text,
        embedders={"soup": "faulty:gone", "nothing": "faulty:NOTHING", "hashing": "faulty:strategy"},
        readers={"ink": "missing_module", "bare": "faulty"},
        strategies={"one": "faulty:strategy", "ends": "faulty:ending"},
        commands={"info": "faulty:NOTHING", "wrong": "faulty:NOTHING"},
        painters={"x": "faulty"},
    )
    install("poetical", "suffixes = ['.poem']\nread = print\n", readers={"poems": "poetical"})
    assert find_problems() == {
        "hashing": "kvstore itself already uses this name",
        "soup": "AttributeError: module 'faulty' has no attribute 'gone'",
        "nothing": "it must be a class or function that returns an embedder, not 1",
        "ink": "ModuleNotFoundError: No module named 'missing_module'",
        "bare": "its suffixes must be a tuple of lowercase suffixes such as '.adoc', not None",
        "poems": "kvstore-poems and poetical all add this name",
        "one": "it makes 1, which is not a strategy: it has no name and no description and no options and no retrieve",
        "ends": "SystemExit: 3",
        "kvstore.painters": "kvstore has no such entry points; there are kvstore.embedders, kvstore.readers, "
        "kvstore.strategies, kvstore.commands",
    }
    # All else goes on.
    assert open_embedder("hashing:8").embed(["a"]).shape == (1, 8)
    assert open_embedder("letters").dimension == 26
    store = make_store()
    assert store.execute("SHOW STRATEGIES").fetchall()[-1][0] == "rhymes"
    (tmp_path / "a.ink").write_text("ink")
    (tmp_path / "a.md").write_text("# Ink")
    report = store.ingest([tmp_path / "a.md", tmp_path / "a.ink"], workers=0)
    assert report.added == 2
    assert (
        "the reader 'ink' of the package faulty 1.0 was not used: ModuleNotFoundError: No module" in report.remarks[1]
    )
    # A request for it gets an error.
    soup = r"the embedder 'soup' of the package faulty 1.0 cannot be used: Attr.*; fix the package, or uninstall it"
    with pytest.raises(errors.PluginError, match=soup):
        open_embedder("soup:1")
    with pytest.raises(errors.PluginError, match="the reader 'ink'"):
        store.ingest(tmp_path / "a.ink", format="ink")
    with pytest.raises(errors.PluginError, match="the strategy 'ends' .*SystemExit"):
        store.retrieve("x", using="ends")
    assert run(["wrong"]) == 1
    assert run(["info", str(store.path), "--mode", "tsv"]) == 0
    out, error = capsys.readouterr()
    assert error == (
        "error: the command 'wrong' of the package faulty 1.0 cannot be used: it is not a click command, but 1; fix "
        "the package, or uninstall it\n"
    )
    assert "documents\t2" in out


def test_metadata_that_cannot_be_read_stop_nothing(install: Install) -> None:
    site = install("muddled", "", embedders={"soup": "muddled:soup"})
    (site / "muddled-1.0.dist-info" / "entry_points.txt").write_text("[kvstore.embedders]\nsoup\n")
    garbled = install("garbled", "", embedders={"soup": "garbled:soup"})
    (garbled / "garbled-1.0.dist-info" / "entry_points.txt").write_bytes(b"[kvstore.embedders]\nsoup = \xff\n")
    install()
    assert "its entry points cannot be read" in find_problems()[""]
    assert open_embedder("letters").dimension == 26


#: A package whose parts load, and fail when they are used.
FAILING = """
class Embedder:
    dimension = 4
    def __init__(self, rest="failing"):
        if rest == "none": raise RuntimeError("no model")
        self.name = "other" if rest == "other" else "failing" if rest == "failing" else "failing:" + rest
    def embed(self, texts):
        if self.name == "failing:flat": return [[1.0, 2.0]]
        if self.name == "failing:large": return [[10**400, 0, 0, 0]]
        raise RuntimeError("out of order")
    embed_query = embed

class Strategy:
    name, description, options = "failing", "fails", {}
    def retrieve(self, query):
        return {}["x"] if query.question == "x" else 5

suffixes = [".bad"]
def read(stream, origin, options):
    if stream.read() == b"number": yield 5
    raise KeyError("colour")
"""


def test_a_failing_plugin_is_named_in_the_error(
    install: Install, make_store: Callable[..., kvstore.Store], tmp_path: Path
) -> None:
    names = {"failing": "failing:Embedder"}
    install("failing", FAILING, embedders=names, strategies={"failing": "failing:Strategy"}, readers={"bad": "failing"})
    whose = "of the package failing 1.0"
    for name, message in (
        ("failing:none", rf"the embedder 'failing' {whose} failed \(RuntimeError: no model\)"),
        ("failing:other", rf"{whose} has the name 'other', by which no store could find it again"),
        ("failing", rf"{whose} failed \(RuntimeError: out of order\)"),
        ("failing:flat", rf"{whose} returned vectors of shape \(1, 2\).*must be \(1, 4\)"),
        ("failing:large", rf"{whose} returned no vectors, but .*\(OverflowError: .*must be \(1, 4\)"),
    ):
        with pytest.raises(errors.EmbedderError, match=message):
            open_embedder(name).embed(["a"])
    with pytest.raises(errors.EmbedderError, match="failed"):
        open_embedder("failing", colour=5)
    store = make_store()
    with pytest.raises(errors.PluginError, match=rf"the strategy 'failing' {whose} failed \(KeyError: 'x'\)"):
        store.retrieve("x", using="failing")
    with pytest.raises(errors.PluginError, match="returned 5 instead of evidence"):
        store.retrieve("y", using="failing")
    (tmp_path / "a.bad").write_text("number")
    (tmp_path / "b.bad").write_text("colour")
    (tmp_path / "c.txt").write_text("good")
    for workers in (0, 1):
        report = store.ingest([tmp_path / name for name in ("a.bad", "b.bad", "c.txt")], workers=workers)
        assert [failure.reason for failure in report.failures] == [
            f"the reader 'bad' {whose}: it yielded 5, which is not a kvstore.RawDocument",
            f"the reader 'bad' {whose} failed (KeyError: 'colour')",
        ]
        assert store.keys() == ["c.txt"]
    failing = make_store("failing", embedder="failing", settings={"dimension": 4})
    with pytest.raises(errors.EmbedderError, match="out of order"):
        failing.ingest(tmp_path / "c.txt", workers=1)


def test_a_store_with_a_missing_package_reports_it(
    install: Install, make_store: Callable[..., kvstore.Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = install()
    with make_store(embedder="letters") as store:
        store.put("owl", "The owl hoots.")
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(site)])
    forget_plugins()
    store = make_store()
    assert store.search("owl", using="lexical")[0].document == "owl"
    with pytest.raises(errors.EmbedderError, match="embedder 'letters' is unknown; .*install the package that"):
        store.search("owl", using="vector")


# -- Installed in earnest


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["processes", "ray://local"])
def test_an_installed_package_is_found_by_every_worker(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine != "processes":
        request.getfixturevalue("exclusive_ray")
    package, site, folder = tmp_path / "package", tmp_path / "site", tmp_path / "folder"
    shutil.copytree(EXAMPLE, package)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--target",
        str(site),
    ]
    subprocess.run([*pip, str(package)], check=True)
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.poem").write_text(POEMS)
    code = (
        "import sys, kvstore\n"
        "with kvstore.open('store', embedder='letters', settings={'language': 'rules'}) as store:\n"
        f"    report = store.ingest({str(folder)!r}, workers=2, engine={engine!r})\n"
        "    assert (report.added, len(report.failures), store.check()) == (8, 4, []), report\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), os.environ.get("PYTHONPATH", "")])}
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
