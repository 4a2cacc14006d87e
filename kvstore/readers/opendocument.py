"""Common parts of OpenDocument texts, spreadsheets and presentations.
A file is a *package* (a ZIP archive of XML parts) or a single XML file; a *tree* is the root element of a part.

In: a package (``.odt``, ``.ods``, ``.odp``, templates of them) or one XML file (``.fodt`` and so on). Out: the body,
the trees with its styles, and the title in its properties. A file that is not OpenDocument, is locked with a password
or is damaged is a ReaderError.

Source: OASIS OpenDocument 1.3, part 2 (packages) and part 3, 3.1 (documents).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO
from xml.etree.ElementTree import Element
from zipfile import ZipFile

from ..errors import ReaderError
from .list_numbers import parse_list_number
from .packages import Package, convert_errors
from .raw_document import clean_property_title
from .xml_tree import parse_xml

_NAMESPACE = "{{urn:oasis:names:tc:opendocument:xmlns:{}:1.0}}"
TEXT, TABLE, OFFICE, STYLE, DRAW, PRESENTATION = (
    _NAMESPACE.format(name) for name in ("text", "table", "office", "style", "drawing", "presentation")
)
#: Elements that contain rows of a table.
_ROW_GROUP_TAGS = frozenset(f"{TABLE}{name}" for name in ("table-header-rows", "table-rows", "table-row-group"))
_CELL_TAGS = frozenset(f"{TABLE}{name}" for name in ("table-cell", "covered-table-cell"))
_ENCRYPTION_PATH = f".//{_NAMESPACE.format('manifest')}encryption-data"
_TITLE_TAG = "{http://purl.org/dc/elements/1.1/}title"
_MANIFEST_PATH = "META-INF/manifest.xml"
_CONTENT_PATH = "content.xml"
#: The number of bytes at the beginning of a file by which XML is recognized.
_MAX_START_BYTES = 4096


@dataclass(frozen=True, slots=True)
class OpenDocument:
    """A document: its ``body``, the root elements of its parts (``trees``), and its ``title``, which can be empty."""

    body: Element
    trees: tuple[Element, ...]
    title: str


@contextmanager
def open_opendocument(stream: BinaryIO, file_name: str, format_name: str, document_type: str) -> Iterator[OpenDocument]:
    """Yield an OpenDocument file, whose type must be ``text``, ``spreadsheet`` or ``presentation``.

    ``file_name`` and ``format_name`` are used in messages. Any failure while the document is open is a ReaderError.
    """
    with convert_errors(file_name, format_name):
        trees = _read_trees(stream, file_name, format_name)
        body_element = next(
            (element for tree in trees for element in tree.findall(f"{OFFICE}body/{OFFICE}{document_type}")), None
        )
        if body_element is None:
            raise ReaderError(f"{file_name}: is not {format_name} (it contains no {document_type})")
        title_element = next((element for tree in trees for element in tree.iter(_TITLE_TAG)), None)
        title = "" if title_element is None else clean_property_title("".join(title_element.itertext()))
        yield OpenDocument(body_element, trees, title)


def iter_rows(table: Element) -> Iterator[Element]:
    """Yield the rows of a table, including header rows and rows in groups (OpenDocument 1.3, 9.1.3 to 9.1.9)."""
    for part in table:
        if part.tag == f"{TABLE}table-row":
            yield part
        elif part.tag in _ROW_GROUP_TAGS:
            yield from iter_rows(part)


def iter_cells(row: Element) -> Iterator[Element]:
    """Return an iterator over the cells of a row, including cells that another cell covers."""
    return (cell for cell in row if cell.tag in _CELL_TAGS)


def get_repetition(element: Element, dimension: str) -> int:
    """Return how often a row (``dimension`` is ``rows``) or a cell (``columns``) is repeated.

    The attribute can be arbitrarily large (OpenDocument 1.3, 9.1.2), because it also fills the rest of a sheet. A
    number of ten digits or more counts as 1.
    """
    return max(1, parse_list_number(element.get(f"{TABLE}number-{dimension}-repeated"), 1))


def get_span(cell: Element, dimension: str) -> int:
    """Return how many rows (``dimension`` is ``rows``) or columns (``columns``) a cell spans.

    A number of ten digits or more counts as 1 (OpenDocument 1.3, 9.1.4).
    """
    return max(1, parse_list_number(cell.get(f"{TABLE}number-{dimension}-spanned"), 1))


def find_hidden_styles(trees: Iterable[Element], properties_tag: str, attribute: str) -> set[str]:
    """Return the names of the styles that hide the sheets or slides to which they apply.

    In such a style, the element with ``properties_tag`` has ``false`` or ``hidden`` as its ``attribute``.
    """
    return {
        style.get(f"{STYLE}name", "")
        for tree in trees
        for style in tree.iter(f"{STYLE}style")
        for properties in style.iterfind(properties_tag)
        if properties.get(attribute) in ("false", "hidden")
    }


def is_opendocument(stream: BinaryIO) -> bool:
    """True if a file is OpenDocument: XML with its namespace, or a package with ``content.xml``."""
    stream.seek(0)
    start = stream.read(_MAX_START_BYTES)
    if _is_markup(start):
        return b"urn:oasis:names:tc:opendocument" in start
    with suppress(Exception), ZipFile(stream) as archive:  # a damaged directory raises more exceptions than BadZipFile
        return _CONTENT_PATH in archive.namelist()
    return False


def _is_markup(start: bytes) -> bool:
    """True if a file that begins with ``start`` is XML instead of a package."""
    return start.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"<")


def _read_trees(stream: BinaryIO, file_name: str, format_name: str) -> tuple[Element, ...]:
    """Return the root elements of a package's properties, styles and content, without missing parts, in this order.

    A file that is XML instead of a package has only one root element. Raises ReaderError if the file is locked with a
    password. ``format_name`` is the format in messages, such as ODT.
    """
    stream.seek(0)
    if _is_markup(stream.read(_MAX_START_BYTES)):
        stream.seek(0)
        return (parse_xml(stream.read()),)
    package = Package(stream, file_name, format_name)
    if _MANIFEST_PATH in package and package.read_tree(_MANIFEST_PATH).find(_ENCRYPTION_PATH) is not None:
        raise ReaderError(f"{file_name}: is protected by a password; save it without one")
    return tuple(package.read_tree(part) for part in ("meta.xml", "styles.xml", _CONTENT_PATH) if part in package)
