"""Sets of numbers, such as chunk ids, as ascending arrays.

numpy's own set operations (``unique``, ``union1d``, ``setdiff1d``) load ``numpy.ma`` on their first call, which takes
as long as the rest of a process's first search. These functions do not.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", bound=np.number[Any])


def merge_distinct(*arrays: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return the distinct numbers of one or more arrays, ascending.

    >>> import numpy as np
    >>> merge_distinct(np.array([5, 2]), np.array([2, 9])).tolist()
    [2, 5, 9]
    """
    ordered = np.sort(np.concatenate(arrays))
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    return ordered[is_first]


def subtract_ids(ids: npt.NDArray[Number], removed: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return the distinct ids that are not in ``removed``, ascending.

    >>> import numpy as np
    >>> subtract_ids(np.array([9, 5, 2, 5]), np.array([2, 7])).tolist()
    [5, 9]
    """
    remaining, removed_sorted = merge_distinct(ids), merge_distinct(removed)
    if not len(removed_sorted):
        return remaining
    positions = np.minimum(np.searchsorted(removed_sorted, remaining), len(removed_sorted) - 1)
    difference: npt.NDArray[Number] = remaining[removed_sorted[positions] != remaining]
    return difference
