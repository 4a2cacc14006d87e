"""XLSX: the sheets of an Excel workbook, as rows of texts.
The *number format* of a cell, such as ``0.0%`` or ``[$€-407]0.00``, is the form in which Excel shows its number or
date. A *span* is the number of rows and columns of a merged cell.

In: an ``.xlsx`` file, a template, or a file with macros, which are ignored. Out: the cells of each sheet. Of number
formats, percentages are read, and on request units such as ``€``, leading zeros, and the decimals of long numbers.
Formulas yield their saved values. Dates are in ISO 8601, without the day or month that their formats omit. A file that
is not XLSX or is locked with a password is a ReaderError, and so is a missing openpyxl.
"""

from __future__ import annotations

import datetime
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, BinaryIO, NamedTuple
from xml.sax.saxutils import quoteattr

from ..errors import ReaderError
from ..extensions.extras import import_extra
from .decoding import clean_text
from .packages import Package
from .sheet_rows import CellSpan, SheetRow, Sheets
from .xml_tree import parse_xml

_NAMESPACE = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_STYLES_PART = "xl/styles.xml"
#: A part of a number format (ECMA-376, 18.8.31): literal text, a currency such as ``[$€-407]``, layout (a blank, a
#: character that fills the cell, a color or a condition), or one character of code.
_FORMAT_PART_PATTERN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|\[\$(?P<currency>[^\]-]*)[^\]]*\]|[_*].|\[[^\]]*\]|(?P<code>.)', re.DOTALL
)
#: The quotes and semicolons of literal text, which are code elsewhere.
_LITERAL_CODE = str.maketrans("", "", '";')
#: A format of literals in quotes and code: a number between texts, which are quoted or without letters and digits.
_NUMBER_PATTERN = re.compile(
    r'(?P<before>(?:"[^"]*"|[^\w"#?@.,])*)'
    r"(?:(?P<general>General)|(?:(?P<zeros>0+)|[#0?][#0?,]*)(?:(?<!,)\.(?P<decimals>[0#?]*))?(?<!,))"
    r'(?P<after>(?:"[^"]*"|[^\w"#?@.,/])*)'
)
_UNIT_PATTERN = re.compile(r"[^\W\d_]|[$€£¥₹]")
#: The maximum number of digits of a number that is not rounded; results of formulas have more.
_MAX_DIGITS = 10
#: The maximum length of a number format in Excel; the rest of a longer one is ignored.
_MAX_FORMAT = 255
_NUM_CACHED_FORMATS = 256
#: The range of merged cells, as in ``<mergeCell ref="A1:B2"/>``, and the number of bytes in which it is searched.
_MERGED_CELL_PATTERN = re.compile(
    rb"""<(?:\w{1,20}:)?mergeCell\s[^<>]{0,100}?\bref\s?=\s?["']"""
    rb"(?P<first_column>[A-Za-z]{1,3})(?P<first_row>\d{1,7}):(?P<last_column>[A-Za-z]{1,3})(?P<last_row>\d{1,7})"
)
_BLOCK_BYTES, _MAX_ELEMENT_BYTES = 1 << 20, 200
_NO_SPANS: Mapping[int, CellSpan] = {}


class _NumberFormat(NamedTuple):
    """The parts of a number format that are read: the unit before or after the number, and its minimum digits.

    ``num_digits`` is the minimum number of digits before the point. ``num_decimals`` is the minimum number of digits
    after the point, if the number is not whole and has a unit. ``max_decimals`` is the maximum in a number of more than
    ``_MAX_DIGITS`` digits; None for any number. ``num_date_characters`` is the number of characters of an ISO date that
    the format shows: the year, the month or the day.
    """

    unit_before: str
    unit_after: str
    num_digits: int
    num_decimals: int
    max_decimals: int | None
    is_percentage: bool
    num_date_characters: int


