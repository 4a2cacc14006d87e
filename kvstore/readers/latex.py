r"""LaTeX: the source of an article or a book becomes Markdown that follows its structure.

In: a ``.tex`` file in UTF-8 (or the encoding of ``inputenc`` or the option ``encoding``). Out: one document of format
``markdown`` with sections, paragraphs, lists, tables, quotations, listings, captions and footnotes; formulas are kept
as source between dollar signs. Macros that the file defines are expanded. Unknown macros are replaced by the text of
their arguments, and layout commands are dropped. Included files are not read but reported, and nothing is executed. The
title is ``\title``, else the first heading; metadata are ``author`` and ``date``. A file with endless macro expansion
or without text is a ReaderError.

Source: Lamport, LaTeX: A Document Preparation System (2nd edition, 1994), appendix C; the LaTeX2e unofficial reference
manual.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import BinaryIO

from ..errors import ReaderError
from .decoding import decode_text, is_utf8
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

#: The maximum depth of nested groups and environments; deeper, only the text without commands is read.
_MAX_DEPTH = 40
#: The maximum number of characters that macros of a file can expand to. Each expansion has an extra cost, so that empty
#: expansions also terminate.
_MAX_EXPANDED_CHARACTERS = 4 << 20
_EXPANSION_COST = 64
#: The maximum length of an argument.
_MAX_ARGUMENT_CHARACTERS = 1 << 18
_MAX_OPTION_CHARACTERS = 2_000

_SECTION_LEVELS = {
    "part": 1, "chapter": 1, "addchap": 1, "section": 2, "addsec": 2, "subsection": 3, "frametitle": 3,
    "subsubsection": 4, "paragraph": 5, "subparagraph": 6,
}  # fmt: skip
_LIST_ENVIRONMENTS = frozenset(
    "itemize enumerate description compactitem compactenum asparaenum inparaenum list trivlist".split()
)
_QUOTE_ENVIRONMENTS = frozenset("quote quotation verse displayquote epigraph".split())
_TABLE_ENVIRONMENTS = frozenset(
    "tabular tabular* tabularx tabulary tabu longtable supertabular array NiceTabular tblr".split()
)
_VERBATIM_ENVIRONMENTS = frozenset(
    "verbatim verbatim* Verbatim lstlisting minted alltt BVerbatim LVerbatim SaveVerbatim listing* code".split()
)
_FORMULA_ENVIRONMENTS = frozenset(
    "equation equation* align align* gather gather* multline multline* eqnarray eqnarray* displaymath "
    "math alignat alignat* "
    "flalign flalign* IEEEeqnarray IEEEeqnarray* dmath dmath* subequations".split()
)
_IGNORED_ENVIRONMENTS = frozenset(
    "comment tikzpicture pgfpicture picture filecontents filecontents* CCSXML pspicture asy forest".split()
)
#: Environments and the number of their arguments that are not text.
_NUM_ENVIRONMENT_ARGUMENTS = {
    "tabular": 1, "tabular*": 2, "tabularx": 2, "tabulary": 2, "tabu": 1, "longtable": 1, "supertabular": 1, "array": 1,
    "NiceTabular": 1, "tblr": 1, "minipage": 1, "multicols": 1, "thebibliography": 1, "list": 2, "minted": 1,
    "wrapfigure": 2, "wraptable": 2, "adjustbox": 1, "spacing": 1, "column": 1, "alignat": 1, "alignat*": 1,
    "otherlanguage": 1,
    "otherlanguage*": 1, "CJK": 2, "CJK*": 2, "tcolorbox": 0, "adjustwidth": 2, "columns": 0, "letter": 0,
}  # fmt: skip
#: Commands and the number of their arguments that are not text.
_NUM_SILENT_ARGUMENTS = {
    **dict.fromkeys(
        "label usepackage RequirePackage documentclass documentstyle bibliographystyle pagestyle thispagestyle vspace "
        "hspace includegraphics pagenumbering hypersetup geometry graphicspath usetikzlibrary index glossary nocite "
        "bibliography addbibresource selectlanguage includeonly color pagecolor lstset usetheme usecolortheme "
        "usefonttheme phantom hphantom vphantom theoremstyle hyphenation linespread cline newcounter newlength "
        "newsavebox stepcounter refstepcounter setcopyright ccsdesc orcid fancyhf sisetup captionsetup urlstyle "
        "cmidrule noalign setmainfont setsansfont setmonofont setmainlanguage setotherlanguage setdefaultlanguage "
        "enlargethispage typeout textcolor colorbox parbox raisebox scalebox rotatebox fontfamily foreignlanguage "
        "hypertarget hyperlink IfFileExists".split(),
        1,
    ),
    **dict.fromkeys(
        "setlength addtolength setcounter addtocounter rule colorlet DeclareMathOperator numberwithin fontsize "
        "PassOptionsToPackage newtheorem setbeamerfont setbeamercolor setbeamertemplate addtocontents settowidth "
        "crefname Crefname multicolumn multirow resizebox fcolorbox DeclareUnicodeCharacter".split(),
        2,
    ),
    **dict.fromkeys("definecolor addcontentsline specialrule".split(), 3),
    "titlespacing": 4,
    "titleformat": 5,
}
_PARAGRAPH_COMMANDS = frozenset("par newpage clearpage maketitle bigskip medskip smallskip noindent".split())
_EMPHASIS_COMMANDS = frozenset("emph textit textbf textsl strong textem".split())
_CODE_COMMANDS = frozenset("texttt code lstinline* path file command".split())
_REFERENCE_COMMANDS = frozenset(
    "cite citep citet citealp citealt citeauthor citeyear parencite textcite autocite footcite cites ref "
    "eqref pageref autoref cref "
    "Cref nameref vref subref citeyearpar fullcite".split()
)
_LETTERS = {
    "ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "o": "ø", "O": "Ø", "aa": "å", "AA": "Å", "l": "ł",
    "L": "Ł", "i": "ı",
    "j": "ȷ", "dh": "ð", "DH": "Ð", "th": "þ", "TH": "Þ", "dj": "đ", "DJ": "Đ", "ng": "ŋ", "NG": "Ŋ", "S": "§",
    "P": "¶",
    "copyright": "©", "textcopyright": "©", "textregistered": "®", "texttrademark": "™", "pounds": "£",
    "textsterling": "£",
    "euro": "€", "texteuro": "€", "EUR": "€", "dag": "†", "ddag": "‡", "dots": "…", "ldots": "…", "textellipsis": "…",
    "textendash": "–", "textemdash": "—", "textquoteleft": "‘", "textquoteright": "’", "textquotedblleft": "“",
    "textquotedblright": "”", "quotedblbase": "„", "quotesinglbase": "‚", "glqq": "„", "grqq": "“", "flqq": "«",
    "frqq": "»",
    "guillemotleft": "«", "guillemotright": "»", "og": "« ", "fg": " »", "textbackslash": "\\", "textasciitilde": "~",
    "textasciicircum": "^", "textbar": "|", "textless": "<", "textgreater": ">", "textunderscore": "_",
    "textdollar": "$",
    "textbraceleft": "{", "textbraceright": "}", "textdegree": "°", "degree": "°", "textmu": "µ", "textbullet": "•",
    "textperiodcentered": "·", "textexclamdown": "¡", "textquestiondown": "¿", "textquotesingle": "'",
    "textquotedbl": '"',
    "textasteriskcentered": "*", "LaTeX": "LaTeX", "TeX": "TeX", "LaTeXe": "LaTeX2e", "BibTeX": "BibTeX",
    "XeTeX": "XeTeX",
    "XeLaTeX": "XeLaTeX", "LuaLaTeX": "LuaLaTeX", "today": "", "slash": "/", "quad": " ", "qquad": " ",
    "enspace": " ", "thinspace": " ",
    "space": " ", "nobreakspace": " ", "textvisiblespace": " ", "ie": "i.e.", "eg": "e.g.", "etc": "etc.", "pm": "±",
    "times": "×",
    "rightarrow": "→", "to": "→", "leftarrow": "←", "textrightarrow": "→", "textleftarrow": "←", "checkmark": "✓",
}  # fmt: skip
_ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", '"': "\u0308", "=": "\u0304", ".": "\u0307",
    "u": "\u0306",
    "v": "\u030c", "H": "\u030b", "c": "\u0327", "k": "\u0328", "r": "\u030a", "d": "\u0323", "b": "\u0331",
    "t": "\u0361",
}  # fmt: skip
_DASHES = (("---", "—"), ("--", "–"), ("``", "“"), ("''", "”"), ("?`", "¿"), ("!`", "¡"))
_TOKEN_PATTERN = re.compile(
    r"\\(?P<command>[A-Za-z@]+\*?)|\\(?P<symbol>[^A-Za-z@])"
    r"|(?P<comment>%[^\n]*(?:\n[ \t]*(?![ \t\n]))?)|(?P<break>\n[ \t]*\n\s*)|(?P<math>\$\$?)"
    r"|(?P<open>\{)|(?P<close>\})|(?P<tilde>~)|(?P<cell>&)|(?P<argument>\#+\d?)|(?P<text>[^\\%\n$\{\}~&\#]+|\n)",
)
_ENVIRONMENT_PATTERN = re.compile(r"[ \t]{0,9}\{[ \t]{0,9}([^\\{}\n]{1,60}?)[ \t]{0,9}\}")
_COMMAND_PATTERN = re.compile(r"\\[A-Za-z@]+\*?|\\.|[{}]")
_SPACE_PATTERN = re.compile(r"(?:[ \t]|%[^\n]*\n|\n(?![ \t]*\n))*")
_INPUTENC_PATTERN = re.compile(rb"\\usepackage\s*\[\s*([\w-]{1,30})\s*\]\s*\{inputenc\}")
_ENCODINGS = {
    "latin1": "cp1252",
    "latin9": "iso-8859-15",
    "ansinew": "cp1252",
    "applemac": "mac_roman",
    "cp1251": "cp1251",
    "koi8-r": "koi8-r",
}
_LANGUAGE_OPTION_PATTERN = re.compile(r"language\s*=\s*\{?\s*([\w+#-]{1,20})")


class _EndlessError(Exception):
    """The macros of the file exceed the expansion limit."""


def read(stream: BinaryIO, origin: Origin, options: ReadOptions) -> Iterator[RawDocument | SkippedPart]:
    """Yield the file's one document, and a PassedOver for each included file."""
    data = stream.read()
    encoding = options.encoding
    if encoding is None and not is_utf8(data) and (declared := _INPUTENC_PATTERN.search(data[:20_000])):
        encoding = _ENCODINGS.get(declared[1].decode("ascii").lower())
    text = decode_text(data, origin.name, encoding)
    source = _LatexSource(text)
    try:
        blocks = source.read_blocks()
    except _EndlessError:
        raise ReaderError(
            f"{origin.name}: its macros make more than {_MAX_EXPANDED_CHARACTERS:,} characters of it, which is the "
            "limit; define "
            "them without themselves, or ingest it AS text"
        ) from None
    if not blocks and source.included_files:
        yield SkippedPart(origin.name, "files of which all lies in other files")
    elif not blocks:
        raise ReaderError(f"{origin.name}: has no text (definitions and nothing else); there is nothing to store")
    else:
        yield RawDocument(
            origin.key, source.title or _find_first_title(blocks), join_blocks(blocks) + "\n", source.meta, "markdown"
        )
    for _ in source.included_files:
        yield SkippedPart(origin.name, "parts in other files")


