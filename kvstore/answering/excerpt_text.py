"""The text of an excerpt: its snippets as people read them, after the title and headings that they need.

In: an excerpt, which is adjacent snippets of a passage, and the terms of the question. Out: one paragraph, in which
items, rows and code have lines of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import PurePosixPath

from ..text.blocks import skip_marker, to_plain_text
from ..text.patterns import compile_lazily
from ..text.words import count_written_words, list_terms
from .excerpts import Excerpt
from .passages import Passage
from .snippets import Snippet, truncate_snippet

#: The maximum number of words displayed of a title or heading before an excerpt.
_MAX_LABEL_WORDS = 12
#: The end of a sentence that the next one follows without a blank.
_UNSPACED_END_PATTERN = compile_lazily("[。！？｡][」』”’）)】》〉]*\\Z")

Stem = Callable[[str], str]


def render_excerpt(passage: Passage, excerpt: Excerpt, question_terms: Collection[str], stem: Stem) -> str:
    """Return the displayed text of an excerpt: sentences in a paragraph; items, rows and code on lines of their own.

    An excerpt is adjacent snippets of the passage. The title and headings that it needs to be understood precede it.
    ``question_terms`` are the stems of the words of the question, and ``stem`` returns the stem of a word.
    """
    snippets = passage.snippets[excerpt.first : excerpt.last + 1]

    def opens_item(snippet: Snippet) -> bool:
        """True if a snippet is a row, or the first sentence of an item. In plain text, a list is one block."""
        has_marker = skip_marker(passage.text, snippet.start, snippet.end) > snippet.start
        return snippet.kind == "table" or (snippet.kind == "item" and has_marker)

    is_list = snippets[0].kind == snippets[-1].kind == "item" and any(map(opens_item, snippets[1:]))
    text = ""
    for previous, snippet in zip([None, *snippets], snippets, strict=False):
        piece = truncate_snippet(snippet.text)
        if snippet.label and (previous is None or previous.term != snippet.term):
            piece = f"{snippet.label}: {piece}"
        if snippet.kind == "code":
            # Code among sentences is indented; code alone is displayed as written.
            margin = "" if snippets[0].kind == "code" else "    "
            separator = "\n" if text else ""
            text += separator + "\n".join(f"{margin}{line}" for line in piece.split("\n"))
        elif previous is not None and previous.block_index == snippet.block_index and not opens_item(snippet):
            text += piece if _UNSPACED_END_PATTERN.search(text) else f" {piece}"
        elif snippet.kind in ("item", "table") and (previous is not None or is_list):
            # A lead-in and its only item are one line.
            is_only_item = previous is not None and previous.is_lead_in and len(snippets) == 2
            text += f" {piece}" if is_only_item else f"\n{_get_list_marker(passage, snippet)} {piece}"
        else:
            separator = "\n" if previous is not None and previous.kind in ("code", "table") else " "
            text += f"{separator}{piece}" if text else piece
    subject = _find_subject(passage, snippets, excerpt.answer, question_terms, stem)
    if not subject:
        return text.lstrip("\n")
    separator = "" if text.startswith("\n") else " "
    return f"{subject}{separator}{text}" if subject.endswith(("?", "？")) else f"{subject}:{separator}{text}"


def _get_list_marker(passage: Passage, snippet: Snippet) -> str:
    """Return the list marker to display before an item: its number as written, such as ``2.``, or a dash."""
    marker = passage.text[snippet.start : skip_marker(passage.text, snippet.start, snippet.end)].strip()
    return marker if marker[:1].isdigit() else "-"


def _find_subject(
    passage: Passage, snippets: Sequence[Snippet], answer: str, question_terms: Collection[str], stem: Stem
) -> str:
    """Return the title and headings to display before an excerpt (``snippets``), joined by ``>``; empty if none.

    An excerpt needs the title if its first snippet does not name its subject, and all headings if that is an item or a
    row: an item means the opposite below "What to do" and "What not to do". A title or heading is also included if the
    question has a term of it that the excerpt lacks, or if it has the words of the ``answer`` and the excerpt lacks
    them. The file name can replace a missing title.
    """
    first = snippets[0]
    excerpt_text = " ".join(snippet.labeled_text for snippet in snippets)
    excerpt_terms = set(list_terms(excerpt_text, stem))
    lacks_answer = bool(answer) and answer not in excerpt_text
    is_entry = first.kind in ("item", "table")
    is_self_contained = first.kind == "prose" and not (first.label or first.needs_subject or first.needs_previous)
    heading = to_plain_text(passage.heading.rpartition(" > ")[2])
    title = to_plain_text(passage.title or "")
    parts = []
    labels = (  # each with True if the excerpt cannot be understood without it
        [(title, True)]
        if first.release is not None
        else [
            (title, not is_self_contained),
            *((parent, is_entry) for parent in passage.parent_headings),
            (heading, is_entry or not (is_self_contained or title)),
            (first.caption, True),
        ]
    )
    for label, is_needed in labels:
        label_terms = set(list_terms(label, stem))
        is_asked_for = any(term in question_terms for term in label_terms - excerpt_terms)
        if (
            label
            and (label == first.caption or count_written_words(label) <= _MAX_LABEL_WORDS)
            and not label_terms <= excerpt_terms
            and (is_needed or is_asked_for or (lacks_answer and answer in label))
        ):
            parts.append(label)
    if not title:
        # The file name replaces a missing title.
        path = PurePosixPath(passage.document)
        name_terms = set(list_terms(path.stem, stem))
        if (
            name_terms
            and not name_terms <= excerpt_terms.union(*(list_terms(part, stem) for part in parts))
            and (name_terms.issubset(question_terms) or (path.suffix and not is_self_contained))
        ):
            parts.insert(0, path.stem)
    return " > ".join(dict.fromkeys(parts))