@contextmanager
def open_workbook(stream: BinaryIO, file_name: str, *, is_formatted: bool, includes_hidden: bool) -> Iterator[Sheets]:
    """Open a workbook, and yield a mapping from the name of each sheet, in order, to an iterator over its rows.

    With ``is_formatted``, numbers have the units and leading zeros of their formats: ``€480`` instead of ``480``.
    Without ``includes_hidden``, hidden sheets are left out, unless all are hidden. Any failure while the rows are read
    is a ReaderError.
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
            visible_sheets = [sheet for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
            sheets = workbook.worksheets if includes_hidden else visible_sheets or workbook.worksheets
            yield {sheet.title: _iter_rows(sheet, is_formatted=is_formatted) for sheet in sheets}
        finally:
            workbook.close()


class _StyleReducingArchive(zipfile.ZipFile):
    """The archive of a workbook, with nothing but the number formats of its styles.

    openpyxl refuses fonts, fills and colors of many programs, which Excel accepts.
    """

    def read(self, name: str | zipfile.ZipInfo, pwd: bytes | None = None) -> bytes:
        """Return the bytes of the part ``name``; of the styles, only the number formats. ``pwd`` is a password."""
        data = super().read(name, pwd)
        return _keep_number_formats(data) if name == _STYLES_PART else data


def _keep_number_formats(styles_xml: bytes) -> bytes:
    """Return the styles of a workbook, in XML, with nothing but the number formats of cells."""
    styles = parse_xml(styles_xml)
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


def _iter_rows(sheet: Any, *, is_formatted: bool) -> Iterator[SheetRow]:
    """Yield the rows of an openpyxl sheet. See :func:`open_workbook` for ``is_formatted``."""
    with sheet._get_source() as source:
        spans = _read_spans(source)
    sheet.reset_dimensions()  # the declared size of a sheet can be wrong
    for number, row in enumerate(sheet.iter_rows(), 1):
        cells = [_format_cell(cell, is_formatted=is_formatted) for cell in row]
        yield SheetRow(cells, spans.get(number, _NO_SPANS))


def _read_spans(source: BinaryIO) -> dict[int, dict[int, CellSpan]]:
    """Return the spans of the merged cells of a sheet, by row from 1, then by column from 0 (ECMA-376, 18.3.1.55).

    ``source`` is the XML of the sheet. In its read-only mode, openpyxl does not read the spans.
    """
    spans: dict[int, dict[int, CellSpan]] = {}
    text = b""
    while block := source.read(_BLOCK_BYTES):
        text = text[-_MAX_ELEMENT_BYTES:] + block  # an element can begin in the block before
        if b"mergeCell" not in text:
            continue
        for match in _MERGED_CELL_PATTERN.finditer(text):
            first_column, last_column = (_parse_column(match[name]) for name in ("first_column", "last_column"))
            first_row, last_row = int(match["first_row"]), int(match["last_row"])
            span = CellSpan(last_row - first_row + 1, last_column - first_column + 1)
            spans.setdefault(first_row, {})[first_column] = span
    return spans


def _parse_column(letters: bytes) -> int:
    """Return the number of a column, from 0, given its letters: ``A`` is 0, ``AA`` is 26."""
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - ord("A") + 1
    return number - 1


def _format_cell(cell: Any, *, is_formatted: bool) -> str:
    """Return the value of a cell as text: 0.125 in a percent format as ``12.5%``, dates and times in ISO 8601."""
    value = cell.value
    if isinstance(value, str):
        return clean_text(value).strip()
    if isinstance(value, bool) or not isinstance(value, (int, float, datetime.datetime)):
        return _format_value(value)
    format_code = _get_number_format(cell)
    if format_code == "General":
        return _format_value(value)
    number_format = _parse_number_format(format_code)
    if isinstance(value, datetime.datetime):
        text = _format_value(value)  # a date without a time is cut to what its format shows
        return text[: number_format.num_date_characters] if len(text) == len("2026-03-01") else text
    if is_formatted:
        return _apply_number_format(value, number_format)
    return f"{100 * value:.12g}%" if number_format.is_percentage else _format_value(value)


def _get_number_format(cell: Any) -> str:
    """Return the number format of a cell; an empty string if the cell names a missing style."""
    try:
        return str(cell.number_format)
    except IndexError:
        return ""


def _apply_number_format(value: float, number_format: _NumberFormat) -> str:
    """Return a number as text, with the currency or other unit of its format, and with leading zeros.

    A scaled number, such as thousands, has no unit. A number of more than ``_MAX_DIGITS`` digits is rounded to the
    decimals of its format.

    >>> parse = _parse_number_format
    >>> _apply_number_format(-12.5, parse("[$€-407]#,##0.00")), _apply_number_format(480, parse('#,##0\\\\ "kg"_-;@'))
    ('-€12.50', '480 kg')
    >>> _apply_number_format(1067, parse("00000")), _apply_number_format(9.25, parse("0.00"))
    ('01067', '9.25')
    >>> _apply_number_format(8 / 3, parse("0.00")), _apply_number_format(8 / 3, parse("General"))
    ('2.67', '2.66666666666667')
    """
    if number_format.is_percentage:
        value = float(f"{100 * value:.12g}")
    text = _format_value(abs(value))
    if isinstance(value, float) and len(text) > _MAX_DIGITS and number_format.max_decimals is not None:
        digits = text.partition("e")[0].replace(".", "").lstrip("0")  # of 1.5e-07: 15
        if len(digits) > _MAX_DIGITS:
            value = round(value, number_format.max_decimals)
            text = _format_value(abs(value))
    whole, point, decimals = text.partition(".")
    if decimals and "e" not in decimals:  # not 1.5e-07
        decimals = decimals.ljust(number_format.num_decimals, "0")
    number = whole.zfill(number_format.num_digits) + point + decimals
    return f"{'-' if value < 0 else ''}{number_format.unit_before}{number}{number_format.unit_after}"


@lru_cache(maxsize=_NUM_CACHED_FORMATS)
def _parse_number_format(number_format: str) -> _NumberFormat:
    """Return the parts of a number format of Excel; its units are empty and its minimum digits 0 if it has none.

    A percentage has a percent sign that is neither quoted nor escaped.

    >>> [_parse_number_format(text).is_percentage for text in ("0.0%", '0.0"%"')]
    [True, False]
    >>> dates = ("yyyy", "[$-809]mmm yyyy", "dddd d mmmm", "General")
    >>> [_parse_number_format(text).num_date_characters for text in dates]
    [4, 7, 10, 10]
    """
    code = quoted_format = ""
    for part in _FORMAT_PART_PATTERN.finditer(number_format[:_MAX_FORMAT]):
        literal = part["quoted"] or part["escaped"] or part["currency"] or ""
        code += part["code"] or ""
        quoted_format += f'"{literal.translate(_LITERAL_CODE)}"' if literal else part["code"] or ""
    is_percentage = "%" in code
    # The formats of negative numbers and of zero follow after semicolons.
    num_date_characters = _count_date_characters(code.partition(";")[0])
    match = _NUMBER_PATTERN.fullmatch(quoted_format.partition(";")[0])
    unit_before, unit_after, num_digits, num_decimals, max_decimals = "", "%" if is_percentage else "", 0, 0, None
    if match is not None:
        max_decimals = None if match["general"] else len(match["decimals"] or "")
        num_digits = len(match["zeros"] or "")
        before, after = match["before"].replace('"', "").lstrip(" +-"), match["after"].replace('"', "").rstrip()
        if _UNIT_PATTERN.search(before + after) is not None:
            unit_before, unit_after, num_decimals = before, after, max_decimals or 0
    return _NumberFormat(
        unit_before, unit_after, num_digits, num_decimals, max_decimals, is_percentage, num_date_characters
    )


def _count_date_characters(code: str) -> int:
    """Return how many characters of an ISO date the code of a format shows: 7 (``2026-03``) for ``mmm yyyy``."""
    letters = set(code.lower())
    if not letters & set("my") or letters & set("dhs"):  # no date, or with a day or time
        return len("2026-03-01")
    return len("2026-03") if "m" in letters else len("2026")


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
