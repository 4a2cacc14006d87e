"""Extras are imported on first use, and one error names a missing extra."""

from __future__ import annotations

import doctest
import re
import sys
from pathlib import Path

import pytest

from kvstore import errors
from kvstore.extensions import extras

ROOT = Path(__file__).resolve().parent.parent


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    assert doctest.testmod(extras) == (0, 3)
    with pytest.raises(
        errors.ReaderError, match=r"^reading DOCX needs python-docx; pip install 'kvstore-db\[documents\]'$"
    ):
        extras.import_extra("no_docx", "documents", "reading DOCX", package="python-docx", error=errors.ReaderError)


def test_a_package_with_a_missing_dependency_raises_its_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_a_package.py").write_text("import what_it_lacks\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "half_a_package", raising=False)
    with pytest.raises(ModuleNotFoundError, match="what_it_lacks"):
        extras.import_extra("half_a_package", "arrow", "this")


def test_nothing_installs_the_project_that_has_the_name_kvstore_on_the_package_index() -> None:
    folders = ("kvstore", "shell", "migrations", "docs", "tools", "tests", ".github")
    suffixes = {".py", ".md", ".toml", ".yml", ".txt", ".json", ".1"}
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    paths += [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "pyproject.toml")]
    pattern = re.compile(r"pip install .*\bkvstore(?!-db)\b|[\"']kvstore\[")
    lines = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in paths
        if path != Path(__file__)
        for line in path.read_text(encoding="utf-8").splitlines()
        if pattern.search(line)
    ]
    assert lines == []
