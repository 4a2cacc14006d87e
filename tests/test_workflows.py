"""Workflows: what they run is there, and code of others is named by its commit, which nobody can move."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
USES = re.compile(r"^\s*-?\s*uses: (?P<action>\S+)(?P<comment>.*)$", re.MULTILINE)
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def test_there_are_workflows_for_tests_browser_wheels_and_publishing() -> None:
    assert {path.stem for path in WORKFLOWS} == {"browser", "publish", "test", "wheels"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_is_a_file_of_ours_or_a_commit_with_its_version(path: Path) -> None:
    for action, comment in USES.findall(path.read_text(encoding="utf-8")):
        if action.startswith("./"):
            assert (ROOT / action).is_file(), action
        else:
            assert PINNED.fullmatch(action), f"{action} may be moved by its owner; name a commit"
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), f"{action}: which version is this?"


def test_an_action_has_one_version_in_all_workflows() -> None:
    used = {use for path in WORKFLOWS for use in USES.findall(path.read_text(encoding="utf-8"))}
    actions = [action.partition("@")[0] for action, _ in used if not action.startswith("./")]
    assert len(actions) == len(set(actions)), sorted(used)


def test_what_workflows_make_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    made = {
        target for path in WORKFLOWS for target in re.findall(r"run: make ([\w-]+)", path.read_text(encoding="utf-8"))
    }
    assert made <= targets, made - targets


def test_wheels_are_built_for_the_versions_of_python_that_are_named() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = set(re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', project))
    assert set(re.findall(r'"cp3(\d+)-\*"', project)) == named
