"""Sets of numbers as ascending arrays, against Python's sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvstore.structures.id_sets import distinct, without

NUMBERS = st.lists(st.integers(0, 40) | st.integers(0, (1 << 64) - 1), max_size=30)


@given(NUMBERS, NUMBERS)
def test_numbers_are_joined_and_left_out_as_in_sets(some: list[int], others: list[int]) -> None:
    one, other = np.array(some, np.uint64), np.array(others, np.uint64)
    assert distinct(one).tolist() == sorted(set(some))
    assert distinct(one, other).tolist() == sorted({*some, *others})
    assert without(one, other).tolist() == sorted(set(some) - set(others))
    assert distinct(one, other).dtype == without(one, other).dtype == np.uint64
