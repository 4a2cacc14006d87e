"""The nearest other rows of every row of a matrix, by cosine: what clustering asks of vectors.

In: rows of fixed point. Out: for each row the nearest and their cosine in ten thousandths. Up to :data:`_COMPARED` rows
every pair is compared. Above, rows are looked for among those of the same cells: a row in 256 begins a cell, each row
belongs to the three cells that it is nearest to. Which rows begin cells is drawn from the content of each row alone, so
that a row more or less moves nothing but what is near to it.

Products of single precision only propose; those that might be the nearest are multiplied again in fixed point, where
no order of adding shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..vectors.vectors import Matrix

RowPlaces = npt.NDArray[np.int64]

#: Rows of which every pair is compared.
_COMPARED = 20_000
#: One row in so many begins a cell, and a row is in so many cells.
_CELL, _CELLS = 256, 3
#: Rows compared at once, and how many of those proposed are multiplied again.
_AT_ONCE, _PROPOSED = 1024, 4
#: Components are whole numbers of 2^-20, which single precision holds exactly.
_SCALE = 1 << 20


def nearest_rows(rows: npt.NDArray[Any]) -> tuple[RowPlaces, RowPlaces]:
    """The nearest other row of each (-1 where there is none), equals by their order, and the cosine times 10,000.

    ``rows`` have any length, shape (n, dimension).
    """
    units = _units(rows)
    nearest, cosines = np.full(len(units), -1, np.int64), np.full(len(units), -(10**9), np.int64)
    drawn = _drawn(units)
    # Rows that are equal are nearest to each other; one of them stands for all, so that many cost no more than one.
    _, first, which, counts = np.unique(drawn, return_index=True, return_inverse=True, return_counts=True)
    order = np.sort(first)
    if len(order) <= _COMPARED:
        cells: Sequence[RowPlaces] = [order]
    else:
        cells = _cells(units, order, drawn)
    for members in cells:
        for start in range(0, len(members), _AT_ONCE):
            _take_nearest(units, members[start : start + _AT_ONCE], members, nearest, cosines)
    for group in np.flatnonzero(counts > 1):
        equal = np.flatnonzero(which == group)
        nearest[equal[0]], nearest[equal[1:]] = equal[1], equal[:-1]
        cosines[equal] = 10_000
    return nearest, cosines


def near_rows(rows: npt.NDArray[Any], most: int) -> RowPlaces:
    """About the ``most`` nearest other rows of each, shape (n, most), in no order; -1 where there are fewer."""
    units = _units(rows)
    every = np.arange(len(units))
    found = np.full((len(units), most), -1, np.int64)
    cosines = np.full((len(units), most), -np.inf, np.float32)
    for members in [every] if len(every) <= _COMPARED else _cells(units, every, _drawn(units)):
        for start in range(0, len(members), _AT_ONCE):
            _take_near(units, members[start : start + _AT_ONCE], members, found, cosines)
    return found


def _take_near(units: Matrix, asked: RowPlaces, among: RowPlaces, found: RowPlaces, cosines: Matrix) -> None:
    """Take note of the rows of ``among`` (ascending) that are nearer to those ``asked`` than some of those found."""
    if len(among) < 2:
        return
    products = units[asked] @ units[among].T
    # Itself, and what another cell has brought, is not found again.
    for column in (asked, *found[asked].T):
        places = np.minimum(np.searchsorted(among, column), len(among) - 1)
        known = among[places] == column
        products[known, places[known]] = -np.inf
    most = found.shape[1]
    count = min(most, len(among) - 1)
    places = np.argpartition(-products, count - 1, axis=1)[:, :count]
    both = np.concatenate((cosines[asked], np.take_along_axis(products, places, axis=1)), axis=1)
    rows = np.concatenate((found[asked], among[places]), axis=1)
    best = np.argpartition(-both, most - 1, axis=1)[:, :most]
    cosines[asked] = np.take_along_axis(both, best, axis=1)
    found[asked] = np.where(cosines[asked] == -np.inf, -1, np.take_along_axis(rows, best, axis=1))


def _units(rows: npt.NDArray[Any]) -> Matrix:
    """The rows at length one, in fixed point."""
    units: Matrix = np.empty(rows.shape, np.float32)
    for start in range(0, len(rows), _AT_ONCE):
        part = rows[start : start + _AT_ONCE].astype(np.float64)
        squares = np.zeros(len(part))
        for column in part.T:  # in one order, whatever the shape
            squares += column * column
        norms = np.sqrt(squares)
        norms[norms == 0] = 1
        units[start : start + _AT_ONCE] = np.rint(part / norms[:, None] * _SCALE) / _SCALE
    return units


def _drawn(units: Matrix) -> npt.NDArray[np.uint64]:
    """A number for each row that follows from its components alone."""
    mixed = np.zeros(len(units), np.uint64)
    for column in units.T:
        mixed = (mixed ^ (column * _SCALE).astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return mixed


def _cells(units: Matrix, rows: RowPlaces, drawn: npt.NDArray[np.uint64]) -> Sequence[RowPlaces]:
    """Some rows by cells, each row in those of the rows that it is nearest to among those that begin one."""
    begins = rows[drawn[rows] % _CELL == 0]
    if len(begins) <= _CELLS:
        return [rows]
    cells = np.empty((len(rows), _CELLS), np.int64)
    for start in range(0, len(rows), _AT_ONCE):
        products = units[rows[start : start + _AT_ONCE]] @ units[begins].T
        cells[start : start + _AT_ONCE] = np.argpartition(-products, _CELLS - 1, axis=1)[:, :_CELLS]
    order = np.argsort(cells.ravel(), kind="stable")
    bounds = np.searchsorted(cells.ravel()[order], np.arange(1, len(begins)))
    return np.split(rows[order // _CELLS], bounds)


def _take_nearest(units: Matrix, asked: RowPlaces, among: RowPlaces, nearest: RowPlaces, cosines: RowPlaces) -> None:
    """Take note of the nearest of ``among`` to each row ``asked``, where it is nearer than what was met before."""
    if len(among) < 2:
        return
    products = units[asked] @ units[among].T
    products[among[None, :] == asked[:, None]] = -np.inf
    count = min(_PROPOSED, len(among) - 1)
    places = np.argpartition(-products, count - 1, axis=1)[:, :count]
    rows = units[asked].astype(np.float64)
    for column in among[places].T:
        # Products of whole numbers below 2^20 add up exactly in double precision, in any order.
        exact = np.einsum("ij,ij->i", rows * _SCALE, units[column].astype(np.float64) * _SCALE)
        rounded = np.rint(exact * (10_000 / _SCALE**2)).astype(np.int64)
        better = (rounded > cosines[asked]) | ((rounded == cosines[asked]) & (column < nearest[asked]))
        nearest[asked[better]], cosines[asked[better]] = column[better], rounded[better]
