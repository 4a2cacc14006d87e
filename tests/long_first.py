"""The order in which processes that share tests run them: each begins with its share of those that take long."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")


def long_first(items: Sequence[Item], is_long: Callable[[Item], bool], processes: int) -> list[Item]:
    """The items in parts of equal length, one a process, that each begin with their share of the long ones.

    So pytest-xdist's ``worksteal`` hands them out: a part each, in order; who is done takes from another's end.
    """
    long = [item for item in items if is_long(item)]
    rest = iter([item for item in items if not is_long(item)])
    ordered: list[Item] = []
    for process in range(processes):
        first = long[process::processes]
        share = (len(items) - len(ordered)) // (processes - process)
        ordered += [*first, *islice(rest, max(0, share - len(first)))]
    return [*ordered, *rest]
