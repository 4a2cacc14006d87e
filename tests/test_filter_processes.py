"""The entity filter among processes: a writer killed between and within commits, and readers beside a writer."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvstore.storage.environment import Environment
from kvstore.structures.filter.entity_filter import EntityFilter

#: What both sides know: after step n the names of the last three steps are there, and "clock" has the address n.
COMMON = """
import sys
import numpy as np
from kvstore.structures.filter.entity_filter import EntityFilter
from kvstore.storage.environment import Environment

SEED, EACH = 11, 400

def names_of(step):
    return [f"name {number} of {step}" for number in range(EACH)]

def numbers_of(step):
    return range(2 + step * EACH, 2 + (step + 1) * EACH)

def step_of(filter_):
    return int(filter_.get_addresses("clock")[0]) if filter_.find("clock") else 0

def advance(filter_, step):
    if step == 1:
        filter_.insert("clock", 1)
    filter_.insert_many(names_of(step), numbers_of(step))
    filter_.add_address_lists(names_of(step), [np.arange(n, n + 1 + n % 80, dtype=np.uint64) for n in numbers_of(step)])
    if step > 3:
        for name in names_of(step - 3):
            assert filter_.delete_many([name])
    filter_.remove_addresses("clock", np.array([step - 1], np.uint64))
    filter_.add_addresses("clock", np.array([step], np.uint64))
    filter_.add_hits({"clock": 1})

def faults(filter_):
    step = step_of(filter_)
    found = list(filter_.check())
    if step and filter_.find("clock").temperature != step:
        found.append("the temperature of the clock is wrong")
    for other in range(max(1, step - 5), step + 2):
        there = step - 3 < other <= step
        entities, first = filter_.lookup_many(names_of(other))
        expected = np.array(numbers_of(other)) * there
        if not np.array_equal(entities, expected) or not np.array_equal(first, expected):
            found.append(f"after step {step}, the names of step {other} are not as they should be")
    if filter_.compute_statistics().entities != min(step, 3) * EACH + (step > 0):
        found.append("the number of names is wrong")
    return found
"""

WRITER = (
    COMMON
    + """
with Environment.open(sys.argv[1], durability="relaxed", lock_timeout=30) as environment:
    for _ in range(int(sys.argv[2])):
        with environment.write() as view:
            filter_ = EntityFilter(view, hash_seed=SEED)
            step = step_of(filter_) + 1
            advance(filter_, step)
            filter_.flush()
        print(step, flush=True)
"""
)

READER = (
    COMMON
    + """
steps = set()
with Environment.open(sys.argv[1], readonly=True) as environment:
    print("ready", flush=True)
    while max(steps, default=0) < int(sys.argv[2]):
        with environment.snapshot() as view:
            filter_ = EntityFilter(view, hash_seed=SEED)
            found = faults(filter_)
            if found:
                sys.exit("; ".join(found))
            steps.add(step_of(filter_))
print(len(steps))
"""
)


def start_script(script: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def find_faults(environment: Environment) -> tuple[int, list[str]]:
    """Return the step that a store has reached, and its faults, by the rules of the scripts."""
    rules: dict[str, object] = {}
    exec(COMMON, rules)
    with environment.snapshot() as view:
        filter_ = EntityFilter(view, hash_seed=11)
        return rules["step_of"](filter_), rules["faults"](filter_)  # type: ignore[operator]


@pytest.mark.parametrize("rounds", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_a_killed_writer_leaves_whole_commits(tmp_path: Path, rounds: int) -> None:
    chance = random.Random(rounds)
    reached = 0
    for _ in range(rounds):
        writer = start_script(WRITER, tmp_path / "store", 1000)
        assert writer.stdout is not None
        for _ in range(chance.randint(1, 6)):
            reached = int(writer.stdout.readline())
        time.sleep(chance.uniform(0, 0.03))
        writer.send_signal(signal.SIGKILL)
        reached = max([reached, *map(int, writer.communicate()[0].split())])
        with Environment.open(tmp_path / "store") as environment:
            step, faults = find_faults(environment)
        assert faults == []
        # The last commit may have succeeded without being reported.
        assert reached <= step <= reached + 1
        reached = step
    assert reached > rounds


@pytest.mark.slow
def test_four_processes_read_while_one_writes(tmp_path: Path) -> None:
    steps = 60
    with Environment.open(tmp_path / "store"):
        pass
    readers = [start_script(READER, tmp_path / "store", steps) for _ in range(4)]
    for reader in readers:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "ready\n"
    writer = start_script(WRITER, tmp_path / "store", steps)
    output, errors = writer.communicate(timeout=120)
    assert writer.returncode == 0, errors
    assert output.split()[-1] == str(steps)
    num_steps = []
    for reader in readers:
        output, errors = reader.communicate(timeout=120)
        assert reader.returncode == 0, errors
        num_steps.append(int(output))
    assert max(num_steps) > 3
    with Environment.open(tmp_path / "store") as environment:
        assert find_faults(environment) == (steps, [])
