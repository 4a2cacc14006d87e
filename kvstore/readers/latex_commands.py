"""The commands and environments of LaTeX that the reader knows, and the characters that commands produce.

Source: Lamport, LaTeX: A Document Preparation System (2nd edition, 1994), appendix C; the LaTeX2e unofficial reference
manual.
"""

from __future__ import annotations

from collections.abc import Mapping

SECTION_LEVELS = {
    "part": 1, "chapter": 1, "addchap": 1, "section": 2, "addsec": 2, "subsection": 3, "frametitle": 3,
    "subsubsection": 4, "paragraph": 5, "subparagraph": 6,
}  # fmt: skip
LIST_ENVIRONMENTS = frozenset(
    "itemize enumerate description compactitem compactenum asparaenum inparaenum list trivlist".split()
)
QUOTE_ENVIRONMENTS = frozenset("quote quotation verse displayquote epigraph".split())
TABLE_ENVIRONMENTS = frozenset(
    "tabular tabular* tabularx tabulary tabu longtable supertabular array NiceTabular tblr".split()
)
VERBATIM_ENVIRONMENTS = frozenset(
    "verbatim verbatim* Verbatim lstlisting minted alltt BVerbatim LVerbatim SaveVerbatim listing* code".split()
)
FORMULA_ENVIRONMENTS = frozenset(
    "equation equation* align align* gather gather* multline multline* eqnarray eqnarray* displaymath "
    "math alignat alignat* "
    "flalign flalign* IEEEeqnarray IEEEeqnarray* dmath dmath* subequations".split()
)
IGNORED_ENVIRONMENTS = frozenset(
    "comment tikzpicture pgfpicture picture filecontents filecontents* CCSXML pspicture asy forest".split()
)
#: Environments and the number of their arguments that are not text.
NUM_ENVIRONMENT_ARGUMENTS = {
    "tabular": 1, "tabular*": 2, "tabularx": 2, "tabulary": 2, "tabu": 1, "longtable": 1, "supertabular": 1, "array": 1,
    "NiceTabular": 1, "tblr": 1, "minipage": 1, "multicols": 1, "thebibliography": 1, "list": 2, "minted": 1,
    "wrapfigure": 2, "wraptable": 2, "adjustbox": 1, "spacing": 1, "column": 1, "alignat": 1, "alignat*": 1,
    "otherlanguage": 1,
    "otherlanguage*": 1, "CJK": 2, "CJK*": 2, "tcolorbox": 0, "adjustwidth": 2, "columns": 0, "letter": 0,
}  # fmt: skip
#: Commands and the number of their arguments that are not text.
NUM_SILENT_ARGUMENTS = {
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
PARAGRAPH_COMMANDS = frozenset("par newpage clearpage maketitle bigskip medskip smallskip noindent".split())
EMPHASIS_COMMANDS = frozenset("emph textit textbf textsl strong textem".split())
#: Commands that define a macro.
DEFINITION_COMMANDS = frozenset(
    "newcommand renewcommand providecommand newcommand* renewcommand* providecommand* DeclareRobustCommand "
    "NewDocumentCommand".split()
)
CODE_COMMANDS = frozenset("texttt code lstinline* path file command".split())
REFERENCE_COMMANDS = frozenset(
    "cite citep citet citealp citealt citeauthor citeyear parencite textcite autocite footcite cites ref "
    "eqref pageref autoref cref "
    "Cref nameref vref subref citeyearpar fullcite".split()
)
LETTERS = {
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
#: Prefixes and units of the package siunitx.
UNIT_PREFIXES = {
    "pico": "p", "nano": "n", "micro": "µ", "milli": "m", "centi": "c", "deci": "d", "hecto": "h", "kilo": "k",
    "mega": "M", "giga": "G", "tera": "T",
}  # fmt: skip
UNITS = {
    "metre": "m", "meter": "m", "gram": "g", "second": "s", "ampere": "A", "kelvin": "K", "mole": "mol",
    "candela": "cd", "kg": "kg", "km": "km", "cm": "cm", "mm": "mm", "um": "µm", "nm": "nm", "ms": "ms", "MHz": "MHz",
    "GHz": "GHz", "hertz": "Hz", "newton": "N", "pascal": "Pa", "joule": "J", "watt": "W", "volt": "V", "ohm": "Ω",
    "farad": "F", "tesla": "T", "lumen": "lm", "lux": "lx", "becquerel": "Bq", "sievert": "Sv", "litre": "l",
    "liter": "l", "minute": "min", "hour": "h", "day": "d", "tonne": "t", "hectare": "ha", "bar": "bar",
    "electronvolt": "eV",
    "celsius": "°C", "degreeCelsius": "°C", "degree": "°", "percent": "%", "decibel": "dB", "bit": "bit", "byte": "B",
    "dalton": "Da", "angstrom": "Å",
}  # fmt: skip
#: Powers of siunitx: before a unit (``\\square\\metre``) and after it (``\\metre\\squared``).
UNIT_POWERS = {"square": "²", "cubic": "³", "squared": "²", "cubed": "³"}
ACCENTS = {
    "'": "\u0301", "`": "\u0300", "^": "\u0302", "~": "\u0303", '"': "\u0308", "=": "\u0304", ".": "\u0307",
    "u": "\u0306",
    "v": "\u030c", "H": "\u030b", "c": "\u0327", "k": "\u0328", "r": "\u030a", "d": "\u0323", "b": "\u0331",
    "t": "\u0361",
}  # fmt: skip
ASCII_PUNCTUATION = (("---", "—"), ("--", "–"), ("``", "“"), ("''", "”"), ("?`", "¿"), ("!`", "¡"))
#: Commands whose redefinition in a file is ignored.
PROTECTED_COMMANDS = frozenset(
    "begin end item section subsection chapter emph textbf textit footnote caption title author date par".split()
)
THEOREM_LABELS: Mapping[str, str] = {
    name: name.capitalize()
    for name in "theorem lemma proposition corollary definition remark example proof conjecture claim exercise".split()
}
