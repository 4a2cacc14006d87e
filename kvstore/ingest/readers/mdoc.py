"""mdoc: what the macros of a line of a BSD manual page say, as running text.

In: the macro of a line and its arguments. Out: pieces of text with the spaces and brackets that the macros mean. Those
that begin blocks (sections, lists, displays) are the page's (:mod:`.man_page`).

Source: mdoc(7) of mandoc (Dzonsons, Schwarze), which says what each macro means, and which may stand within others.
"""

from __future__ import annotations

from collections.abc import Sequence

#: What brackets a macro puts around the rest of its line, and the pairs that open and close over several lines.
_AROUND = {
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
_BEFORE = frozenset("([")

#: The macros that stand in running text.
INLINE = (
    frozenset(_AROUND)
    | frozenset(_OPENING)
    | frozenset(_CLOSING)
    | _FONT_MACROS
    | frozenset(_SYSTEMS)
    | frozenset("Ap Bt Ex Fl Fn Fo Fc In Lk Mt Nm Ns Pf Rv Sm St Ud Xr Db Bk Ek Tg Es".split())
)


class RunningText:
    """The text of a paragraph, gathered piece by piece with single spaces between them."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._joined = False

    def add(self, text: str, before: bool = False, after: bool = False) -> None:
        """Add a piece, which stands close to what is ``before`` it, or to what comes ``after``."""
        text = text.removesuffix("\0")
        if text:
            if self._pieces and not before and not self._joined:
                self._pieces.append(" ")
            self._pieces.append(text)
        if text or after or before:
            self._joined = after or (before and not text)

    def break_line(self) -> None:
        """End the line."""
        if self._pieces:
            self._pieces.append("\n")
            self._joined = True

    def take(self) -> str:
        """What was gathered, which is forgotten."""
        text = "".join(self._pieces)
        self._pieces.clear()
        self._joined = False
        return "\n".join(" ".join(line.split()) for line in text.split("\n")).strip()


class Mdoc:
    """What the macros of a page say; ``name`` is that of what the page describes, ``open_tags`` the Xo not closed."""

    def __init__(self) -> None:
        self.name = ""
        self.open_tags = 0
        self._spaced = True
        self._first = False  # whether what comes next is the first that is not spaced
        self._arguments = 0  # of the function whose are listed, from 1; 0 outside of such a list

    def line(self, tokens: Sequence[str], out: RunningText, defines_name: bool = False) -> None:
        """Add what a line says to ``out``; ``defines_name`` where a first ``Nm`` names what the page describes."""
        tail = len(tokens)
        while tail > 1 and tokens[tail - 1] in _CLOSING_PUNCTUATION:
            tail -= 1
        closers: list[str] = []
        index = 0
        while index < tail:
            token = tokens[index]
            index += 1
            if token in _AROUND:
                opening, closing = _AROUND[token]
                self._put(opening, out, after=True)
                closers.append(closing)
            elif token in INLINE:
                index = self._macro(token, tokens, index, tail, out, defines_name)
            else:
                self._word(token, out)
        for closing in reversed(closers):
            out.add(closing, before=True)
        for token in tokens[tail:]:
            out.add(token, before=True)

    def _macro(
        self, macro: str, tokens: Sequence[str], at: int, tail: int, out: RunningText, defines_name: bool
    ) -> int:
        """Add what a macro says, and give the place behind its arguments."""
        end = next(
            (index for index in range(at, tail) if tokens[index] in INLINE or tokens[index] in _CLOSING_PUNCTUATION),
            tail,
        )
        given = list(tokens[at:end])
        if macro in _OPENING:
            self.open_tags += macro == "Xo"
            opening = given.pop(0) if macro == "Eo" and given else _OPENING[macro]
            self._put(opening, out, after=bool(opening))
        elif macro in _CLOSING:
            self.open_tags -= macro == "Xc" and self.open_tags > 0
            out.add(given.pop(0) if macro == "Ec" and given else _CLOSING[macro], before=macro != "Xc")
        elif macro == "Fl":
            if not given:
                self._put("-", out, after=end < tail and tokens[end] in ("Fl", "Ns"))
            given = ["-" + token if token not in _BEFORE and token != "|" else token for token in given]
        elif macro == "Nm":
            if defines_name and given and not self.name:
                self.name = given[0]
            given = given or [self.name]
        elif macro == "Xr":
            out.add(given[0] + (f"({given[1]})" if len(given) > 1 else "") if given else "")
            given = given[2:]
        elif macro == "Ap":
            out.add("'", before=True, after=True)
        elif macro == "Ns":
            out.add("", before=True)
        elif macro == "Pf":
            out.add(given[0] if given else "", after=True)
            given = given[1:]
        elif macro == "Sm":
            self._spaced = given[0] != "off" if given else not self._spaced
            self._first = not self._spaced
            given = given[1:]
        elif macro in _SYSTEMS:
            version = given.pop(0) if given else ""
            name = _SYSTEMS[macro]
            out.add(f"{version}{name}" if macro == "Bx" else f"{name} {version}".strip())
        elif macro == "St":
            out.add(" ".join(_STANDARDS.get(token, token.lstrip("-")) for token in given))
            given = []
        elif macro in ("Lk", "Mt"):
            if macro == "Lk" and len(given) > 1:
                out.add(" ".join(given[1:]))
                given = [f"<{given[0]}>"]
        elif macro == "In":
            given = [f"<{token}>" for token in given]
        elif macro in ("Fn", "Fo"):
            name, *parameters = given or [""]
            self._arguments = int(macro == "Fo")
            out.add(f"{name}(" + ("" if macro == "Fo" else ", ".join(parameters) + ")"), after=macro == "Fo")
            given = []
        elif macro == "Fa" and self._arguments:
            out.add((", " if self._arguments > 1 else "") + ", ".join(given), before=True)
            self._arguments += 1
            given = []
        elif macro == "Fc":
            self._arguments = 0
            out.add(")", before=True)
        elif macro in ("Ex", "Rv"):
            out.add(self._format_standard_sentence(macro, [token for token in given if token != "-std"]))
            given = []
        elif macro == "Nd":
            out.add("—")
        elif macro == "Ar" and not given:
            given = ["file", "..."]
        elif macro == "An":
            given = [token for token in given if token not in ("-split", "-nosplit")]
        elif macro in ("Bt", "Ud"):
            out.add("is currently in beta test." if macro == "Bt" else "currently under development.")
        elif macro in ("Bk", "Ek", "Db", "Tg", "Es"):
            given = []
        for token in given:
            self._word(token, out)
        return end

    def _format_standard_sentence(self, macro: str, names: Sequence[str]) -> str:
        """What is said of the status with which programs end, and of what functions give."""
        names_text = ", ".join(names) or self.name
        if macro == "Ex":
            return f"The {names_text} utility exits 0 on success, and >0 if an error occurs."
        return (
            f"The {names_text}() function returns the value 0 if successful; otherwise the value -1 is returned "
            "and the "
            "global variable errno is set to indicate the error."
        )

    def _word(self, token: str, out: RunningText) -> None:
        self._put(token, out, token in _CLOSING_PUNCTUATION, token in _BEFORE)

    def _put(self, text: str, out: RunningText, before: bool = False, after: bool = False) -> None:
        """Add a piece, close to that before it where the page has said so (``Sm off``)."""
        out.add(text, before=before or not (self._spaced or self._first), after=after)
        self._first = False
