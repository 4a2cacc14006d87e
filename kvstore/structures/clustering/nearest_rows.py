"""The nearest other rows of every row of a matrix, by cosine: what clustering asks of vectors.

In: rows of fixed point. Out: for each row the nearest and their cosine in ten thousandths. Up to :data:`_COMPARED` rows
every pair is compared. Above, rows are looked for among those of the same cells: a row in 256 begins a cell, each row
belongs to the three cells that it is nearest to. Which rows begin cells is drawn from the content of each row alone, so
that a row more or less moves nothing but what is near to it.

Products of single precision only propose; those that might be the nearest are multiplied again in fixed point, where
no order of adding shows. Rows are brought to length one when they are compared, so that no second matrix is held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ..vectors.vectors import Matrix

RowPlaces = npt.NDArray[np.int64]

#: Rows of which every pair is compared.
_COMPARED = 20_000
#: One row in so many begins a cell, and a row is in so many cells.
_CELL, _CELLS = 256, 3
#: Rows compared at once, products at once (a cell may have a large part of all rows), and how many of those proposed
#: are multiplied again.
_AT_ONCE, _PRODUCTS, _PROPOSED = 1024, 1 << 25, 4
#: Components are whole numbers of 2^-20, which single precision holds exactly.
_SCALE = 1 << 20


def nearest_rows(rows: npt.NDArray[Any]) -> tuple[RowPlaces, RowPlaces]:
    """The nearest other row of each (-1 where there is none), equals by their order, and the cosine times 10,000.

    ``rows`` have any length, shape (n, dimension).
    """
    nearest, cosines = np.full(len(rows), -1, np.int64), np.full(len(rows), -(10**9), np.int64)
    drawn = _drawn(rows)
    # Rows that are equal are nearest to each other; one of them stands for all, so that many cost no more than one.
    _, first, which, counts = np.unique(drawn, return_index=True, return_inverse=True, return_counts=True)
    order = np.sort(first)
    if len(order) <= _COMPARED:
        cells: Sequence[RowPlaces] = [order]
    else:
        cells = _cells(rows, order, drawn)
    for members in cells:
        units = _units(rows, members)
        for asked in _portions(len(members)):
            _take_nearest(units, members, asked, nearest, cosines)
    for group in np.flatnonzero(counts > 1):
        equal = np.flatnonzero(which == group)
        nearest[equal[0]], nearest[equal[1:]] = equal[1], equal[:-1]
        cosines[equal] = 10_000
    return nearest, cosines


def near_rows(rows: npt.NDArray[Any], most: int) -> RowPlaces:
    """About the ``most`` nearest other rows of each, shape (n, most), in no order; -1 where there are fewer."""
    every = np.arange(len(rows))
    found = np.full((len(rows), most), -1, np.int64)
    cosines = np.full((len(rows), most), -np.inf, np.float32)
    for members in [every] if len(every) <= _COMPARED else _cells(rows, every, _drawn(rows)):
        units = _units(rows, members)
        for asked in _portions(len(members)):
            _take_near(units, members, asked, found, cosines)
    return found


def _portions(count: int) -> Iterator[slice]:
    """Rows that are compared at once with as many as there are."""
    step = max(1, min(_AT_ONCE, _PRODUCTS // max(count, 1)))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _take_near(units: Matrix, among: RowPlaces, part: slice, found: RowPlaces, cosines: Matrix) -> None:
    """Take note of the rows of ``among`` (ascending, each with its unit vector) that are nearer to a ``part`` of them
    than some of those found."""
    if len(among) < 2:
        return
    asked = among[part]
    products = _products(units, part)
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


def _units(rows: npt.NDArray[Any], places: RowPlaces) -> Matrix:
    """The rows at some places at length one, in fixed point."""
    units: Matrix = np.empty((len(places), rows.shape[1]), np.float32)
    for start in range(0, len(places), _AT_ONCE):
        part = rows[places[start : start + _AT_ONCE]].astype(np.float64)
        squares = np.zeros(len(part))
        for column in part.T:  # in one order, whatever the shape
            squares += column * column
        norms = np.sqrt(squares)
        norms[norms == 0] = 1
        units[start : start + _AT_ONCE] = np.rint(part / norms[:, None] * _SCALE) / _SCALE
    return units


def _drawn(rows: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    """A number for each row that follows from its components alone."""
    drawn = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), _AT_ONCE):
        units = _units(rows, np.arange(start, min(start + _AT_ONCE, len(rows))))
        mixed = np.zeros(len(units), np.uint64)
        for column in units.T:
            mixed = (mixed ^ (column * _SCALE).astype(np.int64).view(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
            mixed ^= mixed >> np.uint64(29)
        drawn[start : start + _AT_ONCE] = mixed
    return drawn


def _cells(rows: npt.NDArray[Any], places: RowPlaces, drawn: npt.NDArray[np.uint64]) -> Sequence[RowPlaces]:
    """The rows at some places by cells, each in those of the rows that it is nearest to among those that begin one."""
    begins = places[drawn[places] % _CELL == 0]
    if len(begins) <= _CELLS:
        return [places]
    cells = np.empty((len(places), _CELLS), np.int64)
    centres = _units(rows, begins).T
    for start in range(0, len(places), _AT_ONCE):
        products = _units(rows, places[start : start + _AT_ONCE]) @ centres
        cells[start : start + _AT_ONCE] = _largest(products, _CELLS)
    order = np.argsort(cells.ravel(), kind="stable")
    bounds = np.searchsorted(cells.ravel()[order], np.arange(1, len(begins)))
    return np.split(places[order // _CELLS], bounds)


def _take_nearest(units: Matrix, among: RowPlaces, part: slice, nearest: RowPlaces, cosines: RowPlaces) -> None:
    """Take note of the nearest of ``among`` (ascending, each with its unit vector) to each of a ``part`` of them, where
    it is nearer than what was met before."""
    if len(among) < 2:
        return
    asked = among[part]
    products = _products(units, part)
    products[np.arange(len(asked)), part.start + np.arange(len(asked))] = -np.inf
    places = _largest(products, min(_PROPOSED, len(among) - 1))
    rows = units[part].astype(np.float64)
    for place in places.T:
        column = among[place]
        # Products of whole numbers below 2^20 add up exactly in double precision, in any order.
        exact = np.einsum("ij,ij->i", rows * _SCALE, units[place].astype(np.float64) * _SCALE)
        rounded = np.rint(exact * (10_000 / _SCALE**2)).astype(np.int64)
        better = (rounded > cosines[asked]) | ((rounded == cosines[asked]) & (column < nearest[asked]))
        nearest[asked[better]], cosines[asked[better]] = column[better], rounded[better]


def _products(units: Matrix, part: slice) -> Matrix:
    """The products of a part of the rows with all."""
    # Of a copy: a matrix times itself is added up in another order, and equals would be told apart by that.
    found: Matrix = units[part].copy() @ units.T
    return found


def _largest(products: Matrix, count: int) -> RowPlaces:
    """The places of the few largest of each row, of equals the first, shape (rows, count); they are taken out.

    Looking through all for each is several times as quick as parting them (``argpartition``).
    """
    found = np.empty((len(products), count), np.int64)
    rows = np.arange(len(products))
    for column in range(count):
        found[:, column] = products.argmax(axis=1)
        products[rows, found[:, column]] = -np.inf
    return found
