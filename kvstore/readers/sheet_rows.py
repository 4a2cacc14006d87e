"""The rows of a spreadsheet, as :mod:`.xlsx` and :mod:`.ods` read them and :mod:`.sheets` converts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class CellSpan(NamedTuple):
    """The numbers of rows and columns that a merged cell spans."""

    num_rows: int
    num_columns: int


class SheetRow(NamedTuple):
    """A row of a sheet: the texts of its cells, and the spans of merged cells that begin in it, by column from 0."""

    cells: list[str]
    spans: Mapping[int, CellSpan]


#: The sheets of a workbook by name; the rows are produced on demand.
Sheets = Mapping[str, Iterator[SheetRow]]
