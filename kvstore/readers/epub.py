"""EPUB: a book becomes one Markdown document, with its parts in the order of the spine.
The *package document* (OPF) has the metadata, the list of parts and the *spine*: the ids of the pages in reading order.
The *navigation* is the table of contents: a page in EPUB 3, an NCX part in EPUB 2.

In: an ``.epub`` file (EPUB 2 or 3). Out: one document of format ``markdown``: the pages of the spine, read as HTML with
``navigation=keep``, except the table of contents page. Headings get the level that the book's navigation gives their
page. A page without headings gets its navigation label as heading. The title, the author, the date, the language, the
publisher and the identifier come from the package; English as the language of a text in another one is dropped. Missing
and unreadable pages are reported, and the other pages are read. A file that is not an EPUB, is damaged or locked, or
has no text is a ReaderError.

Source: EPUB 3.3 (W3C), sections 4.2.6.3.1 (container), 5 (package) and 7 (navigation); EPUB 2's NCX (OPF 2.0.1, 2.4.1).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import BinaryIO, NamedTuple
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from selectolax.lexbor import LexborHTMLParser, LexborNode

from ..errors import ReaderError
from ..text.languages import MAX_EXAMINED_BYTES, detect_document_language, get_stated_language
from .html import parse_page
from .markdown_blocks import MarkdownBlock, join_blocks, make_heading
from .packages import Package
from .raw_document import JSON, Origin, RawDocument, ReadOptions, SkippedPart
from .xml_tree import get_local_name

_CONTAINER_PATH = "META-INF/container.xml"
_ENCRYPTION_PATH = "META-INF/encryption.xml"
_DC_NAMESPACE = "{http://purl.org/dc/elements/1.1/}"
_OPF_NAMESPACE = "{http://www.idpf.org/2007/opf}"
_NCX_NAMESPACE = "{http://www.daisy.org/z3986/2005/ncx/}"
_PAGE_MEDIA_TYPES = ("application/xhtml+xml", "text/html", "application/x-dtbook+xml", "text/x-oeb1-document")
_META_FIELDS = {
    "creator": "author",
    "date": "date",
    "language": "language",
    "publisher": "publisher",
    "identifier": "id",
}
_HEADING_PATTERN = re.compile(r"(?P<marks>#+) (?P<title>.*)")  # ## Green tea
#: The maximum number of missing pages that a message lists.
_MAX_MISSING_SHOWN = 3
#: The maximum depth of navigation entries.
_MAX_NAVIGATION_DEPTH = 6


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument | SkippedPart]:
    """Convert an EPUB book to Markdown; yield it as one document, and a SkippedPart for each missing page.

    Raises ReaderError if the file is not an EPUB, is damaged or locked, or has no text.
    """
    package = Package(stream, origin.name, "EPUB")
    with package.convert_errors():
        book = _EpubBook(package, origin.name, options)
        blocks = book.build_blocks()
        title, meta = book.title, book.meta
    text = join_blocks(blocks) + "\n"
    # Many programs state "en" unless the author chooses a language.
    excerpt = text[:MAX_EXAMINED_BYTES].encode()[:MAX_EXAMINED_BYTES]
    if get_stated_language(meta) == "en" and detect_document_language(excerpt) not in (None, "en"):
        del meta["language"]
    missing_text = ", ".join(map(repr, book.missing_pages[:_MAX_MISSING_SHOWN]))
    if not blocks and missing_text:
        raise ReaderError(f"{origin.name}: is damaged: its pages are missing or cannot be read, such as {missing_text}")
    origin.require_content(blocks, "has no text (a book of pictures?)")
    yield RawDocument(origin.key, title=title, text=text, meta=meta, format="markdown")
    detail = (
        f"is damaged: {len(book.missing_pages):,} of its pages are missing or cannot be read, such as {missing_text}; "
        "the other pages were read"
    )
    # Skipped parts are counted, so there is one for each page; only the first one has the message.
    for index in range(len(book.missing_pages)):
        yield SkippedPart(origin.name, "unreadable pages of books", "" if index else detail)


class _NavigationEntry(NamedTuple):
    """An entry of a book's table of contents: its level, from 1, the reference to its page, and its label."""

    level: int
    reference: str
    label: str


