"""The package: what importing it loads, what is installed, and that a wheel works where there is no checkout."""

from __future__ import annotations

import email
import hashlib
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("kvstore", "kvstore_cext", "kvstore_migrations", "kvstore_shell")
HEAVY = (
    "torch",
    "spacy",
    "sentence_transformers",
    "transformers",
    "sklearn",
    "pypdf",
    "docx",
    "apsw",
    "prompt_toolkit",
)


MODELS = {"torch", "spacy", "sentence_transformers", "transformers", "tokenizers", "onnxruntime", "onnx", "hnswlib"}


def list_modules_after(code: str, *, cwd: Path | None = None) -> set[str]:
    run = subprocess.run(
        [sys.executable, "-c", f"import json, sys\n{code}\nprint(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
    )
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_importing_kvstore_loads_nothing_heavy() -> None:
    assert list_modules_after("import kvstore").isdisjoint({*HEAVY, "lark", "lmdb", "numpy"})


def test_using_a_store_without_a_model_loads_no_model(tmp_path: Path) -> None:
    code = """
import kvstore
with kvstore.open("store", embedder="hashing", settings={"language": "rules"}) as store:
    store.put("tea", "Tea is made from the leaves of Camellia sinensis.", title="Tea")
    assert store.ask("What is tea made from?").citations
"""
    assert list_modules_after(code, cwd=tmp_path).isdisjoint(MODELS)


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["shell", "store"],
        ["shell", "store", "-c", "LOOKUP 'tea'", "-c", "EXPAND 'tea' UP", "-c", "SELECT * FROM documents, entities"],
        ["info", "store"],
    ],
)
def test_commands_without_a_model_import_no_model_library(tmp_path: Path, arguments: list[str]) -> None:
    import kvstore

    with kvstore.open(tmp_path / "store") as store:
        assert store.settings_table()[0][:2] == ("embedder", "all-MiniLM-L6-v2")
        store.execute("INSERT EDGE 'tea' UNDER 'drinks'")
    code = f"""
import contextlib, io
from kvstore_shell.cli import main
sys.argv = ["kvstore", *{arguments!r}]
try:
    with contextlib.redirect_stdout(io.StringIO()):
        main()
except SystemExit as ended:
    assert not ended.code, ended.code
"""
    assert list_modules_after(code, cwd=tmp_path).isdisjoint(MODELS)


def test_the_packages_are_installed_typed_and_have_one_version() -> None:
    import kvstore

    assert importlib.metadata.version("kvstore-db") == kvstore.__version__
    for package in PACKAGES:
        spec = importlib.util.find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        assert (Path(spec.origin).parent / "py.typed").is_file(), package


def test_every_dependency_is_imported_somewhere_and_has_a_lower_bound() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    modules = {"markdown-it-py": "markdown_it", "prompt-toolkit": "prompt_toolkit"}
    source = "\n".join(
        path.read_text() for folder in ("kvstore", "shell", "migrations") for path in (ROOT / folder).rglob("*.py")
    )
    for requirement in project["dependencies"]:
        name, bound, _ = requirement.partition(">=")
        assert bound, requirement
        module = modules.get(name, name)
        assert f"import {module}" in source or f"from {module}" in source, f"{name} is not used"


@pytest.mark.slow
def test_the_tour_is_installed_without_torch_and_without_tests(tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("no make")
    command = ["make", "--dry-run", "--no-print-directory", "demo", f"VENV={tmp_path / 'venv'}"]
    planned = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    installed = re.findall(r"pip install --quiet --no-compile (.*?) &", planned)
    assert installed == [
        f"--requirement {tmp_path}/venv/dependencies.txt",
        "--no-deps --editable tools/english --editable .",
    ]
    program = re.search(r"python -c '(.*)' >", planned)
    assert program is not None
    listed = subprocess.run([sys.executable, "-c", program[1]], cwd=ROOT, capture_output=True, text=True, check=True)
    projects = [tomllib.loads((ROOT / folder / "pyproject.toml").read_text()) for folder in (".", "tools/english")]
    assert listed.stdout.split() == [name for project in projects for name in project["project"]["dependencies"]]


def test_make_installs_the_checkout_and_not_a_copy() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installs = re.findall(r"pip install (.*'\..*')$", makefile, re.MULTILINE)
    assert installs and all("--editable" in options for options in installs), installs


def test_the_source_archive_has_every_file_of_the_checkout() -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if tracked.returncode:
        pytest.skip("no checkout of git")
    command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, folder], cwd=ROOT, check=True, capture_output=True)
        (listed,) = Path(folder).glob("*.egg-info/SOURCES.txt")
        files = set(listed.read_text(encoding="utf-8").splitlines())
    missing = {path for path in tracked.stdout.splitlines() if (ROOT / path).is_file()} - files
    assert not missing