def render_line(source: str) -> str:
    """Render a piece of source, such as a field of a bibliography, as a line of text."""
    try:
        return _LatexSource(source).render_line(source, 0)
    except _EndlessError:
        return " ".join(_COMMAND_PATTERN.sub(" ", source).split())


def _find_first_title(blocks: list[MarkdownBlock]) -> str | None:
    return next((block.text.lstrip("# ") for block in blocks if block.kind == "heading"), None)


class _LatexSource:
    """The converter of one file; ``title`` and ``meta`` come from its commands, ``included_files`` lists included
    files."""

    def __init__(self, text: str) -> None:
        self.title = ""
        self.meta: dict[str, JSON] = {}
        self.included_files: list[str] = []
        self._macros: dict[str, tuple[int, str | None, str]] = {}
        self._characters_left = _MAX_EXPANDED_CHARACTERS
        self._notes: list[str] = []
        self._text = text
        begun_names, ended_names = (
            set(re.findall(rf"\\{mark}{_ENVIRONMENT_PATTERN.pattern}", text)) for mark in ("begin", "end")
        )
        self.unended_environments = begun_names - ended_names  # environments without an end

    def read_blocks(self) -> list[MarkdownBlock]:
        """Return all blocks, the title first and the footnotes last."""
        begin, end = self._text.find("\\begin{document}"), self._text.rfind("\\end{document}")
        body = self._text
        if begin >= 0:
            self._parse_blocks(self._text[:begin], 0)  # for its definitions and the title
            body = self._text[begin + len("\\begin{document}") : end if end > begin else None]
        blocks = self._parse_blocks(body, 0)
        if self.title:
            blocks = [make_heading(1, self.title), *blocks]
        return [*blocks, *(make_paragraph(f"[{number}] {text}") for number, text in enumerate(self._notes, 1) if text)]

    def _parse_blocks(self, text: str, depth: int) -> list[MarkdownBlock]:
        return _LatexText(self, text, depth).parse_blocks()

    def render_line(self, text: str, depth: int, plain: bool = True) -> str:
        """Render a piece of source as one line."""
        if depth >= _MAX_DEPTH:
            return " ".join(_COMMAND_PATTERN.sub(" ", text).split())
        return render_one_line(_LatexText(self, text, depth + 1, plain).parse_blocks()).removeprefix("\\")

    def add_footnote(self, text: str, depth: int) -> str:
        """Store a footnote and return its mark."""
        self._notes.append("")
        number = len(self._notes)
        self._notes[number - 1] = self.render_line(text, depth)
        return f"[{number}]"

    def define_macro(self, name: str, count: int, default: str | None, body: str) -> None:
        """Store a macro that the file defines."""
        self._macros[name] = (count, default, body)

    def get_macro(self, name: str) -> tuple[int, str | None, str] | None:
        """Return a macro that the file defines, or None."""
        return self._macros.get(name)

    def count_expansion(self, expansion: str) -> None:
        """Count the characters of an expansion; raises _EndlessError above the limit."""
        self._characters_left -= _EXPANSION_COST + len(expansion)
        if self._characters_left < 0:
            raise _EndlessError


