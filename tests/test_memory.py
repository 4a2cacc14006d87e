"""A process that runs for long does not grow by what has come and gone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from other_process import python, said

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
    with python(CHURN, tmp_path / "store") as process:
        before, after = int(said(process)), int(said(process))
    assert after - before < 5 << 20
