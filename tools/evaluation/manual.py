"""Question sets generated from a manual: what an option or parameter does, and what a section says. A *definition* is a
term or heading with the text below it; its *lead* is the first words of that text.

In: an archive of HTML pages as DocBook generates them. Out: two sets, ``options`` and ``headings``, whose questions
follow several templates. The required span is the beginning of the definition: the first words below the term or the
heading, found word by word in the stored texts. No search is used for this.
"""

from __future__ import annotations

import re
import sys
import tarfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import kvstore

from .passages import TextSpan
from .question_sets import Question, QuestionSet

#: The maximum number of questions of a set, drawn evenly from all candidates.
_MAX_QUESTIONS = 200
#: The first words of a definition that identify it, and the minimum number of its words.
_LEAD_WORDS = 20
_MIN_WORDS = 8
_WORD = re.compile(r"\w+")
_NUMBER = re.compile(r"^(?:Chapter\s+|Appendix\s+|Part\s+)?(?:[A-Z]|[IVX]+|\d+)(?:\.\d+)*\.\s+")
_OPTION = re.compile(r"--[a-z][\w-]+")
_PARAMETER = re.compile(r"[a-z]+(?:_[a-z]+)+")
_TITLE_CASE = re.compile(r"\b[A-Z](?=[a-z]+\b)")

OPTION_TEMPLATES = (
    "What does the option {name} of {command} do?",
    "{command} {name}",
    "How do I use {name} with {command}?",
    "What is {name} for when I run {command}?",
)
PARAMETER_TEMPLATES = (
    "What does the parameter {name} control?",
    "{name}",
    "How should I set {name}?",
    "What is {name} good for?",
)
HEADING_TEMPLATES = (
    "What does the manual say about {lowered}?",
    "{title}",
    "Can you explain {lowered}?",
    "I need to know more about {lowered}.",
    "Where is {title} described?",
)


@dataclass(frozen=True)
class Definition:
    """A term or heading of a page: its text, the option names in it, and the lead, the first words of the text below.

    ``command`` is the command that the page describes, or empty.
    """

    page: str
    command: str
    heading: bool
    title: str
    names: tuple[str, ...]
    lead: tuple[str, ...]


def unpack(archive: Path, folder: Path) -> None:
    """Extract the files of an archive of pages into a folder."""
    with tarfile.open(archive) as pages:
        # Python has the filter from 3.11.4 on.
        pages.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def ingest_pages(store: kvstore.Store, folder: Path, log: Callable[[str], None]) -> kvstore.IngestReport:
    """Ingest the pages in a folder; log the progress, and print pages that cannot be read."""
    report = store.ingest(
        folder, progress=lambda progress: log(f"{progress.done} of {progress.total} files, {progress.chunks} chunks")
    )
    for failure in report.failures:
        print(f"{failure.place}: {failure.reason}", file=sys.stderr)
    return report


def make_manual_sets(
    store: kvstore.Store, archive: Path, scratch: Path, log: Callable[[str], None]
) -> tuple[float, list[QuestionSet]]:
    """Return the two question sets about the pages in ``archive``, and the seconds that ingesting them took.

    The pages are unpacked into the ``scratch`` folder, and ingested if the store is empty.
    """
    folder = scratch / "pages"
    unpack(archive, folder)
    seconds = 0.0
    if not store.keys():
        seconds = ingest_pages(store, folder, log).seconds
    definitions = [definition for path in sorted(folder.rglob("*.html")) for definition in iter_definitions(path)]
    stored_pages = _StoredPages(store)
    sets = []
    for name, candidates in (
        ("options", make_option_questions(definitions)),
        ("headings", make_heading_questions(definitions)),
    ):
        step = max(1.0, len(candidates) / _MAX_QUESTIONS)
        sample = [candidates[int(index * step)] for index in range(min(_MAX_QUESTIONS, len(candidates)))]
        questions = [stored_pages.make_question(text, definition) for text, definition in sample]
        sets.append(QuestionSet(f"manual-{name}", folder, passages=[], questions=questions, details=True))
    return seconds, sets


def make_option_questions(definitions: Sequence[Definition]) -> list[tuple[str, Definition]]:
    """Return a question with its definition for each unambiguous option and parameter.

    An option must have one definition in its command, and a parameter one in the manual. Templates take turns.
    """
    named_definitions = [
        (name, definition) for definition in definitions if not definition.heading for name in definition.names
    ]
    counts = Counter(name for name, _ in named_definitions)
    counts_by_command = Counter((definition.command, name) for name, definition in named_definitions)
    questions = []
    for name, definition in named_definitions:
        if name.startswith("--") and definition.command and counts_by_command[definition.command, name] == 1:
            template = OPTION_TEMPLATES[len(questions) % len(OPTION_TEMPLATES)]
        elif not name.startswith("--") and counts[name] == 1:
            template = PARAMETER_TEMPLATES[len(questions) % len(PARAMETER_TEMPLATES)]
        else:
            continue
        questions.append((template.format(name=name, command=definition.command), definition))
    return questions


