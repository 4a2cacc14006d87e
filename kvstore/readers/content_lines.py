r"""Content lines, the syntax of calendars (RFC 5545) and address cards (RFC 6350; vCard 2.1 and 3.0).
A *property* is a line ``NAME;PARAMETER=VALUE:TEXT``; a *component* has the lines from ``BEGIN:KIND`` to ``END:KIND``. A
long line is *folded*: it continues on the next line after white space.

In: bytes with folded lines ``NAME;PARAMETER=VALUE:TEXT`` between ``BEGIN:KIND`` and ``END:KIND``, in UTF-8 (or in the
encoding that a byte-order mark or option names). Out: nested :class:`Component` objects. Folds within a character,
quoted-printable values and values that continue on the next line are joined. An unclosed component ends at the end of
the file. Components nested deeper than :data:`MAX_DEPTH` are dropped.
"""

from __future__ import annotations

import quopri
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from .decoding import clean_text, decode_text, detect_bom_encoding

#: The maximum depth of nested components.
MAX_DEPTH = 20

_FOLD_PATTERN = re.compile(rb"\r?\n[ \t]")  # the line end before a continuation line
#: A property with its group and parameters: ``item1.TEL;TYPE=home:555``.
_LINE_PATTERN = re.compile(r'(?:([\w-]+)\.)?([A-Za-z][\w-]*)((?:;(?:[^":;]|"[^"]*")*)*):(.*)', re.S)
_PARAMETER_PATTERN = re.compile(r';((?:[^":;]|"[^"]*")*)')  # ;TYPE=home
_ESCAPE_PATTERN = re.compile(r"\\(.)", re.S)  # \n or \,


@dataclass(frozen=True)
class Property:
    """One content line: its name in capitals, its parameters by name, and its raw value.

    ``group`` is the prefix of the name, such as ``item1``; lines of one group belong together.
    """

    name: str
    value: str
    parameters: Mapping[str, tuple[str, ...]]
    group: str = ""

    @property
    def text(self) -> str:
        r"""The value without escapes: ``\n`` is a line break."""
        return unescape(self.value).strip()

    def get_parameter(self, name: str) -> str:
        """Return the first value of a parameter, or an empty string without the parameter."""
        return next(iter(self.parameters.get(name, ())), "")


@dataclass
class Component:
    """The content between ``BEGIN`` and ``END``: its kind in capitals, its lines, and its nested components."""

    kind: str
    properties: list[Property] = field(default_factory=list)
    components: list[Component] = field(default_factory=list)

    def find_property(self, *names: str) -> Property | None:
        """Return the first nonempty property named ``names[0]``, else ``names[1]``, and so on; None without a match."""
        properties = (property for name in names for property in self.list_properties(name))
        return next((property for property in properties if property.value.strip()), None)

    def list_properties(self, name: str) -> list[Property]:
        """Return the properties with this name, in order."""
        return [line for line in self.properties if line.name == name]

    def get_text(self, *names: str) -> str:
        """Return the text of the first nonempty property named ``names[0]``, else ``names[1]``, and so on, or ""."""
        text_property = self.find_property(*names)
        return "" if text_property is None else text_property.text

    def split_values(self, name: str) -> list[str]:
        """Return the comma-separated values of all properties with this name, as one list without empty values."""
        return [value for line in self.list_properties(name) for value in split_value(line.value, ",") if value]


def parse_components(data: bytes, kind: str, name: str, encoding: str | None) -> list[Component]:
    """Return the top-level components (``BEGIN:`` to ``END:``) of a file that are of a ``kind``, such as ``VCARD``.

    They contain the nested ones; components nested deeper than ``MAX_DEPTH`` are dropped. ``name`` is the file in
    messages; ``encoding`` overrides the byte-order mark and UTF-8. Raises ReaderError if the file is blank or not text.
    """
    if detect_bom_encoding(data[:4]) is None and encoding is None:
        data = _FOLD_PATTERN.sub(b"", data)  # some programs fold between the bytes of a character
        text = decode_text(data, name)
    else:
        text = re.sub(r"\n[ \t]", "", decode_text(data, name, encoding))  # a folded line begins with white space
    root = Component("")
    stack = [root]
    for line in _iter_properties(text):
        line_kind = line.value.strip().upper()
        if line.name == "BEGIN":
            component = Component(line_kind)
            if len(stack) <= MAX_DEPTH:  # a deeper component is read and dropped
                stack[-1].components.append(component)
            stack.append(component)
        elif line.name == "END":
            # Close the innermost component of this kind; an END without BEGIN closes nothing.
            depths = (index for index in range(len(stack) - 1, 0, -1) if stack[index].kind == line_kind)
            depth = next(depths, len(stack))
            del stack[depth:]
        else:
            stack[-1].properties.append(line)
    return [component for component in root.components if component.kind == kind]