class _EpubBook:
    """A book: ``title`` and ``meta`` come from its package, ``missing_pages`` has the unreadable pages.
    ``_pages`` are the paths of its pages in reading order, ``_contents_page`` is the one with the table of contents.
    """

    def __init__(self, package: Package, name: str, options: ReadOptions) -> None:
        """Read the list of pages, the navigation and the metadata of a book.

        ``name`` is the file in messages. Raises ReaderError if the book is encrypted or its package is missing.
        """
        self._package, self._name = package, name
        self._options = replace(options, navigation="keep")  # the pages of a book have no navigation of a site
        self.missing_pages: list[str] = []
        package_path = self._find_package_path()
        opf = package.read_tree(package_path)
        folder = posixpath.dirname(package_path)
        manifest = {  # the path and element of each item by its id
            item.get("id", ""): (_resolve_reference(folder, item.get("href", "")), item)
            for item in opf.iter(f"{_OPF_NAMESPACE}item")
        }
        # The path of the page with the table of contents (EPUB 3), or None.
        self._contents_page = next(
            (page_path for page_path, item in manifest.values() if "nav" in item.get("properties", "").split()), None
        )
        spine = opf.find(f"{_OPF_NAMESPACE}spine")
        item_ids = [] if spine is None else [item.get("idref", "") for item in spine.iter(f"{_OPF_NAMESPACE}itemref")]
        spine_items = [manifest[item_id] for item_id in item_ids if item_id in manifest]
        page_paths = [
            page_path
            for page_path, item in spine_items
            if item.get("media-type") in _PAGE_MEDIA_TYPES and page_path != self._contents_page
        ]
        self._pages = list(dict.fromkeys(page_paths))  # without duplicates: several items can refer to the same page
        self._check_not_locked()
        # The path of the table of contents of EPUB 2, or None.
        ncx_path, _ = manifest.get(spine.get("toc", ""), (None, None)) if spine is not None else (None, None)
        self._navigation = self._read_navigation(ncx_path)
        self.title = _get_text(opf.find(f".//{_DC_NAMESPACE}title")) or None
        self.meta = _read_meta(opf)

    def _find_package_path(self) -> str:
        """Return the path of the package document, which ``container.xml`` names; raises ReaderError without it."""
        elements = self._package.read_tree(_CONTAINER_PATH).iter()
        package_path = next(
            (element.get("full-path") for element in elements if get_local_name(element) == "rootfile"), None
        )
        if package_path is None:
            raise ReaderError(f"{self._name}: is not an EPUB file (its container names no package)")
        return package_path

    def build_blocks(self) -> list[MarkdownBlock]:
        """Return all blocks of the book in the order of its pages; unreadable pages are added to ``missing_pages``."""
        blocks: list[MarkdownBlock] = []
        for page_path in self._pages:
            try:
                markup = self._package.read_part(page_path)
                page_blocks: list[MarkdownBlock] = []
                if markup.strip():
                    page_blocks = parse_page(markup, f"{self._name}/{page_path}", self._options).blocks
            except MemoryError:
                raise
            except Exception:  # a part that is missing, damaged or not a page
                self.missing_pages.append(page_path)
                continue
            blocks += _shift_headings(page_blocks, self._navigation.get(page_path))
        return blocks

    def _check_not_locked(self) -> None:
        """Raise ReaderError if pages are encrypted; encrypted fonts are allowed."""
        if _ENCRYPTION_PATH not in self._package:
            return
        locked_parts = {unquote(element.get("URI", "")) for element in self._package.read_tree(_ENCRYPTION_PATH).iter()}
        if locked_parts & set(self._pages):
            raise ReaderError(
                f"{self._name}: is protected by digital rights management (DRM), so its text cannot be read"
            )

    def _read_navigation(self, ncx_path: str | None) -> Mapping[str, _NavigationEntry]:
        """Return the first entry for each page in the book's table of contents, by the path of the page.

        EPUB 3 has the table of contents in a page, EPUB 2 in the NCX part at ``ncx_path`` (None: it has no such part).
        """
        entries: Iterator[_NavigationEntry] = iter(())
        folder = ""
        if self._contents_page is not None and self._contents_page in self._package:
            tree = LexborHTMLParser(self._package.read_part(self._contents_page).decode("utf-8", "replace"))
            # A <nav> without a type is taken for a table of contents.
            lists = [nav.css_first("ol") for nav in tree.css("nav") if nav.attributes.get("epub:type", "toc") == "toc"]
            folder = posixpath.dirname(self._contents_page)
            entries = _iter_list_entries(lists[0] if lists else None, level=1)
        elif ncx_path is not None and ncx_path in self._package:
            folder = posixpath.dirname(ncx_path)
            entries = _iter_ncx_entries(self._package.read_tree(ncx_path).find(f"{_NCX_NAMESPACE}navMap"), level=1)
        entries_by_path: dict[str, _NavigationEntry] = {}
        for entry in entries:
            entries_by_path.setdefault(_resolve_reference(folder, entry.reference), entry)
        return entries_by_path


