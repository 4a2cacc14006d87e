"""The code never executes data and never writes through a link."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import pytest

import kvstore
from kvstore.errors import InputError

#: Modules that make objects, and so code, of bytes.
MODULES = {"pickle", "cPickle", "dill", "marshal", "shelve", "joblib", "cloudpickle"}


def find_sources() -> list[Path]:
    files = []
    for package in ("kvstore", "kvstore_shell", "kvstore_migrations"):
        spec = find_spec(package)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        files += [path for folder in spec.submodule_search_locations for path in Path(folder).rglob("*.py")]
    assert len(files) > 100
    return files


@pytest.mark.slow
def test_no_data_is_run_as_code() -> None:
    for path in find_sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Import):
                assert MODULES.isdisjoint(alias.name.partition(".")[0] for alias in node.names), where
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] not in MODULES, where
            elif isinstance(node, ast.Call):
                runs_text = isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec", "__import__")
                # It compiles constructors from the names of the fields of classes in the code, as dataclasses does.
                assert not runs_text or path.name == "frozen_dataclass.py", where
                pickles = [word for word in node.keywords if word.arg == "allow_pickle"]
                assert all(isinstance(word.value, ast.Constant) and not word.value.value for word in pickles), where


@pytest.mark.parametrize("leads", ["to nothing", "to a file", "to a folder"])
def test_a_copy_or_an_export_is_not_written_through_a_link(store: kvstore.Store, tmp_path: Path, leads: str) -> None:
    store.put("tea", "Tea is made from leaves.")
    target, link = tmp_path / "elsewhere", tmp_path / "link"
    if leads == "to a file":
        target.write_text("theirs")
    elif leads == "to a folder":
        target.mkdir()
    link.symlink_to(target)
    for write in (store.backup, store.export):
        with pytest.raises(InputError, match="already exists"):
            write(link)
    assert link.is_symlink()
    if leads == "to nothing":
        assert not target.exists()
    elif leads == "to a file":
        assert target.read_text() == "theirs"
    else:
        assert not any(target.iterdir())
