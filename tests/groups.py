"""Groups of tests, and which of them a change can affect: ``python tests/groups.py [BASE]``.

In: the paths that differ between the commit ``BASE`` and the working tree. Out: two lines, a pytest expression that
selects the slow tests to run, and the names of the groups that are left out. Every group runs if ``BASE`` is missing
or unknown, or if a path belongs to no group. The tests outside the groups always run.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from hypothesis import is_hypothesis_test

if TYPE_CHECKING:
    import pytest

_MAX_FAST_VARIANTS = 2


class Group(NamedTuple):
    """Tests by file name, and patterns of the paths whose changes can affect them."""

    tests: tuple[str, ...]
    paths: tuple[str, ...]


GROUPS = {
    # Files written by foreign programs, and the speed of reading them.
    "readers": Group(
        ("test_document_producers.py", "test_mirrored_site.py"),
        ("kvstore/readers/*", "kvstore/text/*", "kvstore/ingest/*", "tests/document_producers.py"),
    ),
    "tools": Group(
        ("test_bench_*.py", "test_benchmark_page.py", "test_evaluate.py", "test_peers_tables.py"),
        (
            "tools/*.py",
            "tools/everyday_questions/*",
            "tools/note_folders/*",
            "tools/range_folders/*",
            "tools/reader_pages/*",
        ),
    ),
    "explorer": Group(
        ("test_explorer*.py",),
        ("kvstore/integrations/*", "kvstore/rendering/*", "kvstore/answering/*"),
    ),
    "ray": Group(("test_engines.py",), ("kvstore/ingest/*", "kvstore/extraction/*", "kvstore/models/*")),
    # Killed processes, full disks, and each table with each damage.
    "crashes": Group(
        (
            "test_crashes.py",
            "test_damage.py",
            "test_filter_damage.py",
            "test_filter_processes.py",
            "test_full_disk.py",
            "test_page_damage.py",
            "test_processes.py",
        ),
        (
            "cext/*",
            "kvstore/storage/*",
            "kvstore/structures/*",
            "kvstore/changes/*",
            "kvstore/database/*",
            "kvstore/derived/*",
            "migrations/*",
        ),
    ),
}

#: Paths that affect no group beyond the tests that always run.
_CORE_PATHS = (
    "*.md",
    "LICENSE",
    "mkdocs.yml",
    "docs/*",
    ".github/*",
    "kvstore/systems/*",
    "kvstore/registry/*",
    "kvstore/retrieval/*",
    "kvstore/language/*",
    "kvstore/sql/*",
    "kvstore/answering/*",
    "shell/*",
)


def find_group(test_file: str) -> str | None:
    """Return the group of a test file, or None if it always runs."""
    for name, group in GROUPS.items():
        if any(fnmatchcase(test_file, pattern) for pattern in group.tests):
            return name
    return None


def mark_groups(items: Sequence[pytest.Item]) -> None:
    """Mark each test with its group and property tests as such; measuring tools and most of a ``matrix`` are slow."""
    variants: Counter[str] = Counter()
    for item in items:
        group = find_group(item.path.name)
        if group is not None:
            item.add_marker(group)
        if group == "tools":
            item.add_marker("slow")
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("property")
        if item.get_closest_marker("matrix") is not None:
            function = item.nodeid.partition("[")[0]
            variants[function] += 1
            if variants[function] > _MAX_FAST_VARIANTS:
                item.add_marker("slow")


def select_groups(paths: Iterable[str]) -> set[str]:
    """Return the groups that changes of these paths can affect.

    >>> sorted(select_groups(["kvstore/readers/pdf.py", "docs/index.md"]))
    ['readers']
    >>> select_groups(["pyproject.toml"]) == set(GROUPS)
    True
    """
    selected: set[str] = set()
    for path in paths:
        test_group = find_group(Path(path).name) if path.startswith("tests/") else None
        affected = {
            name
            for name, group in GROUPS.items()
            if name == test_group or any(fnmatchcase(path, pattern) for pattern in group.paths)
        }
        is_single_test = path.startswith("tests/test_") and test_group is None
        if not affected and not is_single_test and not any(fnmatchcase(path, pattern) for pattern in _CORE_PATHS):
            return set(GROUPS)
        selected |= affected
    return selected


def list_changed_paths(base: str) -> list[str] | None:
    """Return the paths that differ between a commit and the working tree, or None if there is no such commit."""
    command = ["git", "diff", "--name-only", "--no-renames", base, "--"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.splitlines() if result.returncode == 0 else None


def main(arguments: Sequence[str]) -> None:
    """Print the expression of the selected tests, and the groups that are left out."""
    paths = list_changed_paths(arguments[0]) if arguments and arguments[0] else None
    left_out = sorted(set(GROUPS) - select_groups(paths)) if paths else []
    print(" and not ".join(["(slow or property)", *left_out]))
    print(", ".join(left_out))


if __name__ == "__main__":
    main(sys.argv[1:])
