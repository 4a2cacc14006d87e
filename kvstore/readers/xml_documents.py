"""XML: articles and books by their structure, feeds by their entries, and other XML by its elements.

In: an XML file in its declared encoding (or in that of the option ``encoding``). Out: prose becomes one document of
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
from collections.abc import Iterator, Sequence
from io import BytesIO
from typing import BinaryIO
from xml.etree.ElementTree import Element

from ..errors import ReaderError
from .decoding import WEB_ENCODING_PATTERN, decode_file
from .markdown_blocks import (
    InlineBuilder,
    MarkdownBlock,
    join_blocks,
    make_code_block,
    make_heading,
    make_list,
    make_paragraph,
    make_quote,
    make_table,
    render_one_line,
)
from .raw_document import JSON, Origin, RawDocument, ReadOptions, SkippedPart
from .scalars import parse_number
from .xml_tree import XmlError, parse_xml_with_entities

#: The maximum number of characters of data, as for JSON; larger files are not meant for human readers.
_MAX_DATA_CHARACTERS = 1_000_000
#: The maximum length of a field that also becomes metadata.
_MAX_META_CHARACTERS = 200
#: The maximum depth of indented lists.
_MAX_LIST_DEPTH = 12

_ENCODING_DECLARATION_PATTERN = re.compile(rb"""\s*<\?xml[^>]{0,80}encoding\s*=\s*["']([\w.-]{1,40})""")
#: Encodings that expat supports.
_EXPAT_ENCODING_PATTERN = re.compile(r"utf-?8|us-ascii|ascii|iso-?8859-?1|latin-?1")