def unescape(value: str) -> str:
    r"""Return a value with its backslash escapes replaced by the characters that they represent.

    >>> unescape(r"Quay 3\, shed\nRing twice\; wait")
    'Quay 3, shed\nRing twice; wait'
    """
    if "\\" not in value:
        return value
    return _ESCAPE_PATTERN.sub(lambda escape: "\n" if escape[1] in "nN" else escape[1], value)


def split_value(value: str, separator: str) -> list[str]:
    r"""Split a value at unescaped separators, and return its parts without escapes; they can be empty.

    >>> split_value(r"a\;b;;c", ";")
    ['a;b', '', 'c']
    """
    parts: list[str] = []
    start = 0
    for match in re.finditer(rf"\\.|{separator}", value, re.S):  # an escape, or a separator
        if match[0] == separator:
            parts.append(value[start : match.start()])
            start = match.end()
    return [unescape(part).strip() for part in (*parts, value[start:])]


def _iter_properties(text: str) -> Iterator[Property]:
    """Yield the property on each line of a text whose folded lines are joined.

    An invalid line, or a line after a quoted-printable line break, continues the value of the line before it.
    """
    pending: Property | None = None
    value_pieces: list[str] = []
    is_soft_break = False  # True if the value continues on this line, after "=" at the end of the line above
    for line in text.split("\n"):
        match = None if is_soft_break else _LINE_PATTERN.fullmatch(line)
        if match is not None:
            if pending is not None:
                yield _decode_quoted_printable(replace(pending, value="".join(value_pieces)))
            group, name, parameters, value = match.groups(default="")
            pending = Property(name.upper(), "", _parse_parameters(parameters), group.lower())
            value_pieces = [value]
        elif pending is not None and (is_soft_break or line.strip()):
            value_pieces += [line] if is_soft_break else ["\\n", line]  # an escaped line break
        if pending is not None:
            is_soft_break = _is_quoted_printable(pending) and line.endswith("=")
            if is_soft_break:
                value_pieces[-1] = value_pieces[-1].removesuffix("=")
    if pending is not None:
        yield _decode_quoted_printable(replace(pending, value="".join(value_pieces)))


def _is_quoted_printable(property: Property) -> bool:
    """True if a property declares its value as quoted-printable (vCard 2.1)."""
    return "QUOTED-PRINTABLE" in property.parameters.get("ENCODING", ())


def _parse_parameters(source: str) -> dict[str, tuple[str, ...]]:
    """Return the values of each parameter by its name in capitals; ``source`` is written as ``;NAME=VALUE;...``.

    A parameter without a name (vCard 2.1) is an ENCODING or a TYPE.
    """
    parameters: dict[str, tuple[str, ...]] = {}
    for match in _PARAMETER_PATTERN.finditer(source):
        name, equals, value_text = match[1].partition("=")
        if not equals:
            value_text = name
            name = "ENCODING" if value_text.upper() in ("QUOTED-PRINTABLE", "BASE64", "8BIT", "7BIT") else "TYPE"
        # Commas separate the values, except in quotes: home,"room 1, left".
        values = tuple(text.strip().strip('"') for text in re.findall(r'(?:[^",]|"[^"]*")+', value_text))
        name = name.strip().upper()
        values = tuple(text.upper() for text in values) if name == "ENCODING" else values
        parameters[name] = parameters.get(name, ()) + values
    return parameters


def _decode_quoted_printable(property: Property) -> Property:
    """Return a property with its quoted-printable value decoded; other properties are returned unchanged."""
    if not _is_quoted_printable(property):
        return property
    data = quopri.decodestring(property.value.encode())
    try:
        text = data.decode(property.get_parameter("CHARSET") or "utf-8")
    except (LookupError, ValueError):
        text = data.decode("cp1252", "replace")  # older programs write Windows-1252 without declaring it
    return replace(property, value=clean_text(text).replace("\0", "").replace("\n", "\\n"))
