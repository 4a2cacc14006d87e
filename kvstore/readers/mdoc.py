"""mdoc: conversion of the inline macros of BSD manual pages to running text.
The *tokens* of a line are macros, such as ``Fl`` for a flag, each followed by its arguments. The documented name is the
name of the command or function that the page describes.

In: the macro of a line and its arguments. Out: pieces of text with the spaces and brackets that the macros imply.
:mod:`.man_page` handles the macros that begin blocks (sections, lists, displays).

Source: mdoc(7) of mandoc (Dzonsons, Schwarze), which defines the macros and which of them can be nested.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Macros that enclose the rest of their line, and pairs of macros that enclose several lines.
_ENCLOSURES = {
    "Op": "[]", "Dq": "“”", "Sq": "‘’", "Qq": '""', "Ql": "‘’", "Pq": "()", "Bq": "[]", "Brq": "{}", "Aq": "<>",
    "En": ("", ""),
}  # fmt: skip
_OPENING = {"Oo": "[", "Do": "“", "So": "‘", "Qo": '"', "Po": "(", "Bo": "[", "Bro": "{", "Ao": "<", "Xo": "", "Eo": ""}
_CLOSING = {"Oc": "]", "Dc": "”", "Sc": "’", "Qc": '"', "Pc": ")", "Bc": "]", "Brc": "}", "Ac": ">", "Xc": "", "Ec": ""}
#: Macros that only set their arguments in a font.
_FONT_MACROS = frozenset(
    "Ad Ar Cd Cm Dv Em Er Ev Fa Fr Ft Hf Ic Lb Li Ms Nd No Pa Sx Sy Ta Tn Va Vt An %A %B %C %D %I %J %N %O %P %Q %R %T "
    "%U %V".split()
)
_SYSTEMS = {
    "Ux": "UNIX", "Bx": "BSD", "Bsx": "BSD/OS", "Fx": "FreeBSD", "Nx": "NetBSD", "Ox": "OpenBSD", "Dx": "DragonFly BSD",
    "At": "AT&T UNIX",
}  # fmt: skip
_STANDARDS = {
    "-ansiC": "ANSI X3.159-1989 (“ANSI C89”)", "-isoC": "ISO/IEC 9899:1990 (“ISO C90”)",
    "-isoC-99": "ISO/IEC 9899:1999 (“ISO C99”)", "-isoC-2011": "ISO/IEC 9899:2011 (“ISO C11”)",
    "-p1003.1-90": "IEEE Std 1003.1-1990 (“POSIX.1”)", "-p1003.1-96": "ISO/IEC 9945-1:1996 (“POSIX.1”)",
    "-p1003.1-2001": "IEEE Std 1003.1-2001 (“POSIX.1”)", "-p1003.1-2004": "IEEE Std 1003.1-2004 (“POSIX.1”)",
    "-p1003.1-2008": "IEEE Std 1003.1-2008 (“POSIX.1”)", "-p1003.2-92": "IEEE Std 1003.2-1992 (“POSIX.2”)",
    "-p1003.2": "IEEE Std 1003.2 (“POSIX.2”)", "-xpg4": "X/Open Portability Guide Issue 4 (“XPG4”)",
    "-susv2": "Version 2 of the Single UNIX Specification (“SUSv2”)",
    "-susv3": "Version 3 of the Single UNIX Specification (“SUSv3”)",
    "-susv4": "Version 4 of the Single UNIX Specification (“SUSv4”)",
}  # fmt: skip
_CLOSING_PUNCTUATION = frozenset(".,:;)]?!")
_OPENING_PUNCTUATION = frozenset("([")

#: The macros of running text.
INLINE_MACROS = (
    frozenset(_ENCLOSURES)
    | frozenset(_OPENING)
    | frozenset(_CLOSING)
    | _FONT_MACROS
    | frozenset(_SYSTEMS)
    | frozenset("Ap Bt Ex Fl Fn Fo Fc In Lk Mt Nm Ns Pf Rv Sm St Ud Xr Db Bk Ek Tg Es".split())
)


class RunningText:
    """The text of a paragraph, collected in pieces with single spaces between them."""

    def __init__(self) -> None:
        """Create an empty text."""
        self._pieces: list[str] = []
        self._suppress_next_space = False

    def add(self, text: str, join_before: bool = False, join_after: bool = False) -> None:
        """Add a text; ``join_before`` and ``join_after`` suppress the space before or after it.

        If the text is empty, both suppress the space before the next text.
        """
        text = text.removesuffix("\0")  # the mark of an argument that is not a macro
        if text:
            if self._pieces and not join_before and not self._suppress_next_space:
                self._pieces.append(" ")
            self._pieces.append(text)
        if text or join_after or join_before:
            self._suppress_next_space = join_after or (join_before and not text)

    def break_line(self) -> None:
        """Begin a new line of the paragraph, unless the paragraph is empty."""
        if self._pieces:
            self._pieces.append("\n")
            self._suppress_next_space = True

    def take_text(self) -> str:
        """Return the collected text and clear it."""
        text = "".join(self._pieces)
        self._pieces.clear()
        self._suppress_next_space = False
        return "\n".join(" ".join(line.split()) for line in text.split("\n")).strip()


class MdocInterpreter:
    """The interpreter of a page's macros; it adds their text to the paragraph ``output``.
    ``name`` is the documented name. ``open_tags`` counts the open ``Xo`` blocks, in which the term of a list item
    continues on the next line, up to ``Xc``.
    """

    def __init__(self) -> None:
        """Create an interpreter without a documented name, outside any block that macros open and close."""
        self.name = ""
        self.open_tags = 0
        self._is_spaced = True  # False after ``Sm off``
        self._is_first_unspaced = False  # True before the first text without spacing
        self._argument_number = 0  # the number of the next argument in an open Fo block, from 1; 0 outside

    def add_line(self, tokens: Sequence[str], output: RunningText, defines_name: bool = False) -> None:
        """Add the text of a line to ``output``; ``tokens`` are the words of the line, including names of macros.

        If ``defines_name``, the first ``Nm`` defines the documented name.
        """
        end = len(tokens)  # the index of the closing punctuation at the end of the line
        while end > 1 and tokens[end - 1] in _CLOSING_PUNCTUATION:
            end -= 1
        closing_marks: list[str] = []  # of the brackets and quotes that end with the line
        index = 0
        while index < end:
            token = tokens[index]
            index += 1
            if token in _ENCLOSURES:
                opening, closing = _ENCLOSURES[token]
                self._add_spaced_text(opening, output, join_after=True)
                closing_marks.append(closing)
            elif token in INLINE_MACROS:
                index = self._add_macro(token, tokens, index, end, output, defines_name)
            else:
                self._add_word(token, output)
        for closing in reversed(closing_marks):
            output.add(closing, join_before=True)
        for token in tokens[end:]:
            output.add(token, join_before=True)

    def _add_macro(
        self, macro: str, tokens: Sequence[str], start: int, line_end: int, output: RunningText, defines_name: bool
    ) -> int:
        """Add the text of ``macro`` to ``output``, and return the index of the token after its arguments.

        The arguments are the ``tokens`` from the index ``start`` up to the next macro or punctuation, or up to
        ``line_end``. If ``defines_name``, the first ``Nm`` defines the documented name.
        """
        end = start
        while end < line_end and tokens[end] not in INLINE_MACROS and tokens[end] not in _CLOSING_PUNCTUATION:
            end += 1
        arguments = list(tokens[start:end])
        if macro in _OPENING:  # an opening bracket or quote
            if macro == "Xo":
                self.open_tags += 1
            opening = arguments.pop(0) if macro == "Eo" and arguments else _OPENING[macro]  # Eo: its own argument
            self._add_spaced_text(opening, output, join_after=bool(opening))
        elif macro in _CLOSING:
            if macro == "Xc" and self.open_tags > 0:
                self.open_tags -= 1
            closing = arguments.pop(0) if macro == "Ec" and arguments else _CLOSING[macro]
            output.add(closing, join_before=macro != "Xc")
        elif macro == "Fl":  # command-line flags
            if not arguments:
                self._add_spaced_text("-", output, join_after=end < line_end and tokens[end] in ("Fl", "Ns"))
            arguments = [token if token in _OPENING_PUNCTUATION or token == "|" else f"-{token}" for token in arguments]
        elif macro == "Nm":  # the documented name
            if defines_name and arguments and not self.name:
                self.name = arguments[0]
            arguments = arguments or [self.name]
        else:
            arguments = self._add_own_text(macro, arguments, output)
        for token in arguments:
            self._add_word(token, output)
        return end

    def _add_own_text(self, macro: str, arguments: list[str], output: RunningText) -> list[str]:
        """Add the text that replaces or precedes the arguments of a macro to ``output``; return the arguments to add.

        ``arguments`` can be changed in place.
        """
        if macro == "Xr":  # a reference to another page
            name = arguments[0] if arguments else ""
            section = f"({arguments[1]})" if len(arguments) > 1 else ""
            output.add(name + section)
            arguments = arguments[2:]
        elif macro == "Ap":  # an apostrophe
            output.add("'", join_before=True, join_after=True)
        elif macro == "Ns":  # no space
            output.add("", join_before=True)
        elif macro == "Pf":  # a prefix
            output.add(arguments[0] if arguments else "", join_after=True)
            arguments = arguments[1:]
        elif macro == "Sm":  # spaces on or off
            self._is_spaced = arguments[0] != "off" if arguments else not self._is_spaced
            self._is_first_unspaced = not self._is_spaced
            arguments = arguments[1:]
        elif macro in _SYSTEMS:
            version = arguments.pop(0) if arguments else ""
            name = _SYSTEMS[macro]
            output.add(f"{version}{name}" if macro == "Bx" else f"{name} {version}".strip())
        elif macro == "St":  # a standard
            output.add(" ".join(_STANDARDS.get(token, token.lstrip("-")) for token in arguments))
            arguments = []
        elif macro == "Lk" and len(arguments) > 1:  # a link with a text
            output.add(" ".join(arguments[1:]))
            arguments = [f"<{arguments[0]}>"]
        elif macro == "In":  # an include file
            arguments = [f"<{token}>" for token in arguments]
        elif macro in ("Fn", "Fo", "Fa", "Fc"):
            arguments = self._add_function_text(macro, arguments, output)
        elif macro in ("Ex", "Rv"):  # a standard sentence
            output.add(self._format_standard_sentence(macro, [token for token in arguments if token != "-std"]))
            arguments = []
        elif macro == "Nd":  # before the description of the name
            output.add("—")
        elif macro == "Ar" and not arguments:  # an argument of the command
            arguments = ["file", "..."]
        elif macro == "An":  # an author
            arguments = [token for token in arguments if token not in ("-split", "-nosplit")]
        elif macro in ("Bt", "Ud"):  # the state of the software
            output.add("is currently in beta test." if macro == "Bt" else "currently under development.")
        elif macro in ("Bk", "Ek", "Db", "Tg", "Es"):  # layout and markup without text
            arguments = []
        return arguments

    def _add_function_text(self, macro: str, arguments: list[str], output: RunningText) -> list[str]:
        """Add the text of a macro of functions to ``output``; return the arguments that are left to add.

        ``Fn`` is a whole function. ``Fo`` begins a function, each ``Fa`` adds arguments to it, and ``Fc`` ends it.
        """
        if macro == "Fa" and not self._argument_number:  # outside Fo: a name in the text
            return arguments
        if macro == "Fn":
            name, *parameters = arguments or [""]
            output.add(f"{name}({', '.join(parameters)})")
        elif macro == "Fo":
            output.add(f"{arguments[0] if arguments else ''}(", join_after=True)
        elif macro == "Fa":
            output.add((", " if self._argument_number > 1 else "") + ", ".join(arguments), join_before=True)
        else:
            output.add(")", join_before=True)
        self._argument_number = {"Fn": 0, "Fo": 1, "Fa": self._argument_number + 1, "Fc": 0}[macro]
        return arguments if macro == "Fc" else []

    def _format_standard_sentence(self, macro: str, names: Sequence[str]) -> str:
        """Return the standard sentence on exit statuses or return values that ``macro`` (``Ex`` or ``Rv``) inserts.

        ``names`` are the commands or functions in the sentence; if it is empty, the sentence has the documented name.
        """
        names_text = ", ".join(names) or self.name
        if macro == "Ex":
            return f"The {names_text} utility exits 0 on success, and >0 if an error occurs."
        return (
            f"The {names_text}() function returns the value 0 if successful; otherwise the value -1 is returned "
            "and the global variable errno is set to indicate the error."
        )

    def _add_word(self, token: str, output: RunningText) -> None:
        """Add the word ``token`` to ``output``; punctuation is joined to the word that it opens or closes."""
        self._add_spaced_text(
            token, output, join_before=token in _CLOSING_PUNCTUATION, join_after=token in _OPENING_PUNCTUATION
        )

    def _add_spaced_text(self, text: str, output: RunningText, *, join_before: bool = False, join_after: bool) -> None:
        """Add a text to ``output``, with a space on each side unless ``join_before`` or ``join_after``.

        While the page has spacing turned off (``Sm off``), only the first text has a space before it.
        """
        output.add(
            text, join_before=join_before or not (self._is_spaced or self._is_first_unspaced), join_after=join_after
        )
        self._is_first_unspaced = False