_FEED_NAMES = frozenset("rss feed RDF".split())
_PARAGRAPH_NAMES = frozenset(
    "para simpara paragraph p ab lg l sp stage speaker formalpara bridgehead subtitle v stanza".split()
)
#: Element names that occur only in prose.
_PROSE_NAMES = frozenset("para simpara paragraph p ab lg formalpara".split())
_ITEM_LIST_NAMES = frozenset(
    "itemizedlist orderedlist procedure substeps simplelist list ul ol steps steps-unordered segmentedlist calloutlist "
    "bullet_list enumerated_list".split()
)
_ITEM_NAMES = frozenset("listitem item list-item list_item li step member callout seglistitem sli".split())
_TERM_LIST_NAMES = frozenset("variablelist glosslist def-list dl glossary terms".split())
_ENTRY_NAMES = frozenset("varlistentry glossentry def-item dlentry".split())
_TERM_NAMES = frozenset("term glossterm dt".split())
_CODE_BLOCK_NAMES = frozenset(
    "programlisting screen literallayout synopsis cmdsynopsis funcsynopsis preformat codeblock pre msgblock screenco "
    "literal_block".split()
)
_QUOTE_NAMES = frozenset("blockquote block_quote epigraph disp-quote cit lq".split())
_ADMONITION_NAMES = frozenset("note tip warning caution important danger".split())
_TABLE_NAMES = frozenset("table informaltable table-wrap simpletable".split())
_ROW_NAMES = frozenset("row tr sthead strow".split())
_CELL_NAMES = frozenset("entry cell td th stentry".split())
_ABSTRACT_NAMES = frozenset("abstract shortdesc".split())
_FOOTNOTE_NAMES = frozenset("footnote fn".split())
_TITLE_NAMES = frozenset("title head".split())
_BLOCK_NAMES = (
    _PARAGRAPH_NAMES | _ITEM_LIST_NAMES | _TERM_LIST_NAMES | _CODE_BLOCK_NAMES | _QUOTE_NAMES
    | _ADMONITION_NAMES | _TABLE_NAMES
    | frozenset("section sect1 sect2 sect3 sect4 sect5 sec chapter appendix preface part div div1 div2 div3 div4 div5 "
                "refsect1 refsect2 refsect3 refsection figure informalfigure example informalexample fig boxed-text "
                "sidebar abstract ref-list ack app body front back text body group shortdesc conbody taskbody".split())
)  # fmt: skip
#: Elements whose title is not a heading.
_CAPTIONED_NAMES = (
    _ADMONITION_NAMES | _TABLE_NAMES | _ITEM_LIST_NAMES | _TERM_LIST_NAMES
    | frozenset("figure informalfigure example fig caption formalpara sidebar procedure list".split())
)  # fmt: skip
#: Elements with the title, authors, date and abstract of a document.
_HEAD_NAMES = frozenset(
    "info articleinfo bookinfo chapterinfo sectioninfo refentryinfo setinfo appendixinfo prefaceinfo front teiHeader "
    "prolog docinfo".split()
)
_IGNORED_NAMES = frozenset(
    "indexterm remark index toc titleabbrev anchor colspec spanspec object-id script style".split()
)
_CODE_NAMES = frozenset(
    "code literal command filename option varname envar constant function classname methodname userinput "
    "computeroutput monospace codeph filepath cmdname parmname apiname systemitem package replaceable parameter "
    "keycode".split()
)
_EMPHASIS_NAMES = frozenset("emphasis bold italic b i em strong hi emph".split())
_INLINE_NAMES = _EMPHASIS_NAMES | _CODE_NAMES | frozenset("sub sup subscript superscript sc tt".split())
_INLINE_QUOTE_NAMES = frozenset("quote q".split())
_LINE_BREAK_NAMES = frozenset("br lb break sbr".split())


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument | SkippedPart]:
    """Yield the documents of the file."""
    data = stream.read()
    encoding = options.encoding or _find_declared_encoding(data)
    if encoding is not None:
        data = decode_file(data, origin.name, encoding).encode()
    if not data.strip():
        raise ReaderError(f"{origin.name}: is empty; there is nothing to store")
    try:
        root, missing_entities = parse_xml_with_entities(data, "utf-8" if encoding else None)
    except XmlError as error:
        raise ReaderError(f"{origin.name}: {error}; mend it, or ingest it AS text") from None
    name = _get_local_name(root)
    if name == "html":
        from .html import read as read_page

        yield from read_page(BytesIO(data), origin, options)
        return
    if name in ("urlset", "sitemapindex"):
        yield SkippedPart(origin.name, "lists of addresses")
        return
    if name == "svg":
        yield SkippedPart(origin.name, "drawings")
        return
    if name in _FEED_NAMES and (
        entries := [element for element in root.iter() if _get_local_name(element) in ("item", "entry")]
    ):
        yield from _read_entries(root, entries, origin, options)
    elif any(_get_local_name(element) in _PROSE_NAMES for element in root.iter()):
        yield _read_prose(root, origin)
    else:
        yield from _read_data(root, origin)
    for entity in missing_entities:
        yield SkippedPart(
            origin.name, "parts in other files", f"what {entity!r} stands for lies in another file, which is not read"
        )


def _find_declared_encoding(data: bytes) -> str | None:
    """Return the declared encoding of a file if it is a web encoding that expat does not support, else None."""
    declaration = _ENCODING_DECLARATION_PATTERN.match(data.lstrip(b"\xef\xbb\xbf"))
    label = declaration[1].decode("ascii").lower() if declaration else ""
    return label if WEB_ENCODING_PATTERN.fullmatch(label) and not _EXPAT_ENCODING_PATTERN.fullmatch(label) else None


# --- prose ------------------------------------------------------------------------------------------------------------


def _read_prose(root: Element, origin: Origin) -> RawDocument:
    prose = _XmlProse(root)
    blocks = prose.build_blocks()
    if not blocks:
        raise ReaderError(f"{origin.name}: has no text; there is nothing to store")
    return RawDocument(origin.key, prose.title or None, join_blocks(blocks) + "\n", prose.meta, "markdown")


