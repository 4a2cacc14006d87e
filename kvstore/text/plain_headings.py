"""Headings of plain text, of five kinds: underlined lines; consecutive numbered lines (``2.1. Dogs``); numbered
*articles* (``Article 2. Members``); *titles*, the short first lines of paragraphs; and questions after a mark such as
``Q:``. An *overline* is a line like the underline, above the heading.

In: a text and the spans of its paragraphs. Out: for each paragraph that begins with a heading, the heading and the
start of what follows it in the same paragraph. An underline has the length of its line and repeats one character.
Numbers must be consecutive in the whole text, and some must have parts (``2.``, ``2.1.``; RFC 7322, 4.8). An article's
number and title are on a line of their own. A title is above the sentences of its paragraph, and most paragraphs of
several lines begin with one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .patterns import compile_lazily

#: A line, an optional overline above it, and its underline, each a repeated punctuation character.
_UNDERLINED_PATTERN = compile_lazily(
    r"(?:[ \t]*(?P<over>([=~^\"*-])\2{2,})[ \t]*\n)?(?P<text>[ \t]*(?P<title>\S[^\n]{0,120}?))[ \t]*\n"
    r"(?P<line>[ \t]*(?P<under>([=~^\"*-])\7{2,}))[ \t]*(?:\n|\Z)"
)
#: The maximum difference in columns between the ends of an underline and of the line above it.
_MAX_END_DISTANCE = 3
#: Two items on a line, as in the header of a table.
_COLUMNS_PATTERN = compile_lazily(r"\S(?: {3,}|\t)\S|\|")
#: A line with a number and a title: ``2.1. Dogs``.
_NUMBERED_PATTERN = compile_lazily(r"(?P<number>\d{1,3}(?:\.\d{1,3}){0,4})\.?[ \t]+(?P<title>[^\W\d_][^\n]{1,100})")
#: The end of a sentence or clause, or the dots before the page number in a table of contents.
_NON_TITLE_PATTERN = compile_lazily(r"[.,;:]\Z|\. ?\. ?\.")
#: The heading of an annex or an amendment, which follows the numbered sections: ``Annex B - Rates``.
_ANNEX_PATTERN = compile_lazily(
    r"(?i:annexe?|appendix|schedule|exhibit|amendment|addendum|attachment|anhang|anlage|nachtrag|anexo|allegato|bijlage)"
    r"[ \t]+(?:\d{1,2}|[A-Z])(?=\Z|[ \t]*[-–—:(.]|[ \t]+[^\W\d_a-z])[^\n]{0,60}(?<![.,;:])"
)
#: The minimum number of numbered headings of a text.
_MIN_NUMBERED_HEADINGS = 3
#: The first line of an article of a law, a contract or a statute, or of an item of minutes ("Item 3 - Accounts"): its
#: number, and its title if it has one.
_ARTICLE_PATTERN = compile_lazily(
    r"(?P<label>article|artikel|artículo|articolo|artigo|artykuł|art\.|§|статья|madde|item|punkt|point|punto|ponto|pkt\.|punt"
    r"|пункт)[ \t]?(?P<number>\d{1,3})(?:er|º|°)?(?!\w)(?P<title>[^\n]*)",
    re.IGNORECASE,
)
#: The end of a sentence or clause, which the title of an article does not have.
_CLAUSE_END_PATTERN = compile_lazily(r"\w[.,;:]\Z")
_MAX_ARTICLE_TITLE = 60
#: The first line of a paragraph that can be its title: a few words without punctuation at their end. Sentences follow.
#: A line with a number stays in its paragraph, because the date above a diary entry can be the answer to a question.
_TITLED_PATTERN = compile_lazily(
    r"(?P<title>[^\W\d_][^\n\t|\d]{1,50}(?<![\s.,;:!?]))\n(?=(?P<first_line>[^\W_][^\n]*))"
    r"(?s:.*)[.!?…][\"'”’)\]]*\Z"
)
_MAX_TITLE_WORDS, _MIN_TITLES = 6, 3
#: The marks of a question and its answer: ``Q1:``, ``A1:``.
_QUESTION = r"(?:Q|Question|F|Frage)\s?\d{0,3}\s?[:.)]"
_ANSWER = r"(?:A|Answer|Antwort)\s?\d{0,3}\s?[:.)](?:\s|\Z)"
#: A question on one line, after a mark or a number: ``3. Is it open?``
_QUESTION_LINE_PATTERN = compile_lazily(
    rf"(?:{_QUESTION}|\d{{1,3}}[.)])[ \t]+(?P<title>[^\n]{{2,300}}\?)[ \t]*(?:\n|\Z)"
)
#: A question of several lines or without a question mark: the marker of its answer follows below.
_ANSWERED_QUESTION_PATTERN = compile_lazily(
    rf"{_QUESTION}[ \t]+(?P<title>\S(?:(?!\n[ \t]*{_ANSWER}).){{1,400}})(?:\n|\Z)", re.DOTALL
)
_ANSWER_MARKER_PATTERN = compile_lazily(rf"[ \t]*{_ANSWER}")
#: The deepest level of underlined and numbered headings, and the level of questions, which is below all others.
_MAX_LEVEL, _QUESTION_LEVEL = 5, 6


class PlainHeading(NamedTuple):
    """A heading of plain text: its span, its level (1: the outermost) and its text.

    ``body_start`` is the offset at which its paragraph continues after the heading.
    """

    start: int
    end: int
    level: int
    title: str
    body_start: int


def find_plain_headings(text: str, paragraphs: Sequence[tuple[int, int]]) -> Iterator[PlainHeading | None]:
    r"""Yield for each paragraph, in order, the heading that it begins with, or None if it begins with none.

    ``paragraphs`` are the start and end offsets of the paragraphs of ``text``, without white space at their ends.

    >>> text = "Opening hours\n-------------\nFrom nine.\n\nQ: Is it open\non Sundays?\nA: No."
    >>> [(heading.level, heading.title) for heading in find_plain_headings(text, [(0, 38), (40, 71)]) if heading]
    [(1, 'Opening hours'), (6, 'Is it open\non Sundays?')]
    """
    numbered_headings = {**_find_articles(text, paragraphs), **_find_numbered_headings(text, paragraphs)}
    titles = {} if numbered_headings else _find_titles(text, paragraphs)
    levels: dict[tuple[str, bool], int] = {}
    for index, (start, end) in enumerate(paragraphs):
        next_start = paragraphs[index + 1][0] if index + 1 < len(paragraphs) else len(text)
        # The first kind of heading that the paragraph begins with, else None.
        yield (
            numbered_headings.get(start)
            or _match_underlined(text, start, end, levels)
            or _match_question(text, start, end, next_start)
            or titles.get(start)
        )


def _match_underlined(text: str, start: int, end: int, levels: dict[tuple[str, bool], int]) -> PlainHeading | None:
    """Return the underlined heading that the paragraph from ``start`` to ``end`` begins with, or None.

    Each underline style (character, with or without overline) is a level. ``levels`` maps the known styles to their
    levels; a new style is added to it.
    """
    line_start = text.rfind("\n", 0, start) + 1  # the indentation of the title counts
    match = _UNDERLINED_PATTERN.match(text, line_start, end)
    if match is None:
        return None
    underline_character, has_overline = match["under"][0], match["over"] is not None
    if has_overline and match["over"][0] != underline_character:
        return None  # an overline must have the same character
    title_line, underline, title = match["text"].expandtabs(), match["line"].expandtabs(), match["title"]
    if abs(len(title_line) - len(underline)) > _MAX_END_DISTANCE or 2 * len(match["under"]) < len(title):
        return None  # the underline is too long or too short
    if _COLUMNS_PATTERN.search(title) or not any(character.isalpha() for character in title):
        return None  # the header of a table, or marks
    level = levels.setdefault((underline_character, has_overline), min(len(levels) + 1, _MAX_LEVEL))
    return PlainHeading(start=start, end=match.end("under"), level=level, title=title, body_start=min(match.end(), end))


def _find_numbered_headings(text: str, paragraphs: Sequence[tuple[int, int]]) -> dict[int, PlainHeading]:
    """Return the numbered headings of a text by start offset.

    A heading is a paragraph, or a line above the first of its numbered subsections (``2. Animals``, ``2.1 Dogs``). It
    counts only if its number follows the number of the heading before it. The result is empty if the text has too few
    such headings, or if all are of one level without numbered paragraphs (``2.1 Dogs are kept on a lead.``) below them.
    An annex after the first heading is a section of its own.
    """
    headings: dict[int, PlainHeading] = {}
    previous: tuple[int, ...] = (0,)
    has_subsections = False
    for index, (start, end) in enumerate(paragraphs):
        line_end = text.find("\n", start, end)
        has_body = line_end >= 0
        if headings and _ANNEX_PATTERN.fullmatch(text, start, end):
            headings[start] = PlainHeading(start=start, end=end, level=1, title=text[start:end], body_start=end)
            continue
        match = _NUMBERED_PATTERN.fullmatch(text, start, line_end if has_body else end)
        if match is None or (has_body and not text[line_end:end].lstrip().startswith(f"{match['number']}.1 ")):
            continue
        if _NON_TITLE_PATTERN.search(match["title"]) or _COLUMNS_PATTERN.search(match["title"]):
            continue
        number = tuple(map(int, match["number"].split(".")))
        depth = len(number)
        is_first_subsection = number == (*previous, 1)
        is_next_section = depth <= len(previous) and number == (*previous[: depth - 1], previous[depth - 1] + 1)
        if not (is_first_subsection or is_next_section):
            continue
        next_start = paragraphs[index + 1][0] if index + 1 < len(paragraphs) else len(text)
        is_above_clause = text.startswith(f"{match['number']}.1 ", next_start)
        previous, has_subsections = number, has_subsections or depth > 1 or has_body or is_above_clause
        headings[start] = PlainHeading(
            start=start, end=match.end(), level=min(depth, _MAX_LEVEL), title=match[0], body_start=match.end()
        )
    return headings if has_subsections and len(headings) >= _MIN_NUMBERED_HEADINGS else {}


def _find_articles(text: str, paragraphs: Sequence[tuple[int, int]]) -> dict[int, PlainHeading]:
    """Return the headings of articles (``Article 2. Members``) among ``paragraphs``, by start offset.

    They are below all other sections. The result is empty if the text has too few articles, or if their numbers are not
    1, 2, 3 ... It is also empty if the first line of an article has text that is not a title: it is too long, ends as a
    clause does, or continues in lower case.
    """
    headings: dict[int, PlainHeading] = {}
    label = ""
    for start, end in paragraphs:
        match = _ARTICLE_PATTERN.match(text, start, end)
        if match is None or (label and match["label"].lower() != label):
            continue
        label, title = match["label"].lower(), match["title"].strip()
        is_continued = text[match.end() : end].lstrip()[:1].islower()
        is_title = not (is_continued or len(title) > _MAX_ARTICLE_TITLE or _CLAUSE_END_PATTERN.search(title))
        if int(match["number"]) != len(headings) + 1 or not is_title:
            return {}
        headings[start] = PlainHeading(
            start=start, end=match.end(), level=_MAX_LEVEL, title=match[0].strip(), body_start=match.end()
        )
    return headings if len(headings) >= _MIN_NUMBERED_HEADINGS else {}


def _find_titles(text: str, paragraphs: Sequence[tuple[int, int]]) -> dict[int, PlainHeading]:
    """Return the headings that are short first lines of paragraphs (titles), by start offset.

    The line below a title is longer, so the title is not a wrapped line. The result is empty if the text has too few
    titles, if one occurs twice, as a speaker does, or if most paragraphs of several lines have none.
    """
    headings: dict[int, PlainHeading] = {}
    num_multiline = 0
    for start, end in paragraphs:
        if text.find("\n", start, end) < 0:
            continue
        num_multiline += 1
        match = _TITLED_PATTERN.fullmatch(text, start, end)
        if match is None or len(match["title"].split()) > _MAX_TITLE_WORDS:
            continue
        # Checked here, because a pattern cannot exclude lower-case letters outside ASCII.
        if match["title"][0].islower() or match["first_line"][0].islower():
            continue
        if len(match["first_line"]) < 2 * len(match["title"]) or _COLUMNS_PATTERN.search(match[0]):
            continue
        title_end = match.end("title")
        headings[start] = PlainHeading(
            start=start, end=title_end, level=_MAX_LEVEL, title=match["title"], body_start=title_end
        )
    is_distinct = len({heading.title for heading in headings.values()}) == len(headings)
    has_enough = len(headings) >= _MIN_TITLES and 2 * len(headings) > num_multiline
    return headings if has_enough and is_distinct else {}


def _match_question(text: str, start: int, end: int, next_start: int) -> PlainHeading | None:
    """Return the question after a marker (``Q:``) that the paragraph from ``start`` to ``end`` begins with, or None.

    A question of several lines or without a question mark counts only if a marker of its answer (``A:``) follows.
    ``next_start`` is the offset of the next paragraph, which can begin with that marker.
    """
    match = _QUESTION_LINE_PATTERN.match(text, start, end)
    if match is None:
        match = _ANSWERED_QUESTION_PATTERN.match(text, start, end)
        if match is None:
            return None
        # The answer follows in this paragraph or begins the next.
        answer_start = match.end() if match.end() < end else next_start
        if _ANSWER_MARKER_PATTERN.match(text, answer_start) is None:
            return None
    return PlainHeading(
        start=start, end=match.end("title"), level=_QUESTION_LEVEL, title=match["title"], body_start=match.end()
    )
