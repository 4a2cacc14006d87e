"""XML: articles and books by their structure, feeds by their entries, and other XML by its elements.
*Prose* is XML with paragraphs, such as DocBook; *data* is other XML. The *local name* of an element has no namespace.

In: an XML file in its declared encoding, or the encoding of the ``encoding`` option. Out: prose becomes one document of
format ``markdown`` with nested sections. Prose is DocBook, JATS, TEI and other XML with the same paragraph names (DITA,
Mallard, FictionBook); metadata are ``author``, ``date`` and ``doi`` from its head. Each entry of a feed (RSS, Atom)
becomes a document whose key is the entry's identifier. Other XML is data: each of several similar records becomes a
document, else the whole file; the content of an element follows its name. Drawings, sitemaps and data of over a million
characters are skipped. Parts in other files are reported and not fetched. Malformed XML, too deep nesting and endless
expansion are ReaderErrors.

Source: DocBook 5.2 (OASIS), JATS 1.3 (NISO Z39.96), TEI P5, RSS 2.0 and RFC 4287; XML 1.0, 4 for entities.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from typing import BinaryIO
from xml.etree.ElementTree import Element

from ..errors import ReaderError
from .decoding import WEB_ENCODING_PATTERN, decode_file
from .markdown_blocks import MarkdownBlock, join_blocks, make_heading, make_paragraph, render_one_line
from .raw_document import JSON, Origin, RawDocument, ReadOptions, SkippedPart
from .xml_prose import PROSE_NAMES, read_prose
from .xml_records import read_data
from .xml_tree import XmlError, get_local_name, get_text, parse_xml_with_entities

#: The encoding in an XML declaration: ``<?xml version="1.0" encoding="utf-8"``.
_ENCODING_DECLARATION_PATTERN = re.compile(rb"""\s*<\?xml[^>]{0,80}encoding\s*=\s*["']([\w.-]{1,40})""")
#: Encodings that expat supports.
_EXPAT_ENCODING_PATTERN = re.compile(r"utf-?8|us-ascii|ascii|iso-?8859-?1|latin-?1")
_FEED_NAMES = frozenset("rss feed RDF".split())


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument | SkippedPart]:
    """Yield the documents of an XML file: a web page, feed entries, prose such as DocBook, or data.

    A sitemap, a drawing, large data without records, and each included file (an external entity) become a
    SkippedPart. Raises ReaderError if the file is empty, not valid XML, or has no text.
    """
    file_bytes = stream.read()
    encoding = options.encoding or _find_declared_encoding(file_bytes)
    if encoding is not None:
        file_bytes = decode_file(file_bytes, origin.name, encoding).encode()
    origin.require_content(file_bytes, "is empty")
    try:
        root, missing_entities = parse_xml_with_entities(file_bytes, "utf-8" if encoding else None)
    except XmlError as error:
        raise ReaderError(f"{origin.name}: {error}; correct it, or ingest it AS text") from None
    name = get_local_name(root)
    if name == "html":
        from .html import read as read_page

        yield from read_page(BytesIO(file_bytes), origin, options)
        return
    if name in ("urlset", "sitemapindex"):
        yield SkippedPart(origin.name, "lists of addresses")
        return
    if name == "svg":
        yield SkippedPart(origin.name, "drawings")
        return
    entries = [element for element in root.iter() if get_local_name(element) in ("item", "entry")]
    if name in _FEED_NAMES and entries:
        yield from _read_entries(root, entries, origin, options)
    elif any(get_local_name(element) in PROSE_NAMES for element in root.iter()):
        yield read_prose(root, origin)
    else:
        yield from read_data(root, origin)
    for entity in missing_entities:
        yield SkippedPart(
            origin.name, "parts in other files", f"the part {entity!r} is in another file, which was not read"
        )


def _find_declared_encoding(data: bytes) -> str | None:
    """Return the declared encoding of a file if it is a web encoding that expat does not support, else None."""
    declaration = _ENCODING_DECLARATION_PATTERN.match(data.lstrip(b"\xef\xbb\xbf"))
    label = declaration[1].decode("ascii").lower() if declaration else ""
    return label if WEB_ENCODING_PATTERN.fullmatch(label) and not _EXPAT_ENCODING_PATTERN.fullmatch(label) else None


