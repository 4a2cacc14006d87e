"""Conversion of the elements of a page to Markdown blocks, in order.
A *container* collects the blocks of the page, an item, a cell or a quotation; its ``inline`` is the open paragraph.
Methods that begin an element return the functions that end it.

In: the body of a parsed page. Out: blocks. The tree is walked with an explicit stack instead of recursion, so that deep
nesting is safe. When an element ends, the functions that its entry left on the stack finish it. Lists and quotations
deeper than ``_MAX_DEPTH`` are not indented further, because the indentation would outgrow the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice

from selectolax.lexbor import LexborNode

from .html_analysis import TEXTLESS_TAGS, PageAnalysis
from .html_navigation import CONTROL_TAGS, LINE_NUMBERS_PATTERN, KeepLevel, NavigationFilter, is_sectioning
from .html_parts import BlockContainer, HtmlList, HtmlTable, get_span, is_layout_table
from .markdown_blocks import (
    InlineBuilder,
    MarkdownBlock,
    find_contact_address,
    make_code_block,
    make_heading,
    make_list,
    make_paragraph,
    make_quote,
    render_one_line,
)
from .raw_document import MAX_EXCERPT_CHARACTERS, NavigationPart

#: The maximum depth of lists, quotations and tables.
_MAX_DEPTH = 24
#: The maximum depth at which the first or last text of an element is searched.
_MAX_EDGE_DEPTH = 4
#: The maximum number of characters of the class and of the whole selector of an element in reports.
_MAX_CLASS_CHARACTERS = 40
_MAX_SELECTOR_CHARACTERS = 60

_HEADING_LEVELS = {f"h{level}": level for level in range(1, 7)}
_EMPHASIS_TAGS = frozenset("em i b strong dfn".split())
#: Elements of struck-out text, and the maximum number of parts of one that are searched for blocks.
_STRUCK_TAGS, _MAX_PARTS = frozenset(("del", "s", "strike")), 64
_CODE_TAGS = frozenset("code kbd samp tt".split())
_PREFORMATTED_TAGS = frozenset("pre listing xmp plaintext".split())
_BLOCK_TAGS = frozenset(
    "address article aside blockquote caption center details dd dir div dl dt fieldset figcaption figure footer form "
    "h1 h2 h3 h4 h5 h6 header hgroup hr legend li main menu nav ol p section summary table tbody td tfoot th thead tr "
    "ul".split()
)
_ADMONITION_CLASSES = frozenset("note tip warning caution important admonition hint danger attention seealso".split())
_ADMONITION_TAGS = frozenset("div section aside details".split())
_ADMONITION_TITLE_CLASSES = frozenset("title admonition-title".split())
_CONTENTS_LABELS = frozenset(("contents", "table of contents", "on this page"))
_ANCHOR_SYMBOLS = frozenset("#¶§🔗↩↵⏎↑^") | {"↩︎"}
#: Formatting elements, which can begin and end within a word.
_FORMATTING_TAGS = frozenset(
    "b i em strong sub sup u s strike font small big mark wbr tt code kbd samp var ins del bdo bdi ruby rb rt rp abbr "
    "acronym dfn nobr".split()
)
#: Elements that are separate words, regardless of their neighbors.
_WORD_TAGS = frozenset("a time label button summary cite address data img input".split())
#: Elements that can be read as a whole.
_WHOLE_TAGS = _CODE_TAGS | _PREFORMATTED_TAGS | {"a", "br", "img", "sup"}
_LIST_TAGS = frozenset("ul ol dl menu dir".split())
#: The language in the class of a code block: ``language-python``, ``brush: python``.
_LANGUAGE_PATTERN = re.compile(r"(?:^|\s)(?:language|lang|highlight|brush:)[-\s]\s*(?!source)([A-Za-z][\w+#-]*)")

#: A function that finishes an element when the walk leaves it.
_OnLeave = Callable[[], None]


def convert_page(
    body: LexborNode, analysis: PageAnalysis, keep: KeepLevel
) -> tuple[list[MarkdownBlock], list[NavigationPart]]:
    """Return the Markdown blocks of ``body``, and the navigation that was left out; ``keep`` says how much to keep."""
    page = _PageWalker(analysis, keep)
    page.walk(body)
    return page.container.finish_blocks(), page.left_out


class _PageWalker:
    """The walk over the elements of one page.
    ``container`` is the innermost unfinished container of blocks; ``left_out`` lists the navigation, which is skipped.
    """

    def __init__(self, analysis: PageAnalysis, keep: KeepLevel) -> None:
        """Prepare the walk over the page of ``analysis``; ``keep`` says how much navigation to keep."""
        self.container = BlockContainer()
        self.left_out: list[NavigationPart] = []
        # The unfinished containers, lists and tables, innermost last.
        self._open_structures: list[BlockContainer | HtmlList | HtmlTable] = [self.container]
        self._analysis = analysis
        self._navigation = NavigationFilter(analysis, keep)
        # The number of open elements that are content, sections, admonitions, layout tables, tables of contents, terms.
        self._content_depth = self._section_depth = self._admonition_depth = 0
        self._layout_depth = self._toc_depth = self._term_depth = 0

    def walk(self, root: LexborNode) -> None:
        """Collect the blocks of all elements below ``root`` in order, without recursion: nesting can be very deep."""
        self._content_depth = int(self._navigation.enter_element(root))
        stack: list[tuple[LexborNode, Sequence[_OnLeave]]] = []
        node = root.child
        while node is not None or stack:
            if node is None:
                element, leave_functions = stack.pop()
                for leave in reversed(leave_functions):
                    leave()
                node = element.next
                continue
            tag = node.tag or ""  # begins with a letter only for an element; "-text" is a text
            if tag == "-text":
                self.container.inline.add_text(node.text_content or "")
            elif tag[:1].isalpha() and not self._try_skip(node, tag):
                if tag not in _BLOCK_TAGS:
                    previous = node.prev
                    if previous is not None and _are_separate_words(previous, node, in_term=self._term_depth > 0):
                        self.container.inline.separate_words()
                if not ((tag in _WHOLE_TAGS or self._toc_depth) and self._try_read_whole(node, tag)):
                    stack.append((node, self._enter_node(node, tag)))
                    node = node.child
                    continue
            node = node.next

    def _try_skip(self, node: LexborNode, tag: str) -> bool:
        """Return True to skip an element: a form control, a script, or navigation, which is added to ``left_out``."""
        if tag in CONTROL_TAGS and self._navigation.is_control(node, tag):
            return True
        reason = self._navigation.find_removal_reason(
            node, tag, in_content=self._content_depth > 0, in_section=self._section_depth > 0
        )
        if reason is None:
            return False
        stats = self._analysis.get_stats(node)
        assert stats is not None
        part = NavigationPart(_describe_element(node, tag), reason, stats.text_length, _get_excerpt(node))
        self.left_out.append(part)
        return True

    def _try_read_whole(self, node: LexborNode, tag: str) -> bool:
        """Convert or skip an element with all its children and return True, or return False if the walk must enter it.

        It skips links that consist of an anchor symbol (``¶``), the label inside a table of contents, and pictures
        whose text repeats a title or caption.
        """
        inline = self.container.inline
        if tag in _CODE_TAGS:
            text = node.text(deep=True)
            if "\n" in text and node.css_first("pre") is not None:
                return False
            inline.add_code(text)
        elif tag == "br":
            inline.break_line()
        elif tag in _PREFORMATTED_TAGS:
            code = _get_preformatted_text(node)
            self.container.add_blocks(*([make_code_block(code, _find_language(node))] if code.strip() else []))
        elif tag == "img":
            self._add_image(node.attributes.get("alt") or "", node)
        elif tag == "a":
            return _get_only_text(node) in _ANCHOR_SYMBOLS
        elif self._toc_depth and (tag == "p" or tag in _HEADING_LEVELS):
            return node.text(deep=True).strip().lower() in _CONTENTS_LABELS
        elif tag == "sup":
            text = _get_only_text(node)
            if not (text.isdigit() and node.css_first("a") is not None):  # not a reference to a footnote
                return inline.add_exponent(text)
            inline.add_text(f"[{text}]")
        else:
            return False
        return True

    def _add_image(self, alternative: str, node: LexborNode) -> None:
        """Add the alternative text of an image, unless it repeats the title of an admonition or its own caption."""
        is_title = self._admonition_depth and alternative.strip(" []").lower() in _ADMONITION_CLASSES
        if not (is_title or _is_in_caption(node, alternative)):
            self.container.inline.add_image(alternative)

    def _enter_node(self, node: LexborNode, tag: str) -> Sequence[_OnLeave]:
        """Begin an element, and count it if it is content; return functions that end it, to call in reverse order."""
        is_content = self._navigation.enter_element(node)
        if is_content:
            self._content_depth += 1
        leave_functions = self._open_element(node, tag, self.container.inline)
        return (self._leave_content, *leave_functions) if is_content else leave_functions

    def _leave_content(self) -> None:
        """Record the end of an element that :meth:`_enter_node` counted as content."""
        self._content_depth -= 1

    def _open_element(self, node: LexborNode, tag: str, inline: InlineBuilder) -> Sequence[_OnLeave]:
        """Begin an element by its tag: emphasis, a quotation, a link, a heading, a list, a table or another block.

        Return the functions that end it, to be called in reverse order. ``inline`` is the open paragraph.
        """
        if tag in _EMPHASIS_TAGS:
            emphasis_start = inline.start_emphasis()
            return (lambda: inline.end_emphasis(emphasis_start),)
        if tag in _STRUCK_TAGS and not any(part.tag in _BLOCK_TAGS for part in islice(node.traverse(), _MAX_PARTS)):
            return (inline.end_strike,) if inline.start_strike() else ()
        if tag == "q":
            inline.add_text("“")
            return (lambda: inline.add_text("”"),)
        if tag == "a":
            address = find_contact_address(node.attributes.get("href") or "", node.text(deep=True))
            return (lambda: inline.add_text(f" ({address})"),) if address else ()
        if tag not in _BLOCK_TAGS:
            return ()
        restore_depths = self._increase_depths(node, tag)
        self.container.flush_paragraph()
        innermost, can_nest = self._open_structures[-1], len(self._open_structures) <= _MAX_DEPTH
        if tag in _HEADING_LEVELS or (self._admonition_depth and self._is_admonition_title(node, tag)):
            level = _HEADING_LEVELS.get(tag, 6)  # the title of an admonition has the lowest level
            leave = self._open_container(
                lambda blocks: self._add_heading(level, blocks),
                BlockContainer(InlineBuilder(plain=True), keeps_images_inline=True),
            )
        elif tag in _LIST_TAGS and can_nest:
            leave = self._open_list(node, tag)
        elif tag == "blockquote" and can_nest:
            leave = self._open_container(
                lambda blocks: self.container.add_blocks(*([make_quote(blocks)] if blocks else []))
            )
        elif tag == "table" and can_nest and self._layout_depth <= _MAX_DEPTH:
            # Some generators make the frame of an admonition with a table of one or two rows.
            is_frame = self._admonition_depth > 0 and len(node.css("tr")) < 3
            leave = self._open_layout() if is_frame or is_layout_table(node) else self._open_table()
        elif isinstance(innermost, HtmlList):
            leave = self._open_list_child(innermost, node, tag)
        elif isinstance(innermost, HtmlTable):
            leave = self._open_table_child(innermost, node, tag)
        else:
            leave = self.container.flush_paragraph
        return (leave,) if restore_depths is None else (restore_depths, leave)

    def _is_admonition_title(self, node: LexborNode, tag: str) -> bool:
        """True if an element of an admonition is its title: by its class, or as a ``<th>`` outside data tables."""
        if tag == "th":
            return not isinstance(self._open_structures[-1], HtmlTable)
        return tag in ("p", "div") and not _ADMONITION_TITLE_CLASSES.isdisjoint(_get_classes(node))

    def _increase_depths(self, node: LexborNode, tag: str) -> _OnLeave | None:
        """Increase the nesting depths if an element is a section, admonition, term or table of contents.

        Return a function that decreases them again, or None if the element is none of these.
        """
        is_section = is_sectioning(tag)
        is_admonition = tag in _ADMONITION_TAGS and not _ADMONITION_CLASSES.isdisjoint(_get_classes(node))
        is_term = tag == "dt"
        is_toc = bool(self._navigation.tables_of_contents) and node.mem_id in self._navigation.tables_of_contents
        if not (is_section or is_admonition or is_term or is_toc):
            return None

        def adjust_depths(sign: int) -> None:
            """Add the element to the depths (``sign`` 1), or subtract it (-1)."""
            self._section_depth += sign * is_section
            self._admonition_depth += sign * is_admonition
            self._toc_depth += sign * is_toc
            self._term_depth += sign * is_term

        adjust_depths(1)
        return lambda: adjust_depths(-1)

    def _open_container(
        self, on_blocks: Callable[[list[MarkdownBlock]], None], container: BlockContainer | None = None
    ) -> _OnLeave:
        """Open ``container`` (default: a new one), so that the walk collects the following blocks in it.

        It collects the blocks of one element, such as a list item. Return a function that closes the container and
        passes its blocks to ``on_blocks``.
        """
        outer = self.container
        in_cell_or_term = isinstance(self._open_structures[-1], HtmlTable) or self._term_depth > 0
        keeps_images_inline = in_cell_or_term or outer.keeps_images_inline
        inner = container or BlockContainer(in_toc=self._toc_depth > 0, keeps_images_inline=keeps_images_inline)
        self._open_structures.append(inner)
        self.container = inner

        def leave() -> None:
            """End the inner container, pass its blocks on, and continue the outer one."""
            self._open_structures.pop()
            self.container = outer
            on_blocks(inner.finish_blocks())

        return leave

    def _add_heading(self, level: int, blocks: list[MarkdownBlock]) -> None:
        """Add a heading of this ``level``, from 1, with the text of ``blocks``.

        In an admonition (a box such as "Note") it becomes the label of the next paragraph. In a list item, a cell or a
        quotation, it becomes a paragraph in emphasis.
        """
        title = " ".join(render_one_line(blocks).split())
        if not title:
            return
        num_open_containers = sum(isinstance(part, BlockContainer) for part in self._open_structures)
        if self._admonition_depth:
            self.container.add_blocks()  # ends the open paragraph
            self.container.pending_label = title.rstrip(":") + ": "
        elif num_open_containers > 1:  # the page, and an item, a cell or a quotation
            self.container.add_blocks(make_paragraph(title if "*" in title else f"*{title}*"))
        else:
            self.container.add_blocks(make_heading(level, title))

    def _open_list(self, node: LexborNode, tag: str) -> _OnLeave:
        """Begin a list, which is numbered if it is an ``<ol>``; return a function that ends it."""
        html_list = HtmlList.from_node(node, is_numbered=tag == "ol", in_toc=self._toc_depth > 0)
        self._open_structures.append(html_list)

        def leave() -> None:
            """Add the finished list to the blocks of the element around it (the page, an item, a cell, ...)."""
            self._open_structures.pop()
            html_list.add_undefined_terms()
            if html_list.items:
                self.container.add_blocks(make_list(html_list.items))

        return leave

    def _open_list_child(self, html_list: HtmlList, node: LexborNode, tag: str) -> _OnLeave:
        """Begin an item, a definition or a term of a list, and return a function that ends the element.

        For any other element, the function only ends the open paragraph.
        """
        if tag == "li":
            html_list.set_next_number(node.attributes.get("value"))
            return self._open_container(html_list.add_item)
        if tag == "dd":
            return self._open_container(html_list.add_definition)
        if tag == "dt":
            if html_list.in_toc:  # each <dt> is an entry of its own, even without a <dd>
                html_list.add_undefined_terms()
            return self._open_container(lambda blocks: html_list.terms.extend(_split_terms(blocks)))
        return self.container.flush_paragraph

    def _open_layout(self) -> _OnLeave:
        """Begin a layout table, whose cells are read as running text; return a function that ends it."""
        self._layout_depth += 1

        def leave() -> None:
            """End the table and the paragraph of its last cell."""
            self._layout_depth -= 1
            self.container.flush_paragraph()

        return leave

    def _open_table(self) -> _OnLeave:
        """Begin a table of data; return a function that ends it."""
        table = HtmlTable()
        self._open_structures.append(table)

        def leave() -> None:
            """Add the finished table to the blocks of the element around it (the page, an item, a cell, ...)."""
            self._open_structures.pop()
            self.container.add_blocks(*table.build_blocks())

        return leave

    def _open_table_child(self, table: HtmlTable, node: LexborNode, tag: str) -> _OnLeave:
        """Begin a row, a cell, the caption or the head of a table; return a function that ends it.

        For any other element, such as ``<tbody>``, the function only ends the open paragraph.
        """
        if tag == "tr":
            table.start_row()
            return table.end_row
        if tag in ("td", "th"):
            num_columns, num_rows = get_span(node, "colspan"), get_span(node, "rowspan")
            return self._open_container(
                lambda blocks: table.add_cell(render_one_line(blocks), tag == "th", num_columns, num_rows)
            )
        if tag == "caption":
            return self._open_container(table.caption.extend)
        if tag == "thead":
            table.in_head = True
            return lambda: setattr(table, "in_head", False)
        return self.container.flush_paragraph


def _are_separate_words(previous: LexborNode, node: LexborNode, in_term: bool) -> bool:
    """True if two adjacent elements are separate words, although there is no white space between them.

    In a ``<dt>`` (``in_term``), a ``<span>`` after the term is a separate note, such as the type of a parameter.
    """
    previous_tag, tag = previous.tag or "", node.tag or ""
    if in_term and tag == "span" and previous_tag != "span":
        return previous_tag == "-text" or previous_tag in _FORMATTING_TAGS
    if not previous_tag[:1].isalpha() or previous_tag in _FORMATTING_TAGS or tag in _FORMATTING_TAGS:
        return False
    if previous_tag == "span" and previous.last_child is not None and previous.last_child.tag in _WORD_TAGS:
        return True
    if previous_tag in _WORD_TAGS or tag in _WORD_TAGS or "-" in previous_tag + tag:  # with "-": a custom element
        return True
    # A span can be a part of a word, as in syntax highlighting, unless a new word begins with a capital.
    return _ends_like_running_text(previous) and _get_edge_text(node, at_end=False)[:1].isupper()


def _ends_like_running_text(node: LexborNode) -> bool:
    """True if the last text in an element has several words and ends with a lowercase letter or a digit."""
    text = _get_edge_text(node, at_end=True).rstrip()
    return bool(text) and " " in text and (text[-1].islower() or text[-1].isdigit())


def _get_edge_text(node: LexborNode, *, at_end: bool) -> str:
    """Return the text that an element starts with (or ends with, if ``at_end``); empty if it is, say, an image."""
    edge: LexborNode | None = node
    for _ in range(_MAX_EDGE_DEPTH):
        if edge is None or edge.tag == "-text":
            break
        edge = edge.last_child if at_end else edge.child
    return (edge.text_content or "") if edge is not None and edge.tag == "-text" else ""


def _describe_element(node: LexborNode, tag: str) -> str:
    """Return a CSS selector that describes an element in reports, for example ``div.sidebar`` or ``nav``."""
    classes, element_id = (node.attributes.get("class") or "").split(), node.attributes.get("id")
    if classes:
        return f"{tag}.{classes[0][:_MAX_CLASS_CHARACTERS]}"
    return f"{tag}#{element_id}"[:_MAX_SELECTOR_CHARACTERS] if element_id else tag


def _get_excerpt(node: LexborNode) -> str:
    """Return the first words of an element, at most ``MAX_EXCERPT_CHARACTERS`` characters."""
    words: list[str] = []
    for part in node.traverse(include_text=True):
        if part.tag == "-text" and (part.parent is None or part.parent.tag not in TEXTLESS_TAGS):
            words += (part.text_content or "").split()
            if sum(map(len, words)) > MAX_EXCERPT_CHARACTERS:
                break
    return " ".join(words)[:MAX_EXCERPT_CHARACTERS]


def _get_classes(node: LexborNode) -> list[str]:
    """Return the classes of an element in lower case."""
    return (node.attributes.get("class") or "").lower().split()


def _is_in_caption(node: LexborNode, alternative: str) -> bool:
    """True if the caption of a picture's figure contains the picture's alternative text."""
    figure = node.parent
    while figure is not None and figure.tag != "figure":
        figure = figure.parent
    caption = None if figure is None else figure.css_first("figcaption")
    return caption is not None and _fold_text(alternative) in _fold_text(caption.text(deep=True))


def _fold_text(text: str) -> str:
    """Return a text in folded case and with single spaces, for comparison."""
    return " ".join(text.casefold().split())


def _get_only_text(node: LexborNode) -> str:
    """Return the text of an element that contains nothing else, directly or in its only child; otherwise ""."""
    for _ in range(2):  # the element, then its only child
        child = node.child
        if child is None or child.next is not None:
            break
        if child.tag == "-text":
            return (child.text_content or "").strip()
        node = child
    return ""


def _split_terms(blocks: list[MarkdownBlock]) -> list[str]:
    """Return the terms of a ``<dt>``: its nonempty lines without a comma at the end."""
    lines = (line.strip().rstrip(",") for block in blocks for line in block.text.split("\n"))
    return [line for line in lines if line]


def _get_preformatted_text(node: LexborNode) -> str:
    """Return the text of a ``<pre>`` with its line breaks and without line numbers."""
    pieces: list[str] = []
    for part in node.traverse(include_text=True):
        if part.tag == "br":
            pieces.append("\n")
        elif part.tag == "-text" and not _is_line_number(part):
            pieces.append(part.text_content or "")
    return "".join(pieces)


def _is_line_number(text_node: LexborNode) -> bool:
    """True if a text in code is a number, in an element with a class for line numbers."""
    parent = text_node.parent
    if parent is None or parent.tag == "pre" or not (text_node.text_content or "").strip().isdigit():
        return False
    return LINE_NUMBERS_PATTERN.search((parent.attributes.get("class") or "").lower()) is not None


def _find_language(node: LexborNode) -> str:
    """Return the programming language in the class of ``<pre>`` or of the ``<code>`` in it; empty if neither has it."""
    for element in (node, node.css_first("code")):
        class_name = (element.attributes.get("class") or "") if element is not None else ""
        if language_match := _LANGUAGE_PATTERN.search(class_name):
            return language_match[1].lower()
    return ""