class _XmlProse:
    """The converter of an article or a book; ``title`` and ``meta`` come from its head."""

    def __init__(self, root: Element) -> None:
        self._root = root
        self._notes: list[str] = []
        self.meta: dict[str, JSON] = {}
        # An element that contains a block is a block, regardless of its name.
        self._block_elements: set[Element] = set()
        parents = {child: parent for parent in root.iter() for child in parent}
        for element in root.iter():
            if _get_local_name(element) in _BLOCK_NAMES and _get_local_name(element) not in _FOOTNOTE_NAMES:
                holder: Element | None = element
                while (
                    holder is not None
                    and holder not in self._block_elements
                    and _get_local_name(holder) not in _FOOTNOTE_NAMES
                ):
                    self._block_elements.add(holder)
                    holder = parents.get(holder)
        self.title = self._read_head()

    def build_blocks(self) -> list[MarkdownBlock]:
        """Return all blocks, the footnotes last."""
        blocks = self._build_section(self._root, 1)
        if self.title and not any(block.kind == "heading" for block in blocks[:1]):
            blocks = [make_heading(1, self.title), *blocks]
        return [*blocks, *(make_paragraph(f"[{number}] {text}") for number, text in enumerate(self._notes, 1))]

    def _read_head(self) -> str:
        """Return the title of the document, and store its metadata."""
        head = next((child for child in self._root if _get_local_name(child) in _HEAD_NAMES), None)
        titles = ("article-title", "title", "book-title", "title-main") if head is not None else ()
        title = None
        if head is not None:
            title = next(
                (element for name in titles for element in head.iter() if _get_local_name(element) == name), None
            )
            authors = [
                _format_person(element)
                for element in head.iter()
                if _get_local_name(element) in ("author", "contrib", "personname")
            ]
            authors = [element for element in dict.fromkeys(authors) if element]
            if authors:
                self.meta["author"] = ", ".join(authors)
            date = next(
                (
                    element
                    for name in ("pub-date", "pubdate", "date")
                    for element in head.iter()
                    if _get_local_name(element) == name
                ),
                None,
            )
            if date is not None and (text := _format_date(date)):
                self.meta["date"] = text
            doi = next(
                (
                    element
                    for element in head.iter()
                    if _get_local_name(element) == "article-id" and element.get("pub-id-type") == "doi"
                ),
                None,
            )
            if doi is not None and (text := _get_text(doi)):
                self.meta["doi"] = text
        if title is None:
            title = next((child for child in self._root if _get_local_name(child) in _TITLE_NAMES), None)
        return _get_text(title) if title is not None else ""

    def _build_section(self, element: Element, level: int) -> list[MarkdownBlock]:
        """Return the blocks of an element after its title as a heading."""
        title = next((child for child in element if _get_local_name(child) in _TITLE_NAMES), None)
        head = next(
            (
                child
                for child in element
                if _get_local_name(child) in _HEAD_NAMES and (_get_local_name(child) != "front" or _is_head(child))
            ),
            None,
        )
        if title is None and head is not None:
            title = next(
                (candidate for candidate in head.iter() if _get_local_name(candidate) in ("title", "article-title")),
                None,
            )
        blocks: list[MarkdownBlock] = []
        label = None
        if title is not None and (text := self._render_line(title)):
            label = next((child for child in element if _get_local_name(child) == "label"), None)
            blocks.append(make_heading(min(level, 6), f"{_get_text(label)} {text}" if label is not None else text))
            level += 1
        elif _get_local_name(element) == "abstract":
            blocks.append(make_heading(min(level, 6), "Abstract"))
            level += 1
        if head is not None:
            for abstract in _iter_outermost(head, _ABSTRACT_NAMES):
                blocks += self._build_section(abstract, level)
        return blocks + self._build_children(
            element, level, frozenset(candidate for candidate in (title, head, label) if candidate is not None)
        )

    def _build_children(
        self, element: Element, level: int, excluded: frozenset[Element] = frozenset()
    ) -> list[MarkdownBlock]:
        blocks: list[MarkdownBlock] = []
        inline = InlineBuilder()
        # If an element with blocks has no text of its own, each of its children is a separate paragraph.
        separates_children = (
            element in self._block_elements
            and _get_local_name(element) not in _PARAGRAPH_NAMES
            and not (element.text or "").strip()
            and not any((child.tail or "").strip() for child in element)
        )
        follows_element = False  # True directly after an element, without text in between

        def flush_paragraph() -> None:
            blocks.extend(map(make_paragraph, inline.take_paragraphs()))

        inline.add_text(element.text or "")
        for child in element:
            name = _get_local_name(child)
            if child in excluded or name in _IGNORED_NAMES:
                pass
            elif (
                child in self._block_elements
                or name in _TITLE_NAMES
                or (name == "code" and "\n" in "".join(child.itertext()).strip())
            ):
                flush_paragraph()
                blocks += self._build_block(child, "pre" if name == "code" else name, level)
            else:
                if name not in _INLINE_NAMES:
                    if separates_children:
                        flush_paragraph()
                    elif follows_element:
                        inline.separate_words()
                self._add_inline(child, inline)
            follows_element = not child.tail
            inline.add_text(child.tail or "")
        flush_paragraph()
        return blocks

    def _build_block(self, element: Element, name: str, level: int) -> list[MarkdownBlock]:
        if name in _ITEM_LIST_NAMES:
            return self._build_list(element, name, level)
        if name in _TERM_LIST_NAMES and any(
            _get_local_name(child) in _ENTRY_NAMES or _get_local_name(child) in _TERM_NAMES for child in element
        ):
            return self._build_term_list(element, level)
        if name in _TABLE_NAMES:
            return self._build_table(element, level)
        if name in _CODE_BLOCK_NAMES:
            code = "".join(element.itertext())
            return [make_code_block(code, _get_language(element))] if code.strip() else []
        if name in _QUOTE_NAMES:
            blocks = self._build_children(element, level)
            return [make_quote(blocks)] if blocks else []
        if name in _ADMONITION_NAMES:
            blocks = self._build_children(element, level)
            label = f"{name.capitalize()}:"
            if blocks and blocks[0].kind == "paragraph":
                return [MarkdownBlock("paragraph", f"{label} {blocks[0].text}"), *blocks[1:]]
            return [make_paragraph(label), *blocks] if blocks else []
        if name == "lg":  # a stanza: each child is a line
            lines = [self._render_line(child) for child in element]
            return [make_paragraph("\n".join(filter(None, lines)))] if any(lines) else []
        if name in _TITLE_NAMES:
            return [make_paragraph(text)] if (text := self._render_line(element)) else []
        if name in _PARAGRAPH_NAMES or name in _CAPTIONED_NAMES or name in _ITEM_NAMES:
            return self._build_children(element, level)
        return self._build_section(element, level)

    def _build_list(self, element: Element, name: str, level: int) -> list[MarkdownBlock]:
        kind = element.get("list-type") or element.get("type") or element.get("rend") or ""
        is_numbered = name in ("orderedlist", "procedure", "substeps", "ol", "steps", "enumerated_list") or kind in (
            "order",
            "ordered",
            "numbered",
        )
        leading_blocks: list[MarkdownBlock] = []
        items: list[tuple[str, list[MarkdownBlock]]] = []
        term = ""
        for child in element:
            child_name = _get_local_name(child)
            if child_name in _IGNORED_NAMES:
                continue
            if child_name == "label":  # TEI: the label of the next item
                term = self._render_line(child)
                continue
            if child_name not in _ITEM_NAMES:
                (items[-1][1] if items else leading_blocks).extend(self._build_block(child, child_name, level))
                continue
            blocks = self._build_children(
                child, level, frozenset(candidate for candidate in child if _get_local_name(candidate) == "label")
            )
            if term:
                blocks = _prepend_term(term, blocks)
                term = ""
            if blocks:
                items.append((f"{len(items) + 1}." if is_numbered else "-", blocks))
        return [*leading_blocks, *([make_list(items)] if items else [])]

    def _build_term_list(self, element: Element, level: int) -> list[MarkdownBlock]:
        leading_blocks: list[MarkdownBlock] = []
        items: list[tuple[str, list[MarkdownBlock]]] = []
        terms: list[str] = []
        for entry in element:
            name = _get_local_name(entry)
            if name not in _ENTRY_NAMES and name not in _TERM_NAMES and name not in ("dd", "item"):
                leading_blocks += self._build_block(entry, name, level) if name not in _IGNORED_NAMES else []
                continue
            parts = list(entry) if name in _ENTRY_NAMES else [entry]
            definition: list[MarkdownBlock] = []
            for part in parts:
                if _get_local_name(part) in _TERM_NAMES:
                    terms.append(self._render_line(part))
                else:
                    definition += self._build_children(part, level)
            if name in _ENTRY_NAMES or name not in _TERM_NAMES:
                items.append(("-", _prepend_term(", ".join(filter(None, terms)), definition)))
                terms = []
        return [*leading_blocks, *([make_list([item for item in items if item[1]])] if items else [])]

    def _build_table(self, element: Element, level: int) -> list[MarkdownBlock]:
        blocks: list[MarkdownBlock] = []
        for child in element:
            if _get_local_name(child) in _TITLE_NAMES or _get_local_name(child) in ("caption", "label"):
                blocks += self._build_children(child, level)
        blocks = [make_paragraph(" ".join(render_one_line([block]) for block in blocks))] if blocks else []
        rows: list[list[str]] = []
        for row in _iter_outermost(element, _ROW_NAMES):
            cells = [child for child in row if _get_local_name(child) in _CELL_NAMES]
            rows.append([render_one_line(self._build_children(cell, level)) for cell in cells])
        return [*blocks, *([make_table(rows[0], rows[1:])] if rows else [])]

    def _add_inline(self, element: Element, inline: InlineBuilder) -> None:
        name = _get_local_name(element)
        if name in _IGNORED_NAMES:
            return
        if name in _FOOTNOTE_NAMES:
            number = len(self._notes)
            self._notes.append("")
            self._notes[number] = render_one_line(self._build_children(element, 9))
            inline.add_text(f"[{number + 1}]")
        elif name in _LINE_BREAK_NAMES:
            inline.break_line()
        elif name in _CODE_NAMES:
            inline.add_code("".join(element.itertext()))
        elif name in _EMPHASIS_NAMES:
            started = inline.start_emphasis()
            self._add_inline_children(element, inline)
            inline.end_emphasis(started)
        elif name in _INLINE_QUOTE_NAMES:
            inline.add_text("“")
            self._add_inline_children(element, inline)
            inline.add_text("”")
        elif name in ("ulink", "link", "ext-link", "xref") and not "".join(element.itertext()).strip():
            inline.add_text(
                element.get("url") or element.get("{http://www.w3.org/1999/xlink}href") or element.get("linkend") or ""
            )
        else:
            self._add_inline_children(element, inline)

    def _add_inline_children(self, element: Element, inline: InlineBuilder) -> None:
        inline.add_text(element.text or "")
        follows_element = False
        for child in element:
            if follows_element and _get_local_name(child) not in _INLINE_NAMES:
                inline.separate_words()
            self._add_inline(child, inline)
            follows_element = not child.tail
            inline.add_text(child.tail or "")

    def _render_line(self, element: Element) -> str:
        """Return an element as a line of running text."""
        inline = InlineBuilder(plain=True)
        self._add_inline_children(element, inline)
        return " ".join(" ".join(inline.take_paragraphs()).split())