def _shift_headings(blocks: list[MarkdownBlock], navigation_entry: _NavigationEntry | None) -> list[MarkdownBlock]:
    """Return the blocks of a page, with the levels of its headings shifted to its level in the table of contents.

    The highest heading gets that level. ``navigation_entry`` is the entry of the page there (None: the blocks are
    unchanged). A page without headings gets the label of the entry as its heading.
    """
    if navigation_entry is None:
        return blocks
    level, label = navigation_entry.level, navigation_entry.label
    heading_matches = [_HEADING_PATTERN.match(block.text) if block.kind == "heading" else None for block in blocks]
    heading_levels = [len(match["marks"]) for match in heading_matches if match]
    if not heading_levels:
        return [make_heading(level, label), *blocks] if label else blocks
    shift = level - min(heading_levels)
    return [
        make_heading(len(match["marks"]) + shift, match["title"]) if match else block
        for block, match in zip(blocks, heading_matches, strict=True)
    ]


def _iter_list_entries(ordered_list: LexborNode | None, level: int) -> Iterator[_NavigationEntry]:
    """Yield the links in an ``<ol>`` of a table of contents page (EPUB 3), and the links in its inner lists.

    ``level`` is the level of the list, from 1. If ``ordered_list`` is None, there are no links.
    """
    item = ordered_list.child if ordered_list is not None else None
    while item is not None:
        if item.tag == "li":
            link, inner_list = item.css_first("a"), item.css_first("ol")
            if link is not None:
                label = " ".join(link.text(deep=True).split())
                yield _NavigationEntry(level, link.attributes.get("href") or "", label)
            if level < _MAX_NAVIGATION_DEPTH:
                yield from _iter_list_entries(inner_list, level + 1)
        item = item.next


def _iter_ncx_entries(parent: Element | None, level: int) -> Iterator[_NavigationEntry]:
    """Yield the entries below ``parent`` in an NCX table of contents (EPUB 2), depth first.

    ``level`` is the level of its direct children, from 1. If ``parent`` is None, there are no entries.
    """
    for point in parent.findall(f"{_NCX_NAMESPACE}navPoint") if parent is not None else ():
        content = point.find(f"{_NCX_NAMESPACE}content")
        label = _get_text(point.find(f"{_NCX_NAMESPACE}navLabel"))
        if content is not None:
            yield _NavigationEntry(level, content.get("src", ""), label)
        if level < _MAX_NAVIGATION_DEPTH:
            yield from _iter_ncx_entries(point, level + 1)


def _resolve_reference(folder: str, reference: str) -> str:
    """Return the path in the package that a reference relative to ``folder`` leads to, without its anchor."""
    return posixpath.normpath(posixpath.join(folder, unquote(reference.partition("#")[0])))


def _read_meta(opf: Element) -> dict[str, JSON]:
    """Return the metadata in a book's package document (``opf``): the first value of each field, but all authors."""
    meta: dict[str, JSON] = {}
    for element_name, field in _META_FIELDS.items():
        texts = list(filter(None, map(_get_text, opf.iter(f"{_DC_NAMESPACE}{element_name}"))))
        if texts:
            meta[field] = texts[0] if field != "author" else ", ".join(texts)
    return meta


def _get_text(element: Element | None) -> str:
    """Return the text of an element on one line; an empty string for None."""
    return "" if element is None else " ".join("".join(element.itertext()).split())
