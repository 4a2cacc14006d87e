"""Sets of numbers as ascending arrays, against Python's sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kvstore.structures.id_sets import merge_distinct, subtract_ids

NUMBERS = st.lists(st.integers(0, 40) | st.integers(0, (1 << 64) - 1), max_size=30)


@given(NUMBERS, NUMBERS)
def test_numbers_are_merged_and_subtracted_as_in_sets(left_numbers: list[int], right_numbers: list[int]) -> None:
    left, right = np.array(left_numbers, np.uint64), np.array(right_numbers, np.uint64)
    assert merge_distinct(left).tolist() == sorted(set(left_numbers))
    assert merge_distinct(left, right).tolist() == sorted({*left_numbers, *right_numbers})
    assert subtract_ids(left, right).tolist() == sorted(set(left_numbers) - set(right_numbers))
    assert merge_distinct(left, right).dtype == subtract_ids(left, right).dtype == np.uint64