def _iter_outermost(element: Element, names: frozenset[str]) -> Iterator[Element]:
    """Yield the descendants with these names that are not inside one another."""
    stack = [iter(element)]
    while stack:
        child = next(stack[-1], None)
        if child is None:
            stack.pop()
        elif _get_local_name(child) in names:
            yield child
        else:
            stack.append(iter(child))


def _is_head(element: Element) -> bool:
    return _get_local_name(element) == "front" and any(_get_local_name(child).endswith("-meta") for child in element)


def _prepend_term(term: str, blocks: list[MarkdownBlock]) -> list[MarkdownBlock]:
    """Return the blocks of a definition with its term before the first paragraph."""
    if blocks and blocks[0].kind == "paragraph":
        return [MarkdownBlock("paragraph", f"{term}: {blocks[0].text}"), *blocks[1:]]
    return [MarkdownBlock("paragraph", f"{term}:" if blocks else term), *blocks] if term else blocks


def _get_language(element: Element) -> str:
    language = element.get("language") or element.get("lang") or ""
    return language.lower() if language.replace("+", "").replace("-", "").replace("#", "").isalnum() else ""


def _format_person(element: Element) -> str:
    """Return the name of a person, given names first."""
    parts = {_get_local_name(part): _get_text(part) for part in element.iter()}
    given_names = next((parts[name] for name in ("firstname", "given-names", "forename") if parts.get(name)), "")
    surname = next((parts[name] for name in ("surname",) if parts.get(name)), "")
    if surname:
        return f"{given_names} {surname}".strip()
    return _get_text(element) if not len(element) else _get_text(next(iter(element)))


