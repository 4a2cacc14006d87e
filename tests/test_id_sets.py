"""Sets of numbers as ascending arrays, against Python's sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvstore.structures.id_sets import merge_distinct, subtract_ids

NUMBERS = st.lists(st.integers(0, 40) | st.integers(0, (1 << 64) - 1), max_size=30)


@given(NUMBERS, NUMBERS)
def test_numbers_are_joined_and_left_out_as_in_sets(some: list[int], others: list[int]) -> None:
    one, other = np.array(some, np.uint64), np.array(others, np.uint64)
    assert merge_distinct(one).tolist() == sorted(set(some))
    assert merge_distinct(one, other).tolist() == sorted({*some, *others})
    assert subtract_ids(one, other).tolist() == sorted(set(some) - set(others))
    assert merge_distinct(one, other).dtype == subtract_ids(one, other).dtype == np.uint64