def _read_entries(
    root: Element, entries: Sequence[Element], origin: Origin, options: ReadOptions
) -> Iterator[RawDocument]:
    """Yield a document for each of the ``entries`` of a feed that has text or a title.

    ``root`` is the root element of the feed, which has its title. Content in HTML is read with the ``options`` of the
    ingest.
    """
    channel = next((element for element in root.iter() if get_local_name(element) in ("channel", "feed")), root)
    feed_title = next((get_text(child) for child in channel if get_local_name(child) == "title"), "")
    for number, entry in enumerate(entries, 1):
        document = _build_entry(entry, feed_title, f"{origin.key}:{number}", origin, options)
        if document is not None:
            yield document


def _build_entry(
    entry: Element, feed_title: str, default_key: str, origin: Origin, options: ReadOptions
) -> RawDocument | None:
    """Return the document of a feed's entry, or None if the entry has neither text nor a title.

    ``feed_title`` is the title of the feed. The key is the identifier, or ``default_key`` without one. With an
    identifier, ``default_key`` is the ``other_key``, used if another document has the same identifier.
    """
    fields: dict[str, Element] = {}
    for child in entry:
        fields.setdefault(get_local_name(child), child)
    title_blocks = _parse_markup(fields["title"], origin, options) if "title" in fields else []
    title = " ".join(render_one_line(title_blocks).replace("\\", "").split())  # without Markdown escapes
    bodies = (
        _parse_markup(fields[name], origin, options)
        for name in ("encoded", "content", "description", "summary")
        if name in fields
    )
    body = next(filter(None, bodies), [])
    if not body and not title:
        return None
    link = _find_link(entry)
    identifier = _find_text(fields, "guid", "id") or link
    author = fields.get("author") if "author" in fields else fields.get("creator")
    if author is not None:
        author = next((element for element in author if get_local_name(element) == "name"), author)
    values: dict[str, JSON] = {
        "author": "" if author is None else get_text(author),
        "date": _find_text(fields, "pubDate", "published", "date", "updated"),
        "link": link,
        "feed": feed_title,
    }
    meta: dict[str, JSON] = {name: value for name, value in values.items() if value}
    title_heading = [make_heading(1, title)] if title else []
    blocks = [*title_heading, *body] if body else [make_paragraph(title)]
    return RawDocument(
        identifier or default_key,
        title=title or None,
        text=join_blocks(blocks) + "\n",
        meta=meta,
        format="markdown",
        other_key=default_key if identifier else None,
    )


def _find_link(entry: Element) -> str:
    """Return the address of the page that a feed's entry links to, or an empty string."""
    for element in entry:
        if get_local_name(element) == "link" and element.get("rel", "alternate") == "alternate":
            return element.get("href") or get_text(element)
    return ""


def _find_text(elements: Mapping[str, Element], *names: str) -> str:
    """Return the text of the first element, in the order of ``names``, that has text, or an empty string.

    ``elements`` are the elements of a feed entry by name.
    """
    texts = (get_text(elements[name]) for name in names if name in elements)
    return next(filter(None, texts), "")


def _parse_markup(element: Element, origin: Origin, options: ReadOptions) -> list[MarkdownBlock]:
    """Return the Markdown blocks of a feed element, whose content is plain text, escaped HTML, or HTML elements.

    HTML is read with the ``origin`` and ``options`` of the file.
    """
    if len(element):
        from xml.etree.ElementTree import tostring

        markup = tostring(element, "unicode")
        for prefix in ("html:", "xhtml:", "ns0:", "ns1:", "ns2:"):  # the prefixes that tostring gives to HTML elements
            markup = markup.replace(f"<{prefix}", "<").replace(f"</{prefix}", "</")
    else:
        markup = element.text or ""
        if "<" not in markup and "&" not in markup:
            return [make_paragraph(" ".join(part.split())) for part in markup.split("\n\n") if part.strip()]
    if not markup.strip():
        return []
    from .html import convert_markup

    return convert_markup(markup, origin.name, options)