def _format_date(element: Element) -> str:
    parts = {_get_local_name(child): _get_text(child) for child in element}
    if parts.get("year"):
        return "-".join(parts[name].zfill(2) for name in ("year", "month", "day") if parts.get(name, "").isdigit())
    return element.get("when") or element.get("iso-8601-date") or _get_text(element)


# --- feeds ------------------------------------------------------------------------------------------------------------


def _read_entries(
    root: Element, entries: Sequence[Element], origin: Origin, options: ReadOptions
) -> Iterator[RawDocument]:
    """Yield a document for each entry of a feed."""
    channel = next((element for element in root.iter() if _get_local_name(element) in ("channel", "feed")), root)
    feed = next((_get_text(child) for child in channel if _get_local_name(child) == "title"), "")
    for number, entry in enumerate(entries, 1):
        fields: dict[str, Element] = {}
        for child in entry:
            fields.setdefault(_get_local_name(child), child)
        title = " ".join(_render_text(fields.get("title"), origin, options).split())
        body = next(
            (blocks for name in ("encoded", "content", "description", "summary")
             if name in fields and (blocks := _parse_markup(fields[name], origin, options))),
            [],
        )  # fmt: skip
        if not body and not title:
            continue
        link = next(
            (
                element.get("href") or _get_text(element)
                for element in entry
                if _get_local_name(element) == "link" and element.get("rel", "alternate") == "alternate"
            ),
            "",
        )
        default = f"{origin.key}:{number}"
        identifier = next(
            (text for name in ("guid", "id") if name in fields and (text := _get_text(fields[name]))), link
        )
        meta: dict[str, JSON] = {}
        author = fields.get("author") if "author" in fields else fields.get("creator")
        if author is not None and (
            text := _get_text(next((element for element in author if _get_local_name(element) == "name"), author))
        ):
            meta["author"] = text
        date = next(
            (
                text
                for name in ("pubDate", "published", "date", "updated")
                if name in fields and (text := _get_text(fields[name]))
            ),
            "",
        )
        for field_name, value in (("date", date), ("link", link), ("feed", feed)):
            if value:
                meta[field_name] = value
        blocks = [*([make_heading(1, title)] if title else []), *body] if body else [make_paragraph(title)]
        yield RawDocument(
            identifier or default,
            title or None,
            join_blocks(blocks) + "\n",
            meta,
            "markdown",
            other_key=default if identifier else None,
        )


