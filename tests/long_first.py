"""Order tests for several processes: each process begins with its share of the long tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def put_long_first(items: Sequence[Item], is_long: Callable[[Item], bool], processes: int) -> list[Item]:
    """Return the items in parts of equal length, one per process, that each begin with their share of the long ones.

    ``worksteal`` of pytest-xdist gives each process one part, in order; an idle process takes from another's end.
    """
    long = [item for item in items if is_long(item)]
    others = iter([item for item in items if not is_long(item)])
    ordered: list[Item] = []
    for process in range(processes):
        share_of_long = long[process::processes]
        share = (len(items) - len(ordered)) // (processes - process)
        ordered += [*share_of_long, *islice(others, max(0, share - len(share_of_long)))]
    return [*ordered, *others]
