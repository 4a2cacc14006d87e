"""Systems and readers are wings: a copy of the package without most of them still works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import kvstore

SYSTEMS = ("archrag", "bridge", "cft", "hipporag", "raptor", "sprag")
KEPT_READERS = frozenset(
    "__init__ code_languages content_format decoding line_markup markdown markdown_blocks plugin_reader raw_document "
    "scalars text".split()
)

PROGRAM = """
import sys
import kvstore

assert kvstore.__file__.startswith(sys.argv[1]), kvstore.__file__
with kvstore.open(sys.argv[2], embedder="hashing", settings={"language": "rules"}) as store:
    assert store.ingest(sys.argv[3]).added == 2
    store.put("leave", "Parental leave lasts twenty weeks. Maria Jensen approves it.")
    assert "Maria Jensen" in str(store.ask("Who approves parental leave?"))
    assert store.execute("EXPLAIN ASK 'Who approves parental leave?'").fetchall()
    assert len(store.execute("SELECT key FROM documents").fetchall()) == 3
    assert store.check() == []
    names = [strategy.name for strategy in store.strategies()]
    assert "adaptive" in names and "raptor" not in names, names
"""


def test_a_store_works_without_most_systems_and_readers(tmp_path: Path) -> None:
    package = tmp_path / "copy" / "kvstore"
    shutil.copytree(Path(kvstore.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    registry = package / "registry" / "__init__.py"
    source = registry.read_text(encoding="utf-8")
    for system in SYSTEMS:
        shutil.rmtree(package / "systems" / system)
        source, count = re.subn(rf'    "kvstore\.systems\.{system}": .*\n', "", source)
        assert count == 1, system
    registry.write_text(source, encoding="utf-8")
    removed = [path for path in (package / "readers").glob("*.py") if path.stem not in KEPT_READERS]
    assert len(removed) >= 29
    for path in removed:
        path.unlink()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "tea.txt").write_text("Tea grows in Darjeeling.", encoding="utf-8")
    (folder / "milk.md").write_text("# Milk\n\nMilk goes into tea.", encoding="utf-8")
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(package), str(tmp_path / "store"), str(folder)],
        env={**os.environ, "PYTHONPATH": str(package.parent)},
        cwd=tmp_path,
        check=True,
    )