def _parse_markup(element: Element, origin: Origin, options: ReadOptions) -> list[MarkdownBlock]:
    """Return the blocks of a feed element with text, escaped HTML, or HTML elements."""
    if len(element):
        from xml.etree.ElementTree import tostring

        markup = tostring(element, "unicode")
        for prefix in ("html:", "xhtml:", "ns0:", "ns1:", "ns2:"):
            markup = markup.replace(f"<{prefix}", "<").replace(f"</{prefix}", "</")
    else:
        markup = element.text or ""
        if "<" not in markup and "&" not in markup:
            return [make_paragraph(" ".join(part.split())) for part in markup.split("\n\n") if part.strip()]
    if not markup.strip():
        return []
    from .html import convert_markup

    return convert_markup(markup, origin.name, options)


def _render_text(element: Element | None, origin: Origin, options: ReadOptions) -> str:
    return "" if element is None else render_one_line(_parse_markup(element, origin, options)).replace("\\", "")


# --- data -------------------------------------------------------------------------------------------------------------


def _read_data(root: Element, origin: Origin) -> Iterator[RawDocument | SkippedPart]:
    """Yield a document for each of several similar records, else one for the whole file."""
    size = sum(len(element.text or "") + sum(map(len, element.attrib.values())) for element in root.iter())
    children = list(root)
    if len(children) > 1 and len({child.tag for child in children}) == 1 and all(len(child) for child in children):
        for number, record in enumerate(children, 1):
            if any((element.text or "").strip() or element.attrib for element in record.iter()):
                yield _build_record(record, f"{origin.key}:{number}")
        return
    if size > _MAX_DATA_CHARACTERS:
        yield SkippedPart(origin.name, "data of over a million characters")
        return
    blocks = _build_fields(root, 2)
    if not blocks:
        raise ReaderError(f"{origin.name}: has no text; there is nothing to store")
    title = _find_label(root)
    yield RawDocument(
        origin.key,
        title or None,
        join_blocks([make_heading(1, title or _get_local_name(root)), *blocks]) + "\n",
        {},
        "markdown",
    )


