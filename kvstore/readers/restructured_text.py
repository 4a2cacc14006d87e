"""reStructuredText: the file becomes Markdown that follows its structure.
A *directive* is a block such as ``.. note:: wait``; a *role* marks text, as in ``:func:`name```. ``depth`` is the
number of blocks around the lines.

In: bytes in UTF-8 (or the encoding that a byte-order mark or option names). Out: one document of format ``markdown``
with sections, lists, definitions, fields, options, tables, quotations, literal blocks and code, admonitions, footnotes
and the content of directives. Comments, link targets and directives without text (tables of contents, includes, page
settings) are dropped. Includes are not followed. The title is the first level-one heading. An empty file is a
ReaderError. Invalid markup is read as a paragraph.

Source: the reStructuredText Markup Specification, and Sphinx's directives and roles.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from .decoding import decode_text
from .line_markup import ProtectedTexts, find_line, find_nonblank_line
from .markdown import find_first_title
from .markdown_blocks import (
    MAX_SPAN,
    MarkdownBlock,
    is_exponent,
    join_blocks,
    make_code_block,
    make_code_span,
    make_heading,
    make_image,
    make_list,
    make_paragraph,
    make_quote,
    make_table,
    prepend_label,
    prepend_term,
    render_one_line,
)
from .raw_document import Origin, RawDocument, ReadOptions
from .restructured_lines import (
    BULLET_PATTERN,
    FIELD_PATTERN,
    GRID_BORDER_PATTERN,
    ParsedTable,
    parse_grid_table,
    parse_simple_table,
    read_indented,
    split_fields,
    split_list_items,
)

#: The maximum depth of nested blocks; deeper blocks are read as text.
_MAX_DEPTH = 24
#: The minimum length of a transition, and of a line below a title that is not shorter.
_MIN_ADORNMENT_CHARACTERS = 4
_ADORNMENT_PATTERN = re.compile(r"([!-/:-@\[-`{-~])\1{1,}\s*$")  # ====
#: A directive, perhaps for a substitution: ``.. note:: wait``, ``.. |name| replace:: text``.
_DIRECTIVE_PATTERN = re.compile(
    r"\.\.\s+(?:\|(?P<substituted>[^|]+)\|\s+)?(?P<name>[\w:.+-]+?)\s?::(?:\s+(?P<argument>.*))?$"
)
_FOOTNOTE_PATTERN = re.compile(r"\.\.\s+\[(?P<label>[^\]]+)\]\s*(?P<text>.*)$")  # .. [1] A note
_EXPLICIT_MARKUP_PATTERN = re.compile(r"\.\.(?:\s|$)|__\s")  # .. a comment
#: The marker of a numbered item: ``1. tea``, ``(a) tea``, ``#. tea``.
_ENUMERATOR_PATTERN = re.compile(
    r"(?:\(?(?:\d{1,9}|#|[A-Za-z]|[ivxlcIVXLC]{1,6})\)|(?:\d{1,9}|#|[A-Za-z]|[ivxlcIVXLC]{1,6})\.)\s+(?=\S)"
)
#: An option with its value. Its parts never backtrack: the number of ways to split a list of options is exponential.
_OPTION = (
    r"(?:--?|/)[\w?@#](?:(?=(?:[^\WA-Za-z]|-)*+[A-Za-z])[\w-]*+(?=[.>])[\w.-]*+>?+"  # a value without a separator
    r"|[\w-]*+(?:[ =]?<?[A-Za-z][\w.-]*+>?+)?+)"
)
_OPTION_PATTERN = re.compile(rf"({_OPTION}(?:, {_OPTION})*+)(?:  +(?=\S)|$)")  # -o FILE, --output=FILE
_SIMPLE_BORDER_PATTERN = re.compile(r"=+(?: +=+)+\s*$")  # === ===
_CODE_DIRECTIVES = frozenset(
    (
        "code code-block sourcecode highlight-code parsed-literal ipython prompt doctest testcode testoutput math "
        "productionlist"
    ).split()
)
_ADMONITION_DIRECTIVES = frozenset(
    (
        "note warning tip important caution danger attention error hint seealso todo versionadded versionchanged "
        "deprecated versionremoved"
    ).split()
)
_ADMONITION_LABELS = {
    "seealso": "See also",
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "versionremoved": "Removed in version",
}
_TEXTLESS_DIRECTIVES = frozenset(
    (
        "toctree contents include literalinclude raw meta index highlight default-role role currentmodule module "
        "sectnum target-notes header footer image unicode date title tabularcolumns automodule autosummary "
        "autoclass autofunction py:currentmodule graphviz digraph plot section-numbering ifconfig-end namespace"
    ).split()
)
_TABLE_DIRECTIVES = frozenset("list-table csv-table table flat-table".split())
_CONTENT_DIRECTIVES = frozenset(
    (
        "topic sidebar epigraph highlights pull-quote compound container rubric centered figure only ifconfig "
        "hlist glossary class"
    ).split()
)
#: Patterns limit the distance between opening and closing marks, so that many unclosed marks take linear time.
_LITERAL_PATTERN = re.compile(r"(?<![\w`])``(?=\S)(.{1,1000}?)(?<=\S)``(?![\w`])", re.S)
#: A text with a role: ":ref:`tea`" or "`tea`:ref:".
_ROLE_PATTERN = re.compile(
    r"(?<!\w):(?P<role_before>[\w:.+-]+):`(?P<content_after>(?:[^`\\]|\\.){1,1000})`"
    r"|(?<![\w`])`(?P<content_before>(?:[^`\\]|\\.){1,1000})`:(?P<role_after>[\w:.+-]+):"
)
#: A link with its address: "`Tea <tea.org>`_".
_NAMED_LINK_PATTERN = re.compile(
    r"(?<![\w`])`(?P<label>(?:[^`<\\]|\\.){0,1000}?)\s*<(?P<address>[^>`]{0,2000})>`__?", re.S
)
#: A reference to a target: "`green tea`_" or "tea_".
_REFERENCE_PATTERN = re.compile(
    r"(?<![\w`])`(?P<phrase>(?:[^`\\]|\\.){1,1000})`__?(?!\w)"
    r"|(?<![\w`:./])(?P<word>[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)__?(?![\w`])"
)
_CITATION_PATTERN = re.compile(r"\[([#*]?[\w.-]*|\*)\]_(?!\w)")  # [1]_
_STRONG_PATTERN = re.compile(r"(?<![\w*])\*\*(?=\S)([^*\n]{1,500}?)(?<=\S)\*\*(?![\w*])")  # **tea**
_TITLE_LINK_PATTERN = re.compile(r"(?P<title>.{0,1000}?)\s*<[^>]*>$", re.S)  # Green tea <tea>
_SUBSTITUTION_PATTERN = re.compile(r"\|(\S(?:[^|\n]{0,200}\S)?)\|(?:__?)?")  # |name|
_CODE_ROLES = frozenset(
    (
        "code literal samp file kbd command program option envvar class func meth attr mod data const exc obj "
        "keyword regexp c cpp macro member type var"
    ).split()
)


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument]:
    """Convert a reStructuredText file to Markdown, and yield it as one document.

    Raises ReaderError if it is blank, or cannot be decoded.
    """
    text = decode_text(stream.read(), origin.name, options.encoding)
    lines = [line.expandtabs().rstrip() for line in text.split("\n")]
    parser = _RestructuredTextParser(_find_substitutions(lines), len(text))
    markdown = join_blocks(parser.parse_blocks(lines, depth=0)) or join_blocks([make_paragraph(text.strip())])
    yield RawDocument(origin.key, find_first_title(markdown), markdown + "\n", meta={}, format="markdown")


def _find_substitutions(lines: Sequence[str]) -> dict[str, str]:
    """Return the texts that ``replace`` and ``unicode`` directives define for ``|name|``, by name."""
    substitutions = {}
    for index, line in enumerate(lines):
        match = _DIRECTIVE_PATTERN.match(line)
        if match and match["substituted"] and match["name"] in ("replace", "unicode"):
            body, _ = read_indented(lines, index + 1)
            substitutions[match["substituted"]] = " ".join(
                [match["argument"] or "", *(body_line.strip() for body_line in body)]
            ).strip()
    return substitutions


class _RestructuredTextParser:
    """The parser of one file. The level of a section is determined by the order in which *adornments* first occur.
    An adornment is the line of equal characters below a title, and perhaps also above it.
    """

    def __init__(self, substitutions: Mapping[str, str], max_repeated_chars: int) -> None:
        """Create the parser of a file; ``substitutions`` are the texts of its ``|name|`` references, by name.

        Tables repeat at most ``max_repeated_chars`` characters of cells that span rows.
        """
        self._substitutions = substitutions
        self._repeatable_chars_left = max_repeated_chars
        self._levels: list[str] = []  # the adornment character of each level, doubled if it is also above the title

    def parse_blocks(self, lines: Sequence[str], depth: int) -> list[MarkdownBlock]:
        """Return the blocks of dedented lines.

        Beyond ``_MAX_DEPTH``, all lines become one paragraph, whose markup is not parsed.
        """
        if depth > _MAX_DEPTH:
            text = " ".join(" ".join(lines).split())
            return [make_paragraph(text)] if text else []
        blocks: list[MarkdownBlock] = []
        index = 0
        while index < len(lines):
            if not lines[index]:
                index += 1
                continue
            index = self._parse_block(lines, index, depth, blocks)
        return blocks

    def _parse_block(self, lines: Sequence[str], start: int, depth: int, blocks: list[MarkdownBlock]) -> int:
        """Append the block that begins at ``lines[start]`` to ``blocks``; return the index of the line after it.

        Sections begin only at depth 0.
        """
        line = lines[start]
        if line[0] == " ":
            body, end = read_indented(lines, start)
            inner_blocks = self.parse_blocks(body, depth + 1)
            if inner_blocks:
                blocks.append(make_quote(inner_blocks))
            return end
        section_end = self._parse_section(lines, start, blocks) if depth == 0 else 0
        if section_end:
            return section_end
        if _EXPLICIT_MARKUP_PATTERN.match(line):
            return self._parse_explicit_markup(lines, start, depth, blocks)
        if line.startswith(">>> "):
            end = find_line(lines, start, lambda other: not other)
            blocks.append(make_code_block("\n".join(lines[start:end]), "python"))
            return end
        table = parse_grid_table(lines, start) if GRID_BORDER_PATTERN.match(line) else None
        table = parse_simple_table(lines, start) if _SIMPLE_BORDER_PATTERN.match(line) else table
        if table is not None:
            blocks += self._build_table(table, depth)
            return table.end
        if line.startswith("| ") or line == "|":  # a line block
            end = find_line(lines, start, lambda other: other[:1] not in ("|", " "))
            text = "\n".join(self._render_inline(text_line.lstrip("| ")) for text_line in lines[start:end])
            blocks += [make_paragraph(part) for part in text.split("\n\n") if part.strip()]
            return end
        for pattern in (BULLET_PATTERN, _ENUMERATOR_PATTERN, FIELD_PATTERN, _OPTION_PATTERN):
            if pattern.match(line) and (pattern is not _ENUMERATOR_PATTERN or _is_enumerated_item(lines, start)):
                block, end = self._parse_list(lines, start, pattern, depth)
                blocks.append(block)
                return end
        precedes_indented = start + 1 < len(lines) and lines[start + 1][:1] == " "
        if precedes_indented and not line.endswith("::"):
            return self._parse_definitions(lines, start, depth, blocks)
        return self._parse_paragraph(lines, start, depth, blocks)

    def _parse_section(self, lines: Sequence[str], start: int, blocks: list[MarkdownBlock]) -> int:
        """Append the heading at ``lines[start]`` to ``blocks``, or skip a transition (a rule).

        Return the index of the line after it, or 0 if the line begins neither.
        """
        line = lines[start]
        overline = _ADORNMENT_PATTERN.match(line)  # a line such as "=====", above or below a title
        next_line = lines[start + 1] if start + 1 < len(lines) else ""
        third_line = lines[start + 2] if start + 2 < len(lines) else ""
        underline = _ADORNMENT_PATTERN.match(next_line)
        if overline:
            if not next_line and len(line) >= _MIN_ADORNMENT_CHARACTERS:
                return start + 1  # a transition
            if not next_line.strip() or not _ADORNMENT_PATTERN.match(third_line) or third_line[0] != line[0]:
                return 0
            # Doubled, because the same character only below a title is another style.
            style, title, end = line[0] * 2, next_line.strip(), start + 3
        else:
            is_long_enough = len(next_line) >= min(_MIN_ADORNMENT_CHARACTERS, len(line))
            if not underline or not is_long_enough or _EXPLICIT_MARKUP_PATTERN.match(line):
                return 0
            style, title, end = underline[1], line.strip(), start + 2
        if style not in self._levels:
            self._levels.append(style)
        blocks.append(make_heading(self._levels.index(style) + 1, self._render_inline(title, plain=True)))
        return end

    def _parse_paragraph(self, lines: Sequence[str], start: int, depth: int, blocks: list[MarkdownBlock]) -> int:
        """Append the paragraph at ``lines[start]``, and the literal block after it if it ends with ``::``.

        Return the index of the line after them.
        """
        end = start + 1
        while end < len(lines) and lines[end][:1] not in ("", " "):
            end += 1
        text = "\n".join(lines[start:end])
        precedes_literal = text.endswith("::")
        if precedes_literal:  # "text::" keeps one colon, "text ::" and "::" keep no colon
            text = text[:-2].rstrip() if text == "::" or text[:-2].endswith((" ", "\n")) else text[:-1]
        if text.strip():
            blocks.append(make_paragraph(self._render_inline(" ".join(text.split()))))
        if not precedes_literal:
            return end
        body, end = _read_literal_block(lines, end)
        if any(body):
            blocks.append(make_code_block("\n".join(body)))
        return end

    def _parse_list(
        self, lines: Sequence[str], start: int, pattern: re.Pattern[str], depth: int
    ) -> tuple[MarkdownBlock, int]:
        """Parse the list at ``lines[start]``, and return it with the index of the line after it.

        ``pattern`` matches the beginnings of its items: bullets, enumerators, fields or command options. Fields and
        options become items ``term: definition``. An item keeps its number if that is higher than those before it, and
        its letter or Roman number.
        """
        items: list[tuple[str, list[MarkdownBlock]]] = []
        number = 0
        while start < len(lines):
            if not lines[start]:
                start += 1
                continue
            match = pattern.match(lines[start])
            if match is None:
                break
            term = ""
            if pattern is FIELD_PATTERN:
                term = self._render_inline(match[1])
            elif pattern is _OPTION_PATTERN:
                term = make_code_span(match[1])
            body, end = read_indented(lines, start + 1)
            blocks = self.parse_blocks([lines[start][match.end() :], *body], depth + 1)
            enumerator = match[0].strip("(). ") if pattern is _ENUMERATOR_PATTERN else ""
            number = max(number + 1, int(enumerator) if enumerator.isdecimal() else 0)
            if enumerator.isalpha():  # letters and Roman numbers, which Markdown does not have
                blocks = prepend_label(match[0].strip(), blocks)
            marker = f"{number}." if enumerator and not enumerator.isalpha() else "-"
            items.append((marker, prepend_term(term, blocks) or [MarkdownBlock("paragraph", "")]))
            start = end
        return make_list(items), start

    def _parse_definitions(self, lines: Sequence[str], start: int, depth: int, blocks: list[MarkdownBlock]) -> int:
        """Append the definition list at ``lines[start]`` as a list of ``term: definition``.

        Return the index of the line after it.
        """
        items: list[tuple[str, list[MarkdownBlock]]] = []
        while start + 1 < len(lines) and lines[start][:1] not in ("", " ") and lines[start + 1][:1] == " ":
            if _EXPLICIT_MARKUP_PATTERN.match(lines[start]):
                break
            body, end = read_indented(lines, start + 1)
            items.append(("-", prepend_term(self._render_inline(lines[start]), self.parse_blocks(body, depth + 1))))
            start = find_nonblank_line(lines, end)
        blocks.append(make_list(items))
        return start

    def _parse_explicit_markup(self, lines: Sequence[str], start: int, depth: int, blocks: list[MarkdownBlock]) -> int:
        """Append the blocks of the directive or footnote at ``lines[start]``; return the index of the line after it.

        A link target, a comment, and the definition of a substitution have no blocks.
        """
        line = lines[start]
        body, end = read_indented(lines, start + 1)
        footnote = _FOOTNOTE_PATTERN.match(line)
        if footnote:
            text = render_one_line(self.parse_blocks([footnote["text"], *body], depth + 1))
            blocks.append(make_paragraph(f"[{footnote['label'].lstrip('#')}] {text}"))
            return end
        directive = _DIRECTIVE_PATTERN.match(line)
        if directive is None or directive["substituted"]:
            return end
        domain, _, base_name = directive["name"].lower().rpartition(":")  # such as py:function
        argument = (directive["argument"] or "").strip()
        if domain == "http":  # the method, such as http:get, belongs to the path
            argument = f"{base_name.upper()} {argument}"
        blocks += self._parse_directive(base_name, argument, body, depth)
        return end

    def _parse_directive(self, name: str, argument: str, body: list[str], depth: int) -> list[MarkdownBlock]:
        """Return the blocks of a directive, such as ``.. figure:: pump.png``.

        ``name`` has no domain (``function``, not ``py:function``), ``argument`` is the text after ``::``, and ``body``
        has the indented lines below, which begin with the options.
        """
        body, fields = split_fields(body)
        if name in _CODE_DIRECTIVES:
            code = "\n".join(body).strip("\n")
            formula = argument if name == "math" or not code else ""
            names_language = re.fullmatch(r"[\w+#.-]+", argument) and name != "math"  # such as python or c++
            language = argument if code and names_language else ""
            return [make_code_block("\n".join(filter(None, [formula, code])), language)] if code or formula else []
        if name == "admonition" or name in _ADMONITION_DIRECTIVES:
            is_titled = name == "admonition"  # the argument is its title, not its first line
            label = self._render_inline(argument) if is_titled else _ADMONITION_LABELS.get(name, name.capitalize())
            inner_blocks = self.parse_blocks(body if is_titled else [argument, *body], depth + 1)
            return prepend_term(label, inner_blocks) if inner_blocks else [make_paragraph(label)]
        if name in _TABLE_DIRECTIVES:
            return self._parse_table_directive(name, argument, body, fields, depth)
        if name in _TEXTLESS_DIRECTIVES:  # such as image and toctree
            return [make_image(fields["alt"])] if "alt" in fields else []
        if name in _CONTENT_DIRECTIVES:  # such as sidebar and figure
            title = "" if name in ("figure", "only", "ifconfig", "class", "container") else argument
            title_blocks = [make_paragraph(self._render_inline(title))] if title else []
            return title_blocks + self.parse_blocks(body, depth + 1)
        # Objects that Sphinx describes (functions, classes, options), and unknown directives.
        inner_blocks = self.parse_blocks(body, depth + 1)
        return [make_list([("-", prepend_term(make_code_span(argument), inner_blocks))])] if argument else inner_blocks

    def _parse_table_directive(
        self, name: str, argument: str, body: list[str], fields: Mapping[str, str], depth: int
    ) -> list[MarkdownBlock]:
        """Return the blocks of a table directive (``csv-table``, ``table`` or ``list-table``): its title and the table.

        ``argument`` is the title, ``body`` has the lines of the table, and ``fields`` the options of the directive.
        """
        blocks = [make_paragraph(self._render_inline(argument))] if argument else []
        if name == "csv-table":
            lines = csv.reader(filter(None, body), skipinitialspace=True)
            rows = [[self._render_inline(cell.strip()) for cell in row] for row in lines]
            header = next(csv.reader([fields["header"]], skipinitialspace=True), []) if fields.get("header") else []
            return [*blocks, make_table(header, rows)] if rows or header else blocks
        if name == "table":
            return blocks + self.parse_blocks(body, depth + 1)
        # An item of the outer list is a row; the items of its inner list are the cells.
        rows = []
        for row in split_list_items(body):
            rows.append([render_one_line(self.parse_blocks(cell, depth + 2)) for cell in split_list_items(row)])
        rows = [row for row in rows if any(row)]
        return [*blocks, make_table(rows[0], rows[1:])] if rows else blocks

    def _build_table(self, table: ParsedTable, depth: int) -> list[MarkdownBlock]:
        """Return the block of a table, with its first row as header; an empty list if the table has no text.

        The text of a cell that spans rows is in each of them, in at most ``MAX_SPAN`` rows. Repeated characters count
        toward a limit of the file (``_repeatable_chars_left``), above which cells are empty.
        """
        num_rows: Counter[int] = Counter()  # by the id of a cell
        texts: dict[int, str] = {}

        def render_cell(cell: list[str]) -> str:
            """Return the text of a cell for the next row that it spans; "" after ``MAX_SPAN`` rows or too much text."""
            num_rows[id(cell)] += 1
            if num_rows[id(cell)] == 1:
                texts[id(cell)] = render_one_line(self.parse_blocks(cell, depth + 1))
                return texts[id(cell)]
            text = texts[id(cell)] if num_rows[id(cell)] <= MAX_SPAN else ""
            if len(text) > self._repeatable_chars_left:
                return ""
            self._repeatable_chars_left -= len(text)
            return text

        rows = [[render_cell(cell) if cell else "" for cell in row] for row in table.rows]
        rows = [row for row in rows if any(row)]
        return [make_table(rows[0], rows[1:])] if rows else []

    def _render_inline(self, text: str, plain: bool = False) -> str:
        """Convert inline markup to Markdown, or to text without markup if ``plain``.

        Code is replaced by placeholders until the end, so that the patterns of other markup do not change it.
        """
        protected_texts = ProtectedTexts()

        def protect_code(code: str) -> str:
            """Return a placeholder for code."""
            return protected_texts.protect(code if plain else make_code_span(code))

        def render_role(match: re.Match[str]) -> str:
            """Return the displayed content of a role, such as ``:func:`~os.path.join```."""
            role = match["role_before"] or match["role_after"]
            content = match["content_after"] or match["content_before"]
            link_match = _TITLE_LINK_PATTERN.fullmatch(content)
            text = (link_match["title"] if link_match and link_match["title"] else content).replace("\\", "")
            if text.startswith(("~", "!")):  # Sphinx shows only the last part of the name, or makes no link
                text = text[1:].rpartition(".")[2] if text[0] == "~" else text[1:]
            text_before = match.string[max(0, match.start() - 3) : match.start()].removesuffix("\\ ")
            if role in ("sup", "superscript") and is_exponent(text, text_before[-1:]):
                return f"^{text}"
            return protect_code(text) if role.rpartition(":")[2] in _CODE_ROLES and "`" not in text and text else text

        if "|" in text and self._substitutions:
            text = _SUBSTITUTION_PATTERN.sub(lambda match: self._substitutions.get(match[1], match[0]), text)
        if "`" in text:
            text = _LITERAL_PATTERN.sub(lambda match: protect_code(match[1]), text)
            text = _ROLE_PATTERN.sub(render_role, text)
            text = _NAMED_LINK_PATTERN.sub(lambda match: match["label"] or match["address"], text)
        if "_" in text:
            text = _CITATION_PATTERN.sub(lambda match: f"[{match[1].lstrip('#')}]", text)
            text = _REFERENCE_PATTERN.sub(lambda match: match["phrase"] or match["word"], text)
        if "`" in text:  # interpreted text without a role
            text = re.sub(r"(?<!\w)`((?:[^`\\]|\\.){1,1000})`(?!\w)", lambda match: protect_code(match[1]), text)
        # All emphasis is written with single asterisks, as in the documents of the other readers.
        text = _STRONG_PATTERN.sub(lambda match: match[1] if plain else f"*{match[1]}*", text)
        # A backslash before a character prevents markup; an escaped space only separates markup from a word.
        text = re.sub(r"\\([^\w\s])|\\\s", lambda match: match[1] or "", text)
        return protected_texts.restore(text)


def _read_literal_block(lines: Sequence[str], start: int) -> tuple[list[str], int]:
    """Return the lines of the literal block after the blank line ``start``, and the index of the line after the block.

    The block is indented, or each of its lines begins with the same character, which is not a letter or digit.
    """
    body, end = read_indented(lines, start)
    quote_character = lines[start + 1][:1] if start + 1 < len(lines) else ""
    if not body and quote_character and not quote_character.isalnum():
        end = find_line(lines, start + 1, lambda line: line[:1] != quote_character)
        body = list(lines[start + 1 : end])
    return body, end


def _is_enumerated_item(lines: Sequence[str], start: int) -> bool:
    """True if the enumerator (``1.``) at ``lines[start]`` begins a list item and not a sentence.

    The next line is then blank, indented, or the next item.
    """
    next_line = lines[start + 1] if start + 1 < len(lines) else ""
    return not next_line or next_line.startswith(" ") or _ENUMERATOR_PATTERN.match(next_line) is not None
