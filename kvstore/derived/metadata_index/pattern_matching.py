"""Matching of texts with LIKE and GLOB patterns, as SQLite defines it, and with substrings."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

from .conditions import HasText, IsLike

#: The longest pattern, in characters, that the index evaluates.
MAX_PATTERN_CHARS = 1000
#: The longest prefix of a pattern, in characters, that is used to find values.
_MAX_PREFIX_CHARS = 64
_ASCII_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
#: The most case variants of a pattern's prefix that are searched.
_MAX_PATTERN_CASES = 64


class ValueMatcher(NamedTuple):
    """The texts that satisfy a condition: ``matches`` is true for them, and each begins with one of ``prefixes``."""

    prefixes: list[str]
    matches: Callable[[str], bool]


def make_value_matcher(condition: IsLike | HasText) -> ValueMatcher | None:
    """Return the matcher of a pattern or substring; None for a pattern that only SQLite can evaluate.

    Such a pattern is very long, or has a NUL or, in GLOB, a bracket, which :func:`make_pattern_matcher` would match
    literally.
    """
    if isinstance(condition, HasText):
        return ValueMatcher([""], make_substring_matcher(condition.text, condition.ignores_case))
    pattern, glob = condition.pattern, condition.glob
    if len(pattern) > MAX_PATTERN_CHARS or "\0" in pattern or (glob and "[" in pattern):
        return None
    return ValueMatcher(list_prefixes(pattern, glob), make_pattern_matcher(pattern, glob))


def make_substring_matcher(text: str, ignores_case: bool = False) -> Callable[[str], bool]:
    """Return a predicate that is true for texts containing ``text``; ``ignores_case`` compares in lower case."""
    if ignores_case:
        lower = text.lower()
        return lambda other: lower in other.lower()
    return lambda other: text in other


def make_pattern_matcher(pattern: str, glob: bool) -> Callable[[str], bool]:
    """Return a predicate that is true for texts that match a pattern of SQLite's LIKE or, with ``glob``, GLOB.

    Brackets in a GLOB pattern are matched literally.
    """
    wildcards = {"*": ".*", "?": "."} if glob else {"%": ".*", "_": "."}
    characters = pattern if glob else pattern.translate(_ASCII_LOWER)
    expression = "".join(wildcards.get(character) or re.escape(character) for character in characters)
    compiled = re.compile(expression, re.DOTALL)
    if glob:
        return lambda text: compiled.fullmatch(text) is not None
    # LIKE ignores the case of ASCII letters only.
    return lambda text: compiled.fullmatch(text.translate(_ASCII_LOWER)) is not None


def list_prefixes(pattern: str, glob: bool) -> list[str]:
    """Return all prefixes of the texts that match a pattern: every matching text begins with one of them.

    A prefix is the part of the pattern (of GLOB with ``glob``, else of LIKE) before its first wildcard. LIKE ignores
    the case of ASCII letters, so its prefix is returned in all combinations of upper and lower case; it is shortened so
    that there are at most 64.
    """
    prefix_match = re.match(r"[^*?]*" if glob else r"[^%_]*", pattern, re.DOTALL)  # up to the first wildcard
    assert prefix_match is not None  # the prefix can be empty
    prefix = prefix_match[0][:_MAX_PREFIX_CHARS]
    if glob:
        return [prefix]
    letter_variants: list[list[str]] = []
    num_prefixes = 1
    for letter in prefix:
        variants = sorted({letter.lower(), letter.upper()}) if letter.isascii() else [letter]
        num_prefixes *= len(variants)
        if num_prefixes > _MAX_PATTERN_CASES:
            break
        letter_variants.append(variants)
    return list(map("".join, product(*letter_variants)))