def _build_record(record: Element, default: str) -> RawDocument:
    leaves: dict[str, str] = dict(record.attrib)
    for child in record:
        if not len(child):
            leaves.setdefault(_get_local_name(child), _get_text(child))
    identifier = next((leaves[name] for name in ("id", "key") if leaves.get(name)), "")
    title = next((leaves[name] for name in ("title", "name") if leaves.get(name)), "")
    meta: dict[str, JSON] = {
        name.rpartition("}")[2]: parse_number(value)
        for name, value in leaves.items()
        if value and len(value) <= _MAX_META_CHARACTERS
    }
    blocks = _build_fields(record, 2)
    text = join_blocks([*([make_heading(1, title)] if title else []), *blocks]) + "\n"
    return RawDocument(
        identifier or default, title or None, text, meta, "markdown", other_key=default if identifier else None
    )


def _build_fields(element: Element, level: int) -> list[MarkdownBlock]:
    """Return the blocks of data:

    leaves become list items with names and values, other elements sections or inner lists.
    """
    blocks: list[MarkdownBlock] = []
    items: list[tuple[str, list[MarkdownBlock]]] = [
        ("-", [MarkdownBlock("paragraph", f"{name.rpartition('}')[2]}: {_join_whitespace(value)}")])
        for name, value in element.attrib.items()
        if value.strip() and not name.endswith(("}schemaLocation", "}space"))
    ]

    def flush_items() -> None:
        if items:
            blocks.append(make_list(list(items)))
            items.clear()

    if (element.text or "").strip():
        blocks.append(make_paragraph(_join_whitespace(element.text or "")))
    for child in element:
        name = _get_local_name(child)
        is_mixed = bool(len(child)) and any((grandchild.tail or "").strip() for grandchild in child)
        if not len(child) or is_mixed:
            attributes = ", ".join(
                f"{key.rpartition('}')[2]} {_join_whitespace(value)}"
                for key, value in child.attrib.items()
                if value.strip()
            )
            value = _get_text(child)
            if value or attributes:
                name_text = f"{name} ({attributes})" if attributes and value else f"{name} {attributes}".strip()
                items.append(("-", [MarkdownBlock("paragraph", f"{name_text}: {value}" if value else name_text)]))
        elif level <= 3:
            inner_blocks = _build_fields(child, level + 1)
            if inner_blocks:
                flush_items()
                label = _find_label(child)
                blocks += [make_heading(level, f"{name} {label}".strip()), *inner_blocks]
        else:
            inner_blocks = _build_fields(child, level + 1)
            if inner_blocks and level < 3 + _MAX_LIST_DEPTH:
                items.append(("-", [MarkdownBlock("paragraph", f"{name}:"), *inner_blocks]))
            elif inner_blocks:
                flush_items()
                blocks += inner_blocks
        if (child.tail or "").strip():
            flush_items()
            blocks.append(make_paragraph(_join_whitespace(child.tail or "")))
    flush_items()
    return blocks


def _find_label(element: Element) -> str:
    """Return the label of a data element."""
    for name in ("title", "name", "label"):
        label = element.get(name) or next(
            (_get_text(child) for child in element if _get_local_name(child) == name and not len(child)), ""
        )
        if label and len(label) <= _MAX_META_CHARACTERS:
            return label
    return element.get("id", "")


def _get_local_name(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _get_text(element: Element) -> str:
    return _join_whitespace("".join(element.itertext()))


def _join_whitespace(text: str) -> str:
    return " ".join(text.split())
