r"""roff, the language of manual pages: lines, definitions, conditions and escapes.
A *request* is a command of roff itself, such as ``.if``; ``args`` is the text after its name. Strings (``\*x``) and
registers (``\nx``) are variables. A block is enclosed in ``\{`` and ``\}``.

In: the text of a file. Out: :class:`RoffLine` objects: the macros and text that a terminal would receive. Conditions
are evaluated as in nroff, strings and macros that the file defines are expanded, and comments and drawing are dropped.
Nothing is included or executed. This module does not know the meaning of macro packages. Loops are skipped. A page
whose definitions expand beyond the limit is a :class:`RoffError`.

Source: Ossanna and Kernighan, Troff User's Manual (1976, revised 1992); groff(7) and groff_char(7) for newer features.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

#: The maximum number of characters that all macros and strings of a file expand to, and of one string. Each expansion
#: has an extra cost, so that empty expansions also terminate.
_MAX_EXPANDED_CHARACTERS = 4 << 20
_MAX_STRING_CHARACTERS = 4_096
_EXPANSION_COST = 64
#: The maximum depth of nested strings.
_MAX_STRING_DEPTH = 8
#: The maximum number of ``.ie`` conditions that wait for their ``.el``.
_MAX_PENDING_CONDITIONS = 64
#: The width of a character in nroff, in basic units.
_CHARACTER_WIDTH = 24
#: Letters that may end a number as its unit: inches, ems and so on.
_SCALING_UNITS = "uincpvmPsfz"

_CONTROL_PATTERN = re.compile(r"[.'][ \t]*([^\s\\]*)[ \t]*")  # .SH NAME
_COMMENT_PATTERN = re.compile(r"\\[\"#].*")  # \" remark
_ARGUMENT_PATTERN = re.compile(r'"(?P<quoted>(?:[^"]|"")*)"?|(?P<word>(?:\\.|[^\s\\])+|\\$)')  # "two words" or word
_ESCAPE_PATTERN = re.compile(
    r"\\(?:"
    r"\[(?P<long>[^\]\n]{1,80})\]|\((?P<two>..)|C'(?P<named>[^'\n]{1,80})'"  # \[bu], \(bu or \C'bu': a bullet
    r"|\*(?P<string>\[[^\]\n]{0,80}\]|\(..|.)"  # \*[name], \*(xx or \*x: a string
    r"|n(?P<register>[-+]?(?:\[[^\]]{0,80}\]|\(..|.))"  # \n[name], \n(xx or \n+x: a number
    r"|(?:[fFmMgkYV])(?:\[[^\]\n]{0,80}\]|\(..|.)"  # \fB: a font; also colors and the environment
    r"|s(?:\[[^\]\n]{0,20}\]|'[^'\n]{0,20}'|[-+]?\(\d\d|[-+]?\d{1,2})"  # \s-1: a font size
    r"|w(?P<q1>['\"])(?P<width>[^\n]{0,500}?)(?P=q1)"  # \w'text': the width of a text
    r"|o(?P<q2>['\"])(?P<over>[^\n]{0,80}?)(?P=q2)"  # \o'e^': characters over each other
    r"|N'(?P<number>\d{1,6})'"  # \N'233': the character with a number in the font
    r"|[hvlLDXxRHSBAZ](?P<q3>[^\s\\\w])[^\n]{0,500}?(?P=q3)"  # \h'2m': a motion, a line or a drawing
    r"|(?P<one>.)|$)"  # \-: one character
)
#: The numbers of Latin-1 characters, without the control characters below the space.
_PRINTABLE_LATIN_1 = range(32, 256)
#: Single-character escapes; other characters represent themselves.
_CHARACTER_ESCAPES = {
    **dict.fromkeys("&|^/,:)%{}durpzac!?t", ""),
    "e": "\\", "E": "\\", "\\": "\\", " ": "\u00a0", "~": "\u00a0", "0": "\u00a0", "t": "\t", "'": "´", "`": "`",
    "-": "-", "_": "_", ".": ".",
}  # fmt: skip
_GLYPHS = {
    pair[:-2]: pair[-1]
    for pair in (
        "aq=' dq=\" cq=’ oq=‘ lq=“ rq=” Bq=„ bq=‚ Fo=« Fc=» fo=‹ fc=› em=— en=– hy=‐ rs=\\ sl=/ ba=| br=│ ul=_ "
        "rn=‾ bu=• ci=○ sq=□ lh=☜ rh=☞ at=@ sh=# ti=~ ha=^ ga=` aa=´ a^=^ a~=~ lB=[ rB=] lC={ rC=} la=⟨ ra=⟩ "
        "co=© rg=® tm=™ de=° dg=† dd=‡ ps=¶ sc=§ ct=¢ Eu=€ eu=€ Po=£ Ye=¥ Cs=¤ Do=$ mu=× di=÷ pl=+ mi=− eq== "
        "+-=± -+=∓ !==≠ ===≡ ~~=≈ ~==≃ =~=≅ <==≤ >==≥ >>=≫ <<=≪ if=∞ pt=∝ no=¬ AN=∧ OR=∨ fa=∀ te=∃ mo=∈ nm=∉ "
        "sb=⊂ sp=⊃ ib=⊆ ip=⊇ ca=∩ cu=∪ es=∅ gr=∇ pd=∂ sr=√ is=∫ product=∏ sum=∑ coproduct=∐ -h=ℏ tf=∴ 3d=∴ md=⋅ "
        "pc=· c*=⊗ c+=⊕ ->=→ <-=← <>=↔ ua=↑ da=↓ va=↕ rA=⇒ lA=⇐ hA=⇔ uA=⇑ dA=⇓ 12=½ 14=¼ 34=¾ 18=⅛ 38=⅜ 58=⅝ "
        "78=⅞ S1=¹ S2=² S3=³ Of=ª Om=º r!=¡ r?=¿ ss=ß AE=Æ ae=æ OE=Œ oe=œ /O=Ø /o=ø -D=Ð Sd=ð TP=Þ Tp=þ .i=ı "
        ".j=ȷ IJ=Ĳ ij=ĳ /L=Ł /l=ł fm=′ sd=″ mc=µ %0=‰ lz=◊ CL=♣ SP=♠ HE=♥ DI=♦ OK=✓ Fn=ƒ Ah=ℵ Im=ℑ Re=ℜ wp=℘ "
        "CR=↵ bv=| bb=¦ nb=⊄ nc=⊅ ne=≢ ap=∼ lf=⌊ rf=⌋ lc=⌈ rc=⌉ *a=α *b=β *g=γ *d=δ *e=ε *z=ζ *y=η *h=θ *i=ι "
        "*k=κ *l=λ *m=μ *n=ν *c=ξ *o=ο *p=π *r=ρ *s=σ ts=ς *t=τ *u=υ *f=φ +f=ϕ *x=χ *q=ψ *w=ω +h=ϑ +p=ϖ +e=ϵ "
        "*A=Α *B=Β *G=Γ *D=Δ *E=Ε *Z=Ζ *Y=Η *H=Θ *I=Ι *K=Κ *L=Λ *M=Μ *N=Ν *C=Ξ *O=Ο *P=Π *R=Ρ *S=Σ *T=Τ *U=Υ "
        "*F=Φ *X=Χ *Q=Ψ *W=Ω"
    ).split()
} | {"ff": "ff", "fi": "fi", "fl": "fl", "Fi": "ffi", "Fl": "ffl"}  # fmt: skip
#: Accents in glyph names (``\['e]``, ``\(:u``), as combining characters.
_ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", ":": "\u0308", '"': "\u030b", ",": "\u0327",
    "v": "\u030c", "o": "\u030a", "-": "\u0304", ".": "\u0307", "u": "\u0306",
}  # fmt: skip
_ACCENTED_LETTER_PATTERN = re.compile(r"(?P<accent>['`^~:\",vo.-])(?P<letter>[A-Za-z])")  # 'e: é
#: Characters by their codes: ``u00E9``, ``u0065_0301``, ``char233``.
_CODE_POINT_PATTERN = re.compile(r"u(?P<hexadecimals>[0-9A-F]{4,6}(?:_[0-9A-F]{4,6}){0,4})|char(?P<decimal>\d{1,7})")
#: Strings that macro packages define, and strings that Pod::Man draws.
_PREDEFINED_STRINGS = {
    "lq": "“", "rq": "”", "Tm": "™", "R": "®", "Aq": "'", "--": "--", "PI": "π", 'L"': '"', 'R"': '"', "C`": "",
    "C'": "", "C+": "C++", "Lt": "<", "Gt": ">", "Le": "≤", "Ge": "≥", "Ne": "≠", "Pm": "±", "If": "∞", "Pi": "π",
    "Na": "NaN", "Ba": "|", "Am": "&", "q": '"', "Rq": "”", "Lq": "“", "ua": "↑", "aa": "´", "ga": "`", ".T": "utf8",
    "th": "þ", "Th": "Þ", "ae": "æ", "Ae": "Æ", "oe": "œ", "Oe": "Œ", "d-": "ð", "D-": "Ð", "8": "ß", "o": "å",
    **dict.fromkeys("':`^,~/_.v", ""),
}  # fmt: skip
_PREDEFINED_REGISTERS = {".g": 1, ".x": 1, ".y": 22, ".l": 78, ".ll": 78}
_COMPARISON_PATTERN = re.compile(
    r"(?P<left>-?\d+)[a-z]?\s*(?P<operator><=|>=|<|>|==?)\s*(?P<right>-?\d+)[a-z]?"  # 1n > 0
)
_STRING_COMPARISON_PATTERN = re.compile(r"(['\"\x07])(?P<left>.*?)\1(?P<right>.*?)\1")  # 'html'ps'
_BLOCK_MARK_PATTERN = re.compile(r"\\[{}]")


class RoffError(ValueError):
    """Raised for a page that cannot be read; its message is the reason."""


@dataclass(frozen=True, slots=True)
class RoffLine:
    """A line of the page: a ``macro`` with its arguments, or text if ``macro`` is empty; escapes are not replaced."""

    macro: str
    content: str


class RoffInterpreter:
    """The interpreter of a page: it yields the macros and lines of text, and replaces the escapes of a line.
    ``_pending_lines`` are not read yet; ``_macros`` has the lines of each macro that the page defines.
    """

    def __init__(self, text: str, native_macros: frozenset[str]) -> None:
        """Prepare to interpret the source ``text``, which cannot redefine the macros ``native_macros``."""
        # A backslash at the end of a line joins the next line to it, unless another backslash escapes it.
        joined_text = re.sub(r"(?<!\\)((?:\\\\)*)\\\n", r"\1", text)
        self._pending_lines = deque(joined_text.split("\n"))  # not read yet
        self._native_macros = native_macros
        self._strings = dict(_PREDEFINED_STRINGS)
        self._registers = dict(_PREDEFINED_REGISTERS)
        self._macros: dict[str, list[str]] = {}  # the lines of each macro
        self._pending_conditions: list[bool] = []  # results of .ie conditions that wait for their .el
        self._characters_left = _MAX_EXPANDED_CHARACTERS

    def iter_lines(self) -> Iterator[RoffLine]:
        """Execute the requests, such as definitions and conditions; yield the other macros and the lines of text.

        A request applies to the lines after it, so each line must be rendered before the next is taken. Raises
        RoffError if the definitions expand to too many characters.
        """
        while self._pending_lines:
            line = self._pending_lines.popleft()
            control = _CONTROL_PATTERN.match(line)
            if control is None:
                yield RoffLine("", _BLOCK_MARK_PATTERN.sub("", _strip_comment(line)))
                continue
            name, args = control[1], line[control.end() :]
            if not name:  # a lone control character
                continue
            if name in ("if", "ie", "el"):
                self._handle_condition(name, args)
            elif name in ("de", "de1", "am", "am1", "dei", "ami", "ig"):
                self._define_macro(name, args)
            elif name == "while":
                self._skip_block(args)
            elif name in ("ds", "as", "ds1", "as1"):
                self._set_string(name[:2], _strip_comment(args))  # ds1 and as1 differ only in compatibility mode
            elif name == "nr":
                self._set_register(_strip_comment(args))
            elif name in ("als", "rn"):
                self._alias_or_rename_macro(name, split_arguments(_strip_comment(args)))
            elif name in self._macros and name not in self._native_macros:
                self._expand_macro(name, _strip_comment(args))
            else:
                yield RoffLine(name, _BLOCK_MARK_PATTERN.sub("", _strip_comment(args)))

    def read_raw_lines(self, end: str) -> Iterator[str]:
        """Read and yield the lines up to the macro ``end``, or to the end of the page, without interpreting them.

        They are the source of a table (tbl) or a formula (eqn).
        """
        while self._pending_lines:
            line = self._pending_lines.popleft()
            control = _CONTROL_PATTERN.match(line)
            if control is not None and control[1] == end:
                return
            yield line

    def render_text(self, source: str, depth: int = 0) -> str:
        """Return the text of ``source``, a line with escapes, without fonts, sizes and motions.

        ``depth`` is the number of strings being expanded around it. Raises RoffError if the definitions of the page
        expand to too many characters.
        """
        if "\\" not in source:
            return source

        def expand_escape(escape: re.Match[str]) -> str:
            """Return the text of an escape; it is empty for fonts, sizes and motions."""
            character_name = escape["long"] or escape["two"] or escape["named"]
            if character_name:
                return _get_glyph(character_name)
            if escape["one"]:
                return _CHARACTER_ESCAPES.get(escape["one"], escape["one"])
            if escape["string"]:
                string_name = _strip_brackets(escape["string"]).split(" ")[0]  # without the arguments of the string
                value = self._strings.get(string_name, "")
                self._deduct_expansion(value)
                return self.render_text(value, depth + 1)[:_MAX_STRING_CHARACTERS] if depth < _MAX_STRING_DEPTH else ""
            if escape["register"]:
                return str(self._registers.get(_strip_brackets(escape["register"].lstrip("+-")), 0))
            if escape["width"] is not None:
                return str(_CHARACTER_WIDTH * len(escape["width"]))
            if escape["over"]:
                # Keep only the first of characters that are printed over each other.
                return self.render_text(escape["over"], depth + 1)[:1] if depth < _MAX_STRING_DEPTH else ""
            code = int(escape["number"] or 0)
            return chr(code) if code in _PRINTABLE_LATIN_1 else ""

        return _ESCAPE_PATTERN.sub(expand_escape, source)

    def _handle_condition(self, name: str, args: str) -> None:
        """Evaluate ``.if``, ``.ie`` or ``.el``, and keep or skip the rest of the line or the block after it.

        ``name`` is the name of the request. The result of ``.ie`` is kept in ``_pending_conditions`` for its ``.el``.
        """
        if name == "el":
            is_true = not self._pending_conditions.pop() if self._pending_conditions else False
        else:
            is_true, args = self._evaluate_condition(args)
            if name == "ie":
                del self._pending_conditions[_MAX_PENDING_CONDITIONS:]  # a page may have .ie without .el
                self._pending_conditions.append(is_true)
        if is_true:
            args = args.lstrip()
            if args.startswith("\\{"):
                args = args[2:].lstrip()
            if args:
                self._pending_lines.appendleft(args)
        else:
            self._skip_block(args)

    def _evaluate_condition(self, args: str) -> tuple[bool, str]:
        """Return the value of the condition that begins ``args``, and the rest of the line after the condition."""
        is_negated = args.startswith("!")
        args = args[1:].lstrip() if is_negated else args
        is_true = False
        if comparison := _STRING_COMPARISON_PATTERN.match(args):
            is_true = self.render_text(comparison["left"]) == self.render_text(comparison["right"])
            args = args[comparison.end() :]
        elif args[:1] in ("n", "t", "o", "e", "v") and (len(args) == 1 or args[1] in " \t\\."):
            is_true = args[0] in "no"  # true: nroff, an odd page; false: troff, an even page, v
            args = args[1:]
        elif args[:1] in ("d", "r", "c", "m", "F", "S") and args[1:2] in (" ", "\t", "\\", "["):
            # Is the string, register, color, character, font or style defined?
            name, _, args = args[1:].lstrip().partition(" ")
            is_true = name in self._strings or name in self._macros
        else:
            end = _find_expression_end(args)
            is_true = self._evaluate_expression(args[:end]) > 0
            args = args[end:]
        return is_true is not is_negated, args

    def _evaluate_expression(self, expression: str) -> int:
        """Return the value of a number or of a comparison of numbers (1 or 0); 0 for any other expression."""
        text = self.render_text(expression).strip().strip("()")
        comparison = _COMPARISON_PATTERN.fullmatch(text)  # 2>=1
        if comparison is not None:
            left_number, right_number = int(comparison["left"]), int(comparison["right"])
            results = {
                "<": left_number < right_number,
                ">": left_number > right_number,
                "<=": left_number <= right_number,
                ">=": left_number >= right_number,
            }
            return int(results.get(comparison["operator"], left_number == right_number))
        return int(text) if re.fullmatch(r"-?\d{1,9}", text) else 0

    def _skip_block(self, args: str) -> None:
        """Skip the body of a loop or false condition; ``args`` is the rest of its line, where the body begins."""
        depth = args.count("\\{") - args.count("\\}")
        while depth > 0 and self._pending_lines:
            line = self._pending_lines.popleft()
            depth += line.count("\\{") - line.count("\\}")

    def _define_macro(self, request: str, args: str) -> None:
        """Read the body of a definition (``.de``), an addition (``.am``) or a comment (``.ig``) up to its end line.

        The lines of a definition become a macro, the lines of an addition extend a macro, and a comment is dropped.
        ``args`` has the macro's name (not for ``.ig``), then optionally the name of the macro that ends the body; the
        default end line is ``..``.
        """
        names = _strip_comment(args).split()
        end_names = names[:1] if request == "ig" else names[1:2]
        end_line = "." + (end_names[0] if end_names else ".")
        body: list[str] = []
        while self._pending_lines:
            line = self._pending_lines.popleft()
            if line.rstrip() == end_line or (line[:1] in ("'", ".") and "." + line[1:].strip() == end_line):
                break
            body.append(line)
        if request != "ig" and names:
            previous_body = self._macros.get(names[0], []) if request.startswith("am") else []
            self._macros[names[0]] = previous_body + body

    def _set_string(self, request: str, args: str) -> None:
        """Define a string (``ds``) or append to it (``as``), as ``request`` says; predefined strings are not changed.

        ``args`` is the name of the string and its text.
        """
        name, _, value = args.partition(" ")
        value = value.lstrip(" ").removeprefix('"')[:_MAX_STRING_CHARACTERS]
        if name and name not in _PREDEFINED_STRINGS:
            previous_value = self._strings.get(name, "") if request == "as" else ""
            self._strings[name] = previous_value[:_MAX_STRING_CHARACTERS] + value

    def _set_register(self, args: str) -> None:
        """Handle ``.nr``: set a number register (a variable), or change it by a signed amount.

        ``args`` is the name of the register and the amount, whose unit is dropped. Without a valid amount, do nothing.
        """
        words = args.split()
        if len(words) > 1 and re.fullmatch(r"[-+]?\d{1,9}[a-z]?", words[1]):  # 12, +3 or 2m
            register, amount = words[:2]
            previous = self._registers.get(register, 0) if amount[0] in "+-" else 0
            self._registers[register] = previous + int(amount.rstrip(_SCALING_UNITS))

    def _alias_or_rename_macro(self, request: str, names: list[str]) -> None:
        """Give a macro a second name (``.als new old``), or rename it (``.rn old new``).

        ``names`` are the words after the ``request``, ``als`` or ``rn``. Nothing changes if they are not two, or if
        there is no macro with the old name.
        """
        if len(names) != 2:
            return
        new_name, old_name = names if request == "als" else reversed(names)
        if old_name in self._macros:
            self._macros[new_name] = self._macros[old_name] if request == "als" else self._macros.pop(old_name)

    def _expand_macro(self, name: str, args: str) -> None:
        """Insert the lines of a macro's definition, with its arguments, before the lines that are not read yet.

        ``args`` are the arguments as written after the name of the macro. Raises RoffError if the definitions of the
        page expand to too many characters.
        """
        arguments = split_arguments(args)

        def get_argument(reference: re.Match[str]) -> str:
            """Return the argument that ``\\$1`` to ``\\$9`` names (empty if missing), or all for ``*`` and ``@``."""
            if reference[1] in "*@":
                return " ".join(arguments)
            position = int(reference[1])
            return arguments[position - 1] if 0 < position <= len(arguments) else ""

        body = [re.sub(r"\\\\?\$([\d*@])", get_argument, line).replace("\\\\", "\\") for line in self._macros[name]]
        self._deduct_expansion(*body)
        self._pending_lines.extendleft(reversed(body))

    def _deduct_expansion(self, *expansions: str) -> None:
        """Deduct the cost of an expansion, a string or the lines of a macro, from the characters left for the page.

        The expansion and each line also have a fixed cost, so that endless empty expansions end too. Raises RoffError
        if no characters are left.
        """
        self._characters_left -= sum(map(len, expansions)) + _EXPANSION_COST * (1 + len(expansions))
        if self._characters_left < 0:
            raise RoffError(
                f"its definitions expand to more than {_MAX_EXPANDED_CHARACTERS:,} characters, which is the limit; "
                "format it with man -Tutf8, and ingest the result AS text"
            )


def split_arguments(args: str) -> list[str]:
    r"""Return the arguments of a macro: words, and quoted strings.

    >>> split_arguments(r'one "two three" fo\ ur')
    ['one', 'two three', 'fo\\ ur']
    """
    return [
        match["word"] if match["quoted"] is None else match["quoted"].replace('""', '"')
        for match in _ARGUMENT_PATTERN.finditer(args.strip())
    ]


def _strip_comment(line: str) -> str:
    """Return a line without the comment at its end."""
    return _COMMENT_PATTERN.sub("", line) if '\\"' in line or "\\#" in line else line


def _strip_brackets(name: str) -> str:
    """Return the name in an escape, which is written as ``[name]``, ``(xy`` or ``x``, without its brackets."""
    return name[1:-1] if name[0] == "[" else name.removeprefix("(")


def _find_expression_end(args: str) -> int:
    """Return the offset of the first ``\\{``, or white space outside parentheses, after the expression at the start.

    Without either, return the length of ``args``. Parentheses in escapes, such as ``\\n(xy``, do not count.
    """
    depth = 0
    index = 0
    while index < len(args):
        if args.startswith(("\\n(", "\\w(", "\\(", "\\*("), index):  # an escape with a name of two characters
            index += len("\\n(xy") if args[index + 1] != "(" else len("\\(xy")
            continue
        character = args[index]
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif (character in " \t" and depth <= 0) or args.startswith("\\{", index):
            break
        index += 1
    return min(index, len(args))


def _get_glyph(name: str) -> str:
    """Return the character of a glyph name, such as ``em`` or ``u2014``; empty if it is unknown.

    A name of one character that is not in the table is the character itself.
    """
    if name in _GLYPHS:
        return _GLYPHS[name]
    if accent_match := _ACCENTED_LETTER_PATTERN.fullmatch(name):  # 'e
        return unicodedata.normalize("NFC", accent_match["letter"] + _ACCENTS[accent_match["accent"]])
    if code_match := _CODE_POINT_PATTERN.fullmatch(name):  # u2014, u0065_0301 or char233
        if code_match["hexadecimals"]:
            codes = [int(code, 16) for code in code_match["hexadecimals"].split("_")]
        else:
            codes = [int(code_match["decimal"])]
        # Control characters, surrogates and numbers beyond Unicode are not text.
        if all(code < 0x110000 and not 0xD800 <= code < 0xE000 and code >= 32 for code in codes):
            return unicodedata.normalize("NFC", "".join(map(chr, codes)))
    return name if len(name) == 1 else ""
