"""XLSX: the sheets of an Excel workbook, as rows of texts.

In: an ``.xlsx`` file, a template, or a file with macros, which are ignored. Out: the cells of each sheet as they appear
without number formats, except percentages. Formulas yield their saved values; dates are in ISO 8601. A file that is not
XLSX or is locked with a password is a ReaderError, and so is a missing openpyxl.
"""

from __future__ import annotations

import datetime
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO
from xml.sax.saxutils import quoteattr

from ..errors import ReaderError
from ..extensions.extras import import_extra
from .decoding import clean_text
from .packages import Package
from .xml_tree import parse_xml

_NAMESPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_STYLES_PART = "xl/styles.xml"
#: The parts of a number format that stand for themselves: quoted text, and the character after a backslash, or after
#: the marks for a blank and for a repetition (ECMA-376, 18.8.31).
_LITERAL_PATTERN = re.compile(r'"[^"]*"|[\\_*].')


@contextmanager
def open_workbook(stream: BinaryIO, file_name: str) -> Iterator[Mapping[str, Iterator[list[str]]]]:
    """Open a workbook, and yield a mapping from the name of each sheet, in order, to an iterator over its rows.

    Any failure while the rows are read is a ReaderError.
    """
    openpyxl = import_extra("openpyxl", "documents", f"{file_name}: reading XLSX", error=ReaderError)
    package = Package(stream, file_name, "XLSX")
    stream.seek(0)
    with package.convert_errors(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about unsupported formatting, which is not read
        reader = openpyxl.reader.excel.ExcelReader(stream, read_only=True, data_only=True, keep_links=False)
        reader.archive = _StyleReducingArchive(stream)
        reader.read_properties = lambda: None  # openpyxl refuses dates in properties that Excel accepts
        reader.read()
        workbook = reader.wb
        try:
            yield {sheet.title: _iter_rows(sheet) for sheet in workbook.worksheets}
        finally:
            workbook.close()


class _StyleReducingArchive(zipfile.ZipFile):
    """The archive of a workbook, with nothing but the number formats of its styles.

    openpyxl refuses fonts, fills and colors of many programs, which Excel accepts.
    """

    def read(self, name: str | zipfile.ZipInfo, pwd: bytes | None = None) -> bytes:
        """Return the bytes of the part ``name``; of the styles, only the number formats. ``pwd`` is a password."""
        data = super().read(name, pwd)
        return _reduce_styles(data) if name == _STYLES_PART else data


def _reduce_styles(data: bytes) -> bytes:
    """Return the styles of a workbook with nothing but the number formats of cells."""
    styles = parse_xml(data)
    formats = "".join(
        f"<numFmt numFmtId={quoteattr(number_format.get('numFmtId', ''))} "
        f"formatCode={quoteattr(number_format.get('formatCode', 'General'))}/>"
        for number_format in styles.iterfind(f"{{{_NAMESPACE}}}numFmts/{{{_NAMESPACE}}}numFmt")
        if number_format.get("numFmtId", "").isdecimal()
    )
    numbers = [
        cell_style.get("numFmtId", "0") for cell_style in styles.iterfind(f"{{{_NAMESPACE}}}cellXfs/{{{_NAMESPACE}}}xf")
    ]
    cell_styles = "".join(f'<xf numFmtId="{number if number.isdecimal() else 0}" xfId="0"/>' for number in numbers)
    return (
        f'<styleSheet xmlns="{_NAMESPACE}"><numFmts>{formats}</numFmts><fonts><font/></fonts>'
        "<fills><fill><patternFill/></fill></fills><borders><border/></borders><cellStyleXfs><xf/></cellStyleXfs>"
        f"<cellXfs>{cell_styles or '<xf/>'}</cellXfs></styleSheet>"
    ).encode()


def _iter_rows(sheet: Any) -> Iterator[list[str]]:
    """Yield the rows of an openpyxl sheet as texts."""
    sheet.reset_dimensions()  # the declared size of a sheet can be wrong
    for row in sheet.iter_rows():
        yield [_format_cell(cell) for cell in row]


def _format_cell(cell: Any) -> str:
    """Return the value of a cell as text: 0.125 in a percent format as ``12.5%``, dates and times in ISO 8601."""
    value = cell.value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and _is_percentage(_get_number_format(cell)):
        return f"{100 * value:.12g}%"
    return _format_value(value)


def _get_number_format(cell: Any) -> str:
    """Return the number format of a cell; an empty string if the cell names a missing style."""
    try:
        return str(cell.number_format)
    except IndexError:
        return ""


def _is_percentage(number_format: str) -> bool:
    """True if a number format multiplies by 100: it has a percent sign that is neither quoted nor escaped.

    >>> _is_percentage("0.0%"), _is_percentage('0.0"%"')
    (True, False)
    """
    return "%" in number_format and "%" in _LITERAL_PATTERN.sub("", number_format)


def _format_value(value: object) -> str:
    """Return a value as text; an empty string for None.

    Dates and times are in ISO 8601, midnight as the date alone, and times without zero seconds. Durations are in
    hours and minutes. Truth values are ``TRUE`` and ``FALSE``.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime.datetime):
        is_midnight = value.time() == datetime.time()
        return value.date().isoformat() if is_midnight else value.isoformat(" ", _choose_precision(value))
    if isinstance(value, datetime.time):
        return value.isoformat(_choose_precision(value))
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return _format_duration(value)
    return clean_text(str(value)).strip()


def _format_duration(duration: datetime.timedelta) -> str:
    """Return a duration as hours, minutes and, unless they are zero, seconds.

    >>> _format_duration(datetime.timedelta(hours=26, minutes=5)), _format_duration(datetime.timedelta(seconds=-90))
    ('26:05', '-0:01:30')
    """
    total_seconds = round(abs(duration.total_seconds()))
    minutes, seconds = divmod(total_seconds, 60)
    sign = "-" if total_seconds and duration < datetime.timedelta() else ""
    return f"{sign}{minutes // 60}:{minutes % 60:02}" + (f":{seconds:02}" if seconds else "")


def _choose_precision(value: datetime.datetime | datetime.time) -> str:
    """Return the precision of a time for ``isoformat``: minutes if its seconds are zero."""
    return "auto" if value.second or value.microsecond else "minutes"
