"""Headings of plain text: what people underline, number, or mark as a question.

In: a text and the spans of its paragraphs. Out: of each paragraph that begins with a heading, the heading, with where
what follows it in the same paragraph begins. Three things are headings: a line that another line of one sign underlines
to its end; a line alone behind a number, where such numbers follow one another in the whole text and some have parts
(``2.``, ``2.1.``; RFC 7322, 4.8); and a question of a list of questions and answers, behind a mark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

#: A line, with perhaps a line of signs above it, and the line of signs below it.
_UNDERLINED_PATTERN = re.compile(
    r"(?:[ \t]*(?P<over>([=~^\"*-])\2{2,})[ \t]*\n)?(?P<text>[ \t]*(?P<title>\S[^\n]{0,120}?))[ \t]*\n"
    r"(?P<line>[ \t]*(?P<under>([=~^\"*-])\7{2,}))[ \t]*(?:\n|\Z)"
)
#: Columns by which an underline and what stands above it may end apart.
_APART = 3
#: Two things on a line, as the head of a table has them.
_COLUMNS = re.compile(r"\S(?: {3,}|\t)\S|\|")
_NUMBERED = re.compile(r"(?P<number>\d{1,3}(?:\.\d{1,3}){0,4})\.?[ \t]+(?P<title>[^\W\d_][^\n]{1,100})")
_NO_TITLE = re.compile(r"[.,;:]\Z|\. ?\. ?\.")
#: Numbered headings of a text that has them are so many.
_MIN_NUMBERED_HEADINGS = 3
_QUESTION = r"(?:Q|Question|F|Frage)\s?\d{0,3}\s?[:.)]"
_ANSWER = r"(?:A|Answer|Antwort)\s?\d{0,3}\s?[:.)](?:\s|\Z)"
_ASKED = re.compile(rf"(?:{_QUESTION}|\d{{1,3}}[.)])[ \t]+(?P<title>[^\n]{{2,300}}\?)[ \t]*(?:\n|\Z)")
#: One that has several lines, or no question mark: its answer has a mark then, and stands below it.
_ANSWERED_QUESTION_PATTERN = re.compile(
    rf"{_QUESTION}[ \t]+(?P<title>\S(?:(?!\n[ \t]*{_ANSWER}).){{1,400}})(?:\n|\Z)", re.DOTALL
)
_ANSWER_MARK_PATTERN = re.compile(rf"[ \t]*{_ANSWER}")
#: The deepest level of underlined and numbered headings, and that of questions: below all that headings open.
_DEEPEST, _QUESTION_LEVEL = 5, 6


@dataclass(frozen=True, slots=True)
class PlainHeading:
    """A heading of plain text: its span, its level (1: the outermost), its words, and where its paragraph goes on."""

    start: int
    end: int
    level: int
    title: str
    after: int


def plain_headings(text: str, paragraphs: Sequence[tuple[int, int]]) -> Iterator[PlainHeading | None]:
    r"""Of each paragraph, by its start and end without white space around it, the heading that it begins with.

    >>> text = "Opening hours\n-------------\nFrom nine.\n\nQ: Is it open\non Sundays?\nA: No."
    >>> [one and (one.level, one.title) for one in plain_headings(text, [(0, 38), (40, 71)])]
    [(1, 'Opening hours'), (6, 'Is it open\non Sundays?')]
    """
    numbered = _numbered(text, paragraphs)
    levels: dict[tuple[str, bool], int] = {}
    for index, (start, end) in enumerate(paragraphs):
        next_start = paragraphs[index + 1][0] if index + 1 < len(paragraphs) else len(text)
        yield (
            numbered.get(start)
            or _match_underlined(text, start, end, levels)
            or _question(text, start, end, next_start)
        )


def _match_underlined(text: str, start: int, end: int, levels: dict[tuple[str, bool], int]) -> PlainHeading | None:
    found = _UNDERLINED_PATTERN.match(text, text.rfind("\n", 0, start) + 1, end)
    if found is None or (found["over"] or found["under"])[0] != found["under"][0]:
        return None
    title_line, underline, title = found["text"].expandtabs(), found["line"].expandtabs(), found["title"]
    if abs(len(title_line) - len(underline)) > _APART or 2 * len(found["under"]) < len(title):
        return None
    if _COLUMNS.search(title) or not any(character.isalpha() for character in title):
        return None
    level = levels.setdefault((found["under"][0], found["over"] is not None), min(len(levels) + 1, _DEEPEST))
    return PlainHeading(start, found.end("under"), level, title, min(found.end(), end))


def _numbered(text: str, paragraphs: Sequence[tuple[int, int]]) -> dict[int, PlainHeading]:
    """The numbered headings of a text, by where they start; none where they are no sections of sections."""
    found: dict[int, PlainHeading] = {}
    previous: tuple[int, ...] = (0,)
    has_subsections = False
    for start, end in paragraphs:
        match = _NUMBERED.fullmatch(text, start, end)
        if match is None or _NO_TITLE.search(match["title"]) or _COLUMNS.search(match["title"]):
            continue
        number = tuple(map(int, match["number"].split(".")))
        depth = len(number)
        if number != (*previous, 1) and (
            depth > len(previous) or number != (*previous[: depth - 1], previous[depth - 1] + 1)
        ):
            continue
        previous, has_subsections = number, has_subsections or depth > 1
        found[start] = PlainHeading(start, end, min(depth, _DEEPEST), match[0], end)
    return found if has_subsections and len(found) >= _MIN_NUMBERED_HEADINGS else {}


def _question(text: str, start: int, end: int, following: int) -> PlainHeading | None:
    found = _ASKED.match(text, start, end)
    if found is None:
        found = _ANSWERED_QUESTION_PATTERN.match(text, start, end)
        if found is None or _ANSWER_MARK_PATTERN.match(text, found.end() if found.end() < end else following) is None:
            return None
    return PlainHeading(start, found.end("title"), _QUESTION_LEVEL, found["title"], found.end())