class _LatexText:
    """The walk over a piece of source, which macro expansions extend."""

    def __init__(self, source: _LatexSource, text: str, depth: int, plain: bool = False) -> None:
        self._source = source
        self._text = text
        self._offset = 0
        self._depth = depth
        self._inline = InlineBuilder(plain=plain)
        self._blocks: list[MarkdownBlock] = []
        self._unclosed: set[str] = set()  # formula delimiters that do not occur again

    def parse_blocks(self) -> list[MarkdownBlock]:
        """Return the blocks of the source."""
        while self._offset < len(self._text):
            token = _TOKEN_PATTERN.match(self._text, self._offset)
            if token is None:  # a lone backslash at the end
                self._offset += 1
                continue
            self._offset = token.end()
            kind = token.lastgroup
            if kind == "text":
                self._inline.add_text(_replace_dashes(token[0]))
            elif kind == "command":
                self._read_command(token["command"])
            elif kind == "symbol":
                self._read_symbol(token["symbol"])
            elif kind == "break":
                self._flush_paragraph()
            elif kind == "math":
                self._read_formula(token[0])
            elif kind == "tilde" or kind == "cell":
                self._inline.add_text(" ")
            # Braces only group, and comments are dropped.
        self._flush_paragraph()
        return self._blocks

    def _flush_paragraph(self) -> None:
        self._blocks.extend(map(make_paragraph, self._inline.take_paragraphs()))

    def _add_blocks(self, *blocks: MarkdownBlock) -> None:
        self._flush_paragraph()
        self._blocks.extend(blocks)

    # --- arguments ----------------------------------------------------------------------------------------------------

    def _skip_space(self) -> None:
        space = _SPACE_PATTERN.match(self._text, self._offset)
        self._offset = space.end() if space else self._offset

    def _read_argument(self) -> str:
        """Return the next argument: a group in braces, a command, or a character."""
        self._skip_space()
        if self._offset >= len(self._text):
            return ""
        if self._text[self._offset] == "{":
            end = _find_closing(self._text, self._offset, "{", "}")
            inner = self._text[self._offset + 1 : end]
            self._offset = min(end + 1, len(self._text))
            return inner
        token = _TOKEN_PATTERN.match(self._text, self._offset)
        if token is not None and (token["command"] or token["symbol"]):
            self._offset = token.end()
            return token[0]
        if self._text[self._offset] in "}&\n":
            return ""
        self._offset += 1
        return self._text[self._offset - 1]

    def _read_option(self, opening: str = "[", closing: str = "]") -> str | None:
        """Return the next argument in brackets, or None."""
        start = self._offset
        self._skip_space()
        if self._offset < len(self._text) and self._text[self._offset] == opening:
            end = _find_closing(self._text, self._offset, opening, closing, _MAX_OPTION_CHARACTERS)
            if self._text[end : end + 1] == closing:
                inner = self._text[self._offset + 1 : end]
                self._offset = end + 1
                return inner
        self._offset = start
        return None

    def _insert_source(self, text: str) -> None:
        """Insert source at the current offset."""
        self._source.count_expansion(text)
        # Drop the source that is already read, so that nested macros do not make the text grow without limit.
        self._text = text + self._text[self._offset :]
        self._offset = 0

    # --- commands -----------------------------------------------------------------------------------------------------

    def _read_symbol(self, symbol: str) -> None:
        if symbol == "\\":
            self._offset += self._text.startswith("*", self._offset)
            self._read_option()
            self._inline.break_line()
        elif symbol in "([":
            self._read_formula("\\" + symbol)
        elif symbol in _ACCENTS:
            self._read_accent(symbol)
        elif symbol in "%&$#_{} ~\n":
            self._inline.add_text(" " if symbol in " \n" else symbol)
        elif symbol in ",;:> ":
            self._inline.add_text(" " if symbol != ":" else "")

    def _read_accent(self, accent: str) -> None:
        letter = self._read_argument()
        letter = {"\\i": "i", "\\j": "j"}.get(letter.strip(), letter)
        letter_text = letter if letter[:1] != "\\" else self._source.render_line(letter, self._depth)
        if letter_text:
            self._inline.add_text(unicodedata.normalize("NFC", letter_text[0] + _ACCENTS[accent]) + letter_text[1:])

    def _read_command(self, name: str) -> None:
        macro = self._source.get_macro(name)
        if macro is not None:
            self._expand_macro(*macro)
        elif name == "begin":
            self._read_environment()
        elif name == "end":
            self._read_argument()
        elif name in ("newcommand", "renewcommand", "providecommand", "newcommand*", "renewcommand*", "providecommand*",
                      "DeclareRobustCommand", "NewDocumentCommand"):  # fmt: skip
            self._read_definition(name)
        elif name in ("newenvironment", "renewenvironment", "newenvironment*"):
            self._read_argument()
            self._read_option()
            self._read_option()
            self._read_argument()
            self._read_argument()
        elif name in ("def", "gdef", "edef", "let"):
            self._read_plain_definition(name)
        elif name in ("title", "author", "date"):
            self._read_metadata(name)
        elif (level := _SECTION_LEVELS.get(name.rstrip("*"))) is not None:
            self._read_option()
            title = self._source.render_line(self._read_argument(), self._depth)
            if title:
                self._add_blocks(make_heading(level, title))
        elif name in ("footnote", "footnotetext", "thanks", "endnote"):
            self._read_option()
            self._inline.add_text(
                self._source.add_footnote(self._read_argument(), self._depth) if self._depth < _MAX_DEPTH else ""
            )
        elif name in ("caption", "caption*", "subcaption", "captionof"):
            self._read_option()
            if name == "captionof":
                self._read_argument()
            self._add_blocks(*self._parse_inner(self._read_argument()))
        elif name in ("verb", "verb*", "lstinline", "mintinline"):
            self._read_verbatim(name)
        elif name in ("href", "url", "nolinkurl"):
            address = self._read_argument().replace("\\", "")
            self._inline.add_text(
                self._source.render_line(self._read_argument(), self._depth) if name == "href" else address
            )
        elif name in _REFERENCE_COMMANDS:
            self._read_reference()
        elif name in _PARAGRAPH_COMMANDS or name == "item":  # outside a list
            self._flush_paragraph()
        elif name == "hline":
            pass
        elif name in ("newline", "linebreak", "tabularnewline", "cr"):
            self._inline.break_line()
        elif name in _EMPHASIS_COMMANDS:
            started = self._inline.start_emphasis()
            self._add_running_text(self._read_argument())
            self._inline.end_emphasis(started)
        elif name in _CODE_COMMANDS:
            self._inline.add_code(self._source.render_line(self._read_argument(), self._depth))
        elif name in ("enquote", "say"):
            self._inline.add_text("“")
            self._add_running_text(self._read_argument())
            self._inline.add_text("”")
        elif name in _ACCENTS:
            self._read_accent(name)
        elif name in _LETTERS:
            self._inline.add_text(_LETTERS[name])
            if self._text.startswith("{}", self._offset):
                self._offset += 2
            else:
                self._offset += len(self._text[self._offset : self._offset + 40]) - len(
                    self._text[self._offset : self._offset + 40].lstrip(" \t")
                )
        elif name in ("input", "include", "subfile", "import"):
            file = self._read_argument()
            if file.strip():
                self._source.included_files.append(file)
        elif name == "xspace":
            if self._text[self._offset : self._offset + 1].isalpha():
                self._inline.add_text(" ")
        elif name == "iffalse":
            end = self._text.find("\\fi", self._offset)
            self._offset = end + 3 if end >= 0 else len(self._text)
        else:
            self._skip_unknown_command(name)

    def _skip_unknown_command(self, name: str) -> None:
        """Skip an unknown command; its remaining arguments are read as text."""
        self._read_option()
        for _ in range(_NUM_SILENT_ARGUMENTS.get(name, _NUM_SILENT_ARGUMENTS.get(name.rstrip("*"), 0))):
            self._read_argument()
            self._read_option()
        if self._text[self._offset : self._offset + 1] in (" ", "\t"):
            self._offset += 1

    def _add_running_text(self, text: str) -> None:
        """Add an argument whose text continues the paragraph."""
        line = self._source.render_line(text, self._depth)
        space_before, space_after = text[:1].isspace(), text[-1:].isspace()
        self._inline.add_text(f"{' ' if space_before else ''}{line}{' ' if space_after else ''}")

    def _parse_inner(self, text: str) -> list[MarkdownBlock]:
        if self._depth >= _MAX_DEPTH:
            return [make_paragraph(line)] if (line := self._source.render_line(text, self._depth)) else []
        return _LatexText(self._source, text, self._depth + 1).parse_blocks()

    def _expand_macro(self, count: int, default: str | None, body: str) -> None:
        arguments = []
        if count and default is not None:
            option = self._read_option()
            arguments.append(default if option is None else option)
        while len(arguments) < count:
            arguments.append(self._read_argument())
        expansion = re.sub(
            r"#([1-9])", lambda mark: arguments[int(mark[1]) - 1] if int(mark[1]) <= len(arguments) else "", body
        )
        if not count and self._text.startswith("{}", self._offset):
            self._offset += 2
        elif not count:
            self._skip_space()
        self._insert_source(expansion)

    def _read_definition(self, kind: str) -> None:
        name = self._read_argument().strip()
        if kind == "NewDocumentCommand":
            count, default = self._read_argument().count("m"), None
        else:
            count_option = self._read_option()
            count = (
                int(count_option) if count_option and count_option.strip().isdigit() and len(count_option) < 3 else 0
            )
            default = self._read_option()
        body = self._read_argument()
        if name.startswith("\\") and len(name) > 1 and name[1:] not in _PROTECTED_COMMANDS:
            self._source.define_macro(name[1:], min(count, 9), default, body)

    def _read_plain_definition(self, kind: str) -> None:
        name = self._read_argument().strip()
        if kind == "let":
            self._skip_space()
            self._offset += self._text.startswith("=", self._offset)
            self._read_argument()
            return
        brace = self._text.find("{", self._offset, self._offset + 200)
        if brace < 0:
            return
        count = self._text.count("#", self._offset, brace)
        has_plain_parameters = re.fullmatch(r"(?:#\d)*", self._text[self._offset : brace].strip()) is not None
        self._offset = brace
        body = self._read_argument()
        if has_plain_parameters and name.startswith("\\") and name[1:] not in _PROTECTED_COMMANDS:
            self._source.define_macro(name[1:], min(count, 9), None, body)

    def _read_metadata(self, name: str) -> None:
        self._read_option()
        source = re.sub(r"\\(?:thanks|footnote)\s*\{[^{}]*\}", "", self._read_argument())
        source = re.sub(r"\\and\b|\\And\b|\\AND\b", ",", source)
        line = " ".join(self._source.render_line(source, self._depth).split()).replace(" ,", ",")
        if name == "title" and not self._source.title:
            self._source.title = line
        elif line and name != "title":
            self._source.meta.setdefault(name, line)

    def _read_verbatim(self, name: str) -> None:
        if name == "mintinline":
            self._read_argument()
        if not name.startswith("verb"):
            self._read_option()
        mark = self._text[self._offset : self._offset + 1]
        if mark == "{":
            self._inline.add_code(self._read_argument())
            return
        end = self._text.find(mark, self._offset + 1) if mark and mark != "\n" else -1
        line_end = self._text.find("\n", self._offset)
        if end < 0 or (0 <= line_end < end):
            return
        self._inline.add_code(self._text[self._offset + 1 : end])
        self._offset = end + 1

    def _read_reference(self) -> None:
        options = [self._read_option(), self._read_option()]
        self._read_argument()
        notes = [self._source.render_line(option, self._depth) for option in options if option]
        if notes:
            self._inline.add_text(f"({'; '.join(notes)})")

    def _read_formula(self, opening: str) -> None:
        closing = {"\\(": "\\)", "\\[": "\\]"}.get(opening, opening)
        end = self._offset if closing not in self._unclosed else -1
        while end >= 0:
            end = self._text.find(closing, end)
            if end < 0 or closing[0] == "\\" or self._text[end - 1] != "\\":
                break
            end += 1
        if end < 0:
            self._unclosed.add(closing)
        if end < 0 or (opening == "$" and self._text.find("\n\n", self._offset, end) >= 0):
            self._inline.add_text(opening if opening[0] == "$" else "")
            return
        formula = " ".join(self._text[self._offset : end].split())
        self._offset = end + len(closing)
        if opening in ("$$", "\\["):
            self._add_blocks(*([MarkdownBlock("paragraph", f"$${_remove_labels(formula)}$$")] if formula else []))
        elif formula:
            self._inline.add_text(f"${formula}$")

    # --- environments -------------------------------------------------------------------------------------------------

    def _read_environment(self) -> None:
        name_match = _ENVIRONMENT_PATTERN.match(self._text, self._offset)
        if name_match is None:
            return
        name = name_match[1]
        self._offset = name_match.end()
        if self._depth >= _MAX_DEPTH and name not in _VERBATIM_ENVIRONMENTS:
            self._flush_paragraph()
            return
        body, self._offset = _split_environment(self._text, self._offset, name, self._source.unended_environments)
        if name in _IGNORED_ENVIRONMENTS:
            return
        if name in _VERBATIM_ENVIRONMENTS:
            self._add_listing(name, body)
            return
        if name in _FORMULA_ENVIRONMENTS:
            formula = _remove_labels(" ".join(re.sub(r"(?<!\\)%.*", "", body).split()))
            self._add_blocks(*([MarkdownBlock("paragraph", f"$${formula}$$")] if formula else []))
            return
        inner = _LatexText(self._source, body, self._depth + 1)
        option = inner._read_option()
        for _ in range(_NUM_ENVIRONMENT_ARGUMENTS.get(name, 0)):
            inner._read_argument()
            inner._read_option()
        body = inner._text[inner._offset :]
        self._flush_paragraph()
        if name in _TABLE_ENVIRONMENTS:
            self._add_table(body)
        elif name in _LIST_ENVIRONMENTS or name == "thebibliography":
            self._add_items(body, "enumerate" if name in ("compactenum", "asparaenum", "inparaenum") else name)
        elif name in _QUOTE_ENVIRONMENTS:
            blocks = self._parse_inner(body)
            self._add_blocks(*([make_quote(blocks)] if blocks else []))
        elif name == "abstract":
            blocks = self._parse_inner(body)
            self._add_blocks(*([make_heading(2, "Abstract"), *blocks] if blocks else []))
        elif name == "frame":
            title = _split_slide_title(body)
            self._add_blocks(
                *([make_heading(3, self._source.render_line(title[0], self._depth))] if title else []),
                *self._parse_inner(title[1] if title else body),
            )
        else:
            note = self._source.render_line(option, self._depth) if option and name in _THEOREM_LABELS else ""
            blocks = self._parse_inner(body)
            if name in _THEOREM_LABELS and blocks and blocks[0].kind == "paragraph":
                label = f"{_THEOREM_LABELS[name]}{f' ({note})' if note else ''}"
                blocks[0] = MarkdownBlock("paragraph", f"{label}. {blocks[0].text}")
            self._add_blocks(*blocks)

    def _add_listing(self, name: str, body: str) -> None:
        language = ""
        first_line, newline, other_lines = body.partition("\n")
        if option_match := re.match(r"\s*\[([^\]\n]*)\]", first_line):
            language_match = _LANGUAGE_OPTION_PATTERN.search(option_match[1])
            language = language_match[1].lower() if language_match else ""
            first_line = first_line[option_match.end() :]
        if name == "minted" and (option_match := re.match(r"\s*\{([\w+#-]+)\}", first_line)):
            language, first_line = option_match[1].lower(), first_line[option_match.end() :]
        code = (first_line + newline + other_lines) if first_line.strip() else other_lines
        if code.strip():
            self._add_blocks(make_code_block(code.rstrip(), language))

    def _add_items(self, body: str, kind: str) -> None:
        items: list[tuple[str, list[MarkdownBlock]]] = []
        for option, text in _split_items(body, "bibitem" if kind == "thebibliography" else "item"):
            if option is None and not items and not text.strip():
                continue
            blocks = self._parse_inner(text)
            if option is None and not items and not re.search(r"\\(?:bib)?item\b", body[: len(body) - len(text)]):
                self._add_blocks(*blocks)
                continue
            term = self._source.render_line(option, self._depth) if option and kind != "thebibliography" else ""
            if term and kind == "description":
                if blocks and blocks[0].kind == "paragraph":
                    blocks = [MarkdownBlock("paragraph", f"{term.removesuffix(':')}: {blocks[0].text}"), *blocks[1:]]
                else:
                    blocks = [MarkdownBlock("paragraph", f"{term}:"), *blocks]
            elif term and len(term) > 2 and blocks and blocks[0].kind == "paragraph":
                blocks = [MarkdownBlock("paragraph", f"{term} {blocks[0].text}"), *blocks[1:]]
            if blocks:
                items.append((f"{len(items) + 1}." if kind == "enumerate" else "-", blocks))
        if items:
            self._add_blocks(make_list(items))

    def _add_table(self, body: str) -> None:
        rows = []
        for row in _split_rows(body):
            cells = [self._source.render_line(cell, self._depth) for cell in _split_cells(row)]
            if any(cells):
                rows.append(cells)
        if rows:
            self._add_blocks(make_table(rows[0], rows[1:]))


