"""A process that runs for long does not grow by what has come and gone."""

from __future__ import annotations

import mmap
import platform
import sys
from pathlib import Path

import pytest
from other_process import read_line, start_python

from kvstore.storage.free_memory import release_free_memory

#: Puts and deletes documents whose words never come again, and tells its private memory, in bytes, now and then.
CHURN = """
import kvstore

def told():
    with open("/proc/self/smaps_rollup") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith("Anonymous:"))

settings = {"language": "rules"}
with kvstore.open(path, embedder="hashing:16", settings=settings, durability="relaxed") as store:
    for cycle in range(1501):
        words = " ".join(f"Word{cycle}n{number} met Name{cycle}n{number}." for number in range(25))
        store.put(f"key {cycle}", words, title=f"Title {cycle}")
        store.delete(f"key {cycle}")
        if cycle in (700, 1500):
            print(told(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the private memory of a process")
def test_ever_new_names_do_not_stay_in_memory(tmp_path: Path) -> None:
    """With 50 new words a cycle everything that remembers words is full after 700 cycles. What is kept of a word is 300
    bytes or more, so 40,000 further ones would show."""
    with start_python(CHURN, tmp_path / "store") as process:
        before, after = int(read_line(process)), int(read_line(process))
    assert after - before < 5 << 20


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only the C library of GNU is asked to")
def test_freed_memory_is_released() -> None:
    def get_resident_bytes() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    blocks = [bytes(4000) for _ in range(10_000)]
    before = get_resident_bytes()
    del blocks[:-1]  # what lies behind them keeps them from the system
    release_free_memory()
    assert before - get_resident_bytes() > 30_000_000
    assert len(blocks) == 1
