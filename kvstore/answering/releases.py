"""Releases: the versions of a product with their dates, from the headings of a changelog: ``[2.4.0] - 2026-02-03``.

In: a heading, or a question. Out: the :class:`Release` of the heading, which can be phrased as a sentence, and if the
question asks for the latest one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ..structures.documents.documents import Section
from ..text.blocks import to_plain_text
from ..text.patterns import compile_lazily

_VERSION = r"(?P<version>\d+(?:\.\d+){1,5}[\w+-]{0,20}(?:\.[\w+-]{1,20}){0,3})"
_DATE = r"(?P<date>\d{4}-\d\d-\d\d|\d{1,2}\.? [^\W\d_]{3,9}\.?,? \d{4}|[^\W\d_]{3,9}\.? \d{1,2},? \d{4})"
_PRODUCT = r"(?:[^\W\d][\w-]*\.? ){0,3}"
#: A heading of a changelog: a version and its date in either order, and at most the name of the product. After a date,
#: a number such as "8.30" is a version only in parentheses or after a word that says so.
_RELEASE_PATTERNS = (
    compile_lazily(
        rf"\W*{_PRODUCT}(?:v|version |release )?{_VERSION}\W{{1,4}}(?:released |on )?{_DATE}\W*", re.IGNORECASE
    ),
    compile_lazily(rf"\W*{_DATE}(?: \(|\W{{1,4}}{_PRODUCT}(?:v|version |release )){_VERSION}\W*", re.IGNORECASE),
)
#: A question for the date of a release. The answer reader takes that date for the answer to many other questions.
_RELEASE_QUESTION_PATTERN = compile_lazily(
    r"(?=.*\b(?:when|date|day|month|year)\b).*\b(?:releas|publi(?:sh|cation)|launch|issue|ship|c[ao]me out)",
    re.IGNORECASE,
)
#: A question for the latest version, and words that can occur in any such question.
_LATEST_PATTERN = compile_lazily(
    r"\b(?:latest|newest|current|last|most recent)(?: [\w-]+){0,2}? (?:version|release)\b"
    r"(?P<product>(?: of [\w. -]+?)?(?=[?,]|\Z| and\b))?"
    r"|\b(?:version|release) is (?:the )?(?:latest|newest|current|most recent)\b",
    re.IGNORECASE,
)
_LATEST_WORD_PATTERN = compile_lazily(
    r"\b(?:latest|newest|current|last|most|recent|versions?|releases?|released|stable|available|c[ao]mes?|out|date|number"
    r"|published)\b|['’]s\b",
    re.IGNORECASE,
)
#: A question for a version, and not for its date.
_VERSION_QUESTION_PATTERN = compile_lazily(r"\b(?:what|which) (?:[\w-]+ ){0,2}?(?:version|release)\b", re.IGNORECASE)
#: A heading in a changelog that says what happened to the entries below it.
_CHANGE_PATTERN = compile_lazily(r"(?:add|chang|deprecat|fix|improv|remov|renam|updat)ed", re.IGNORECASE)


class Release(NamedTuple):
    """A version and its date, from a heading of a changelog. ``is_latest`` is True if no version in it is higher."""

    version: str
    date: str
    is_latest: bool = False

    @property
    def sentence(self) -> str:
        """The heading as a sentence, for the answer reader, which was trained on sentences."""
        return f"Version {self.version} was released on {self.date}."

    @property
    def order(self) -> list[int]:
        """The numbers of the version, by which versions are compared."""
        return [int(number) for number in re.findall(r"\d{1,9}", self.version)]

    def phrase_as_latest(self, question: str) -> str:
        """Return the heading as a sentence that answers a question for the latest version, in its words.

        >>> Release("2.4.0", "2026-02-03").phrase_as_latest("What's the newest stable version of Tern?")
        'The newest stable version of Tern is 2.4.0, released on 2026-02-03.'
        """
        subject = _LATEST_PATTERN.search(question)
        text = "latest version" if subject is None or subject["product"] is None else subject[0]
        return f"The {text} is {self.version}, released on {self.date}."

    def answers_question(self, question: str) -> bool:
        """True if a question asks when this version was released, or for the latest version and this is the latest.

        >>> release = Release("2.4.0", "2026-02-03")
        >>> questions = ("When was v2.4.0 published?", "When was 2.4 released?", "When was 2.4.0 tested?")
        >>> [release.answers_question(question) for question in questions]
        [True, False, False]
        """
        if self.is_latest and asks_for_latest_release(question):
            return True
        return self.is_named_in(question) and _RELEASE_QUESTION_PATTERN.match(question) is not None

    def is_named_in(self, question: str) -> bool:
        """True if a question has the number of this version, and not only the start of it."""
        pattern = rf"(?<![\w.])v?{re.escape(self.version)}(?!\w|\.\d)"
        return re.search(pattern, question, re.IGNORECASE) is not None


def asks_for_latest_release(question: str) -> bool:
    """True if a question asks for the latest version, or for its date."""
    return _LATEST_PATTERN.search(question) is not None


def remove_release_words(question: str) -> str:
    """Return a question for the latest version without the words that ask for it, so that the product is left.

    >>> remove_release_words("latest version of Tern")
    '  of Tern'
    """
    return _LATEST_WORD_PATTERN.sub("", question)


def parse_release(heading: str) -> Release | None:
    """Return the version and date in a heading such as ``[2.4.0] - 2026-02-03``, or None if it has anything else.

    >>> parse_release("2026-02-03 (2.4.0)")
    Release(version='2.4.0', date='2026-02-03', is_latest=False)
    """
    match = next(filter(None, (pattern.fullmatch(heading) for pattern in _RELEASE_PATTERNS)), None)
    return None if match is None else Release(match["version"], match["date"])


def phrase_release(labels: Sequence[str], question: str) -> list[str]:
    """Return labels (headings), in which a changelog heading with a version and its date is rewritten as a sentence.

    The answer reader was trained on sentences. It does not see that "[2.4.0] – 2026-02-03. Added." dates a change.
    The date is omitted if the question names the version or asks for one: it then asks for something else.

    >>> labels = ["Changelog", "[2.4.0] – 2026-02-03", "Added"]
    >>> [phrase_release(labels, question)[1] for question in ("When was search added?", "What was added in 2.4.0?")]
    ['In version 2.4.0, released on 2026-02-03, this was added:', 'In version 2.4.0, this was added:']
    >>> phrase_release(["v2.4 (3 May 2026)", "Known problems"], "")
    ['Version 2.4 was released on 3 May 2026.', 'Known problems']
    """
    for index, label in enumerate(labels):
        release = parse_release(label)
        if release is None:
            continue
        text = f"In version {release.version}"
        if not (release.is_named_in(question) or _VERSION_QUESTION_PATTERN.search(question)):
            text += f", released on {release.date}"
        following = labels[index + 1 : index + 2]
        if not following:
            return [*labels[:index], f"{text}:"]
        if _CHANGE_PATTERN.fullmatch(following[0]):
            return [*labels[:index], f"{text}, this was {following[0].lower()}:", *labels[index + 2 :]]
        return [*labels[:index], release.sentence, *labels[index + 1 :]]
    return list(labels)


def read_release(section: Section) -> Release | None:
    """Return the version and date in the heading of a section, whose Markdown is removed, or None."""
    return parse_release(to_plain_text(section.title))


def find_latest_release(sections: Sequence[Section]) -> tuple[Section, Release] | None:
    """Return the first section with the highest version and a date in its heading, and both; None if there are none."""
    releases = ((section, read_release(section)) for section in sections)
    dated_sections = [(section, release) for section, release in releases if release is not None]
    return max(dated_sections, key=lambda dated_section: dated_section[1].order, default=None)
