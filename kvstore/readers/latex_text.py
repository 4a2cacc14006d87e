"""The conversion of LaTeX source to blocks of Markdown: its text, commands, environments, formulas and footnotes.
An *argument* is in braces; an *option* is an optional argument in brackets. ``depth`` is the nesting depth of a piece
of source.

In: the decoded source of a file, or a piece of it. Out: blocks, the title and metadata of the file, and the names of
included files. Source nested deeper than ``_MAX_DEPTH`` loses its commands and keeps its text.
"""

from __future__ import annotations

import re
import unicodedata

from .latex_commands import (
    ACCENTS,
    CODE_COMMANDS,
    DEFINITION_COMMANDS,
    EMPHASIS_COMMANDS,
    FORMULA_ENVIRONMENTS,
    IGNORED_ENVIRONMENTS,
    LETTERS,
    LIST_ENVIRONMENTS,
    NUM_ENVIRONMENT_ARGUMENTS,
    PARAGRAPH_COMMANDS,
    QUOTE_ENVIRONMENTS,
    REFERENCE_COMMANDS,
    SECTION_LEVELS,
    TABLE_ENVIRONMENTS,
    THEOREM_LABELS,
    VERBATIM_ENVIRONMENTS,
)
from .latex_literals import LiteralCursor, split_listing
from .latex_macros import TOKEN_PATTERN, MacroTable
from .latex_numbering import SectionNumbering
from .latex_parts import (
    ENVIRONMENT_PATTERN,
    convert_ascii_punctuation,
    format_unit,
    remove_labels,
    split_cells,
    split_environment,
    split_items,
    split_rows,
    split_slide_title,
)
from .list_nesting import label_line
from .markdown_blocks import (
    InlineBuilder,
    ListItem,
    MarkdownBlock,
    make_code_block,
    make_heading,
    make_list,
    make_paragraph,
    make_quote,
    make_table,
    prepend_label,
    render_one_line,
)
from .raw_document import JSON

#: The maximum depth of nested groups and environments; deeper, only the text without commands is read.
_MAX_DEPTH = 40
#: The maximum number of blanks that are skipped after a command for a letter.
_MAX_SKIPPED_SPACES = 40
#: The maximum length of an item's option that only replaces the bullet.
_MAX_BULLET_CHARACTERS = 2
COMMAND_PATTERN = re.compile(r"\\[A-Za-z@]+\*?|\\.|[{}]")  # \emph, \% or a brace
_CAPTION_PATTERN = re.compile(r"\s*(?:\\[a-z]*head\s*)?\\caption\b")  # \caption, possibly after \centerhead
_ESCAPED_NUMBER_PATTERN = re.compile(r"^(\d{1,9})\\(?=[.)])")  # 1\. Tea


class LatexConverter(MacroTable):
    """The converter of one file.
    ``title`` and ``meta`` come from its commands; ``included_files`` lists the files it includes. ``numbering`` makes
    the numbers of its sections.
    ``unclosed_environments`` has the names of environments that begin and never end.
    """

    def __init__(self, text: str) -> None:
        """Prepare the conversion of a LaTeX file to Markdown blocks; ``text`` is its source."""
        super().__init__()
        self.title = ""
        self.first_section = ""  # the title of the first section, without its number
        self.meta: dict[str, JSON] = {}
        self.included_files: list[str] = []
        self.numbering = SectionNumbering("", "")
        self._footnotes: list[str] = []  # in the order of their numbers
        self._text = text
        opened_names = set(re.findall(rf"\\begin{ENVIRONMENT_PATTERN.pattern}", text))
        closed_names = set(re.findall(rf"\\end{ENVIRONMENT_PATTERN.pattern}", text))
        self.unclosed_environments = opened_names - closed_names

    def build_blocks(self) -> list[MarkdownBlock]:
        """Return all Markdown blocks of the file, the title first and the footnotes last."""
        begin, end = self._text.find("\\begin{document}"), self._text.rfind("\\end{document}")
        body = self._text
        if begin >= 0:
            body = self._text[begin + len("\\begin{document}") : end if end > begin else None]
            self.numbering = SectionNumbering(self._text[:begin], body)
            _FragmentConverter(self, self._text[:begin], depth=0).parse_blocks()  # for its definitions and the title
        blocks = _FragmentConverter(self, body, depth=0).parse_blocks()
        if self.title:
            blocks = [make_heading(1, self.title), *blocks]
        footnotes = enumerate(self._footnotes, 1)
        return [*blocks, *(make_paragraph(f"[{number}] {text}") for number, text in footnotes if text)]

    def render_line(self, text: str, depth: int) -> str:
        """Return LaTeX source as one line of plain text.

        ``depth`` is the nesting depth of the source around it. At ``_MAX_DEPTH``, commands are dropped.
        """
        if depth >= _MAX_DEPTH:
            return " ".join(COMMAND_PATTERN.sub(" ", text).split())
        line = render_one_line(_FragmentConverter(self, text, depth + 1, plain=True).parse_blocks())
        # A backslash escapes a first character, or the end of a first number, that could begin another block.
        return _ESCAPED_NUMBER_PATTERN.sub(r"\1", line.removeprefix("\\"))

    def add_footnote(self, text: str, depth: int) -> str:
        """Store a footnote with the LaTeX source ``text``, and return the reference to it, such as ``[1]``.

        ``depth`` is the nesting depth of the source around it.
        """
        self._footnotes.append("")  # reserve the number, because a footnote can contain another
        number = len(self._footnotes)
        self._footnotes[number - 1] = self.render_line(text, depth)
        return f"[{number}]"


