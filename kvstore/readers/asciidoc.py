"""AsciiDoc: the file becomes Markdown that follows its structure.
The *attributes* of a block are in brackets above it, as in ``[source,python]``; the first one is its *style*. A
*marker*, such as ``**``, begins a list item. ``depth`` counts the blocks and lists around a block.

In: bytes in UTF-8 (or in the encoding that a byte-order mark or option names). Out: one document of format ``markdown``
with sections, lists, definitions, tables, quotations, listings and literal blocks, admonitions, footnotes and block
titles. Comments, attributes and macros without text (includes, images without alternative text, tables of contents) are
dropped. References to attributes that the file sets are replaced by their values. Includes are not followed, and text
under any condition (``ifdef``) is kept. The title, the author and the date come from the header; the description
becomes the first paragraph. An empty file is a ReaderError. Invalid markup is read as a paragraph.

Source: the AsciiDoc Language documentation (Eclipse Foundation).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from .asciidoc_parts import (
    MAX_REPETITIONS,
    count_columns,
    get_language,
    join_lines,
    normalize_marker,
    remove_directives,
    render_links,
    render_scripts,
)
from .decoding import decode_text
from .line_markup import ProtectedTexts, find_line, find_nonblank_line, get_margin
from .markdown import find_first_title, prepend_paragraphs
from .markdown_blocks import (
    ListItem,
    MarkdownBlock,
    join_blocks,
    make_code_block,
    make_code_span,
    make_heading,
    make_image,
    make_list,
    make_paragraph,
    make_quote,
    make_table,
    prepend_term,
    render_one_line,
)
from .raw_document import JSON, Origin, RawDocument, ReadOptions

#: The number of columns between two tab stops.
_TAB_WIDTH = 4
#: The maximum depth of nested blocks; deeper blocks are read as text.
_MAX_DEPTH = 24

_HEADING_PATTERN = re.compile(r"(?P<marks>={1,6}|#{1,6})\s+(?P<title>\S.*?)(?:(?<!\s)\s++(?P=marks))?$")  # == Tea
_ATTRIBUTE_PATTERN = re.compile(r":(?P<name>!?[\w-]+!?):(?:\s+(?P<value>.*))?$")  # :author: Ann Lee
_BLOCK_ATTRIBUTES_PATTERN = re.compile(r"\[(.*)\]$")  # [source,python]
_BLOCK_TITLE_PATTERN = re.compile(r"\.(?![. \t])(.+)$")  # .Kinds of tea
_BLOCK_MACRO_PATTERN = re.compile(r"(?P<name>\w[\w-]*)::\S*?\[(?P<attributes>.*)\]$")  # image::tea.png[A cup]
#: The first and the last line of a delimited block: ``----`` of code, ``====`` of an example.
_DELIMITER_PATTERN = re.compile(
    r"(?P<fence>-{4,}+|\.{4,}+|={4,}+|\*{4,}+|_{4,}+|\+{4,}+|/{4,}+|--|`{3,}+)(?P<language>\w[\w+#-]*)?$"
)
_TABLE_PATTERN = re.compile(r"([|,:!])===+$")  # |===
_ITEM_PATTERN = re.compile(
    r"\s*(?P<marker>\*{1,6}|-|\.{1,6}|\d{1,9}\.|[a-zA-Z]\.|<\d{1,3}>|<\.>)\s+(?=\S)"  # ** green tea
)
_START_PATTERN = re.compile(r"start\s*=\s*[\"']?(\d{1,8})[\"']?")  # start=7
_TERM_PATTERN = re.compile(r"\s*(?P<term>\S.*?)(?::{2,4}|;;)(?:\s+(?P<definition>.*))?$")  # tea:: a drink
_ADMONITION_PATTERN = re.compile(r"(NOTE|TIP|IMPORTANT|WARNING|CAUTION):\s+(?=\S)")  # NOTE: wait
_ADMONITION_LABELS = frozenset("NOTE TIP IMPORTANT WARNING CAUTION".split())
_AUTHOR_PATTERN = re.compile(r"[\w.'-]+(?: [\w.'-]+){0,3}(?: <[^>]+>)?$")  # Ann Lee <ann@tea.org>
_DATE_PATTERN = re.compile(r"(?:v?[\w.-]+,\s*)?(\d{4}-\d{2}-\d{2})\b")  # v1.0, 2020-01-31
#: The format of a cell, which follows white space, and its bar: ``2+^|``. A number is short, so that a long one is
#: searched in linear time.
_CELL_PATTERN = re.compile(
    r"(?<!\\)((?:(?<!\S)(?:\d{1,4}(?:\.\d{1,4})?\+|\.\d{1,4}\+|\d{1,4}\*)?[<^>]?(?:\.[<^>])?[a-z]?)?)\|"
)

# Patterns limit the distance between opening and closing marks, so that many unclosed marks take linear time.
#: An inline macro: ``menu:File[Save]``.
_MACRO_PATTERN = re.compile(
    r"(?<!\w)(?P<name>kbd|btn|menu|footnote|image|icon|indexterm2|indexterm|stem|latexmath|pass)"
    r":(?P<target>[^\s\[\]]{0,300})"
    r"\[(?=[^\]]{0,4000}+\])(?P<content>(?:[^\]\\]|\\.){0,2000}+)\]"  # the lookahead rejects unclosed macros fast
)
#: Code: "`code`" or "+code+".
_CODE_PATTERN = re.compile(
    r"``(?=\S)(.{1,500}?)(?<=\S)``|(?<![\w`])[`+]{1,3}(?=[^\s`])([^`\n]{1,500}?)(?<=[^\s`])[`+]{1,3}(?![\w`])"
)
#: Strong text and emphasis, each also within a word: ``*tea*``, ``**t**ea``, ``_tea_``, ``__t__ea``.
_STRONG_PATTERN = re.compile(r"(?<![\w*])\*(?=\S)([^*\n]{1,500}?)(?<=\S)\*(?![\w*])|\*\*(?=\S)(.{1,500}?)(?<=\S)\*\*")
_EMPHASIS_PATTERN = re.compile(r"(?<![\w_])_(?=\S)([^_\n]{1,500}?)(?<=\S)_(?![\w_])|__(?=\S)(.{1,500}?)(?<=\S)__")
_HIGHLIGHT_PATTERN = re.compile(r"(?<!\w)(?:\[[^\]\s]{0,60}\])?#(?=\S)([^#\n]{1,500}?)(?<=\S)#(?!\w)")  # [red]#tea#
#: A place to link to, or a term of the index: ``[[brewing]]``, ``[#brewing]``, ``(((tea)))``.
_ANCHOR_PATTERN = re.compile(r"\[\[[^\]]{0,200}\]\]|\[#[\w-]+\](?=\s|$)|\(\(\(.{0,200}?\)\)\)")
_ATTRIBUTE_REFERENCE_PATTERN = re.compile(r"\{([\w-]{1,100})\}")  # {author}
_PREDEFINED_ATTRIBUTES = {
    "nbsp": " ", "amp": "&", "lt": "<", "gt": ">", "plus": "+", "empty": "", "sp": " ", "asterisk": "*", "vbar": "|",
    "apos": "'", "quot": '"', "two-colons": "::", "hash": "#", "backtick": "`", "caret": "^", "tilde": "~",
}  # fmt: skip


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Convert an AsciiDoc file to Markdown, and yield it as one document.

    Raises ReaderError if it is blank, or cannot be decoded.
    """
    text = remove_directives(decode_text(stream.read(), origin.name, options.encoding))
    parser = _AsciiDocParser()
    lines = [line.expandtabs(_TAB_WIDTH).rstrip() for line in text.split("\n")]
    blocks = parser.parse_blocks(lines, depth=0)
    # A file with only comments and attributes is kept as text.
    body = join_blocks(blocks) or join_blocks([make_paragraph(text.strip())])
    markdown = prepend_paragraphs(body, parser.descriptions)
    yield RawDocument(
        origin.key, title=find_first_title(markdown), text=markdown + "\n", meta=parser.meta, format="markdown"
    )