def make_heading_questions(definitions: Sequence[Definition]) -> list[tuple[str, Definition]]:
    """Return a question with its section for each heading of two words or more that no other section has.

    Templates take turns.
    """
    headings = [heading for heading in definitions if heading.heading and len(_WORD.findall(heading.title)) > 1]
    counts = Counter(heading.title.lower() for heading in headings)
    questions = []
    for heading in headings:
        if counts[heading.title.lower()] == 1:
            lowered = _TITLE_CASE.sub(lambda match: match.group().lower(), heading.title)
            template = HEADING_TEMPLATES[len(questions) % len(HEADING_TEMPLATES)]
            questions.append((template.format(title=heading.title, lowered=lowered), heading))
    return questions


def iter_definitions(path: Path) -> Iterator[Definition]:
    """Yield the terms and headings of a page that have a paragraph of at least _MIN_WORDS words directly below them."""
    parser = _PageParser()
    parser.feed(path.read_text(encoding="utf-8"))
    command = next((part.text for part in parser.parts if part.kind == "command"), "")  # reference pages name one
    for part, next_part in pairwise(parser.parts):
        words = _WORD.findall(next_part.text)
        if part.kind not in ("dt", "heading") or next_part.kind != "p" or len(words) < _MIN_WORDS:
            continue
        names = tuple(code for code in part.codes if _OPTION.fullmatch(code) or _PARAMETER.fullmatch(code))
        title = _NUMBER.sub("", part.text).rstrip("?")
        yield Definition(path.name, command, part.kind == "heading", title, names, tuple(words[:_LEAD_WORDS]))


class _PagePart(NamedTuple):
    """A part of a page: its kind (p, dt, heading, command or other), its text, and its names in code."""

    kind: str
    text: str
    codes: list[str]


class _PageParser(HTMLParser):
    """A parser of the parts of a page, in order: terms (``dt``), headings and paragraphs, with the names in code."""

    def __init__(self) -> None:
        """Create a parser; :meth:`feed` fills :attr:`parts`."""
        super().__init__()
        self.parts: list[_PagePart] = []
        #: The kind and tag of the open part, and its text and names in code so far.
        self._open: tuple[str, str] | None = None
        self._text: list[str] = []
        self._codes: list[str] = []
        #: The text of the open name in code.
        self._code: list[str] | None = None
        self._has_command = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a part or a name in code, and end the previous part."""
        classes = dict(attrs).get("class") or ""
        # A paragraph inside a term or heading belongs to the term or heading.
        is_inner_paragraph = tag == "p" and self._open is not None and self._open[1] != "p"
        if tag == "code" and classes in ("option", "varname"):
            self._code = []
        elif tag in ("p", "dt", "h2", "h3", "h4") and not is_inner_paragraph:
            self._close()
            kind = tag if tag in ("p", "dt") else "heading" if classes == "title" else "other"
            self._open = (kind, tag)
        elif tag in ("pre", "table", "ul", "ol", "dl"):
            self._close()
            self.parts.append(_PagePart("other", "", []))  # separates the parts before and after it
        elif tag == "span" and classes == "refentrytitle" and not self._has_command:
            self._open, self._text, self._has_command = ("command", tag), [], True

    def handle_endtag(self, tag: str) -> None:
        """End the name in code, or the part, that this tag began."""
        if self._code is not None and tag == "code":
            self._codes.append("".join(self._code).strip())
            self._code = None
        if self._open and tag == self._open[1]:
            self._close()

    def handle_data(self, data: str) -> None:
        """Add text to the open part, and to the open name in code."""
        if self._code is not None:
            self._code.append(data)
        if self._open:
            self._text.append(data)

    def _close(self) -> None:
        """End the open part, if any, and add it to :attr:`parts`."""
        if self._open:
            text = " ".join("".join(self._text).split())
            if text:
                self.parts.append(_PagePart(self._open[0], text, self._codes))
        self._open, self._text, self._codes = None, [], []


class _StoredPages:
    """The documents of a store by the name of their page, in which the spans of definitions are found."""

    def __init__(self, store: kvstore.Store) -> None:
        """Group the keys of the documents by the file name of their page; a page can be stored as several documents."""
        self._store = store
        self._keys: dict[str, list[str]] = {}
        for key in sorted(store.keys()):
            self._keys.setdefault(Path(key.partition("#")[0]).name, []).append(key)

    def make_question(self, text: str, definition: Definition) -> Question:
        """Return a question with the spans of its definition, or without spans if the store lacks the definition."""
        document_keys = self._keys.get(definition.page, [])
        spans = tuple(self._find_spans(document_keys, definition))
        return Question(text, frozenset(document_keys), None, spans)

    def _find_spans(self, keys: Iterable[str], definition: Definition) -> Iterator[TextSpan]:
        """Yield the span of the definition's first words in each document that contains them.

        If they occur several times, the first occurrence directly after the title is preferred.
        """
        title = _WORD.findall(definition.title)
        for key in keys:
            document = self._store.get(key)
            assert document is not None
            matches = list(_WORD.finditer(document.text))
            words = [match.group() for match in matches]
            lead = list(definition.lead)
            starts = [start for start in range(len(words) - len(lead) + 1) if words[start : start + len(lead)] == lead]
            starts_after_title = [start for start in starts if words[max(0, start - len(title)) : start] == title]
            for start in (starts_after_title or starts)[:1]:
                yield TextSpan(key, matches[start].start(), matches[start + len(lead) - 1].end())