def test_the_metadata_name_an_author_and_link_to_the_repository(tmp_path: Path) -> None:
    environment = {**os.environ, "KVSTORE_REPOSITORY": "https://forge.example/kvstore/"}
    command = [sys.executable, "setup.py", "-q", "egg_info", "--egg-base", tmp_path]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    (info,) = tmp_path.glob("*.egg-info/PKG-INFO")
    metadata = email.message_from_string(info.read_text(encoding="utf-8"))
    assert metadata["Author"] == "The kvstore authors"
    assert metadata["Description-Content-Type"] == "text/markdown"
    urls = dict(url.split(", ") for url in metadata.get_all("Project-URL", []))
    assert urls.keys() == {"Repository", "Documentation", "Changelog", "Issues"}
    links = re.findall(r"\]\(([^)]*)\)", metadata.get_payload())
    assert len(links) > 20 and all(re.match("https://|#", link) for link in links)
    assert f"https://forge.example/kvstore/blob/v{metadata['Version']}/docs/tutorial.md" in links


@pytest.mark.parametrize(
    ("root", "bill_path", "folders"),
    [
        (ROOT, "kvstore.cdx.json", ("kvstore", "cext", "shell", "migrations")),
        (ROOT / "tools" / "english", "kvstore_english/kvstore_english.cdx.json", ("kvstore_english",)),
    ],
)
def test_the_bill_names_everything_in_the_package_that_others_made(
    root: Path, bill_path: str, folders: tuple[str, ...]
) -> None:
    bill = json.loads((root / bill_path).read_text(encoding="utf-8"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.6")
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert bill["metadata"]["component"]["name"] == project["name"]
    assert bill["metadata"]["component"]["licenses"] == [{"expression": project["license"]}]
    references = [component["bom-ref"] for component in bill["components"]]
    assert references == bill["compositions"][0]["assemblies"]
    assert all((root / path).exists() for path in references)
    # Code and documentation are written here, and so is the sample; any other file in a package came from somewhere.
    # The explorer's pages are ours, but what its folder ``vendor`` holds; the list of that is.
    ours = {".py", ".pyx", ".pxi", ".pyi", ".lark", ".typed", ".md", ".so", ".c", ".pyc", ".json", ".toml", ""}
    pages = {".html", ".css", ".js", ".svg"}
    strangers = {
        path.relative_to(root).as_posix()
        for folder in folders
        for path in (root / folder).rglob("*")
        if path.is_file() and path.suffix not in ours and "sample" not in path.parts
        if not (path.suffix in pages and "vendor" not in path.parts) and not path.name.startswith("LICENSE.")
    }
    assert {path for path in strangers if not path.startswith(tuple(references))} == set()


@pytest.mark.slow
def test_the_english_wheel_is_small_and_has_every_file_of_the_pipeline(tmp_path: Path) -> None:
    source = tmp_path / "english"
    shutil.copytree(
        ROOT / "tools" / "english", source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
    )
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, source]  # through the archive
    subprocess.run(command, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.stat().st_size <= 12_000_000 + 25_000_000  # the answer reader has at most 25 MB
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    files = {path.relative_to(source).as_posix() for path in (source / "kvstore_english").rglob("*") if path.is_file()}
    assert files <= names
    assert {name.partition("/")[0] for name in names - files} == {"kvstore_db_english-1.2.dist-info"}
    assert "kvstore_db_english-1.2.dist-info/licenses/LICENSE.md" in names


def build_kernel(folder: Path, source: Path, environment: dict[str, str]) -> bytes:
    """Return the smallest kernel, built from the checkout ``source`` in its own folder."""
    (folder / "cext").mkdir(parents=True)
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "cext/__init__.py", "cext/folding.pyx"):
        shutil.copy(source / name, folder / name)
    for path in (path for pattern in ("*.pxd", "*.pxi") for path in (source / "cext").glob(pattern)):
        shutil.copy(path, folder / "cext")  # Cython names what a kernel depends on at the head of its translation
    for package in ("kvstore", "shell", "migrations"):
        (folder / package).symlink_to(source / package)
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", "built"]
    subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
    (built,) = (folder / "built" / "kvstore_cext").glob("folding.*")
    return built.read_bytes()


@pytest.mark.slow
@pytest.mark.long
def test_a_wheel_built_from_the_source_archive_works_outside_the_checkout(tmp_path: Path) -> None:
    source = tmp_path / "source"
    ignored = shutil.ignore_patterns(".venv", ".git", "build", "dist", "*.egg-info", "*.so", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, source, ignore=ignored, symlinks=True)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COV_"))}

    def run_command(*command: str | Path, cwd: Path = tmp_path) -> str:
        done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
        return done.stdout

    # Without options, build makes the wheel from the archive, so that the archive must hold everything.
    environment["SOURCE_DATE_EPOCH"] = "1700000000"
    environment["CFLAGS"] = "-O0"  # how fast the kernels are is no matter here, and optimising them takes a minute
    run_command(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path / "dist", source)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    (archived,) = (tmp_path / "dist").glob("*.tar.gz")
    for path in source.rglob("*"):
        os.utime(path)
    again = source.rename(tmp_path / "elsewhere")
    run_command(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", tmp_path / "again", again)
    assert (tmp_path / "again" / archived.name).read_bytes() == archived.read_bytes()
    source = again
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        assert {member.date_time for member in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}
        bill = next(archive.read(name) for name in names if name.endswith(".dist-info/sboms/kvstore.cdx.json"))
        kernel = next(archive.read(name) for name in names if name.startswith("kvstore_cext/folding."))
        entries = next(archive.read(name) for name in names if name.endswith(".dist-info/entry_points.txt"))
        views = next(archive.read(name) for name in names if name.startswith("kvstore_cext/hnsw."))
    assert b"kvstore = kvstore.integrations.sqlalchemy_dialect:KvstoreDialect" in entries
    assert bill == (ROOT / "kvstore.cdx.json").read_bytes()
    built = build_kernel(tmp_path / "a folder of another name", source, environment)
    assert hashlib.sha256(kernel).digest() == hashlib.sha256(built).digest()
    # Views of arrays are compiled once, not into each kernel that takes arrays.
    assert any(name.startswith("kvstore_cext/shared_utility.") for name in names)
    assert b"kvstore_cext.shared_utility" in views
    beside = {name.partition(".data/")[2] for name in names if ".data/" in name}
    assert beside == {"data/share/man/man1/kvstore.1"}
    assert {name.partition("/")[0] for name in names if not re.search(r"\.(dist-info|data)/", name)} == set(PACKAGES)
    for package, folder in zip(PACKAGES, ("kvstore", "cext", "migrations", "shell"), strict=True):
        files = {
            path.relative_to(source / folder).as_posix() for path in (source / folder).rglob("*") if path.is_file()
        }
        expected = {f"{package}/{file}" for file in files if not file.endswith((".c", ".pyx", ".pxi", ".pxd"))}
        assert expected <= set(names), expected - set(names)
    assert any(name.startswith("kvstore/sample/") for name in names)
    assert not [name for name in names if name.endswith((".c", ".pyx"))]
    assert any(name.endswith("licenses/LICENSE") for name in names)

    installed = tmp_path / "installed"
    run_command(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", installed, wheel)
    environment["PYTHONPATH"] = str(installed)
    environment["PATH"] = str(tmp_path / "no compiler")
    code = """
import kvstore, kvstore_cext, kvstore_migrations, kvstore_shell
print([module.__file__ for module in (kvstore, kvstore_cext, kvstore_migrations, kvstore_shell)])
with kvstore.open("store", embedder="hashing", settings={"language": "rules"}) as store:
    store.put("tea", "Tea is made from the leaves of Camellia sinensis.", title="Tea")
    print(store.ask("What is tea made from?").citations[0].document, store.check())
"""
    paths, answer = run_command(sys.executable, "-c", code).splitlines()
    assert paths.count(str(installed)) == len(PACKAGES)
    assert answer == "tea []"
    shell = [sys.executable, "-c", "from kvstore_shell.cli import main; main()"]
    assert "tea" in run_command(*shell, "shell", "store", "-c", "SELECT key FROM documents")
    assert run_command(*shell, "demo")
