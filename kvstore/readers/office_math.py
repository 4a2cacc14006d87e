"""Formulas of Word and PowerPoint as one line of text, in the form in which Office shows them in a line.

In: an element of Office Math (ECMA-376 part 1, 22.1). Out: text such as ``(a+b)/2``, ``x^2`` or ``√(x)``.
"""

from __future__ import annotations

import re
from typing import Any

MATH_NAMESPACE = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
#: An operand that needs no parentheses: a number, a word, or a text in parentheses.
_OPERAND_PATTERN = re.compile(r"[-−]?[\w.,]+|\([^()]*\)|\W?")
_INTEGRAL = "∫"


def format_formula(element: Any) -> str:
    """Return the text of a formula or of a part of it, such as ``a/2`` for a fraction; ``e`` is the base or operand."""
    name = element.tag.removeprefix(MATH_NAMESPACE) if isinstance(element.tag, str) else ""
    if name == "t":  # text
        return element.text or ""
    if name == "f":  # a fraction
        return f"{_format_operand(element, 'num')}/{_format_operand(element, 'den')}"
    if name in ("sSup", "sSub", "sSubSup"):  # a base with a superscript, a subscript or both
        return _format_operand(element, "e") + _format_scripts(element)
    if name == "rad":  # a root
        degree = _format_part(element, "deg")
        return f"{'√' if degree in ('', '2') else f'root {degree} of '}({_format_part(element, 'e')})"
    if name == "nary":  # an integral or a sum with its limits
        operator = _get_character(element, "chr", _INTEGRAL)
        return f"{operator}{_format_scripts(element)} {_format_part(element, 'e')}"
    if name == "func":  # a function such as sin
        return f"{_format_part(element, 'fName')} {_format_part(element, 'e')}"
    if name == "d":  # a list in brackets
        separator = _get_character(element, "sepChr", "|")
        content = separator.join(map(format_formula, element.iterfind(f"{MATH_NAMESPACE}e")))
        return _get_character(element, "begChr", "(") + content + _get_character(element, "endChr", ")")
    if name == "m":  # a matrix
        rows = (map(format_formula, row) for row in element.iterfind(f"{MATH_NAMESPACE}mr"))
        return f"({'; '.join(' '.join(row) for row in rows)})"
    return "".join(map(format_formula, element))


def _format_part(element: Any, name: str) -> str:
    """Return the text of the child of ``element`` with this ``name``; empty if it is missing."""
    child = element.find(MATH_NAMESPACE + name)
    return "" if child is None else format_formula(child).strip()


def _format_operand(element: Any, name: str) -> str:
    """Return the text of the child of ``element`` with this ``name``, in parentheses if it has several parts."""
    text = _format_part(element, name)
    return text if _OPERAND_PATTERN.fullmatch(text) else f"({text})"


def _format_scripts(element: Any) -> str:
    """Return the subscript and the superscript of an element, each after its mark: ``_1^2``."""
    subscript, superscript = _format_operand(element, "sub"), _format_operand(element, "sup")
    return (f"_{subscript}" if subscript else "") + (f"^{superscript}" if superscript else "")


def _get_character(element: Any, name: str, default: str) -> str:
    """Return the character that the property ``name`` of an element states, such as its opening bracket (``begChr``).

    Without this property, return ``default``.
    """
    character = element.find(f"{MATH_NAMESPACE}{element.tag.removeprefix(MATH_NAMESPACE)}Pr/{MATH_NAMESPACE}{name}")
    return default if character is None else character.get(f"{MATH_NAMESPACE}val", "")
