"""A nameless file that holds what is written once and read at places."""

from __future__ import annotations

import gc
import os
import random
from pathlib import Path

from kvstore.storage.scratch_file import ScratchFile


def count_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def test_written_files_are_read_in_place_and_removed(tmp_path: Path) -> None:
    before = count_descriptors()
    file, expected, choose = ScratchFile(tmp_path), b"", random.Random(3)
    for _ in range(60):
        data = choose.randbytes(choose.choice((0, 3, 900, 70_000)))
        file.append(data)
        expected += data
        assert len(file) == len(expected)
        start, end = sorted(choose.randint(0, len(expected)) for _ in range(2))
        assert file.read(start, end) == expected[start:end]
    assert list(tmp_path.iterdir()) == []
    del file
    gc.collect()
    assert count_descriptors() == before


def test_where_nothing_can_be_written_it_lies_elsewhere(tmp_path: Path) -> None:
    file = ScratchFile(tmp_path / "missing")
    file.append(b"abc")
    assert file.read(1, 3) == b"bc"
