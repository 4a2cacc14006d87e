"""Products of matrices: correct, and each row has the same bits whatever the other rows are."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvstore_cext.row_products import compute_row_dots, compute_row_products, compute_selected_row_dots

Matrix = npt.NDArray[np.float32]
SHAPES = st.tuples(st.integers(0, 230), st.integers(0, 60), st.integers(0, 50))


def compute_product(x: Matrix, w: Matrix) -> Matrix:
    out = np.full((len(x), len(w)), np.nan, np.float32)
    compute_row_products(x, w, out)
    return out


def make_matrix(rows: int, columns: int, seed: int) -> Matrix:
    return np.random.default_rng(seed).standard_normal((rows, columns), np.float32)


@given(SHAPES, st.integers(0, 1000))
def test_a_product_is_numpys_but_for_rounding(shape: tuple[int, int, int], seed: int) -> None:
    rows, length, columns = shape
    x, w = make_matrix(rows, length, seed), make_matrix(columns, length, seed + 1)
    assert np.allclose(compute_product(x, w), x.astype(float) @ w.astype(float).T, atol=1e-4)


@given(SHAPES, st.data())
def test_a_row_of_it_depends_on_no_other_row(shape: tuple[int, int, int], data: st.DataObject) -> None:
    rows, length, columns = shape
    x, w = make_matrix(rows, length, 1), make_matrix(columns, length, 2)
    chosen = data.draw(st.lists(st.integers(0, rows - 1), max_size=120)) if rows else []
    assert compute_product(x[chosen], w).tobytes() == compute_product(x, w)[chosen].tobytes()


def test_shapes_that_do_not_fit_are_refused() -> None:
    for x, w, out in [((2, 3), (4, 5), (2, 4)), ((2, 3), (4, 3), (2, 3)), ((2, 3), (4, 3), (3, 4))]:
        with pytest.raises(ValueError, match="do not match"):
            compute_row_products(make_matrix(*x, 1), make_matrix(*w, 2), make_matrix(*out, 3))


@given(SHAPES, st.integers(0, 1000))
def test_a_product_with_a_vector_is_numpys_and_a_row_of_it_depends_on_no_other(
    shape: tuple[int, int, int], seed: int
) -> None:
    rows, length, _ = shape
    x, y = make_matrix(rows, length, seed), make_matrix(1, length, seed + 1)[0]
    out = np.full(rows, np.nan, np.float32)
    compute_row_dots(x, y, out)
    assert np.allclose(out, x.astype(float) @ y.astype(float), atol=1e-4)
    alone = np.full(1, np.nan, np.float32)
    for row in range(rows):
        compute_row_dots(x[row : row + 1], y, alone)
        assert alone.tobytes() == out[row : row + 1].tobytes()
    chosen = np.random.default_rng(seed).integers(0, rows, 2 * rows) if rows else np.empty(0, np.int64)
    some = np.full(len(chosen), np.nan, np.float32)
    compute_selected_row_dots(x, chosen, y, some)
    assert some.tobytes() == out[chosen].tobytes()


def test_vectors_that_do_not_fit_are_refused() -> None:
    for length, rows in [(4, 2), (3, 1)]:
        with pytest.raises(ValueError, match="do not match"):
            compute_row_dots(make_matrix(2, 3, 1), make_matrix(1, length, 2)[0], np.empty(rows, np.float32))
        with pytest.raises(ValueError, match="do not match"):
            compute_selected_row_dots(
                make_matrix(2, 3, 1), np.zeros(2, np.int64), make_matrix(1, length, 2)[0], np.empty(rows, np.float32)
            )
    for row in (-1, 2):
        with pytest.raises(IndexError, match=f"row {row} does not exist: there are 2 rows"):
            compute_selected_row_dots(
                make_matrix(2, 3, 1), np.array([row]), make_matrix(1, 3, 2)[0], np.empty(1, np.float32)
            )
