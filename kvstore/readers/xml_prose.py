"""XML prose: DocBook, JATS, TEI and other XML with the same paragraph names become blocks of Markdown.
The *head* of a document or section has its title, authors and date. Names of elements are without namespace. ``level``
is the heading level of a section in the element.

In: the root element. Out: one document with nested sections, lists, tables, code, quotations and footnotes; metadata
are ``author``, ``date`` and ``doi`` from its head. Prose without text is a ReaderError.

Source: DocBook 5.2 (OASIS), JATS 1.3 (NISO Z39.96), TEI P5.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree.ElementTree import Element

from .markdown_blocks import (
    InlineBuilder,
    ListItem,
    MarkdownBlock,
    join_blocks,
    make_code_block,
    make_heading,
    make_list,
    make_paragraph,
    make_quote,
    make_table,
    prepend_term,
    render_one_line,
)
from .raw_document import JSON, Origin, RawDocument
from .xml_tree import get_local_name, get_text

_PARAGRAPH_NAMES = frozenset(
    "para simpara paragraph p ab lg l sp stage speaker formalpara bridgehead subtitle v stanza".split()
)
#: Element names that occur only in prose.
PROSE_NAMES = frozenset("para simpara paragraph p ab lg formalpara".split())
_ITEM_LIST_NAMES = frozenset(
    "itemizedlist orderedlist procedure substeps simplelist list ul ol steps steps-unordered segmentedlist calloutlist "
    "bullet_list enumerated_list".split()
)
_NUMBERED_LIST_NAMES = frozenset("orderedlist procedure substeps ol steps enumerated_list".split())
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
#: The heading level in footnotes, which are rendered on one line.
_FOOTNOTE_LEVEL = 9
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
_SUPERSCRIPT_NAMES = frozenset("sup superscript".split())
_INLINE_NAMES = _EMPHASIS_NAMES | _CODE_NAMES | _SUPERSCRIPT_NAMES | frozenset("sub subscript sc tt".split())
_INLINE_QUOTE_NAMES = frozenset("quote q".split())
_LINE_BREAK_NAMES = frozenset("br lb break sbr".split())


def read_prose(root: Element, origin: Origin) -> RawDocument:
    """Return the document of an XML file of prose, given its root element. Raises ReaderError if it has no text."""
    prose = _XmlProseConverter(root)
    blocks = prose.build_blocks()
    origin.require_content(blocks)
    return RawDocument(
        origin.key, title=prose.title or None, text=join_blocks(blocks) + "\n", meta=prose.meta, format="markdown"
    )


class _XmlProseConverter:
    """The converter of an article or a book; ``title`` and ``meta`` come from its head.
    ``_block_elements`` are the elements that are or contain blocks, and ``_footnotes`` the texts of its footnotes.
    """

    def __init__(self, root: Element) -> None:
        """Find the block elements of the document ``root``, and read its head."""
        self._root = root
        self._footnotes: list[str] = []  # in the order of their numbers
        self.meta: dict[str, JSON] = {}
        self._block_elements = _find_block_elements(root)
        self.title = self._read_head()

    def build_blocks(self) -> list[MarkdownBlock]:
        """Return the blocks of the whole document, the footnotes last; the title is added if no heading is first."""
        blocks = self._build_section(self._root, 1)
        if self.title and not any(block.kind == "heading" for block in blocks[:1]):
            blocks = [make_heading(1, self.title), *blocks]
        return [*blocks, *(make_paragraph(f"[{number}] {text}") for number, text in enumerate(self._footnotes, 1))]

    def _read_head(self) -> str:
        """Return the title of the document (empty without a title), and store its metadata in ``meta``."""
        head = _find_child(self._root, _HEAD_NAMES)
        title = None
        if head is not None:
            title = _find_descendant(head, "article-title", "title", "book-title", "title-main")
            authors = [
                _format_person(element)
                for element in head.iter()
                if get_local_name(element) in ("author", "contrib", "personname")
            ]
            authors = [author for author in dict.fromkeys(authors) if author]
            if authors:
                self.meta["author"] = ", ".join(authors)
            date = _find_descendant(head, "pub-date", "pubdate", "date")
            if date is not None and _format_date(date):
                self.meta["date"] = _format_date(date)
            identifiers = (element for element in head.iter() if get_local_name(element) == "article-id")
            doi = next((identifier for identifier in identifiers if identifier.get("pub-id-type") == "doi"), None)
            if doi is not None and get_text(doi):
                self.meta["doi"] = get_text(doi)
        if title is None:
            title = _find_child(self._root, _TITLE_NAMES)
        return get_text(title) if title is not None else ""

    def _build_section(self, element: Element, level: int) -> list[MarkdownBlock]:
        """Return the heading of an element with its title, its abstracts, and the blocks of its children."""
        title = _find_child(element, _TITLE_NAMES)
        heads = (child for child in element if get_local_name(child) in _HEAD_NAMES)
        head = next((child for child in heads if get_local_name(child) != "front" or _is_jats_head(child)), None)
        if title is None and head is not None:
            title = next((part for part in head.iter() if get_local_name(part) in ("title", "article-title")), None)
        blocks: list[MarkdownBlock] = []
        label = None  # the number of the section
        text = self._render_line(title) if title is not None else ""
        if text:
            label = _find_child(element, frozenset({"label"}))
            blocks.append(make_heading(level, f"{get_text(label)} {text}" if label is not None else text))
            level += 1
        elif get_local_name(element) == "abstract":
            blocks.append(make_heading(level, "Abstract"))
            level += 1
        if head is not None:
            for abstract in _iter_outermost(head, _ABSTRACT_NAMES):
                blocks += self._build_section(abstract, level)
        read_children = frozenset(child for child in (title, head, label) if child is not None)
        return blocks + self._build_children(element, level, skipped_children=read_children)

    def _build_children(
        self, element: Element, level: int, skipped_children: frozenset[Element] = frozenset()
    ) -> list[MarkdownBlock]:
        """Return the blocks of an element's text and of its children, except ``skipped_children``.

        Adjacent text and inline elements become one paragraph. In an element with blocks but without text of its own,
        each unknown element is a paragraph instead.
        """
        blocks: list[MarkdownBlock] = []
        inline = InlineBuilder()
        separates_children = (  # the element has blocks, but no text of its own
            element in self._block_elements
            and get_local_name(element) not in _PARAGRAPH_NAMES
            and not (element.text or "").strip()
            and not any((child.tail or "").strip() for child in element)
        )
        follows_element = False  # True directly after an element, without text in between

        def flush_paragraph() -> None:
            """End the current paragraph."""
            blocks.extend(map(make_paragraph, inline.take_paragraphs()))

        inline.add_text(element.text or "")
        for child in element:
            name = get_local_name(child)
            is_listing = name == "code" and "\n" in "".join(child.itertext()).strip()
            if child in skipped_children or name in _IGNORED_NAMES:
                pass
            elif child in self._block_elements or name in _TITLE_NAMES or is_listing:
                flush_paragraph()
                blocks += self._build_block(child, "pre" if name == "code" else name, level)
            else:
                is_inline = name in _INLINE_NAMES
                if separates_children and not is_inline:
                    flush_paragraph()
                elif follows_element and not is_inline:
                    inline.separate_words()
                self._add_inline(child, inline)
            follows_element = not child.tail
            inline.add_text(child.tail or "")
        flush_paragraph()
        return blocks

    def _build_block(self, element: Element, name: str, level: int) -> list[MarkdownBlock]:
        """Return the blocks of an element by its name: a list, a table, code, a quotation, a section and so on."""
        if name in _ITEM_LIST_NAMES:
            return self._build_list(element, name, level)
        if name in _TERM_LIST_NAMES and any(
            get_local_name(child) in _ENTRY_NAMES or get_local_name(child) in _TERM_NAMES for child in element
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
            return prepend_term(name.capitalize(), blocks) if blocks else []
        if name == "lg":  # a stanza: each child is a line
            lines = [self._render_line(child) for child in element]
            return [make_paragraph("\n".join(filter(None, lines)))] if any(lines) else []
        if name in _TITLE_NAMES:
            text = self._render_line(element)
            return [make_paragraph(text)] if text else []
        if name in _PARAGRAPH_NAMES or name in _CAPTIONED_NAMES or name in _ITEM_NAMES:
            return self._build_children(element, level)
        return self._build_section(element, level)

    def _build_list(self, element: Element, name: str, level: int) -> list[MarkdownBlock]:
        """Return the blocks before the first item of a list, then the list; ``name`` is the name of the element."""
        list_type = element.get("list-type") or element.get("type") or element.get("rend") or ""
        is_numbered = name in _NUMBERED_LIST_NAMES or list_type in ("order", "ordered", "numbered")
        leading_blocks: list[MarkdownBlock] = []
        items: list[ListItem] = []
        term = ""
        for child in element:
            child_name = get_local_name(child)
            if child_name in _IGNORED_NAMES:
                continue
            if child_name == "label":  # TEI: the label of the next item
                term = self._render_line(child)
                continue
            if child_name not in _ITEM_NAMES:
                (items[-1].blocks if items else leading_blocks).extend(self._build_block(child, child_name, level))
                continue
            labels = frozenset(part for part in child if get_local_name(part) == "label")
            blocks = prepend_term(term, self._build_children(child, level, skipped_children=labels))
            term = ""
            if blocks:
                items.append(ListItem(f"{len(items) + 1}." if is_numbered else "-", blocks))
        return [*leading_blocks, make_list(items)] if items else leading_blocks

    def _build_term_list(self, element: Element, level: int) -> list[MarkdownBlock]:
        """Return a definition list as a list of ``term: definition``, after its other blocks, such as its title."""
        leading_blocks: list[MarkdownBlock] = []
        items: list[ListItem] = []
        terms: list[str] = []
        for child in element:
            name = get_local_name(child)
            if name not in _ENTRY_NAMES and name not in _TERM_NAMES and name not in ("dd", "item"):
                leading_blocks += self._build_block(child, name, level) if name not in _IGNORED_NAMES else []
                continue
            entry_elements = list(child) if name in _ENTRY_NAMES else [child]
            definition: list[MarkdownBlock] = []
            for entry_element in entry_elements:
                if get_local_name(entry_element) in _TERM_NAMES:
                    terms.append(self._render_line(entry_element))
                else:
                    definition += self._build_children(entry_element, level)
            if name in _ENTRY_NAMES or name not in _TERM_NAMES:
                items.append(ListItem("-", prepend_term(", ".join(filter(None, terms)), definition)))
                terms = []
        nonempty_items = [item for item in items if item.blocks]
        return [*leading_blocks, make_list(nonempty_items)] if nonempty_items else leading_blocks

    def _build_table(self, element: Element, level: int) -> list[MarkdownBlock]:
        """Return the caption of a table as a paragraph, and the table; its first row is the header."""
        blocks: list[MarkdownBlock] = []
        for child in element:
            if get_local_name(child) in _TITLE_NAMES or get_local_name(child) in ("caption", "label"):
                blocks += self._build_children(child, level)
        blocks = [make_paragraph(" ".join(render_one_line([block]) for block in blocks))] if blocks else []
        rows: list[list[str]] = []
        for row in _iter_outermost(element, _ROW_NAMES):
            cells = [child for child in row if get_local_name(child) in _CELL_NAMES]
            rows.append([render_one_line(self._build_children(cell, level)) for cell in cells])
        return [*blocks, *([make_table(rows[0], rows[1:])] if rows else [])]

    def _add_inline(self, element: Element, inline: InlineBuilder) -> None:
        """Add an element to a paragraph: a footnote number, a line break, code, emphasis, a quote, a link or text.

        The text of a footnote is added to ``_footnotes``.
        """
        name = get_local_name(element)
        if name in _IGNORED_NAMES:
            return
        if name in _FOOTNOTE_NAMES:
            self._footnotes.append("")  # reserve the number, because a footnote can contain another
            number = len(self._footnotes)
            self._footnotes[number - 1] = render_one_line(self._build_children(element, _FOOTNOTE_LEVEL))
            inline.add_text(f"[{number}]")
        elif name in _LINE_BREAK_NAMES:
            inline.break_line()
        elif name in _CODE_NAMES:
            inline.add_code("".join(element.itertext()))
        elif name in _EMPHASIS_NAMES:
            emphasis_start = inline.start_emphasis()
            self._add_inline_children(element, inline)
            inline.end_emphasis(emphasis_start)
        elif name in _SUPERSCRIPT_NAMES and not len(element) and inline.add_exponent(element.text or ""):
            pass
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
        """Add the text of an element and its children to the paragraph ``inline``.

        A space separates a child from the child right before it, unless it is inline markup.
        """
        inline.add_text(element.text or "")
        follows_element = False
        for child in element:
            if follows_element and get_local_name(child) not in _INLINE_NAMES:
                inline.separate_words()
            self._add_inline(child, inline)
            follows_element = not child.tail
            inline.add_text(child.tail or "")

    def _render_line(self, element: Element) -> str:
        """Return the text of an element on one line, without markup."""
        inline = InlineBuilder(plain=True)
        self._add_inline_children(element, inline)
        return " ".join(" ".join(inline.take_paragraphs()).split())


def _find_block_elements(root: Element) -> set[Element]:
    """Return the elements that are blocks by their name (paragraphs, lists ...), and all elements that contain one.

    A footnote is not a block, and a block in it does not make the elements around the footnote blocks.
    """
    block_elements: set[Element] = set()
    parents = {child: parent for parent in root.iter() for child in parent}
    for element in root.iter():
        if get_local_name(element) not in _BLOCK_NAMES:
            continue
        container: Element | None = element
        while (
            container is not None
            and container not in block_elements
            and get_local_name(container) not in _FOOTNOTE_NAMES
        ):
            block_elements.add(container)
            container = parents.get(container)
    return block_elements


def _find_child(element: Element, names: frozenset[str]) -> Element | None:
    """Return the first child that has one of the names, or None if no child has."""
    return next((child for child in element if get_local_name(child) in names), None)


def _find_descendant(element: Element, *names: str) -> Element | None:
    """Return the first descendant named ``names[0]``, or else ``names[1]``, and so on; None without a match."""
    return next((part for name in names for part in element.iter() if get_local_name(part) == name), None)


def _iter_outermost(element: Element, names: frozenset[str]) -> Iterator[Element]:
    """Yield the outermost descendants with these names; a descendant inside another one of them is skipped."""
    stack = [iter(element)]
    while stack:
        child = next(stack[-1], None)
        if child is None:
            stack.pop()
        elif get_local_name(child) in names:
            yield child
        else:
            stack.append(iter(child))


def _is_jats_head(element: Element) -> bool:
    """True if an element is the ``front`` of a JATS article, which has metadata; in other vocabularies, it is text."""
    return get_local_name(element) == "front" and any(get_local_name(child).endswith("-meta") for child in element)


def _get_language(element: Element) -> str:
    """Return the programming language that an attribute of a listing names, such as "c++"; "" without a valid name."""
    language = element.get("language") or element.get("lang") or ""
    is_name = language.replace("+", "").replace("-", "").replace("#", "").isalnum()  # as in c++, objective-c and c#
    return language.lower() if is_name else ""


def _format_person(element: Element) -> str:
    """Return the name of a person, given names first; without a surname, the text of the element's first child.

    The text of the element itself is returned if it has no children.
    """
    texts = {get_local_name(child): get_text(child) for child in element.iter()}
    given_names = next((texts[name] for name in ("firstname", "given-names", "forename") if texts.get(name)), "")
    surname = texts.get("surname", "")
    if surname:
        return f"{given_names} {surname}".strip()
    return get_text(element) if not len(element) else get_text(next(iter(element)))


def _format_date(element: Element) -> str:
    """Return a date in ISO 8601 from its year, month and day, or from its attribute in that format; else its text."""
    parts = {get_local_name(child): get_text(child) for child in element}
    if parts.get("year"):
        return "-".join(parts[name].zfill(2) for name in ("year", "month", "day") if parts.get(name, "").isdigit())
    return element.get("when") or element.get("iso-8601-date") or get_text(element)