#: Commands whose redefinition in a file is ignored.
_PROTECTED_COMMANDS = frozenset(
    "begin end item section subsection chapter emph textbf textit footnote caption title author date par".split()
)
_THEOREM_LABELS: Mapping[str, str] = {
    name: name.capitalize()
    for name in "theorem lemma proposition corollary definition remark example proof conjecture claim exercise".split()
}


def _split_slide_title(body: str) -> tuple[str, str] | None:
    """Return the title at the beginning of a slide and the rest of its body, or None."""
    start = len(body) - len(body.lstrip())
    if body[start : start + 1] != "{":
        return None
    end = _find_closing(body, start, "{", "}")
    return body[start + 1 : end], body[end + 1 :]


def _find_closing(text: str, start: int, opening: str, closing: str, max_length: int = _MAX_ARGUMENT_CHARACTERS) -> int:
    """Return the offset of the bracket that closes the one at ``start``, or the end of the search range."""
    depth = 0
    braces = 0
    limit = min(len(text), start + max_length)
    offset = start
    marks = re.compile(rf"[\\%{{}}{re.escape(opening)}{re.escape(closing)}]")
    while (match := marks.search(text, offset, limit)) is not None:
        mark = match[0]
        offset = match.end()
        if mark == "\\":
            offset += 1
        elif mark == "%":
            line_end = text.find("\n", offset)
            offset = line_end if line_end >= 0 else limit
        elif mark == opening and not (opening == "[" and braces):
            depth += 1
        elif mark == closing and not (closing == "]" and braces):
            depth -= 1
            if depth <= 0:
                return match.start()
        elif opening != "{":
            braces += 1 if mark == "{" else -1
            if braces < 0:
                break
    return limit