class _FragmentConverter(LiteralCursor):
    """The converter of a piece of source to blocks; the expansions of macros are inserted into the source.
    ``_offset`` is the offset of the next character of ``_text``, and ``_inline`` is the open paragraph. ``_source`` is
    the converter of the whole file.
    """

    def __init__(self, source: LatexConverter, text: str, depth: int, plain: bool = False) -> None:
        """Prepare to convert ``text``, which is nested ``depth`` levels deep in the ``source`` file.

        With ``plain``, the result has no emphasis and no code spans.
        """
        super().__init__(source, text)
        self._source = source
        self._depth = depth
        self._inline = InlineBuilder(plain=plain)
        self._blocks: list[MarkdownBlock] = []

    def parse_blocks(self) -> list[MarkdownBlock]:
        """Read the source from the current offset to its end, and return its Markdown blocks."""
        while self._offset < len(self._text):
            token = TOKEN_PATTERN.match(self._text, self._offset)
            if token is None:  # a lone backslash at the end
                self._offset += 1
                continue
            self._offset = token.end()
            kind = token.lastgroup
            if kind == "text":
                self._inline.add_text(convert_ascii_punctuation(token[0]))
            elif kind == "command":
                self._handle_command(token["command"])
            elif kind == "symbol":
                self._handle_symbol(token["symbol"])
            elif kind == "break":
                self._flush_paragraph()
            elif kind == "math":
                self._add_formula(token[0])
            elif kind == "tilde" or kind == "cell":
                self._inline.add_text(" ")
            # Braces only group, and comments are dropped.
        self._flush_paragraph()
        return self._blocks

    def _flush_paragraph(self) -> None:
        """Add the text so far to the blocks as a paragraph, unless it is empty."""
        self._blocks.extend(map(make_paragraph, self._inline.take_paragraphs()))

    def _add_blocks(self, *blocks: MarkdownBlock) -> None:
        """End the current paragraph and add blocks."""
        self._flush_paragraph()
        self._blocks.extend(blocks)

    # --- commands -----------------------------------------------------------------------------------------------------

    def _handle_symbol(self, symbol: str) -> None:
        """Process a command whose name is one character, ``symbol``, such as ``\\%``; drop an unknown one."""
        if symbol == "\\":
            self._offset += self._text.startswith("*", self._offset)  # \\*[2pt]: no page break, extra space
            self._read_option()
            self._inline.break_line()
        elif symbol in "([":
            self._add_formula("\\" + symbol)
        elif symbol in ACCENTS:
            self._add_accent(symbol)
        elif symbol in "%&$#_{}~":
            self._inline.add_text(symbol)
        elif symbol in " \n,;>":  # spaces of different widths
            self._inline.add_text(" ")

    def _add_accent(self, accent: str) -> None:
        """Read the argument of an accent command, and add it with the ``accent`` on its first letter."""
        letter = self._read_argument()
        letter = {"\\i": "i", "\\j": "j"}.get(letter.strip(), letter)
        letter_text = letter if letter[:1] != "\\" else self._source.render_line(letter, self._depth)
        if letter_text:
            self._inline.add_text(unicodedata.normalize("NFC", letter_text[0] + ACCENTS[accent]) + letter_text[1:])

    def _handle_command(self, name: str) -> None:
        """Process a command whose name is a word: a macro of the file, or a command that the reader knows."""
        macro = self._source.macros.get(name)
        if macro is not None:
            self._expand_macro(macro)
        elif name == "begin":
            self._handle_environment()
        elif name == "end":
            self._read_argument()
        elif name in DEFINITION_COMMANDS:
            self._store_definition(name)
        elif name in ("newenvironment", "renewenvironment", "newenvironment*"):
            # The name, the number of arguments, the default of the first one, the beginning and the end are skipped.
            self._read_argument()
            self._read_option()
            self._read_option()
            self._read_argument()
            self._read_argument()
        elif name in ("def", "gdef", "edef", "let"):
            self._store_plain_definition(name)
        elif name in ("title", "author", "date"):
            self._store_metadata(name)
        elif name.rstrip("*") in SECTION_LEVELS:
            self._add_section_heading(name)
        elif name in ("appendix", "frontmatter", "mainmatter", "backmatter"):
            self._source.numbering.begin_part(name)
        elif name in ("footnote", "footnotetext", "thanks", "endnote"):
            self._add_footnote()
        elif name in ("caption", "caption*", "subcaption", "captionof"):
            self._read_option()
            if name == "captionof":
                self._read_argument()  # the kind of the captioned object
            self._add_blocks(*self._parse_inner(self._read_argument()))
        elif name in ("verb", "verb*", "lstinline", "mintinline"):
            self._inline.add_code(self._read_code(name))
        elif name in ("href", "url", "nolinkurl"):
            address = self._read_argument().replace("\\", "")
            self._inline.add_text(
                self._source.render_line(self._read_argument(), self._depth) if name == "href" else address
            )
        elif name in REFERENCE_COMMANDS:
            self._add_reference_notes()
        elif name in PARAGRAPH_COMMANDS or name == "item":  # outside a list
            self._flush_paragraph()
        else:
            self._handle_inline_command(name)

    def _add_section_heading(self, name: str) -> None:
        """Read the arguments of the section command ``name``, and add a heading: its number, if any, and title."""
        self._read_option()  # the short title
        title = self._source.render_line(self._read_argument(), self._depth)
        number = self._source.numbering.number_section(name)
        if title:
            self._source.first_section = self._source.first_section or title
            self._add_blocks(make_heading(SECTION_LEVELS[name.rstrip("*")], label_line(number, title)))

    def _add_footnote(self) -> None:
        """Read the arguments of a footnote command, and add a reference to the footnote.

        At the maximum depth, the text of the footnote is not read, and so becomes text of the paragraph.
        """
        self._read_option()  # the number
        if self._depth < _MAX_DEPTH:
            self._inline.add_text(self._source.add_footnote(self._read_argument(), self._depth))

    def _handle_inline_command(self, name: str) -> None:
        """Process a command within a paragraph, such as emphasis; record an included file; skip any other."""
        if name == "hline":
            pass  # a rule of a table
        elif name in ("newline", "linebreak", "tabularnewline", "cr"):
            self._inline.break_line()
        elif name in EMPHASIS_COMMANDS:
            emphasis_start = self._inline.start_emphasis()
            self._add_running_text(self._read_argument())
            self._inline.end_emphasis(emphasis_start)
        elif name in CODE_COMMANDS:
            self._inline.add_code(self._source.render_line(self._read_argument(), self._depth))
        elif name in ("enquote", "say"):
            self._inline.add_text("“")
            self._add_running_text(self._read_argument())
            self._inline.add_text("”")
        elif name == "textsuperscript":
            argument = self._read_argument()
            if not self._inline.add_exponent(argument.strip()):
                self._add_running_text(argument)
        elif name in ACCENTS:
            self._add_accent(name)
        elif name in LETTERS:
            self._inline.add_text(LETTERS[name])
            if self._text.startswith("{}", self._offset):
                self._offset += 2
            else:
                # TeX ignores the spaces after the name of a command.
                following_text = self._text[self._offset : self._offset + _MAX_SKIPPED_SPACES]
                self._offset += len(following_text) - len(following_text.lstrip(" \t"))
        elif name in ("SI", "qty", "si", "unit"):
            self._add_quantity(has_number=name in ("SI", "qty"))
        elif name == "ang":
            self._read_option()
            degrees = self._read_argument().split(";")  # "12;3;1" is 12°3′1″
            marked_parts = [part.strip() + mark for part, mark in zip(degrees, "°′″", strict=False) if part.strip()]
            self._inline.add_text("".join(marked_parts))
        elif name.rstrip("*") in ("input", "include", "subfile", "import", "subimport"):
            path = self._read_included_path(name.rstrip("*"))
            if path.strip():
                self._source.included_files.append(path)
        elif name == "xspace":
            if self._text[self._offset : self._offset + 1].isalpha():
                self._inline.add_text(" ")
        elif name == "iffalse":  # begins a part that is not printed
            end = self._text.find("\\fi", self._offset)
            self._offset = end + 3 if end >= 0 else len(self._text)
        else:
            self._skip_command(name)

    def _add_running_text(self, text: str) -> None:
        """Add the LaTeX source ``text`` of an argument to the current paragraph; white space at its ends is kept."""
        line = self._source.render_line(text, self._depth)
        space_before, space_after = text[:1].isspace(), text[-1:].isspace()
        self._inline.add_text(f"{' ' if space_before else ''}{line}{' ' if space_after else ''}")

    def _parse_inner(self, text: str) -> list[MarkdownBlock]:
        """Return the Markdown blocks of LaTeX source inside this source, such as an argument.

        At the maximum depth, they are at most one paragraph, without the commands.
        """
        if self._depth >= _MAX_DEPTH:
            return list(map(make_paragraph, filter(None, [self._source.render_line(text, self._depth)])))
        return _FragmentConverter(self._source, text, self._depth + 1).parse_blocks()

    def _store_metadata(self, name: str) -> None:
        """Store the argument of ``title``, ``author`` or ``date`` as title or in ``meta``; the first of each counts."""
        self._read_option()
        source = re.sub(r"\\(?:thanks|footnote)\s*\{[^{}]*\}", "", self._read_argument())
        source = re.sub(r"\\and\b|\\And\b|\\AND\b", ",", source)  # between authors
        line = " ".join(self._source.render_line(source, self._depth).split()).replace(" ,", ",")
        if name == "title" and not self._source.title:
            self._source.title = line
        elif line and name != "title":
            self._source.meta.setdefault(name, line)

    def _add_quantity(self, *, has_number: bool) -> None:
        r"""Read the arguments of a command of the package siunitx, and add a number with its unit, or only a unit.

        ``has_number`` is true for ``\SI`` and ``\qty``.
        """
        self._read_option()
        number = self._source.render_line(self._read_argument(), self._depth) if has_number else ""
        unit = format_unit(self._read_argument())
        self._inline.add_text(f"{number} {unit}" if number and unit else number or unit)

    def _add_reference_notes(self) -> None:
        """Read the arguments of a citation or reference, and add only its notes (``\\cite[page 3]{key}``)."""
        options = [self._read_option(), self._read_option()]
        self._read_argument()
        notes = [self._source.render_line(option, self._depth) for option in options if option]
        if notes:
            self._inline.add_text(f"({'; '.join(notes)})")

    def _add_formula(self, opening: str) -> None:
        r"""Add the source of the formula after the delimiter ``opening``; after ``$$`` or ``\[``, as its own paragraph.

        If the formula is not closed, ``$`` or ``$$`` becomes text, and other delimiters are dropped.
        """
        formula = self._read_formula(opening)
        if formula is None:
            self._inline.add_text(opening if opening[0] == "$" else "")
        elif opening in ("$$", "\\["):
            self._add_blocks(*([MarkdownBlock("paragraph", f"$${remove_labels(formula)}$$")] if formula else []))
        elif formula:
            self._inline.add_text(f"${formula}$")

    # --- environments -------------------------------------------------------------------------------------------------

    def _handle_environment(self) -> None:
        r"""Read the environment after ``\begin``, such as a table or a list, and add its blocks, if it has any."""
        name_match = ENVIRONMENT_PATTERN.match(self._text, self._offset)
        if name_match is None:
            return
        name = name_match[1]
        self._offset = name_match.end()
        if self._depth >= _MAX_DEPTH and name not in VERBATIM_ENVIRONMENTS:
            self._flush_paragraph()
            return  # the body is read as text of this level
        body, self._offset = split_environment(self._text, self._offset, name, self._source.unclosed_environments)
        if name in IGNORED_ENVIRONMENTS:
            return
        if name in VERBATIM_ENVIRONMENTS:
            code, language = split_listing(name, body)
            if code:
                self._add_blocks(make_code_block(code, language))
            return
        if name in FORMULA_ENVIRONMENTS:
            formula = remove_labels(" ".join(re.sub(r"(?<!\\)%.*", "", body).split()))  # without comments
            self._add_blocks(*([MarkdownBlock("paragraph", f"$${formula}$$")] if formula else []))
            return
        self._add_environment(name, body)

    def _add_environment(self, name: str, body: str) -> None:
        """Add the blocks of an environment of text: a table, a list, a quotation, a slide, a theorem, ...

        The arguments at the beginning of its body are skipped, except the name of a theorem.
        """
        inner = _FragmentConverter(self._source, body, self._depth + 1)
        option = inner._read_option()
        for _ in range(NUM_ENVIRONMENT_ARGUMENTS.get(name, 0)):
            inner._read_argument()
            inner._read_option()
        body = inner._text[inner._offset :]  # without the option and the arguments
        self._flush_paragraph()
        if name in TABLE_ENVIRONMENTS:
            self._add_table(body)
        elif name in LIST_ENVIRONMENTS or name == "thebibliography":
            self._add_items(body, "enumerate" if name in ("compactenum", "asparaenum", "inparaenum") else name)
        elif name in QUOTE_ENVIRONMENTS:
            blocks = self._parse_inner(body)
            self._add_blocks(*([make_quote(blocks)] if blocks else []))
        elif name == "abstract":
            blocks = self._parse_inner(body)
            self._add_blocks(*([make_heading(2, "Abstract"), *blocks] if blocks else []))
        elif name == "appendices":
            self._source.numbering.begin_part("appendix")
            self._add_blocks(*self._parse_inner(body))
        elif name == "frame":
            title, body = split_slide_title(body)
            if title is not None:
                self._add_blocks(make_heading(3, self._source.render_line(title, self._depth)))
            self._add_blocks(*self._parse_inner(body))
        else:
            note = self._source.render_line(option, self._depth) if option and name in THEOREM_LABELS else ""
            blocks = self._parse_inner(body)
            if name in THEOREM_LABELS and blocks and blocks[0].kind == "paragraph":
                blocks = prepend_label(f"{THEOREM_LABELS[name]}{f' ({note})' if note else ''}.", blocks)
            self._add_blocks(*blocks)

    def _add_items(self, body: str, environment: str) -> None:
        """Add the list in the body of ``environment`` (a name); text before its first item becomes blocks before it."""
        items: list[ListItem] = []
        for option, text in split_items(body, "bibitem" if environment == "thebibliography" else "item"):
            if option is None and not items and not text.strip():
                continue
            blocks = self._parse_inner(text)
            # Text before the first item command is not an item.
            if option is None and not items and not re.search(r"\\(?:bib)?item\b", body[: len(body) - len(text)]):
                self._add_blocks(*blocks)
                continue
            term = self._source.render_line(option, self._depth) if option and environment != "thebibliography" else ""
            if term and environment == "description":
                blocks = prepend_label(f"{term.removesuffix(':')}:", blocks)
            # A shorter option is only a bullet, which the marker of the item replaces.
            elif len(term) > _MAX_BULLET_CHARACTERS and blocks and blocks[0].kind == "paragraph":
                blocks = prepend_label(term, blocks)
            if blocks:
                items.append(ListItem(f"{len(items) + 1}." if environment == "enumerate" else "-", blocks))
        if items:
            self._add_blocks(make_list(items))

    def _add_table(self, body: str) -> None:
        """Add the table in the body of an environment; the first row that is not empty is its header.

        A caption before the first row is added above the table; later captions and repeated headers are omitted.
        """
        rows: list[list[str]] = []
        for row in split_rows(body):
            if _CAPTION_PATTERN.match(row) is not None:
                if not rows:
                    self._add_blocks(*self._parse_inner(row))
                continue
            cells = [self._source.render_line(cell, self._depth) for cell in split_cells(row)]
            if any(cells) and (not rows or cells != rows[0]):
                rows.append(cells)
        if rows:
            self._add_blocks(make_table(rows[0], rows[1:]))
