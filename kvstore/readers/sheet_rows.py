"""The rows of a spreadsheet, as :mod:`.xlsx` and :mod:`.ods` read them and :mod:`.sheets` converts them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple


class SheetRow(NamedTuple):
    """A row of a sheet. ``spans`` has the numbers of rows and columns of its merged cells, by column from 0."""

    cells: list[str]
    spans: Mapping[int, tuple[int, int]]


#: The sheets of a workbook by name; the rows are produced on demand.
Sheets = Mapping[str, Iterator[SheetRow]]