def _split_environment(text: str, start: int, name: str, unended_environments: set[str]) -> tuple[str, int]:
    """Return the body of an environment and the offset after it.

    The body of an unclosed environment is empty; ``unended_environments`` caches the names of these environments.
    """
    if name in unended_environments:
        return "", start
    if name in _VERBATIM_ENVIRONMENTS or name == "comment":
        end = text.find(f"\\end{{{name}}}", start)
        return (text[start:], len(text)) if end < 0 else (text[start:end], end + len(name) + 6)
    depth = 1
    for mark in re.compile(rf"\\(begin|end)[ \t]{{0,9}}\{{[ \t]{{0,9}}{re.escape(name)}[ \t]{{0,9}}\}}").finditer(
        text, start
    ):
        depth += 1 if mark[1] == "begin" else -1
        if depth == 0:
            return text[start : mark.start()], mark.end()
    unended_environments.add(name)
    return "", start


_SPLIT_PATTERN = re.compile(
    r"\\(begin|end)\s*\{|\\(item|bibitem)\b|\\\\(?:\*?\s*\[[^\]\n]{0,20}\])?|\\.|[{}&]|(?<!\\)%[^\n]*", re.S
)


def _split_items(body: str, command: str) -> Iterator[tuple[str | None, str]]:
    """Yield the items of a list with their bracketed options; the text before the first item has no option."""
    depth = 0
    start = 0
    option: str | None = None
    for mark in _SPLIT_PATTERN.finditer(body):
        if mark[1]:
            depth += 1 if mark[1] == "begin" else -1
        elif mark[2] == command and depth == 0:
            if mark.start() < start:
                continue
            yield option, body[start : mark.start()]
            start = mark.end()
            option = None
            bracket = re.compile(r"\s*\[").match(body, start)
            if bracket:
                end = _find_closing(body, bracket.end() - 1, "[", "]")
                option, start = body[bracket.end() : end], min(end + 1, len(body))
            if command == "bibitem" and (key := re.compile(r"\s*\{[^{}]*\}").match(body, start)):
                start = key.end()
    yield option, body[start:]


def _split_rows(body: str) -> Iterator[str]:
    yield from _split_parts(body, "\\\\")


def _split_cells(row: str) -> Iterator[str]:
    yield from _split_parts(row, "&")


def _split_parts(text: str, separator: str) -> Iterator[str]:
    """Yield the parts of a text between marks that begin with ``separator``, outside braces and environments."""
    depth = 0
    start = 0
    for mark in _SPLIT_PATTERN.finditer(text):
        if mark[1]:
            depth += 1 if mark[1] == "begin" else -1
            depth += 1  # its brace
        elif mark[0] in "{}":
            depth += 1 if mark[0] == "{" else -1
        elif depth <= 0 and mark[0].startswith(separator):
            yield text[start : mark.start()]
            start = mark.end()
    yield text[start:]


def _remove_labels(formula: str) -> str:
    return re.sub(r"\\label\s*\{[^{}]*\}", "", formula).strip()


def _replace_dashes(text: str) -> str:
    for dashes, replacement in _DASHES:
        if dashes in text:
            text = text.replace(dashes, replacement)
    return text.replace("`", "‘") if "`" in text else text
