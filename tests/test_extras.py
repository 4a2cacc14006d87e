"""Extras are imported on first use, and one error names a missing extra."""

from __future__ import annotations

import doctest
import sys
from pathlib import Path

import pytest

from kvstore import errors
from kvstore.extensions import extras


def test_a_package_that_is_missing_is_named_with_its_extra() -> None:
    assert doctest.testmod(extras) == (0, 2)
    with pytest.raises(
        errors.ReaderError, match=r"^reading DOCX needs python-docx; pip install 'kvstore\[documents\]'$"
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
