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
    sorted_numbers = np.sort(np.concatenate(arrays))
    is_first = np.ones(len(sorted_numbers), np.bool_)
    np.not_equal(sorted_numbers[1:], sorted_numbers[:-1], out=is_first[1:])
    return sorted_numbers[is_first]


def subtract_ids(ids: npt.NDArray[Number], removed_ids: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return the distinct ``ids`` that are not in ``removed_ids``, ascending.

    >>> import numpy as np
    >>> subtract_ids(np.array([9, 5, 2, 5]), np.array([2, 7])).tolist()
    [5, 9]
    """
    distinct_ids, removed_sorted = merge_distinct(ids), merge_distinct(removed_ids)
    if not len(removed_sorted):
        return distinct_ids
    positions = np.minimum(np.searchsorted(removed_sorted, distinct_ids), len(removed_sorted) - 1)
    difference: npt.NDArray[Number] = distinct_ids[removed_sorted[positions] != distinct_ids]
    return difference