class _AsciiDocParser:
    """The parser of one file; ``meta`` has its author and date, ``descriptions`` its ``description`` attributes."""

    def __init__(self) -> None:
        """Prepare to parse a file; only the predefined attributes are set."""
        self.meta: dict[str, JSON] = {}
        self.descriptions: list[JSON] = []
        self._attributes = dict(_PREDEFINED_ATTRIBUTES)  # the values of attributes, for references to them
        self._footnotes: list[str] = []  # the texts of footnotes, in the order of their numbers
        self._open_markers: list[str] = []  # the normalized markers of the open lists, outermost first

    def parse_blocks(self, lines: Sequence[str], depth: int) -> list[MarkdownBlock]:
        """Return the blocks of ``lines``; at depth 0, the file's footnotes follow. Attributes that they set are stored.

        Beyond ``_MAX_DEPTH``, all lines become one paragraph, whose markup is not parsed.
        """
        if depth > _MAX_DEPTH:
            text = " ".join(" ".join(lines).split())
            return [make_paragraph(text)] if text else []
        blocks: list[MarkdownBlock] = []
        attributes: list[str] = []  # of the next block
        index = 0
        while index < len(lines):
            line = lines[index]
            index += 1
            is_comment = line.startswith("//") and not line.startswith("///")
            if not line or is_comment or line.startswith("[["):  # an anchor
                continue
            title = _BLOCK_TITLE_PATTERN.match(line)
            if match := _ATTRIBUTE_PATTERN.match(line):
                self._set_attribute(match["name"], match["value"] or "")
            elif match := _BLOCK_ATTRIBUTES_PATTERN.match(line):
                attributes = [part.strip() for part in match[1].split(",")]
            elif title is not None and index < len(lines) and lines[index]:
                blocks.append(make_paragraph(self._render_inline(title[1])))
            else:
                index = self._parse_block(lines, index - 1, depth, attributes, blocks)
                attributes = []
        if depth == 0:
            blocks += [make_paragraph(f"[{number}] {text}") for number, text in enumerate(self._footnotes, 1)]
        return blocks

    def _set_attribute(self, name: str, value: str) -> None:
        """Process a line ``:name: value``; ``!`` in the name unsets the attribute.

        The ``description`` attribute is also added to the descriptions of the document.
        """
        if "!" in name:
            self._attributes.pop(name.strip("!"), None)
        else:
            self._attributes[name] = value
            if name == "description":
                self.descriptions.append(value)

    def _parse_block(
        self,
        lines: Sequence[str],
        start: int,
        depth: int,
        attributes: list[str],
        blocks: list[MarkdownBlock],
        *,
        is_attached: bool = False,
    ) -> int:
        """Append the block that begins at ``lines[start]`` to ``blocks``; return the index of the line after it.

        ``attributes`` are the attributes of the block. Sections begin only at depth 0. ``is_attached`` is True if ``+``
        attaches the block to a list item.
        """
        line = lines[start]
        if depth == 0 and (heading := _HEADING_PATTERN.match(line)):  # == Tea
            level = len(heading["marks"])
            is_title = level == 1 and not blocks
            blocks.append(make_heading(level, self._render_inline(heading["title"], plain=True)))
            return self._parse_header(lines, start + 1) if is_title else start + 1
        if match := _TABLE_PATTERN.match(line):  # |===
            end = find_line(lines, start + 1, line.__eq__)
            blocks += self._parse_table(lines[start + 1 : end], match[1], attributes, depth)
            return end + 1
        if match := _DELIMITER_PATTERN.match(line):  # ----
            return self._parse_delimited(lines, start, match, depth, attributes, blocks)
        if match := _BLOCK_MACRO_PATTERN.match(line):  # image::pump.png[The pump]
            # The first attribute of an image, if it has no name, is its alternative text.
            alternative = match["attributes"].split(",")[0].strip(' "') if match["name"] == "image" else ""
            if alternative and "=" not in alternative:
                blocks.append(make_image(self._render_inline(alternative, plain=True)))
            return start + 1
        if line in ("'''", "<<<", "---", "***"):  # a rule or a page break
            return start + 1
        if _ITEM_PATTERN.match(line):
            return self._parse_list(lines, start, depth, blocks, attributes)
        if _TERM_PATTERN.match(line) and "://" not in line.split("::")[0]:  # "pump:: a machine", and no URL before ::
            return self._parse_definition_list(lines, start, depth, blocks)
        return self._parse_paragraph(lines, start, attributes, blocks, is_attached)

    def _parse_header(self, lines: Sequence[str], index: int) -> int:
        """Store the author and date at line ``index``, below the title, in ``meta``; return the index after them."""
        if index < len(lines) and lines[index] and _AUTHOR_PATTERN.fullmatch(lines[index].split(";")[0].strip()):
            # "Ann Hill <ann@x.org>; Bo Day" becomes "Ann Hill, Bo Day".
            self.meta["author"] = re.sub(r"\s*<[^>]*>", "", lines[index]).replace(";", ",")
            index += 1
            date = _DATE_PATTERN.match(lines[index]) if index < len(lines) else None
            if date is not None:
                self.meta["date"] = date[1]
                index += 1
        return index

    def _parse_paragraph(
        self, lines: Sequence[str], start: int, attributes: list[str], blocks: list[MarkdownBlock], is_attached: bool
    ) -> int:
        """Append the paragraph, listing or quotation at ``lines[start]``, and return the index of the line after it.

        It ends at a blank line, or at a line that begins another block. If it is attached to a list item, it also ends
        at the next ``+``, item or term. The first of the ``attributes`` above it is its style, such as ``source`` or
        ``quote``.
        """
        end = start + 1
        while end < len(lines) and lines[end] and not self._can_interrupt_paragraph(lines[end]):
            if is_attached and (not self._continues_item(lines[end]) or _TERM_PATTERN.match(lines[end])):
                break
            end += 1
        body = list(lines[start:end])
        style = attributes[0] if attributes else ""
        is_indented = body[0][0] == " "
        if style.startswith(("source", "listing", "literal")) or (is_indented and not style):
            margin = get_margin(body)
            code = "\n".join(body_line[margin:] for body_line in body)
            blocks.append(make_code_block(code, get_language(attributes)))
            return end
        text = self._render_inline(join_lines(body_line for body_line in body if not body_line.startswith("//")))
        if admonition := _ADMONITION_PATTERN.match(text):
            text = f"{admonition[1].capitalize()}: {text[admonition.end() :]}"
        elif style in _ADMONITION_LABELS:
            text = f"{style.capitalize()}: {text}"
        if text:
            block = make_paragraph(text)
            blocks.append(make_quote([block]) if style in ("quote", "verse") else block)
        return end

    @staticmethod
    def _can_interrupt_paragraph(line: str) -> bool:
        """True if a line ends the paragraph above it, because it begins a table or block (``----``, ``[source]``)."""
        return bool(
            _DELIMITER_PATTERN.match(line) or _TABLE_PATTERN.match(line) or _BLOCK_ATTRIBUTES_PATTERN.match(line)
        )

    def _parse_delimited(
        self,
        lines: Sequence[str],
        start: int,
        delimiter_match: re.Match[str],
        depth: int,
        attributes: list[str],
        blocks: list[MarkdownBlock],
    ) -> int:
        """Append the block between two equal delimiter lines, such as ``----``; return the index of the line after it.

        An unclosed block extends to the last line. ``delimiter_match`` is the match of the first line. Comments and
        passthroughs are dropped.
        """
        fence = delimiter_match["fence"]
        end = find_line(lines, start + 1, fence.__eq__)
        body = list(lines[start + 1 : end])
        if fence[0] in "/+":  # a comment, or a passthrough, which is markup of another kind
            return end + 1
        if fence[0] in "-.`" and fence != "--":  # a listing or literal block
            language = delimiter_match["language"] or get_language(attributes)
            language = language if re.fullmatch(r"[\w+#.-]+", language) else ""
            if any(body):
                blocks.append(make_code_block("\n".join(body), language))
            return end + 1
        inner_blocks = self.parse_blocks(body, depth + 1)
        style = attributes[0] if attributes else ""
        if style in _ADMONITION_LABELS and inner_blocks:
            blocks += prepend_term(style.capitalize(), inner_blocks)
        elif (fence[0] == "_" or style in ("quote", "verse")) and inner_blocks:
            attribution = ", ".join(filter(None, attributes[1:]))
            if attribution:
                inner_blocks.append(make_paragraph(f"— {self._render_inline(attribution)}"))
            blocks.append(make_quote(inner_blocks))
        else:
            blocks += inner_blocks
        return end + 1

    def _parse_list(
        self,
        lines: Sequence[str],
        index: int,
        depth: int,
        blocks: list[MarkdownBlock],
        attributes: Sequence[str] = (),
    ) -> int:
        """Append the list whose first item is at line ``index`` to ``blocks``; return the index of the line after it.

        Items with the same marker belong to the list. An item with a marker that no enclosing list has begins an inner
        list. An item keeps its number if that is higher than those before it. The ``attributes`` of the list can have
        the number of the first item, as in ``start=7``.
        """
        list_marker = _get_item_marker(lines, index)
        is_bulleted = list_marker[0] in "*-"
        items: list[ListItem] = []
        start_matches = filter(None, map(_START_PATTERN.fullmatch, attributes))
        number = next((int(match[1]) - 1 for match in start_matches), 0)  # of the item before
        self._open_markers.append(list_marker)
        item_start = index
        while _get_item_marker(lines, item_start) == list_marker:
            written_number = lines[item_start].split(None, 1)[0].strip("<.>")
            number = max(number + 1, int(written_number) if written_number.isdecimal() else 0)
            item_blocks, index = self._parse_item(lines, item_start, depth)
            items.append(ListItem("-" if is_bulleted else f"{number}.", item_blocks))
            item_start = find_nonblank_line(lines, index)
        self._open_markers.pop()
        blocks.append(make_list(items))
        return index

    def _parse_item(self, lines: Sequence[str], start: int, depth: int) -> tuple[list[MarkdownBlock], int]:
        """Return the blocks of the list item at line ``start``, and the index of the line after it.

        They are its text, the blocks that ``+`` lines attach to it, and its inner list.
        """
        match = _ITEM_PATTERN.match(lines[start])
        assert match is not None
        end = find_line(lines, start + 1, lambda line: not self._continues_item(line))
        text = join_lines([lines[start][match.end() :], *map(str.strip, lines[start + 1 : end])])
        text_without_checkbox = re.sub(r"^\[[ xX*]\]\s+", "", text)  # [x] buy rope
        blocks = [MarkdownBlock("paragraph", self._render_inline(text_without_checkbox))]
        end = self._parse_attached_blocks(lines, end, depth, blocks)
        next_start = find_nonblank_line(lines, end)
        next_marker = _get_item_marker(lines, next_start)
        if next_marker and next_marker not in self._open_markers and depth < _MAX_DEPTH:
            end = self._parse_list(lines, next_start, depth + 1, blocks)
        return blocks, end

    def _parse_definition_list(self, lines: Sequence[str], index: int, depth: int, blocks: list[MarkdownBlock]) -> int:
        """Append the list ``term:: definition`` at line ``index`` to ``blocks``; return the index of the next line."""
        items: list[ListItem] = []
        item_start = index
        while item_start < len(lines) and (match := _TERM_PATTERN.match(lines[item_start])):
            text, end = self._read_definition(lines, item_start + 1, match["definition"] or "")
            definition, term = self._render_inline(text), self._render_inline(match["term"])
            item_blocks = [MarkdownBlock("paragraph", f"{term}: {definition}" if definition else f"{term}:")]
            next_start = find_nonblank_line(lines, end)
            if next_start < len(lines) and _ITEM_PATTERN.match(lines[next_start]) and depth < _MAX_DEPTH:
                end = self._parse_list(lines, next_start, depth + 1, item_blocks)
            index = self._parse_attached_blocks(lines, end, depth, item_blocks)
            items.append(ListItem("-", item_blocks))
            item_start = find_nonblank_line(lines, index)
        blocks.append(make_list(items))
        return index

    def _parse_attached_blocks(self, lines: Sequence[str], index: int, depth: int, blocks: list[MarkdownBlock]) -> int:
        """Append the blocks that ``+`` lines attach to a list item to ``blocks``; return the index of the next line."""
        while index + 1 < len(lines) and lines[index] == "+" and depth < _MAX_DEPTH:
            index += 1
            attributes: list[str] = []
            while index < len(lines) and (match := _BLOCK_ATTRIBUTES_PATTERN.match(lines[index])):
                attributes = [part.strip() for part in match[1].split(",")]
                index += 1
            if index < len(lines) and lines[index]:
                index = self._parse_block(lines, index, depth + 1, attributes, blocks, is_attached=True)
        return index

    def _read_definition(self, lines: Sequence[str], index: int, first_line: str) -> tuple[str, int]:
        """Return the text of a definition, and the index of the line after it.

        ``first_line`` is the text after its term, and ``index`` the next line. If there is no such text, the definition
        begins on the next line that is not blank.
        """
        start = index if first_line else find_nonblank_line(lines, index)
        end = start
        while end < len(lines) and self._continues_item(lines[end]):
            if _TERM_PATTERN.match(lines[end]) or _HEADING_PATTERN.match(lines[end]):
                break
            end += 1
        return join_lines([first_line, *map(str.strip, lines[start:end])]), end

    def _continues_item(self, line: str) -> bool:
        """True if a line continues the item above it: it is not blank or ``+``, and begins no other item or block."""
        return line not in ("", "+") and not (_ITEM_PATTERN.match(line) or self._can_interrupt_paragraph(line))

    def _parse_table(
        self, lines: Sequence[str], separator: str, attributes: list[str], depth: int
    ) -> list[MarkdownBlock]:
        """Return a list with the table whose cells are in ``lines``, or an empty list if there is no text.

        ``separator`` is the first character of the table's delimiter (``|===``). With ``,``, ``:`` or a CSV format in
        the ``attributes``, each line is a row of CSV. In other tables, the attributes or the cells of the first line
        determine the number of columns; lines without cells become a paragraph.
        """
        attribute_text = ",".join(attributes)
        format_match = re.search(r'format\s*=\s*"?([cd])sv', attribute_text)
        if separator in ",:" or format_match is not None:
            has_colons = separator == ":" or (format_match is not None and format_match[1] == "d")
            csv_rows = csv.reader(filter(None, lines), delimiter=":" if has_colons else ",")
            table_rows = [[self._render_inline(cell.strip()) for cell in row] for row in csv_rows]
            return [make_table(table_rows[0], table_rows[1:])] if table_rows else []
        num_columns = count_columns(attribute_text)
        if not num_columns:
            first_line = next((line for line in lines if line and not line.startswith("//")), "")
            num_columns = len(_CELL_PATTERN.findall(first_line))
        cells = self._parse_cells("\n".join(lines), depth)
        if not num_columns or not cells:  # for example, because the table declares another separator
            return [make_paragraph("\n".join(filter(None, lines)))] if any(lines) else []
        rows = [cells[start : start + num_columns] for start in range(0, len(cells), num_columns)]
        return [make_table(rows[0], rows[1:])]

    def _parse_cells(self, source: str, depth: int) -> list[str]:
        """Return the texts of all cells of a table, row by row. A cell that spans columns is followed by empty cells.

        ``source`` is the text between the delimiters of the table. A cell is written as its format (often empty), a
        bar, and its text, as in ``2+|Ships of the line``.
        """
        cells: list[str] = []
        for match in re.finditer(
            rf"{_CELL_PATTERN.pattern}(?P<text>(?:[^|\\]|\\.)*?)(?={_CELL_PATTERN.pattern}|\Z)", source, re.S
        ):
            cell_format, text = match[1], match["text"].replace("\\|", "|").strip("\n")
            if "a" in cell_format:  # a cell that contains blocks
                cell_lines = [cell_line.strip() for cell_line in text.split("\n")]
                cell_text = render_one_line(self.parse_blocks(cell_lines, depth + 1))
            else:
                cell_text = self._render_inline(" ".join(text.split()))
            repetition = re.match(r"(\d+)[*+]", cell_format)
            num_cells = min(int(repetition[1]), MAX_REPETITIONS) if repetition else 1
            # 3* repeats the cell, 3+ lets it span columns.
            cells += [cell_text] * num_cells if "*" in cell_format else [cell_text, *[""] * (num_cells - 1)]
        return cells

    def _render_inline(self, text: str, plain: bool = False) -> str:
        """Convert inline markup to Markdown, or to text without markup if ``plain``.

        Texts of footnotes are appended to ``_footnotes``, and become references such as ``[1]``.
        """
        protected_texts = ProtectedTexts()

        def protect_code(code: str) -> str:
            """Return a placeholder for code, so that the patterns below do not change it."""
            return protected_texts.protect(code if plain else make_code_span(code))

        def render_macro(match: re.Match[str]) -> str:
            """Return the text of an inline macro, such as ``menu:File[Save]``; empty for icons and index terms."""
            name, target, content = match["name"], match["target"], match["content"].replace("\\]", "]")
            if name == "footnote":
                self._footnotes.append(self._render_inline(content))
                return f"[{len(self._footnotes)}]"
            if name in ("indexterm", "icon"):
                return ""
            if name == "menu":
                return " > ".join(filter(None, [target, *(part.strip() for part in content.split(">"))]))
            if name == "image":
                alternative = content.split(",")[0].strip(' "')
                return "" if "=" in alternative else alternative  # without the text, the first part is "width=10"
            return protect_code(content) if name in ("kbd", "stem", "latexmath") else content

        text = _ATTRIBUTE_REFERENCE_PATTERN.sub(lambda match: self._attributes.get(match[1], match[0]), text)
        text = _CODE_PATTERN.sub(lambda match: protect_code(match[1] or match[2]), text)
        text = _ANCHOR_PATTERN.sub("", text)
        text = render_links(_MACRO_PATTERN.sub(render_macro, text))
        emphasis = "" if plain else "*"  # for strong text too
        text = _STRONG_PATTERN.sub(lambda match: f"{emphasis}{match[1] or match[2]}{emphasis}", text)
        text = _EMPHASIS_PATTERN.sub(lambda match: f"{emphasis}{match[1] or match[2]}{emphasis}", text)
        text = render_scripts(_HIGHLIGHT_PATTERN.sub(lambda match: match[1], text))
        text = re.sub(r"\\(?=[*_`#{<\[])", "", text)  # a backslash prevents markup
        return protected_texts.restore(text).strip()


def _get_item_marker(lines: Sequence[str], index: int) -> str:
    """Return the normalized marker of the list item that begins at line ``index``; empty if no item begins there."""
    match = _ITEM_PATTERN.match(lines[index]) if index < len(lines) else None
    return normalize_marker(match["marker"]) if match else ""
