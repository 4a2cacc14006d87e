"""Nearest neighbors among the rows of a matrix, by cosine, as clustering needs them. With many rows, only rows of the
same *cell* (group of near rows) are compared. *Units* are rows scaled to length 1, with components rounded to multiples
of 2^-20, so that their products can also be computed exactly.

In: fixed-point rows. Out: for each row its nearest other row and their cosine in ten-thousandths. Up to
:data:`_MAX_EXACT_ROWS` rows, every pair is compared. Above that, one row in 256 begins a cell, and each row belongs to
the three cells nearest to it. The content of a row alone decides whether it begins a cell, so adding or removing a row
only changes rows near it.

Single-precision products only propose candidates. The best candidates are multiplied again in fixed point, where the
order of summation cannot matter. Rows are normalized when they are compared, so no second matrix is held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..vectors.vectors import Matrix

RowNumbers = npt.NDArray[np.int64]

#: Up to this number of rows, every pair is compared.
_MAX_EXACT_ROWS = 20_000
#: One row in ``_ROWS_PER_CELL`` begins a cell, and each row belongs to ``_CELLS_PER_ROW`` cells.
_ROWS_PER_CELL, _CELLS_PER_ROW = 256, 3
#: Rows per block, products per block (a cell may hold a large part of all rows), and candidates per row whose product
#: is computed again in fixed point.
_BATCH_ROWS, _MAX_PRODUCTS, _NUM_CANDIDATES = 1024, 1 << 25, 4
#: Components are multiples of 2^-20, which single precision holds exactly.
_SCALE = 1 << 20
#: A cosine of 1 in the results, which are integers so that they are equal on every machine.
_COSINE_ONE = 10_000
#: Less than every cosine.
_NO_COSINE = -(10**9)
#: The multiplier of multiplicative hashing: 2^64 divided by the golden ratio.
_HASH_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


def find_nearest_rows(rows: npt.NDArray[Any]) -> tuple[RowNumbers, RowNumbers]:
    """Return the nearest other row of each row (-1 if missing), and their cosine times 10,000.

    Ties are decided by row order. ``rows`` has shape (n, dimension), and its rows may have any length. With more than
    ``_MAX_EXACT_ROWS`` distinct rows, the search is approximate: only rows of the same cell are compared.
    """
    nearest, cosines = np.full(len(rows), -1, np.int64), np.full(len(rows), _NO_COSINE, np.int64)
    hashes = _hash_rows(rows)
    # Rows of the same direction are nearest to each other. One represents all, so duplicates cost no more than one row.
    _, first_rows, group_of_row, counts = np.unique(hashes, return_index=True, return_inverse=True, return_counts=True)
    distinct_rows = np.sort(first_rows)
    if len(distinct_rows) <= _MAX_EXACT_ROWS:
        cells: Sequence[RowNumbers] = [distinct_rows]
    else:
        cells = _find_cells(rows, distinct_rows, hashes)  # groups of rows that are near each other, as in an IVF index
    for members in cells:
        units = _normalize_rows(rows, members)
        for batch in _iter_slices(len(members)):
            _update_nearest(units, members, batch, nearest, cosines)
    for group in np.flatnonzero(counts > 1):
        equal_rows = np.flatnonzero(group_of_row == group)
        # The nearest row of a duplicate is the previous row of its group; the first row has the second.
        nearest[equal_rows[0]], nearest[equal_rows[1:]] = equal_rows[1], equal_rows[:-1]
        cosines[equal_rows] = _COSINE_ONE
    return nearest, cosines


def find_near_rows(rows: npt.NDArray[Any], max_neighbors: int) -> RowNumbers:
    """Return the ``max_neighbors`` nearest other rows of each row, shape (n, max_neighbors), unordered.

    Missing neighbors are -1. With more than ``_MAX_EXACT_ROWS`` rows, only rows of the same cell (a group of near rows)
    are compared.
    """
    all_rows = np.arange(len(rows))
    neighbors = np.full((len(rows), max_neighbors), -1, np.int64)
    cosines = np.full((len(rows), max_neighbors), -np.inf, np.float32)
    cells: Sequence[RowNumbers] = [all_rows]
    if len(all_rows) > _MAX_EXACT_ROWS:
        cells = _find_cells(rows, all_rows, _hash_rows(rows))
    for members in cells:
        units = _normalize_rows(rows, members)
        for batch in _iter_slices(len(members)):
            _update_neighbors(units, members, batch, neighbors, cosines)
    return neighbors


def _iter_slices(num_rows: int) -> Iterator[slice]:
    """Yield slices that split ``num_rows`` rows into batches small enough to compare each with all rows at once."""
    batch_rows = max(1, min(_BATCH_ROWS, _MAX_PRODUCTS // max(num_rows, 1)))
    return (slice(start, min(start + batch_rows, num_rows)) for start in range(0, num_rows, batch_rows))


def _update_neighbors(units: Matrix, members: RowNumbers, batch: slice, neighbors: RowNumbers, cosines: Matrix) -> None:
    """Replace neighbors of the rows in a ``batch`` with nearer rows of ``members``, the rows of the same cell (group).

    Changes ``neighbors`` and ``cosines`` of all rows in place (-1 and -inf: no neighbor yet). ``members`` has row
    numbers, ascending, and ``units`` the unit vector of each. ``batch`` is a slice of both.
    """
    if len(members) < 2:
        return
    queries = members[batch]  # the row numbers of the batch
    products = _compute_products(units, batch)
    # Exclude the row itself and neighbors that were found in another cell.
    for column in (queries, *neighbors[queries].T):
        positions = np.minimum(np.searchsorted(members, column), len(members) - 1)
        is_known = members[positions] == column
        products[is_known, positions[is_known]] = -np.inf
    max_neighbors = neighbors.shape[1]
    num_candidates = min(max_neighbors, len(members) - 1)
    positions = np.argpartition(-products, num_candidates - 1, axis=1)[:, :num_candidates]
    # Of the old neighbors and the nearest rows of this cell, keep the nearest.
    all_cosines = np.concatenate((cosines[queries], np.take_along_axis(products, positions, axis=1)), axis=1)
    all_rows = np.concatenate((neighbors[queries], members[positions]), axis=1)
    best_columns = np.argpartition(-all_cosines, max_neighbors - 1, axis=1)[:, :max_neighbors]
    cosines[queries] = np.take_along_axis(all_cosines, best_columns, axis=1)
    neighbors[queries] = np.where(cosines[queries] == -np.inf, -1, np.take_along_axis(all_rows, best_columns, axis=1))


def _normalize_rows(rows: npt.NDArray[Any], row_numbers: RowNumbers) -> Matrix:
    """Return the rows with the given numbers, normalized to length one and rounded to multiples of 2^-20."""
    units: Matrix = np.empty((len(row_numbers), rows.shape[1]), np.float32)
    for start in range(0, len(row_numbers), _BATCH_ROWS):
        batch = rows[row_numbers[start : start + _BATCH_ROWS]].astype(np.float64)
        squares = np.zeros(len(batch))
        for column in batch.T:  # always in the same order, for any shape
            squares += column * column
        norms = np.sqrt(squares)
        norms[norms == 0] = 1  # a row of zeros stays as it is
        units[start : start + _BATCH_ROWS] = np.rint(batch / norms[:, None] * _SCALE) / _SCALE
    return units


def _hash_rows(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """Return a hash of the direction of each row, computed from the components of its unit vector alone."""
    hashes = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), _BATCH_ROWS):
        units = _normalize_rows(rows, np.arange(start, min(start + _BATCH_ROWS, len(rows))))
        batch_hashes = np.zeros(len(units), np.uint64)
        for column in units.T:
            components = (column * _SCALE).astype(np.int64).view(np.uint64)
            # Multiply, then shift the well mixed high bits to the low ones.
            batch_hashes = (batch_hashes ^ components) * _HASH_MULTIPLIER
            batch_hashes ^= batch_hashes >> np.uint64(29)
        hashes[start : start + _BATCH_ROWS] = batch_hashes
    return hashes


def _find_cells(
    rows: npt.NDArray[Any], row_numbers: RowNumbers, hashes: npt.NDArray[np.uint64]
) -> Sequence[RowNumbers]:
    """Group the rows with the given numbers into cells of near rows; return each cell as an array of row numbers.

    Rows selected by their hash are the centers of the cells. Each row belongs to the cells of its three nearest
    centers. With three centers or fewer, all rows are in one cell.
    """
    center_rows = row_numbers[hashes[row_numbers] % _ROWS_PER_CELL == 0]
    if len(center_rows) <= _CELLS_PER_ROW:
        return [row_numbers]
    cells = np.empty((len(row_numbers), _CELLS_PER_ROW), np.int64)
    centers = _normalize_rows(rows, center_rows).T
    for start in range(0, len(row_numbers), _BATCH_ROWS):
        products = _normalize_rows(rows, row_numbers[start : start + _BATCH_ROWS]) @ centers
        cells[start : start + _BATCH_ROWS] = _take_largest(products, _CELLS_PER_ROW)
    order = np.argsort(cells.ravel(), kind="stable")  # group the (row, cell) pairs by cell
    bounds = np.searchsorted(cells.ravel()[order], np.arange(1, len(center_rows)))
    return np.split(row_numbers[order // _CELLS_PER_ROW], bounds)


def _update_nearest(units: Matrix, members: RowNumbers, batch: slice, nearest: RowNumbers, cosines: RowNumbers) -> None:
    """Replace the nearest row of each row in a ``batch`` if one of ``members``, the rows of the same cell, is nearer.

    Changes ``nearest`` and ``cosines`` of all rows in place (-1 and _NO_COSINE: no nearest row yet). ``members`` has
    row numbers, ascending, and ``units`` the unit vector of each. ``batch`` is a slice of both.
    """
    if len(members) < 2:
        return
    queries = members[batch]
    products = _compute_products(units, batch)
    products[np.arange(len(queries)), batch.start + np.arange(len(queries))] = -np.inf  # each row with itself
    # Single-precision products can be in the wrong order, so several candidates are compared exactly.
    candidates = _take_largest(products, min(_NUM_CANDIDATES, len(members) - 1))
    rows = units[batch].astype(np.float64)
    for positions in candidates.T:
        candidate_rows = members[positions]
        # Products of integers below 2^20 add up exactly in double precision, in any order.
        exact_products = np.einsum("ij,ij->i", rows * _SCALE, units[positions].astype(np.float64) * _SCALE)
        int_cosines = np.rint(exact_products * (_COSINE_ONE / _SCALE**2)).astype(np.int64)
        is_tie_before = (int_cosines == cosines[queries]) & (candidate_rows < nearest[queries])
        is_better = (int_cosines > cosines[queries]) | is_tie_before
        nearest[queries[is_better]], cosines[queries[is_better]] = candidate_rows[is_better], int_cosines[is_better]


def _compute_products(units: Matrix, batch: slice) -> Matrix:
    """Return the dot products of a batch of the unit vectors with all of them, shape (batch, units)."""
    # Multiply a copy: a matrix times itself is summed in a different order, which would distinguish equal rows.
    products: Matrix = units[batch].copy() @ units.T
    return products


def _take_largest(products: Matrix, count: int) -> RowNumbers:
    """Return the positions of the ``count`` largest products of each row, ties by position, shape (rows, count).

    The selected products are overwritten with minus infinity. Repeated ``argmax`` is several times as fast as
    ``argpartition`` here.
    """
    positions = np.empty((len(products), count), np.int64)
    rows = np.arange(len(products))
    for column in range(count):
        positions[:, column] = products.argmax(axis=1)
        products[rows, positions[:, column]] = -np.inf
    return positions
